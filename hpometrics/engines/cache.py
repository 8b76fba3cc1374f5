"""PrefixCache: each stage of an engine is carried out once for all candidates that share what leads to it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

from ..exceptions import EngineError, EngineParamsError
from ..run.seeds import derive_seed
from .engine import Engine, Fold
from .engine_params import EngineParams
from .prefixes import STAGES, Keeper, Planned, Prefix, Prefixes, Recent
from .shelf import Shelf
from .stage import Stage
from .stages import EvaluatedFold, Stages
from .streams import seeded_streams

__all__ = ["EvaluatedFold", "PrefixCache", "StageCount"]

T = TypeVar("T")


class StageCount(NamedTuple):
    """How often a stage was carried out, and how often it would have been without a cache."""

    executed: int
    asked: int


class PrefixCache:
    """Evaluates candidates on the folds of an engine and keeps what the next ones need.

    Outputs are looked up by structural keys, made once however many threads ask, and kept as long as one of
    the candidates needs them. A stage that fails raises for all who wait for it; who asks next tries again.

    Args:
        engine: the stages.
        candidates: all engine params that will be asked for, in any order; None if they are not known, as in
            a search: then the outputs asked for last are kept.
        cache: False carries out every stage for every candidate, which also takes params without a structure.
        keep: how many outputs of each stage are kept where the candidates are not known.
        seed: every stage starts the random streams of Python, NumPy and (where it is loaded) torch from it,
            so that what it draws does not depend on which stages were carried out before; None leaves them
            alone. Threads share these streams: stages that run in several take a generator of their own from
            their params.

    Raises:
        EngineParamsError: a candidate's params hold a value without a structure.
        EngineError: the engine's `shares` names no stage.

    >>> class Shift(Engine):
    ...     def read_eval(self, params):
    ...         yield [1, 2, 3], "fold", [(10, 12), (20, 22)]
    ...     def train(self, prepared, name, params):
    ...         return params["by"]
    ...     def predict(self, model, queries):
    ...         return [query + model for query in queries]
    >>> candidates = [EngineParams(algorithms={"by": by}) for by in (1, 2)]
    >>> cache = PrefixCache(Shift(), candidates)
    >>> [cache.folds(params)[0].results for params in candidates]
    [[(10, 11, 12), (20, 21, 22)], [(10, 12, 12), (20, 22, 22)]]
    >>> cache.counts["data_source"], cache.counts["algorithms"]
    (StageCount(executed=1, asked=2), StageCount(executed=2, asked=2))
    """

    def __init__(
        self,
        engine: Engine,
        candidates: Iterable[EngineParams] | None = None,
        *,
        cache: bool = True,
        keep: int = 4,
        seed: int | None = 0,
    ) -> None:
        if keep < 1:
            raise EngineError(f"keep is how many outputs of each stage are kept, at least 1; got {keep}")
        self._stages = Stages(engine)
        self._seed = seed
        self._lock = threading.Lock()
        self._executed: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()
        self._shelf = Shelf(_keeper(candidates, keep)) if cache else None

    def __len__(self) -> int:
        """How many outputs are kept or being made."""
        return len(self._shelf) if self._shelf is not None else 0

    @property
    def counts(self) -> dict[str, StageCount]:
        """For each stage how often it was carried out and asked for; of algorithms each one counts."""
        with self._lock:
            return {stage: StageCount(self._executed[stage], self._asked[stage]) for stage in STAGES}

    def __str__(self) -> str:
        counts = self.counts
        executed, asked = (sum(column) for column in zip(*counts.values(), strict=True))
        parts = ", ".join(f"{stage} {count.executed}/{count.asked}" for stage, count in counts.items())
        return f"{executed} of {asked} stages carried out ({parts})"

    def folds(self, engine_params: EngineParams) -> list[EvaluatedFold]:
        """Evaluate one candidate: for each fold its info and the list of (query, predicted, actual).

        Raises:
            EngineError: a stage gives what the next cannot take; and whatever a stage raises.
        """
        prefixes = (
            Prefixes.of(engine_params) if self._shelf is not None else Prefixes.without_keys(engine_params)
        )
        with self._lock:
            self._asked.update(prefix.stage for prefix in prefixes.all())
        way = _Way(engine_params, prefixes, self._stages, self._output)
        return way.served() if self._shelf is None else self._through(way, self._shelf)

    def _through(self, way: _Way, shelf: Shelf) -> list[EvaluatedFold]:
        """What is kept for a candidate of the same params is not given away itself."""
        last = False
        try:
            served = way.served()
        finally:
            last = shelf.leave(way.prefixes)
        return served if last else self._stages.isolation.hand_out(served, "serving")

    def _output(self, prefix: Prefix, needs: Callable[[], tuple[Any, ...]], make: Callable[..., T]) -> T:
        carry_out = partial(self._carry_out, prefix.stage, needs, make)
        return carry_out() if self._shelf is None else self._shelf.get(prefix, carry_out)

    def _carry_out(self, stage: str, needs: Callable[[], tuple[Any, ...]], make: Callable[..., T]) -> T:
        given = needs()  # earlier stages count, draw and fail for themselves
        with self._lock:
            self._executed[stage] += 1
        seed = None if self._seed is None else derive_seed(self._seed, STAGES.index(stage))
        with seeded_streams(seed):
            return make(*given)


class _Way:
    """One candidate's way through the stages: each is asked for what the one after it needs."""

    def __init__(
        self, engine_params: EngineParams, prefixes: Prefixes, stages: Stages, output: Callable[..., Any]
    ) -> None:
        self.prefixes = prefixes
        self._params, self._stages, self._output = engine_params, stages, output

    def served(self) -> list[EvaluatedFold]:
        serve = partial(self._stages.serve, self._params.serving)
        served: list[EvaluatedFold] = self._output(self.prefixes.serving, self._to_serve, serve)
        return served

    @cached_property
    def _folds(self) -> list[Fold]:
        read = partial(self._stages.read, self._params.data_source)
        folds: list[Fold] = self._output(self.prefixes.data_source, tuple, read)
        return folds

    @cached_property
    def _prepared(self) -> list[Any]:
        prepare = partial(self._stages.prepare, self._params.preparator)
        prepared: list[Any] = self._output(self.prefixes.preparator, lambda: (self._folds,), prepare)
        return prepared

    def _to_serve(self) -> tuple[list[Fold], list[list[Sequence[Any]]]]:
        both = zip(self.prefixes.algorithms, self._params.algorithms, strict=True)
        predictions = [self._predicted(prefix, algorithm) for prefix, algorithm in both]
        return self._folds, predictions

    def _predicted(self, prefix: Prefix, algorithm: Stage) -> list[Sequence[Any]]:
        predict = partial(self._stages.predict, algorithm)
        predicted: list[Sequence[Any]] = self._output(prefix, lambda: (self._prepared, self._folds), predict)
        return predicted


def _keeper(candidates: Iterable[EngineParams] | None, keep: int) -> Keeper:
    if candidates is None:
        return Recent(keep)
    return Planned(_prefixes(index, one) for index, one in enumerate(candidates))


def _prefixes(index: int, engine_params: EngineParams) -> Prefixes:
    try:
        return Prefixes.of(engine_params)
    except EngineParamsError as err:
        raise EngineParamsError(f"entry {index} of the list of engine params: {err}") from err
