"""Every shipped sweep file runs as it is, but for fewer trials and epochs."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import yaml
from forked import hpometrics
from matrix import EXHAUSTIVE

from hpometrics.metrics.features import OutputFeature, parse_feature
from hpometrics.metrics.registry import find_metric
from hpometrics.run.spec import engine_facts

ROOT = Path(__file__).parents[1]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
AGAIN_ON_RAY = ("quickstart_pbt", "recommender_ray")
"""Files that start a cluster as `quickstart_ray` does; what else is in them runs elsewhere."""


def output_of(engine: str | dict[str, str]) -> OutputFeature:
    """What the engine `module:function` of a sweep predicts; of an engine of stages the file says it."""
    told = {"target": engine} if isinstance(engine, str) else engine
    module, _, function = told["target"].partition(":")
    facts = engine_facts(getattr(importlib.import_module(module), function))
    return parse_feature(facts.get("output", told.get("output")))


def _needs(path: Path) -> list[pytest.MarkDecorator]:
    needs = [pytest.mark.ray] if "backend: ray" in path.read_text(encoding="utf8") else []
    return [*needs, EXHAUSTIVE] if path.stem in AGAIN_ON_RAY else needs


@pytest.mark.parametrize("path", [pytest.param(p, marks=_needs(p), id=p.stem) for p in CONFIGS])
def test_a_shipped_sweep_runs(path, request, tmp_path):
    """It ends well, prints the optimal engine params and leaves them in `best.yaml`."""
    trials, epochs = (4, 3) if path.stem == "quickstart_pbt" else (2, 2)  # it copies after three epochs
    fewer = [f"budget.trials={trials}", f"budget.epochs={epochs}", f"results.dir={tmp_path / 'run'}"]
    settings = [part for setting in fewer for part in ("--set", setting)]
    python = request.getfixturevalue("ray_launcher") if path.stem == "quickstart_ray" else None
    ran = hpometrics("run", path, *settings, folder=ROOT, python=python).result()
    assert ran.returncode == 0, ran.stderr
    assert f"# engine params evaluated: {trials}" in ran.stdout
    best = yaml.safe_load((tmp_path / "run" / "best.yaml").read_text(encoding="utf8"))
    asked = yaml.safe_load(path.read_text(encoding="utf8"))
    engine = asked["engine"] if isinstance(asked["engine"], dict) else {}
    varied = set(best["params"]) - engine.get("params", {}).keys()
    assert {name for name, dimension in asked["space"].items() if "when" not in dimension} <= varied
    assert varied <= asked["space"].keys()
    output = output_of(asked["engine"])
    assert best["output"] == str(output)
    optimize = asked["metrics"]["optimize"]
    first, *others = optimize if isinstance(optimize, list) else [optimize]
    assert best["objective"] == find_metric(first, output.type).objective
    assert list(best.get("objectives", {}))[1:] == [other["metric"] for other in others]


def test_every_feature_type_has_a_sweep():
    """There is a shipped sweep for each kind of output that a training loop gives a batch at a time."""
    outputs = [output_of(yaml.safe_load(path.read_text(encoding="utf8"))["engine"]) for path in CONFIGS]
    kinds = {"binary", "category", "set", "number", "vector", "timeseries", "sequence", "text", "ranking"}
    assert {output.type for output in outputs} == kinds


@pytest.mark.parametrize("name", ["quickstart", "recommender"])
def test_the_backends_differ_in_two_words(name):
    """A sweep goes to Ray by `backend` and `pruner` alone."""
    optuna, ray = (
        yaml.safe_load((ROOT / "configs" / f"{stem}.yaml").read_text(encoding="utf8"))
        for stem in (name, f"{name}_ray")
    )
    optuna["backend"], optuna["search"]["pruner"] = ray["backend"], ray["search"]["pruner"]
    assert optuna == ray


def test_a_metric_at_k_keeps_its_name(tmp_path):
    """`ndcg@10` is optimised and written as it is: in the table, in the results, in the record."""
    fewer = ("--set", "budget.trials=1", "--set", "budget.epochs=1", "--set", f"results.dir={tmp_path}")
    ran = hpometrics("run", ROOT / "configs" / "recommender.yaml", *fewer, folder=ROOT).result()
    assert "ndcg@10 ^" in ran.stdout and "  ndcg@10: 0." in ran.stdout, ran.stderr
    best = yaml.safe_load((tmp_path / "best.yaml").read_text(encoding="utf8"))
    assert (best["metric"], best["values"]["ndcg@10"]) == ("ndcg@10", best["value"])
    assert "values.ndcg@10,values.recall@20" in (tmp_path / "trials.csv").read_text(encoding="utf8")
    assert '"ndcg@10":' in (tmp_path / "trials" / "0000" / "epochs.jsonl").read_text(encoding="utf8")
