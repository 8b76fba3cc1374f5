"""The terminal: how wide a command's output may be."""

from __future__ import annotations

import shutil
import sys


def terminal_width() -> int | None:
    """Give the width of the terminal; None where the output goes elsewhere, which is not wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
