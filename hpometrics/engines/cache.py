"""PrefixCache: each stage of an engine is carried out once for all candidates that share what leads to it."""

from __future__ import annotations

import random
import sys
import threading
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from ..exceptions import EngineError, EngineParamsError
from ..run.reporter import derive_seed
from .engine import Engine, Fold, Stage
from .engine_params import EngineParams
from .stages import EvaluatedFold, Stages

__all__ = ["EvaluatedFold", "PrefixCache", "StageCount"]


@contextmanager
def seeded_streams(seed: int | None) -> Iterator[None]:
    """Start every random stream from a seed, and restore it afterwards; torch's only if torch is loaded.

    Args:
        seed: None leaves the streams alone.

    Warns:
        RuntimeWarning: torch was loaded on the way, so that its stream could not be started.
    """
    if seed is None:
        yield
        return
    before, numpy_before = random.getstate(), np.random.get_state(legacy=True)
    torch = sys.modules.get("torch")
    random.seed(seed)
    np.random.seed(seed % 2**32)
    try:
        with nullcontext() if torch is None else _forked(torch):
            if torch is not None:
                torch.manual_seed(seed)
            yield
    finally:
        random.setstate(before)
        np.random.set_state(numpy_before)
    if torch is None and "torch" in sys.modules:
        warnings.warn(
            "a stage has loaded torch, whose random stream was not seeded for it; import torch at the top of "
            "the engine's module",
            RuntimeWarning,
            stacklevel=4,
        )


def _forked(torch: Any) -> AbstractContextManager[Any]:
    """Return a context that restores the streams of torch on the CPU and on each accelerator."""
    if not torch.accelerator.is_available():  # before torch 2.7 the current one is asked for in vain
        return torch.random.fork_rng(devices=[])  # type: ignore[no-any-return]
    device, devices = torch.accelerator.current_accelerator(), range(torch.accelerator.device_count())
    return torch.random.fork_rng(devices=devices, device_type=device.type)  # type: ignore[no-any-return]


STAGES = ("data_source", "preparator", "algorithms", "serving")


class Prefix(NamedTuple):
    """One output of one stage: which stage, and the keys of all that it depends on."""

    stage: str
    keys: Hashable


class Prefixes(NamedTuple):
    """The outputs that one candidate needs. Each algorithm is on its own: others beside it do not matter."""

    data_source: Prefix
    preparator: Prefix
    algorithms: tuple[Prefix, ...]
    serving: Prefix

    @classmethod
    def of(cls, engine_params: EngineParams) -> Prefixes:
        """Name them.

        Raises:
            EngineParamsError: a value of the params has nothing but its identity.
        """
        source, preparator, algorithms, serving = engine_params.key
        return cls(
            Prefix(STAGES[0], source),
            Prefix(STAGES[1], (source, preparator)),
            tuple(Prefix(STAGES[2], (source, preparator, one)) for one in algorithms),
            Prefix(STAGES[3], (source, preparator, algorithms, serving)),
        )

    @classmethod
    def without_keys(cls, engine_params: EngineParams) -> Prefixes:
        """Name the stages alone, of params that may have no structure."""
        one = (Prefix(STAGES[2], None),) * len(engine_params.algorithms)
        return cls(Prefix(STAGES[0], None), Prefix(STAGES[1], None), one, Prefix(STAGES[3], None))

    def all(self) -> Iterator[Prefix]:
        """Each output, in the order of the stages."""
        yield from (self.data_source, self.preparator, *self.algorithms, self.serving)

    def needs(self) -> Iterator[tuple[Prefix, Prefix]]:
        """Each output with one that is made from it."""
        yield self.data_source, self.preparator
        for algorithm in self.algorithms:
            yield self.data_source, algorithm
            yield self.preparator, algorithm
            yield algorithm, self.serving
        yield self.data_source, self.serving


class Keeper(Protocol):
    """Says which outputs are kept; its caller holds a lock."""

    def touched(self, prefix: Prefix) -> None:
        """Take note that an output is asked for."""

    def made(self, prefix: Prefix) -> list[Prefix]:
        """Take note that an output is there; return what need not be kept any more, perhaps itself."""

    def done(self, prefixes: Prefixes) -> list[Prefix]:
        """Take note that a candidate has its folds or has failed; return what need not be kept any more."""


