"""Packages bring metrics by being installed, and a broken one takes nothing with it."""

from __future__ import annotations

import sys

import pytest

from hpometrics.metrics.features import CATEGORY, NUMBER, Number
from hpometrics.metrics.registry import index
from hpometrics.metrics.registry.index import alias_names, all_entries, metric_names
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric

pytestmark = pytest.mark.usefixtures("registry")


def plug_in(tmp_path, monkeypatch, registry, body: str) -> None:
    """Install a distribution whose entry point names a module with this body."""
    (tmp_path / "plugged_metrics.py").write_text(body, encoding="utf8")
    info = tmp_path / "plugged-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n", encoding="utf8")
    (info / "entry_points.txt").write_text(
        "[hpometrics.metrics]\nplugged = plugged_metrics\n", encoding="utf8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "plugged_metrics", raising=False)
    index.load_plugins.cache_clear()


PLUGIN = """
from hpometrics.metrics.features import NUMBER
from hpometrics.metrics.registry.register import register_metric
from sample_metrics import Gap

@register_metric("plugged_gap", [NUMBER], aliases=["plugged"])
class PluggedGap(Gap):
    pass
"""


@pytest.mark.parametrize("ask", ["plugged_gap", "plugged", None])
def test_an_entry_point_brings_metrics(ask, tmp_path, monkeypatch, registry):
    """A package registers by being installed: its metrics are found by name, by alias, and listed."""
    plug_in(tmp_path, monkeypatch, registry, PLUGIN)
    if ask:
        assert get_metric(ask, Number()).name == "plugged_gap"
    assert "plugged_gap" in metric_names(NUMBER)
    assert [entry.path for entry in all_entries() if entry.name == "plugged_gap"] == [
        "plugged_metrics:PluggedGap"
    ]


@pytest.mark.parametrize(
    "body",
    [
        "import no_such_module",
        "raise RuntimeError('broken')",
        "import sys; sys.exit(7)",
        "class Odd(BaseException): pass\nraise Odd('\\x1b[31m')",
        "raise GeneratorExit",
        "syntax error",
        PLUGIN.replace("_gap", "Bad"),
        PLUGIN.replace("plugged_gap", "mae"),
        f"{PLUGIN}raise RuntimeError('late')",
    ],
)
def test_a_broken_package_takes_nothing_with_it(body, tmp_path, monkeypatch, registry):
    """A warning names it; all other metrics are there, and none of its own that it registered before."""
    plug_in(tmp_path, monkeypatch, registry, body)
    with pytest.warns(RuntimeWarning, match="the metrics of 'plugged_metrics' are left out"):
        assert "accuracy" in metric_names(CATEGORY)
    assert find_metric("mae", NUMBER).entries[0].is_built_in
    assert "plugged_gap" not in metric_names(NUMBER) and "plugged" not in alias_names(NUMBER)


def test_an_interrupt_goes_through_a_package(tmp_path, monkeypatch, registry):
    """It is the user's."""
    plug_in(tmp_path, monkeypatch, registry, "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        metric_names(CATEGORY)
