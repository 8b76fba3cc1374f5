from __future__ import annotations

import json
import statistics

import pytest
from click.testing import CliRunner, Result
from sample_sweeps import SWEEP, changed

from hpometrics.cli.main import main
from hpometrics.results.run_directory import RunDirectory
from hpometrics.run.reporter import derive_seed

HOME = "runs/sweep"
LEARN = changed("toy_engine:train", "toy_engine:learn")


def replay(*arguments: str) -> Result:
    """Call `hpometrics replay`."""
    return CliRunner().invoke(main, ["replay", *arguments])


def record(folder, number):
    """A trial of the sweep in this folder."""
    return RunDirectory(folder / HOME).records()[number]


@pytest.mark.parametrize("text", [SWEEP, LEARN, changed("[accuracy]", "[roc_curve]")])
def test_the_best_trial_comes_out_to_the_last_digit(text, swept, folder):
    """Value, epoch and what was tracked, a curve too; nothing is written."""
    swept(text)
    before = {path: path.read_bytes() for path in (folder / HOME).rglob("*") if path.is_file()}
    result = replay(HOME)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    best = int(lines[0].split()[2])
    assert lines[0] == (
        f"replaying trial {best} of sweep: toy_engine:{text.partition('toy_engine:')[2].split(',')[0]}, "
        f"seed {derive_seed(3, best)}, threads 1"
    )
    assert lines[1] == f"  roc_auc: {record(folder, best).value}  as recorded"
    assert lines[-1] == "roc_auc came out as recorded, to the last digit"
    assert all(line.endswith("  as recorded") for line in lines[1:-1])
    assert {path: path.read_bytes() for path in (folder / HOME).rglob("*") if path.is_file()} == before


def test_best_yaml_means_its_trial(swept):
    """It stands in the directory of its sweep."""
    swept(SWEEP)
    assert replay(f"{HOME}/best.yaml").stdout == replay(HOME).stdout


def test_another_trial_may_be_replayed(swept, folder):
    """By its number."""
    swept(SWEEP)
    for number in range(4):
        result = replay(HOME, "--trial", str(number))
        assert result.exit_code == 0
        assert f"  roc_auc: {record(folder, number).value}  as recorded\n" in result.stdout


def test_over_seeds_mean_and_deviation_are_told(swept, folder):
    """The recorded seed is the first, each other one is a repeat of the trial."""
    swept(SWEEP)
    lines = replay(HOME, "--trial", "1", "--seeds", "3").stdout.splitlines()
    told = [line.removeprefix("  seed ").split(": ") for line in lines if line.startswith("  seed ")]
    assert [int(seed) for seed, _ in told] == [derive_seed(3, 1, repeat) for repeat in range(3)]
    values = [float(value) for _, value in told]
    assert values[0] == record(folder, 1).value and len(set(values)) > 1
    mean, deviation = statistics.fmean(values), statistics.stdev(values)
    assert lines[-1] == f"roc_auc over 3 seeds: mean {mean}, deviation {deviation}"


def test_a_script_is_told_what_came_out(swept, folder):
    """The value beside the recorded one, and whether they are the same; the lines go to stderr."""
    swept(SWEEP)
    text, result = replay(HOME, "--trial", "1"), replay(HOME, "--trial", "1", "--json")
    assert (result.exit_code, result.stderr) == (0, text.stdout)
    told, trial = json.loads(result.stdout), record(folder, 1)
    assert (told["sweep"], told["trial"], told["seed"]) == ("sweep", 1, derive_seed(3, 1))
    assert told["reproduced"] is True and told["failure"] is None and told["versions_changed"] == []
    both = {"recorded": trial.value, "again": trial.value, "same": True}
    assert told["values"]["roc_auc"] == both and list(told["values"]) == ["roc_auc", "epoch", "accuracy"]
    assert "seeds" not in told


