"""Replace passwords and secrets by `***` in messages, files and logs, and read secret params.

A secret param is `{secret: HUB_TOKEN}`, read from the environment where a trial runs. Files hold the name of
the variable and printed text holds `***`; only the training function receives the value.

A text may hold a secret in any form in which Python or a writer of this package encodes it. The text is
therefore decoded from each of these forms, and the result again: the repr of a request may hold JSON, and
that a key. Every part that shows a secret in any decoding is hidden.
"""

from __future__ import annotations

import html
import os
import re
import sys
from binascii import a2b_base64
from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ._text import text_of
from .exceptions import ConfigError

HIDDEN = "***"
SECRET = "secret"

_LEAST = 4  # characters of a hidden secret: hiding shorter ones would turn whole texts into stars
_DEPTH = 2  # nested forms
_READ = 2**16  # characters of a text that are searched before its start is cut out
_USER = re.compile(r"(?<=://)[^\s/?#'\"]+(?=@)")
_QUERY = re.compile(r"(?<=[?&])(\w+=)[^\s&#'\"]+")
_KEY = re.compile("password|passwd|pwd|secret|token|key", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,127}")
_revealed: set[str] = set()  # the secrets that this process knows


def reveal(variable: str) -> str:
    """Return the value of an environment variable, which `redacted` hides from then on in this process.

    Raises:
        ConfigError: there is no such variable.
    """
    value = os.environ.get(variable)
    if not value:
        raise ConfigError(
            f"the environment variable {variable} is not set, and a secret is read from it; export it"
        )
    hide(value)
    return value


def hide(secret: str) -> None:
    """Register a text of four or more characters, which `redacted` hides from now on in this process."""
    if len(secret) >= _LEAST:
        _revealed.add(secret)


def redacted(text: str) -> str:
    """Hide the user of a URL, keys in its query, and every known secret in all its forms.

    Each line of a secret of several lines is hidden, if it is as long as a secret.

    >>> redacted("cannot reach postgresql://ada:pw@db/studies?sslmode=require&sslpassword=x")
    'cannot reach postgresql://***@db/studies?sslmode=require&sslpassword=***'
    """
    if _revealed:
        text = _without(text, _find_spans(_pattern(frozenset(_revealed)), text, _DEPTH))
    return _QUERY.sub(_without_key, _USER.sub(HIDDEN, text))


