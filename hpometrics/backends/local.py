"""An objective that trains a list of params in this process, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..records.trial_record import TrialRecord
from ..run.reporter import ListReporter
from ..run.spec import Train
from ..run.trials import as_space
from ..space.space import Space
from .base_objective import BaseObjective


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
        return [self._run_one(number, params) for number, params in enumerate(self.params)]

    def records(self, of: Sequence[TrialRecord]) -> list[TrialRecord]:
        """Return the records as a list of their own.

        Args:
            of: what `run` returned.
        """
        return list(of)

    def _run_one(self, number: int, params: Mapping[str, Any]) -> TrialRecord:
        record, error = self.trials.run(params, ListReporter(number=number, params=params))
        if error is not None and not record.state.finished:
            raise error
        return record

    def _values(self) -> dict[str, tuple[Any, ...]]:
        values: dict[str, tuple[Any, ...]] = {}
        for one in self.params:
            for name, value in one.items():
                values[name] = (*values.get(name, ()), value)
        return values
