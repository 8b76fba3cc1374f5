"""What every fault needs: a sweep to injure, and a card on which its toll is kept."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from injured import Injured
from matrix import EXHAUSTIVE
from toll import Toll, not_run, scorecard

MIB = 2**20


@pytest.fixture
def injured(tmp_path: Path) -> Injured:
    """A folder with a sweep of six trials."""
    return Injured(tmp_path)


@pytest.fixture
def card(record_property: Callable[[str, object], None]) -> Callable[[Toll], None]:
    """Keep a toll for the scorecard; that of a sweep of ours has to be nothing."""

    def keep(toll: Toll) -> None:
        record_property("toll", asdict(toll))
        assert toll.nothing or not toll.host.startswith("hpometrics"), toll

    return keep


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder whose `runs` is a file system of two MiB; not run where none may be mounted."""
    disk = tmp_path / "runs"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={2 * MIB}", "none", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("not run: no small file system may be mounted here")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture(params=[1, pytest.param(5, marks=EXHAUSTIVE)], ids=["once", "often"])
def rounds(request: pytest.FixtureRequest) -> Callable[[int], int]:
    """How often a fault is tried at moments of its own: once, several times, or with `--faults` so many."""
    return lambda many: many if request.config.getoption("--faults") else min(many, request.param)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to `--faults` what is there for the scorecard: bare hosts, and what takes long.

    There a fault is tried as often as it says, so that a second time is left out unless it has other seeds.
    """
    faults = config.getoption("--faults")
    kept, left_out = [], []
    for item in items:
        again = "often" in item.name and "seeds" not in item.fixturenames
        leave = again if faults else item.get_closest_marker("thorough")
        (left_out if leave else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the scorecard of what was tried, and say what was not run."""
    stats = terminalreporter.stats
    reports = [report for key in ("passed", "failed") for report in stats.get(key, [])]
    tolls = [Toll(**told) for one in reports for name, told in one.user_properties if name == "toll"]
    if tolls and terminalreporter.config.getoption("--faults"):
        terminalreporter.section("faults")
        terminalreporter.line(scorecard(tolls))
        for line in not_run(tolls):
            terminalreporter.line(line)
        skipped = len(stats.get("skipped", []))
        terminalreporter.line(f"{sum(toll.tried for toll in tolls)} faults tried, {skipped} tests not run")
