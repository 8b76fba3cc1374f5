"""Import names lazily, user code by `package.module:Name`, and the versions that values depend on."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType, ModuleType
from typing import (
    Any,
    NamedTuple,  # dataclasses take longer to import than the package
)

from ._text import did_you_mean, one_line
from .exceptions import ConfigError, HpometricsError, MissingExtraError, missing_extra

KEPT_FOR = 2
"""Minor versions that a name works in from the first that warns, before it is gone."""


class Deprecated(NamedTuple):
    """A name that will go.

    Args:
        since: the first version that warns, as `0.2`.
        instead: what to use, as a user writes it.
    """

    since: str
    instead: str

    @property
    def gone(self) -> str:
        """The first version without the name."""
        major, minor = self.since.split(".")
        return f"{major}.{int(minor) + KEPT_FOR}"


DEPRECATED: dict[str, Deprecated] = {}
"""Every name that will go: a public Python name as `hpometrics.Name`, anything else as a user writes it.

Public Python names warn when they are loaded; whatever reads another name calls `warn_deprecated`.
"""
_warned: set[str] = set()


def warn_deprecated(name: str) -> None:
    """Warn of a name of the table, once per process, at the line outside this package that uses it."""
    if name in _warned:
        return
    _warned.add(name)
    known = DEPRECATED[name]
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("hpometrics"):
        frame, level = frame.f_back, level + 1
    text = (
        f"{name} is deprecated since hpometrics {known.since} and gone in {known.gone}; use {known.instead}"
    )
    warnings.warn(text, DeprecationWarning, stacklevel=level)


_IMPORT = re.compile(r"^from \.([\w.]+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)


def lazy_names(package: str, init: str) -> tuple[Callable[[str], Any], dict[str, str]]:
    """Create the `__getattr__` of a package from its stub, which is the only list of its public names.

    Args:
        package: its `__name__`.
        init: its `__file__`; the stub is the `.pyi` beside it.

    Returns:
        The function, and the module below the package that defines each name.
    """
    with open(f"{init.rpartition('.')[0]}.pyi", encoding="utf8") as file:
        stub = file.read()
    home_of = {
        name: module
        for module, *lists in _IMPORT.findall(stub)
        for name in re.findall(r"(\w+) as \1\b", " ".join(lists))
    }

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if (full := f"{package}.{name}") in DEPRECATED:
            warn_deprecated(full)
        value = getattr(import_module(f".{home_of[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, home_of


TARGET = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*"


class Kind(NamedTuple):
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


_PACKAGES = ("hpometrics", "torch", "torchmetrics", "optuna", "ray", "numpy", "scikit-learn")


def installed_versions() -> dict[str, str]:
    """Give the versions of Python and of the packages that values depend on; nothing is imported."""
    return dict(_installed())


@cache
def _installed() -> dict[str, str]:
    """Read the versions once: each takes parsing a file of headers."""
    from importlib.metadata import PackageNotFoundError, version  # takes longer to import than the package

    found = {"python": sys.version.split()[0]}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def version_changes(recorded: Mapping[str, str]) -> list[str]:
    """Name each version of a record that is another one here, as in `numpy 2.0 -> 2.1`.

    >>> version_changes({**installed_versions(), "numpy": "0.9"})[0][:13] == "numpy 0.9 -> "
    True
    """
    here = installed_versions()
    return [
        f"{package} {told} -> {here.get(package, '(not installed)')}"
        for package, told in recorded.items()
        if here.get(package) != told
    ]


def missing_report(kind: str) -> MissingExtraError | None:
    """Return the error of a kind of report whose package is not installed; None if it can be written."""
    if kind != "html" or find_spec("plotly") is not None:
        return None
    return missing_extra("the HTML report", "plotly", "report")
