"""Samplers and pruners of OptunaHub, as `hub:PATH` or `hub:PATH:Class`: packages in local folders.

A package of OptunaHub is a folder whose `__init__.py` names its class in `__all__`. Nothing is downloaded. A
check of a sweep file looks for the folder and does not run its code.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from .._imports import foreign, same_folder
from ..exceptions import ConfigError

HUB = "hub:"
_MODULES = "_hpometrics_hub"  # the start of the names under which the packages are imported


def is_hub(name: str) -> bool:
    """Return whether a name of a sampler or pruner is that of a local package.

    >>> is_hub("hub:packages/samplers/x"), is_hub("packages.samplers:X"), is_hub("tpe")
    (True, False, False)
    """
    return name.startswith(HUB)


def class_in_name(name: str) -> str | None:
    """Return the class that a name chooses, if it chooses one.

    >>> class_in_name("hub:samplers/x:Own"), class_in_name("hub:samplers/x")
    ('Own', None)
    """
    return _split(name)[1]


def _split(name: str) -> tuple[str, str | None]:
    path = name.removeprefix(HUB)
    folder, _, last = path.rpartition(":")
    return (folder, last) if folder and last.isidentifier() else (path, None)


def find_hub(what: str, name: str, folders: Iterable[Path | str] = ()) -> Path:
    """Return the folder of a package. Runs nothing of it.

    Args:
        what: `sampler` or `pruner`.
        name: `hub:PATH` or `hub:PATH:Class`.
        folders: where a relative path may begin, the first one first; then in the current folder.

    Raises:
        ConfigError: there is no such folder, or it is not a package.
    """
    path, _ = _split(name)
    places = [Path(os.path.abspath(Path(folder, path))) for folder in (*folders, ".")]
    found = next((place for place in places if place.is_dir()), None)
    if not path or found is None:
        searched = " or ".join(dict.fromkeys(map(str, places)))
        raise ConfigError(
            f"the {what} {name!r} names a folder that does not exist: {searched}. hpometrics downloads "
            "nothing; clone github.com/optuna/optunahub-registry and give the path to a folder in its "
            "package/"
        )
    if not (found / "__init__.py").is_file():
        raise ConfigError(f"the {what} {name!r} is not a package: {found} has no __init__.py")
    return found


def with_folder(what: str, spec: Any, folders: Iterable[Path | str]) -> Any:
    """Return the spec of a sampler or pruner with the absolute path of its package; any other as it is.

    Args:
        what: `sampler` or `pruner`.
        spec: a name, or `{name: {argument: value}}`.
        folders: see `find_hub`.

    Raises:
        ConfigError: there is no such package.
    """
    if isinstance(spec, Mapping) and len(spec) == 1:
        ((name, arguments),) = spec.items()
        return {with_folder(what, name, folders): arguments}
    if not isinstance(spec, str) or not is_hub(spec):
        return spec
    own = class_in_name(spec)
    folder = find_hub(what, spec, folders)
    return f"{HUB}{folder}" if own is None else f"{HUB}{folder}:{own}"


def load_hub(what: str, name: str) -> type:
    """Import the package of a sampler or pruner, and return its class.

    Args:
        what: `sampler` or `pruner`.
        name: `hub:PATH` or `hub:PATH:Class`.

    Raises:
        ConfigError: there is no such package, it cannot be imported, or it does not say which class to use.
    """
    import optuna  # only a search that names a package needs it here

    base = {"sampler": optuna.samplers.BaseSampler, "pruner": optuna.pruners.BasePruner}.get(what)
    if base is None:
        raise ConfigError(f"{name!r}: OptunaHub packages are samplers and pruners, not a {what}")
    module = _import(what, name)
    listed = [getattr(module, one, None) for one in getattr(module, "__all__", ())]
    classes = {one.__name__: one for one in listed if isinstance(one, type) and issubclass(one, base)}
    own = class_in_name(name)
    if own is not None and own in classes:
        return classes[own]
    names = ", ".join(classes) or f"no {what}"
    if own is not None:
        raise ConfigError(f"the {what} {name!r}: __all__ of the package lists {names}, but not {own!r}")
    if len(classes) != 1:
        raise ConfigError(
            f"the {what} {name!r}: __all__ of the package must name one {what}, but it lists {names}"
            + (f"; choose one, as in {name}:{next(iter(classes))}" if classes else "")
        )
    return next(iter(classes.values()))


def _import(what: str, name: str) -> ModuleType:
    """Import a package under a name of its own, once per process; its relative imports work."""
    folder = find_hub(what, name).resolve()
    digest = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    own = "_".join([_MODULES, re.sub(r"\W", "_", folder.name), digest])
    if own in sys.modules:
        return sys.modules[own]
    spec = spec_from_file_location(own, folder / "__init__.py", submodule_search_locations=[str(folder)])
    if spec is None or spec.loader is None:
        raise ConfigError(f"the {what} {name!r} cannot be imported from {folder}")
    module = module_from_spec(spec)
    sys.modules[own] = module
    try:
        with foreign(f"the {what} {name!r} cannot be imported"), same_folder():
            try:
                spec.loader.exec_module(module)
            except ModuleNotFoundError as err:
                raise ConfigError(_missing_text(what, name, folder, err)) from err
    except BaseException:
        for key in [key for key in sys.modules if key == own or key.startswith(f"{own}.")]:
            del sys.modules[key]
        raise
    return module


def _missing_text(what: str, name: str, folder: Path, err: ModuleNotFoundError) -> str:
    package = (err.name or "").partition(".")[0]
    if not package or package.startswith(_MODULES):
        return f"the {what} {name!r} cannot be imported: {err}"
    return (
        f"the {what} {name!r} needs the package {package!r}, which is not installed; see "
        f"{folder}/README.md for its requirements"
    )
