"""Output of a command on the terminal: its text, and its errors with their exit codes."""

from __future__ import annotations

import atexit
import gc
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TextIO

import click

from .._formatting import terminal_width, wrapped_lines
from .._redaction import redacted
from .._text import printable_lines, unencodable
from ..exceptions import DiskError, HpometricsError, NoFiniteValueError
from ..records._files import is_of_disk
from ..runner.signals import exit_code

CONFIG_ERROR, NOTHING_FINITE, DISK_ERROR = 2, 3, 5


def print_everything() -> None:
    """Make stdout and stderr escape characters that their encoding lacks instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # notebooks and tests have streams of their own
            stream.reconfigure(errors="backslashreplace")


def show(text: str, *, file: TextIO | None = None, err: bool = False) -> None:
    """Print lines with the control characters escaped, since files may hold any names."""
    click.echo(printable_lines(text), file=file, err=err)


@contextmanager
def report_errors(verbose: bool = False) -> Iterator[None]:
    """Print an error of this package without a traceback and exit with its code."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        sys.exit(exit_code(interrupt))
    except HpometricsError as err:
        _print_error(str(err), verbose)
        sys.exit(_code(err))
    except BrokenPipeError:
        raise  # click ends quietly when nobody reads on
    except UnicodeEncodeError as err:
        if err.encoding.lower() in ("utf-8", "utf8"):
            raise  # a bug of this package
        _print_error(f"error: {unencodable(err)}", verbose)
        sys.exit(CONFIG_ERROR)
    except OSError as err:
        place = "" if err.filename is None else f"{err.filename}: "
        _print_error(f"error: {place}{err.strerror or err}", verbose)
        sys.exit(DISK_ERROR if is_of_disk(err) else CONFIG_ERROR)


def _print_error(message: str, verbose: bool) -> None:
    """Print an error: its traceback, or its message with its lines wrapped to the terminal."""
    width = None if verbose else terminal_width(sys.stderr)
    show(wrapped_lines(redacted(traceback.format_exc() if verbose else message), width), err=True)


def _code(err: HpometricsError) -> int:
    if isinstance(err, DiskError):
        return DISK_ERROR
    return NOTHING_FINITE if isinstance(err, NoFiniteValueError) else CONFIG_ERROR


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
