from __future__ import annotations

import stat

import pytest
from sample_sweeps import SWEEP, changed, plan_of

from hpometrics.exceptions import ConfigError
from hpometrics.records._files import write_text
from hpometrics.records.trial_record import TrialRecord, write_trial
from hpometrics.results.manifest import resolve
from hpometrics.results.run_directory import RunDirectory

RESOLVED = resolve(plan_of(SWEEP))


def opened(home: RunDirectory, text: str = SWEEP, *, fresh: bool = False, extend: bool = False):
    """Open it for a sweep."""
    return home.opened(text, resolve(plan_of(text)), fresh=fresh, extend=extend)


@pytest.fixture
def home(tmp_path):
    """A run directory that has been used once."""
    home = RunDirectory(tmp_path / "runs" / "sweep")
    with opened(home):
        pass
    return home


def test_it_is_private_and_says_what_it_is_about(home):
    """The file as it was given, and as it was understood."""
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o700
    assert home.sweep_file.read_text() == SWEEP
    assert home.read() == RESOLVED
    assert home.records() == []


def test_one_run_at_a_time(home):
    """A second one is refused while the first is at work, and welcome afterwards."""
    with opened(home):
        with pytest.raises(ConfigError, match="another run is using it"), opened(home):
            pass
        with pytest.raises(ConfigError, match="another run is using it"), opened(home, fresh=True):
            pass
    with opened(home):
        pass


def test_a_foreign_directory_is_left_alone(tmp_path):
    """What holds something else is not filled, and not renamed."""
    (tmp_path / "thesis.tex").touch()
    for fresh in (False, True):
        with pytest.raises(ConfigError, match=r"holds 'thesis.tex' and no sweep; choose another results.dir"):
            with opened(RunDirectory(tmp_path), fresh=fresh):
                pass
    with pytest.raises(ConfigError, match="is not a run directory"):
        RunDirectory(tmp_path).read()


@pytest.mark.parametrize("last", ["sweep.resolved.yaml", "sweep.yaml"])
def test_a_run_that_was_killed_at_its_start_begins_again(tmp_path, monkeypatch, last):
    """Before it writes one of its first files: what it has left is not taken for files of others."""

    def write_or_die(path, text):
        if path.name == last:
            raise KeyboardInterrupt
        write_text(path, text)

    home = RunDirectory(tmp_path / "run")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("hpometrics.results.run_directory.write_text", write_or_die)
        with opened(home):
            pass
    with opened(home):
        pass
    assert home.sweep_file.exists() and home.trials.is_dir()


def test_a_changed_space_is_explained(home):
    """The difference is shown; --extend accepts it and writes it down."""
    wider = changed("1e-1]", "1.0]")
    with pytest.raises(
        ConfigError, match=r"space.lr.float: \[0.0001, 0.1\] -> \[0.0001, 1.0\]\n--extend resumes it"
    ):
        with opened(home, wider):
            pass
    with opened(home, wider, extend=True):
        pass
    assert home.read() == resolve(plan_of(wider))


def test_another_metric_starts_over(home):
    """Values of two metrics cannot stand in one table, whatever the flags."""
    other = changed("roc_auc", "log_loss")
    for extend in (False, True):
        with pytest.raises(ConfigError, match=r"metric: roc_auc -> log_loss\n(.|\n)*--fresh starts over"):
            with opened(home, other, extend=extend):
                pass


def test_fresh_puts_the_old_one_aside(home):
    """Nothing is deleted; the names count up."""
    (home.path / "best.yaml").write_text("old")
    for _ in range(2):
        with opened(home, changed("roc_auc", "log_loss"), fresh=True):
            pass
    names = sorted(path.name for path in home.path.parent.iterdir())
    assert names == ["sweep", "sweep.old-1", "sweep.old-2"]
    assert (home.path.parent / "sweep.old-1" / "best.yaml").read_text() == "old"


def test_what_lies_beside_the_trials_is_no_trial(tmp_path):
    """Files that a file manager leaves, and a copy that somebody made of a trial."""
    write_trial(tmp_path / "trials/0000", TrialRecord(0, {}))
    write_trial(tmp_path / "trials/0000 copy", TrialRecord(0, {}))
    (tmp_path / "trials/.DS_Store").touch()
    (tmp_path / "trials/7").touch()
    assert [record.number for record in RunDirectory(tmp_path).records()] == [0]


LOCKS = (
    ".lock",
    "study.db.lock",
    "study.journal.lock",
    "study.journal.slots.lock",
    ".home.lock",
    ".locks/0001",
    ".locks/confirm/0001-2",
)


@pytest.mark.parametrize("name", LOCKS)
def test_a_directory_in_the_place_of_a_lock_is_put_aside(home, name):
    """It would be a dead end: no process can lock it."""
    path = home.path / name
    path.unlink(missing_ok=True)
    path.mkdir(parents=True)
    with opened(home):
        home.check_no_worker()
    assert home.remarks == [f"{path}: is a directory, kept as {path.name}.damaged-1"]
    again = RunDirectory(home.path)
    with opened(again):
        again.check_no_worker()
    assert again.remarks == []
    path.unlink(missing_ok=True)
    path.mkdir()
    with opened(home, fresh=True):
        pass


def test_a_directory_called_as_a_lock_of_something_else_is_left_alone(tmp_path):
    """Where there is no sweep, nothing is renamed."""
    (tmp_path / "thesis.tex").touch()
    (tmp_path / ".lock").mkdir()
    with pytest.raises(ConfigError, match=r"holds 'thesis.tex' and no sweep"), opened(RunDirectory(tmp_path)):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "thesis.tex"]
