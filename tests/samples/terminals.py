"""Commands on a terminal of their own, as a user starts them."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import hpometrics

_ROOT = Path(hpometrics.__file__).parents[1]


def on_terminal(
    *arguments: str,
    folder: Path,
    width: int = 80,
    watch: Callable[[str, subprocess.Popen], None] | None = None,
    **environment: str,
) -> tuple[int, str]:
    """Run `hpometrics` on a terminal of this width; return its exit code and what the terminal got.

    `watch` is called with all that came so far, whenever more comes, and the process.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    unset = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"}
    settings = {name: value for name, value in os.environ.items() if name not in unset}
    settings |= {"TERM": "xterm", "PYTHONPATH": str(_ROOT), **environment}
    command = [sys.executable, "-m", "hpometrics", *arguments]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=settings, start_new_session=True
    )
    os.close(theirs)
    received = b""
    try:
        while part := os.read(ours, 65536):
            received += part
            if watch is not None:
                watch(received.decode(errors="replace"), process)
    except OSError:  # Linux reports the end so
        pass
    os.close(ours)
    return process.wait(), received.decode(errors="replace").replace("\r\n", "\n")


def visible_lines(text: str) -> list[str]:
    """The lines that stay on a terminal, without control codes and what was overwritten."""
    return [re.sub(r"\x1b\[[?\d;]*[A-Za-z]|.*\r", "", line).rstrip() for line in text.split("\n")]
