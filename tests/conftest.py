from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that start Ray on one worker: two cores carry one cluster."""
    for item in items:
        if item.get_closest_marker("ray"):
            item.add_marker(pytest.mark.xdist_group("ray"))


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """One Ray cluster of two CPUs for all tests that need it."""
    import ray

    from hpometrics.search.ray_backend import start_ray

    start_ray(num_cpus=2, object_store_memory=80 * 2**20)
    yield
    ray.shutdown()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many metrics there are, and which are exempt from which law."""
    from hpometrics.metrics.registry import all_entries

    exemptions = runpy.run_path(str(Path(__file__).parent / "metrics" / "exemptions.py"))
    entries = all_entries()
    directed = sum(entry.objective is not None for entry in entries)
    terminalreporter.section("laws of the metrics")
    terminalreporter.line(
        f"{len(entries)} metrics, {directed} with a direction; without one, each with its reason: "
        f"{len(exemptions['NO_DIRECTION'])} names"
    )
    for law, exempt in exemptions["EXEMPT"].items():
        terminalreporter.line(f"{law}: {len(exempt)} exempt by nature: {', '.join(exempt)}")
