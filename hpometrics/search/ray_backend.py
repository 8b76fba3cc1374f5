"""Ray Tune as a host: its cluster, and beside it the reporter, the searcher and the schedulers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import ray

from ..exceptions import ConfigError
from .ray_reporter import HandedOn, PausedByTune, RayReporter, StoppedByTune, TuneReporter
from .ray_schedulers import SCHEDULERS, make_scheduler
from .ray_search import StudySearcher
from .ray_session import session_arguments
from .ray_space import ray_domain

__all__ = [
    "SCHEDULERS",
    "HandedOn",
    "PausedByTune",
    "RayReporter",
    "StoppedByTune",
    "StudySearcher",
    "TuneReporter",
    "check_resources",
    "make_scheduler",
    "ray_domain",
    "start_ray",
]

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # relative paths in train mean what they mean elsewhere
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # one JSON logger in place of three
    "RAY_AIR_NEW_OUTPUT": "0",  # the new output prints to stdout even where nothing is to be printed
}


def start_ray(**arguments: Any) -> None:
    """Start Ray unless it runs, without dashboard and usage statistics; `arguments` are `ray.init`'s.

    Raises:
        ConfigError: it would be open to others; see `session_arguments`.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if not ray.is_initialized():
        address = arguments.get("address", os.environ.get("RAY_ADDRESS"))
        ours = session_arguments() if address in (None, "local") else {}
        ray.init(**{"include_dashboard": False, "log_to_driver": False, **ours, **arguments})


def check_resources(resources: Mapping[str, float]) -> None:
    """Refuse what one trial asks for if the whole cluster does not have it; Ray would wait for ever.

    Raises:
        ConfigError: it does not.
    """
    there = ray.cluster_resources()  # type: ignore[no-untyped-call]
    for name, amount in resources.items():
        have = there.get({"cpu": "CPU", "gpu": "GPU"}.get(name, name), 0)
        if amount > have:
            raise ConfigError(f"a trial asks for {name}: {amount:g}, but the Ray cluster has {have:g}")
