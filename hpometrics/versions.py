"""Versions: of what a value depends on, as they are installed, and how those of a record differ from them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from platform import python_version

_PACKAGES = ("hpometrics", "torch", "torchmetrics", "optuna", "ray", "numpy", "scikit-learn")


def installed_versions() -> dict[str, str]:
    """Give the versions of Python and of the packages that values depend on; nothing is imported."""
    return dict(_installed())


@cache
def _installed() -> dict[str, str]:
    """Read the versions once: each takes parsing a file of headers."""
    found = {"python": python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def version_changes(recorded: Mapping[str, str]) -> list[str]:
    """Name each version of a record that is another one here, as in `numpy 2.0 -> 2.1`.

    >>> version_changes({**installed_versions(), "numpy": "0.9"}) == [f"numpy 0.9 -> {version('numpy')}"]
    True
    """
    here = installed_versions()
    return [
        f"{package} {told} -> {here.get(package, '(not installed)')}"
        for package, told in recorded.items()
        if here.get(package) != told
    ]
