"""The end of a program and its child processes, also of a trial whose sweep was killed.

Such a program may still run, and would write beside that of the next attempt.
"""

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

_GROUP, _STARTED = 2, 19  # of the fields of /proc/PID/stat behind the name of the program
_POLL_INTERVAL = 0.05  # seconds
_LAST_GRACE = 1.0  # seconds for the system to end a killed process


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
            kill_group(pid, deadline)


def kill_group(group: int, deadline: float) -> None:
    """Wait for the end of all processes of a group, and kill those that still run at the deadline.

    Raises:
        ProcessLookupError: the last one has ended in the meantime.
        PermissionError: none of them belongs to this user.
    """
    if not _ends_by(deadline, group):
        os.killpg(group, signal.SIGKILL)
        _ends_by(time.monotonic() + _LAST_GRACE, group)


def _ends_by(deadline: float, group: int) -> bool:
    """Wait for the end of all processes of a group; return whether it came before the deadline."""
    while is_group_running(group):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_INTERVAL)
    return True


def is_group_running(group: int) -> bool:
    """Return whether a process of a group runs, a zombie aside."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    every = map(_fields, Path("/proc").glob("[0-9]*"))
    states = [fields[0] for fields in every if fields and int(fields[_GROUP]) == group]
    return not states or set(states) != {"Z"}


def _facts(pid: int) -> dict[str, Any] | None:
    """Return what identifies a running process on this machine; None if it does not run."""
    place, fields = machine(), _fields(Path(f"/proc/{pid}"))
    if place is None or not fields or fields[0] == "Z":
        return None
    return {FORMAT_KEY: FORMAT, "pid": pid, "started": fields[_STARTED], "machine": place}


def _fields(process: Path) -> list[str]:
    """Return the facts of a process behind the name of its program; none if it does not run."""
    try:
        text = (process / "stat").read_text(encoding="utf8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
