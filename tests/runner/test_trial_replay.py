from __future__ import annotations

import json
import re
import statistics
from dataclasses import replace

import pytest
from click.testing import CliRunner, Result
from fsspec.implementations.memory import MemoryFileSystem
from sample_sweeps import DOMINATED, SEVERAL, SWEEP, changed

from hpometrics.cli.main import main
from hpometrics.results.run_directory import RunDirectory
from hpometrics.runner.trial_replay import _section_of as section_of
from hpometrics.space.draws import derive_seed

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
    assert lines[-1] == "roc_auc matches the record, to the last digit"
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
    assert lines[-1] == "roc_auc over 2 seeds (2 failed): too few values for a deviation"


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
    assert "reason matches the record, to the last digit" in result.stdout


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


def verify(*arguments: str) -> Result:
    """Call `hpometrics verify`, on Optuna in this process unless the arguments say otherwise."""
    others = () if "--backend" in arguments else ("--backend", "optuna", "--workers", "1")
    return CliRunner().invoke(main, ["verify", HOME, *arguments, *others])


TPE = "search: {sampler: tpe, seed: 3, pruner: {median: {min_trials: 1}}}"
LEARNING = changed("sampler: random", "sampler: {tpe: {n_startup_trials: 2}}").replace(
    "trials: 4", "trials: 8"
)
WAYS = {
    "random": SWEEP,
    "qmc": changed("sampler: random", "sampler: qmc"),
    "grid": changed("{float: [1e-4, 1e-1], log: true}", "{choice: [0.1, 0.2, 0.3]}").replace(
        "sampler: random", "sampler: grid"
    ),
    "tpe": changed("search: {sampler: random, seed: 3}", TPE).replace("trials: 4", "trials: 8"),
    "several": SEVERAL,
    "dominated": DOMINATED,
    "repeats": changed("epochs: 3", "epochs: 3, repeats: 2"),
    "failing": changed("toy_engine:train", "toy_engine:fail"),
    "confirmed": f"{SWEEP}confirm: {{top: 2, repeats: 3}}\n",
    "started": changed("search: {", "search: {start: [{lr: 0.05}], "),
    "copied": f"{SWEEP}results: {{copy_to: 'memory://verified'}}\n",
}


@pytest.mark.parametrize("text", WAYS.values(), ids=WAYS)
def test_trials_come_out_here_and_in_another_search(text, swept, folder):
    """Whatever drew, pruned or repeated them; nothing is written into the directory."""
    swept(text)
    before = {path: path.read_bytes() for path in (folder / HOME).rglob("*") if path.is_file()}
    MemoryFileSystem.store.clear()
    result = verify("--trials", "4")
    assert not MemoryFileSystem.store
    assert result.exit_code == 0, result.output
    here, elsewhere = result.stdout.split("on optuna with 1 worker, trials 0 to 3:\n")
    assert [line.split(":")[0] for line in elsewhere.splitlines()[:4]] == [f"  trial {i}" for i in range(4)]
    best = replay(HOME).stdout.split()[2]
    assert here.splitlines()[2].startswith(f"  trial {best}: ")
    assert result.stdout.endswith(" as recorded, to the last digit\n")
    assert {path: path.read_bytes() for path in (folder / HOME).rglob("*") if path.is_file()} == before


def test_a_sweep_that_was_interrupted_comes_out(sweep, folder):
    """Its third trial went on in its second epoch."""
    text = changed("toy_engine:train", "toy_engine:interrupt")
    assert [sweep(text).exit_code for _ in range(2)] == [130, 0]
    assert record(folder, 2).epochs[-1].attempt == 2
    result = verify()
    assert result.exit_code == 0, result.output


