"""OptunaObjective: a callable for `study.optimize` whose direction is the metric's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import optuna
from optuna.trial import BaseTrial

from .exceptions import NoFiniteValueError, ObjectiveError, RunError
from .objective import Objective
from .run.outcome import Outcome
from .run.ranks import Ranks
from .search.optuna_backend import (
    OptunaReporter,
    check_several,
    check_study,
    make_pruner,
    make_sampler,
    own_pruner,
    study_records,
    write_panel,
    write_result,
)
from .search.record import TrialRecord, TrialState
from .search.reporter import ListReporter
from .search.study_origin import check_origin


class OptunaObjective(Outcome):
    """Draws params, trains, reports every epoch and returns the value of the picked one.

    Of several objectives nothing is reported, as Optuna prunes by one value alone; the values of the picked
    epoch are returned. See `Outcome` for the arguments.
    """

    _study: optuna.Study | None = None

    def create_study(self, **arguments: Any) -> optuna.Study:
        """Create a study in the direction of each metric.

        Args:
            arguments: those of `optuna.create_study`; `sampler` and `pruner` may be names (see
                `make_sampler` and `make_pruner`). A sampler made here has this objective's seed.

        Raises:
            ObjectiveError: `direction` or `directions` says otherwise.
            ConfigError: a sampler or pruner that knows one objective is to search for several.
        """
        self._check_directions(arguments)
        sampler, pruner = arguments.pop("sampler", None), arguments.pop("pruner", None)
        check_several(self.optimised, sampler, pruner)
        sampler = make_sampler("tpe" if sampler is None else sampler, self.trials.seed)
        if pruner is None and len(self.optimised) > 1:
            pruner = "none"
        if pruner is not None:
            pruner = make_pruner(pruner, self.trials.spec.epochs)
        told = {name: value for name, value in arguments.items() if name not in ("direction", "directions")}
        directions: Any = [direction.value for direction in self.directions]
        study = optuna.create_study(**told, directions=directions, sampler=sampler, pruner=pruner)
        self._check(study)
        return study

    def __call__(self, trial: BaseTrial) -> float | tuple[float, ...]:
        """Run one trial and return its value; a run without a finite value returns nan, which Optuna fails.

        Of several objectives these are the values in their order.

        Raises:
            optuna.TrialPruned: the pruner stopped it.
            Exception: what `train` raised, after it is recorded.
        """
        study = getattr(trial, "study", None)
        if study is not None and study is not self._study:
            self._check(study)
        params = self.space.suggest(trial)
        live = isinstance(trial, optuna.trial.Trial)  # a fixed or frozen one is a replay
        record, error = self.trials.run(params, OptunaReporter(trial, keeps_panel=False), keep=live)
        write_result(trial, record)
        if record.epoch is not None:
            write_panel(trial, list(self.optimised), record.epoch, record.picked_values)
        if error is not None and not isinstance(error, NoFiniteValueError):
            raise error
        scores = record.scores(self.optimised)
        whole = scores if error is None else (math.nan,) * len(scores)
        return whole if len(whole) > 1 else whole[0]

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

        def led(trial: optuna.Trial) -> float | tuple[float, ...]:
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

    def records(self, of: optuna.Study) -> list[TrialRecord]:
        """Return the record of every trial of a study, with all its epochs where they are on disk.

        Args:
            of: the study.
        """
        return [
            self.trials.with_epochs(record) if record.state.finished else record
            for record in study_records(of)
        ]

    def _check_directions(self, arguments: Mapping[str, Any]) -> None:
        given, one = arguments.get("directions"), arguments.get("direction")
        if given is None and one is None:
            return
        stated: list[Any] = [one] if given is None else list(given)
        if [Objective.parse(getattr(one, "name", one)) for one in stated] != self.directions:
            told = ", ".join(f"{name} is to {objective.value}" for name, objective in self.optimised.items())
            word = "direction" if given is None else "directions"
            raise ObjectiveError(f"{told}, but {word}= says {', '.join(map(str, stated))}")

    def _check(self, study: optuna.Study) -> None:
        check_several(self.optimised, study.sampler, own_pruner(study))
        check_study(study, self.optimised, {"constraints": self.trials.spec.bounded})
        check_origin(study, list(self.optimised), self.space)
        self._study = study


def _nothing() -> None:
    """What follows the last trial."""
