"""ListObjective: a list of params, each trained once, in order, in this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .logs.loggers import LoggerLike
from .objective import Objective
from .run.spec import Train
from .run.trials import as_space, make_trials
from .search.epoch_log import Fsync
from .search.one_se import Pick
from .search.record import TrialRecord
from .search.reporter import ListReporter
from .search.selection import Best, best_of
from .search.space import Space


class ListObjective:
    """Trains every params of a list; a failure is recorded and the list goes on.

    Args:
        train: `train(params, run)`.
        params: one mapping per trial.
        space: checks the params and adds its constants; None takes them as they are.
        directory, seed, fsync, loggers, repeats, retries: see `Trials`.
        facts: see `RunSpec`: `metric`, `output`, `track`, `at`, `epochs`, `patience`, ...
    """

    def __init__(
        self,
        train: Train,
        params: Iterable[Mapping[str, Any]],
        *,
        space: Space | Mapping[str, Any] | None = None,
        directory: Path | str | None = None,
        seed: int | None = None,
        fsync: Fsync = "epoch",
        loggers: Sequence[LoggerLike] = (),
        repeats: int = 1,
        retries: int = 0,
        **facts: Any,
    ) -> None:
        known = None if space is None else as_space(space)
        self.params = [dict(p) if known is None else known.decode(known.encode(p)) for p in params]
        self.trials = make_trials(
            train, directory, seed, fsync, loggers, facts, _values(self.params), repeats, retries
        )

    @property
    def direction(self) -> Objective:
        """The metric's own."""
        return self.trials.spec.objective

    def run(self) -> list[TrialRecord]:
        """Train all of them and return their records.

        Raises:
            KeyboardInterrupt: after the trial that it struck is recorded as interrupted.
        """
        return [self._run_one(number, params) for number, params in enumerate(self.params)]

    def best(self, records: Sequence[TrialRecord], pick: Pick | str = Pick.BEST) -> Best:
        """Return the best trial.

        Args:
            records: of `run`.
            pick: `best`, or `one_se`, the simplest within its error; see `simplest_within_error`.

        Raises:
            NoFiniteValueError: none is complete, or `one_se` finds no repeats.
        """
        return best_of(records, self.trials.spec.name, self.direction, pick)

    def _run_one(self, number: int, params: Mapping[str, Any]) -> TrialRecord:
        record, error = self.trials.run(params, ListReporter(number=number, params=params))
        if error is not None and not record.state.finished:
            raise error
        return record


def _values(params: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Each param with the values that it has."""
    found: dict[str, tuple[Any, ...]] = {}
    for one in params:
        for name, value in one.items():
            found[name] = (*found.get(name, ()), value)
    return found
