"""The registry entry of one metric of one output feature, and the observations from trying it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .facts import Facts
from .names import MetricName

if TYPE_CHECKING:
    from ..metric import Metric

NOISE = (0.0, 0.3, 0.9)
"""The shares of random answers with which the direction of a metric is tested."""

live_classes: dict[tuple[str, str, str], type[Metric]] = {}
"""The classes registered in this process, by name, feature and path: two may stand in the same place."""


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
        needed = {param.name: param.example for param in self.params if param.required}
        needed |= {param.name: param.example for param in self.params if param.name in self.one_of[:1]}
        k = needed.pop("k", None)
        return MetricName(self.name, tuple(needed.items()), None if k is None else 5)

    @property
    def is_built_in(self) -> bool:
        """Whether the metric is one of this package, so that the index has an entry for it."""
        return self.path.startswith("hpometrics.")

    def load(self) -> type[Metric]:
        """Import the metric's class."""
        registered = live_classes.get((self.name, self.feature_type, self.path))
        if registered is not None:
            return registered
        module, _, attribute = self.path.partition(":")
        target: Any = importlib.import_module(module)
        for part in attribute.split("."):
            target = getattr(target, part)
        return target  # type: ignore[no-any-return]  # the registry holds metric classes only


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
