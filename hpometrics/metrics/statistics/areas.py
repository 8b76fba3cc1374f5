"""Areas of sorted columns: ROC AUC and average precision of scores against yes or no, exact, with ties."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._device import on_host
from .scores import Scores
from .sorted_scores import (
    Apart,
    Ascending,
    Counted,
    Ranked,
    Stretch,
    Values,
    Weighed,
    ascending_columns,
    ascending_pooled,
    can_be_apart,
    is_sorted,
    places,
)

_AT_ONCE = 1 << 12  # positives that are looked up at a time
_NAN = float("nan")

Indices = npt.NDArray[np.intp]


class Areas(NamedTuple):
    """Positives of a column (or what they weigh), ROC AUC, average precision; nan where not defined."""

    positives: float
    roc_auc: float
    average_precision: float


@dataclass(frozen=True)
class Curves:
    """The areas of every class against the rest, float64 of shape (C,); nan where it has no positive row.

    Attributes:
        positives: the rows of each class, or what they weigh.
        roc_auc, average_precision: the areas of each class against the rest.
    """

    positives: Tensor
    roc_auc: Tensor
    average_precision: Tensor


class Places(NamedTuple):
    """Of each positive: how many rows score less, how many at most as much, how many positives less."""

    below: Tensor
    up_to: Tensor
    positives_below: Tensor


def curves_of(scores: Scores) -> Curves:
    """Exact area under the ROC curve and average precision of every class against the rest."""
    return scores.derived("curves", _areas_of_all)


def pooled_curve(scores: Scores) -> Curves:
    """The same of all columns as one, 0-d."""
    if scores.classes == 1:
        only = curves_of(scores)
        return Curves(only.positives[0], only.roc_auc[0], only.average_precision[0])
    return scores.derived("curve pooled", lambda own: Curves(*_tensor(areas_of(ascending_pooled(own)))))


def areas_of(column: Ascending) -> Areas:
    """The areas of one column."""
    return counted_areas(column) if isinstance(column, Counted) else weighed_areas(column)


def counted_areas(column: Counted) -> Areas:
    """By ranks: what there is more than a sort is of the number of positives.

    The rank sum counts a tie as a half; the positives' pairs among themselves are taken off again. Average
    precision is the mean, over positives, of the precision at their own score (ties share a threshold).
    """
    n, n_pos = len(column.every), len(column.positive)
    if n_pos in (0, n):
        return _of_one_class(n_pos)
    ranks, precision = 0.0, 0.0
    for start in range(0, n_pos, _AT_ONCE):
        below, up_to, positives_below = _places(*column, start)
        ranks += (below.sum() + up_to.sum()).item() / 2
        precision += ((n_pos - positives_below).double() / (n - below)).sum().item()
    return Areas(float(n_pos), (ranks - n_pos * n_pos / 2) / (n_pos * (n - n_pos)), precision / n_pos)


def weighed_areas(column: Weighed) -> Areas:
    """The same with running sums of weights in the place of ranks.

    They run from either end: what lies above a score is no difference, which would lose small weights.
    """
    every, weight, won = column
    lost = weight - won
    left, right = (torch.searchsorted(every, every, side=side) for side in ("left", "right"))
    losses = torch.cat([weight.new_zeros(1), lost.cumsum(0)])
    wins_above, losses_above = (part.flip(0).cumsum(0).flip(0)[left] for part in (won, lost))
    n_pos, n_neg = won.sum(), losses[-1]
    if n_pos == 0 or n_neg == 0:
        return _of_one_class(float(n_pos))
    pairs = (won * (losses[left] + losses[right])).sum() / 2
    precision = wins_above / (wins_above + losses_above)
    return Areas(float(n_pos), float(pairs / n_pos / n_neg), float((won * precision).sum() / n_pos))


def areas_apart(columns: Apart, n_pos: int, stretches: Iterable[Stretch]) -> Areas:
    """The areas of one of the columns, whose negatives and positives are in order apart.

    Each positive is looked up among the negatives of its own stretch; all of the stretches before lie below.
    """
    n, at_once = columns.rows, columns.look // 2
    if n_pos in (0, n):
        return _of_one_class(n_pos)
    wins, precision, negatives, positives = 0, 0.0, 0, 0
    for stretch in stretches:
        for start in range(0, len(stretch.positive), at_once):
            below, ties, own = _places_apart(stretch, start, at_once)
            wins += 2 * (int(below.sum()) + negatives * len(below)) + ties
            precision += _precision(n_pos - positives - own, n - negatives - positives, below, own)
        negatives, positives = negatives + len(stretch.negative), positives + len(stretch.positive)
    return Areas(float(n_pos), wins / 2 / (n_pos * (n - n_pos)), precision / n_pos)


def _of_one_class(positives: float) -> Areas:
    return Areas(float(positives), _NAN, 1.0 if positives else _NAN)


def _areas_of_all(own: Scores) -> Curves:
    if can_be_apart(own) and not is_sorted(own):
        columns = Apart(own)
        return Curves(*_tensor([areas_apart(columns, *column) for column in columns]).T)
    return Curves(*_tensor([areas_of(column) for column in ascending_columns(own)]).T)


def _tensor(areas: Areas | list[Areas]) -> Tensor:
    return torch.tensor(areas, dtype=torch.float64)


def _places(every: Tensor, positive: Tensor, start: int) -> Places:
    """The places of some positives, from the `start`-th on."""
    some = positive[start : start + _AT_ONCE]
    if not on_host(every):
        left, right = (torch.searchsorted(every, some, side=side) for side in ("left", "right"))
        return Places(left, right, torch.searchsorted(positive, some))
    column, needles = every.numpy(), some.numpy()
    below = np.searchsorted(column, needles)  # which profits from needles that ascend as well
    up_to = below + 1
    tied = np.flatnonzero(column[np.minimum(up_to, len(column) - 1)] == needles)  # few need a second search
    up_to[tied] = np.searchsorted(column, needles[tied], side="right")
    own = _own_places(positive.numpy(), needles, start)
    return Places(*map(torch.from_numpy, (below, up_to, own)))


def _places_apart(stretch: Stretch, start: int, count: int) -> tuple[Indices, int, Indices]:
    """Of some positives of a stretch: negatives below, how many pairs are tied, and positives below."""
    negative, positive = stretch
    some = positive[start : start + count]
    low, high = np.searchsorted(negative, some[[0, -1]])
    below = np.searchsorted(negative[low:high], some)
    below += low
    ties = 0
    if len(negative):
        tied = np.flatnonzero(negative.take(below, mode="clip") == some)
        ties = int((np.searchsorted(negative, some[tied], side="right") - below[tied]).sum())
    return below, ties, _own_places(positive, some, start)


def _precision(at_least: Indices, rows: int, below: Indices, own: Indices) -> float:
    """The sum of the precisions at some positives, `at_least` of them scoring as much as each.

    Of the `rows` of its stretch and of those above, `below` negatives and `own` positives score less; both
    are overwritten.
    """
    own += below
    return torch.from_numpy(at_least / np.subtract(rows, own, out=own)).sum().item()


def _own_places(positive: Values, some: Values, start: int) -> Indices:
    """How many positives score less than each of some, the `start`-th and the next."""
    own = np.arange(start, start + len(some))
    own[0] = np.searchsorted(positive, some[0])
    again = some[1:] == some[:-1]
    if again.any():
        own[1:][again] = 0
        np.maximum.accumulate(own, out=own)
    return own


def area_up_to(column: Ranked, most: float) -> Tensor:
    """The area from a false positive rate of 0 up to `most`, 0-d."""
    fpr, tpr = column.rates
    inside = fpr <= most
    x = torch.cat([fpr[inside], fpr.new_tensor([most])])
    return torch.trapezoid(torch.cat([tpr[inside], _height(fpr, tpr, most)]), x)


def area_over_log(column: Ranked, least: float, most: float) -> Tensor:
    """The mean height over the logarithm of the false positive rate from `least` to `most`, 0-d."""
    fpr, tpr = column.rates
    inside = (fpr > least) & (fpr < most)
    x = torch.cat([fpr.new_tensor([least]), fpr[inside], fpr.new_tensor([most])]).log10()
    y = torch.cat([_height(fpr, tpr, least), tpr[inside], _height(fpr, tpr, most)])
    return torch.trapezoid(y, x) / (x[-1] - x[0])


def _height(fpr: Tensor, tpr: Tensor, at: float) -> Tensor:
    """The curve's true positive rate at a false positive rate, (1,); at a jump its upper end."""
    right = int(torch.searchsorted(fpr, at, side="right"))
    if right == len(fpr):
        return tpr[-1:]
    share = (at - fpr[right - 1]) / (fpr[right] - fpr[right - 1])
    return (tpr[right - 1] + share * (tpr[right] - tpr[right - 1])).unsqueeze(0)


