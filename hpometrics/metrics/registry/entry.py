"""The registry of metric classes, and its entries: one for each metric of an output feature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..._imports import load_path
from .facts import Facts, Param
from .names import MetricName

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
        """Return a copy of the layer, to which a test can go back."""
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
