"""How long sentences are, by kind of text: `python -m docs._generate.readability`."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from .texts import help_pages, public_docstrings, texts

WORDS = 25
"""A sentence with more words than that is long."""
ROOT = Path(__file__).parents[2]
_NO_PROSE = re.compile(r"```.*?```|^(?:[#|!<]|    )[^\n]*$", re.DOTALL | re.MULTILINE)
_ENDS = re.compile(r"(?<=[.!?:])\s+(?=[A-Z\[*…])|\n\s*\n|\n(?=[-*] |\d+\. )")
_PARAGRAPHS = re.compile(r"\n\s*\n")
_LIST = re.compile(r"\n +(?=\d)")
_CODE = re.compile(r"`[^`]*`|(?<!\w)'[^' ]*'|\w+\([^()]*\)")

Sentence = list[str]


def sentences(page: str) -> list[Sentence]:
    """Return the words of each sentence of a page's prose; a code span counts as one word."""
    prose = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "Code", _NO_PROSE.sub("", page)))
    return _split(prose)


def sentences_of_help(page: str) -> list[Sentence]:
    """Return those of the paragraphs of a help page; its options and commands have phrases."""
    prose = page.partition("\n\n")[2].partition("\nOptions:")[0]
    return [words for text in _PARAGRAPHS.split(prose) for words in _split(_LIST.sub("\n\n", text))]


def sentences_of_message(text: str) -> list[Sentence]:
    """Return those of a message; a call or a quoted name counts as one word."""
    return _split(_CODE.sub("Code", text))


def sentences_of_docstring(text: str) -> list[Sentence]:
    """Return those of a docstring; each argument and each error begins one."""
    entries = re.split(r"\n(?=\s*\*{0,2}\w+: )", text)
    return [words for entry in entries for words in _split(re.sub(r"`[^`]*`", "Code", entry))]


@cache
def by_kind() -> dict[str, list[Sentence]]:
    """Return the sentences that a user can read, by the kind of text."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    written = [path.read_text(encoding="utf8") for path in pages if path.parent.name != "reference"]
    return {
        "docs": _joined(map(sentences, written)),
        "help": _joined(sentences_of_help(page) for _, page in help_pages()),
        "messages": _joined(
            sentences_of_message(text) for text in dict.fromkeys(one.text for one in texts())
        ),
        "docstrings": _joined(sentences_of_docstring(one.text) for one in public_docstrings()),
    }


def share_of_long(counted: list[Sentence]) -> float:
    """Return the share of sentences that are long."""
    return sum(len(words) > WORDS for words in counted) / len(counted)


def table() -> str:
    """Return a row for each kind of text: sentences, median words, the share of long ones."""
    lines = [f"{'':12}{'sentences':>10}{'median words':>14}{f'over {WORDS} words':>15}"]
    for kind, counted in by_kind().items():
        median = statistics.median(map(len, counted))
        lines.append(f"{kind:12}{len(counted):>10}{median:>14g}{share_of_long(counted):>15.1%}")
    return "\n".join(lines)


def _split(prose: str) -> list[Sentence]:
    found = (re.findall(r"\w[\w'.,-]*", piece) for piece in _ENDS.split(prose))
    return [words for words in found if len(words) > 2]


def _joined(pages: Iterable[list[Sentence]]) -> list[Sentence]:
    return [words for page in pages for words in page]


if __name__ == "__main__":
    print(table())
