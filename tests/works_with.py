"""Write reference/works-with.md: the versions that each stage of the last CI run had, and how it ended.

A session of pytest adds a line to `.stages.jsonl` where `HPOMETRICS_STAGE` names the stage that it is, as
`.ci/run` does.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any

ROOT = Path(__file__).parents[1]
LINES, PAGE = ROOT / ".stages.jsonl", ROOT / "docs/reference/works-with.md"
STAGE = "HPOMETRICS_STAGE"
PACKAGES = (
    *(
        "optuna",
        "rustuna",
        "ray",
        "torch",
        "torchmetrics",
        "numpy",
        "pandas",
        "pyarrow",
        "pydantic",
        "scikit-learn",
    ),
    *(
        "scipy",
        "lightning",
        "transformers",
        "accelerate",
        "pytorch-ignite",
        "fastai",
        "keras",
        "skorch",
        "xgboost-cpu",
        "lightgbm",
        "catboost",
        "botorch",
        "mlflow-skinny",
        "wandb",
        "plotly",
    ),
    *("click", "rich", "filelock", "jinja2", "pyyaml", "pytest", "pytest-xdist"),
)
ENDS = ("passed", "failed", "error", "skipped")
START = """\
# Works with

Written by `make works-with` from the last run of the tests: a column for each stage, with the versions
that were installed then and how many of its tests ended in which way. A package without a version was
not installed in that stage.

"""


def note(stage: str, ended: Mapping[str, int]) -> None:
    """Add the line of a stage: its date, its versions and its counts."""
    versions = {"python": python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    counts = {end: ended.get(end, 0) for end in ENDS}
    date = time.strftime("%Y-%m-%d", time.gmtime())
    with LINES.open("a", encoding="utf8") as lines:
        lines.write(json.dumps({"stage": stage, "date": date, "versions": versions, "counts": counts}) + "\n")


def table(stages: Sequence[Mapping[str, Any]]) -> str:
    """Return the Markdown table of stages; failures and errors have a row where there are some."""
    rows = {"date": [stage["date"] for stage in stages]}
    for package in ("python", *PACKAGES):
        cells = [stage["versions"].get(package, "") for stage in stages]
        if any(cells):
            rows[package] = cells
    for end in ENDS:
        counts = [stage["counts"][end] for stage in stages]
        if end == "passed" or any(counts):
            rows[end] = [str(count) for count in counts]
    head = ["", *(stage["stage"] for stage in stages)]
    lines = [head, ["---"] * len(head), *([name, *cells] for name, cells in rows.items())]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def columns(page: str) -> dict[str, dict[str, str]]:
    """Read the columns of the first table of a page, by their heads."""
    lines = [line for line in page.split("\n\n")[2].splitlines() if line.startswith("|")]
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {stage: {name: cells[place] for name, *cells in rows} for place, stage in enumerate(head[1:])}


def main() -> None:
    """Replace the first table of the page; what stands below it is written by hand.

    Raises:
        SystemExit: no stage has left a line.
    """
    if not LINES.exists():
        raise SystemExit(f"{LINES} is missing: `.ci/run` writes it")
    stages = [json.loads(line) for line in LINES.read_text(encoding="utf8").splitlines()]
    below = PAGE.read_text(encoding="utf8").partition("\n## ") if PAGE.exists() else ("", "", "")
    PAGE.write_text(f"{START}{table(stages)}{below[1]}{below[2]}", encoding="utf8")
    print(os.path.relpath(PAGE))


if __name__ == "__main__":
    main()
