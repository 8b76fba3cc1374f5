"""A cache of an engine's stages: candidates that share all params up to a stage share its output."""

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

T = TypeVar("T")

STAGES = ("data_source", "preparator", "algorithms", "serving")


@contextmanager
def seeded_streams(seed: int | None) -> Iterator[None]:
    """Seed every random stream, and restore it afterwards; torch's only if torch is loaded.

    Args:
        seed: the seed; None leaves the streams alone.

    Warns:
        RuntimeWarning: torch was loaded meanwhile, so its stream could not be seeded.
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
    if not torch.accelerator.is_available():  # before torch 2.7 there may be no current one
        return torch.random.fork_rng(devices=[])  # type: ignore[no-any-return]
    device, devices = torch.accelerator.current_accelerator(), range(torch.accelerator.device_count())
    return torch.random.fork_rng(devices=devices, device_type=device.type)  # type: ignore[no-any-return]


class Prefix(NamedTuple):
    """One output of one stage: the stage, and the keys of all that it depends on."""

    stage: str
    keys: Hashable


class Prefixes(NamedTuple):
    """The outputs that one candidate needs; each algorithm has its own, whatever others are beside it."""

    data_source: Prefix
    preparator: Prefix
    algorithms: tuple[Prefix, ...]
    serving: Prefix

    @classmethod
    def of(cls, engine_params: EngineParams) -> Prefixes:
        """Return the outputs that engine params need.

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
        """Return the stages alone, for params that may have no structure."""
        one = (Prefix(STAGES[2], None),) * len(engine_params.algorithms)
        return cls(Prefix(STAGES[0], None), Prefix(STAGES[1], None), one, Prefix(STAGES[3], None))

    def all(self) -> Iterator[Prefix]:
        """Yield each output, in the order of the stages."""
        yield from (self.data_source, self.preparator, *self.algorithms, self.serving)

    def needs(self) -> Iterator[tuple[Prefix, Prefix]]:
        """Yield each output with one that is made from it."""
        yield self.data_source, self.preparator
        for algorithm in self.algorithms:
            yield self.data_source, algorithm
            yield self.preparator, algorithm
            yield algorithm, self.serving
        yield self.data_source, self.serving


class EvictionPolicy(Protocol):
    """Decides which outputs are kept; its caller has locked it."""

    def request(self, prefix: Prefix) -> None:
        """Record that an output is requested."""

    def add(self, prefix: Prefix) -> list[Prefix]:
        """Record that an output exists; return those to evict, perhaps itself."""

    def finish(self, prefixes: Prefixes) -> list[Prefix]:
        """Record that a candidate has its folds or has failed; return the outputs to evict."""


class PlannedEviction:
    """Keeps an output as long as a later candidate needs it, or something made from it.

    An output is evicted when all that is made from it exists: the one of `prepare` when all algorithms have
    been trained on it, whatever servings follow.
    """

    def __init__(self, candidates: Iterable[Prefixes]) -> None:
        self._remaining: Counter[Prefix] = Counter()
        self._users: dict[Prefix, set[Prefix]] = {}
        self._sources: dict[Prefix, set[Prefix]] = {}
        for prefixes in candidates:
            self._remaining[prefixes.serving] += 1
            for source, user in prefixes.needs():
                self._users.setdefault(source, set()).add(user)
                self._sources.setdefault(user, set()).add(source)

    def request(self, prefix: Prefix) -> None:
        """Ignore the request: the candidates are known."""

    def add(self, prefix: Prefix) -> list[Prefix]:
        """Evict what was needed for this output alone, and the output itself if no candidate needs it."""
        alone = not self._users.get(prefix) and self._remaining[prefix] <= 1
        return [*self._release(prefix), *([prefix] if alone else [])]

    def finish(self, prefixes: Prefixes) -> list[Prefix]:
        """Evict, after the last of equal candidates, what only they need, whether it exists or not."""
        self._remaining[prefixes.serving] -= 1
        if self._remaining[prefixes.serving] > 0:
            return []
        del self._remaining[prefixes.serving]
        return [prefixes.serving, *self._release(prefixes.serving)]

    def _release(self, user: Prefix) -> list[Prefix]:
        """Remove a user from its sources; return the sources without users, and theirs in turn."""
        evicted = []
        for source in self._sources.pop(user, ()):
            self._users[source].discard(user)
            if not self._users[source]:
                del self._users[source]
                evicted += [source, *self._release(source)]
        return evicted


