"""The shipped sweep files: a run of each, and what it has to leave."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from hpometrics.cli.main import main
from hpometrics.metrics.features import OutputFeature, parse_feature
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.run.spec import engine_facts

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
EARLIER = {"breast_cancer_again": "breast_cancer"}
"""Files that begin with the trials of another one."""


def changed(*settings: str) -> list[str]:
    """Return the arguments that change settings of a file."""
    return [part for setting in settings for part in ("--set", setting)]


def call(*arguments: object) -> Result:
    """Call the command in this process, which has loaded most of what it needs."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def run_here(path: Path, *settings: str) -> Result:
    """Run a sweep in this process, whose current folder has its engine."""
    return call("run", path, *changed(*settings))


def length(path: Path, reports: int) -> str:
    """Return the setting by which each trial of a sweep makes so many reports."""
    budget = yaml.safe_load(path.read_text(encoding="utf8"))["budget"]
    return f"budget.steps={reports * budget['every']}" if "every" in budget else f"budget.epochs={reports}"


def earlier(path: Path, folder: Path) -> list[str]:
    """Run the sweep that a file begins with, and return the setting that names its directory."""
    if path.stem not in EARLIER:
        return []
    home = folder / "earlier"
    ran = run_here(
        path.with_stem(EARLIER[path.stem]), "budget.trials=2", "budget.epochs=1", f"results.dir={home}"
    )
    assert ran.exit_code == 0, ran.stderr
    return [f"search.from={home}"]


def placed(path: Path, home: Path) -> list[str]:
    """Return the settings by which a sweep leaves its files in a folder, and its copy, if any, beside it."""
    copied = yaml.safe_load(path.read_text(encoding="utf8")).get("results", {}).get("copy_to")
    return [f"results.dir={home}", *([f"results.copy_to=file://{home}-copy"] if copied else [])]


def output_of(engine: str | dict[str, Any]) -> OutputFeature:
    """What the engine of a sweep, or its first, predicts; of an engine of stages the file says it."""
    told: dict[str, Any] = {"target": engine} if isinstance(engine, str) else engine
    target = next(iter(told["choice"].values())) if "choice" in told else told["target"]
    module, _, function = target.partition(":")
    facts = engine_facts(getattr(importlib.import_module(module), function))
    return parse_feature(facts.get("output", told.get("output")))


def check_best(asked: Mapping[str, Any], home: Path) -> None:
    """Check that `best.yaml` of a sweep has a value for each dimension, its output and its objectives."""
    best = yaml.safe_load((home / "best.yaml").read_text(encoding="utf8"))
    engine = asked["engine"] if isinstance(asked["engine"], dict) else {}
    varied = set(best["params"]) - engine.get("params", {}).keys()
    chosen = {"engine"} if "choice" in engine else set()
    drawn = {name: dimension for name, dimension in asked["space"].items() if isinstance(dimension, dict)}
    wanted = {name for name, dimension in drawn.items() if "when" not in dimension}
    assert wanted | chosen <= varied <= asked["space"].keys() | chosen
    output = output_of(asked["engine"])
    assert best["output"] == str(output)
    optimize = asked["metrics"]["optimize"]
    first, *others = optimize if isinstance(optimize, list) else [optimize]
    assert best["objective"] == find_metric(first, output.type).direction
    assert list(best.get("objectives", {}))[1:] == [other["metric"] for other in others]


def without_numbers(text: str) -> str:
    """Return a text with `#` for each number, and one space for several."""
    return re.sub(r" +", " ", re.sub(r"-?\d[\d.e-]*", "#", text))
