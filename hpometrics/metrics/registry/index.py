"""The registry of metrics: the entries of the index, of this process and of installed packages.

The built-in metrics are read from `index.json`, which is generated from their classes. A class is imported
when it is first needed, and its registration then does not affect the metrics of anyone else. Other packages
register through the entry-point group `hpometrics.metrics`.
"""

from __future__ import annotations

import json
import warnings
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from ..._imports import load_path
from ..._text import one_line
from ...direction import Direction
from ..features import FEATURES, InputType
from .facts import Docstring, Facts, Param
from .names import MetricName

_LUDWIG = (
    "accuracy_micro", "char_error_rate", "hits_at_k", "mean_absolute_error", "mean_absolute_percentage_error",
    "mean_squared_error", "root_mean_squared_error", "root_mean_squared_percentage_error",
    "sequence_softmax_cross_entropy", "sigmoid_cross_entropy", "word_error_rate",
)  # fmt: skip
"""Aliases for which Ludwig has a constant, beside the constants that are canonical names."""

ENTRY_POINT_GROUP = "hpometrics.metrics"
INDEX = Path(__file__).with_name("index.json")


NOISE = (0.0, 0.3, 0.9)
"""The shares of random answers with which the direction of a metric is tested."""

Key = tuple[str, str]
"""A name and an output feature."""


@dataclass(frozen=True, kw_only=True)
class MetricEntry(Facts):
    """All facts about one metric of one output feature, from which every text about it is printed."""

    name: str
    feature_type: str
    path: str
    aliases: Mapping[str, str] | None = None

    def __str__(self) -> str:
        return f"{self.name} of {self.feature_type}"

    @property
    def example(self) -> MetricName:
        """A name that can be built: with required parameters, and all others at their defaults."""
        params = {param.name: param.example for param in self.needed}
        k = params.pop("k", None)
        return MetricName(self.name, tuple(params.items()), None if k is None else 5)

    @property
    def needed(self) -> list[Param]:
        """The required parameters, and the first of those that exclude each other."""
        return [param for param in self.params if param.required or param.name in self.one_of[:1]]

    @property
    def is_built_in(self) -> bool:
        """Whether the metric is one of this package, so that the index has an entry for it."""
        return self.path.startswith("hpometrics.")

    def documented(self) -> MetricEntry:
        """Return the entry with the texts of its class that the index of an installed package leaves out."""
        if self.source or not self.is_built_in:
            return self
        return replace(self, **Docstring.of(self.load()).texts)

    def load(self) -> type[Any]:
        """Return the class of the metric, a subclass of `Metric`; import it if it is not registered yet."""
        registered = registry.class_of(self)
        if registered is not None:
            return registered
        metric_class: type[Any] = load_path(self.path)
        return metric_class


@dataclass(frozen=True)
class Observed:
    """The observations from trying a metric: the evidence for its direction, and its state.

    `subject` is the name under which it was tried, `values` are its values at each `NOISE` (None if
    undefined), `reason` is why there are none. `statistics` are the classes of its state, `memory` is their
    size, `weighted` is whether it takes `sample_weight`, `needs` are the further keyword arguments that it
    requires, `pools_tasks` is whether its value over tasks is that of all their rows rather than the mean of
    their values. `refuses` is why it refused an ordinary batch of its feature (`testing.ordinary`); it is
    empty if it did not.
    """

    subject: str = ""
    values: tuple[float | None, ...] = ()
    reason: str = ""
    statistics: tuple[str, ...] = ()
    memory: str = ""
    weighted: bool = False
    needs: tuple[str, ...] = ()
    pools_tasks: bool = False
    refuses: str = ""


def path_of(cls: type) -> str:
    """Return the import path of a class."""
    return f"{cls.__module__}:{cls.__qualname__}"


