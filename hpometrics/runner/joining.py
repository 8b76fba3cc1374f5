"""Joining a sweep of which a machine sees nothing but the storage: a run directory made from the study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import optuna

from ..backends.optuna.storage import close_storage, open_storage, storing
from ..config.storage_url import url_of, written
from ..config.yaml_writer import write_text
from ..exceptions import ConfigError
from ..records.atomic import make_private
from ..results.manifest import Resolved
from ..results.run_directory import RunDirectory
from .publication import SWEEP, published


def join(storage: str, name: str | None, directory: Path | None) -> RunDirectory:
    """Make the run directory of a sweep in a storage, or find it.

    Args:
        storage: its URL; `${NAME}` stands for a variable of the environment.
        name: of the sweep; may be left out where the storage has one sweep.
        directory: of the run on this machine; `runs/{name}` unless given.

    Raises:
        ConfigError: there is no such sweep, or the directory is that of another one, or another user's.
    """
    with storing():
        opened = open_storage(url_of(storage))
        try:
            resolved = _resolved(opened, name, written(storage))
        finally:
            close_storage(opened)
    home = RunDirectory(directory or Path("runs") / resolved.name)
    home.check_private()
    home.check_formats()
    if home.resolved.exists():
        found = home.read().name
        if found != resolved.name:
            raise ConfigError(f"{home.path}: is the directory of {found}, not of {resolved.name}; give --dir")
        return home
    if home.path.is_dir() and any(home.path.iterdir()):
        raise ConfigError(f"{home.path}: is not empty, and no run directory; give another one with --dir")
    make_private(home.path)
    make_private(home.trials)
    write_text(home.resolved, _moved(resolved, home).to_yaml())
    return home


def _resolved(storage: optuna.storages.BaseStorage, name: str | None, place: str) -> Resolved:
    studies = [one for one in optuna.get_all_study_summaries(storage) if SWEEP in one.user_attrs]
    names = [one.study_name for one in studies]
    if name is None and len(names) == 1:
        name = names[0]
    if name not in names:
        raise ConfigError(f"{place}: {_choice(name, names)}")
    found = published(optuna.load_study(study_name=name, storage=storage))
    if found is None:
        raise ConfigError(f"{place}: the study {name!r} says nothing of its sweep any more")
    return found


def _choice(name: str | None, names: Sequence[str]) -> str:
    if not names:
        return "has no sweep; hpometrics run FILE with this storage begins one"
    known = ", ".join(sorted(names))
    return (
        f"has no sweep {name!r}, but {known}" if name else f"has several sweeps, name one by --study: {known}"
    )


def _moved(resolved: Resolved, home: RunDirectory) -> Resolved:
    """Give the sweep as it stands on this machine, whose engine is in the current folder."""
    there = Path(resolved.file) if resolved.file else None
    file = resolved.file if there is not None and there.exists() else str(Path.cwd() / "sweep.yaml")
    results = {**resolved.config["results"], "dir": str(home.path)}
    return replace(resolved, file=file, config={**resolved.config, "results": results})
