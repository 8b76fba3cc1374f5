from __future__ import annotations

import pytest

from hpometrics.metrics.registry.facts import Docstring

TEXT = """One sentence.

Prose over
two lines.

More prose.

Shape:
    preds: (N,) float.
    target: (N,) int.
Value: float in [0, 1], no unit,
    1 is best.
Deviates: elsewhere it is 2.
Behind a section prose goes on.

>>> 1 + 1
2
Source: not part of it.
"""


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Shape", "preds: (N,) float. target: (N,) int."),
        ("Value", "float in [0, 1], no unit, 1 is best."),
        ("Deviates", "elsewhere it is 2."),
        ("Source", ""),
    ],
)
def test_a_section_is_its_lines_joined(title, text):
    """On the line of its title or below it, indented; what stands behind the example is none."""
    assert Docstring.of_text(TEXT)[title] == text


def test_prose_is_what_is_in_no_section():
    """Paragraphs are kept apart, lines are joined."""
    said = Docstring.of_text(TEXT)
    assert said.summary == "One sentence."
    assert said.prose == "Prose over two lines.\n\nMore prose.\n\nBehind a section prose goes on."


def test_a_class_without_words_says_nothing():
    """Every part is empty, none is missing."""
    silent = Docstring.of(type("Silent", (), {}))
    assert (silent.prose, silent["Value"]) == ("", "")


class Family:
    """What a family shares.

    Shape: (N,) int.
    Value: float in [0, 1].
    Formula: a / b
    """


class Member(Family):
    """One of them.

    Value: float from 0.
    """


def test_what_a_family_shares_is_said_once():
    """A member says what is its own; the shape is the family's, the formula is each one's own."""
    said = Docstring.of(Member)
    assert (said.summary, said["Shape"], said["Value"]) == ("One of them.", "(N,) int.", "float from 0.")
    assert said["Formula"] == "" and Docstring.of(Family)["Formula"] == "a / b"
