"""The conditions of a trial: random streams, threads, folder and versions, the same on every backend."""

from __future__ import annotations

import platform
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch

from .._imports import same_folder
from .checkpoint import seed_all

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_AT_WORK = threading.Lock()  # held by a trial while it trains


@cache
def versions(numbered: bool) -> Mapping[str, str]:
    """Return the versions that a value depends on; of the hosts, those that are loaded or draw its params.

    Args:
        numbered: whether the host counts trials, as one with a study does; a Tuner of your own does not.
    """
    found = {"python": platform.python_version(), "torch": str(torch.__version__)}
    for host in ("optuna", "ray"):
        if host in sys.modules:
            found[host] = str(sys.modules[host].__version__)
    if numbered and "ray" in found and "optuna" not in found:  # it draws the params, and no worker loads it
        found["optuna"] = version("optuna")
    return found


def machine() -> str | None:
    """Return the name of this machine and what identifies its last start; None where the system has none."""
    try:
        return f"{platform.node()} {_BOOT_ID.read_text(encoding='ascii').strip()}"
    except (OSError, ValueError):
        return None


@contextmanager
def conditions(seed: int | None, threads: int | None) -> Iterator[None]:
    """Train in this context under a seed and with so many threads; None leaves each as it is.

    Behind it the current folder and the number of threads are those of before.
    """
    before = torch.get_num_threads()
    alone = _AT_WORK.acquire(blocking=False)
    if seed is not None:
        if not alone:
            _warn_shared()
        seed_all(seed)
    if threads is not None:
        torch.set_num_threads(threads)
    with ExitStack() as behind:
        if alone:
            behind.callback(_AT_WORK.release)
            behind.enter_context(same_folder())
        behind.callback(torch.set_num_threads, before)
        yield


@cache  # once per process
def _warn_shared() -> None:
    warnings.warn(
        "seeded trials overlap in this process and share its random streams, so the seed does not repeat "
        "them; leave n_jobs= at 1 and start several processes",
        RuntimeWarning,
        stacklevel=1,  # the caller is a pool of the host
    )
