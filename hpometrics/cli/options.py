"""Options that several commands share, and the output of text."""

from __future__ import annotations

import atexit
import gc
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import click

from .._text import printable_lines

FILE = click.Path(path_type=Path)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
INTERVAL = click.option(
    "--interval",
    "level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="LEVEL",
    help="Draw the intervals of winner and runner-up anew, as in 0.95.",
)


def output_format(form: str | None, as_json: bool, default: str = "text") -> str:
    """Return the output format that `--format` and `--json` request together.

    Raises:
        click.UsageError: they name two formats.
    """
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and -f {form} are two forms; name one")
    return "json" if as_json else form or default


def terminal_width() -> int | None:
    """Return the width of the terminal; None if the output goes elsewhere and is not wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def show(text: str, *, file: TextIO | None = None, err: bool = False) -> None:
    """Print lines with the control characters escaped, since files may hold any names."""
    click.echo(printable_lines(text), file=file, err=err)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Disable the garbage collector within the block, and at the end of the process.

    Nearly all objects of such a command are modules and models, which live to its end: collecting over and
    over takes a tenth of its time and frees nothing. Do not use it for a command that runs a user's engine.
    """
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)  # frozen objects are not examined at exit either
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
