"""Format numbers, durations and columns of them, the same way wherever they are printed."""

from __future__ import annotations

import json
import math
import operator
import shutil
import sys
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple, TextIO

_LEAST_P = 0.001
_MOST_PLACES, _LARGE = 8, 1e9  # beyond them, values are printed with an exponent


def shape_of(reading: list[Any]) -> str:
    """Return the shape of nested lists of numbers as text.

    >>> shape_of([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), shape_of([0.5, 0.25])
    ('2 x 3', '2 values')
    """
    sizes = []
    inner: Any = reading
    while isinstance(inner, list):
        sizes.append(len(inner))
        inner = inner[0] if inner else math.nan
    return f"{sizes[0]} values" if len(sizes) == 1 else " x ".join(map(str, sizes))


def number(value: float | list[Any] | None) -> str:
    """Return a value to six digits; `nan` and missing ones as a dash, a curve or a matrix as its shape.

    >>> number(0.91273456), number(1234567.0), number(None), number([[1.0, 2.0], [3.0, 4.0]])
    ('0.912735', '1.23457e+06', '-', '2 x 2')
    """
    if isinstance(value, list):
        return shape_of(value)
    return "-" if value is None or math.isnan(value) else f"{value:.6g}"


def column(value: float | list[Any] | None) -> str:
    """Return a value with six digits, zeros included, for a column of values.

    >>> column(0.5), column(12.3456789), column(None)
    ('0.500000', '12.3457', '-')
    """
    if value is None or isinstance(value, list) or math.isnan(value):
        return number(value)
    return f"{value:#.6g}"


def to_digits(value: float, uncertainty: float) -> str:
    """Return a value with two digits of its uncertainty; without an uncertainty, with six digits of its own.

    >>> to_digits(0.974944, 0.0173), to_digits(1512, 200), to_digits(0.974944, 0)
    ('0.975', '1510', '0.974944')
    """
    if not (0 < uncertainty < math.inf and math.isfinite(value)):
        return f"{value:.6g}"
    places = 1 - math.floor(math.log10(float(f"{uncertainty:.1e}")))
    if places > _MOST_PLACES or abs(value) >= _LARGE:
        return f"{value:.4g}"
    return f"{round(value, places) + 0.0:.{max(places, 0)}f}"  # + 0.0: no value is -0


def spread(value: float | None, deviation: float | None, repeats: int) -> str:
    """Return a value with its deviation over the repeats; a deviation limits the digits of the value.

    >>> spread(0.91273456, 0.00314159, 3), spread(0.91273456, None, 1)
    ('0.9127 +- 0.0031 (3)', '0.912735')
    """
    if value is None or deviation is None:
        return number(value)
    return f"{to_digits(value, deviation)} +- {deviation:.2g} ({repeats})"


def duration(seconds: float) -> str:
    """Return a time in its two largest units.

    >>> duration(3.21), duration(72), duration(6540)
    ('3.2s', '1m12s', '1h49m')
    """
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"


def json_text(facts: object) -> str:
    """Return facts as strict JSON with indentation, as commands print them and files hold them."""
    return json.dumps(facts, indent=1, allow_nan=False)


def aligned(lines: Sequence[Sequence[str]], align: str = ">") -> str:
    """Return a head and rows in columns; `align` is `>` or `<`."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    cells = [zip(line, widths, strict=True) for line in lines]
    rows = ["  ".join(f"{cell:{align}{width}}" for cell, width in line) for line in cells]
    rule = "-" * (sum(widths) + 2 * len(widths) - 2)
    return "\n".join(f" {row}".rstrip() for row in (rows[0], rule, *rows[1:]))


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Return the width of the terminal; None if a stream, stdout by default, goes elsewhere."""
    is_shown = (sys.stdout if stream is None else stream).isatty()
    return shutil.get_terminal_size().columns if is_shown else None


def wrapped_lines(text: str, width: int | None) -> str:
    r"""Wrap each line at spaces, its further lines as far indented as it; a path stays whole.

    Args:
        text: lines of prose.
        width: the width of the terminal; None leaves the lines alone.

    >>> print(wrapped_lines("Winner: trial 3\n  0.97, expected on new rows", 20))
    Winner: trial 3
      0.97, expected on
      new rows
    """
    return "\n".join(part for line in text.split("\n") for part in _wrapped(line, width))