def check_elsewhere(result, backend):
    """Four trials here and four on a backend have no difference, as JSON."""
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    ways = ["here, one after another", f"on {backend} with 2 workers, trials 0 to 3"]
    assert [way["how"] for way in facts["trainings"]] == ways
    assert not any(trial["differences"] for way in facts["trainings"] for trial in way["trials"])
    assert [trial["trial"] for trial in facts["trainings"][1]["trials"]] == [0, 1, 2, 3]
    assert facts["reproduced"] is True and facts["versions_changed"] == []
    assert result.stderr.startswith("verifying sweep: toy_engine:train\n")


def test_trials_come_out_by_several_workers(swept):
    """Each value of each epoch; workers are processes of their own."""
    swept(WAYS["tpe"])
    check_elsewhere(verify("--backend", "optuna", "--json"), "optuna")


@pytest.mark.ray
def test_trials_come_out_on_ray(swept, ray_started):
    """As they do unless another backend is asked for."""
    swept(WAYS["tpe"])
    check_elsewhere(CliRunner().invoke(main, ["verify", HOME, "--json"]), "ray")


def test_what_differs_is_named(swept, folder):
    """By trial, value and epoch, with both values, here as elsewhere; and the versions that changed."""
    swept(SWEEP)
    *first, last = record(folder, 1).epochs
    value, changed_epoch = last.values["accuracy"], replace(last, values={**last.values, "accuracy": 0.125})
    lines = [f"{epoch.to_line()}\n" for epoch in (*first, changed_epoch)]
    (folder / HOME / "trials/0001/epochs.jsonl").write_text("".join(lines))
    result = verify()
    differing = f"  trial 1: accuracy at epoch 2 is {value}, recorded 0.125 (1 of 18 values differ)"
    assert (result.exit_code, result.stdout.splitlines().count(differing)) == (1, 2), result.output
    assert "2 of 8 trainings did not come out as recorded\nall recorded versions match;" in result.stdout


def test_a_draw_without_a_seed_is_found(swept, folder):
    """Its values differ each time."""
    (folder / "toy_engine.py").write_text(
        "import os\n\n\ndef train(params, run):\n"
        "    for _ in run.epochs():\n        run.log(noise=int.from_bytes(os.urandom(4), 'big') / 2**32)\n"
    )
    text = changed("optimize: roc_auc, track: [accuracy]", "optimize: {metric: noise, direction: minimize}")
    swept(changed(", output: binary", "", text))
    result = verify()
    assert result.exit_code == 1, result.output
    assert "8 of 8 trainings did not come out as recorded" in result.stdout


def test_params_that_the_sampler_does_not_draw_are_named(swept, folder):
    """They were added by hand, or drawn by another version; nothing else of their trial is compared."""
    swept(SWEEP)
    file = folder / HOME / "trials/0001/trial.json"
    facts = json.loads(file.read_text())
    drawn, facts["params"]["lr"] = facts["params"]["lr"], 0.05
    file.write_text(json.dumps(facts))
    result = verify()
    elsewhere = result.stdout.partition("on optuna")[2].splitlines()
    assert result.exit_code == 1
    hint = "(another version of the sampler, or added by hand)"
    assert elsewhere[2] == f"  trial 1: lr was drawn as {drawn}, recorded 0.05 {hint}"
    assert [line.endswith("3 epochs as recorded") for line in elsewhere[1:5]] == [True, False, True, True]


def test_points_of_a_sampler_that_learns_are_drawn_again(sweep, folder):
    """From the recorded results; one that differs counts as a trial that does."""
    sweep(LEARNING)
    result = verify("--json")
    assert result.exit_code == 0, result.output
    facts = {"sampler": "tpe", "as_recorded": 8, "given": 0, "note": None, "differences": []}
    assert json.loads(result.stdout)["draws"] == facts
    heading = "points of tpe, drawn again one by one from the recorded results:\n  8 points as recorded\n"
    assert heading in result.stderr
    file = folder / HOME / "trials/0002/trial.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"value": 0.0}))
    result = verify("--trials", "1")
    assert result.exit_code == 1
    assert "; later points depend on it and were not drawn\n" in result.stdout
    assert "a point of the sampler did not come out as recorded\nall recorded versions" in result.stdout


