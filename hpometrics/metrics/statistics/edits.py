"""Edit distances, longest common subsequences and alignments of sequences.

Rapidfuzz compares strings and lists of tokens; of padded token ids all rows of a batch advance together,
on any device.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq, Levenshtein
from rapidfuzz.process import cpdist
from torch import Tensor

Costs = NDArray[np.float64]
_NONE = np.empty(0, dtype=np.int64)
_RUN = 32  # consecutive deletions up to which array operations are faster than a loop over numbers


def edit_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Compute the least number of insertions, deletions and substitutions that turn one into the other.

    Source: Levenshtein 1966, Soviet Physics Doklady 10(8).

    >>> edit_distance("kitten", "sitting")
    3
    """
    return Levenshtein.distance(first, second)


def edit_distances(
    first: Sequence[Sequence[Hashable]], second: Sequence[Sequence[Hashable]]
) -> NDArray[np.int64]:
    """Compute the edit distance of each pair, (pairs,).

    >>> edit_distances(["kitten", "cat"], ["sitting", "cat"]).tolist()
    [3, 0]
    """
    return cpdist(first, second, scorer=Levenshtein.distance, dtype=np.int64) if len(first) else _NONE


def common_length(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Compute the length of the longest common subsequence.

    >>> common_length("nematode", "empty")
    3
    """
    return LCSseq.similarity(first, second)


def extended_edits(
    text: str, right: str, *, alpha: float, rho: float, deletion: float, insertion: float
) -> float:
    """Compute the extended edit distance of a text from a non-empty reference, in [0, 1].

    Args:
        text: the prediction, whose tokens are its characters.
        right: the reference; at its blanks the text may jump.
        alpha: the cost of a jump.
        rho: the cost of each visit of a character beyond the first, and of each character not visited.
        deletion: the cost of a deletion.
        insertion: the cost of an insertion.

    Source: Stanchev, Wang & Ney 2019, WMT.

    >>> round(extended_edits(" abc ", " ab ", alpha=2.0, rho=0.0, deletion=0.2, insertion=1.0), 4)
    0.05
    """
    letters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    differs = {letter: (letters != ord(letter)).astype(float) for letter in set(right)}
    before, costs, step = np.ones(len(text) + 1), np.ones(len(text) + 1), np.empty(len(text))
    costs[0] = 0.0
    visits = np.full(len(text) + 1, -1)
    for letter in right:
        before, costs = costs, before
        costs[0] = before[0] + 1.0
        np.add(before[:-1], differs[letter], out=step)
        np.minimum(np.add(before[1:], insertion, out=before[1:]), step, out=costs[1:])
        _delete(costs, deletion, step)
        nearest = costs.argmin()
        visits[nearest] += 1
        if letter == " ":
            np.minimum(costs, alpha + costs[nearest], out=costs)
    coverage = rho * int(np.where(visits >= 0, visits, 1).sum())
    return min(1.0, float((costs[-1] + coverage) / (len(right) + coverage)))


def _delete(costs: Costs, deletion: float, step: Costs) -> None:
    """Lower the cost of each position, in place, where deletions lead to it at a lower cost.

    Deletions are added one after the other, so that rounding does not change which cost is the least.
    """
    for _ in range(_RUN):
        np.add(costs[:-1], deletion, out=step)
        if not (step < costs[1:]).any():
            return
        np.minimum(costs[1:], step, out=costs[1:])
    costs[:] = list(accumulate(costs.tolist(), lambda before, cost: min(before + deletion, cost)))


def align(
    first: Tensor, first_lengths: Tensor, second: Tensor, second_lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Align each pair of rows with the fewest edits and, among these alignments, the most unchanged tokens.

    Args:
        first: (N, T) int, of which the first `first_lengths` of each row count.
        first_lengths: (N,) int.
        second: (N, U) int.
        second_lengths: (N,) int.

    >>> ids = torch.tensor([[1, 2, 3]])
    >>> align(ids, torch.tensor([3]), torch.tensor([[2, 3, 9, 9]]), torch.tensor([4]))
    (tensor([3]), tensor([2]))
    """
    edit = first.shape[1] + second.shape[1] + 1  # outweighs all hits together
    inserted = torch.arange(second.shape[1] + 1, device=second.device) * edit
    row = inserted.expand(len(second), -1)
    end = second_lengths.unsqueeze(1)
    cost = row.gather(1, end)
    for position in range(first.shape[1]):
        matches = first[:, position : position + 1] == second
        best = row + edit
        best[:, 1:] = torch.minimum(best[:, 1:], row[:, :-1] + torch.where(matches, -1, edit))
        row = (best - inserted).cummin(1).values + inserted
        cost = torch.where(first_lengths.unsqueeze(1) == position + 1, row.gather(1, end), cost)
    cost = cost.squeeze(1)
    edits = -(-cost).div(edit, rounding_mode="floor")
    return edits, edits * edit - cost
