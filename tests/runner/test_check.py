from __future__ import annotations

import json
import sys

import pytest
from sample_sweeps import changed

from hpometrics.cli import check

PROGRAM = """\
import json
print(json.dumps({"roc_auc": 0.7, "loss": 1.5}), flush=True)
print("no further", flush=True)
"""


@pytest.mark.parametrize("engine", ["train", "learn"])
def test_a_probe_shows_every_value_and_keeps_nothing(sweep, folder, engine):
    """One epoch of trial 0, named values and others; no run directory is made, no checkpoint is missed."""
    result = sweep(changed("toy_engine:train", f"toy_engine:{engine}"), "--probe", command="check")
    assert (result.exit_code, result.stderr) == (0, "")
    words = [line.split() for line in result.stdout.splitlines()]
    at = next(i for i, line in enumerate(words) if line[0] == "probe")
    assert [line[0] for line in words[at + 1 : at + 3]] == ["roc_auc", "accuracy"]
    assert all(0 <= float(line[1]) <= 1 for line in words[at + 1 : at + 3])
    assert result.stdout.endswith(
        "ok: one epoch was run, nothing is saved. Run it with: hpometrics run sweep.yaml\n"
    )
    assert not (folder / "runs").exists()


def test_what_is_named_and_not_there_is_named_with_its_place(sweep):
    """A value that nobody reports, one of a split without updates, one of run.watch; exit code 2."""
    text = changed("track: [accuracy]", "track: [test:accuracy, gnorm], constraints: [params_m <= 20]")
    result = sweep(text, "--probe", command="check")
    assert result.exit_code == 2
    where = "sweep.yaml:5:30: metrics.track: "
    assert f"{where}test:accuracy has no value: nothing was measured\n" in result.stderr
    assert f"{where}gnorm is not recorded; run.watch(model, optimizer) reports it\n" in result.stderr
    assert (
        "metrics.constraints[0]: params_m is not recorded; the recorded values are roc_auc, " in result.stderr
    )
    assert result.stderr.endswith("3 errors - one epoch was run, nothing is saved.\n")
    assert "  roc_auc " in result.stdout and "ok:" not in result.stdout


def test_an_engine_that_fails_is_told_with_its_line(sweep):
    """The error on one line, and where in the user's own file it was raised."""
    result = sweep(changed("toy_engine:train", "toy_engine:always_fail"), "--probe", command="check")
    assert result.exit_code == 2
    assert (
        "sweep.yaml:1:10: engine.target: its first epoch failed: ValueError: never works (toy_engine.py:"
        in (result.stderr)
    )


def test_installed_modules_register_no_metric_of_the_sweep(tmp_path, monkeypatch):
    """They are not read, so that they use up no room of those that are the user's own."""
    for folder, name in ((".venv", "other"), ("a/site-packages", "other"), ("own", "mine")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "metrics.py").write_text(f"@register_metric('{name}', [BINARY])")
    assert not check.names_beside(tmp_path / "sweep.yaml", "other")
    monkeypatch.setattr(check, "_MAX_MODULES", 1)
    assert check.names_beside(tmp_path / "sweep.yaml", "mine")


def test_a_metric_that_the_engine_does_not_report_is_missing(sweep):
    """The one that is optimized too, by its reason."""
    text = changed("{optimize: roc_auc, track: [accuracy]}", "{optimize: {metric: val_loss, direction: min}}")
    result = sweep(text, "--probe", command="check")
    assert "metrics.optimize: val_loss has no value: was not logged in this epoch\n" in result.stderr


@pytest.mark.parametrize(("tracked", "code"), [("loss", 0), ("ece", 2)])
def test_a_program_is_probed(sweep, folder, tracked, code):
    """What it prints is what is there."""
    (folder / "program.py").write_text(PROGRAM)
    engine = f'{{command: ["{sys.executable}", program.py, "{{lr}}"]}}'
    text = changed("{target: toy_engine:train, output: binary}", engine).replace("[accuracy]", f"[{tracked}]")
    result = sweep(text, "--probe", command="check")
    assert result.exit_code == code, result.output
    assert ("ece is not recorded; the recorded values are roc_auc, loss" in result.stderr) == bool(code)


def test_engines_of_stages_are_probed(sweep):
    """As any other."""
    text = (
        "engine: {target: toy_stages:Guesser, output: number}\n"
        "space: {algorithms.once.guess: {float: [0, 4]}}\n"
        "metrics: {optimize: mae, track: [rmse]}\nbudget: {trials: 2}\n"
    )
    result = sweep(text, "--probe", command="check")
    assert result.exit_code == 0, result.output


def test_a_probe_is_told_as_json(sweep):
    """Values by name, null for an undefined one with its reason, and the problems."""
    result = sweep(changed("[accuracy]", "[test:accuracy]"), "--probe", "--json", command="check")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["ok"]) == (2, False)
    assert told["probe"]["values"]["test:accuracy"] is None
    assert told["probe"]["reasons"] == {"test:accuracy": "nothing was measured"}
    assert [problem["path"] for problem in told["problems"]] == ["metrics.track"]
    assert list(told["probe"]["params"]) == ["lr", "depth", "width"]


def test_metrics_that_no_single_output_has_are_left_to_the_engine(sweep):
    """Check imports nothing, so it names what only the engine can decide; a stated output decides at once."""
    text = changed(", output: binary", "").replace("[accuracy]", "[accuracy, fid]")
    result = sweep(text, command="check")
    assert (
        "no single output has roc_auc and fid; the engine states its outputs: run check --probe"
        in result.stdout
    )
    assert "no single output" not in sweep(text.replace(", fid", ""), command="check").stdout
    assert sweep(text, "--probe", command="check").exit_code == 2
    assert sweep(changed("[accuracy]", "[fid]"), command="check").exit_code == 2


def test_the_options_of_a_scheduler_of_ray_are_checked(sweep, monkeypatch):
    """Where Ray is installed; elsewhere `run` checks them."""
    text = changed("seed: 3}", "seed: 3, pruner: {asha: {reduction: 3}}}") + "backend: ray\n"
    refused = sweep(text, command="check")
    assert refused.exit_code == 2
    assert "pruner 'asha' has no argument 'reduction'. It knows min_epochs, eta, brackets" in refused.stderr
    monkeypatch.setitem(sys.modules, "hpometrics.backends.ray.schedulers", None)
    assert sweep(text, command="check").exit_code == 0
