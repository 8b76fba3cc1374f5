from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path

import optuna
import pytest
from click.testing import CliRunner, Result
from matrix import EXHAUSTIVE
from optuna.distributions import FloatDistribution
from optuna.storages.journal import JournalFileBackend, JournalStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from hpometrics.cli.main import main

LR = {"lr": FloatDistribution(0.0, 1.0)}


def audit(path: Path | str, *arguments: object) -> Result:
    """Call `hpometrics audit` in this process."""
    return CliRunner().invoke(main, ["audit", str(path), *map(str, arguments)])


def codes(path: Path, *arguments: object) -> list[str]:
    """The codes of what is found."""
    (one,) = json.loads(audit(path, "--json", *arguments).stdout)
    return [finding["code"] for finding in one["findings"]]


def ended(
    lr: float, value: float | None, epochs: Iterable[float] = (), state: str = "COMPLETE"
) -> FrozenTrial:
    """A trial as a study keeps it."""
    steps = dict(enumerate(epochs))
    values = {} if value is None else {"value": value}
    return create_trial(
        state=TrialState[state], params={"lr": lr}, distributions=LR, intermediate_values=steps, **values
    )


@pytest.fixture(params=["sqlite", pytest.param("journal", marks=EXHAUSTIVE)])
def stored(request, tmp_path) -> Callable[..., Path]:
    """Keep trials in a study of a real storage, and give its file."""

    def keep(
        trials: Iterable[FrozenTrial], direction: str = "maximize", name: str = "s", metric: str = ""
    ) -> Path:
        path = tmp_path / "kept"
        if request.param == "sqlite":
            storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
        else:
            storage = JournalStorage(JournalFileBackend(str(path)))
        study = optuna.create_study(storage=storage, study_name=name, direction=direction)
        study.add_trials(list(trials))
        if metric:
            study.set_user_attr("metric", metric)
        if request.param == "sqlite":
            storage.remove_session()
            storage.engine.dispose()
        return path

    return keep


@pytest.mark.parametrize("stored", ["sqlite", "journal"], indirect=True)
def test_a_study_without_flaws_has_no_findings(stored):
    """Best epochs as values, each point once: exit code 0."""
    path = stored([ended(lr / 10, lr / 10, [0.0, lr / 10]) for lr in range(5)], metric="accuracy")
    result = audit(path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        f"{path}  Optuna study 's'",
        "  5 trials: complete 5",
        "  metric accuracy (from the study attribute metric): must be maximized; the search maximizes it",
        "0 findings",
    ]


@pytest.mark.parametrize(
    ("arguments", "name", "teller"),
    [((), "cnn val_acc", "the name of the study"), (("--metric", "val/acc"), "cnn", "--metric")],
)
def test_a_direction_that_contradicts_the_metric(stored, arguments, name, teller):
    """Named with both trials: the one that was taken for the best, and the one that is."""
    path = stored([ended(0.1, 0.9, [0.1, 0.9]), ended(0.2, 0.3, [0.2, 0.3])], "minimize", name)
    result = audit(path, *arguments)
    assert result.exit_code == 1
    if not arguments:
        assert "acc: accuracy (from the name of the study) must be maximized" in result.stdout
    assert (
        f"(from {teller}) must be maximized, but the search minimizes it: "
        "its best trial, 1 with 0.3, is really the worst" in result.stdout
    )
    remedy = "-> search again with the direction maximize; the best of these trials is 0 with 0.9"
    assert remedy in result.stdout


def test_an_infinite_winner(stored):
    """Optuna takes infinity for the best."""
    path = stored([ended(0.1, math.inf, [0.1, math.inf]), ended(0.2, 0.3, [0.2, 0.3])])
    assert codes(path) == ["not-finite"]
    assert "trial 0 is the best with inf, which no finite value can beat" in audit(path).stdout


