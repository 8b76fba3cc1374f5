"""Sentences: what each sentence of a reference has, in order, in common with any predicted one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

Tokens = Sequence[str]


def summary_hits(predicted: Sequence[Tokens], right: Sequence[Tokens]) -> int:
    """The tokens of the right sentences that lie on a longest common subsequence with a predicted sentence.

    For each right sentence the subsequences with all predicted ones are united; a token counts no more often
    than it occurs on either side.

    Source: Lin 2004, ACL workshop Text Summarization Branches Out, section 3.2; ROUGE 1.5.5.

    >>> summary_hits([["a", "b", "f"], ["a", "c", "e"]], [["a", "b", "c", "d", "e"]])
    4
    """
    left = Counter(token for sentence in predicted for token in sentence)
    left &= Counter(token for sentence in right for token in sentence)
    hits = 0
    for sentence in right:
        united = sorted(set[int]().union(*(_on_subsequence(sentence, other) for other in predicted)))
        for place in united:
            if left[sentence[place]] > 0:
                left[sentence[place]] -= 1
                hits += 1
    return hits


def _on_subsequence(right: Tokens, predicted: Tokens) -> list[int]:
    """The places in `right` of one longest common subsequence, read from the end."""
    table = _lengths(right, predicted)
    row, column = len(right), len(predicted)
    places = []
    while row and column:
        if right[row - 1] == predicted[column - 1]:
            places.append(row - 1)
            row, column = row - 1, column - 1
        elif table[row][column - 1] > table[row - 1][column]:
            column -= 1
        else:
            row -= 1
    return places


def _lengths(right: Tokens, predicted: Tokens) -> list[list[int]]:
    """The lengths of the longest common subsequences of all prefixes."""
    table = [[0] * (len(predicted) + 1)]
    for token in right:
        above, row = table[-1], [0]
        for column, other in enumerate(predicted):
            row.append(above[column] + 1 if token == other else max(above[column + 1], row[column]))
        table.append(row)
    return table
