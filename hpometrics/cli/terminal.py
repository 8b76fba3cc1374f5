"""The terminal: how wide a command's output may be, and what of it reaches it."""

from __future__ import annotations

import shutil
import sys
from typing import TextIO

import click

from .._text import printable_lines


def terminal_width() -> int | None:
    """Give the width of the terminal; None where the output goes elsewhere, which is not wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def show(text: str, *, file: TextIO | None = None, err: bool = False) -> None:
    """Print lines, in which what would steer the terminal is escaped: names in files are anybody's."""
    click.echo(printable_lines(text), file=file, err=err)
