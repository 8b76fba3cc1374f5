"""MetricEntry: all that is known of one metric of one output feature, and what was seen when it was tried."""

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
"""The shares of random answers with which the direction of a metric is tried."""

live_classes: dict[tuple[str, str, str], type[Metric]] = {}
"""The classes registered in this process, by name, feature and path: two may stand in the same place."""


@dataclass(frozen=True, kw_only=True)
class MetricEntry(Facts):
    """All facts about one metric of one output feature; whatever is printed of a metric comes from here."""

    name: str
    feature_type: str
    path: str
    aliases: Mapping[str, str] | None = None

    def __str__(self) -> str:
        return f"{self.name} of {self.feature_type}"

    @property
    def example(self) -> MetricName:
        """A name that can be built: what it needs is given, all else at its default."""
        needed = {param.name: param.example for param in self.params if param.required}
        needed |= {param.name: param.example for param in self.params if param.name in self.one_of[:1]}
        k = needed.pop("k", None)
        return MetricName(self.name, tuple(needed.items()), None if k is None else 5)

    @property
    def is_built_in(self) -> bool:
        """Whether the index is written from it, which may then differ from a stale one."""
        return self.path.startswith("hpometrics.")

    def load(self) -> type[Metric]:
        """Import the metric's class."""
        registered = live_classes.get((self.name, self.feature_type, self.path))
        if registered is not None:
            return registered
        module, _, attribute = self.path.partition(":")
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
        return found  # type: ignore[no-any-return]  # the registry holds metric classes only


@dataclass(frozen=True)
class Observed:
    """What was seen when a metric was tried: the evidence for its direction, and what it keeps.

    `subject` is the name it was tried under, `values` are its values at each `NOISE` (None where it was
    undefined), `reason` says why there are none. `statistics` are the classes that hold its state, `memory`
    says how much that is, `weighted` whether it takes `sample_weight`, `needs` which further keyword
    arguments it refused to do without, `pools_tasks` whether its value over tasks is that of all their rows
    rather than the mean of theirs. `refuses` says why it would not measure an ordinary batch of its
    feature (`testing.ordinary`); it is empty where it did.
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
    """Return where a class is found."""
    return f"{cls.__module__}:{cls.__qualname__}"
