"""Messages: what errors have in common, a text on one line and the name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: object, choices: Iterable[str]) -> str:
    """Give `; did you mean 'x'?`, or nothing when no choice is near."""
    close = get_close_matches(str(word), list(choices), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def one_line(error: BaseException) -> str:
    """Give an error's text on one printable line, as a log or a problem can hold it."""
    return printable(" ".join(text_of(error).split())) or type(error).__name__


def text_of(error: BaseException) -> str:
    """Return an error's text as every file can hold it, also of an error that cannot say it.

    >>> text_of(ValueError(chr(0xD800))) == chr(92) + "ud800"
    True
    """
    try:
        text = str(error)
    except Exception as err:  # the user's own code
        text = f"its text cannot be read: {type(err).__name__}: {text_of(err)}"
    return text.encode("utf8", "backslashreplace").decode("utf8")


def unencodable(error: UnicodeEncodeError) -> str:
    """Return what to set where an ASCII locale cannot encode a text."""
    place = f"{error.object[error.start]!r}"
    return (
        f"{place} of {error.object!r} cannot be written in {error.encoding}, the encoding of this locale; "
        "set PYTHONUTF8=1, or LC_ALL=C.UTF-8"
    )


def printable(text: str) -> str:
    """Escape what would move the cursor, change colors or turn the reading direction."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def printable_lines(text: str) -> str:
    """Escape the same in a text of several lines, whose ends stay."""
    return "\n".join(map(printable, text.split("\n")))
