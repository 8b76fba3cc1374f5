"""A cache of an engine's stages: candidates that share all params up to a stage share its output."""

from __future__ import annotations

import random
import sys
import threading
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..exceptions import EngineError, EngineParamsError
from ..space.draws import derive_seed
from .engine import STAGES, Engine, EvaluatedFold, Stages
from .engine_params import EngineParams, StageKeys


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
            "a stage imported torch, so its random numbers were not seeded; import torch at the top of the "
            "engine's module",
            RuntimeWarning,
            stacklevel=4,
        )


def _forked(torch: Any) -> AbstractContextManager[Any]:
    """Return a context that restores the streams of torch on the CPU and on each accelerator."""
    if not torch.accelerator.is_available():  # before torch 2.7 there may be no current one
        return torch.random.fork_rng(devices=[])  # type: ignore[no-any-return]
    device, devices = torch.accelerator.current_accelerator(), range(torch.accelerator.device_count())
    return torch.random.fork_rng(devices=devices, device_type=device.type)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Prefix:
    """One output of one stage; two are equal if all that they are made from is.

    Args:
        stage: the stage.
        key: the structural key of the stage.
        sources: the outputs that it is made from, in the order of the arguments in `Stages`.
        params: the stage itself, its name and params.
    """

    stage: str
    key: Hashable
    sources: tuple[Prefix, ...] = ()
    params: Any = field(default=None, compare=False)


class Prefixes(NamedTuple):
    """The outputs that one candidate needs; each algorithm has its own, whatever others are beside it."""

    data_source: Prefix
    preparator: Prefix
    algorithms: tuple[Prefix, ...]
    serving: Prefix

    @classmethod
    def of(cls, engine_params: EngineParams, shared: bool = True) -> Prefixes:
        """Return the outputs that engine params need.

        Args:
            engine_params: the candidate.
            shared: whether equal candidates have equal outputs; otherwise the params need no structure.

        Raises:
            EngineParamsError: a value of the params has nothing but its identity.
        """
        count = len(engine_params.algorithms)
        keys = engine_params.key if shared else StageKeys(None, None, tuple(range(count)), None)
        source = Prefix("data_source", keys.data_source, (), engine_params.data_source)
        preparator = Prefix("preparator", keys.preparator, (source,), engine_params.preparator)
        algorithms = tuple(
            Prefix("algorithms", key, (preparator, source), stage)
            for key, stage in zip(keys.algorithms, engine_params.algorithms, strict=True)
        )
        serving = Prefix("serving", keys.serving, (source, *algorithms), engine_params.serving)
        return cls(source, preparator, algorithms, serving)

    def all(self) -> Iterator[Prefix]:
        """Yield each output, in the order of the stages."""
        yield from (self.data_source, self.preparator, *self.algorithms, self.serving)


class PlannedEviction:
    """Keeps an output as long as a later candidate needs it, or something made from it.

    An output is evicted when all that is made from it exists: the one of `prepare` when all algorithms have
    been trained on it, whatever servings follow.
    """

    def __init__(self, candidates: Iterable[Prefixes]) -> None:
        self._remaining: Counter[Prefix] = Counter()
        self._users: dict[Prefix, set[Prefix]] = {}
        for prefixes in candidates:
            self._remaining[prefixes.serving] += 1
            for user in prefixes.all():
                for source in user.sources:
                    self._users.setdefault(source, set()).add(user)

    def request(self, prefix: Prefix) -> None:
        """Ignore the request: the candidates are known."""

    def add(self, prefix: Prefix) -> list[Prefix]:
        """Evict what was needed for this output alone, and the output itself if no candidate needs it."""
        alone = prefix not in self._users and self._remaining[prefix] <= 1
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
        for source in user.sources:
            users = self._users.get(source, set())
            users.discard(user)
            if source in self._users and not users:
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

    def __init__(self, policy: PlannedEviction | LRUEviction) -> None:
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
            raise EngineError(f"keep must be the number of outputs to keep per stage, at least 1; got {keep}")
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
        return f"{executed} of {requested} stages run ({parts})"

    def folds(self, engine_params: EngineParams) -> list[EvaluatedFold]:
        """Evaluate one candidate: for each fold its info and the list of (query, predicted, actual).

        Raises:
            EngineError: a stage returns what the next cannot take; and whatever a stage raises.
        """
        prefixes = Prefixes.of(engine_params, shared=self._outputs is not None)
        with self._lock:
            self._requests.update(prefix.stage for prefix in prefixes.all())
        if self._outputs is None:
            return self._output(prefixes.serving, {})  # type: ignore[no-any-return]
        try:
            folds: list[EvaluatedFold] = self._output(prefixes.serving, {})
        finally:
            last = self._outputs.finish(prefixes)
        return folds if last else self._stages.hand_out(folds, "serving")  # kept for an equal candidate

    def _output(self, prefix: Prefix, requested: dict[Prefix, Any]) -> Any:
        """Return an output: one that this candidate has requested, one that is stored, or a new one."""
        if prefix not in requested:
            execute = partial(self._execute, prefix, requested)
            requested[prefix] = execute() if self._outputs is None else self._outputs.get(prefix, execute)
        return requested[prefix]

    def _execute(self, prefix: Prefix, requested: dict[Prefix, Any]) -> Any:
        inputs = [self._output(source, requested) for source in prefix.sources]  # they count for themselves
        with self._lock:
            self._executed[prefix.stage] += 1
        seed = None if self._seed is None else derive_seed(self._seed, STAGES.index(prefix.stage))
        with seeded_streams(seed):
            return self._stages.execute[prefix.stage](prefix.params, *inputs)


def _make_policy(candidates: Iterable[EngineParams] | None, keep: int) -> PlannedEviction | LRUEviction:
    if candidates is None:
        return LRUEviction(keep)
    return PlannedEviction(_prefixes_of(index, candidate) for index, candidate in enumerate(candidates))


def _prefixes_of(index: int, engine_params: EngineParams) -> Prefixes:
    try:
        return Prefixes.of(engine_params)
    except EngineParamsError as err:
        raise EngineParamsError(f"entry {index} of the list of engine params: {err}") from err
