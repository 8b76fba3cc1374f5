"""OptunaObjective: a callable for `study.optimize` whose direction is the metric's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import BaseTrial

from .exceptions import NoFiniteValueError, NotYetError, ObjectiveError, RunError
from .logs.loggers import LoggerLike
from .objective import Objective
from .run.ranks import Ranks
from .run.spec import Train
from .run.trials import as_space, make_trials
from .search.epoch_log import Fsync
from .search.one_se import Pick
from .search.optuna_backend import (
    OptunaReporter,
    check_study,
    make_pruner,
    make_sampler,
    study_records,
    write_result,
)
from .search.record import TrialRecord, TrialState
from .search.reporter import ListReporter
from .search.selection import Best, best_of
from .search.space import Space
from .search.study_origin import check_origin


class OptunaObjective:
    """Draws params, trains, reports every epoch and returns the value of the picked one.

    Args:
        train: `train(params, run)`.
        space: a `Space` or the mapping that makes one.
        directory, seed, fsync, loggers, repeats, retries: see `Trials`.
        facts: see `RunSpec`: `metric`, `output`, `track`, `at`, `epochs`, `patience`, ...
    """

    def __init__(
        self,
        train: Train,
        space: Space | Mapping[str, Any],
        *,
        directory: Path | str | None = None,
        seed: int | None = None,
        fsync: Fsync = "epoch",
        loggers: Sequence[LoggerLike] = (),
        repeats: int = 1,
        retries: int = 0,
        **facts: Any,
    ) -> None:
        self.space = as_space(space)
        self.trials = make_trials(
            train, directory, seed, fsync, loggers, facts, self.space.params, repeats, retries
        )
        self._study: optuna.Study | None = None

    @property
    def direction(self) -> Objective:
        """The metric's own; Optuna takes it as it is."""
        return self.trials.spec.objective

    def create_study(self, **arguments: Any) -> optuna.Study:
        """Create a study in the metric's direction.

        Args:
            arguments: those of `optuna.create_study`; `sampler` and `pruner` may be names (see
                `make_sampler` and `make_pruner`). A sampler made here has this objective's seed.

        Raises:
            ObjectiveError: `direction` says otherwise.
        """
        self._check_direction(arguments)
        sampler, pruner = arguments.pop("sampler", None), arguments.pop("pruner", None)
        sampler = make_sampler("tpe" if sampler is None else sampler, self.trials.seed)
        if pruner is not None:
            pruner = make_pruner(pruner, self.trials.spec.epochs)
        study = optuna.create_study(
            **{**arguments, "direction": self.direction.value}, sampler=sampler, pruner=pruner
        )
        self._check(study)
        return study

    def __call__(self, trial: BaseTrial) -> float:
        """Run one trial and return its value; a run without a finite value returns nan, which Optuna fails.

        Raises:
            optuna.TrialPruned: the pruner stopped it.
            Exception: what `train` raised, after it is recorded.
        """
        study = getattr(trial, "study", None)
        if study is not None and study is not self._study:
            self._check(study)
        params = self.space.suggest(trial)
        live = isinstance(trial, optuna.trial.Trial)  # a fixed or frozen one is a replay
        record, error = self.trials.run(params, OptunaReporter(trial), keep=live)
        write_result(trial, record)
        if isinstance(error, NoFiniteValueError):
            return math.nan
        if error is not None:
            raise error
        return math.nan if record.value is None else record.value

    def optimize(self, study: optuna.Study | None = None, **arguments: Any) -> None:
        """Run `study.optimize` on the first rank of a process group, and each of its trials on all.

        Every rank calls it, once the group is there; `train` gets the same params on all of them, and a trial
        that is stopped ends on all at the same epoch. What `train` raises on one rank ends its process: there
        is nobody left whom the others could wait for.

        Args:
            study: that of the first rank; the others have none.
            arguments: those of `study.optimize`, but no `catch` and no `n_jobs`.

        Raises:
            RunError: the first rank has no study, or an argument, or a retry, would let ranks go apart.
            RankError: another rank has failed.
        """
        ranks = Ranks()
        if self.trials.retries and not ranks.alone:
            raise RunError("leave retries= out: ranks fail together, and nobody is left to try again")
        if not ranks.leads:
            while (told := ranks.from_first(_nothing)) is not None:
                self._follow(*told)
            return
        for name in {"catch", "n_jobs"} & arguments.keys():
            raise RunError(
                f"leave {name}= out: all ranks carry out one trial after the other, and fail together"
            )
        if study is None:
            raise RunError("the first rank optimises a study; objective.create_study() makes one")

        def led(trial: optuna.Trial) -> float:
            ranks.from_first(lambda: (trial.number, self.space.suggest(trial)))
            return self(trial)

        study.optimize(led, **arguments)
        ranks.from_first(_nothing)

    def _follow(self, number: int, params: Mapping[str, Any]) -> None:
        """Carry out a trial of the first rank; its host and its directory are there."""
        record, error = self.trials.run(params, ListReporter(number, params))
        shared = record.state is TrialState.PRUNED or isinstance(error, NoFiniteValueError)
        if error is not None and not shared:
            raise error

    def records(self, study: optuna.Study) -> list[TrialRecord]:
        """Return the record of every trial of a study, with all its epochs where they are on disk."""
        return [
            self.trials.with_epochs(record) if record.state.finished else record
            for record in study_records(study)
        ]

    def best(self, study: optuna.Study, pick: Pick | str = Pick.BEST) -> Best:
        """Return the best trial of a study.

        Args:
            study: with its trials.
            pick: `best`, or `one_se`, the simplest within its error; see `simplest_within_error`.

        Raises:
            NoFiniteValueError: none is complete, or `one_se` finds no repeats.
        """
        return best_of(self.records(study), self.trials.spec.name, self.direction, pick)

    def _check_direction(self, arguments: Mapping[str, Any]) -> None:
        if arguments.get("directions") is not None:
            raise NotYetError("several objectives are not built yet; leave directions= out")
        stated = arguments.get("direction")
        if stated is not None and Objective.parse(getattr(stated, "name", stated)) is not self.direction:
            raise ObjectiveError(
                f"{self.trials.spec.name} is to {self.direction.value}, but direction= says {stated}"
            )

    def _check(self, study: optuna.Study) -> None:
        facts = {"constraints": self.trials.spec.bounded}
        check_study(study, self.trials.spec.name, self.direction, facts)
        check_origin(study, [self.trials.spec.name], self.space)
        self._study = study


def _nothing() -> None:
    """What follows the last trial."""
