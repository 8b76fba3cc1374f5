"""The store: every entry there is, of the index, of this process and of installed packages.

Built-in metrics are read from `index.json`, which is generated from the classes themselves; a class is
imported when it is first needed, and its registration then changes nothing for anyone else's metrics.
Other packages register through the entry-point group `hpometrics.metrics`.
"""

from __future__ import annotations

import json
import warnings
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from ..._text import one_line
from ...direction import Objective
from ..features import FEATURES, InputType
from .entry import MetricEntry, Observed, live_classes
from .params import Param

_LUDWIG = (
    "accuracy_micro", "char_error_rate", "hits_at_k", "mean_absolute_error", "mean_absolute_percentage_error",
    "mean_squared_error", "root_mean_squared_error", "root_mean_squared_percentage_error",
    "sequence_softmax_cross_entropy", "sigmoid_cross_entropy", "word_error_rate",
)  # fmt: skip
"""Aliases for which Ludwig has a constant, beside the constants that are canonical names here."""

ENTRY_POINT_GROUP = "hpometrics.metrics"
INDEX = Path(__file__).with_name("index.json")

Key = tuple[str, str]


class ReplacedWarning(UserWarning):
    """A metric of a user's own has taken the name of a built-in one, without `override=True`."""


@dataclass
class Layer:
    """The metrics that were registered in this process, either of the package itself or of everybody else.

    The two are kept apart, so that neither an import of a built-in class nor the moment of it can change
    what a user's own metric has replaced.
    """

    entries: dict[Key, MetricEntry] = field(default_factory=dict)
    aliases: dict[Key, str] = field(default_factory=dict)
    by_class: dict[type, tuple[MetricEntry, ...]] = field(default_factory=dict)
    """The entries of each class, in the order of registration."""

    def add(self, entry: MetricEntry, cls: type) -> None:
        """Add an entry of a class; it replaces one of the same name and output feature."""
        key = entry.name, entry.feature_type
        self.entries[key] = entry
        live_classes[(*key, entry.path)] = cls
        others = (one for one in self.by_class.get(cls, ()) if (one.name, one.feature_type) != key)
        self.by_class[cls] = (*others, entry)
        for alias, meaning in (entry.aliases or {}).items():
            self.aliases[alias, entry.feature_type] = meaning

    def copy(self) -> Layer:
        """Return a layer of the same metrics, to go back to."""
        return Layer(self.entries.copy(), self.aliases.copy(), self.by_class.copy())


own = Layer()
"""The metrics of users and of other packages."""
built_in = Layer()
"""Those of the built-in metrics whose classes have been imported; the others are in the index alone."""


def layer_of(entry: MetricEntry) -> Layer:
    """Return the layer that an entry belongs to."""
    return built_in if entry.is_built_in else own


def entry_at(key: Key) -> MetricEntry | None:
    """Return the entry of a name and an output feature; a user's own comes first."""
    return own.entries.get(key) or catalogue_entry(key)


def catalogue_entry(key: Key) -> MetricEntry | None:
    """Return the built-in entry of a name and an output feature, whether or not it has been replaced."""
    return built_in.entries.get(key) or index().get(key)


def entries_of_class(cls: type) -> tuple[MetricEntry, ...]:
    """Return the entries that a class was registered under, in the order of registration."""
    return own.by_class.get(cls) or built_in.by_class.get(cls, ())


def all_entries(feature_type: str | None = None) -> tuple[MetricEntry, ...]:
    """Return every entry, sorted by name and feature; of one feature when asked."""
    load_plugins()
    entries = {**index(), **built_in.entries, **own.entries}
    chosen = [e for e in entries.values() if feature_type in (None, e.feature_type)]
    return tuple(sorted(chosen, key=lambda e: (e.name, e.feature_type)))


def metric_names(feature_type: str | None = None) -> list[str]:
    """Return the canonical names, sorted; of one feature when asked."""
    return sorted({entry.name for entry in all_entries(feature_type)})


def alias_names(feature_type: str | None = None) -> list[str]:
    """Return the aliases, sorted; of one feature when asked."""
    return sorted({alias for entry in all_entries(feature_type) for alias in entry.aliases or ()})


