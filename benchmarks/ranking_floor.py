"""The hand-fused pass: what the forty values cost when only what must be done is done, with `torch.topk`.

Per batch a copy of the scores with what was seen masked, one top-k, one look-up of what is relevant, running
sums over fifty places. No check of any input, no order among equal scores, no rows to leave out, no merge.
"""

from __future__ import annotations

import numpy as np
import torch
from rankings import CUTOFFS, OF_USERS, Evaluation, Values
from torch import Tensor

DEEPEST = max(CUTOFFS)
LAST = torch.tensor(CUTOFFS) - 1


def measure(task: Evaluation) -> Values:
    """Measure the forty values."""
    sums = torch.zeros(len(OF_USERS) + 1, len(CUTOFFS), dtype=torch.float64)
    counts = torch.zeros(len(CUTOFFS), task.items, dtype=torch.int64)
    for first, last in task.parts:
        seen, relevant = task.seen.part(first, last), task.relevant.part(first, last)
        scores = task.scores[first:last].clone()
        scores.numpy()[seen.row_of.numpy(), seen.items.numpy()] = -np.inf
        items = scores.topk(DEEPEST, dim=1).indices
        flags = torch.zeros(scores.shape, dtype=torch.bool)
        flags.numpy()[relevant.row_of.numpy(), relevant.items.numpy()] = True
        sums[:-1] += _of_users(flags.gather(1, items).double(), relevant.counts.double())
        sums[-1] += task.popularity[items].cumsum(1)[:, LAST].div(LAST + 1).sum(0)
        for i, (start, k) in enumerate(zip((0, *CUTOFFS), CUTOFFS, strict=False)):
            counts[i] += torch.bincount(items[:, start:k].reshape(-1), minlength=task.items)
    means = dict(zip((*OF_USERS, "arp"), (sums / task.users).tolist(), strict=True))
    named = {f"{name}@{k}": x for name, row in means.items() for k, x in zip(CUTOFFS, row, strict=True)}
    for k, upto in zip(CUTOFFS, counts.cumsum(0), strict=True):
        named |= {f"{name}@{k}": value for name, value in _of_items(upto).items()}
    return named


def _of_users(hits: Tensor, relevant: Tensor) -> Tensor:
    """Sums over users, (formulas, cut-offs), in the order of `OF_USERS`; grades are 0 or 1."""
    places = torch.arange(1, DEEPEST + 1, dtype=torch.float64)
    discounts = 1 / (places + 1).log2()
    found = hits.cumsum(1)
    most = torch.minimum(relevant.unsqueeze(1), (LAST + 1).double())
    ideal = torch.cat([torch.zeros(1), discounts.cumsum(0)])[most.long()]
    first = (hits * (found == 1) / places).cumsum(1)[:, LAST]
    upto = found[:, LAST]
    return torch.stack(
        [
            upto / (LAST + 1),
            upto / relevant.unsqueeze(1),
            (upto > 0).double(),
            (hits * discounts).cumsum(1)[:, LAST] / ideal,
            first,
            (hits * found / places).cumsum(1)[:, LAST] / most,
        ]
    ).sum(1)


def _of_items(counts: Tensor) -> Values:
    shares, items = counts / counts.sum(), len(counts)
    places = 2 * torch.arange(1, items + 1, dtype=torch.float64) - items - 1
    return {
        "item_coverage": (counts > 0).sum().item(),
        "gini": ((places * counts.sort().values).sum() / ((items - 1) * counts.sum())).item(),
        "shannon_entropy": torch.special.entr(shares.double()).sum().item(),
    }
