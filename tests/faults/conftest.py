"""What every fault needs: a sweep to injure, and a card on which its toll is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from injured import Injured
from toll import Toll, scorecard


@pytest.fixture
def injured(tmp_path: Path) -> Injured:
    """A folder with a sweep of six trials."""
    return Injured(tmp_path)


@pytest.fixture
def card(record_property: Callable[[str, object], None]) -> Callable[[Toll], None]:
    """Keep a toll for the scorecard; that of a sweep of ours has to be nothing."""

    def keep(toll: Toll) -> None:
        record_property("toll", asdict(toll))
        assert toll.nothing or toll.host != "hpometrics", toll

    return keep


@pytest.fixture(scope="session")
def rounds(pytestconfig: pytest.Config) -> Callable[[int], int]:
    """How often a fault is tried: a few times, or with `--faults` so many."""
    return lambda many: many if pytestconfig.getoption("--faults") else min(many, 2)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to `--faults` what is there for the scorecard: bare hosts, and what takes long."""
    if not config.getoption("--faults"):
        for item in items:
            if item.get_closest_marker("thorough"):
                item.add_marker(pytest.mark.skip(reason="for the scorecard; --faults runs it"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the scorecard of what was tried."""
    reports = [report for key in ("passed", "failed") for report in terminalreporter.stats.get(key, [])]
    tolls = [Toll(**told) for one in reports for name, told in one.user_properties if name == "toll"]
    if tolls and terminalreporter.config.getoption("--faults"):
        terminalreporter.section("faults")
        terminalreporter.line(scorecard(tolls))
