"""Send the output of a user's code to stderr, so that stdout holds results only."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import TextIOWrapper
from typing import TextIO


def print_everything() -> None:
    """Make stdout and stderr escape characters that their encoding lacks instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # notebooks and tests have streams of their own
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def aside() -> Iterator[TextIO]:
    """Redirect stdout to stderr, also for compiled code and for started programs.

    Yields:
        The original stdout, for lines of results.
    """
    stdout = sys.stdout
    stdout.flush()
    try:
        descriptor, errors = stdout.fileno(), sys.stderr.fileno()
    except OSError:  # streams of a test or a notebook are not files
        with redirect_stdout(sys.stderr):
            yield stdout
        return
    saved = os.dup(descriptor)
    os.dup2(errors, descriptor)
    try:
        with redirect_stdout(sys.stderr), _written_to(saved, stdout) as results:
            yield results
    finally:
        stdout.flush()  # output of a log that held stdout before
        os.dup2(saved, descriptor)
        os.close(saved)


@contextmanager
def _written_to(descriptor: int, like: TextIO) -> Iterator[TextIO]:
    with open(
        descriptor, "w", buffering=1, encoding=like.encoding, errors=like.errors, closefd=False
    ) as file:
        yield file
