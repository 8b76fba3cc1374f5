"""The objective of every backend, with its trials and the best of them, and that of a list of params."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..direction import Direction
from ..exceptions import DirectionError
from ..loggers.registry import LoggerLike
from ..records.epoch_log import Fsync
from ..records.trial_record import TrialRecord
from ..run.reporter import ListReporter
from ..run.spec import Train
from ..run.trials import as_space, make_trials
from ..selection.rules import Pick
from ..selection.selection import Best, best_by, pareto_front
from ..space.space import Space


class BaseObjective:
    """The trials of a search, their records and the best of them.

    Args:
        train: `train(params, run)`.
        space: a `Space` or the mapping of one.
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
            train, directory, seed, fsync, loggers, facts, self._values(), repeats, retries
        )

    @property
    def optimized(self) -> Mapping[str, Direction]:
        """The direction of each metric that is optimized, by name."""
        return self.trials.spec.optimized

    @property
    def directions(self) -> list[Direction]:
        """The direction of each metric that is optimized, in their order."""
        return list(self.optimized.values())

    @property
    def direction(self) -> Direction:
        """The direction of the metric, as the backends take it.

        Raises:
            DirectionError: there are several metrics; `directions` has theirs.
        """
        if len(self.optimized) > 1:
            goals = ", ".join(f"{name} must be {one.value}d" for name, one in self.optimized.items())
            raise DirectionError(f"several objectives have no one direction: {goals}; ask for directions")
        return self.directions[0]

    def records(self, of: Any) -> list[TrialRecord]:
        """Return the record of every trial.

        Args:
            of: the study or the results that have the trials.
        """
        raise NotImplementedError(f"{type(self).__name__} says where the records of {of!r} are")

    def best(self, of: Any = None, pick: Pick | str = "best") -> Best:
        """Return the best trial.

        Args:
            of: see `records`.
            pick: `best`, or `one_se`, the simplest within its error; see `simplest_within_error`. For several
                objectives `knee`, or the number of a trial of the front; see `knee_of`.

        Raises:
            NoFiniteValueError: no trial is complete, or `one_se` finds no repeats.
            ConfigError: there are several objectives and `pick` is `best`, or there is no such way to pick.
        """
        return best_by(self.records(of), self.optimized, pick)

    def front(self, of: Any = None) -> list[Best]:
        """Return the feasible trials that no other one dominates, best first by the first objective.

        Args:
            of: see `records`.

        Raises:
            NoFiniteValueError: no trial is complete.
        """
        return [Best.of(record, self.optimized) for record in pareto_front(self.records(of), self.optimized)]

    def _values(self) -> Mapping[str, Sequence[Any]]:
        """Return each param that a trial may have, with the values that it can take."""
        return self.space.params


class ListObjective(BaseObjective):
    """Trains each params of a list; a failure is recorded and the list continues.

    Args:
        train: `train(params, run)`.
        params: one mapping per trial.
        space: checks the params and adds its constants; None takes them as they are.
        settings: see `BaseObjective`, its facts included: `metric`, `output`, `directory`, `seed`, ...
    """

    def __init__(
        self,
        train: Train,
        params: Iterable[Mapping[str, Any]],
        *,
        space: Space | Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        own = None if space is None else as_space(space)
        self.params = [dict(p) if own is None else own.decode(own.encode(p)) for p in params]
        super().__init__(train, own or {}, **settings)

    def run(self) -> list[TrialRecord]:
        """Train all of them and return their records.

        Raises:
            KeyboardInterrupt: after the trial that it struck is recorded as interrupted.
        """
        records = []
        for number, params in enumerate(self.params):
            record, error = self.trials.run(params, ListReporter(number=number, params=params))
            if error is not None and not record.state.finished:
                raise error
            records.append(record)
        return records

    def records(self, of: Sequence[TrialRecord]) -> list[TrialRecord]:
        """Return the records as a list of their own.

        Args:
            of: what `run` returned.
        """
        return list(of)

    def _values(self) -> dict[str, tuple[Any, ...]]:
        values: dict[str, tuple[Any, ...]] = {}
        for one in self.params:
            for name, value in one.items():
                values[name] = (*values.get(name, ()), value)
        return values
