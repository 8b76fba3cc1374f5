"""The end of a confirmation of several objectives: the front computed from the means of fresh runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self, TypeAlias

from .._formatting import aligned, html_lines, plural
from ..direction import ARROWS, Direction
from .confirmation import Confirmation, extension_lines
from .intervals import Interval


@dataclass(frozen=True)
class FrontMember:
    """A trial of the front that was trained again.

    Attributes:
        trial: its number.
        search_value: its value of the first objective in the search.
        values: the mean of its fresh runs by objective, with its interval; empty if it failed.
        deviations: the deviation over the seeds by objective.
        seeds: the number of runs that count.
        seconds: the mean time of a training.
        on_front: whether no other member's means dominate its own.
        beaten_by: a member that is better in each objective, at the level.
        reason: why it failed.
    """

    trial: int
    search_value: float
    values: Mapping[str, Interval]
    deviations: Mapping[str, float]
    seeds: int
    seconds: float
    on_front: bool = False
    beaten_by: int | None = None
    reason: str | None = None


@dataclass(frozen=True)
class FrontConfirmation:
    """A front whose trials were trained again, all under the same seeds.

    Attributes:
        objectives: the direction of each objective.
        members: the trials that were trained again: those of the new front first, in its order.
        knee: the trial at the knee of the new front; None if every member failed.
        level: how often an interval misses the true mean.
        trainings, planned: the fresh runs that count, and the most there could have been.
        others: the number of trials of the search's front that were not trained again.
        seeds_matter: whether any training depended on its seed.
        reason: why it ended early.
        extended: how often more was asked for.
    """

    objectives: Mapping[str, Direction]
    members: tuple[FrontMember, ...]
    knee: int | None
    level: float
    trainings: int
    planned: int
    others: int = 0
    seeds_matter: bool = True
    reason: str | None = None
    extended: int = 0

    @property
    def front(self) -> list[FrontMember]:
        """The members of the new front, best first by the first objective."""
        return [member for member in self.members if member.on_front]

    @property
    def standings(self) -> tuple[FrontMember, ...]:
        """The trials that were trained again."""
        return self.members

    def member(self, trial: int) -> FrontMember | None:
        """Return a trial that was trained again; None if it was not."""
        return next((member for member in self.members if member.trial == trial), None)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read what `dataclasses.asdict` made of one.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        facts = {each.name: content[each.name] for each in fields(cls) if each.name in content}
        members = [
            FrontMember(
                **{**one, "values": {name: Interval(**value) for name, value in one["values"].items()}}
            )
            for one in facts["members"]
        ]
        objectives = {str(name): Direction(text) for name, text in facts["objectives"].items()}
        return cls(**{**facts, "members": tuple(members), "objectives": objectives})

    def lines(self, params: str = "", more: Callable[[int], str] = "confirm(repeats={})".format) -> list[str]:
        """Return it in words, a line each; a front has no winner whose params or seeds could be shown."""
        seeds = max((member.seeds for member in self.members), default=0)
        head = f"Front of {' and '.join(self.objectives)} after {plural(seeds, 'fresh training')} of each"
        if not self.front:
            reason = self.reason or "every trial failed or broke a constraint"
            return [f"{head}: {reason}; the search's front is unconfirmed"]
        titles = [f"{name}{ARROWS[direction]}" for name, direction in self.objectives.items()]
        rows = [["trial", *titles, ""], *(self._row(member) for member in self.members)]
        table = aligned(rows).splitlines()
        lines = [f"{head}:", *(f"  {line.rstrip()}" for line in table)]
        trainings = f"  {plural(self.trainings, 'training')} of up to {self.planned}"
        trainings += f"; {self.reason}" if self.reason else ""
        if self.others:
            trainings += f"; {plural(self.others, 'other trial')} of the front not trained again"
        lines.append(trainings)
        if not self.seeds_matter:
            return [*lines, "  training does not depend on its seed, so more trainings cannot decide"]
        what = "cover other seeds on these validation rows, on which the epochs were picked"
        lines.append(f"  the {100 * (1 - self.level):g}% intervals {what}")
        return [*lines, *extension_lines(self.extended, self.level)]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return html_lines(str(self))

    def _row(self, member: FrontMember) -> list[str]:
        values = [member.values.get(name) for name in self.objectives]
        cells = ["-" if one is None else f"{one.format(one.value)} ({one.bounds})" for one in values]
        return [str(member.trial), *cells, self._remark(member)]

    def _remark(self, member: FrontMember) -> str:
        if member.reason is not None:
            return member.reason
        if member.beaten_by is not None:
            return f"no longer on the front: trial {member.beaten_by} is better in each objective"
        if member.trial == self.knee:
            return "the knee"
        if member.on_front:
            return ""
        return "behind the front" + (", within the noise of seeds" if self.extended < 2 else "")


AnyConfirmation: TypeAlias = Confirmation | FrontConfirmation
"""The end of a confirmation, of one objective or of several."""