class LRUEviction:
    """Keeps the outputs requested last, so many per stage: the next candidate of a search is unknown."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._requests: dict[str, OrderedDict[Prefix, None]] = {stage: OrderedDict() for stage in STAGES}

    def request(self, prefix: Prefix) -> None:
        """Move the output to the end of those of its stage."""
        if prefix in self._requests[prefix.stage]:
            self._requests[prefix.stage].move_to_end(prefix)

    def add(self, prefix: Prefix) -> list[Prefix]:
        """Evict the output of the stage that was not requested for the longest time."""
        requests = self._requests[prefix.stage]
        requests[prefix] = None
        return [requests.popitem(last=False)[0] for _ in range(len(requests) - self._keep)]

    def finish(self, prefixes: Prefixes) -> list[Prefix]:
        """Evict nothing: a later candidate may be equal."""
        return []


class SingleFlight:
    """A store of outputs, each made by one thread while the others that request it wait.

    If making it fails, all that wait get the error, nothing is stored, and the next request tries again.
    """

    def __init__(self, policy: EvictionPolicy) -> None:
        self._policy = policy
        self._lock = threading.Lock()
        self._flights: dict[Prefix, Future[Any]] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def get(self, prefix: Prefix, make: Callable[[], Any]) -> Any:
        """Return an output that is stored, that another thread is making, or that `make` returns."""
        flight: Future[Any] = Future()
        with self._lock:
            first = self._flights.setdefault(prefix, flight)
            self._policy.request(prefix)
        return self._run(prefix, flight, make) if first is flight else first.result()

    def finish(self, prefixes: Prefixes) -> bool:
        """Record that a candidate has ended; return whether it was the last one with this output."""
        with self._lock:
            evicted = self._policy.finish(prefixes)
            self._drop(evicted)
        return prefixes.serving in evicted

    def _run(self, prefix: Prefix, flight: Future[Any], make: Callable[[], Any]) -> Any:
        try:
            output = make()
        except BaseException as err:
            with self._lock:
                self._drop([prefix])
            flight.set_exception(err)
            raise
        flight.set_result(output)
        with self._lock:
            self._drop(self._policy.add(prefix))
        return output

    def _drop(self, prefixes: Iterable[Prefix]) -> None:
        for prefix in prefixes:
            self._flights.pop(prefix, None)


class StageCount(NamedTuple):
    """How often a stage was executed, and how often it would have been without a cache."""

    executed: int
    requested: int


class PrefixCache:
    """Evaluates candidates on the folds of an engine and keeps the outputs that the next ones need.

    Outputs are found by structural keys, made once however many threads request them, and kept as long as one
    of the candidates needs them. A stage that fails raises in all threads that wait for it; the next request
    tries again.

    Args:
        engine: the stages.
        candidates: all engine params that will be requested, in any order; None if they are not known, as in
            a search: then the outputs requested last are kept.
        cache: False executes every stage for every candidate, which also takes params without a structure.
        keep: how many outputs of each stage are kept where the candidates are not known.
        seed: every stage seeds the random streams of Python, NumPy and (where it is loaded) torch with it, so
            what it draws does not depend on which stages were executed before; None leaves them alone.
            Threads share these streams: stages that run in several create a generator of their own from their
            params.

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
    (StageCount(executed=1, requested=2), StageCount(executed=2, requested=2))
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
        self._requests: Counter[str] = Counter()
        self._outputs = SingleFlight(_make_policy(candidates, keep)) if cache else None

    def __len__(self) -> int:
        """Return how many outputs are kept or being made."""
        return len(self._outputs) if self._outputs is not None else 0

    @property
    def counts(self) -> dict[str, StageCount]:
        """How often each stage was executed and requested; each of several algorithms counts."""
        with self._lock:
            return {stage: StageCount(self._executed[stage], self._requests[stage]) for stage in STAGES}

    def __str__(self) -> str:
        counts = self.counts
        executed, requested = (sum(column) for column in zip(*counts.values(), strict=True))
        parts = ", ".join(f"{stage} {count.executed}/{count.requested}" for stage, count in counts.items())
        return f"{executed} of {requested} stages carried out ({parts})"

    def folds(self, engine_params: EngineParams) -> list[EvaluatedFold]:
        """Evaluate one candidate: for each fold its info and the list of (query, predicted, actual).

        Raises:
            EngineError: a stage returns what the next cannot take; and whatever a stage raises.
        """
        prefixes = (
            Prefixes.of(engine_params) if self._outputs is not None else Prefixes.without_keys(engine_params)
        )
        with self._lock:
            self._requests.update(prefix.stage for prefix in prefixes.all())
        candidate = _CandidateRun(engine_params, prefixes, self._stages, self._output)
        return candidate.serve() if self._outputs is None else self._serve(candidate, self._outputs)

    def _serve(self, candidate: _CandidateRun, outputs: SingleFlight) -> list[EvaluatedFold]:
        """Return the folds of a candidate, as a copy if they are kept for another with the same params."""
        last = False
        try:
            folds = candidate.serve()
        finally:
            last = outputs.finish(candidate.prefixes)
        return folds if last else self._stages.isolation.hand_out(folds, "serving")

    def _output(self, prefix: Prefix, needs: Callable[[], tuple[Any, ...]], make: Callable[..., T]) -> T:
        execute = partial(self._execute, prefix.stage, needs, make)
        return execute() if self._outputs is None else self._outputs.get(prefix, execute)

    def _execute(self, stage: str, needs: Callable[[], tuple[Any, ...]], make: Callable[..., T]) -> T:
        inputs = needs()  # earlier stages count, draw and fail for themselves
        with self._lock:
            self._executed[stage] += 1
        seed = None if self._seed is None else derive_seed(self._seed, STAGES.index(stage))
        with seeded_streams(seed):
            return make(*inputs)


class _CandidateRun:
    """One candidate's run through the stages: each stage requests the outputs that it needs."""

    def __init__(
        self, engine_params: EngineParams, prefixes: Prefixes, stages: Stages, output: Callable[..., Any]
    ) -> None:
        self.prefixes = prefixes
        self._params, self._stages, self._output = engine_params, stages, output

    def serve(self) -> list[EvaluatedFold]:
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
        by_fold: list[Sequence[Any]] = self._output(prefix, lambda: (self._prepared, self._folds), predict)
        return by_fold


def _make_policy(candidates: Iterable[EngineParams] | None, keep: int) -> EvictionPolicy:
    if candidates is None:
        return LRUEviction(keep)
    return PlannedEviction(_prefixes_of(index, candidate) for index, candidate in enumerate(candidates))


def _prefixes_of(index: int, engine_params: EngineParams) -> Prefixes:
    try:
        return Prefixes.of(engine_params)
    except EngineParamsError as err:
        raise EngineParamsError(f"entry {index} of the list of engine params: {err}") from err
