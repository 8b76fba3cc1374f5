"""The client of a program: `hpometrics.log` hands the values of an epoch to the sweep that runs it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from functools import cache
from numbers import Real
from typing import Any

from .._redaction import excerpt
from ..exceptions import RunError

VARIABLE = "HPOMETRICS_LOG"
"""The environment variable with the path of the file that the sweep reads."""

_log = logging.getLogger("hpometrics")


def log(values: Mapping[str, Any] | None = None, /, *, epoch: int | None = None, **more: Any) -> None:
    """Report the values of an epoch from a program that a sweep runs; each call ends an epoch.

    Without a sweep nothing happens, and the logger `hpometrics` says so once. Of several processes the first
    one reports, by `RANK` or `LOCAL_RANK`.

    Args:
        values: the values by name, for names that are not Python's, as in `log({"val/acc": 0.9})`.
        epoch: its number, counted from 0; checked if it is given.
        more: further values by name, as in `log(accuracy=0.9, log_loss=0.31)`; None is an undefined value.

    Raises:
        RunError: there is no value, one is not a number, or the epoch is not a whole one.

    >>> log(accuracy=0.9)
    """
    content = {name: _number(name, value) for name, value in {**(values or {}), **more}.items()}
    if not content:
        raise RunError("log needs the values of an epoch, as in hpometrics.log(accuracy=0.9); got none")
    if epoch is not None:
        content["epoch"] = _parse_epoch(epoch)
    path = os.environ.get(VARIABLE)
    if path is None:
        _note_absence()
        return
    if os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) != "0":
        return
    line = json.dumps(content)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{line}\n".encode())  # at once, so that threads do not mix their lines
    finally:
        os.close(file)


def _number(name: str, value: Any) -> float | None:
    if hasattr(value, "item") and not isinstance(value, Real):  # a tensor or an array of one number
        try:
            value = value.item()
        except (ValueError, RuntimeError):
            pass
    if value is None:
        return None
    if not isinstance(value, Real) or isinstance(value, bool):
        raise RunError(
            f"log({name}=...) takes a number or None, got {type(value).__name__} {excerpt(repr(value), 80)}"
        )
    return int(value) if isinstance(value, int) else float(value)


def _parse_epoch(value: Any) -> int:
    number = _number("epoch", value)
    if number is None or not float(number).is_integer():
        raise RunError(f"log(epoch=...) takes a whole number, got {value!r}")
    return int(number)


@cache  # once per process
def _note_absence() -> None:
    _log.warning("hpometrics.log reports to a sweep, but no sweep runs this program; its values are dropped")
