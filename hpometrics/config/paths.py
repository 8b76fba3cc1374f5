"""Paths and words of a command line, as a sweep file may hold them."""

from __future__ import annotations

import os
from typing import Annotated

from pydantic import AfterValidator, Field

from .._redaction import excerpt
from .._text import unencodable
from .fields import wrong

_LENGTH = 1024


def _path(value: str) -> str:
    if not value.isprintable() or len(value) > _LENGTH:
        raise wrong(f"{excerpt(value, 40)!r} is no path; write up to {_LENGTH} printable characters")
    try:
        os.fsencode(value)
    except UnicodeEncodeError as err:
        raise wrong(unencodable(err)) from err
    return value


def _part(value: str) -> str:
    if "\0" in value:
        raise wrong(f"{excerpt(value, 40)!r} is no part of a command; no program is told a NUL")
    return value


Directory = Annotated[str, Field(min_length=1), AfterValidator(_path)]
Part = Annotated[str, AfterValidator(_part)]
