"""Plug-ins by name: a sampler, pruner or scheduler as `tpe`, `{tpe: {arguments}}` or `module:Class`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .._imports import foreign, same_folder
from ..exceptions import ConfigError, missing_extra


@dataclass(frozen=True)
class PlugIn:
    """Where a named plug-in lives and what it takes.

    Args:
        path: `package.module:Class`; empty for none at all.
        words: our word for an argument -> the host's.
        needs: packages that the host does not bring along; they come with the extra `samplers`.
        hidden: arguments that are set for the user and may not be given.
    """

    path: str
    words: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


Table = Mapping[str, PlugIn]


def read_spec(what: str, spec: object) -> tuple[str, dict[str, Any]]:
    """Split `name` or `{name: {argument: value}}` into name and arguments.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(spec, str):
        return spec, {}
    if isinstance(spec, Mapping) and len(spec) == 1:
        name, arguments = next(iter(spec.items()))
        if isinstance(name, str) and isinstance(arguments or {}, Mapping):
            return name, dict(arguments or {})
    raise ConfigError(f"a {what} is a name or {{name: {{argument: value}}}}, got {spec!r}")


def check_spec(what: str, spec: object, table: Table) -> None:
    """Refuse a name that is unknown or needs a package that is missing. Loads nothing.

    Raises:
        ConfigError: unknown, with the nearest name.
        MissingExtraError: the package is missing; the message has the pip line.
    """
    name, _ = read_spec(what, spec)
    if ":" in name:
        return
    if name not in table:
        close = get_close_matches(name, table, 1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise ConfigError(f"{name!r} is not a {what}{hint} Choose from {', '.join(table)}")
    for package in table[name].needs:
        if find_spec(package) is None:
            raise missing_extra(f"the {what} {name!r}", package, "samplers")


def find_class(what: str, spec: object, table: Table) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return the class that a spec names and the arguments in the host's words.

    Raises:
        ConfigError: no such name, class or argument.
        MissingExtraError: as in `check_spec`.
    """
    check_spec(what, spec, table)
    name, arguments = read_spec(what, spec)
    plug_in = table.get(name, PlugIn(name))
    found = _load(what, plug_in.path)
    known = [word for word in inspect.signature(found).parameters if word not in plug_in.hidden]
    known = [*plug_in.words, *(word for word in known if word not in plug_in.words.values())]
    for word in arguments:
        if word not in known:
            close = get_close_matches(str(word), known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise ConfigError(f"{what} {name!r} has no argument {word!r}{hint} It knows {', '.join(known)}")
    return found, {plug_in.words.get(word, word): value for word, value in arguments.items()}


def _load(what: str, path: str) -> Callable[..., Any]:
    module, _, attribute = path.partition(":")
    with foreign(f"{what} {path!r} cannot be imported"), same_folder():
        found = getattr(import_module(module), attribute)
    if not isinstance(found, type):
        raise ConfigError(f"{what} {path!r} is no class, but a {type(found).__name__}")
    return found


_ONE_OBJECTIVE = ("cmaes", "CmaEsSampler")
_NO_PRUNING = ("none", "NopPruner", "FIFOScheduler")


def check_several(
    optimized: Collection[str], sampler: object = None, pruner: object = None, what: str = "pruner"
) -> None:
    """Refuse what knows one objective where there are several.

    Args:
        optimized: the names of what is optimized.
        sampler: a name, `{name: {argument: value}}`, `module:Class` or an object; None for none.
        pruner: likewise, or a scheduler.
        what: `pruner` or `scheduler`.

    Raises:
        ConfigError: there are several, and one of the two is for one.
    """
    if len(optimized) < 2:
        return
    told = f"{', '.join(optimized)} are {len(optimized)} objectives"
    if searches_for_one(sampler):
        name = _name_of(sampler)
        raise ConfigError(f"the sampler {name} searches for one objective; {told}. Choose tpe, gp or nsga2")
    if pruner is not None and (name := _name_of(pruner)) not in _NO_PRUNING:
        raise ConfigError(f"the {what} {name} judges one value; {told}. Leave it out")


def searches_for_one(sampler: object) -> bool:
    """Say whether a sampler knows one objective only."""
    return sampler is not None and _name_of(sampler) in _ONE_OBJECTIVE


def _name_of(spec: object) -> str:
    """The name of a plug-in; of `module:Class` and of an object that of the class."""
    if isinstance(spec, Mapping) and spec:
        spec = next(iter(spec))
    return spec.rpartition(":")[2] if isinstance(spec, str) else _kind_of(spec)


def _kind_of(plug_in: object) -> str:
    return str(getattr(plug_in, "kind", type(plug_in).__name__))
