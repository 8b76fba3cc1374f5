"""Compare the recorded values of a trial with those of a second run, to the last digit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._formatting import shape_of
from .._imports import version_changes

SAME, DIFFERENT = 0, 1

NO_VERSION = "all recorded versions match; the code, the data, the machine or an unseeded random draw differs"


@dataclass(frozen=True)
class Replayed:
    """Values by name, first the one that counts.

    Args:
        recorded: as the record has them: numbers, None for one that is not finite, lists for a curve, texts.
        again: the values of the new run; one that was not recorded is printed without comparison.
        versions: those of the record.
        failure: why nothing came out.
        objectives: names of the values that count; the first one recorded unless given.

    >>> print(Replayed({"rmse": 0.1, "mae": 0.3}, {"rmse": 0.1, "mae": 0.30000000000000004}, {}))
      rmse: 0.1  as recorded
      mae: 0.30000000000000004  recorded 0.3
    rmse matches the record, to the last digit
    """

    recorded: Mapping[str, Any]
    again: Mapping[str, Any]
    versions: Mapping[str, str]
    failure: str | None = None
    objectives: Sequence[str] = ()

    @property
    def same(self) -> bool:
        """Whether the values that count came out; true where none is recorded."""
        return all(map(self._came_out, self._counts))

    @property
    def code(self) -> int:
        """The exit code of the comparison."""
        return SAME if self.same else DIFFERENT

    def __str__(self) -> str:
        return "\n".join([*self._lines(), *self._verdict()])

    def to_json(self) -> dict[str, Any]:
        """Return the same as plain JSON: each value as it was recorded and as it came out."""
        names = dict.fromkeys([*self.recorded, *self.again])
        return {
            "reproduced": self.same,
            "failure": self.failure,
            "values": {
                name: {
                    "recorded": self.recorded.get(name),
                    "again": self.again.get(name),
                    "same": name in self.recorded and self._came_out(name),
                }
                for name in names
            },
            "versions_changed": list(version_changes(self.versions)),
        }

    @property
    def _counts(self) -> list[str]:
        names = [name for name in self.objectives if name in self.recorded]
        return names or list(self.recorded)[:1]

    def _came_out(self, name: str) -> bool:
        return name in self.again and repr(self.again[name]) == repr(self.recorded[name])

    def _lines(self) -> Iterator[str]:
        if self.failure is not None:
            yield f"  failed: {self.failure}"
        for name in dict.fromkeys([*self.recorded, *self.again]):
            value = f"  {name}: {value_text(self.again.get(name, '-'))}"
            if name not in self.recorded:
                yield value
            elif self._came_out(name):
                yield f"{value}  as recorded"
            else:
                yield f"{value}  recorded {value_text(self.recorded[name])}"

    def _verdict(self) -> Iterator[str]:
        if not self._counts:
            yield "there is no record to compare this with"
        for name in self._counts:
            came = "matches the record, to the last digit"
            yield f"{name} {came if self._came_out(name) else 'does not match the record'}"
        if not self.same:
            changed = version_changes(self.versions)
            yield f"versions that differ: {', '.join(changed)}" if changed else NO_VERSION


def value_text(value: Any) -> str:
    """Return the text of a value; of a curve its shape."""
    return shape_of(value) if isinstance(value, list) else str(value)
