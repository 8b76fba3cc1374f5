"""Parameters: the arguments that several commands take."""

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


def form_of(form: str | None, as_json: bool, default: str = "text") -> str:
    """Return the form that `--format` and `--json` ask for together.

    Raises:
        click.UsageError: they name two.
    """
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and -f {form} are two forms; name one")
    return "json" if as_json else form or default


def terminal_width() -> int | None:
    """Give the width of the terminal; None where the output goes elsewhere, which is not wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def show(text: str, *, file: TextIO | None = None, err: bool = False) -> None:
    """Print lines, in which what would steer the terminal is escaped: names in files are anybody's."""
    click.echo(printable_lines(text), file=file, err=err)


@contextmanager
def uncollected() -> Iterator[None]:
    """Look for no garbage within, nor when the process ends.

    Nearly all that such a command makes are modules and models, which stay to its end: to look through them
    over and over is a tenth of its time, and frees nothing. Not for what runs a user's engine.
    """
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)  # what is frozen is not looked through at the end either
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