@dataclass
class Layer:
    """The metrics that were registered in this process, either by this package or by everybody else.

    The two layers are separate, so that neither an import of a built-in class nor its moment can change
    which metrics a user's own have replaced.
    """

    entries: dict[Key, MetricEntry] = field(default_factory=dict)
    aliases: dict[Key, str] = field(default_factory=dict)
    by_class: dict[type, tuple[MetricEntry, ...]] = field(default_factory=dict)
    """The entries of each class, in the order of registration."""
    classes: dict[tuple[str, str, str], type] = field(default_factory=dict)
    """The classes by name, output feature and path, as classes of two paths may have the same name."""

    def add(self, entry: MetricEntry, cls: type) -> None:
        """Add an entry of a class, which replaces one of the same name and output feature."""
        key = entry.name, entry.feature_type
        self.entries[key] = entry
        self.classes[(*key, entry.path)] = cls
        others = (one for one in self.by_class.get(cls, ()) if (one.name, one.feature_type) != key)
        self.by_class[cls] = (*others, entry)
        for alias, meaning in (entry.aliases or {}).items():
            self.aliases[alias, entry.feature_type] = meaning

    def copy(self) -> Layer:
        """Return a copy of the layer, to which one can go back."""
        return Layer(self.entries.copy(), self.aliases.copy(), self.by_class.copy(), self.classes.copy())


@dataclass
class Registry:
    """The metric classes that were registered in this process.

    Attributes:
        own: the metrics of users and of other packages.
        built_in: the metrics of this package whose classes were imported; the others are in the index only.
    """

    own: Layer = field(default_factory=Layer)
    built_in: Layer = field(default_factory=Layer)

    def add(self, entry: MetricEntry, cls: type) -> None:
        """Add an entry of a class to its layer."""
        self._layer_of(entry).add(entry, cls)

    def class_of(self, entry: MetricEntry) -> type | None:
        """Return the class of an entry; None if it was not registered in this process."""
        return self._layer_of(entry).classes.get((entry.name, entry.feature_type, entry.path))

    def entries_of_class(self, cls: type) -> tuple[MetricEntry, ...]:
        """Return the entries of a class, in the order of registration."""
        return self.own.by_class.get(cls) or self.built_in.by_class.get(cls, ())

    def _layer_of(self, entry: MetricEntry) -> Layer:
        return self.built_in if entry.is_built_in else self.own


registry = Registry()
"""The registry of this process."""


class ReplacedWarning(UserWarning):
    """A metric of a user replaces a built-in one of the same name, without `override=True`."""


def entry_at(key: Key) -> MetricEntry | None:
    """Return the entry of a name and an output feature; an entry of a user takes precedence."""
    return registry.own.entries.get(key) or catalogue_entry(key)


def catalogue_entry(key: Key) -> MetricEntry | None:
    """Return the built-in entry of a name and an output feature, even if a user's own replaces it."""
    return registry.built_in.entries.get(key) or index().get(key)


def all_entries(feature_type: str | None = None) -> tuple[MetricEntry, ...]:
    """Return all entries, or those of one output feature, sorted by name and feature."""
    load_plugins()
    entries = {**index(), **registry.built_in.entries, **registry.own.entries}
    chosen = [e for e in entries.values() if feature_type in (None, e.feature_type)]
    return tuple(sorted(chosen, key=lambda e: (e.name, e.feature_type)))


def metric_names(feature_type: str | None = None) -> list[str]:
    """Return the canonical names, or those of one output feature, sorted."""
    return sorted({entry.name for entry in all_entries(feature_type)})


def alias_names(feature_type: str | None = None) -> list[str]:
    """Return the aliases, or those of one output feature, sorted."""
    return sorted({alias for entry in all_entries(feature_type) for alias in entry.aliases or ()})


def entries_of(metric: str, feature_type: str | None) -> list[MetricEntry]:
    """Return the entries of one canonical name, or the one of an output feature."""
    types = [feature_type] if feature_type else sorted(FEATURES)
    entries = (entry_at((metric, kind)) for kind in types)
    return [entry for entry in entries if entry is not None]


def alias_meaning(alias: str, feature_type: str | None) -> str | None:
    """Return the meaning of an alias for an output feature, or for most of those that have it."""
    aliases = ChainMap(registry.own.aliases, registry.built_in.aliases, index_aliases())
    if feature_type is not None:
        return aliases.get((alias, feature_type))
    meanings = sorted(aliases[alias, kind] for kind in FEATURES if (alias, kind) in aliases)
    return max(meanings, key=meanings.count, default=None)


