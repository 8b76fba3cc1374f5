"""The best cut of a column: criteria of cuts, the search for the best one, and a threshold that makes it.

A cut predicts 1 from some score up. The rows of a large column are counted in bins first: a bin only holds a
better cut than the best edge between two bins if its own bound is better, so that few rows have to be sorted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._device import on_host
from .column_blocks import ordered_bits
from .scores import UNKNOWN, Scores
from .sorted_scores import Cuts, RankedColumn, is_sorted, rank_column, ranked_column, sort_column

Values = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.signedinteger[Any]]
Counts = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]
Criterion = Literal["f1", "fbeta", "mcc", "youden", "accuracy", "balanced_accuracy", "jaccard"]
Quality = Callable[[Cuts], Tensor]
Bound = Callable[[Cuts, Cuts], Tensor]

_LOOK = 1 << 16  # rows that are read at a time
_BITS = 15  # of the number of bins
_RANKED = 1 << 17  # rows that are sorted at a time
_FIRST, _LAST = slice(None, -1), slice(1, None)


def _fbeta(cuts: Cuts, beta_squared: float) -> Tensor:
    fn = cuts.positives - cuts.tp
    return _ratio((1 + beta_squared) * cuts.tp, (1 + beta_squared) * cuts.tp + cuts.fp + beta_squared * fn)


def _mcc(cuts: Cuts, beta_squared: float) -> Tensor:
    tp, fp = cuts.tp, cuts.fp
    fn, tn = cuts.positives - tp, cuts.negatives - fp
    return _ratio(tp * tn - fp * fn, ((tp + fp) * (tp + fn)).sqrt() * ((tn + fp) * (tn + fn)).sqrt())


def _ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Divide; 0 where the denominator is 0, as for a decision for one class only."""
    return torch.where(denominator > 0, numerator / denominator, 0.0)


CRITERIA: Mapping[Criterion, Callable[[Cuts, float], Tensor]] = {
    "f1": _fbeta,
    "fbeta": _fbeta,
    "mcc": _mcc,
    "youden": lambda cuts, _: cuts.tp / cuts.positives - cuts.fp / cuts.negatives,
    "accuracy": lambda cuts, _: (cuts.tp + (cuts.negatives - cuts.fp)) / (cuts.positives + cuts.negatives),
    "balanced_accuracy": lambda cuts, _: (
        (cuts.tp / cuts.positives + (cuts.negatives - cuts.fp) / cuts.negatives) / 2
    ),
    "jaccard": lambda cuts, _: _ratio(cuts.tp, cuts.positives + cuts.fp),
}
"""The value of a criterion at each cut; its second argument is the square of beta."""


def best_cut(scores: Scores, index: int, quality: Quality, bound: Bound) -> Cuts:
    """Return the cut of a column whose quality is the largest, of equal ones the highest, 0-d.

    It is nan where the column has one kind of rows only.

    Args:
        scores: the store.
        index: the column.
        quality: how good each cut is.
        bound: the most that it can be at any cut between two.
    """
    if _is_searched(scores):
        return CutSearch(scores, index, quality, bound).best
    return best_of_ranked(ranked_column(scores, index), quality)


def best_of_ranked(column: RankedColumn, quality: Quality) -> Cuts:
    """Return the same of a ranked column."""
    if column.has_both:
        cuts = column.cuts
        return cuts.at(int(quality(cuts).argmax()))
    nan = torch.tensor(torch.nan, dtype=torch.float64)
    return Cuts(nan, nan, column.positives, column.negatives)


def scores_around_best(scores: Scores, index: int, quality: Quality) -> tuple[Tensor, Tensor] | None:
    """Return the two scores around the best cut: the largest predicted 0 and the least predicted 1.

    Either is infinite if all rows are predicted alike. The result is None with one kind of rows only.
    """
    if _is_searched(scores):
        search = CutSearch(scores, index, quality, partial(corner_bound, quality))
        return search.scores_around() if search.best.has_both else None
    column = ranked_column(scores, index)
    if not column.has_both:
        return None
    place = int(quality(column.cuts).argmax())
    ends = column.scores.new_tensor([math.inf, -math.inf])
    walls = torch.cat([ends[:1], column.scores, ends[1:]])
    return walls[place + 1], walls[place]


def _is_searched(scores: Scores) -> bool:
    """Return whether the column is large, and not sorted already."""
    is_plain = scores.weight is None and on_host(scores.filled[0][0])
    return is_plain and scores.rows > _RANKED and not is_sorted(scores)


def corner_bound(quality: Quality, above: Cuts, below: Cuts) -> Tensor:
    """Return the larger quality at the two corners between two cuts, which lie off the curve.

    No cut between the two is better if the quality never falls with more true or fewer false positives, at
    least where it is above 0, which predicting nothing has, or if it is a convex function of both rates.
    """
    corners = above._replace(tp=below.tp), above._replace(fp=below.fp)
    return torch.maximum(quality(corners[0]), quality(corners[1]))


