"""The session of a Ray that is started here: its files and sockets in a directory of this user alone."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Any

from ..exceptions import ConfigError
from .atomic import make_private

_SHORT = 24  # characters of a folder below which Ray's sockets have names of at most 107


def session_arguments() -> dict[str, Any]:
    """What `ray.init` is told of a cluster that it starts; a place that `RAY_TMPDIR` names stands.

    Ray makes its own directory one that every user may write in, so it is put into a private one.

    Raises:
        ConfigError: Ray is told to ask nobody for a token, or the private directory is not private.
    """
    if os.environ.get("RAY_AUTH_MODE", "").lower() == "disabled":
        raise ConfigError(
            "RAY_AUTH_MODE=disabled lets whoever reaches this machine run code by Ray; unset it, then Ray "
            "asks for a token"
        )
    if os.name != "posix" or "RAY_TMPDIR" in os.environ:
        return {}
    folder = tempfile.gettempdir()
    home = Path(folder if len(folder) <= _SHORT else "/tmp") / f"hpometrics-{os.getuid()}"
    if not home.is_file():
        make_private(home)
    _check_private(home)
    return {"_temp_dir": str(home / "ray")}


def _check_private(home: Path) -> None:
    facts = home.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise ConfigError(
            f"{home}: is not a directory of this user alone, as Ray's files want; remove it, or name another "
            "place by RAY_TMPDIR"
        )
