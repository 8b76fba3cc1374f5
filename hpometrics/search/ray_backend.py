"""Ray Tune as a host: the session of a trial as a reporter; with it the searcher and the schedulers."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import ray
from ray import tune

from ..exceptions import ConfigError, RunError
from ..objective import MINIMIZE, Objective
from .ray_keys import EPOCH, FINAL, FULL, PICKED, TAKEN, VALUE, VALUES, VOID
from .ray_schedulers import SCHEDULERS, make_scheduler
from .ray_search import StudySearcher
from .ray_session import session_arguments
from .ray_space import ray_domain

__all__ = [
    "SCHEDULERS",
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

_WORST = 1e300  # far from the largest float, so that means of it stay finite


class StoppedByTune(SystemExit):
    """Tune has stopped this trial: the scheduler's decision, or the end of the experiment."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = 0  # any other code is an error to Tune


class TuneReporter:
    """Reports a run to the Ray Tune session it runs in, one report per epoch, always with the same keys.

    `value` is the current value (the scheduler's business), `picked` the picked one so far (the searcher's),
    `epoch` counts from 1, `final` says that no epoch follows, `values` holds all values by name; under its
    own name the metric is there for a Tuner of your own. Schedulers compare a nan with nothing: in an epoch
    that is `void` (it has no finite value) `value` stands for it, worse than all that can be measured.

    Attributes:
        stopped: whether Tune has stopped the trial; then nothing more is reported.
    """

    def __init__(self, number: int | None = None, params: Mapping[str, Any] | None = None) -> None:
        self.number, self.params = number, params
        self.stops: tuple[type[BaseException], ...] = (StoppedByTune,)
        self.stopped = False
        self._told = -1
        self._metric = VALUE
        self._worst = -_WORST

    def check(self, metric: str, objective: Objective) -> None:
        """Note the metric's name; Tune tells a trial no direction that could be checked.

        Raises:
            RunError: a report cannot carry a value of that name.
        """
        if metric in TAKEN:
            raise RunError(f"Ray Tune keeps the name {metric!r} for itself; log the value under another")
        self._metric = metric
        self._worst = _WORST if objective is MINIMIZE else -_WORST

    def report(
        self, epoch: int, value: float, picked: float, values: Mapping[str, float], final: bool
    ) -> None:
        """Report one epoch; one that was told before, as the run is tried again, is not told twice.

        Raises:
            StoppedByTune: Tune has stopped the trial.
        """
        if self.stopped:  # Tune listens no more: another report would wait for ever
            raise StoppedByTune(f"Tune stopped trial {self.number} before epoch {epoch}")
        if epoch <= self._told:
            return
        self._told = epoch
        void = not math.isfinite(value)
        told = {PICKED: picked, EPOCH: epoch + 1, FINAL: final, VALUES: dict(values), VOID: void}
        try:
            tune.report({self._metric: value, VALUE: self._worst if void else value, **told})
        except SystemExit as stop:
            self.stopped = True
            raise StoppedByTune(
                f"Tune stopped trial {self.number} after epoch {epoch} at {value:g}"
            ) from stop

    def give_up(self, reason: str) -> None:
        """Say that this process can record no more: whoever runs the search then takes no further trial.

        Tune wants all keys of every report; the epoch is one that it knows.
        """
        if self.stopped:
            return
        known = {PICKED: self._worst, EPOCH: self._told + 1, FINAL: False, VALUES: {}, VOID: True}
        with suppress(SystemExit):  # a scheduler may stop it just as well
            tune.report({self._metric: self._worst, VALUE: self._worst, **known, FULL: reason})


RayReporter = TuneReporter


def start_ray(**arguments: Any) -> None:
    """Start Ray unless it runs, without dashboard and usage statistics; `arguments` are `ray.init`'s.

    Raises:
        ConfigError: it would be open to others; see `session_arguments`.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if not ray.is_initialized():
        joins = "address" in arguments or "RAY_ADDRESS" in os.environ
        ours = {} if joins else session_arguments()
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
