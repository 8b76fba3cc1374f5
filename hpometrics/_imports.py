"""Targets: how files and commands name a user's own code, `package.module:Name`, and how it is imported."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

from ._text import did_you_mean, one_line
from .exceptions import ConfigError, HpometricsError, missing_extra

TARGET = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*"


@dataclass(frozen=True)
class Kind:
    """What a target is to be: its name in messages, and whether an object is one."""

    name: str
    fits: Callable[[Any], bool]


def is_target(text: str) -> bool:
    """Say whether a text follows the grammar; dunder names are never imported.

    >>> is_target("examples.digits:train"), is_target("examples.digits"), is_target("os:__name__")
    (True, False, False)
    """
    return re.fullmatch(TARGET, text) is not None and "__" not in text


def as_target(text: str) -> str:
    """Return a target of its dotted form, as PredictionIO writes it; any other text as it is.

    >>> as_target("org.template.Precision"), as_target("module:Name"), as_target("Name")
    ('org.template:Precision', 'module:Name', 'Name')
    """
    module, _, name = text.rpartition(".")
    dotted = f"{module}:{name}"
    return dotted if is_target(dotted) else text


def import_target(target: str, kind: Kind, folders: Iterable[str] = ()) -> Any:
    """Import what a target names.

    Args:
        target: `package.module:Name`.
        kind: what it is to be.
        folders: put in front of the import path, the first one first.

    Raises:
        ConfigError: it is no target, cannot be imported or is something else; with the names there are.
    """
    if not is_target(target):
        raise ConfigError(f"{target!r} is no target; write package.module:Name")
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
    name, _, attribute = target.partition(":")
    module = _module(name)
    found = getattr(module, attribute, None)
    if found is None:
        hint = did_you_mean(attribute, (key for key in vars(module) if not key.startswith("_")))
        raise ConfigError(f"{name} has no {attribute!r}{hint or _there(module, kind)}")
    if not kind.fits(found):
        what = "class" if isinstance(found, type) else type(found).__name__
        raise ConfigError(f"{target} is a {what}, no {kind.name}{_there(module, kind)}")
    return found


@contextmanager
def foreign(what: str) -> Iterator[None]:
    """Run code of others in this context: however it ends the program, it ends with an error of ours.

    Args:
        what: begins the message.

    Raises:
        ConfigError: the code has raised something, or called `sys.exit`.
        KeyboardInterrupt: the user has interrupted it.
    """
    try:
        yield
    except (HpometricsError, KeyboardInterrupt):
        raise
    except BaseException as err:  # it may raise anything
        raise ConfigError(f"{what}: {type(err).__name__}: {one_line(err)}") from err


@contextmanager
def same_folder() -> Iterator[None]:
    """Run a user's code in this context and return to the current folder behind it, unless that is gone."""
    try:
        before = os.getcwd()
    except FileNotFoundError:  # somebody has deleted it
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):  # the code has deleted it; no path of a sweep begins there
            os.chdir(before)


def _module(name: str) -> ModuleType:
    with foreign(f"importing {name} failed"), same_folder():
        try:
            return import_module(name)
        except ModuleNotFoundError as err:
            raise ConfigError(_not_there(name, err)) from err


def _not_there(module: str, err: ModuleNotFoundError) -> str:
    """Say what is missing: the module itself, or a package that it imports."""
    package = (err.name or "").partition(".")[0]
    if package == "sklearn":
        return str(missing_extra(module, "scikit-learn (sklearn)", "sklearn"))
    if not package or package == module.partition(".")[0]:
        return f"importing {module} failed: {type(err).__name__}: {one_line(err)}"
    return f"{module} needs the package {package!r}, which is not installed"


def _there(module: ModuleType, kind: Kind) -> str:
    """Name what would have been right, of what the module makes itself."""
    names = ", ".join(_names(module, kind))
    return f"; it has {names}" if names else ""


def _names(module: ModuleType, kind: Kind) -> Iterator[str]:
    for name, value in vars(module).items():
        imported = isinstance(value, (type, FunctionType)) and value.__module__ != module.__name__
        if not name.startswith("_") and not imported and kind.fits(value):
            yield name
