"""A registry that a test may fill, and what may not happen while metrics are measured."""

from __future__ import annotations

import random
import sys

import pytest


@pytest.fixture
def registry(monkeypatch):
    """The registry, for a test to register in; afterwards it is as it was."""
    from hpometrics.metrics.registry import register
    from hpometrics.metrics.registry.index import registry as default_registry

    monkeypatch.setattr(default_registry, "own", default_registry.own.copy())
    return register


@pytest.fixture
def samples(registry):
    """The sample metrics, registered for a number output."""
    from sample_metrics import SAMPLES

    from hpometrics.metrics.features import NUMBER

    for name, cls in SAMPLES.items():
        registry.register_metric(name, [NUMBER])(cls)
    return registry


@pytest.fixture
def elsewhere(monkeypatch):
    """Call it, and every tensor is taken for one on a device, where nothing may be counted."""

    def leave():
        for name, module in list(sys.modules.items()):
            ours = name.startswith("hpometrics.") and not name.endswith(".topk")  # ties are torch's there
            if ours and hasattr(module, "on_host"):
                monkeypatch.setattr(module, "on_host", lambda tensor: False)

    return leave


@pytest.fixture
def streams(monkeypatch):
    """Fail a test that seeds a device, or that does not leave the random streams of the CPU as they were."""
    import numpy as np
    import torch

    def states():
        _, keys, position, *_ = np.random.get_state()
        return random.getstate(), keys.tolist(), position, torch.get_rng_state().tolist()

    seeded, before = [], states()
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    yield
    assert states() == before and seeded == []
