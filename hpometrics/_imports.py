"""Import names lazily, import and run user code by `package.module:Name`, and read versions of packages."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from functools import cache
from importlib import import_module
from operator import attrgetter
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import (
    Any,
    NamedTuple,  # dataclasses take longer to import than the package
    TextIO,
)

from ._text import did_you_mean, one_line, with_article
from .exceptions import ConfigError, HpometricsError, missing_extra

_NOT_OWN = {"node_modules", "site-packages", "__pycache__"}

KEPT_FOR = 2
"""The number of minor versions in which a deprecated name still works, from the first that warns."""


def own_folders(names: Iterable[str]) -> list[str]:
    """Return the names of folders in order, without hidden ones and those of installed packages."""
    return sorted(name for name in names if not name.startswith(".") and name not in _NOT_OWN)


class Deprecated(NamedTuple):
    """A deprecated name.

    Args:
        since: the first version that warns, as `0.2`.
        instead: the name to use instead, as a user writes it.
    """

    since: str
    instead: str

    @property
    def removed_in(self) -> str:
        """The first version without the name."""
        major, minor = self.since.split(".")
        return f"{major}.{int(minor) + KEPT_FOR}"


DEPRECATED: dict[str, Deprecated] = {}
"""Every deprecated name: a public Python name as `hpometrics.Name`, any other as a user writes it.

Public Python names warn when they are loaded; the reader of any other name calls `warn_deprecated`.
"""
_warned: set[str] = set()


def outside_level() -> int:
    """Return the `stacklevel` with which a warning of the caller has the line outside this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("hpometrics"):
        frame, level = frame.f_back, level + 1
    return level


def warn_deprecated(name: str) -> None:
    """Warn about a deprecated name, once per process, at the line outside this package that uses it."""
    if name in _warned:
        return
    _warned.add(name)
    deprecated = DEPRECATED[name]
    text = (
        f"{name} is deprecated since hpometrics {deprecated.since} and will be removed in "
        f"{deprecated.removed_in}; use {deprecated.instead}"
    )
    warnings.warn(text, DeprecationWarning, stacklevel=outside_level())