def test_a_script_is_told_what_did_not_come_out(swept, folder):
    """The code is that of the text."""
    swept(SWEEP)
    file = folder / HOME / "trials/0001/trial.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"value": 0.125}))
    result = replay(HOME, "--trial", "1", "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["reproduced"]) == (1, False)
    assert told["values"]["roc_auc"]["recorded"] == 0.125 and not told["values"]["roc_auc"]["same"]


def test_what_an_engine_prints_is_no_result(sweep):
    """It goes to stderr."""
    sweep(changed("toy_engine:train", "toy_engine:shout"))
    result = replay(HOME, "--trial", "1", "--json")
    assert (result.exit_code, json.loads(result.stdout)["reproduced"]) == (0, True)
    assert "training" in result.stderr


def test_a_script_is_told_the_values_over_seeds(swept):
    """With the mean and the deviation that the text tells."""
    swept(SWEEP)
    result = replay(HOME, "--trial", "1", "--seeds", "3", "--json")
    told = json.loads(result.stdout)
    values = [one["values"]["roc_auc"] for one in told["seeds"]]
    assert [one["seed"] for one in told["seeds"]] == [derive_seed(3, 1, repeat) for repeat in range(3)]
    mean, deviation = statistics.fmean(values), statistics.stdev(values)
    assert told["spread"] == {"roc_auc": {"mean": mean, "deviation": deviation, "failed": 0}}


def test_a_script_is_told_of_seeds_that_failed(swept):
    """They have a reason and no values."""
    swept(changed("toy_engine:train", "toy_engine:always_fail"))
    told = json.loads(replay(HOME, "--trial", "0", "--seeds", "2", "--json").stdout)
    assert {one["failure"] for one in told["seeds"]} == {"ValueError: never works"}
    assert told["spread"] == {"roc_auc": {"mean": None, "deviation": None, "failed": 2}}


def test_a_seed_that_fails_is_no_value(swept, folder):
    """It is told and left out of the mean, whatever it had reached."""
    swept(changed("toy_engine:train", "toy_engine:always_fail"))
    lines = replay(HOME, "--trial", "0", "--seeds", "2").stdout.splitlines()
    assert lines[-2].endswith(": failed: ValueError: never works")
    assert lines[-1] == "roc_auc over 2 seeds, 2 of which failed: too few values for a deviation"


def test_the_settings_of_the_run_are_those_of_the_replay(sweep, folder):
    """What was assigned on the command line too, and the folder of the sweep file for the engine."""
    inside = folder / "inside"
    inside.mkdir()
    (folder / "toy_engine.py").rename(inside / "toy_engine.py")
    (inside / "sweep.yaml").write_text(SWEEP)
    text = ["run", "inside/sweep.yaml", "--set", "budget.epochs=2", "--set", "metrics.at=last"]
    assert CliRunner().invoke(main, text).exit_code == 0
    assert "  epoch: 1  as recorded\n" in replay(HOME).stdout


def test_what_does_not_come_out_names_the_versions(swept, folder):
    """With exit code 1; those of the record are compared with those here."""
    swept(SWEEP)
    path = folder / HOME / "trials" / "0001" / "trial.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "value": 0.25, "versions": {**told["versions"], "torch": "0.4"}}))
    result = replay(HOME, "--trial", "1")
    assert result.exit_code == 1
    assert "  recorded 0.25\n" in result.stdout
    assert "versions that differ: torch 0.4 -> " in result.stdout


def test_a_failed_trial_fails_again(sweep, folder):
    """For the same reason, which is what its record has."""
    sweep(changed("toy_engine:train", "toy_engine:fail"))
    states = [record(folder, number).state for number in range(4)]
    result = replay(HOME, "--trial", str(states.index("failed")))
    assert result.exit_code == 0
    assert "reason came out as recorded, to the last digit" in result.stdout


def test_a_complete_trial_that_fails_is_told(swept, folder):
    """The engine has changed since."""
    swept(SWEEP)
    best = folder / HOME / "sweep.resolved.yaml"
    best.write_text(best.read_text().replace("toy_engine:train", "toy_engine:always_fail"))
    result = replay(HOME)
    assert result.exit_code == 1
    assert "  failed: ValueError: never works\n  roc_auc: -  recorded " in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([HOME, "--trial", "9"], f"{HOME}: has no trial 9; there are 0, 1, 2, 3"),
        (["."], "is not a run directory; it has no sweep.resolved.yaml"),
        ([HOME, "toy_engine:train"], "MODULE:EVALUATION is for a best.json"),
        ([f"{HOME}/sweep.yaml"], "is not a best.yaml, it names no trial"),
        (["nowhere"], "'nowhere' does not exist"),
    ],
)
def test_what_cannot_be_replayed_is_refused(arguments, message, swept):
    """With exit code 2."""
    swept(SWEEP)
    result = replay(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_a_trial_that_was_stopped_is_refused(swept, folder):
    """Its end was the pruner's, not its own."""
    swept(SWEEP)
    path = folder / HOME / "trials" / "0001" / "trial.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "state": "pruned"}))
    result = replay(HOME, "--trial", "1")
    assert (result.exit_code, "trial 1 is pruned, and its end was not its own" in result.stderr) == (2, True)


def test_nothing_complete_is_exit_code_3(swept):
    """As of the sweep."""
    swept(changed("toy_engine:train", "toy_engine:always_fail"))
    assert replay(HOME).exit_code == 3
