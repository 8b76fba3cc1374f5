"""Exact ROC AUC and average precision of stored scores, partial areas, and the best threshold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._device import on_host
from .scores import Scores
from .sorted_scores import (
    PartitionedScores,
    RankedColumn,
    SortedColumn,
    Stretch,
    UnweightedColumn,
    Values,
    WeightedColumn,
    can_be_partitioned,
    is_sorted,
    pooled_column,
    positions,
    sorted_columns,
)

_AT_ONCE = 1 << 12  # positives that are looked up at a time
_NAN = float("nan")

T = TypeVar("T")
Indices = npt.NDArray[np.intp]
Criterion = Literal["f1", "fbeta", "mcc", "youden", "accuracy", "balanced_accuracy", "jaccard"]


class Areas(NamedTuple, Generic[T]):
    """Positive rows of a column (or their weight), ROC AUC and average precision; nan where not defined.

    Of one column they are numbers, of every class against the rest float64 tensors of shape (C,).
    """

    positives: T
    roc_auc: T
    average_precision: T


class Positions(NamedTuple):
    """For each positive: how many rows score less, how many at most as much, how many positives less."""

    below: Tensor
    up_to: Tensor
    positives_below: Tensor


def curves_of(scores: Scores) -> Areas[Tensor]:
    """Compute the exact ROC AUC and average precision of every class against the rest."""
    return scores.derived("curves", _all_areas)


def pooled_curve(scores: Scores) -> Areas[Tensor]:
    """Compute the same of all columns pooled into one, 0-d."""
    if scores.classes == 1:
        only = curves_of(scores)
        return Areas(only.positives[0], only.roc_auc[0], only.average_precision[0])
    return scores.derived("curve pooled", lambda own: Areas(*_tensor(areas_of(pooled_column(own)))))


def areas_of(column: SortedColumn) -> Areas[float]:
    """Compute the areas of one column."""
    return unweighted_areas(column) if isinstance(column, UnweightedColumn) else weighted_areas(column)


def unweighted_areas(column: UnweightedColumn) -> Areas[float]:
    """Compute the areas by ranks: beyond the sort, the work grows with the number of positives only.

    The rank sum counts a tie as a half; the pairs among positives are subtracted again. Average precision is
    the mean, over positives, of the precision at their own score (ties share a threshold).
    """
    n, n_pos = len(column.every), len(column.positive)
    if n_pos in (0, n):
        return _of_one_class(n_pos)
    ranks, precision = 0.0, 0.0
    for start in range(0, n_pos, _AT_ONCE):
        below, up_to, positives_below = _positions(*column, start)
        ranks += (below.sum() + up_to.sum()).item() / 2
        precision += ((n_pos - positives_below).double() / (n - below)).sum().item()
    return Areas(float(n_pos), (ranks - n_pos * n_pos / 2) / (n_pos * (n - n_pos)), precision / n_pos)


def weighted_areas(column: WeightedColumn) -> Areas[float]:
    """Compute the areas with running sums of weights in the place of ranks.

    The sums run from either end: a sum above a score is not computed as a difference, which would lose small
    weights.
    """
    every, weight, positives = column
    negatives = weight - positives
    low, high = (torch.searchsorted(every, every, side=side) for side in ("left", "right"))
    losses = torch.cat([weight.new_zeros(1), negatives.cumsum(0)])
    wins_above, losses_above = (part.flip(0).cumsum(0).flip(0)[low] for part in (positives, negatives))
    n_pos, n_neg = positives.sum(), losses[-1]
    if n_pos == 0 or n_neg == 0:
        return _of_one_class(float(n_pos))
    pairs = (positives * (losses[low] + losses[high])).sum() / 2
    precision = wins_above / (wins_above + losses_above)
    return Areas(float(n_pos), float(pairs / n_pos / n_neg), float((positives * precision).sum() / n_pos))


def partitioned_areas(columns: PartitionedScores, n_pos: int, stretches: Iterable[Stretch]) -> Areas[float]:
    """Compute the areas of a partitioned column, whose negatives and positives are sorted separately.

    Each positive is looked up among the negatives of its own stretch; all earlier stretches lie below it.
    """
    n, at_once = columns.rows, columns.look // 2
    if n_pos in (0, n):
        return _of_one_class(n_pos)
    wins, precision, negatives, positives = 0, 0.0, 0, 0
    for stretch in stretches:
        for start in range(0, len(stretch.positive), at_once):
            below, ties, own = _positions_of_stretch(stretch, start, at_once)
            wins += 2 * (int(below.sum()) + negatives * len(below)) + ties
            precision += _precision(n_pos - positives - own, n - negatives - positives, below, own)
        negatives, positives = negatives + len(stretch.negative), positives + len(stretch.positive)
    return Areas(float(n_pos), wins / 2 / (n_pos * (n - n_pos)), precision / n_pos)


def _of_one_class(positives: float) -> Areas[float]:
    return Areas(float(positives), _NAN, 1.0 if positives else _NAN)


def _all_areas(own: Scores) -> Areas[Tensor]:
    if can_be_partitioned(own) and not is_sorted(own):
        columns = PartitionedScores(own)
        return Areas(*_tensor([partitioned_areas(columns, *column) for column in columns]).T)
    return Areas(*_tensor([areas_of(column) for column in sorted_columns(own)]).T)


def _tensor(areas: Areas[float] | list[Areas[float]]) -> Tensor:
    return torch.tensor(areas, dtype=torch.float64)


def _positions(every: Tensor, positive: Tensor, start: int) -> Positions:
    """Return the positions of some positives, from the `start`-th on."""
    values = positive[start : start + _AT_ONCE]
    if not on_host(every):
        low, high = (torch.searchsorted(every, values, side=side) for side in ("left", "right"))
        return Positions(low, high, torch.searchsorted(positive, values))
    numbers, needles = every.numpy(), values.numpy()
    below = np.searchsorted(numbers, needles)  # faster with ascending needles
    up_to = below + 1
    tied = np.flatnonzero(numbers[np.minimum(up_to, len(numbers) - 1)] == needles)  # few need a second search
    up_to[tied] = np.searchsorted(numbers, needles[tied], side="right")
    own = _positives_below(positive.numpy(), needles, start)
    return Positions(*map(torch.from_numpy, (below, up_to, own)))


def _positions_of_stretch(stretch: Stretch, start: int, count: int) -> tuple[Indices, int, Indices]:
    """Return for some positives of a stretch: negatives below, the number of tied pairs, positives below."""
    negative, positive = stretch
    values = positive[start : start + count]
    low, high = np.searchsorted(negative, values[[0, -1]])
    below = np.searchsorted(negative[low:high], values)
    below += low
    ties = 0
    if len(negative):
        tied = np.flatnonzero(negative.take(below, mode="clip") == values)
        ties = int((np.searchsorted(negative, values[tied], side="right") - below[tied]).sum())
    return below, ties, _positives_below(positive, values, start)


def _precision(at_least: Indices, rows: int, below: Indices, own: Indices) -> float:
    """Return the sum of the precisions at some positives, each with `at_least` positives from its score up.

    Of the `rows` of its stretch and of those above, `below` negatives and `own` positives score less; both
    arrays are overwritten.
    """
    own += below
    return torch.from_numpy(at_least / np.subtract(rows, own, out=own)).sum().item()


def _positives_below(positive: Values, some: Values, start: int) -> Indices:
    """Return how many positives score less than each of `some`, which begin with the `start`-th."""
    own = np.arange(start, start + len(some))
    own[0] = np.searchsorted(positive, some[0])
    again = some[1:] == some[:-1]
    if again.any():
        own[1:][again] = 0
        np.maximum.accumulate(own, out=own)
    return own


def area_up_to(column: RankedColumn, most: float) -> Tensor:
    """Compute the area from a false positive rate of 0 up to `most`, 0-d."""
    fpr, tpr = column.rates
    inside = fpr <= most
    x = torch.cat([fpr[inside], fpr.new_tensor([most])])
    return torch.trapezoid(torch.cat([tpr[inside], _height(fpr, tpr, most)]), x)


def area_over_log(column: RankedColumn, least: float, most: float) -> Tensor:
    """Compute the mean height over the logarithm of the false positive rate, `least` to `most`, 0-d."""
    fpr, tpr = column.rates
    inside = (fpr > least) & (fpr < most)
    log_rates = torch.cat([fpr.new_tensor([least]), fpr[inside], fpr.new_tensor([most])]).log10()
    heights = torch.cat([_height(fpr, tpr, least), tpr[inside], _height(fpr, tpr, most)])
    return torch.trapezoid(heights, log_rates) / (log_rates[-1] - log_rates[0])


def _height(fpr: Tensor, tpr: Tensor, at: float) -> Tensor:
    """Return the true positive rate of the curve at a false positive rate, (1,); at a jump its upper end."""
    right = int(torch.searchsorted(fpr, at, side="right"))
    if right == len(fpr):
        return tpr[-1:]
    share = (at - fpr[right - 1]) / (fpr[right] - fpr[right - 1])
    return (tpr[right - 1] + share * (tpr[right] - tpr[right - 1])).unsqueeze(0)


def areas_of_pairs(scores: Scores) -> tuple[Tensor, Tensor]:
    """Return the area under the ROC curve of each ordered pair of classes, and the weight of each class.

    Returns:
        (C, C) float64: at [a, b] the probability that the score of class a is larger in a row of a than in a
        row of b (a tie counts a half), nan on the diagonal and where a class has no rows; (C,) float64.
    """
    return scores.derived("areas of pairs", _areas)


def _areas(own: Scores) -> tuple[Tensor, Tensor]:
    """Look up each row of b once among the sorted rows of a, for all b at the same time."""
    target, weight = own.target, own.weight
    weight = target.new_ones(len(target), dtype=torch.float64) if weight is None else weight
    rows = torch.zeros(own.classes, dtype=torch.float64, device=target.device).index_add_(0, target, weight)
    losses = torch.stack([
        torch.zeros_like(rows).index_add_(0, target, weight * _weight_below(*own.column(index)[:2], weight))
        for index in range(own.classes)
    ])  # fmt: skip
    areas = 1 - losses / (rows.unsqueeze(1) * rows.unsqueeze(0))
    areas = torch.where(rows.unsqueeze(1) * rows.unsqueeze(0) > 0, areas, torch.nan)
    return areas.fill_diagonal_(torch.nan), rows


def _weight_below(values: Tensor, positive: Tensor, weight: Tensor) -> Tensor:
    """Return for each row the weight of the positive rows that score below it, ties by half."""
    order = values[positive].argsort()
    ordered = values[positive][order]
    sums = torch.cat([weight.new_zeros(1), weight[positive][order].cumsum(0)])
    low, high = (positions(ordered, values, side) for side in ("left", "right"))
    return (sums[low] + sums[high]) / 2


def _fbeta(tp: Tensor, fp: Tensor, beta_squared: float) -> Tensor:
    fn = tp[-1] - tp
    return _ratio((1 + beta_squared) * tp, (1 + beta_squared) * tp + fp + beta_squared * fn)


def _mcc(tp: Tensor, fp: Tensor, beta_squared: float) -> Tensor:
    fn, tn = tp[-1] - tp, fp[-1] - fp
    return _ratio(tp * tn - fp * fn, ((tp + fp) * (tp + fn)).sqrt() * ((tn + fp) * (tn + fn)).sqrt())


def _ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Divide; 0 where the denominator is 0, as for a decision for one class only."""
    return torch.where(denominator > 0, numerator / denominator, 0.0)