class Planned:
    """Keeps an output as long as a candidate that is still to come needs it, or something made from it.

    An output goes when all that is made from it has been made: the one of `prepare` when all algorithms have
    been trained on it, whatever servings are still to come.
    """

    def __init__(self, candidates: Iterable[Prefixes]) -> None:
        self._left: Counter[Prefix] = Counter()
        self._users: dict[Prefix, set[Prefix]] = {}
        self._sources: dict[Prefix, set[Prefix]] = {}
        for prefixes in candidates:
            self._left[prefixes.serving] += 1
            for source, user in prefixes.needs():
                self._users.setdefault(source, set()).add(user)
                self._sources.setdefault(user, set()).add(source)

    def touched(self, prefix: Prefix) -> None:
        """Nothing depends on it."""

    def made(self, prefix: Prefix) -> list[Prefix]:
        """What was only needed for this goes, and this too if nobody is to come for it."""
        alone = not self._users.get(prefix) and self._left[prefix] <= 1
        return [*self._release(prefix), *([prefix] if alone else [])]

    def done(self, prefixes: Prefixes) -> list[Prefix]:
        """The last candidate of its kind takes with it what only it needs, made or not."""
        self._left[prefixes.serving] -= 1
        if self._left[prefixes.serving] > 0:
            return []
        del self._left[prefixes.serving]
        return [prefixes.serving, *self._release(prefixes.serving)]

    def _release(self, user: Prefix) -> list[Prefix]:
        """Strike a user off; a source without users goes, and with it its own claims."""
        gone = []
        for source in self._sources.pop(user, ()):
            self._users[source].discard(user)
            if not self._users[source]:
                del self._users[source]
                gone += [source, *self._release(source)]
        return gone


class Recent:
    """Keeps the outputs asked for last, so many per stage: the next candidate of a search is unknown."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._asked: dict[str, OrderedDict[Prefix, None]] = {stage: OrderedDict() for stage in STAGES}

    def touched(self, prefix: Prefix) -> None:
        """It was asked for last."""
        if prefix in self._asked[prefix.stage]:
            self._asked[prefix.stage].move_to_end(prefix)

    def made(self, prefix: Prefix) -> list[Prefix]:
        """It takes the place of the one not asked for the longest."""
        asked = self._asked[prefix.stage]
        asked[prefix] = None
        return [asked.popitem(last=False)[0] for _ in range(len(asked) - self._keep)]

    def done(self, prefixes: Prefixes) -> list[Prefix]:
        """Another may come."""
        return []


class Shelf:
    """A store of outputs with a single flight per prefix.

    Whoever asks first makes the output. If that fails, all who wait see the error, nothing is kept, and who
    asks next tries again.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._lock = threading.Lock()
        self._flights: dict[Prefix, Future[Any]] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def get(self, prefix: Prefix, make: Callable[[], Any]) -> Any:
        """Return an output that is here, that another thread is making, or that `make` returns."""
        flight: Future[Any] = Future()
        with self._lock:
            first = self._flights.setdefault(prefix, flight)
            self._keeper.touched(prefix)
        return self._made(prefix, flight, make) if first is flight else first.result()

    def leave(self, prefixes: Prefixes) -> bool:
        """Take note that a candidate is through; return whether it was the last to come for this."""
        with self._lock:
            gone = self._keeper.done(prefixes)
            self._drop(gone)
        return prefixes.serving in gone

    def _made(self, prefix: Prefix, flight: Future[Any], make: Callable[[], Any]) -> Any:
        try:
            made = make()
        except BaseException as err:
            with self._lock:
                self._drop([prefix])
            flight.set_exception(err)
            raise
        flight.set_result(made)
        with self._lock:
            self._drop(self._keeper.made(prefix))
        return made

    def _drop(self, prefixes: Iterable[Prefix]) -> None:
        for prefix in prefixes:
            self._flights.pop(prefix, None)


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
