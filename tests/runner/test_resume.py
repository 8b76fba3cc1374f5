from __future__ import annotations

import signal
import time

import pytest
from forked import hpometrics
from sample_sweeps import changed

from hpometrics.records.trial_record import TrialState
from hpometrics.results.run_directory import RunDirectory

LEARN = changed("toy_engine:train", "toy_engine:learn").replace("epochs: 3", "epochs: 6")


def finished(*arguments: str) -> tuple[int, str, str]:
    """Run the command to its end: exit code, stdout, stderr."""
    ran = hpometrics(*arguments).result()
    return ran.returncode, ran.stdout, ran.stderr


PROGRAM = """\
import json
print(json.dumps({"cost": 0.5}))
"""
ENGINE = """\
from helper import cost


def train(params, run):
    for _ in run.epochs(1):
        run.log(cost=cost)
"""


@pytest.mark.parametrize(
    ("engine", "file"),
    [("target: own_engine:train", "helper.py"), ("command: [python3, program.py, '{args}']", "program.py")],
)
def test_a_sweep_says_that_its_engine_has_changed(folder, engine, file):
    """A module beside it that it imports, the file of a command; it is said once, and the sweep goes on."""
    (folder / "own_engine.py").write_text(ENGINE)
    (folder / "helper.py").write_text("cost = 0.5\n")
    (folder / "program.py").write_text(PROGRAM)
    text = (
        f"engine: {{{engine}}}\nspace: {{lr: {{float: [0, 1]}}}}\nbudget: {{trials: 2, epochs: 1}}\n"
        "metrics: {optimize: {metric: cost, direction: minimize}}\n"
    )
    (folder / "sweep.yaml").write_text(text)
    assert "has changed" not in finished("run", "sweep.yaml")[2]
    source = (folder / file).read_text()
    (folder / file).write_text(source.replace("0.5", "0.25"))
    said = []
    for trials in (3, 4):
        code, _, err = finished("run", "sweep.yaml", "--set", f"budget.trials={trials}")
        assert code == 0, err
        said.append([line for line in err.splitlines() if "the engine has changed" in line])
    text = "the engine has changed since the recorded trials; new trials join them in one table"
    assert said == [[f"{file}: {text}, --fresh starts over"], []]
    values = [record.value for record in RunDirectory(folder / "runs/sweep").records()]
    assert values == [0.5, 0.5, 0.25, 0.25]


STEPS = LEARN.replace("epochs: 6", "steps: 11, every: 2")
LISTED = "".join(line for line in STEPS.splitlines(keepends=True) if "size" not in line)
LISTED = LISTED.replace("sampler: random, ", "")
LISTED += "backend: {list: [{lr: 0.01}, {lr: 0.02}, {lr: 0.03}, {lr: 0.04}]}\n"


@pytest.mark.parametrize(
    ("text", "steps"),
    [(LEARN, [None] * 6), (STEPS, [2, 4, 6, 8, 10, 11]), (LISTED, [2, 4, 6, 8, 10, 11])],
    ids=["epochs", "steps", "list of steps"],
)
def test_a_killed_sweep_goes_on_and_ends_as_if_nothing_had_happened(folder, monkeypatch, text, steps):
    """Killed in epoch 3 of the second trial, it goes on there with weights, optimizer and random states.

    Earlier trials are not run again, none stays running, and every value is that of an undisturbed sweep.
    """
    (folder / "sweep.yaml").write_text(text)
    (folder / "whole.yaml").write_text(text)
    monkeypatch.setenv("KILL_AT", "3")
    code, _, _ = finished("run", "sweep.yaml")
    assert code == -signal.SIGKILL
    home = RunDirectory(folder / "runs" / "sweep")
    assert [record.state for record in home.records()] == [TrialState.COMPLETE, TrialState.RUNNING]
    assert len(home.records()[1].epochs) == 3
    monkeypatch.delenv("KILL_AT")
    code, _out, err = finished("run", "sweep.yaml")
    assert code == 0, err
    assert "resuming: 1 of 4 done" in err
    assert finished("run", "whole.yaml")[0] == 0
    killed, whole = home.records(), RunDirectory(folder / "runs" / "whole").records()
    assert [r.state for r in killed] == [TrialState.COMPLETE] * 4
    assert [e.attempt for e in killed[1].epochs] == [1, 1, 1, 2, 2, 2]
    assert [e.step for e in killed[1].epochs] == steps
    assert [[e.values for e in r.epochs] for r in killed] == [[e.values for e in r.epochs] for r in whole]
    assert [r.params for r in killed] == [r.params for r in whole]
    assert [r.value for r in killed] == [r.value for r in whole]


def test_an_engine_that_ends_its_process_leaves_the_command_to_resume(folder):
    """A shell prints it, since the process cannot; the next run says what happened and finishes the sweep."""
    (folder / "sweep.yaml").write_text(changed("toy_engine:train", "toy_engine:vanish_once"))
    (folder / "prints").mkdir()
    arguments = ("run", "sweep.yaml", "--set", "budget.trials=1")
    assert hpometrics(*arguments, prints=folder / "prints").ended() == 1
    text = "or memory may have run out. Resume with:\n  hpometrics run sweep.yaml --set budget.trials=1\n"
    deadline = time.monotonic() + 10
    while text not in (err := (folder / "prints" / "err").read_text()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert err.endswith(text)
    code, _, err = finished(*arguments)
    assert code == 0, err
    assert "trial 0: its process died once in epoch 0" in err and "Resume with" not in err
