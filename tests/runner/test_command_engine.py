"""An engine in any language: told its params by a file, it tells an epoch per line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sample_sweeps import plan_of, problems_of

from hpometrics.records.trial_record import TrialState
from hpometrics.results.run_directory import RunDirectory
from hpometrics.runner import command_engine as printed

PROGRAM = Path(__file__).with_name("toy_program.py")


def told(mode: str = "well", more: str = "") -> str:
    """A sweep file over the program."""
    command = json.dumps([sys.executable, "toy_program.py", "{params_file}", mode])
    return f"""\
engine: {{command: {command}, params: {{words: [a, "b c"]}}}}
space: {{lr: {{choice: [0.5, 0.25, 0.75]}}}}
metrics: {{optimize: cross_entropy, track: [{{metric: megabytes, direction: minimize}}]{more}}}
search: {{sampler: grid}}
budget: {{epochs: 3}}
"""


@pytest.fixture
def run(sweep, folder):
    """Run the sweep, and give what was printed with the records."""
    shutil.copy(PROGRAM, folder)

    def call(text: str, *arguments: str):
        return sweep(text, *arguments), RunDirectory(folder / "runs/sweep")

    return call


def test_a_program_is_swept_as_a_function_is(run):
    """Its values have canonical names, the direction is the registry's, and the budget ends it."""
    result, home = run(told())
    assert result.exit_code == 0, result.output
    records = home.records()
    assert [record.value for record in records] == [0.5 + 1 / 3, 0.25 + 1 / 3, 0.75 + 1 / 3]
    assert [len(record.epochs) for record in records] == [3, 3, 3]
    assert "log_loss v" in result.stdout and "Optimal Engine Params: (trial 1, epoch 2)" in result.stdout
    given = json.loads((home.trial(1) / "params.json").read_text())
    assert given == {"lr": 0.25, "words": ["a", "b c"]}


def test_what_else_it_prints_is_kept(run):
    """Trial and seed reach it by its environment."""
    _, home = run(told())
    printed = (home.trial(2) / "output.txt").read_text().splitlines()
    seed = home.records()[2].seed
    assert printed[0] == f"reading 2 {seed}" and printed[1] == "{not an epoch"


def test_a_program_may_have_fewer_epochs_than_the_budget(run):
    """It ends by itself; the fourth epoch is its last."""
    result, home = run(told().replace("epochs: 3", "epochs: 9"))
    assert result.exit_code == 0, result.output
    assert [len(record.epochs) for record in home.records()] == [4, 4, 4]


def test_a_null_is_undefined_with_its_reason(run):
    """The epochs before it count."""
    _, home = run(told("null").replace("epochs: 3", "epochs: 9"))
    record = home.records()[0]
    assert record.epoch == 2 and record.epochs[3].reasons["log_loss"] == "the program printed null"


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("fails", "ended with exit code 1: out of luck"),
        ("complains", "ended with exit code 1: no such file: data.csv"),
        ("skips", 'the next epoch is 1, but the program printed: {"epoch": 2'),
    ],
)
def test_a_program_that_fails_is_a_failed_trial(run, mode, message):
    """With its last words as the reason; the exit code says that nothing is complete."""
    result, home = run(told(mode).replace("epochs: 3", "epochs: 3, failures: 9"))
    assert result.exit_code == 3
    assert len(home.records()) == 3
    for record in home.records():
        assert record.state is TrialState.FAILED and message in str(record.reason)


def test_a_trial_that_ends_first_ends_its_program(run):
    """It would sleep for an hour after the second epoch."""
    result, home = run(told("hangs").replace("epochs: 3", "epochs: 2"))
    assert result.exit_code == 0, result.output
    assert [record.state for record in home.records()] == [TrialState.COMPLETE] * 3


def test_what_a_program_tells_can_be_bounded(run):
    """Nothing is measured for it: neither of a registered name nor of its own."""
    result, home = run(told(more=", constraints: [megabytes <= 6, log_loss >= 0.6]"))
    assert result.exit_code == 0, result.output
    states = [record.state for record in home.records()]
    assert states == [TrialState.COMPLETE, TrialState.COMPLETE, TrialState.INFEASIBLE]