def names_in_any_case(word: str) -> list[str]:
    """Return the names and aliases that equal a word in any case, sorted."""
    lower = word.lower()
    layers = (registry.own, registry.built_in)
    keys = chain(index(), index_aliases(), *(chain(layer.entries, layer.aliases) for layer in layers))
    return sorted({name for name, _ in keys if name.lower() == lower})


def observed_of(entry: MetricEntry) -> Observed | None:
    """Return the observations of a built-in metric, made for the index; None for any other metric."""
    return _observed().get((entry.name, entry.feature_type)) if entry.is_built_in else None


def needs_of(entry: MetricEntry) -> tuple[str, ...]:
    """Return the further keyword arguments that a metric requires, as observed or else as declared."""
    observed = observed_of(entry)
    return observed.needs if observed is not None and observed.subject else entry.needs


class _Entries(Mapping[Key, MetricEntry]):
    """The entries of rows, each created at its first use, as most commands use few of them."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self._row_of = {(row["name"], of): row for row in rows for of in row["features"]}
        self._entries: dict[Key, MetricEntry] = {}

    def __getitem__(self, key: Key) -> MetricEntry:
        if key not in self._entries:
            self._entries[key] = _read_row(self._row_of[key], key[1])
        return self._entries[key]

    def __contains__(self, key: object) -> bool:
        return key in self._row_of

    def __iter__(self) -> Iterator[Key]:
        return iter(self._row_of)

    def __len__(self) -> int:
        return len(self._row_of)


@cache
def built_in_names() -> frozenset[str]:
    """Return the canonical names of the built-in metrics."""
    return frozenset(row["name"] for row in _rows())


@cache
def constants() -> Mapping[str, str]:
    """Return the names of the built-in metrics by their constants, including those of Ludwig."""
    names = {alias: name for (alias, _), name in index_aliases().items()}
    words = {name: name for name in built_in_names()} | {alias: names[alias] for alias in _LUDWIG}
    return {word.upper(): words[word] for word in sorted(words)}


@cache
def index() -> Mapping[Key, MetricEntry]:
    """Return the entries of the index."""
    return _Entries(_rows())


@cache
def index_aliases() -> dict[Key, str]:
    """Return the aliases of the index."""
    return {
        (alias, feature_type): meaning
        for row in _rows()
        for alias, meaning in row.get("aliases", {}).items()
        for feature_type in row["features"]
    }


def forget_index() -> None:
    """Drop the contents of `index.json`, so that the next use reads a new file."""
    for read in (index, index_aliases, built_in_names, constants, _rows, _observed):
        read.cache_clear()


@cache
def load_plugins() -> None:
    """Load the packages with metrics, once; a package that fails to load is left out with a warning."""
    from importlib.metadata import entry_points  # which loads much, for what few ask

    for plugin in entry_points(group=ENTRY_POINT_GROUP):
        before = registry.own.copy()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", ReplacedWarning)  # no line of it is the user's
                plugin.load()
        except KeyboardInterrupt:
            raise
        except BaseException as err:  # one broken package, or one that exits, takes nothing with it
            registry.own, error = before, f"{type(err).__name__}: {one_line(err)}"
            warnings.warn(
                f"the metrics of {plugin.value!r} are left out: {error}", RuntimeWarning, stacklevel=3
            )


@cache
def _rows() -> list[dict[str, Any]]:
    return json.loads(INDEX.read_text(encoding="utf8")) if INDEX.exists() else []


def _read_row(row: dict[str, Any], feature_type: str) -> MetricEntry:
    """Create the entry of a row for one of its output features."""
    facts: dict[str, Any] = {
        key: _tuple(value) for key, value in row.items() if key not in ("features", "objective")
    }
    facts["direction"] = row["objective"] and Direction(row["objective"])
    facts["inputs"] = InputType(row["inputs"])
    facts["params"] = tuple(
        Param(**{key: _tuple(value) for key, value in param.items()}) for param in row.get("params", ())
    )
    return MetricEntry(feature_type=feature_type, **facts)


@cache
def _observed() -> dict[Key, Observed]:
    return {
        (row["name"], feature_type): Observed(**{key: _tuple(value) for key, value in record.items()})
        for row in _rows()
        for feature_type, record in row["features"].items()
    }


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
