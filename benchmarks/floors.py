"""The floor: what a hand-fused pass over one panel costs when it does only what must be done.

Per batch one log-softmax (or sigmoid), one argmax, the counts, and the scores copied into a preallocated
buffer; at the end one NumPy sort per class. No check of any input, no ties among ranks, no weights, no merge.
"""

from __future__ import annotations

import numpy as np
import torch
from closed_forms import Values, areas_apart, areas_in, of_binary, of_category, of_labels
from panels import Batches, Panel
from torch import Tensor

from hpometrics import Binary, Category

BINS = 15
_CACHED = 1 << 17  # elements: larger batches are cut into row blocks that stay in the cache
_COLUMNS = 16  # columns taken out of a row-major buffer at a time


def measure(panel: Panel, batches: Batches) -> Values:
    """Measure a panel by the pass that fits its output."""
    if isinstance(panel.output, Category):
        return _category(panel, batches)
    return _binary(panel, batches) if isinstance(panel.output, Binary) else _set(panel, batches)


def _category(panel: Panel, batches: Batches) -> Values:
    c, rows = panel.columns, panel.rows
    matrix, ranks = torch.zeros(c * c, dtype=torch.int64), torch.zeros(c, dtype=torch.int64)
    bins, sums = torch.zeros(2, BINS, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    scores, targets = torch.empty(rows, c), torch.cat([target for _, target in batches])
    wide, end = c > 64, 0
    block = max(1, _CACHED // c)
    for logits, target in (
        (x, y) for pair in batches for x, y in zip(*(t.split(block) for t in pair), strict=True)
    ):
        logp = logits.log_softmax(1) if wide else logits.t().contiguous().log_softmax(0).t()
        pred = torch.from_numpy(logits.numpy().argmax(1))
        true = logp.gather(1, target[:, None])
        ranks += torch.bincount(torch.gt(logp, true, out=torch.empty_like(logp)).sum(1).long(), minlength=c)
        codes = target * c + pred
        if wide:
            matrix.index_add_(0, codes, torch.ones_like(codes))
        else:
            matrix += torch.bincount(codes, minlength=c * c)
        sums[0] -= true.sum(dtype=torch.float64)
        sums[1] += _exp(logp).square_().sum(1).sum(dtype=torch.float64)
        sums[2] += _exp(true).sum(dtype=torch.float64)
        confidence = _exp(logp.gather(1, pred[:, None]).squeeze(1))
        where = _bins_of(confidence)
        bins[0] += torch.bincount(where, confidence.double(), BINS)
        bins[1] += torch.bincount(where[pred == target], minlength=BINS)
        scores[end : end + len(target)] = logp
        end += len(target)
    order = targets.numpy().argsort(kind="stable")
    positive = np.split(order, np.bincount(targets.numpy(), minlength=c).cumsum()[:-1])
    return {
        **of_category(matrix.view(c, c).double(), ranks.double()),
        **_areas(scores, positive),
        "log_loss": (sums[0] / rows).item(),
        "brier": (sums[1] / rows - 2 * sums[2] / rows + 1).item(),
        "ece": ((bins[0] - bins[1]).abs().sum() / rows).item(),
    }


def _binary(panel: Panel, batches: Batches) -> Values:
    counts, confidence = torch.zeros(4 * BINS, dtype=torch.int64), torch.zeros(BINS, dtype=torch.float64)
    sums = torch.zeros(2, dtype=torch.float64)
    scores, targets, end = torch.empty(panel.rows), torch.empty(panel.rows, dtype=torch.bool), 0
    for logits, target in batches:
        probability, truth = logits.sigmoid(), target.float()
        where = _bins_of(probability)
        counts += torch.bincount(4 * where + 2 * target + (logits > 0), minlength=4 * BINS)
        confidence += torch.bincount(where, probability.double(), BINS)
        sums[0] += torch.nn.functional.softplus(logits).sum() - logits @ truth
        probability -= truth
        sums[1] += probability @ probability
        scores[end : end + len(target)] = logits
        targets[end : end + len(target)] = target
        end += len(target)
    by_bin = counts.double().view(BINS, 2, 2)
    x, y = scores.numpy(), targets.numpy()
    positive, negative = np.sort(x[np.flatnonzero(y)]), np.sort(x[np.flatnonzero(~y)])
    roc, ap = areas_apart(positive, negative)
    return {
        **of_binary(by_bin.sum(0)),
        "roc_auc": roc,
        "average_precision": ap,
        "log_loss": (sums[0] / panel.rows).item(),
        "brier": (sums[1] / panel.rows).item(),
        "ece": ((confidence - by_bin[:, 1].sum(1)).abs().sum() / panel.rows).item(),
    }


def _set(panel: Panel, batches: Batches) -> Values:
    c, rows = panel.columns, panel.rows
    counts, sums = torch.zeros(3, c, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    scores, targets, end = torch.empty(rows, c), torch.empty(rows, c, dtype=torch.bool), 0
    for logits, target in batches:
        truth, predicted = target.float(), (logits > 0).float()
        right = truth * predicted
        counts += torch.stack([right.sum(0), predicted.sum(0), truth.sum(0)])
        sums[0] += (torch.nn.functional.softplus(logits) - logits * truth).sum()
        sums[1] += ((predicted - truth).square_().sum(1) == 0).sum()
        scores[end : end + len(target)] = logits
        targets[end : end + len(target)] = truth
        end += len(target)
    positive = [np.flatnonzero(column) for column in targets.numpy().T]
    return {
        **of_labels(*counts, rows),
        **_areas(scores, positive),
        "log_loss": (sums[0] / (rows * c)).item(),
        "accuracy": (sums[1] / rows).item(),
    }


def _exp(values: Tensor) -> Tensor:
    """By NumPy, as torch wakes every thread for it; a product of vectors does so too."""
    return torch.from_numpy(np.exp(values.numpy()))


def _bins_of(confidence: Tensor) -> Tensor:
    return (confidence * BINS).long().clamp_(max=BINS - 1)


def _areas(scores: Tensor, positive: list[np.ndarray]) -> Values:
    """Sort each column once; its positives, few, are sorted again and found in it by binary search."""
    areas = []
    for first in range(0, len(positive), _COLUMNS):
        columns = np.ascontiguousarray(scores[:, first : first + _COLUMNS].numpy().T)
        found = [np.sort(column[positive[first + i]]) for i, column in enumerate(columns)]
        columns.sort(axis=1)
        for column, own in zip(columns, found, strict=True):
            areas.append(areas_in(column, own))
    roc, ap = np.mean(areas, axis=0)
    return {"roc_auc": float(roc), "average_precision": float(ap)}