def test_a_program_that_is_not_there_is_named(run):
    """Before the first trial, with its place in the file."""
    result, home = run(told().replace(json.dumps(sys.executable), '"no-such-program"'))
    assert result.exit_code == 2
    message = "engine.command: cannot find the program 'no-such-program' in the folders of PATH"
    assert message in result.stderr and not home.path.exists()


def test_check_shows_the_command(sweep, folder):
    """Nothing is started."""
    result = sweep(told(), command="check")
    assert result.exit_code == 0, result.output
    assert "toy_program.py '{params_file}' well   output as the engine states" in result.output
    assert "log_loss   minimize <- registry   reads what the engine reports" in result.output


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("optimize: cross_entropy, ", "", "a program cannot name one"),
        (
            "optimize: cross_entropy",
            "track_examples: true, optimize: cross_entropy",
            "a program reports values",
        ),
        (
            "optimize: cross_entropy",
            "optimize: {combine: {log_loss: 1, brier: 2}}",
            "a program reports single",
        ),
    ],
)
def test_what_a_program_cannot_do_is_refused(old, new, message):
    """By `check`."""
    assert any(message in problem for problem in problems_of(told().replace(old, new)))


def test_a_metric_need_not_say_its_output():
    """Its direction is the same for all of them."""
    assert plan_of(told()).optimize.reported


def test_a_program_is_stopped_when_the_time_of_its_trial_is_up(run):
    """It hangs in its third epoch; the two before it stand, and the record says why there is no third."""
    text = told("hangs").replace("epochs: 3", "trials: 1, epochs: 3, trial_time: 2s")
    result, home = run(text)
    assert result.exit_code == 0, result.output
    [record] = home.records()
    assert (record.state, len(record.epochs), record.ended_by) == (TrialState.COMPLETE, 2, "trial_time")


def test_a_trial_ends_with_its_program_whatever_that_has_left_at_work(run, folder, monkeypatch):
    """What would sleep for an hour keeps the output of the program open; all its epochs are there."""
    monkeypatch.setattr(printed, "GRACE", 0.1)
    result, home = run(told("leaves").replace("epochs: 3", "epochs: 9, trials: 1"))
    os.kill(int((folder / "left").read_text()), signal.SIGKILL)
    assert result.exit_code == 0, result.output
    assert [len(record.epochs) for record in home.records()] == [4]


def test_lines_are_read_as_they_come():
    """Of any length and any bytes, with any end of line; the last one needs none."""
    script = (
        "import sys; sys.stdout.buffer.write(b'a\\r\\nb\\rc\\n' + b'x' * 300_000 + b'\\n\\xff\\xc3\\xa9')"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, bufsize=0) as process:
        assert [*filter(None, printed._read_lines_and_pauses(process))] == [
            "a\n",
            "b\n",
            "c\n",
            "x" * 300_000 + "\n",
            "\ufffdé",
        ]


def test_a_program_without_an_epoch_in_its_time_has_failed(run):
    """It hangs before its first epoch."""
    text = told("silent").replace("epochs: 3", "trials: 1, epochs: 3, trial_time: 0.1s")
    result, home = run(text)
    assert result.exit_code == 3
    assert "trial_time: the program printed no epoch within 0.1 seconds" in str(home.records()[0].reason)


def test_a_program_may_print_the_name_that_the_file_has(run, folder):
    """`val_accuracy` is `accuracy` in both; what the file says is reported keeps its name."""
    script = "import json; print(json.dumps({'val_accuracy': 0.5, 'val_loss': 0.25}))"
    command = json.dumps([sys.executable, "-c", script, "{lr}"])
    head = f"engine: {{command: {command}}}\nspace: {{lr: {{float: [0, 1]}}}}\n"
    track = "track: [{metric: val_loss, direction: minimize}]"
    result, home = run(
        f"{head}metrics: {{optimize: val_accuracy, {track}}}\nbudget: {{trials: 1, epochs: 1}}\n"
    )
    assert result.exit_code == 0, result.output
    assert home.records()[0].picked_values == {"accuracy": 0.5, "val_loss": 0.25}
