"""The `init` command: a sweep file to start from, its engine, and the schema for editors."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

from ..exceptions import ConfigError
from .schema import json_schema
from .writer import write_text

_SWEEP, _ENGINE, _SCHEMA = "sweep.yaml", "training.py", "sweep.schema.json"


def write_starter(directory: Path) -> str:
    """Write the files of a first sweep and say how to go on; nothing that is there is touched.

    Raises:
        ConfigError: one of the files is there already.
    """
    there = [name for name in (_SWEEP, _ENGINE, _SCHEMA) if (directory / name).exists()]
    if there:
        raise ConfigError(
            f"{directory / there[0]}: is there already, nothing was written; name another folder"
        )
    directory.mkdir(parents=True, exist_ok=True)
    starter = files("hpometrics.sweep.starter")
    for name in (_SWEEP, _ENGINE):
        write_text(directory / name, starter.joinpath(name).read_text(encoding="utf8"))
    write_text(directory / _SCHEMA, json.dumps(json_schema(), indent=1) + "\n")
    return f"saved {_SWEEP}, {_ENGINE}, {_SCHEMA} in {directory}\nnext: hpometrics run {directory / _SWEEP}"
