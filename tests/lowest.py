"""Print the lowest version of each direct dependency that pyproject.toml allows, as pip takes them.

torch is left out: below the newest releases PyPI has builds for CUDA alone.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

BESIDE = {"numpy": "1.26.4", "pandas": "2.2.3", "pytz": "2024.1", "pydantic-core": "2.41.1"}
"""What these versions, or SciPy beside them, need of others."""


def lowest(pyproject: Path) -> dict[str, str]:
    """Return the versions by name of the package, with its extras.

    Args:
        pyproject: the file that states them.
    """
    stated = tomllib.loads(pyproject.read_text())["project"]["dependencies"]
    floors = dict(line.split(">=") for line in stated)
    return {name: version for name, version in floors.items() if name != "torch"} | BESIDE


if __name__ == "__main__":
    versions = lowest(Path(__file__).parents[1] / "pyproject.toml")
    print(*(f"{name}=={version}" for name, version in versions.items()))