class Bins(NamedTuple):
    """The rows of a column whose keys lie in a range, counted by bins of equal width, from the highest down.

    Attributes:
        edges: (bins + 1,) integers, the keys between which the bins lie.
        positive: (bins,) the number of positive rows.
        negative: (bins,) the number of negative rows.
    """

    edges: Integers
    positive: Integers
    negative: Integers


class Place(NamedTuple):
    """A cut: how good it is, and the key from which it predicts 1. The larger one is the better."""

    quality: float
    key: int
    tp: float
    fp: float


class CutSearch:
    """The best cut of a column without weights on the CPU.

    Rows are counted in bins of their keys, integers in the order of the scores. Where the bound of a bin is
    below the best quality at an edge, no cut inside it is the best; the others are looked at more closely.

    Args:
        scores: the store.
        index: the column.
        quality: as in `best_cut`.
        bound: the same.
    """

    def __init__(self, scores: Scores, index: int, quality: Quality, bound: Bound) -> None:
        self._store, self._index = scores, index
        self._quality, self._bound = quality, bound
        self._type = np.result_type(*(part.numpy().dtype for part, _, _ in scores.filled))
        self._found = Place(-math.inf, 0, math.nan, math.nan)
        whole = scores.derived(f"bins {index}", lambda _: self._count(*self._range(), whole=True))
        self._ends = int(whole.edges[-1]), int(whole.edges[0])
        self._positives, self._negatives = int(whole.positive.sum()), int(whole.negative.sum())
        if self._positives and self._negatives:
            self._search(whole, 0, 0)

    @property
    def best(self) -> Cuts:
        """The best cut, 0-d."""
        facts = self._found.tp, self._found.fp, self._positives, self._negatives
        return Cuts(*torch.tensor(facts, dtype=torch.float64))

    def scores_around(self) -> tuple[Tensor, Tensor]:
        """Return the largest score below the best cut and the least above it, 0-d."""
        wall, (least, end) = self._found.key, self._ends
        gaps = [_gaps(ordered_bits(values), wall) for values, _ in self._pieces() if len(values)]
        down, up = map(int, np.min(gaps, axis=0))
        low, high = wall - 1 - down, wall + up
        around = (
            _score_of(low, self._type) if low >= least else -math.inf,
            _score_of(high, self._type) if high < end else math.inf,
        )
        below, above = (torch.from_numpy(np.array(score, self._type)) for score in around)
        return below, above

    def _search(self, bins: Bins, tp: int, fp: int) -> None:
        """Look at the cuts at the edges of bins and, where there may be better ones, inside.

        Args:
            bins: neighbors.
            tp: the positive rows above them.
            fp: the negative rows above them.
        """
        sums = (np.append(0, counts).cumsum() for counts in (bins.positive, bins.negative))
        cuts = self._cuts(next(sums), next(sums), tp, fp)
        self._compare(cuts, bins.edges)
        above, below = (cuts._replace(tp=cuts.tp[part], fp=cuts.fp[part]) for part in (_FIRST, _LAST))
        bounds = self._bound(above, below).numpy()
        rows = bins.positive + bins.negative
        has_cuts = (rows > 1) & (bins.edges[:-1] - bins.edges[1:] > 1)
        groups = list(_groups(np.flatnonzero(has_cuts & self._may_improve(bounds, bins.edges[1:])), rows))
        if len(groups) > 1 and groups[-1][1] - groups[0][0] <= len(rows) // 2:
            groups = [(groups[0][0], groups[-1][1])]  # narrower bins may leave fewer rows
        for first, last in groups:
            if self._may_improve(bounds[first:last], bins.edges[first + 1 : last + 1]).any():
                ends = int(bins.edges[last]), int(bins.edges[first])
                base = int(cuts.tp[first]), int(cuts.fp[first])
                if rows[first:last].sum() > _RANKED:
                    self._search(self._count(*ends), *base)
                else:
                    self._rank(*ends, *base)

    def _rank(self, low: int, high: int, tp: int, fp: int) -> None:
        """Look at every cut at a score whose key lies in [low, high)."""
        values, positive = map(np.concatenate, zip(*self._between(low, high), strict=True))
        column = rank_column(sort_column(torch.from_numpy(values), torch.from_numpy(positive)))
        cuts = self._cuts(column.tp.numpy(), column.fp.numpy(), tp, fp)
        self._compare(cuts, ordered_bits(column.scores.numpy()))

    def _cuts(self, tp: Counts, fp: Counts, tp_above: int, fp_above: int) -> Cuts:
        counts = (tp + tp_above, fp + fp_above, np.array(self._positives), np.array(self._negatives))
        return Cuts(*(torch.from_numpy(np.asarray(count, np.float64)) for count in counts))

    def _compare(self, cuts: Cuts, keys: Integers) -> None:
        """Keep the best of some cuts, from the highest down, if it is better than the best one so far."""
        qualities = self._quality(cuts)
        place = int(qualities.argmax())
        facts = qualities[place].item(), int(keys[place]), cuts.tp[place].item(), cuts.fp[place].item()
        self._found = max(self._found, Place(*facts))

    def _may_improve(self, bounds: Counts, lowest: Integers) -> Flags:
        """Return whether better cuts may lie between two, or equal ones that are higher than the best one."""
        best = self._found
        is_higher: Flags = (bounds == best.quality) & (lowest >= best.key)
        return is_higher | (bounds > best.quality)

    def _range(self) -> tuple[int, int]:
        """Return the least key and the one after the largest."""
        ends = [(values.min(), values.max()) for values, _ in self._pieces() if len(values)]
        if not ends:
            return 0, 1
        low, high = ordered_bits(np.array([min(low for low, _ in ends), max(high for _, high in ends)]))
        return int(low), int(high) + 1

    def _count(self, low: int, high: int, *, whole: bool = False) -> Bins:
        """Count the rows whose key lies in [low, high); all of them with `whole`."""
        shift = max(0, (high - low - 1).bit_length() - _BITS)
        bins = ((high - low - 1) >> shift) + 1
        counts = np.zeros(2 * bins, np.int64)
        for values, positive in self._pieces() if whole else self._between(low, high):
            keys = ordered_bits(values)
            keys -= low
            codes = keys.view(f"u{keys.itemsize}")
            codes >>= shift
            codes <<= 1
            codes |= positive
            counts += np.bincount(codes.astype(np.int64), minlength=2 * bins)
        negative, positive = counts.reshape(bins, 2)[::-1].T
        edges = np.append(high, low + (np.arange(bins - 1, -1, -1) << shift))
        return Bins(edges, positive.copy(), negative.copy())

    def _between(self, low: int, high: int) -> Iterator[tuple[Values, Flags]]:
        """Yield what `_pieces` does, of the rows whose key lies in [low, high)."""
        bottom, top = _score_of(low, self._type), _score_of(high, self._type)
        for values, positive in self._pieces():
            inside = np.flatnonzero((values >= bottom) & (values < top))
            yield values[inside], positive[inside]

    def _pieces(self) -> Iterator[tuple[Values, Flags]]:
        """Yield some rows at a time: scores, and which are positive."""
        store, index = self._store, self._index
        for scores, target, _ in store.filled:
            labels = target.numpy()
            labels = labels[:, index] if labels.ndim == 2 else labels
            one = index if target.ndim == 1 and store.classes > 1 else 1
            for start in range(0, len(labels), _LOOK):
                rows = slice(start, start + _LOOK)
                values, own = scores.numpy()[rows, index].astype(self._type, copy=False), labels[rows]
                if store.has_gaps:
                    is_known = own != UNKNOWN
                    values, own = values[is_known], own[is_known]
                yield values, own == one