def _wrapped(line: str, width: int | None) -> list[str]:
    if width is None or len(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(
        line.lstrip(),
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def fitted(
    table: Sequence[Sequence[str]], spare: Iterable[int], width: int
) -> tuple[list[list[str]], list[str]]:
    """Return a table that `aligned` prints in this width, and the titles of the columns that are left out.

    Args:
        table: the head and the rows.
        spare: the places of the columns that may be left out, in that order.
        width: the width of the terminal.

    >>> fitted([["trial", "lr", "state"], ["0", "0.0123", "ok"]], [1], 18)
    ([['trial', 'state'], ['0', 'ok']], ['lr'])
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    left_out: list[int] = []
    for place in spare:
        kept = [size for i, size in enumerate(widths) if i not in left_out]
        if sum(kept) + 2 * len(kept) - 1 <= width:
            break
        left_out.append(place)
    rows = [[cell for i, cell in enumerate(row) if i not in left_out] for row in table]
    return rows, [table[0][place] for place in sorted(left_out)]


class Rounded(NamedTuple):
    """A cell of a table whose exact value is shown where the mouse is."""

    text: str
    exact: str

    def __str__(self) -> str:
        return self.text


def html_lines(text: str) -> str:
    """Return printed lines as HTML for a notebook.

    >>> html_lines("a < b")
    '<pre style="white-space: pre-wrap">a &lt; b</pre>'
    """
    from html import escape  # only a notebook needs it

    return f'<pre style="white-space: pre-wrap">{escape(text)}</pre>'


def html_table(rows: Iterable[Sequence[object]], title: str = "") -> str:
    """Return a table for a notebook, in the notebook's own style; the first row is the head.

    >>> html_table([["f1"], ["< 1"]], "trial 0")
    '<table><caption>trial 0</caption><tr><th>f1</th></tr><tr><td>&lt; 1</td></tr></table>'
    """
    from html import escape  # only a notebook needs it

    def title_of(cell: object) -> str:
        if not isinstance(cell, Rounded) or cell.text == cell.exact:
            return ""
        return f' title="{escape(cell.exact)}"'

    def line(cells: Sequence[object], tag: str) -> str:
        parts = (f"<{tag}{title_of(cell)}>{escape(str(cell))}</{tag}>" for cell in cells)
        return f"<tr>{''.join(parts)}</tr>"

    head, *body = rows
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    lines = [line(head, "th"), *(line(row, "td") for row in body)]
    return f"<table>{caption}{''.join(lines)}</table>"


def ruled(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    width: int,
    wrapped: Mapping[str, int],
) -> str:
    """Return a table for a terminal.

    Args:
        head: the title of each column.
        rows: the cells of each row.
        width: the width of the terminal.
        wrapped: the columns that may be wrapped, to this many characters, by title; the last one has the
            rest of the width, and the cells of the other columns stay whole.
    """
    from rich import box  # few commands print such a table
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in head:
        most = None if title == head[-1] else wrapped.get(title)
        table.add_column(title, no_wrap=title not in wrapped, overflow="fold", max_width=most)
    for row in rows:
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().rstrip().splitlines())


class Readable(ABC):
    """An object that has a number, `value()`, and is compared with numbers as that number.

    Two such objects are ordered by their numbers. An undefined value is nan, and like nan it is neither
    equal to anything nor more nor less. The hash is that of the number.
    """

    @abstractmethod
    def value(self) -> float:
        """Return the number; nan where it is undefined, never 0."""

    def __float__(self) -> float:
        return self.value()

    def __format__(self, spec: str) -> str:
        return format(self.value(), spec) if spec else str(self)

    def __eq__(self, other: object) -> bool:
        return _compare_values(operator.eq, self, other)

    def __lt__(self, other: object) -> bool:
        return _compare_values(operator.lt, self, other)

    def __le__(self, other: object) -> bool:
        return _compare_values(operator.le, self, other)

    def __gt__(self, other: object) -> bool:
        return _compare_values(operator.gt, self, other)

    def __ge__(self, other: object) -> bool:
        return _compare_values(operator.ge, self, other)

    def __hash__(self) -> int:
        try:
            value = self.value()
        except ArithmeticError:  # what has no number equals none
            value = math.nan
        return hash(value if value == value else math.nan)  # else each nan would have a hash of its own

    def __sub__(self, other: Any) -> float:
        return self.value() - float(other) if isinstance(other, Real) else NotImplemented

    def __rsub__(self, other: Any) -> float:
        return float(other) - self.value() if isinstance(other, Real) else NotImplemented


def _compare_values(compare: Callable[[Any, Any], bool], one: Readable, other: object) -> bool:
    if isinstance(other, Readable):
        return compare(one.value(), other.value())
    return compare(one.value(), other) if isinstance(other, Real) else NotImplemented


def plural(count: int, word: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "worker"), plural(2, "worker")
    ('1 worker', '2 workers')
    """
    return f"{count} {word}{'' if count == 1 else 's'}"


def first_of(values: Sequence[object], most: int) -> str:
    """Return the first of many values, and how many follow.

    >>> first_of([1, 2], 3), first_of(range(9), 3)
    ('1, 2', '0, 1, 2 and 6 more')
    """
    more = f" and {len(values) - most} more" if len(values) > most else ""
    return f"{', '.join(map(str, values[:most]))}{more}"


def listed(words: Iterable[str], link: str = "and") -> str:
    """Return words as they are listed in a sentence.

    >>> listed(["25", "18", "55"]), listed(["optuna", "ray"], "or")
    ('25, 18 and 55', 'optuna or ray')
    """
    *most, last = words
    return f"{', '.join(most)} {link} {last}" if most else last


def format_p(value: float) -> str:
    """Return a p-value as it is printed.

    >>> format_p(0.0234), format_p(1e-6)
    ('p = 0.023', 'p < 0.001')
    """
    return "p < 0.001" if value < _LEAST_P else f"p = {value:.2g}"
