"""The program of a trial whose sweep was killed: it may still run, and would write beside the next one."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...records._json import FORMAT, FORMAT_KEY
from ...run.trial import machine

PROCESS_FILE = "program.json"
"""The file in the directory of a trial that says which process runs its program."""

_STARTED = 19  # of the fields of /proc/PID/stat behind the name of the program
_POLL_INTERVAL = 0.05  # seconds


def note_process(directory: Path, pid: int) -> None:
    """Write which process runs the program of a trial; on a system without /proc nothing is written."""
    facts = _facts(pid)
    if facts is not None:
        (directory / PROCESS_FILE).write_text(json.dumps(facts), encoding="utf8")


def end_orphan(directory: Path, grace: float) -> None:
    """End the program of an earlier attempt and its child processes, if it still runs on this machine.

    The number of a process is used again after its end, so that its start must be the same too.

    Args:
        directory: the directory of the trial.
        grace: seconds between a request to end and the end.
    """
    try:
        facts = json.loads((directory / PROCESS_FILE).read_text(encoding="utf8"))
        pid = int(facts["pid"])
    except (OSError, ValueError, TypeError, KeyError):
        return
    deadline = time.monotonic() + grace
    with suppress(ProcessLookupError, PermissionError):
        if _facts(pid) == facts:
            os.killpg(pid, signal.SIGTERM)
        while _facts(pid) == facts and time.monotonic() < deadline:
            time.sleep(_POLL_INTERVAL)
        if _facts(pid) == facts:
            os.killpg(pid, signal.SIGKILL)


def _facts(pid: int) -> dict[str, Any] | None:
    """Return what identifies a running process on this machine; None if it does not run."""
    place = machine()
    try:
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf8", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return None
    if place is None or fields[0] == "Z":
        return None
    return {FORMAT_KEY: FORMAT, "pid": pid, "started": fields[_STARTED], "machine": place}
