"""Redaction: passwords and secrets never reach a message, a file or a log; `***` stands where they were.

A text may hold a secret in any form that Python or a writer of this package gives it. The text is therefore
read as each of these forms, and each reading again as each of them: the repr of a request may hold JSON, and
that a key. What shows a secret in any reading is hidden.
"""

from __future__ import annotations

import html
import os
import re
import sys
from binascii import a2b_base64
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from .exceptions import ConfigError

HIDDEN = "***"

_LEAST = 4  # characters of what is hidden: in place of less, whole texts would be stars
_DEPTH = 2  # forms in each other
_READ = 2**16  # characters that are read of a text of which a start is shown
_USER = re.compile(r"(?<=://)[^\s/?#'\"]+(?=@)")
_QUERY = re.compile(r"(?<=[?&])(\w+=)[^\s&#'\"]+")
_KEY = re.compile("password|passwd|pwd|secret|token|key", re.IGNORECASE)
_revealed: set[str] = set()  # what this process was told in secret


def reveal(variable: str) -> str:
    """Give the value of an environment variable, which `redacted` hides from then on in this process.

    Raises:
        ConfigError: there is no such variable.
    """
    value = os.environ.get(variable)
    if not value:
        raise ConfigError(f"the environment has no {variable}, from which a secret is to be read; export it")
    hide(value)
    return value


def hide(secret: str) -> None:
    """Register a text of four or more characters, which `redacted` hides from now on in this process."""
    if len(secret) >= _LEAST:
        _revealed.add(secret)


def redacted(text: str) -> str:
    """Hide who logs in at a URL, keys in its query, and every secret that was revealed, in all its forms.

    Of a secret of several lines each line is hidden, where it is as long as a secret.

    >>> redacted("cannot reach postgresql://ada:pw@db/studies?sslmode=require&sslpassword=x")
    'cannot reach postgresql://***@db/studies?sslmode=require&sslpassword=***'
    """
    if _revealed:
        text = _without(text, _found(_pattern(frozenset(_revealed)), text, _DEPTH))
    return _QUERY.sub(_without_key, _USER.sub(HIDDEN, text))


def excerpt(text: object, length: int) -> str:
    """Return the start of a text, in which secrets are hidden before it is cut.

    Of a secret that is cut in two, nobody knows that its first half is one.
    """
    return redacted(str(text)[:_READ])[:length]


def _without_key(found: re.Match[str]) -> str:
    return f"{found[1]}{HIDDEN}" if _KEY.search(found[1]) else found[0]


@lru_cache(maxsize=8)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str]:
    """Return what matches secrets, the longest one first; any space in them may be any other."""
    pieces = {form for secret in secrets for piece in _pieces(secret) for form in _lossy(piece)}
    ordered = sorted(pieces, key=lambda piece: (-len(piece), piece))
    return re.compile("|".join(r"\s+".join(map(re.escape, re.split(r"\s+", piece))) for piece in ordered))


def _pieces(secret: str) -> set[str]:
    """Return a secret without the spaces at its ends, if that is still one, and its lines."""
    whole = secret.strip()
    lines = (line.strip() for line in whole.splitlines())
    return {piece for piece in (whole, *lines) if len(piece) >= _LEAST} or {secret}


def _lossy(text: str) -> set[str]:
    """Return a text also as it is escaped where backslashes stand as they are, which no reading undoes."""
    escaped = [char if char.isprintable() else char.encode("unicode_escape").decode() for char in text]
    on_a_line = (char if char.isspace() else other for char, other in zip(text, escaped, strict=True))
    coded = (text.encode(code, "backslashreplace").decode() for code in ("utf8", "ascii"))
    return {text, "".join(escaped), "".join(on_a_line), *coded}


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    """Return a text with `***` in place of each span."""
    parts, done = [], 0
    for start, end in sorted(spans):
        if start >= done:
            parts += [text[done:start], HIDDEN]
        done = max(done, end)
    return "".join((*parts, text[done:]))


def _found(secrets: re.Pattern[str], text: str, depth: int) -> list[tuple[int, int]]:
    """Return where secrets stand in a text, or in a reading of it."""
    spans = [found.span() for found in secrets.finditer(text)]
    for form in _FORMS if depth else ():
        reading = _read(text, form)
        if reading is not None:
            inner = _found(secrets, reading.text, depth - 1)
            spans += [(reading.start_of(start), reading.end_of(end)) for start, end in inner]
    return spans


class _Form(NamedTuple):
    """A way to write a text: what stands for something else in it, and for what."""

    escape: re.Pattern[str]
    meaning: Callable[[str], str]


