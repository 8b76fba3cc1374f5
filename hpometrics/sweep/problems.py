"""Problems: what is wrong in a sweep file, where, and what was probably meant; all of them in one go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from ..exceptions import ConfigError
from ..messages import printable

Path = tuple[str | int, ...]


@dataclass(frozen=True, order=True)
class Mark:
    """A place in a file, counted from 1; `line` 0 is a place on the command line."""

    source: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


@dataclass(frozen=True)
class Problem:
    """One thing to change.

    >>> str(Problem(Mark("sweep.yaml", 4, 11), ("space", "width", "step"), "must be above 0, got -1"))
    'sweep.yaml:4:11: space.width.step: must be above 0, got -1'
    """

    mark: Mark
    path: Path
    text: str

    def __str__(self) -> str:
        where = f"{show_path(self.path)}: " if self.path else ""
        return f"{self.mark}: {where}{self.text}"


class SweepFileError(ConfigError):
    """A sweep file has problems; the message has a line for each, in the order of the file."""

    ran: ClassVar[str] = "nothing was run"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(dict.fromkeys(problems), key=lambda problem: problem.mark))
        count = len(self.problems)
        summary = f"{count} error{'s' if count > 1 else ''} - {self.ran}."
        super().__init__("\n".join([*map(str, self.problems), summary]))

    def __reduce__(self) -> tuple[type[SweepFileError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


class ProbeError(SweepFileError):
    """One epoch has not shown what a sweep file names."""

    ran = "one epoch was run, nothing is kept"


def show_path(path: Path) -> str:
    """Print a path as users write it.

    >>> show_path(("space", "lr", "float", 0))
    'space.lr.float[0]'
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{printable(part)}" if text else printable(part)
    return text
