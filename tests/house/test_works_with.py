"""The page of the versions that the tests ran with is as new as what is pinned, and as old as the floors."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
import requirements
import works_with
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PAGE = works_with.PAGE.read_text(encoding="utf8")
STAGES = works_with.columns(PAGE)
PROMISES = re.findall(r" \| `([^`|]+)::(\w+)` \|$", PAGE, re.MULTILINE)


def test_the_lowest_stage_ran_with_the_floors():
    """Each direct dependency but torch; who moves a floor runs the stage again."""
    (lowest,) = (versions for stage, versions in STAGES.items() if stage.startswith("lowest versions"))
    floors = [Requirement(line) for line in requirements.lowest(requirements.stated(ROOT / "pyproject.toml"))]
    shown = [floor for floor in floors if floor.name in lowest]
    assert {"optuna", "ray", "torchmetrics", "numpy", "click"} <= {floor.name for floor in shown}
    assert [floor for floor in shown if Version(lowest[floor.name]) not in floor.specifier] == []


def test_a_stage_ran_with_what_is_pinned():
    """Or with a newer release of it; a package that is new here gets its row from the next run."""
    pins = [
        Requirement(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if line[0] != "#"
    ]
    listed = set().union(*STAGES.values())
    shown = {pin.name: pin for pin in pins if pin.name in listed}
    assert {"torch", "plotly", "pytest", "lightning", "transformers", "keras", "catboost"} <= shown.keys()
    for name, pin in shown.items():
        (least,) = (Version(one.version) for one in pin.specifier)
        ran = [Version(versions[name]) for versions in STAGES.values() if versions[name]]
        assert ran and max(ran) >= least, pin


def test_nothing_failed_in_a_stage():
    """A page of a run that failed is not committed."""
    for stage, versions in STAGES.items():
        assert int(versions["passed"]) > 0, stage
        assert not {"failed", "error"} & versions.keys(), stage
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", versions["date"]), stage


def test_a_table_reads_as_it_was_written(tmp_path, monkeypatch):
    """Each stage in its column; what no stage has is left out, what one lacks is empty."""
    monkeypatch.setattr(works_with, "LINES", tmp_path / "lines")
    works_with.note("first", {"passed": 3, "skipped": 1})
    works_with.note("second", {"passed": 4, "failed": 2, "warnings": 9})
    stages = [json.loads(line) for line in works_with.LINES.read_text().splitlines()]
    del stages[0]["versions"]["torch"]
    read = works_with.columns(f"title\n\ntext\n\n{works_with.table(stages)}\n\nmore")
    assert [read["first"][name] for name in ("passed", "failed", "skipped", "torch")] == ["3", "0", "1", ""]
    assert read["second"]["failed"] == "2" and "error" not in read["second"]
    assert read["second"]["optuna"] == stages[1]["versions"]["optuna"]


@pytest.mark.parametrize(("file", "name"), PROMISES)
def test_what_works_has_a_test(file, name):
    """A function of that file."""
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