def _groups(chosen: Counts, rows: Integers) -> Iterator[tuple[int, int]]:
    """Yield ranges of bins with all that are chosen; one of several bins has at most `_RANKED` rows."""
    below = np.append(0, rows.cumsum())
    start = 0
    while start < len(chosen):
        first = int(chosen[start])
        fit = int(np.searchsorted(below[chosen + 1], below[first] + _RANKED, side="right"))
        stop = max(fit, start + 1)
        yield first, int(chosen[stop - 1]) + 1
        start = stop


def _gaps(keys: Integers, wall: int) -> tuple[Any, Any]:
    """Return how far the next key lies below `wall - 1` and above `wall`; very far if there is none."""
    kind, unsigned = keys.dtype.type, f"u{keys.itemsize}"
    return (kind(wall - 1) - keys).view(unsigned).min(), (keys - kind(wall)).view(unsigned).min()


def _score_of(key: int, kind: np.dtype[Any]) -> float:
    """Return the score that has a key."""
    bits = np.array(key, f"i{kind.itemsize}")
    if key < 0:
        bits ^= np.iinfo(bits.dtype).max
    return float(bits.view(kind))


def probability_between(low: Tensor, high: Tensor, *, logits: bool) -> Tensor:
    """Return a probability t such that `score > t` holds from `high` up, not from `low` down; nan if none.

    Args:
        low: 0-d, in the type of the scores, in which they are compared.
        high: the same, above it.
        logits: whether they are logits, compared with the logit of t.
    """
    for t in _candidates(low, high, logits):
        cut = torch.tensor(t, dtype=torch.float64)
        wall = (torch.logit(cut) if logits else cut).to(low.dtype)
        if 0 <= t <= 1 and low <= wall < high:
            return cut
    return torch.tensor(torch.nan, dtype=torch.float64)


def _candidates(low: Tensor, high: Tensor, logits: bool) -> list[float]:
    """Return the middle of the two as probabilities and as logits, the ends, and the floats next to these."""
    bottom, top = low.double(), high.double()
    ends = [bottom.sigmoid(), top.sigmoid()] if logits else [bottom.clamp(min=0), top.clamp(max=1)]
    middles = [(ends[0] + ends[1]) / 2, ((bottom + top) / 2).sigmoid()]
    ends_and_middles = [x.item() for x in (*middles, *ends)]
    return [*ends_and_middles, *(math.nextafter(x, side) for x in ends_and_middles for side in (0.0, 1.0))]
