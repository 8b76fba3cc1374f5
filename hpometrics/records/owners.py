"""Owners: a directory that another user has made, or may write in, is not worked in."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ..exceptions import ConfigError


def check_own(directory: Path) -> None:
    """Refuse a directory whose files another user may have written; what is not there yet is nobody's.

    Raises:
        ConfigError: it is another user's, or others may write in it.
    """
    if os.name != "posix" or not directory.exists():
        return
    facts = directory.lstat()
    if facts.st_uid != os.geteuid():
        raise ConfigError(
            f"{directory}: belongs to user {facts.st_uid}, who says in it what code is run; copy "
            f"it, or make it yours: chown -R {os.geteuid()} {directory}"
        )
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(facts.st_mode)
        raise ConfigError(
            f"{directory}: other users may write in it (mode {mode:04o}), and it says what code is run; if "
            f"you trust what it holds: chmod -R go-w {directory}"
        )