def test_the_last_epoch_against_the_best(stored):
    """The pick by the best epoch is another trial."""
    path = stored([ended(0.1, 0.7, [0.6, 0.7]), ended(0.2, 0.5, [0.9, 0.5])])
    (one,) = json.loads(audit(path, "--json").stdout)
    (finding,) = one["findings"]
    assert (finding["code"], finding["trials"]) == ("last-epoch", ["0", "1"])
    assert finding["text"] == (
        "the best is trial 0 with 0.7, the value of its last epoch; trial 1 had 0.9 at epoch 0, "
        "and 1 of 2 trials ended below their best"
    )
    kept = stored([ended(0.1, 0.7, [0.6, 0.7])], name="other")
    assert codes(kept, "--study", "other") == []


def test_epochs_of_another_value_are_no_last_epochs(stored):
    """A study that reports a loss and returns an accuracy is not judged by its epochs."""
    assert codes(stored([ended(0.1, 0.7, [2.0, 1.0]), ended(0.2, 0.5, [9.0, 1.5])])) == []


def test_a_pruner_that_saw_nothing(stored):
    """No trial has reported; one was pruned all the same, so that an error stands behind it."""
    path = stored([ended(0.1, 0.7), ended(0.2, 0.5), ended(0.3, None, state="PRUNED")])
    assert codes(path) == ["unreported", "pruned-unreported"]
    assert codes(path, "--ignore", "unreported") == ["pruned-unreported"]
    told = audit(path).stdout
    assert "none of 3 trials reported a value before its end, so a pruner (Optuna's default is" in told
    assert "pruned-unreported: trial 2 is pruned without a reported value: no pruner judged it" in told


def test_trials_left_running(stored):
    """Of which nobody has heard for an hour; one that has just begun is none."""
    trials = [ended(0.1, 0.7, [0.6, 0.7]), ended(0.2, None, [0.5], "RUNNING")]
    path = stored(trials)
    assert codes(path) == []
    long_ago = time.time() - 7300
    os.utime(path, (long_ago, long_ago))
    assert "left-running: trial 1 is still running, but nothing was written for 2h01m" in audit(path).stdout


def test_trials_left_running_in_a_storage_that_was_copied(stored):
    """Its file is new: what tells is that all trials that ended took minutes, and these began days ago."""
    begun = [ended(lr, None, [0.5], "RUNNING") for lr in (0.2, 0.3)]
    trials = [ended(0.1, 0.7, [0.6, 0.7]), *begun]
    now = datetime.now()
    trials[0].datetime_start = now - timedelta(days=3, minutes=9)
    trials[0].datetime_complete = now - timedelta(days=3)
    trials[1].datetime_start = now - timedelta(days=3)
    path = stored(trials)
    told = "left-running: trial 1 is still running after 72h00m, but the longest finished trial took 9m00s"
    assert told in audit(path).stdout
    assert codes(stored([trials[0], trials[2]], name="t"), "--study", "t") == []


def test_trials_that_have_not_begun_overshoot_nothing(stored):
    """A queue of points is no trial that was run."""
    trials = [ended(0.1, 0.7, [0.6, 0.7]), ended(0.2, None, state="WAITING")]
    path = stored(trials)
    assert codes(path, "--budget", 1) == []


@pytest.mark.parametrize(
    ("name", "judged"), [("f1", True), ("cnn-F1", True), ("r2", True), ("run-r2", False)]
)
def test_a_study_may_be_named_by_two_letters(stored, name, judged):
    """As f1 is; others may be anything, unless they are the whole name."""
    path = stored([ended(0.1, 0.7, [0.6, 0.7]), ended(0.2, 0.8, [0.6, 0.8])], "minimize", name)
    assert ("direction" in codes(path)) is judged


def test_points_tried_twice(stored):
    """Two workers of one seed: each point is there twice, and their values differ by luck."""
    path = stored(
        [ended(lr, lr + luck, [0.0, lr + luck]) for luck in (0.0, 0.25) for lr in (0.25, 0.5, 0.75)]
    )
    (one,) = json.loads(audit(path, "--json").stdout)
    (finding,) = one["findings"]
    assert finding["text"] == (
        "only 3 points in 6 trials: 0 = 3, 1 = 4, 2 = 5; values for the same params differ by up to 0.25"
    )


def test_a_budget_that_was_overshot(stored):
    """Counted with --budget, as no storage keeps it."""
    path = stored([ended(lr / 10, lr / 10, [0.0, lr / 10]) for lr in range(5)])
    assert codes(path, "--budget", 5) == []
    assert "overshot: 5 trials were started, but 3 were requested" in audit(path, "--budget", 3).stdout


