"""A sweep that has ended is extended: by more trials, or by more epochs, which resume from checkpoints."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from click.testing import CliRunner
from forked import hpometrics

from hpometrics.cli.main import main
from hpometrics.records.trial_record import TrialRecord
from hpometrics.results.run_directory import RunDirectory

ENGINE = """\
import os
import signal


class Steps:
    def __init__(self):
        self.count = 0

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


def train(params, run):
    steps = Steps()
    run.restore(steps=steps)
    for epoch in run.epochs():
        steps.count += 1
        with open("ledger.txt", "a") as ledger:
            print(params["x"], epoch, file=ledger)
        if [params["x"], epoch] == [int(part) for part in os.environ.get("KILL_AT", "0 0").split()]:
            os.kill(os.getpid(), signal.SIGKILL)
        run.log(score=steps.count * params["x"])
        if params["x"] == int(os.environ.get("STOP_AT", 0)):
            return
        if params["x"] != 4:
            run.checkpoint(steps=steps)
"""
SWEEP = """\
engine: {target: own_engine:train}
space: {x: {int: [1, 9]}}
metrics: {optimize: {metric: score, direction: maximize}}
search: {start: [{x: 1}, {x: 2}, {x: 3}, {x: 4}]}
budget: {trials: 4, epochs: 2}
"""
MORE = ("--set", "budget.epochs=5", "--extend")


@pytest.fixture
def ended(folder: Path) -> Path:
    """The folder of a sweep that has ended."""
    (folder / "own_engine.py").write_text(ENGINE)
    (folder / "sweep.yaml").write_text(SWEEP)
    ran = hpometrics("run", "sweep.yaml").result()
    assert ran.returncode == 0, ran.stderr
    return folder


def records_of(folder: Path) -> list[TrialRecord]:
    """The trials of the sweep."""
    return RunDirectory(folder / "runs/sweep").records()


def ledger(folder: Path) -> list[tuple[int, int]]:
    """The epochs that were trained, each with its param."""
    lines = (folder / "ledger.txt").read_text().splitlines()
    return [(int(x), int(epoch)) for x, epoch in map(str.split, lines)]


def check_extended(folder: Path) -> None:
    """Check that three trials have five epochs each, trained once, and the one without a checkpoint two."""
    records = records_of(folder)
    assert [len(record.epochs) for record in records] == [5, 5, 5, 2]
    assert [record.value for record in records] == [5, 10, 15, 8]
    assert sorted(set(ledger(folder))) == [(x, e) for x in (1, 2, 3) for e in range(5)] + [(4, 0), (4, 1)]


def test_more_epochs_resume_from_checkpoints(ended):
    """No epoch is trained twice; what stays as it is, is said; a further run does nothing."""
    refused = hpometrics("run", "sweep.yaml", *MORE[:2]).result()
    assert refused.returncode == 2 and "budget.epochs: 2 -> 5\n--extend resumes it" in refused.stderr
    ran = hpometrics("run", "sweep.yaml", *MORE).result()
    assert ran.returncode == 0, ran.stderr
    assert "3 of 4 trials continue from 2 to 5 epochs; 1 not, without a checkpoint\n" in ran.stderr
    assert "made again" not in ran.stderr  # the study was put aside, and is not damaged
    assert "Optimal Engine Params: (trial 2, epoch 4)" in ran.stdout
    check_extended(ended)
    assert len(ledger(ended)) == 17
    again = hpometrics("run", "sweep.yaml", *MORE).result()
    assert again.returncode == 0 and len(ledger(ended)) == 17
    assert "go on from" not in again.stderr


@pytest.mark.parametrize("place", ["1 3", "3 4"])
def test_killed_while_it_is_extended(ended, monkeypatch, place):
    """The same command, without --extend too, goes on; the epoch that was interrupted is trained again."""
    monkeypatch.setenv("KILL_AT", place)
    assert hpometrics("run", "sweep.yaml", *MORE).result().returncode == -signal.SIGKILL
    monkeypatch.delenv("KILL_AT")
    ran = hpometrics("run", "sweep.yaml", *MORE[:2]).result()
    assert ran.returncode == 0, ran.stderr
    check_extended(ended)
    assert len(ledger(ended)) == 18


STRIDING = """\
import os
import signal


class Steps:
    def __init__(self):
        self.count = 0

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


def train(params, run):
    steps = Steps()
    run.restore(steps=steps)
    for step in run.steps():
        steps.count += 1
        with open("LEDGER", "a") as ledger:
            print(params["x"], step, file=ledger)
        if (params["x"], step) == (2, 6) and not os.path.exists("LEDGER.killed"):
            open("LEDGER.killed", "x").close()
            os.kill(os.getpid(), signal.SIGKILL)
        if run.due:
            run.log(score=steps.count * params["x"])
            run.checkpoint(steps=steps)
