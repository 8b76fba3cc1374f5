"""What the error of a missing package tells the user to install exists."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path

import pytest

from hpometrics.exceptions import MissingExtraError
from hpometrics.metrics.registry import all_entries

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf8"))["project"]


def test_every_extra_that_a_metric_names_exists():
    """`pip install 'hpometrics[audio]'` brings something: each of them is declared."""
    named = {entry.requires for entry in all_entries() if entry.requires}
    assert named >= {"audio", "detection", "image", "multimodal", "transformers", "video"}
    assert named <= PROJECT["optional-dependencies"].keys()


@pytest.mark.parametrize(
    ("integration", "library"),
    [("lightning", "lightning.pytorch"), ("transformers", "transformers"), ("ignite", "ignite.engine")],
)
def test_a_missing_trainer_is_named_with_its_extra(integration, library, monkeypatch):
    """Importing the callback says what brings the library, and that extra is declared."""
    module = f"hpometrics.integrations.{integration}"
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'hpometrics\[{integration}\]'"):
        importlib.import_module(module)
    assert integration in PROJECT["optional-dependencies"]