def areas_of_pairs(scores: Scores) -> tuple[Tensor, Tensor]:
    """Area under the ROC curve of each ordered pair of classes, and the weight of each class.

    Returns:
        (C, C) float64: at [a, b] how likely the score of class a is larger in a row of a than in one of b (a
        tie counts a half), nan on the diagonal and where a class has no rows; (C,) float64.
    """
    return scores.derived("areas of pairs", _areas)


def _areas(own: Scores) -> tuple[Tensor, Tensor]:
    """Each row of b is placed once among the sorted rows of a, for all b at the same time."""
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
    """For every row, the weight of the positive rows that score below it, ties by half."""
    order = values[positive].argsort()
    ordered = values[positive][order]
    sums = torch.cat([weight.new_zeros(1), weight[positive][order].cumsum(0)])
    low, high = (places(ordered, values, side) for side in ("left", "right"))
    return (sums[low] + sums[high]) / 2


Criterion = Literal["f1", "fbeta", "mcc", "youden", "accuracy", "balanced_accuracy", "jaccard"]


def _fbeta(tp: Tensor, fp: Tensor, beta_squared: float) -> Tensor:
    fn = tp[-1] - tp
    return _ratio((1 + beta_squared) * tp, (1 + beta_squared) * tp + fp + beta_squared * fn)