_IMPORT = re.compile(r"^from \.([\w.]+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
_CONSTANT = re.compile(r'^([A-Z0-9_]+): Final = "(.*)"$', re.MULTILINE)


def lazy_names(package: str, init: str) -> tuple[Callable[[str], Any], dict[str, str]]:
    """Create the `__getattr__` of a package from its stub, the only list of its public names and constants.

    Args:
        package: its `__name__`.
        init: its `__file__`; the stub is the `.pyi` beside it.

    Returns:
        The function, and the module below the package that defines each name that is not a constant.
    """
    with open(f"{init.rpartition('.')[0]}.pyi", encoding="utf8") as file:
        stub = file.read()
    home_of = {
        name: module
        for module, *lists in _IMPORT.findall(stub)
        for name in re.findall(r"(\w+) as \1\b", " ".join(lists))
    }
    constants = dict(_CONSTANT.findall(stub))

    def load(name: str) -> Any:
        if name in constants:
            return constants[name]
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if (full := f"{package}.{name}") in DEPRECATED:
            warn_deprecated(full)
        value = getattr(import_module(f".{home_of[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, home_of


MODULE = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"
TARGET = rf"{MODULE}:[A-Za-z_][A-Za-z0-9_]*"


class Kind(NamedTuple):
    """The kind of object that a target must name: its name in messages, a check, and the call of it."""

    name: str
    fits: Callable[[Any], bool]
    call: str = ""


def is_target(text: str) -> bool:
    """Return whether a text follows the grammar; dunder names are never imported.

    >>> is_target("examples.digits:train"), is_target("examples.digits"), is_target("os:__name__")
    (True, False, False)
    """
    return re.fullmatch(TARGET, text) is not None and "__" not in text


def is_local(text: str | None) -> bool:
    """Return whether a text stands for an engine that no process can import, which only Python writes.

    >>> is_local("__main__:train"), is_local("digits:train"), is_local("__main__:__name__")
    (True, False, False)
    """
    module, name = split_target(text or "")
    return module == "__main__" and is_target(f"main:{name}")


def not_importable(target: str) -> ConfigError:
    """Return the error for an engine that no process can import."""
    return ConfigError(
        f"{target} was defined in a notebook, a script or another function, so other processes cannot "
        "import it; move it to a module and import it from there"
    )


def code_of(function: Callable[..., Any]) -> str:
    """Return the source of a function, or what Python made of it where the source is lost."""
    from inspect import getsource  # takes longer to import than the package

    try:
        return getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return repr(code and (code.co_code, code.co_names))


def as_target(text: str) -> str:
    """Return a target of its dotted form, as PredictionIO writes it; any other text as it is.

    >>> as_target("org.template.Precision"), as_target("module:Name"), as_target("Name")
    ('org.template:Precision', 'module:Name', 'Name')
    """
    module, _, name = text.rpartition(".")
    dotted = f"{module}:{name}"
    return dotted if is_target(dotted) else text


def split_target(target: str) -> tuple[str, str]:
    """Return the module and the name of a target.

    >>> split_target("examples.digits:train")
    ('examples.digits', 'train')
    """
    module, _, name = target.partition(":")
    return module, name


def load_path(path: str) -> Any:
    """Import the object at a path of this package or of a plug-in; the name in it may have dots."""
    module, name = split_target(path)
    return attrgetter(name)(import_module(module))


def import_target(target: str, kind: Kind, folders: Iterable[str] = ()) -> Any:
    """Import the object that a target names.

    Args:
        target: `package.module:Name`.
        kind: the kind of object that is expected.
        folders: folders to put in front of the import path, the first one first.

    Raises:
        ConfigError: the text is not a target, cannot be imported or names another kind of object; the
            message lists the names of the module.
    """
    if not is_target(target):
        raise ConfigError(f"{target!r} is not a target; write package.module:Name")
    _look_in(folders)
    name, attribute = split_target(target)
    module = _module(name)
    value = getattr(module, attribute, None)
    if value is None:
        hint = did_you_mean(attribute, (key for key in vars(module) if not key.startswith("_")))
        raise ConfigError(f"{name} has no {attribute!r}{hint or _choices_text(module, kind)}")
    if not kind.fits(value):
        raise ConfigError(f"{target} {_objection(value, kind)}{_choices_text(module, kind)}")
    return value


def _objection(value: object, kind: Kind) -> str:
    """Return the reason why a value is not of a kind: the arguments it lacks, or its own type."""
    if kind.call and callable(value) and not isinstance(value, BuiltinFunctionType):
        return f"must accept two arguments: {kind.call}"
    word = "class" if isinstance(value, type) else type(value).__name__
    return f"is {with_article(word)}, not {with_article(kind.name)}"


def import_modules(names: Iterable[str], folders: Iterable[str] = ()) -> None:
    """Import modules for what they register.

    Args:
        names: such as `mypackage.metrics`.
        folders: folders to put in front of the import path, the first one first.

    Raises:
        ConfigError: one cannot be imported.
    """
    _look_in(folders)
    for name in names:
        _module(name)


def _look_in(folders: Iterable[str]) -> None:
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]


@contextmanager
def foreign(what: str) -> Iterator[None]:
    """Run a user's code in this context; whatever it raises becomes an error of this package.

    Args:
        what: the start of the message.

    Raises:
        ConfigError: the code raised an error, or called `sys.exit`.
        KeyboardInterrupt: the user interrupted it.
    """
    try:
        yield
    except (HpometricsError, KeyboardInterrupt):
        raise
    except BaseException as err:  # it may raise anything
        raise ConfigError(f"{what}: {type(err).__name__}: {one_line(err)}") from err


@contextmanager
def same_folder() -> Iterator[None]:
    """Run a user's code in this context and change back to the current folder after it, if that exists."""
    try:
        before = os.getcwd()
    except FileNotFoundError:  # the folder was deleted
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):  # the code deleted it; no path of a sweep begins there
            os.chdir(before)


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_shell is not None and getattr(get_shell(), "kernel", None) is not None


@contextmanager
def aside() -> Iterator[TextIO]:
    """Redirect stdout to stderr, also for compiled code and for started programs.

    A notebook shows stderr in red, and no program reads its stdout, so there nothing is redirected.

    Yields:
        The original stdout, for lines of results.
    """
    stdout = sys.stdout
    if in_notebook():
        yield stdout
        return
    stdout.flush()
    try:
        descriptor, errors = stdout.fileno(), sys.stderr.fileno()
    except OSError:  # streams of a test or a notebook are not files
        with redirect_stdout(sys.stderr):
            yield stdout
        return
    saved = os.dup(descriptor)
    os.dup2(errors, descriptor)
    try:
        with (
            redirect_stdout(sys.stderr),
            open(saved, "w", 1, stdout.encoding, stdout.errors, closefd=False) as results,
        ):
            yield results
    finally:
        stdout.flush()  # output of a log that held stdout before
        os.dup2(saved, descriptor)
        os.close(saved)


@contextmanager
def environment(settings: Mapping[str, str], restored: Iterable[str] = ()) -> Iterator[None]:
    """Set environment variables; afterwards they, and those in `restored`, are what they were before."""
    before = {name: os.environ.get(name) for name in (*settings, *restored)}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _module(name: str) -> ModuleType:
    with foreign(f"importing {name} failed"), same_folder():
        try:
            return import_module(name)
        except ModuleNotFoundError as err:
            raise ConfigError(_missing_message(name, err)) from err


def _missing_message(module: str, err: ModuleNotFoundError) -> str:
    """Return a message with what is missing: the module itself, or a package that it imports."""
    package = (err.name or "").partition(".")[0]
    if package == "sklearn":
        return str(missing_extra(module, "scikit-learn (sklearn)", "sklearn"))
    if not package or package == module.partition(".")[0]:
        return f"importing {module} failed: {type(err).__name__}: {one_line(err)}"
    return f"{module} needs the package {package!r}, which is not installed"


def _choices_text(module: ModuleType, kind: Kind) -> str:
    """Return the names of that kind that the module defines itself."""
    names = ", ".join(_names(module, kind))
    return f"; {module.__name__} has {names}" if names else ""


def _names(module: ModuleType, kind: Kind) -> Iterator[str]:
    for name, value in vars(module).items():
        imported = isinstance(value, (type, FunctionType)) and value.__module__ != module.__name__
        if not name.startswith("_") and not imported and kind.fits(value):
            yield name


_PACKAGES = ("hpometrics", "torch", "torchmetrics", "optuna", "ray", "numpy", "scikit-learn")


def installed_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that values depend on; nothing is imported."""
    return dict(_installed())


@cache
def _installed() -> dict[str, str]:
    """Return the versions, read once: each one parses a file of headers."""
    from importlib.metadata import PackageNotFoundError, version  # takes longer to import than the package

    versions = {"python": sys.version.split()[0]}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def version_changes(recorded: Mapping[str, str]) -> list[str]:
    """Return each recorded version that differs from the installed one, as in `numpy 2.0 -> 2.1`.

    >>> version_changes({**installed_versions(), "numpy": "0.9"})[0][:13] == "numpy 0.9 -> "
    True
    """
    installed = installed_versions()
    return [
        f"{package} {version} -> {installed.get(package, '(not installed)')}"
        for package, version in recorded.items()
        if installed.get(package) != version
    ]
