"""Texts of messages and names: the nearest known name, one printable line, dotted names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

SLUG = r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,78}[A-Za-z0-9_-])?"
_DEVICE = re.compile(r"(con|prn|aux|nul|(com|lpt)[0-9])(\..*)?", re.IGNORECASE)
_OTHERS = re.compile(r"[^A-Za-z0-9._-]+")
_SLUG_LENGTH = 80
NOTHING_MEASURED = "nothing was measured"
"""The reason of a metric without a batch."""
_LACKS_MEMORY = ("out of memory", "outofmemory", "can't allocate memory", "cannot allocate memory")


def did_you_mean(word: object, choices: Iterable[str]) -> str:
    """Return `; did you mean 'x'?`, or an empty text if no choice is near.

    >>> did_you_mean("acuracy", ["accuracy", "auroc"]), did_you_mean("x", ["accuracy"])
    ("; did you mean 'accuracy'?", '')
    """
    name = nearest(word, choices)
    return "" if name is None else f"; did you mean {name!r}?"


def nearest(word: object, choices: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the choice that looks most like a word; None if none has this likeness, from 0 to 1."""
    return next(iter(get_close_matches(str(word), list(choices), 1, likeness)), None)


def with_article(noun: str) -> str:
    """Return a noun with its indefinite article.

    >>> with_article("int"), with_article("class")
    ('an int', 'a class')
    """
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def one_line(error: BaseException) -> str:
    """Return an error's text on one printable line, as a log or a problem can hold it."""
    return printable(" ".join(text_of(error).split())) or type(error).__name__


def text_of(error: BaseException) -> str:
    """Return an error's text as every file can hold it, even if the error's own `__str__` raises.

    >>> text_of(ValueError(chr(0xD800))) == chr(92) + "ud800"
    True
    """
    try:
        text = str(error)
    except Exception as err:  # the user's own code
        text = f"its text cannot be read: {type(err).__name__}: {text_of(err)}"
    return text.encode("utf8", "backslashreplace").decode("utf8")


def lacks_memory(error: BaseException) -> bool:
    """Return whether an error means that the memory of the host or of a device is full.

    >>> lacks_memory(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"))
    True
    """
    text = f"{type(error).__name__} {text_of(error)}".lower()
    return isinstance(error, MemoryError) or any(words in text for words in _LACKS_MEMORY)


def unencodable(error: UnicodeEncodeError) -> str:
    """Return the setting to change if an ASCII locale cannot encode a text."""
    place = f"{error.object[error.start]!r}"
    return (
        f"{place} of {error.object!r} cannot be encoded in {error.encoding}, the encoding of this locale; "
        "set PYTHONUTF8=1, or LC_ALL=C.UTF-8"
    )


def printable(text: str) -> str:
    """Escape characters that would move the cursor, change colors or reverse the reading direction."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def printable_lines(text: str) -> str:
    """Escape the same characters in a text of several lines, keeping the line ends."""
    return "\n".join(map(printable, text.split("\n")))


def slug_objection(text: str) -> str | None:
    """Return the problem of a name; None if it is a slug.

    >>> slug_objection("digits-2"), slug_objection("nul.txt")
    (None, "'nul.txt' is a device on Windows, so no directory can have that name")
    """
    if not re.fullmatch(SLUG, text):
        short = f"{text[:_SLUG_LENGTH]!r}{'...' if len(text) > _SLUG_LENGTH else ''}"
        return (
            f"{short} is not a valid name; use 1 to {_SLUG_LENGTH} characters of A-Z a-z 0-9 . _ -, "
            "without a leading . or - and without a trailing ."
        )
    if _DEVICE.fullmatch(text):
        return f"{text!r} is a device on Windows, so no directory can have that name"
    return None


def slug_of(text: str) -> str | None:
    """Return a name made of a text, such as a file's name; None if no character of it can be used.

    >>> slug_of("my sweep (2)"), slug_of("..."), slug_of("con")
    ('my-sweep-2-', None, None)
    """
    slug = _OTHERS.sub("-", text).lstrip(".-")[:_SLUG_LENGTH].rstrip(".")
    return None if slug_objection(slug) else slug


def flat(mapping: Mapping[str, Any], separator: str = ".", front: str = "") -> Iterator[tuple[str, Any]]:
    """Return the values of nested mappings by dotted names, or by names with another separator.

    >>> dict(flat({"optimizer": {"type": "adam", "lr": 0.1}}))
    {'optimizer.type': 'adam', 'optimizer.lr': 0.1}
    """
    for key, value in mapping.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, separator, f"{front}{key}{separator}")
        else:
            yield f"{front}{key}", value
