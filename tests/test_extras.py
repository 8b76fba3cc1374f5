"""What the error of a missing package tells the user to install exists."""

from __future__ import annotations

import tomllib
from pathlib import Path

from hpometrics.metrics.registry import all_entries

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf8"))["project"]


def test_every_extra_that_a_metric_names_exists():
    """`pip install 'hpometrics[audio]'` brings something: each of them is declared."""
    named = {entry.requires for entry in all_entries() if entry.requires}
    assert named >= {"audio", "detection", "image", "multimodal", "transformers", "video"}
    assert named <= PROJECT["optional-dependencies"].keys()
