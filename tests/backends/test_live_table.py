"""The live line of a search, on a terminal and in a notebook."""

from __future__ import annotations

import io
import re
import sys
import time
from types import ModuleType, SimpleNamespace

import pytest

from hpometrics import Float, ListObjective, OptunaObjective, RayObjective
from hpometrics.backends.live_table import AtWork, LiveTable
from hpometrics.backends.trial_lines import TrialLines
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState
from hpometrics.run.metric_spec import Reported

FACTS = {"metric": Reported("loss", MINIMIZE), "track": [Reported("gain", MAXIMIZE)], "epochs": 2}
POINTS = [{"x": 0.5}, {"x": 0.25}]


class Terminal(io.StringIO):
    """A text stream that says that someone is watching."""

    def isatty(self) -> bool:
        return True


class Handle:
    """What IPython's display returns; it keeps the texts that a notebook would show in turn."""

    def __init__(self, shown: list[str]) -> None:
        self.shown = shown

    def update(self, bundle, raw) -> None:
        self.shown.append(bundle["text/plain"])


def record(number: int, seconds: float, value: float = 0.5) -> TrialRecord:
    """A complete trial that took so long."""
    epochs = (EpochRecord(0, {"loss": value}),)
    return TrialRecord(number, {}, TrialState.COMPLETE, value, 0, epochs, seconds=seconds)


def table_of(finished: list[TrialRecord], at_work: list[AtWork], total: int = 6) -> LiveTable:
    """A table of a search of six trials of twelve epochs."""
    return LiveTable(
        TrialLines({"loss": MINIMIZE}, earlier=finished), finished, total, 12, "ep", lambda: at_work
    )


def waiting_train(read):
    """An engine whose last epoch ends once the live line shows that it is at work."""

    def train(params, run):
        number = 0 if params["x"] == 0.5 else 1
        for epoch in run.epochs():
            deadline = time.monotonic() + 10
            while epoch and f"at work #{number} 1/2 (" not in read() and time.monotonic() < deadline:
                time.sleep(0.01)
            run.log(loss=params["x"] + epoch, gain=1.0)

    return train


def search(kind: str, train) -> None:
    """Search the points as a user does."""
    if kind == "list":
        ListObjective(train, POINTS, **FACTS).run(progress=True)
    elif kind == "optuna":
        objective = OptunaObjective(train, {"x": Float(0, 1)}, **FACTS)
        study = objective.create_study()
        for point in POINTS:
            study.enqueue_trial(point)
        objective.optimize(study, 2, progress=True)
    else:
        objective = RayObjective(train, {"x": Float(0, 1)}, **FACTS)
        objective.tuner(2, points=POINTS, max_concurrent=1, progress=True).fit()


def plain(text: str) -> list[str]:
    """The lines of a terminal without its control codes."""
    return [re.sub(r"\x1b\[[?\d;]*[A-Za-z]|.*\r", "", line).rstrip() for line in text.split("\n")]


def terminal_of(monkeypatch) -> Terminal:
    """A terminal of 100 columns in place of stderr, for the rest of the test."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return stream


def test_a_trial_that_has_ended_is_not_at_work():
    """Whatever was read of its files before it ended."""
    table = table_of([record(0, 10.0)], [AtWork(0, 5, 9.0), AtWork(1, 5, 2.0, 0.71234)])
    assert table.text() == "1/6  best 0.5 (#0)  ok 1  eta 48.0s  at work #1 5/12 (0.7123) ep"
    table.count(record(1, 10.0))
    assert table.text() == "2/6  best 0.5 (#0)  ok 2  eta 40.0s"


def test_the_time_left_falls_while_a_trial_runs():
    """By what it has done, not below what the trials after it take; two at a time take half as long."""
    table = table_of([record(0, 10.0), record(1, 20.0)], [])
    left = [table.seconds_left([AtWork(2, 0, age)]) for age in (0.0, 5.0, 14.0, 40.0)]
    assert left == [60.0, 55.0, 46.0, 45.0]
    assert table.seconds_left([AtWork(2, 0, 5.0), AtWork(3, 0, 5.0)]) == 25.0
    assert table.seconds_left([AtWork(2, 0, 5.0)]) == 27.5  # the place of the other is free for a moment
    assert table_of([], []).seconds_left([AtWork(0, 1, 3.0)]) is None
    assert table_of([record(0, 10.0)], [], total=1).seconds_left([]) is None


@pytest.mark.parametrize("kind", ["list", "optuna"])
def test_python_has_the_live_line_of_a_terminal(kind, monkeypatch):
    """One head, a row per trial, and below them the epoch of the trial at work, the best and the rest."""
    terminal = terminal_of(monkeypatch)
    search(kind, waiting_train(terminal.getvalue))
    rows = [line for line in plain(terminal.getvalue()) if line.startswith(("trial", "    "))]
    assert [row.split()[:4] for row in rows] == [
        ["trial", "state", "loss", "v"],
        ["0", "ok", "0.500000", "1.00000"],
        ["1", "ok", "0.250000", "1.00000"],
    ]
    assert re.search(r"1/2  best 0.5 \(#0\)  ok 1  eta \S+  at work #1 1/2 \(0.25\) ep", terminal.getvalue())


@pytest.mark.ray
def test_a_tuner_has_the_live_line_of_a_terminal(ray_cluster, monkeypatch):
    """In the process of the Tuner."""
    terminal = terminal_of(monkeypatch)

    def train(params, run):
        for epoch in run.epochs():
            run.log(loss=params["x"] + epoch, gain=1.0)

    search("ray", train)
    rows = [line for line in plain(terminal.getvalue()) if line.startswith(("trial", "    "))]
    assert [row.split()[:3] for row in rows] == [
        ["trial", "state", "loss"],
        ["0", "ok", "0.500000"],
        ["1", "ok", "0.250000"],
    ]


@pytest.mark.parametrize("kind", ["list", "optuna"])
def test_a_notebook_has_a_live_line_that_is_updated(kind, monkeypatch, capsys):
    """Through one handle of IPython's display, which the process has loaded; trials have a line each.

    A notebook shows stderr in red, so the lines go to stdout.
    """
    shown: list[str] = []

    def display(bundle, raw, display_id):
        shown.append(bundle["text/plain"])
        return Handle(shown)

    shell, ipython, module = SimpleNamespace(kernel=object()), ModuleType("IPython"), ModuleType("display")
    ipython.get_ipython, module.display = lambda: shell, display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    search(kind, waiting_train(lambda: " ".join(shown)))
    assert any(text.startswith("1/2  best 0.5 (#0)  ok 1  eta ") for text in shown)
    assert shown[-1] == "2/2  best 0.25 (#1)  ok 2"
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert [line.split()[:3] for line in lines] == [["#0", "ok", "*"], ["#1", "ok", "*"]] and not printed.err


def test_a_shell_without_a_notebook_has_none(monkeypatch, capsys):
    """As IPython in a pipe: the lines alone."""
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    search("list", lambda params, run: [run.log(loss=1.0, gain=1.0) for _ in run.epochs()] and None)
    assert len(capsys.readouterr().err.splitlines()) == 2
