from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """One Ray cluster of two CPUs for all tests that need it."""
    import ray

    from hpometrics.search.ray_backend import start_ray

    start_ray(num_cpus=2, object_store_memory=80 * 2**20)
    yield
    ray.shutdown()