class _Reading(NamedTuple):
    """A decoded text, with the begin and end of each decoded part in it and in the original."""

    text: str
    begins: list[int]
    ends: list[int]
    sources: list[tuple[int, int]]

    def start_of(self, place: int) -> int:
        """Return where in the text the character of a place begins."""
        part = bisect_right(self.begins, place) - 1
        if part < 0:
            return place
        start, end = self.sources[part]
        return start if place < self.ends[part] else end + place - self.ends[part]

    def end_of(self, place: int) -> int:
        """Return where in the text the character before a place ends."""
        part = bisect_right(self.begins, place - 1) - 1
        if part < 0:
            return place
        return self.sources[part][1] + max(0, place - self.ends[part])


def _read(text: str, form: _Form) -> _Reading | None:
    """Read a text as what a form stands for; None if nothing of it stands for anything."""
    parts, done, length = [], 0, 0
    begins: list[int] = []
    ends: list[int] = []
    sources: list[tuple[int, int]] = []
    for found in form.escape.finditer(text):
        meant = form.meaning(found[0])
        parts += [text[done : found.start()], meant]
        length += found.start() - done
        done = found.end()
        begins.append(length)
        length += len(meant)
        ends.append(length)
        sources.append(found.span())
    return _Reading("".join((*parts, text[done:])), begins, ends, sources) if sources else None


def _utf8(data: bytes) -> str:
    """Return a text as the environment has it: bytes that are not UTF-8 are characters of their own."""
    return data.decode("utf8", "surrogateescape")


_LETTERS = dict(zip("abtnvfre0NL_P", "\a\b\t\n\v\f\r\x1b\0\x85\u2028\xa0\u2029", strict=True))


def _character(escape: str) -> str:
    """Read an escape of Python, JSON or YAML; two surrogates are one character."""
    if len(escape) == 2 or escape[1].isspace():
        return "" if escape[1] == "\n" else _LETTERS.get(escape[1], escape[1])
    text = "".join(chr(int(code, 16)) for code in re.split(r"\\[xuU]", escape)[1:])
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _bytes(escapes: str) -> str:
    """Read escapes of bytes; of a space, which ends a line of YAML, nothing is left."""
    if len(escapes) > 2 and escapes[1] == "x":
        return _utf8(bytes.fromhex(escapes.replace("\\x", "")))
    return "" if escapes[1].isspace() else _LETTERS.get(escapes[1], escapes[1])


def _quoted(escapes: str) -> str:
    return " " if escapes == "+" else _utf8(bytes.fromhex(escapes.replace("%", "")))


def _reference(text: str) -> str:
    """Read a reference of HTML or XML, by its name or number."""
    if text[1] != "#":
        return html.unescape(text)
    code = int(text[3:-1], 16) if text[2] == "x" else int(text[2:-1])
    return chr(min(code, sys.maxunicode))


def _from_base64(text: str) -> str:
    """Return what a run of characters stands for, wherever in it the bytes may begin."""
    text = re.sub(r"[\s=]", "", text).translate(_URL_SAFE)
    runs = (text[start:] for start in range(4))
    return "\0".join(_utf8(a2b_base64(run[: len(run) - (len(run) % 4 == 1)] + "==")) for run in runs)


def _from_hex(text: str) -> str:
    runs = (text[start : start + (len(text) - start) // 2 * 2] for start in range(2))
    return "\0".join(_utf8(bytes.fromhex(run)) for run in runs)


_URL_SAFE = str.maketrans("-_", "+/")
_FORMS = tuple(
    _Form(re.compile(escape.replace("H", r"[\da-fA-F]"), re.DOTALL | re.ASCII), meaning)
    for escape, meaning in (
        (r"\\u[dD][89abAB]HH\\u[dD][c-fC-F]HH|\\xHH|\\uHHHH|\\U00(?:0H|10)HHHH|\\\n\s*|\\.", _character),
        (r"(?:\\xHH)+|\\\s+|\\.", _bytes),
        (r"(?:%HH)+", _quoted),
        (r"(?:%HH)+|\+", _quoted),
        (r"&(?:#\d{1,7}|#xH{1,6}|\w{2,31});", _reference),
        ("'\"'\"'|''|\"\"", lambda doubled: doubled[0]),  # in a shell; in YAML, CSV and SQL
        (r"[\w+/-]{6,}(?:\r?\n[\w+/-]+)*={0,2}", _from_base64),
        (r"H{8,}", _from_hex),
    )
)
