"""Problems: what is wrong in a sweep file, where, and what was probably meant; all of them in one go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from .._redaction import excerpt, redacted
from .._text import printable
from ..exceptions import ConfigError

Path = tuple[str | int, ...]

_LONGEST = 2000  # characters of one problem; a list of metrics to choose from is the longest of ours
_MOST = 50


@dataclass(frozen=True, order=True)
class Mark:
    """A place in a file, counted from 1; `line` 0 is a place on the command line."""

    source: str
    line: int
    column: int

    def __str__(self) -> str:
        source = printable(self.source)
        return f"{source}:{self.line}:{self.column}" if self.line else source


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
        text = self.text if len(self.text) <= _LONGEST else f"{excerpt(self.text, _LONGEST)}..."
        return redacted(f"{self.mark}: {where}{text}")


class SweepFileError(ConfigError):
    """A sweep file has problems; the message has a line for each, in the order of the file."""

    ran: ClassVar[str] = "nothing was run"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(dict.fromkeys(problems), key=lambda problem: problem.mark))
        count = len(self.problems)
        more = [f"... and {count - _MOST} more"] if count > _MOST else []
        summary = f"{count} error{'s' if count > 1 else ''} - {self.ran}."
        super().__init__("\n".join([*map(str, self.problems[:_MOST]), *more, summary]))

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
