from __future__ import annotations

import random
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
import torch

from hpometrics.engines.cache import seeded_streams


def drawn():
    """A number of each stream."""
    return random.random(), np.random.rand(), torch.rand(()).item()


def test_every_stream_starts_from_the_seed():
    """Whatever was drawn before."""
    found = []
    for _ in range(2):
        with seeded_streams(5):
            found.append(drawn())
    with seeded_streams(6):
        other = drawn()
    assert found[0] == found[1]
    assert not set(found[0]) & set(other)


@pytest.mark.parametrize("fails", [False, True])
def test_every_stream_goes_on_where_it_was(fails):
    """The user's own draws do not depend on what is evaluated in between, nor on whether it fails."""
    with seeded_streams(7):
        alone = [drawn() for _ in range(2)]
    with seeded_streams(7):
        between = [drawn()]
        with suppress(ZeroDivisionError), seeded_streams(5):
            drawn()
            between += [1 / 0] if fails else []
        between.append(drawn())
    assert alone == between


def test_torch_is_not_loaded_for_its_stream():
    """What loads it too late to be seeded is told so."""
    code = """
import sys, warnings
from hpometrics.engines.cache import seeded_streams
with seeded_streams(0):
    pass
print("torch" in sys.modules)
with warnings.catch_warnings(record=True) as told, seeded_streams(0):
    sys.modules["torch"] = None
print(*(warning.message for warning in told))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded, told = ran.stdout.splitlines()
    assert loaded == "False"
    assert told.startswith("a stage imported torch, so its random numbers were not seeded;")