def test_trials_that_were_added_get_their_params_again(sweep):
    """The sampler draws those around them, and what an added one leaves open."""
    more = ("--set", "budget.trials=7", "--set")
    sweep(SWEEP, *more, "budget.stale=1")
    for params in (("lr=0.05", "size=small"), ("lr=0.07",)):
        added = CliRunner().invoke(main, ["add", HOME, *params])
        assert added.exit_code == 0, added.output
    sweep(SWEEP, *more, "budget.stale=7")
    result = verify("--trials", "7")
    assert result.exit_code == 0, result.output
    assert result.stdout.partition("on optuna")[2].count(": 3 epochs as recorded") == 7


def test_a_list_is_verified_here(swept):
    """It has no workers."""
    points = "backend: {list: [{lr: 0.01, depth: 1, width: 8}, {lr: 0.1, depth: 3, width: 32}]}"
    swept(changed("search: {sampler: random, seed: 3}", points))
    result = verify()
    assert (result.exit_code, result.stdout.splitlines()[-2:]) == (
        0,
        [
            "a list has no workers, so its trials were trained here only",
            "2 trainings with 6 epochs as recorded, to the last digit",
        ],
    ), result.output


def test_a_first_trial_that_is_open_leaves_no_second_search(swept, folder):
    """The others are trained here."""
    swept(SWEEP)
    file = folder / HOME / "trials/0000/trial.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"state": "interrupted"}))
    result = verify()
    assert result.exit_code == 0, result.output
    assert "trial 0 has not ended, or continued from the state of another" in result.stdout


def test_a_picked_value_that_differs_is_named(swept, folder):
    """Also where all epochs are as recorded."""
    swept(SWEEP)
    file = folder / HOME / "trials/0001/trial.json"
    value = record(folder, 1).value
    file.write_text(json.dumps(json.loads(file.read_text()) | {"value": 0.125}))
    result = verify()
    assert result.exit_code == 1
    assert re.search(
        rf"  trial 1: its value is {value} of epoch (\d), recorded 0.125 of epoch \1\n", result.stdout
    )


def test_a_search_that_ends_early_says_why(swept, folder):
    """Its engine fails now, in each trial; what was trained here is compared as well."""
    swept(SWEEP)
    (folder / "toy_engine.py").write_text("def train(params, run):\n    raise ValueError('never works')\n")
    result = verify()
    assert result.exit_code == 1, result.output
    assert "on optuna with 1 worker, trials 0 to 3, which ended early: " in result.stdout
    assert "  trial 3: was not trained\n" in result.stdout


def test_a_sweep_without_a_complete_trial_is_refused(swept):
    """There is nothing to train again."""
    swept(changed("toy_engine:train", "toy_engine:always_fail"))
    result = verify()
    assert (result.exit_code, result.stdout) == (3, "verifying sweep: toy_engine:always_fail\n")


def test_a_search_on_ray_has_the_gpus_of_the_machine(swept, folder, monkeypatch):
    """Its workers share them, as Ray would hide them. On the same backend all settings stay but the study."""
    text = f"{SWEEP}backend: {{optuna: {{workers: 1, gpus: all, storage: journal}}}}\n"
    swept(text)
    resolved = RunDirectory(folder / HOME).read()
    assert section_of("ray", 2, resolved) == {"workers": 2}
    assert section_of("optuna", 2, resolved).items() >= {"workers": 2, "gpus": "all"}.items()
    assert "storage" not in section_of("optuna", 2, resolved)
    for count, share in ((1, 0.5), (4, 1.0)):
        monkeypatch.setattr("torch.cuda.device_count", lambda count=count: count)
        assert section_of("ray", 2, resolved) == {"workers": 2, "resources": {"gpu": share}}
