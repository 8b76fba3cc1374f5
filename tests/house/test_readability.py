"""Sentences are short: of docs, help pages, messages and public docstrings, each kind by itself."""

from __future__ import annotations

import pytest

from docs._generate.readability import (
    WORDS,
    by_kind,
    sentences,
    sentences_of_docstring,
    sentences_of_help,
    share_of_long,
    table,
)

LONG = {"docs": 0.02, "help": 0.05, "messages": 0.05, "docstrings": 0.05}
"""The share of sentences that may have more than 25 words."""


@pytest.mark.parametrize("kind", LONG)
def test_few_sentences_are_long(kind):
    """Of one kind, counted together."""
    counted = by_kind()[kind]
    long = [" ".join(words) for words in counted if len(words) > WORDS]
    assert share_of_long(counted) < LONG[kind], "\n".join(long)


def test_the_table_has_a_row_for_each_kind():
    """With its median and its share of long sentences."""
    rows = table().splitlines()[1:]
    assert [row.split()[0] for row in rows] == list(LONG)
    assert all(row.endswith("%") for row in rows)


def test_code_is_a_word_and_blocks_are_none():
    """A span in backticks counts once; headings and tables do not count."""
    page = "# A head of words\n\nRun `hpometrics run FILE` again. It resumes the sweep.\n\n| a | b c d |\n"
    assert [len(words) for words in sentences(page)] == [3, 4]


def test_options_of_a_help_page_are_not_counted():
    """Its paragraphs are, and each line of a list of exit codes."""
    page = (
        "Usage: x\n\n  Run a sweep.\n\n  1  it went wrong\n  2  a file is wrong\n\nOptions:\n  --a  A b c d\n"
    )
    assert [len(words) for words in sentences_of_help(page)] == [3, 4, 5]


def test_an_argument_of_a_docstring_begins_a_sentence():
    """As it does for a reader."""
    text = "Return it as text.\n\nArgs:\n    name: the name of it\n    value: what it has now"
    assert len(sentences_of_docstring(text)) == 3
