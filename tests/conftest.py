from __future__ import annotations

from collections.abc import Iterator

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
