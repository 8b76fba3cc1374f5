"""Prints: what the user's code prints while a command runs it is no result and goes to stderr."""

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
        if isinstance(stream, TextIOWrapper):  # a notebook and a test have streams of their own
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def aside() -> Iterator[TextIO]:
    """Send to stderr what is printed, by compiled code and by programs that are started too.

    Yields:
        Where stdout leads meanwhile, for lines of results.
    """
    stdout = sys.stdout
    stdout.flush()
    try:
        descriptor, errors = stdout.fileno(), sys.stderr.fileno()
    except OSError:  # streams of a test or a notebook are no files
        with redirect_stdout(sys.stderr):
            yield stdout
        return
    kept = os.dup(descriptor)
    os.dup2(errors, descriptor)
    try:
        with redirect_stdout(sys.stderr), _written_to(kept, stdout) as results:
            yield results
    finally:
        stdout.flush()  # what a log printed that was given stdout before
        os.dup2(kept, descriptor)
        os.close(kept)


@contextmanager
def _written_to(descriptor: int, like: TextIO) -> Iterator[TextIO]:
    with open(
        descriptor, "w", buffering=1, encoding=like.encoding, errors=like.errors, closefd=False
    ) as file:
        yield file
