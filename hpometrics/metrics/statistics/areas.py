"""Exact ROC AUC and average precision of stored scores, and partial areas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._device import on_host
from .column_blocks import (
    Block,
    ColumnBlocks,
    Flags,
    Integers,
    WeightedBlock,
    is_measured_in_blocks,
)
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
_TINY = np.finfo(np.float64).tiny

T = TypeVar("T")
Indices = npt.NDArray[np.intp]
Sums = npt.NDArray[Any]


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


def block_areas(block: Block) -> Areas[Sums]:
    """Compute the areas of each column of a block.

    With the rows from the highest score down, a tie being one step:

        roc_auc = 1 - sum over positives of (negatives above + tied ones / 2) / (positives * negatives)
        average_precision = mean over positives of (positives down to its score / rows down to its score)
    """
    keys, known = block
    columns, rows = keys.shape
    flat = keys.reshape(-1)
    place = np.flatnonzero((flat & 1).astype(np.bool_))  # of the positives of all columns
    first = np.searchsorted(place, np.arange(columns + 1) * rows)
    positives = np.diff(first)
    negatives = known - positives
    last, own = place, np.arange(1, len(place) + 1)
    lost = _sums(place, first) - _sums(own, first)
    lost += positives * (first[:-1] + 1 - np.arange(columns) * rows)
    lost *= 2
    if (flat.take(place - 1, mode="wrap") | 1 == flat.take(place)).any():
        last, own, ties = _ends_of_ties(flat | 1, place, rows)
        lost -= _sums(ties, first)
    before, rows_before = (np.repeat(x, positives) for x in (first[:-1], np.arange(columns) * rows))
    precision = (own - before) / (last + 1 - rows_before)
    pairs = 2 * positives * negatives
    with np.errstate(divide="ignore", invalid="ignore"):  # nan where there is nothing to divide by
        roc_auc = (pairs - lost) / pairs
        return Areas(positives.astype(np.float64), roc_auc, _sums(precision, first) / positives)


def _ends_of_ties(scores: Integers, place: Indices, rows: int) -> tuple[Indices, Indices, Indices]:
    """Return for each positive the last row of its score, the positives down to it, the tied negatives.

    Args:
        scores: those of all columns, one after the other.
        place: where the positives are, which come last of equal scores.
        rows: the length of a column.
    """
    is_start = np.ones(len(scores), np.bool_)
    np.not_equal(scores[1:], scores[:-1], out=is_start[1:])
    is_start[::rows] = True
    starts = np.append(np.flatnonzero(is_start), len(scores))
    run = np.searchsorted(starts, place, side="right")
    begin, end = starts[run - 1], starts[run]
    return end - 1, np.searchsorted(place, end), place[np.searchsorted(place, begin)] - begin


def weighted_block_areas(blocks: Iterable[WeightedBlock]) -> Areas[Sums]:
    """Compute the areas of some columns, whose rows may be in several blocks, from running sums of weights.

        roc_auc = sum over negatives of weight * (positives above + tied ones / 2) / positives / negatives
        average_precision = sum over positives of weight * (positives / rows, down to its score) / positives

    All sums run from the highest score down: none is a difference of others, which would lose small weights.
    The blocks are overwritten.
    """
    pairs, precisions, all_positive, all_negative = (np.zeros(1) for _ in range(4))
    for scores, positive, negative in blocks:
        wins, losses = positive.cumsum(axis=1), negative.cumsum(axis=1)
        wins += all_positive[:, None]
        losses += all_negative[:, None]
        start, all_positive, all_negative = all_positive, wins[:, -1].copy(), losses[:, -1].copy()
        above = wins
        same = scores[:, 1:] == scores[:, :-1]
        if same.any():
            above = _join_ties(same, wins, losses, start)
        pairs = pairs + np.multiply(negative, above, out=negative).sum(axis=1)
        losses += wins
        precision = np.divide(wins, np.maximum(losses, _TINY, out=losses), out=wins)
        precision *= positive
        precisions = precisions + precision.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):  # nan where there is nothing to divide by
        roc_auc = pairs / all_positive / all_negative
        return Areas(all_positive, roc_auc, precisions / all_positive)


def _join_ties(same: Flags, wins: Sums, losses: Sums, start: Sums) -> Sums:
    """Extend both sums of a row down to the last row of its score, in place.

    Args:
        same: which rows have the score of the one before, from the second row on.
        wins: the sum of the positives down to each row.
        losses: the same of the negatives.
        start: the sum of the positives above all rows.

    Returns:
        For each row the sum of the positives above it, with half of those that tie.
    """
    rows = wins.shape[1]
    tied = np.flatnonzero(same)
    tied += tied // (rows - 1) + 1
    is_first = np.ones(len(tied) + 1, np.bool_)
    np.not_equal(tied[1:], tied[:-1] + 1, out=is_first[1:-1])
    begin, end = tied[is_first[:-1]] - 1, tied[is_first[1:]]
    size = end - begin + 1
    own = np.repeat(end + 1 - size.cumsum(), size) + np.arange(size.sum())
    above = wins.copy()
    flat_wins, flat_losses, flat_above = (sums.reshape(-1) for sums in (wins, losses, above))
    before = np.where(begin % rows == 0, start.take(begin // rows, mode="clip"), flat_wins[begin - 1])
    flat_above[own] = np.repeat((before + flat_wins[end]) / 2, size)
    flat_wins[own], flat_losses[own] = (np.repeat(sums[end], size) for sums in (flat_wins, flat_losses))
    return above


def _sums(values: Indices | Sums, first: Indices) -> Sums:
    """Return the sum of each part of some values, which begin at `first`; the last ends at its last entry."""
    sums = np.zeros(len(first) - 1, values.dtype)
    filled = first[1:] > first[:-1]
    sums[filled] = np.add.reduceat(values, first[:-1][filled]) if filled.any() else 0
    return sums


def _of_one_class(positives: float) -> Areas[float]:
    return Areas(float(positives), _NAN, 1.0 if positives else _NAN)


def _all_areas(own: Scores) -> Areas[Tensor]:
    if can_be_partitioned(own) and not is_sorted(own):
        columns = PartitionedScores(own)
        return Areas(*_tensor([partitioned_areas(columns, *column) for column in columns]).T)
    if is_measured_in_blocks(own) and not is_sorted(own):
        blocks = ColumnBlocks(own)
        if own.weight is None:
            areas = [block_areas(block) for block in blocks.unweighted()]
        else:
            areas = [weighted_block_areas(parts) for parts in blocks.weighted()]
        return Areas(*(torch.from_numpy(np.concatenate(part)) for part in zip(*areas, strict=True)))
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