"""


def test_more_steps_resume_from_checkpoints_through_a_kill(folder):
    """Reports stand at the steps where a longer sweep has them; only the step of the kill is repeated."""
    check_more_steps(folder, "")


def check_more_steps(folder: Path, backend: str) -> None:
    """Extend a sweep by steps, kill the process of a trial meanwhile, and look at its trials."""
    (folder / "own_engine.py").write_text(STRIDING.replace("LEDGER", str(folder / "ledger.txt")))
    budget = "budget: {trials: 2, steps: 4, every: 2}\nsearch: {start: [{x: 1}, {x: 2}]}\n"
    (folder / "sweep.yaml").write_text(SWEEP.partition("search:")[0] + budget + backend)
    assert hpometrics("run", "sweep.yaml").result().returncode == 0
    more = ("run", "sweep.yaml", "--set", "budget.steps=9")
    ran = hpometrics(*more, "--extend").result()
    assert "2 of 2 trials continue from 4 to 9 steps\n" in ran.stderr
    if not backend:  # the process of the trial is that of the command
        assert ran.returncode == -signal.SIGKILL
        ran = hpometrics(*more).result()
    assert ran.returncode == 0, ran.stderr
    records = records_of(folder)
    assert [[one.step for one in record.epochs] for record in records] == [[2, 4, 6, 8, 9]] * 2
    assert [record.value for record in records] == [9, 18]
    assert sorted(ledger(folder)) == sorted([(x, step) for x in (1, 2) for step in range(9)] + [(2, 6)])


def test_a_list_is_extended(folder, sweep):
    """Its trials are those of the list, and go on alike."""
    (folder / "own_engine.py").write_text(ENGINE)
    points = "backend: {list: [{x: 1}, {x: 2}, {x: 3}, {x: 4}]}"
    text = SWEEP.replace("search: {start: [{x: 1}, {x: 2}, {x: 3}, {x: 4}]}", points).replace(
        "trials: 4, ", ""
    )
    assert sweep(text).exit_code == 0
    result = sweep(text, *MORE)
    assert result.exit_code == 0, result.output
    check_extended(folder)
    assert len(ledger(folder)) == 17


def test_more_trials_beside_more_epochs(ended):
    """Both budgets grow in one command; the new trials have all epochs at once."""
    ran = hpometrics("run", "sweep.yaml", *MORE, "--set", "budget.trials=5").result()
    assert ran.returncode == 0, ran.stderr
    assert [len(record.epochs) for record in records_of(ended)] == [5, 5, 5, 2, 5]


def test_what_ended_early_stays(folder, sweep, monkeypatch):
    """A trial that its engine has ended is not trained on; fewer epochs reopen none."""
    (folder / "own_engine.py").write_text(ENGINE)
    monkeypatch.setenv("STOP_AT", "3")
    assert sweep(SWEEP).exit_code == 0
    result = sweep(SWEEP.replace("epochs: 2", "epochs: 4"), "--extend")
    stay = "1 not, ended by the engine; 1 not, without a checkpoint"
    assert f"2 of 4 trials continue from 2 to 4 epochs; {stay}" in result.stderr
    assert [len(record.epochs) for record in records_of(folder)] == [4, 4, 1, 2]
    fewer = sweep(SWEEP.replace("epochs: 2", "epochs: 3"), "--extend")
    assert fewer.exit_code == 0 and "go on from" not in fewer.stderr
    assert "new trials train for 3 epochs; trials with 4 are kept unchanged\n" in fewer.stderr


@pytest.mark.parametrize("limit", ["target: 6", "time: 0.001s"])
def test_a_budget_that_is_used_up_reopens_no_trial(ended, sweep, limit):
    """Reopened trials that no process may run would be lost to the table."""
    before = records_of(ended)
    refused = sweep(SWEEP.replace("epochs: 2", f"epochs: 4, {limit}"), "--extend")
    words = f"budget.{limit.partition(':')[0]} is used up, so no trial can continue; raise it too"
    assert refused.exit_code == 2 and words in refused.stderr
    assert records_of(ended) == before


def test_a_confirmation_is_made_again(ended):
    """It compared trainings of two epochs; they are put aside, and the winner is confirmed by five."""
    confirm = ("--set", "confirm.top=2", "--set", "confirm.repeats=3")
    assert hpometrics("run", "sweep.yaml", *confirm).result().returncode == 0
    ran = hpometrics("run", "sweep.yaml", *confirm, *MORE).result()
    assert ran.returncode == 0, ran.stderr
    runs = (ended / "runs/sweep/trials").glob("*/confirm/*/epochs.jsonl")
    assert {len(path.read_text().splitlines()) for path in runs} == {5}


@pytest.mark.ray
def test_on_ray(folder, on_ray):
    """The same: no epoch is trained twice."""
    (folder / "own_engine.py").write_text(ENGINE.replace('"ledger.txt"', f"{str(folder / 'ledger.txt')!r}"))
    (folder / "sweep.yaml").write_text(SWEEP + on_ray(workers=1))
    for more in ((), MORE):
        ran = hpometrics("run", "sweep.yaml", *more).result()
        assert ran.returncode == 0, ran.stderr
    check_extended(folder)
    assert len(ledger(folder)) == 17


def test_more_steps_on_ray(folder, on_ray):
    """The same, where Ray starts another worker after the kill."""
    check_more_steps(folder, on_ray(workers=1))


def test_more_trials_need_no_flag(ended):
    """A larger number of trials goes on by itself."""
    result = CliRunner().invoke(main, ["run", "sweep.yaml", "--set", "budget.trials=5"])
    assert result.exit_code == 0, result.output
    assert len(records_of(ended)) == 5
