"""Lazy names: what a package offers is loaded from the module it lives in when it is first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from .deprecation import DEPRECATED, warn_deprecated


def lazy_names(package: str, home_of: Mapping[str, str]) -> Callable[[str], Any]:
    """Make the `__getattr__` of a package.

    Args:
        package: its `__name__`.
        home_of: each public name with the module below the package that has it.
    """

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if (full := f"{package}.{name}") in DEPRECATED:
            warn_deprecated(full)
        value = getattr(import_module(f".{home_of[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
