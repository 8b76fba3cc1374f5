"""Edit distances, also with shifts of words, longest common subsequences and alignments of sequences.

Rapidfuzz compares strings and lists of tokens; of padded token ids all rows of a batch advance together,
on any device.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq, Levenshtein
from rapidfuzz.process import cdist, cpdist
from torch import Tensor

Costs = NDArray[np.float64]
Table = NDArray[np.int32]
_NONE = np.empty(0, dtype=np.int64)
Steps = list[tuple[int, int]]
_LONGEST_SHIFT, _FARTHEST_SHIFT, _MOST_SHIFTS = 10, 50, 1000  # of Tercom, as is the next
_BEAM = 25  # how many words around the diagonal a word may be aligned with
_NEVER = 1 << 20  # more edits and places than there are
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


def shifted_edits(text: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """Compute the edits and shifts that turn a text into its reference, as Tercom finds them.

    While a shift of a run of words saves edits, the one that saves the most is made: of several the longest,
    then the first, then the one to the first place. Each counts as an edit. When `_MOST_SHIFTS` have been
    compared, no further one is made.

    Source: Snover et al. 2006, AMTA; sacrebleu agrees.

    >>> shifted_edits("c a b".split(), "a b c".split())
    1
    """
    if not text or not right:
        return max(len(text), len(right))
    letters = {word: chr(number) for number, word in enumerate(dict.fromkeys([*text, *right]))}
    current, goal = ("".join(map(letters.__getitem__, words)) for words in (text, right))
    made = compared = 0
    while True:
        alignment = _Alignment(current, goal)
        shifts: list[_Shift] = []
        for same_run in alignment.shifts():
            shifts += same_run
            if compared + len(shifts) >= _MOST_SHIFTS:
                return made + alignment.edits
        costs = alignment.costs([shift.of(current) for shift in shifts])
        if not shifts or costs.min() >= alignment.edits:
            return made + alignment.edits
        best = min(shifts[place] for place in np.flatnonzero(costs == costs.min()))
        current, made, compared = best.of(current), made + 1, compared + len(shifts)


class _Shift(NamedTuple):
    """A run of words to be inserted before a target; the least of several is made first."""

    minus_size: int
    start: int
    target: int

    def of(self, text: str) -> str:
        """Return the shifted text; Tercom moves a run that stays within itself by so many words."""
        start, end, target = self.start, self.start - self.minus_size, self.target
        if target < start:
            return text[:target] + text[start:end] + text[target:start] + text[end:]
        target = target if target > end else target + end - start
        return text[:start] + text[end:target] + text[start:end] + text[target:]


class _Alignment:
    """The alignment of a text with its reference, each word a letter, with the fewest edits.

    Among several it is the one that, from the end on, keeps or replaces a word where it can, and else rather
    deletes than inserts. As Tercom, it stays near the diagonal, which is tested only where it can matter.

    Attributes:
        edits: the number of insertions, deletions and replacements.
        places: for each word of the reference the place of its word in the text, or of the last one before.
        errors: for each word of the text the place of the next that is edited, `_NEVER` without one.
        right_errors: the same for each word of the reference.
    """

    def __init__(self, text: str, right: str) -> None:
        self._text, self._right = text, right
        self.edits = Levenshtein.distance(text, right)
        self._free = (self.edits + abs(len(text) - len(right))) // 2 + 1 < _BEAM
        if self._free:
            steps = _steps(text, right)
        else:
            table = np.concatenate(list(_beam([text], right)))
            self.edits, steps = int(table[-1, -1]), _steps_of(table, text, right)
        self.places = [0] * len(right)
        self.errors, self.right_errors = list(range(len(text))), list(range(len(right)))
        self._follow(steps)

    def _follow(self, steps: Steps) -> None:
        i, j = len(self._text), len(self._right)
        while i or j:
            both, deletion = steps[i - 1] if i else (0, 0)
            if j and both >> j - 1 & 1:
                i, j = i - 1, j - 1
                self.places[j] = i
                if self._text[i] == self._right[j]:
                    self.errors[i] = self.right_errors[j] = _NEVER
            elif not j or deletion >> j - 1 & 1:
                i -= 1
            else:
                j -= 1
                self.places[j] = i - 1
        for errors in (self.errors, self.right_errors):
            errors[::-1] = accumulate(reversed(errors), min)

    def shifts(self) -> Iterator[list[_Shift]]:
        """Yield the shifts of each run of words that the reference has too, to its places there.

        A run with no error on one of the sides is not shifted, nor one that is aligned with itself.
        """
        text, right, places = self._text, self._right, self.places
        positions: dict[str, list[int]] = {}
        for j, word in enumerate(right):
            positions.setdefault(word, []).append(j)
        for i, word in enumerate(text):
            for j in positions.get(word, ()):
                least = max(self.errors[i] - i, self.right_errors[j] - j) + 1
                most = min(_LONGEST_SHIFT, len(text) - i, len(right) - j)
                if least > most or abs(i - j) > _FARTHEST_SHIFT:
                    continue
                equal = next((size for size in range(1, most) if text[i + size] != right[j + size]), most)
                for size in range(least, equal + 1):
                    if not i <= places[j] < i + size:
                        before = [places[j - 1] if j else -1, *places[j : j + size]]
                        yield [_Shift(-size, i, place + 1) for place in dict.fromkeys(before)]

    def costs(self, texts: list[str]) -> NDArray[np.int64]:
        """Return the edits of texts of this length; those that need no fewer all have too many."""
        if not texts:
            return _NONE
        costs = cdist(texts, [self._right], scorer=Levenshtein.distance, score_cutoff=self.edits - 1)[:, 0]
        fewer = np.flatnonzero(costs < self.edits)
        if len(fewer) and not self._free:
            *_, last = _beam([texts[place] for place in fewer], self._right)
            costs[fewer] = last[:, -1]
        return costs


def _steps(text: str, right: str) -> Steps:
    """Return for each word of a text at which words of its reference it may be kept or replaced, and deleted.

    These words are bits; the steps that end at each lead to it with the fewest edits.

    Source: Hyyrö 2001, University of Tampere A-2001-10: all differences of a row of the table at once.
    """
    every = (1 << len(right)) - 1
    occurrences = dict.fromkeys(text, 0)
    for j, word in enumerate(right):
        occurrences[word] = occurrences.get(word, 0) | 1 << j
    steps, above, below = [], every, 0  # whether the next word adds an edit, or removes one
    for word in text:
        equal = occurrences[word]
        level = ((equal & above) + above ^ above | equal | below) & every
        more, less = below | every & ~(level | above), level & above
        steps.append((equal | ~level, more))
        more, less = more << 1 | 1, less << 1
        above, below = (less | ~(level | more)) & every, more & level & every
    return steps


def _steps_of(table: Table, text: str, right: str) -> Steps:
    """Return the steps of `_steps` from a table of edits."""
    replaced = _codes([text]).T != _codes([right])
    tables = table[1:, 1:] == table[:-1, :-1] + replaced, table[1:, 1:] == table[:-1, 1:] + 1
    return list(zip(*(map(_bits, rows) for rows in tables), strict=True))


def _bits(flags: NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def _codes(texts: Sequence[str]) -> NDArray[np.uint32]:
    """Return the letters of texts of one length as numbers, (texts, letters)."""
    letters = "".join(texts).encode("utf-32-le", "surrogatepass")
    return np.frombuffer(letters, np.uint32).reshape(len(texts), -1)


def _beam(texts: Sequence[str], right: str) -> Iterator[Table]:
    """Yield for each beginning of texts of one length their edits from each beginning of a reference.

    Those far from the diagonal are `_NEVER`, but where nothing or all of a text is aligned.

    Yields:
        (texts, words of the reference + 1) int32.
    """
    letters, goal = _codes(texts), _codes([right])
    slope = len(right) / len(texts[0])
    width = max(_BEAM, math.ceil(slope / 2 + _BEAM)) if slope / 2 > _BEAM else _BEAM
    inserted = np.arange(len(right) + 1, dtype=np.int32)
    row = np.tile(inserted, (len(texts), 1))
    yield row
    for i in range(1, letters.shape[1] + 1):
        middle = math.floor(i * slope)
        low, high = max(0, middle - width), min(len(right) + 1, middle + width)
        high = high if i < letters.shape[1] else len(right) + 1
        best = row + 1
        best[:, 1:] = np.minimum(best[:, 1:], row[:, :-1] + (letters[:, i - 1 : i] != goal))
        row = np.full_like(best, _NEVER)
        within = slice(low, high)
        row[:, within] = np.minimum.accumulate(best[:, within] - inserted[within], 1) + inserted[within]
        yield row