CRITERIA: Mapping[Criterion, Callable[[Tensor, Tensor, float], Tensor]] = {
    "f1": _fbeta,
    "fbeta": _fbeta,
    "mcc": _mcc,
    "youden": lambda tp, fp, _: tp / tp[-1] - fp / fp[-1],
    "accuracy": lambda tp, fp, _: (tp + (fp[-1] - fp)) / (tp[-1] + fp[-1]),
    "balanced_accuracy": lambda tp, fp, _: (tp / tp[-1] + (fp[-1] - fp) / fp[-1]) / 2,
    "jaccard": lambda tp, fp, _: _ratio(tp, tp[-1] + fp),
}
"""The value of a criterion at each cut, from the true and false positives of all cuts (the last has all)."""


def best_cut(column: RankedColumn, criterion: Criterion, beta_squared: float) -> tuple[Tensor, Tensor]:
    """Return the two scores around the best cut: the largest predicted 0 and the least predicted 1.

    Either is infinite if all rows are predicted alike; of equal cuts the highest is returned.
    """
    place = int(CRITERIA[criterion](*column.cuts, beta_squared).argmax())
    ends = column.scores.new_tensor([math.inf, -math.inf])
    walls = torch.cat([ends[:1], column.scores, ends[1:]])
    return walls[place + 1], walls[place]


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