def _jaccard(tp: Tensor, fp: Tensor, beta_squared: float) -> Tensor:
    return _ratio(tp, tp[-1] + fp)


def _accuracy(tp: Tensor, fp: Tensor, beta_squared: float) -> Tensor:
    return (tp + (fp[-1] - fp)) / (tp[-1] + fp[-1])


def _youden(tp: Tensor, fp: Tensor, beta_squared: float) -> Tensor:
    return tp / tp[-1] - fp / fp[-1]


def _balanced_accuracy(tp: Tensor, fp: Tensor, beta_squared: float) -> Tensor:
    return (tp / tp[-1] + (fp[-1] - fp) / fp[-1]) / 2


def _mcc(tp: Tensor, fp: Tensor, beta_squared: float) -> Tensor:
    fn, tn = tp[-1] - tp, fp[-1] - fp
    return _ratio(tp * tn - fp * fn, ((tp + fp) * (tp + fn)).sqrt() * ((tn + fp) * (tn + fn)).sqrt())


def _ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Divide; a decision for one class only, which leaves nothing to divide by, is worth 0."""
    return torch.where(denominator > 0, numerator / denominator, 0.0)


CRITERIA: Mapping[Criterion, Callable[[Tensor, Tensor, float], Tensor]] = {
    "f1": _fbeta,
    "fbeta": _fbeta,
    "mcc": _mcc,
    "youden": _youden,
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced_accuracy,
    "jaccard": _jaccard,
}
"""A criterion's value at each cut, from the true and false positives of all cuts (the last has every row)."""


def best_cut(column: Ranked, criterion: Criterion, beta_squared: float) -> tuple[Tensor, Tensor]:
    """The two scores that the best cut parts: the largest to be predicted 0, the least to be predicted 1.

    Either is infinite when all rows are to be predicted alike; of equal cuts the highest is taken.
    """
    place = int(CRITERIA[criterion](*column.cuts, beta_squared).argmax())
    ends = column.scores.new_tensor([math.inf, -math.inf])
    walls = torch.cat([ends[:1], column.scores, ends[1:]])
    return walls[place + 1], walls[place]


def probability_between(low: Tensor, high: Tensor, *, logits: bool) -> Tensor:
    """A probability t such that `score > t` holds from `high` up and not from `low` down; nan if none does.

    Args:
        low: 0-d, in the type of the scores, which is the type in which scores are compared.
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
    """Half way between the two, as probabilities and as logits; their ends; the numbers next to all these."""
    bottom, top = low.double(), high.double()
    ends = [bottom.sigmoid(), top.sigmoid()] if logits else [bottom.clamp(min=0), top.clamp(max=1)]
    middles = [(ends[0] + ends[1]) / 2, ((bottom + top) / 2).sigmoid()]
    chosen = [x.item() for x in (*middles, *ends)]
    return [*chosen, *(math.nextafter(x, side) for x in chosen for side in (0.0, 1.0))]