def test_each_objective_of_several_has_its_direction(tmp_path):
    """Metric names of the study say which."""
    storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path / 'kept'}")
    study = optuna.create_study(storage=storage, directions=["maximize", "maximize"])
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        study.set_metric_names(["accuracy", "log_loss"])
    study.add_trial(create_trial(params={"lr": 0.1}, distributions=LR, values=[0.5, 0.7]))
    storage.engine.dispose()
    told = json.loads(audit(tmp_path / "kept", "--json").stdout)
    assert [[finding["code"] for finding in one["findings"]] for one in told] == [[], ["direction"]]
    assert "log_loss (from the metric name of the study) must be minimized" in told[1]["findings"][0]["text"]


@pytest.mark.parametrize("live", [False, True])
def test_nothing_is_written(tmp_path, live):
    """Neither to the file nor beside it, whether or not a worker has it open with a write-ahead log."""
    path = tmp_path / "study.db"
    storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
    with storage.engine.begin() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode=WAL")
    optuna.create_study(storage=storage, study_name="s").add_trial(ended(0.1, 0.5, [0.5, 0.5]))
    if not live:
        storage.remove_session()
        storage.engine.dispose()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert ("study.db-wal" in before) is live
    assert "1 trials: complete 1" in audit(path).stdout
    files = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert files.keys() == before.keys() and files["study.db"] == before["study.db"]
    storage.engine.dispose()


def test_a_journal_that_was_cut_off(tmp_path):
    """Its next writer would ruin it."""
    path = tmp_path / "journal.log"
    study = optuna.create_study(storage=JournalStorage(JournalFileBackend(str(path))), study_name="s")
    study.add_trial(ended(0.1, 0.5, [0.6, 0.5]))
    study.add_trial(ended(0.2, 0.5, [0.6, 0.5]))
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    assert codes(path) == ["torn"]
    assert path.read_bytes() == whole[:-7]


@pytest.mark.parametrize("stored", ["sqlite", "journal"], indirect=True)
def test_a_run_directory_has_its_study_in_a_file_of_the_storage(stored, request, tmp_path):
    """Of either kind: the findings are those of the file."""
    path = stored([ended(0.1, 0.5, [0.6, 0.5]), ended(0.1, 0.5)])
    home = tmp_path / "run"
    home.mkdir()
    path.rename(
        home / {"sqlite": "study.db", "journal": "study.journal"}[request.node.callspec.params["stored"]]
    )
    (named,) = home.iterdir()
    assert codes(home) == codes(named) != []


def test_an_sqlite_file_may_be_named_by_its_url(tmp_path):
    """As Optuna's own commands have it; a study on a server is to be copied, and no password is printed."""
    storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path / 'kept.db'}")
    optuna.create_study(storage=storage, study_name="s", direction="maximize")
    storage.engine.dispose()
    assert audit(f"sqlite:///{tmp_path / 'kept.db'}").stdout == audit(tmp_path / "kept.db").stdout
    refused = audit("postgresql://me:secret@host/studies")
    assert refused.exit_code == 2 and "with optuna.copy_study" in refused.stderr
    assert "secret" not in refused.stderr


def test_what_cannot_be_read_is_one_line(tmp_path):
    """Exit code 2, and what it is instead."""
    (tmp_path / "text").write_text("no journal\n")
    (tmp_path / "json").write_text('{"a": 1}\n')
    (tmp_path / "base").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    for name in ("text", "json", "base"):
        result = audit(tmp_path / name)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"{tmp_path / name}: cannot be read as an Optuna storage: " in result.stderr
    assert "nowhere does not exist" in audit(tmp_path / "nowhere").stderr
    neither = "contains no study.db or study.journal, and no trial folder of Ray with result.json"
    assert neither in audit(tmp_path).stderr
    storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path / 'empty'}")
    storage.engine.dispose()
    assert "has no study 'x'; it has none" in audit(tmp_path / "empty", "--study", "x").stderr
    assert f"{tmp_path / 'empty'} contains no study\n" == audit(tmp_path / "empty").stderr
