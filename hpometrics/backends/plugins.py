"""Samplers, pruners and schedulers by name: `tpe`, `{tpe: {arguments}}` or `module:Class`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from .._imports import foreign, load_path, same_folder
from .._text import did_you_mean
from ..exceptions import ConfigError, missing_extra

_ONE_OBJECTIVE = ("cmaes", "CmaEsSampler")
_NO_PRUNING = ("none", "NopPruner", "FIFOScheduler")


@dataclass(frozen=True)
class PlugIn:
    """The class of a named plug-in and its arguments.

    Args:
        path: `package.module:Class`.
        words: our name of an argument -> the backend's.
        needs: packages that the backend does not install; they come with the extra `samplers`.
        hidden: arguments that are set for the user, who may not pass them.
    """

    path: str
    words: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


Table = Mapping[str, PlugIn]


def read_spec(what: str, spec: object) -> tuple[str, dict[str, Any]]:
    """Split `name` or `{name: {argument: value}}` into name and arguments.

    Raises:
        ConfigError: the spec has neither form.
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
        ConfigError: the name is unknown; the message has the nearest name.
        MissingExtraError: the package is missing; the message has the pip line.
    """
    name, _ = read_spec(what, spec)
    if ":" in name:
        return
    if name not in table:
        hint = did_you_mean(name, table) or "."
        raise ConfigError(f"{name!r} is not a {what}{hint} Choose from {', '.join(table)}")
    for package in table[name].needs:
        if find_spec(package) is None:
            raise missing_extra(f"the {what} {name!r}", package, "samplers")


def find_class(what: str, spec: object, table: Table) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return the class that a spec names, and its arguments under the backend's names.

    Raises:
        ConfigError: there is no such name, class or argument.
        MissingExtraError: see `check_spec`.
    """
    check_spec(what, spec, table)
    name, arguments = read_spec(what, spec)
    plug_in = table.get(name, PlugIn(name))
    cls = _load(what, plug_in.path)
    theirs = [word for word in inspect.signature(cls).parameters if word not in plug_in.hidden]
    words = [*plug_in.words, *(word for word in theirs if word not in plug_in.words.values())]
    for word in arguments:
        if word not in words:
            hint = did_you_mean(word, words) or "."
            raise ConfigError(f"{what} {name!r} has no argument {word!r}{hint} It knows {', '.join(words)}")
    return cls, {plug_in.words.get(word, word): value for word, value in arguments.items()}


def _load(what: str, path: str) -> Callable[..., Any]:
    with foreign(f"{what} {path!r} cannot be imported"), same_folder():
        cls = load_path(path)
    if not isinstance(cls, type):
        raise ConfigError(f"{what} {path!r} is not a class, but a {type(cls).__name__}")
    return cls


def check_several(
    optimized: Collection[str], sampler: object = None, pruner: object = None, what: str = "pruner"
) -> None:
    """Refuse a sampler or pruner for one objective where there are several.

    Args:
        optimized: the names of what is optimized.
        sampler: a name, `{name: {argument: value}}`, `module:Class` or an object; None for none.
        pruner: likewise, or a scheduler.
        what: `pruner` or `scheduler`.

    Raises:
        ConfigError: there are several objectives, and one of the two supports one alone.
    """
    if len(optimized) < 2:
        return
    fact = f"{', '.join(optimized)} are {len(optimized)} objectives"
    if searches_for_one(sampler):
        name = _name_of(sampler)
        raise ConfigError(f"the sampler {name} searches for one objective; {fact}. Choose tpe, gp or nsga2")
    if pruner is not None and (name := _name_of(pruner)) not in _NO_PRUNING:
        raise ConfigError(f"the {what} {name} judges one value; {fact}. Leave it out")


def searches_for_one(sampler: object) -> bool:
    """Return whether a sampler supports one objective only."""
    return sampler is not None and _name_of(sampler) in _ONE_OBJECTIVE


def _name_of(spec: object) -> str:
    """Return the name of a plug-in; for `module:Class` and for an object that of the class."""
    if isinstance(spec, Mapping) and spec:
        spec = next(iter(spec))
    return spec.rpartition(":")[2] if isinstance(spec, str) else _kind_of(spec)


def _kind_of(plug_in: object) -> str:
    return str(getattr(plug_in, "kind", type(plug_in).__name__))
