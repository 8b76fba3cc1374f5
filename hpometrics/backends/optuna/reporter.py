"""Optuna as a host: a trial as a reporter; with it what `optuna_study` and `optuna_samplers` offer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import optuna
from optuna.pruners import NopPruner
from optuna.trial import BaseTrial

from ...direction import Objective
from ...records.trial_record import Reading
from ...run.reporter import derive_seed
from ..plugins import check_several
from .samplers import PRUNERS, SAMPLERS, SeededSampler, make_pruner, make_sampler, own_pruner
from .storage import close_storage, open_storage, storing
from .study import (
    PRUNED,
    check_direction,
    check_study,
    finish,
    open_study,
    study_records,
    tell,
    without_notices,
    write_panel,
    write_result,
)
from .trial_queue import claim, reclaim, reclaim_or_claim, reserve

__all__ = [
    "PRUNERS",
    "SAMPLERS",
    "OptunaReporter",
    "SeededSampler",
    "check_direction",
    "check_several",
    "check_study",
    "claim",
    "close_storage",
    "derive_seed",
    "finish",
    "make_pruner",
    "make_sampler",
    "open_storage",
    "open_study",
    "own_pruner",
    "reclaim",
    "reclaim_or_claim",
    "reserve",
    "storing",
    "study_records",
    "tell",
    "without_notices",
    "write_panel",
    "write_result",
]


class OptunaReporter:
    """Reports a run to an Optuna trial, one step per epoch counted from 0, and raises `TrialPruned`.

    Epochs that the trial already has (it was killed and goes on, or it is tried again) are left as they are;
    after the newest of them the pruner is asked again, and a trial that it had stopped stays stopped.

    Args:
        trial: of `study.optimize`, `study.ask`, `claim`; a `FixedTrial` works too and never stops.
        keeps_panel: whether the values of the picked epoch become attributes of the trial; see `write_panel`.
    """

    def __init__(self, trial: BaseTrial, keeps_panel: bool = True) -> None:
        self.trial, self._keeps_panel = trial, keeps_panel
        self.number: int | None = trial.number
        self.stops: tuple[type[BaseException], ...] = (optuna.TrialPruned,)
        # A Trial's public properties read the storage anew; its own copy has what was there at the start.
        known = getattr(trial, "_cached_frozen_trial", trial)
        self._known: set[int] = set(getattr(known, "intermediate_values", ()))
        self._newest = max(self._known, default=-1)
        self._pruned: int | None = known.user_attrs.get(PRUNED)
        pruner = getattr(getattr(trial, "study", None), "pruner", None)
        self._prunes = type(pruner) is not NopPruner  # which would look at the trial and let it go on
        self._silent = False
        self._metrics: list[str] = [""]

    @property
    def params(self) -> Mapping[str, Any] | None:
        """What the trial has drawn so far, in its stored form."""
        return dict(self.trial.params)

    def check(self, optimized: Mapping[str, Objective]) -> None:
        """Refuse metrics whose objectives are not the directions of the trial's study.

        Raises:
            ObjectiveError: they differ; both are named.
        """
        self._silent = len(optimized) > 1  # Optuna takes no reports of several objectives
        self._metrics = list(optimized)
        study = getattr(self.trial, "study", None)
        if study is not None:
            check_direction(study, optimized)

    def report(
        self, epoch: int, value: float, picked: float, values: Mapping[str, float], final: bool
    ) -> None:
        """Report the current value of an epoch and let the pruner stop the trial.

        Nothing is reported for several objectives, nor for an epoch in which the metric was not measured: a
        pruner would take nan for the worst value.

        Raises:
            optuna.TrialPruned: the pruner says so; never at the final epoch, whose run is complete.
            DiskError: the study cannot be written.
        """
        unmeasured = math.isnan(value) and self._metrics[0] not in values
        if self._silent or unmeasured or (epoch in self._known and epoch < self._newest):
            return
        with storing():
            if epoch not in self._known:
                self.trial.report(value, epoch)
                self._known.add(epoch)
                self._newest = max(self._newest, epoch)
            if final or not (self._pruned == epoch or (self._prunes and self.trial.should_prune())):
                return
            self.trial.set_user_attr(PRUNED, epoch)  # asha does not say it twice
            raise optuna.TrialPruned(
                f"the pruner stopped trial {self.number} after epoch {epoch} at {value:g}"
            )

    def keep_picked(self, epoch: int, values: Mapping[str, Reading]) -> None:
        """Keep the values of the picked epoch with the trial, as its run ends.

        Raises:
            DiskError: the study cannot be written.
        """
        if self._keeps_panel:
            with storing():
                write_panel(self.trial, self._metrics, epoch, values)
