"""The first files of a sweep: its file, its engine, and the schema for editors; none is written over."""

from __future__ import annotations

import json
from collections.abc import Mapping
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
    starter = files("hpometrics.sweep.starter")
    texts = {name: starter.joinpath(name).read_text(encoding="utf8") for name in (_SWEEP, _ENGINE)}
    return f"{write_first(directory, texts)}\nnext: hpometrics run {directory / _SWEEP}"


def write_first(directory: Path, texts: Mapping[str, str]) -> str:
    """Write files and the schema beside them, and say so.

    Raises:
        ConfigError: one of the files is there already; nothing was written.
    """
    named = {**texts, _SCHEMA: json.dumps(json_schema(), indent=1) + "\n"}
    there = [name for name in named if (directory / name).exists()]
    if there:
        raise ConfigError(
            f"{directory / there[0]}: is there already, nothing was written; name another folder"
        )
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in named.items():
        write_text(directory / name, text)
    return f"saved {', '.join(named)} in {directory}"
