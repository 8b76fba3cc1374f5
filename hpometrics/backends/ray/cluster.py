"""Starting Ray, its environment during a fit, and the resources of its cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from warnings import catch_warnings, filterwarnings

import ray

from ..._imports import environment
from ...exceptions import ConfigError
from .session import LEFT_BY_RAY, session_arguments, signal_handlers

_STARTED_WITH = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # relative paths in train mean what they mean elsewhere
}
_QUIET = {"RAY_AIR_NEW_OUTPUT": "0"}  # the new output prints to stdout even with verbose=0
_NO_LOGGERS = {"TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1"}


def start_ray(**arguments: Any) -> None:
    """Start Ray unless it runs, without dashboard and usage statistics; `arguments` are `ray.init`'s.

    The environment and the signal handlers of this process stay as they are, except for the `RAY_AUTH_MODE`
    by which child processes can join.

    Raises:
        ConfigError: other users could join it; see `session_arguments`.
    """
    if ray.is_initialized():
        return
    address = arguments.get("address", os.environ.get("RAY_ADDRESS"))
    ours = session_arguments() if address in (None, "local") else {}
    with environment(_unset(_STARTED_WITH), LEFT_BY_RAY), signal_handlers(), catch_warnings():
        filterwarnings("ignore", "Tip: In future versions of Ray", FutureWarning)  # at each start of Ray 2.50
        ray.init(**{"include_dashboard": False, "log_to_driver": False, **ours, **arguments})


@contextmanager
def fitting(quiet: bool, loggers: bool) -> Iterator[None]:
    """Set the environment for the fit of a Tuner, and restore it and the signal handlers afterwards.

    Args:
        quiet: whether nothing is printed.
        loggers: whether Tune adds its own loggers (JSON, CSV, TensorBoard).
    """
    settings = _STARTED_WITH | (_QUIET if quiet else {}) | ({} if loggers else _NO_LOGGERS)
    with environment(_unset(settings), LEFT_BY_RAY), signal_handlers():
        yield


def loggers_on() -> bool:
    """Return whether the environment lets Tune add its own loggers."""
    return all(os.environ.get(name) != value for name, value in _NO_LOGGERS.items())


def _unset(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for which the user has set no environment variable."""
    return {name: value for name, value in settings.items() if name not in os.environ}


def check_resources(resources: Mapping[str, float]) -> None:
    """Refuse resources for one trial that the whole cluster does not have; Ray would wait for ever.

    Raises:
        ConfigError: the cluster has less of one.
    """
    total = ray.cluster_resources()  # type: ignore[no-untyped-call]
    for name, amount in resources.items():
        available = total.get({"cpu": "CPU", "gpu": "GPU"}.get(name, name), 0)
        if amount > available:
            raise ConfigError(f"a trial asks for {name}: {amount:g}, but the Ray cluster has {available:g}")
