"""Printed: the lines of a program, to the end of what it prints, whatever it leaves at work."""

from __future__ import annotations

import codecs
import io
import os
import selectors
import subprocess
import time
from collections.abc import Iterator

GRACE = 10.0  # seconds for what goes on printing after the program, as `tee` does
_LOOK = 1.0  # seconds between two looks at whether a silent program is still there


def lines_of(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Give each line as soon as it is there; the last one may have no end.

    They end when nobody can print more, or soon after the program itself: what it has started and left, a
    service or a worker that hangs, may keep its output open for ever.
    """
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf8")("replace"), translate=True)
    begun: list[str] = []
    for chunk in _chunks(process):
        begun.append(decoder.decode(chunk))
        if "\n" in begun[-1]:
            *lines, rest = "".join(begun).split("\n")
            begun = [rest]
            yield from (f"{line}\n" for line in lines)
    if rest := "".join([*begun, decoder.decode(b"", final=True)]):
        yield rest


def _chunks(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    if process.stdout is None:
        return
    left = None
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ)
        while left is None or left > time.monotonic():
            if waiting.select(_LOOK if left is None else max(0.0, left - time.monotonic())):
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    return
                yield chunk
            if left is None and process.poll() is not None:
                left = time.monotonic() + GRACE
