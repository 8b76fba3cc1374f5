"""Ray Tune as a host: the session of a trial as a reporter; with it the searcher and the schedulers."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
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

_WORST = 1e300  # far from the largest float, so that means of it stay finite


class StoppedByTune(SystemExit):
    """Tune has stopped this trial: the scheduler's decision, or the end of the experiment."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = 0  # any other code is an error to Tune


class PausedByTune(BaseException):
    """Tune has paused this trial, which goes on in another process: no exit, and no end of the trial."""


@dataclass(frozen=True)
class HandedOn:
    """How a member of a population hands on its state: with the report of every so many epochs.

    Args:
        interval: epochs.
        checkpoint_of: where the state at the end of an epoch is, if it was kept.
        told: epochs that Tune was told before the member was paused.
    """

    interval: int
    checkpoint_of: Callable[[int], Path | None]
    told: int = 0

    @contextmanager
    def after(self, epoch: int) -> Iterator[Any]:
        """Give the state at the end of an epoch as Tune takes it; None where none is handed on.

        Raises:
            RunError: it is wanted and was not kept.
        """
        if (epoch + 1) % self.interval:
            yield None
            return
        path = self.checkpoint_of(epoch)
        if path is None:
            raise RunError(
                f"pbt hands on the state at the end of every {self.interval} epochs, and there is none of "
                f"epoch {epoch}: call run.checkpoint(model=model, ...) in it, and run.restore before the loop"
            )
        with TemporaryDirectory() as folder:
            shutil.copy(path, folder)
            yield tune.Checkpoint.from_directory(folder)


class TuneReporter:
    """Reports a run to the Ray Tune session it runs in, one report per epoch, always with the same keys.

    `value` is the current value (the scheduler's business), `picked` the picked one so far (the searcher's),
    `epoch` counts from 1, `final` says that no epoch follows, `values` holds all values by name; under its
    own name each metric is there for a Tuner of your own. Schedulers compare a nan with nothing: in an epoch
    that is `void` (it has no finite value) `value` stands for it, worse than all that can be measured.

    Args:
        number: of the trial.
        params: that it was given.
        handed_on: of a member of a population, which Tune pauses and never stops.

    Attributes:
        stopped: whether Tune has stopped the trial; then nothing more is reported.
    """

    def __init__(
        self,
        number: int | None = None,
        params: Mapping[str, Any] | None = None,
        handed_on: HandedOn | None = None,
    ) -> None:
        self.number, self.params = number, params
        self._handed_on = handed_on
        self.stops: tuple[type[BaseException], ...] = (StoppedByTune,)
        self.stopped = False
        self._told = -1 if handed_on is None else handed_on.told - 1
        self._metric = VALUE
        self._others: list[str] = []
        self._worst = -_WORST

    def check(self, optimised: Mapping[str, Objective]) -> None:
        """Note the names of the metrics; Tune tells a trial no direction that could be checked.

        Raises:
            RunError: a report cannot carry a value of that name.
        """
        for name in optimised:
            if name in TAKEN:
                raise RunError(f"Ray Tune keeps the name {name!r} for itself; log the value under another")
        self._metric, *self._others = optimised
        objective = optimised[self._metric]
        self._worst = _WORST if objective is MINIMIZE else -_WORST

    def report(
        self, epoch: int, value: float, picked: float, values: Mapping[str, float], final: bool
    ) -> None:
        """Report one epoch; one that was told before, as the run is tried again, is not told twice.

        Raises:
            StoppedByTune: Tune has stopped the trial.
            PausedByTune: Tune has paused it, a member of a population.
            RunError: such a member has no state to hand on.
        """
        if self.stopped:  # Tune listens no more: another report would wait for ever
            raise self._stop(f"before epoch {epoch}")
        if epoch <= self._told:
            return
        self._told = epoch
        void = not math.isfinite(value)
        told: dict[str, Any] = {
            PICKED: picked,
            EPOCH: epoch + 1,
            FINAL: final,
            VALUES: dict(values),
            VOID: void,
        }
        told |= {name: values.get(name, math.nan) for name in self._others}
        told |= {self._metric: value, VALUE: self._worst if void else value}
        handing = nullcontext() if self._handed_on is None or final else self._handed_on.after(epoch)
        try:
            with handing as state:
                tune.report(told, checkpoint=state)
        except SystemExit as stop:
            self.stopped = True
            raise self._stop(f"after epoch {epoch} at {value:g}") from stop

    def _stop(self, when: str) -> BaseException:
        if self._handed_on is not None:
            return PausedByTune(f"Tune paused trial {self.number} {when}")
        return StoppedByTune(f"Tune stopped trial {self.number} {when}")

    def give_up(self, reason: str) -> None:
        """Say that this process can record no more: whoever runs the search then takes no further trial.

        Tune wants all keys of every report; the epoch is one that it knows.
        """
        if self.stopped:
            return
        known: dict[str, Any] = dict.fromkeys(self._others, math.nan)
        known |= {PICKED: self._worst, EPOCH: self._told + 1, FINAL: False, VALUES: {}, VOID: True}
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
