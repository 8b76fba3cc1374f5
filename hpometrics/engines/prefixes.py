"""Prefixes: which stage outputs a candidate needs, by structure, and which no candidate needs any more."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple, Protocol

from .engine_params import EngineParams

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