def format_error(error: BaseException) -> str:
    """Return the class and the text of an error, as the record of a failed trial has them."""
    text = redacted(text_of(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def excerpt(text: object, length: int) -> str:
    """Return the start of a text, in which secrets are hidden before it is cut.

    After the cut, the first half of a secret could not be recognized.
    """
    return redacted(str(text)[:_READ])[:length]


def _without_key(match: re.Match[str]) -> str:
    return f"{match[1]}{HIDDEN}" if _KEY.search(match[1]) else match[0]


@lru_cache(maxsize=8)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str]:
    """Return a pattern of the secrets, the longest one first; a space matches any white space."""
    pieces = {form for secret in secrets for piece in _pieces(secret) for form in _lossy(piece)}
    ordered = sorted(pieces, key=lambda piece: (-len(piece), piece))
    return re.compile("|".join(r"\s+".join(map(re.escape, re.split(r"\s+", piece))) for piece in ordered))


def _pieces(secret: str) -> set[str]:
    """Return a secret without the spaces at its ends, and its lines, each if it is long enough."""
    whole = secret.strip()
    lines = (line.strip() for line in whole.splitlines())
    return {piece for piece in (whole, *lines) if len(piece) >= _LEAST} or {secret}


def _lossy(text: str) -> set[str]:
    """Return a text with its escaped forms whose own backslashes are not escaped: no decoding undoes them."""
    escaped = [char if char.isprintable() else char.encode("unicode_escape").decode() for char in text]
    on_a_line = (char if char.isspace() else other for char, other in zip(text, escaped, strict=True))
    coded = (text.encode(code, "backslashreplace").decode() for code in ("utf8", "ascii"))
    return {text, "".join(escaped), "".join(on_a_line), *coded}


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    """Return a text with `***` in place of each span."""
    parts, position = [], 0
    for start, end in sorted(spans):
        if start >= position:
            parts += [text[position:start], HIDDEN]
        position = max(position, end)
    return "".join((*parts, text[position:]))


def _find_spans(secrets: re.Pattern[str], text: str, depth: int) -> list[tuple[int, int]]:
    """Return the spans of secrets in a text, or in a decoding of it."""
    spans = [match.span() for match in secrets.finditer(text)]
    for form in _FORMS if depth else ():
        reading = _decode(text, form)
        if reading is not None:
            inner = _find_spans(secrets, reading.text, depth - 1)
            spans += [(reading.start_of(start), reading.end_of(end)) for start, end in inner]
    return spans


class _Form(NamedTuple):
    """An encoding of a text: the pattern of its escapes, and the function that decodes one."""

    escape: re.Pattern[str]
    meaning: Callable[[str], str]


class _Reading(NamedTuple):
    """A decoded text, with the begin and end of each decoded part in it and in the original."""

    text: str
    begins: list[int]
    ends: list[int]
    sources: list[tuple[int, int]]

    def start_of(self, place: int) -> int:
        """Return where the character at a place begins in the original text."""
        part = bisect_right(self.begins, place) - 1
        if part < 0:
            return place
        start, end = self.sources[part]
        return start if place < self.ends[part] else end + place - self.ends[part]

    def end_of(self, place: int) -> int:
        """Return where the character before a place ends in the original text."""
        part = bisect_right(self.begins, place - 1) - 1
        if part < 0:
            return place
        return self.sources[part][1] + max(0, place - self.ends[part])


def _decode(text: str, form: _Form) -> _Reading | None:
    """Decode a text from a form; None if the text has no escapes of that form."""
    parts, position, length = [], 0, 0
    begins: list[int] = []
    ends: list[int] = []
    sources: list[tuple[int, int]] = []
    for match in form.escape.finditer(text):
        decoded = form.meaning(match[0])
        parts += [text[position : match.start()], decoded]
        length += match.start() - position
        position = match.end()
        begins.append(length)
        length += len(decoded)
        ends.append(length)
        sources.append(match.span())
    return _Reading("".join((*parts, text[position:])), begins, ends, sources) if sources else None


def _utf8(data: bytes) -> str:
    """Decode bytes as the environment does: bytes that are not UTF-8 become characters of their own."""
    return data.decode("utf8", "surrogateescape")


_LETTERS = dict(zip("abtnvfre0NL_P", "\a\b\t\n\v\f\r\x1b\0\x85\u2028\xa0\u2029", strict=True))


def _character(escape: str) -> str:
    """Decode an escape of Python, JSON or YAML; two surrogates are one character."""
    if len(escape) == 2 or escape[1].isspace():
        return "" if escape[1] == "\n" else _LETTERS.get(escape[1], escape[1])
    text = "".join(chr(int(code, 16)) for code in re.split(r"\\[xuU]", escape)[1:])
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _bytes(escapes: str) -> str:
    """Decode escapes of bytes; an escaped space, which ends a line of YAML, becomes nothing."""
    if len(escapes) > 2 and escapes[1] == "x":
        return _utf8(bytes.fromhex(escapes.replace("\\x", "")))
    return "" if escapes[1].isspace() else _LETTERS.get(escapes[1], escapes[1])


def _decode_percent(escapes: str) -> str:
    return " " if escapes == "+" else _utf8(bytes.fromhex(escapes.replace("%", "")))


def _reference(text: str) -> str:
    """Decode a reference of HTML or XML, by its name or number."""
    if text[1] != "#":
        return html.unescape(text)
    code = int(text[3:-1], 16) if text[2] == "x" else int(text[2:-1])
    return chr(min(code, sys.maxunicode))


def _from_base64(text: str) -> str:
    """Decode a run of Base64 characters from each place where the bytes may begin."""
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
        (r"(?:%HH)+", _decode_percent),
        (r"(?:%HH)+|\+", _decode_percent),
        (r"&(?:#\d{1,7}|#xH{1,6}|\w{2,31});", _reference),
        ("'\"'\"'|''|\"\"", lambda doubled: doubled[0]),  # in a shell; in YAML, CSV and SQL
        (r"[\w+/-]{6,}(?:\r?\n[\w+/-]+)*={0,2}", _from_base64),
        (r"H{8,}", _from_hex),
    )
)


def is_secret(value: object) -> bool:
    """Return whether the value of a param stands for a secret.

    >>> is_secret({"secret": "HUB_TOKEN"}), is_secret({"secret": "hf_abc"}), is_secret("HUB_TOKEN")
    (True, False, False)
    """
    name = value.get(SECRET) if isinstance(value, Mapping) and len(value) == 1 else None
    return isinstance(name, str) and _VARIABLE.fullmatch(name) is not None


def secret_objection(value: Any) -> str | None:
    """Return the problem of the secrets in a value; None if there is none."""
    if isinstance(value, Mapping):
        if SECRET in value and not is_secret(value):
            return (
                "expected {secret: NAME}, where NAME is an environment variable in capitals, never the "
                "secret itself"
            )
        value = list(value.values())
    inner = value if isinstance(value, list) else ()
    return next((text for text in map(secret_objection, inner) if text is not None), None)


def reveal_secrets(value: Any) -> Any:
    """Return a value with its secrets read from the environment.

    Raises:
        ConfigError: a variable, which the message names, is missing.
    """
    return _replace_secrets(value, reveal)


def mask_secrets(value: Any) -> Any:
    """Return a value with its secrets as `***`, fit for printing."""
    return _replace_secrets(value, lambda name: HIDDEN)


def label_secrets(value: Any) -> Any:
    """Return a value with its secrets as `***` and the name of the variable, which files hold too.

    >>> label_secrets([{"secret": "HUB_TOKEN"}, 3])
    ['*** (HUB_TOKEN)', 3]
    """
    return _replace_secrets(value, lambda name: f"{HIDDEN} ({name})")


def _replace_secrets(value: Any, format_name: Callable[[str], str]) -> Any:
    if is_secret(value):
        return format_name(value[SECRET])
    if isinstance(value, Mapping):
        return {name: _replace_secrets(inner, format_name) for name, inner in value.items()}
    return [_replace_secrets(inner, format_name) for inner in value] if isinstance(value, list) else value
