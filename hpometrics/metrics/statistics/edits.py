"""Edits: how many insertions, deletions and substitutions lie between two sequences, and what they share.

Of strings and tokens a whole column of the table is one Python integer; of padded token ids all rows of a
batch advance together, on whatever device they are.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor


def edit_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """The least number of insertions, deletions and substitutions that turn one into the other.

    Source: Myers 1999, Journal of the ACM 46(3); Hyyrö 2003 for the distance of whole strings.

    >>> edit_distance("kitten", "sitting")
    3
    """
    if not first or not second:
        return len(first) + len(second)
    places, full, last = _places(first), (1 << len(first)) - 1, 1 << (len(first) - 1)
    more, less, distance = full, 0, len(first)  # where the table goes up or down from row to row
    for token in second:
        equal = places.get(token, 0)
        diagonal = (((equal & more) + more) ^ more) | equal
        up, down = (less | ~(diagonal | more)) & full, more & diagonal
        distance += bool(up & last) - bool(down & last)
        up, down, either = (up << 1) | 1, down << 1, equal | less
        more, less = (down | ~(either | up)) & full, up & either & full
    return distance


def common_length(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """The length of the longest common subsequence.

    Source: Hyyrö 2004, Australasian Workshop on Combinatorial Algorithms.

    >>> common_length("nematode", "empty")
    3
    """
    places, full = _places(first), (1 << len(first)) - 1
    free = full
    for token in second:
        used = free & places.get(token, 0)
        free = ((free + used) | (free - used)) & full
    return len(first) - free.bit_count()


def _places(tokens: Sequence[Hashable]) -> dict[Hashable, int]:
    """Where each token stands, as the bits of a number."""
    places: dict[Hashable, int] = {}
    bit = 1
    for token in tokens:
        places[token] = places.get(token, 0) | bit
        bit <<= 1
    return places


def aligned(
    first: Tensor, first_lengths: Tensor, second: Tensor, second_lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Edits and hits of each pair of rows: the fewest edits, and with those the most tokens left as they are.

    Args:
        first: (N, T) int, of which the first `first_lengths` of each row count.
        first_lengths: (N,) int.
        second: (N, U) int.
        second_lengths: (N,) int.

    >>> ids = torch.tensor([[1, 2, 3]])
    >>> aligned(ids, torch.tensor([3]), torch.tensor([[2, 3, 9, 9]]), torch.tensor([4]))
    (tensor([3]), tensor([2]))
    """
    edit = first.shape[1] + second.shape[1] + 1  # costs more than all hits together are worth
    inserted = torch.arange(second.shape[1] + 1, device=second.device) * edit
    row = inserted.expand(len(second), -1)
    end = second_lengths.unsqueeze(1)
    cost = row.gather(1, end)
    for place in range(first.shape[1]):
        kept = first[:, place : place + 1] == second
        best = row + edit
        best[:, 1:] = torch.minimum(best[:, 1:], row[:, :-1] + torch.where(kept, -1, edit))
        row = (best - inserted).cummin(1).values + inserted
        cost = torch.where(first_lengths.unsqueeze(1) == place + 1, row.gather(1, end), cost)
    cost = cost.squeeze(1)
    edits = -(-cost).div(edit, rounding_mode="floor")
    return edits, edits * edit - cost
