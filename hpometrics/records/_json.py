"""Strict JSON with a format number and a digest, as every file of a record is written.

Every file that is read again has the number of its format. A file without one is of format 0. A version that
resumes a sweep or a trial first writes its number, in `sweep.resolved.yaml` or in `trial.json`. A newer
version may have another digest, so a newer number in `trial.json` or in a line is refused whatever the
digest. The number is damaged only if this version's digest fits after one digit is changed back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NoReturn

from .._redaction import excerpt
from ..exceptions import NewerFormatError, RecordError

FORMAT = 1
"""The format of all files that this version writes; it reads this one and all before it."""
FORMAT_KEY = "format"
_SEAL = ', "digest": "'
_DIGIT = re.compile(r'"format": (\d)\b')
_NUMBERS = re.compile(rb'\bformat"?:\s*(\d{1,9})')


def check_format(content: object, place: object) -> None:
    """Check that no newer version has written a file or a line.

    Args:
        content: the mapping that a file holds, or a line of it.
        place: the file, as messages name it.

    Raises:
        NewerFormatError: its format is newer than this version reads.
        RecordError: its format is not a whole number of at least 0.
    """
    number = content.get(FORMAT_KEY, 0) if isinstance(content, dict) else 0
    if type(number) is not int or number < 0:
        raise RecordError(f"{place}: the format must be a whole number, got {excerpt(number, 40)}")
    if number > FORMAT:
        raise NewerFormatError(
            f"{place}: has format {number}, but this version of hpometrics reads formats up to {FORMAT}; "
            "use the newer version that wrote it"
        )


def read_json(text: str | bytes) -> Any:
    """Read one JSON value.

    Raises:
        ValueError: it is not JSON, holds NaN or Infinity, or is nested too deep.

    >>> read_json('{"loss": 0.5}')
    {'loss': 0.5}
    """
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def sealed(text: str) -> str:
    """Return a JSON object with a digest of its text as the last key, by which `read_sealed` finds damage.

    >>> sealed('{"epoch": 0}')
    '{"epoch": 0, "digest": "96a0b912716a41b7"}'
    """
    body = text.removesuffix("}")
    return f'{body}{_SEAL}{digest_of(body)}"}}'


def read_sealed(line: str, place: object) -> dict[str, Any]:
    """Read an object that `sealed` has closed; one of format 0 has neither a digest nor a format.

    Args:
        line: the text.
        place: of the text, as an error names it.

    Raises:
        ValueError: the line is not strict JSON.
        RecordError: it has changed since it was written.
        NewerFormatError: a newer version has written it.
    """
    content = read_json(line)
    body, _, seal = line.rpartition(_SEAL)
    digest = seal.rstrip("\n").removesuffix('"}')
    intact = digest == digest_of(body) if "digest" in content else FORMAT_KEY not in content
    if not isinstance(content, dict):
        raise RecordError("the line has changed since it was written")
    if not intact and any(digest_of(text) == digest for text in _turned_back(body)):
        raise RecordError("the line has changed since it was written: its format is another one")
    try:
        check_format(content, place)
    except RecordError:
        if intact:
            raise
    if not intact:
        raise RecordError("the line has changed since it was written")
    return content


def _turned_back(body: str) -> Iterator[str]:
    """Yield a text with this version's format for each digit that may have been turned in it."""
    for match in _DIGIT.finditer(body):
        yield f"{body[: match.start(1)]}{FORMAT}{body[match.end(1) :]}"


def digest_of(text: str) -> str:
    """Return 16 hexadecimal digits that tell one text from another."""
    return sha256(text.encode("utf8", "surrogatepass")).hexdigest()[:16]


def may_be_newer(text: bytes) -> bool:
    """Return whether a file of JSON or YAML may have a newer format; one that does not need not be parsed."""
    return any(int(number) > FORMAT for number in _NUMBERS.findall(text))


def whole(value: object) -> int:
    """Check that a value is a whole number of at least 0, and return it.

    Raises:
        ValueError: it is something else, such as 1.7, "3" or true.
    """
    if type(value) is not int or value < 0:
        raise ValueError(f"a whole number of at least 0 was expected, got {excerpt(repr(value), 40)}")
    return value


def real(value: object) -> float:
    """Check that a value is a finite number, and return it as a float.

    Raises:
        ValueError: it is something else, such as "0.3", true or an int that no float can hold.
    """
    if type(value) is not int and type(value) is not float:
        raise ValueError(f"a number was expected, got {excerpt(repr(value), 40)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("a number of at most 1.8e308 was expected, got a larger one") from None


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not valid JSON")