def entries_of(metric: str, feature_type: str | None) -> list[MetricEntry]:
    """Return the entries of one canonical name, of one feature when asked."""
    types = [feature_type] if feature_type else sorted(FEATURES)
    entries = (entry_at((metric, kind)) for kind in types)
    return [entry for entry in entries if entry is not None]


def alias_meaning(alias: str, feature_type: str | None) -> str | None:
    """What an alias means for a feature, or for most of those that have it."""
    aliases = ChainMap(own.aliases, built_in.aliases, index_aliases())
    if feature_type is not None:
        return aliases.get((alias, feature_type))
    meanings = sorted(aliases[alias, kind] for kind in FEATURES if (alias, kind) in aliases)
    return max(meanings, key=meanings.count, default=None)


def names_in_any_case(word: str) -> list[str]:
    """Return the names and aliases that a word is when case is left aside, sorted."""
    lower = word.lower()
    keys = chain(own.entries, built_in.entries, index(), own.aliases, built_in.aliases, index_aliases())
    return sorted({name for name, _ in keys if name.lower() == lower})


def observed_of(entry: MetricEntry) -> Observed | None:
    """What was seen of a built-in metric when the index was written; None of any other."""
    return _observed().get((entry.name, entry.feature_type)) if entry.is_built_in else None


def needs_of(entry: MetricEntry) -> tuple[str, ...]:
    """Return which further keyword arguments it cannot do without: as seen, or as declared where nothing was."""
    observed = observed_of(entry)
    return observed.needs if observed is not None and observed.subject else entry.needs


class _Entries(Mapping[Key, MetricEntry]):
    """The entries of rows, each made when it is first asked for: most commands ask for few."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self._row_of = {(row["name"], of): row for row in rows for of in row["features"]}
        self._made: dict[Key, MetricEntry] = {}

    def __getitem__(self, key: Key) -> MetricEntry:
        if key not in self._made:
            self._made[key] = _read_row(self._row_of[key], key[1])
        return self._made[key]

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
    """Return the names of the built-in metrics by the constants that stand for them, Ludwig's included."""
    meaning = {alias: name for (alias, _), name in index_aliases().items()}
    meanings = {name: name for name in built_in_names()} | {alias: meaning[alias] for alias in _LUDWIG}
    return {word.upper(): meanings[word] for word in sorted(meanings)}


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
    """Read `index.json` again when it is next needed: it has been written anew."""
    for read in (index, index_aliases, built_in_names, constants, _rows, _observed):
        read.cache_clear()


@cache
def load_plugins() -> None:
    """Load the packages that bring metrics, once; one that cannot be loaded is left out with a warning."""
    from importlib.metadata import entry_points  # which loads much, for what few ask

    for plugin in entry_points(group=ENTRY_POINT_GROUP):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", ReplacedWarning)  # a user has written no line of it
                plugin.load()
        except KeyboardInterrupt:
            raise
        except BaseException as err:  # one broken package, or one that exits, takes nothing with it
            error = f"{type(err).__name__}: {one_line(err)}"
            warnings.warn(
                f"the metrics of {plugin.value!r} are left out: {error}", RuntimeWarning, stacklevel=3
            )


@cache
def _rows() -> list[dict[str, Any]]:
    return json.loads(INDEX.read_text(encoding="utf8")) if INDEX.exists() else []


def _read_row(row: dict[str, Any], feature_type: str) -> MetricEntry:
    """Make the entry that a row has for one of its output features."""
    facts: dict[str, Any] = {key: _tuple(value) for key, value in row.items() if key != "features"}
    facts["objective"] = row["objective"] and Objective(row["objective"])
    facts["inputs"] = InputType(row["inputs"])
    facts["params"] = tuple(
        Param(**{key: _tuple(value) for key, value in param.items()}) for param in row.get("params", ())
    )
    return MetricEntry(feature_type=feature_type, **facts)


@cache
def _observed() -> dict[Key, Observed]:
    return {
        (row["name"], feature_type): Observed(**{key: _tuple(value) for key, value in row_values.items()})
        for row in _rows()
        for feature_type, row_values in row["features"].items()
    }


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
