"""Attributes of any length in a study: a text column of MySQL holds 64 KiB."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from ...exceptions import RecordError

_HELD = 60_000
"""Characters of JSON that every database holds in one attribute."""
_CUT = _HELD // 2 - 1
"""Characters of a piece, in quotes: each of them may have to be escaped."""
_PIECES = "pieces of"


def put_attribute(put: Callable[[str, Any], object], key: str, value: Any) -> None:
    """Set an attribute; a long one in pieces first, so that whoever sees it sees all of it.

    Args:
        put: sets one attribute of a study or a trial, such as `trial.set_user_attr`.
        key: of the attribute.
        value: what JSON can hold.
    """
    text = json.dumps(value)
    if len(text) <= _HELD:
        put(key, value)
        return
    digest = hashlib.sha256(text.encode()).hexdigest()
    count = -(-len(text) // _CUT)
    for index in range(count):
        put(_piece(digest, index), text[index * _CUT : (index + 1) * _CUT])
    put(key, {_PIECES: digest, "count": count})


def get_attribute(attributes: Mapping[str, Any], key: str) -> Any:
    """Read an attribute that `put_attribute` has set; None where there is none.

    Raises:
        RecordError: a piece is missing, or is not what was written.
    """
    value = attributes.get(key)
    if not (isinstance(value, dict) and _PIECES in value):
        return value
    digest = value[_PIECES]
    text = "".join(str(attributes.get(_piece(digest, index), "")) for index in range(value["count"]))
    if hashlib.sha256(text.encode()).hexdigest() != digest:
        raise RecordError(f"the attribute {key!r} is damaged: its pieces are not those that were written")
    return json.loads(text)


def _piece(digest: str, index: int) -> str:
    return f"hpometrics:piece:{digest[:16]}:{index}"
