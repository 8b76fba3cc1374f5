from __future__ import annotations

import io
import re
import time

import pytest
from sample_sweeps import SWEEP, plan_of

from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState, write_trial
from hpometrics.results.manifest import resolve
from hpometrics.results.run_directory import RunDirectory
from hpometrics.runner.live import Progress

RESOLVED = resolve(plan_of(SWEEP))


class Terminal(io.StringIO):
    """A text stream that says that someone is watching."""

    def isatty(self) -> bool:
        return True


def record(trial: int, value: float | None, state: TrialState = TrialState.COMPLETE, **facts) -> TrialRecord:
    """A trial of one epoch."""
    epochs = () if value is None else (EpochRecord(0, {"roc_auc": value, "accuracy": 0.5}),)
    params = {"lr": 0.01, "depth": 1, "width": 8}
    return TrialRecord(trial, params, state, value, 0, epochs, seconds=61, **facts)


def test_a_line_per_trial_marks_the_best_so_far(capsys):
    """Better than all before, those of earlier runs included; a failure says why, on one line."""
    progress = Progress(RESOLVED, [record(0, 0.8)], quiet=False)
    progress.tell(record(1, 0.7))
    progress.tell(record(2, 0.9))
    progress.tell(record(3, None, TrialState.FAILED, reason="ValueError: a\x1b[31m\nb"))
    assert capsys.readouterr().err.splitlines() == [
        " #1    ok            roc_auc  0.700000  accuracy  0.500000  1 ep  1m01s  lr=0.01 depth=1 width=8",
        " #2    ok          * roc_auc  0.900000  accuracy  0.500000  1 ep  1m01s  lr=0.01 depth=1 width=8",
        " #3    failed        ValueError: a\\x1b[31m  0 ep  1m01s  lr=0.01 depth=1 width=8",
    ]


def test_of_equal_values_the_lower_number_is_the_best(capsys):
    """Whichever ends first, as in the result: with several workers trial 2 may end before trial 1."""
    progress = Progress(RESOLVED, [], quiet=False)
    for number in (2, 1, 3):
        progress.tell(record(number, 0.8))
    marked = [" * " in line for line in capsys.readouterr().err.splitlines()]
    assert marked == [True, True, False]


@pytest.mark.parametrize("quiet", [True, False])
def test_a_terminal_has_a_live_line(quiet, monkeypatch):
    """It counts, and shows the best; without a terminal, or when asked to be quiet, there is none."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    progress = Progress(RESOLVED, [], quiet)
    with progress.live():
        progress.tell(record(0, 0.8))
    assert ("1/4  best 0.8 (#0)  ok 1" in terminal.getvalue()) is not quiet


def test_the_live_line_has_the_epochs_of_trials_at_work(monkeypatch, tmp_path):
    """As far as their files have them: of those that are running, the first four."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    home = RunDirectory(tmp_path)
    states = dict.fromkeys(range(8), TrialState.RUNNING)
    states |= {0: TrialState.COMPLETE, 1: TrialState.INTERRUPTED}
    for number, state in states.items():
        written = record(number, 0.5, state)
        write_trial(home.trial(number), written)
        (home.trial(number) / "epochs.jsonl").write_text(f"{written.epochs[0].to_line()}\n")
    progress = Progress(RESOLVED, [record(0, 0.8)], False, home)
    with progress.live():
        time.sleep(0.3)
    four = ", ".join(f"#{number} 1/3 (0.5)" for number in (2, 3, 4, 5))
    assert f"  at work {four} ep and 2 more" in terminal.getvalue()


def test_a_trial_that_has_ended_is_read_once(tmp_path, monkeypatch):
    """Also one of a worker that joined, of which the run is not told: there may be thousands."""
    home, read = RunDirectory(tmp_path), []
    for number, state in enumerate([TrialState.COMPLETE, TrialState.RUNNING]):
        write_trial(home.trial(number), record(number, 0.5, state))
    whole = home.record
    monkeypatch.setattr(home, "record", lambda number: read.append(number) or whole(number))
    progress = Progress(RESOLVED, [], False, home)
    for _ in range(3):
        progress._read_trials_at_work(home)
    assert read == [0, 1, 1, 1]


