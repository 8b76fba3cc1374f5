"""Print what pip installs for an environment of the tests: `requirements.py lowest`, `... without-torch`.

`lowest` is the lowest version of each direct dependency that pyproject.toml allows. torch is left out: below
the newest releases PyPI has builds for CUDA alone. `without-torch` is for the part that loads no torch.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

BESIDE = {"numpy": "1.26.4", "pandas": "2.2.3", "pytz": "2024.1", "pydantic-core": "2.41.1"}
"""What the lowest versions, or SciPy beside them, need of others."""
OF_TORCH = ("torch", "torchmetrics", "ray[tune]")
OF_TESTS = (
    "cmaes",
    "hypothesis",
    "jsonschema",
    "pandas",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "scikit-learn",  # which `check` asks for `pb2`
    "wandb",  # and for the values of W&B
)


def stated(pyproject: Path) -> dict[str, str]:
    """Return the floor of each direct dependency, by its name with its extras."""
    lines = tomllib.loads(pyproject.read_text())["project"]["dependencies"]
    return dict(line.split(">=") for line in lines)


def lowest(floors: dict[str, str]) -> list[str]:
    """Give the lowest versions, to be laid over an environment that has torch."""
    versions = {name: version for name, version in floors.items() if name != "torch"} | BESIDE
    return [f"{name}=={version}" for name, version in versions.items()]


def without_torch(floors: dict[str, str]) -> list[str]:
    """Give what an environment without torch has, with what its tests need."""
    return [*(f"{name}>={version}" for name, version in floors.items() if name not in OF_TORCH), *OF_TESTS]


if __name__ == "__main__":
    kinds = {"lowest": lowest, "without-torch": without_torch}
    print(*kinds[sys.argv[1]](stated(Path(__file__).parents[1] / "pyproject.toml")))
