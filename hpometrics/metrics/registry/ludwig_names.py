"""Ludwig's names for the facts of a metric, accepted wherever ours are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ...direction import UNSTATED, Direction
from ...exceptions import DirectionError

Objective = Direction
"""Ludwig's name for `Direction`."""
ObjectiveError = DirectionError
"""The error of an `Objective`, which is `DirectionError`."""

ATTRIBUTES: Mapping[str, tuple[str, ...]] = {"direction": ("direction", "objective"), "inputs": ("inputs",)}
"""The attributes by which a class may state each fact, ours first."""
METHODS: Mapping[str, str] = {"direction": "get_objective", "inputs": "get_inputs"}
"""The classmethod by which a class may state each fact."""


class DirectionAlias:
    """An attribute of a class and of its objects that reads and sets their `direction`."""

    def __get__(self, thing: object, cls: type) -> Any:
        return (cls if thing is None else thing).direction  # type: ignore[attr-defined]

    def __set__(self, thing: object, value: Any) -> None:
        thing.direction = value  # type: ignore[attr-defined]


class ReadableObjective:
    """A class whose direction may be read as `objective` too."""

    objective: ClassVar[Any] = DirectionAlias()


class LudwigMetricNames(ReadableObjective):
    """A metric class whose facts may be read by Ludwig's classmethods too."""

    direction: ClassVar[Any]
    inputs: ClassVar[Any]

    @classmethod
    def get_objective(cls) -> Direction | None:
        """Return the direction in which values are better; None if the metric has none."""
        return cls.direction  # type: ignore[no-any-return]

    @classmethod
    def get_inputs(cls) -> Any:
        """Return the model output that the metric reads."""
        return cls.inputs

    get_objective.__func__.reads_attribute = True  # type: ignore[attr-defined]
    get_inputs.__func__.reads_attribute = True  # type: ignore[attr-defined]


class LudwigObjectNames:
    """A metric object whose facts, which are not those of its class, may be read by Ludwig's methods too."""

    direction: Any
    inputs: Any

    def get_objective(self) -> Direction | None:
        """Return the direction in which values are better; None if the metric has none."""
        return self.direction  # type: ignore[no-any-return]

    def get_inputs(self) -> Any:
        """Return the model output that the metric reads."""
        return self.inputs


def attributes_of(holder: Any, fact: str) -> Iterator[tuple[str, Any]]:
    """Yield the attributes by which a class, or an object, states a fact itself; none of its base classes."""
    for name in ATTRIBUTES[fact]:
        value = vars(holder).get(name, UNSTATED)
        if value is not UNSTATED and not isinstance(value, DirectionAlias):
            yield name, value


def stated_direction(thing: object) -> Any:
    """Return the direction that an object states, itself or by its most derived class that has any.

    Raises:
        DirectionError: that class states two that differ.
    """
    for holder in (thing, *type(thing).__mro__):
        if names := [name for name, _ in attributes_of(holder, "direction")]:
            stated = {name: getattr(thing, name) for name in names}
            return one_direction(
                type(thing).__name__, stated.get("direction", UNSTATED), stated.get("objective", UNSTATED)
            )
    return UNSTATED


def write_attributes(cls: type, fact: str, value: Any) -> None:
    """Set a fact of a class, which all the attributes for it then read."""
    for name in ATTRIBUTES[fact]:
        setattr(cls, name, value if name == fact else DirectionAlias())


def one_direction(where: str, direction: Any, objective: Any, unstated: Any = UNSTATED) -> Any:
    """Return the direction that `direction` states, or Ludwig's `objective`.

    Raises:
        DirectionError: they state two that differ.
    """
    if objective is unstated or direction is unstated:
        return direction if objective is unstated else objective
    if (direction and Direction.parse(direction)) != (objective and Direction.parse(objective)):
        raise DirectionError(
            f"{where}: direction says {direction}, but objective says {objective}; leave objective out"
        )
    return direction