def test_a_terminal_has_a_row_per_trial(monkeypatch):
    """Below one head, cut to the width; a failure says why below its row, whole."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "64")
    progress = Progress(RESOLVED, [], quiet=False)
    reason = f"ValueError: {'why ' * 20}end"
    with progress.live():
        progress.tell(record(0, 0.8))
        progress.tell(record(1, 0.7, TrialState.PRUNED))
        progress.tell(record(2, None, TrialState.FAILED, reason=reason))
    lines = [re.sub(r"\x1b\[[?\d;]*[A-Za-z]|.*\r", "", line) for line in terminal.getvalue().split("\n")]
    rows = [line for line in lines if line.startswith(("trial", "    "))]
    assert [row.split()[:3] for row in rows[:4]] == [
        ["trial", "state", "roc_auc"],
        ["0", "ok", "0.800000"],
        ["1", "pruned", "0.700000"],
        ["2", "failed", "-"],
    ]
    assert all(len(row) <= 64 for row in rows) and rows[1].endswith("…")
    assert " ".join(" ".join(rows[4:]).split())[: len(reason)] == reason


def test_a_trial_of_another_worker_ends_in_the_live_line(tmp_path):
    """As soon as its files say so: it is counted, no longer at work, and its seconds estimate the rest."""
    home = RunDirectory(tmp_path)
    write_trial(home.trial(0), record(0, 0.5, TrialState.RUNNING))
    progress = Progress(RESOLVED, [], False, home)
    assert progress._table.text() == "0/4    at work #0 0/3 ep"
    write_trial(home.trial(0), record(0, 0.5))
    progress._look_again = 0.0
    assert progress._table.text() == "1/4  ok 1  eta 3m03s"
    progress.tell(record(0, 0.5))
    assert progress._table.text() == "1/4  best 0.5 (#0)  ok 1  eta 3m03s"


@pytest.mark.parametrize("no_color", ["", "1"])
def test_no_color_leaves_out_every_style(no_color, monkeypatch):
    """Bold and dim too, as `no-color.org` has it for a value that is not empty; the live line still moves."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")
    progress = Progress(RESOLVED, [], quiet=False)
    with progress.live():
        progress.tell(record(0, 0.8))
        progress.tell(record(1, 0.7, TrialState.PRUNED))
    styles = re.findall(r"\x1b\[[\d;]*m", terminal.getvalue())
    assert bool(styles) is not bool(no_color)
    assert "\x1b[2K" in terminal.getvalue()


def test_a_failed_trial_names_its_traceback(tmp_path, capsys):
    """Where there is one; a worker that died has left none."""
    home = RunDirectory(tmp_path)
    home.trial(0).mkdir(parents=True)
    (home.trial(0) / "error.txt").touch()
    progress = Progress(RESOLVED, [], quiet=False, home=home)
    for number in (0, 1):
        progress.tell(record(number, None, TrialState.FAILED, reason="ValueError: no"))
    named, bare = capsys.readouterr().err.splitlines()
    assert f"ValueError: no  {tmp_path}/trials/0000/error.txt  0 ep" in named
    assert "ValueError: no  0 ep" in bare


def test_an_error_is_wrapped_to_the_terminal(monkeypatch):
    """At spaces, indented as its first line; a path stays whole, and quiet hides no error."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    path = "runs/a-long-name-of-a-sweep/trials/0000/error.txt"
    text = f"  ValueError: these are logits, pass them as logits=\n  {path}"
    Progress(RESOLVED, [], quiet=True).complain(text)
    lines = terminal.getvalue().splitlines()
    assert lines == ["  ValueError: these are logits, pass", "  them as logits=", f"  {path}"]
