"""Decoded sequences: the token ids that a sequence holds, without padding and end, on any device."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..batch import Outputs
from .totals import RowTotals

_CELLS = 1 << 24  # of one table of positions by positions


class Decoded(NamedTuple):
    """Token ids (N, T) of predictions and target, and how many of each row, from the left, count."""

    preds: Tensor
    preds_lengths: Tensor
    target: Tensor
    target_lengths: Tensor


def decoded(batch: Outputs, end: int | None) -> Decoded:
    """The block of sequences as they would be read.

    Without an `end` token, prediction and target are read at the positions that count. With one, each ends
    before its first: the prediction may then be longer or shorter than the target.
    """
    return batch.block(f"decoded {end}", lambda batch: _decoded(batch, end))


def _decoded(batch: Outputs, end: int | None) -> Decoded:
    counted, preds = batch.counted, batch.predictions.long()
    to_the_left = (~counted).long().argsort(dim=1, stable=True)
    target, length = batch.index.gather(1, to_the_left), counted.sum(1)
    if end is None:
        return Decoded(preds.gather(1, to_the_left), length, target, length)
    return Decoded(preds, _before(preds, end), target, torch.minimum(length, _before(target, end)))


def _before(ids: Tensor, end: int) -> Tensor:
    """How many tokens stand before the first `end` of each row."""
    return ((ids == end).cumsum(1) == 0).sum(1)


class SequenceBleuCounts(RowTotals):
    """Lengths, matches and possible matches of n-grams of ids: [predicted, target, orders + orders]."""

    def __init__(self, orders: int, end: int | None, unk: int | None) -> None:
        super().__init__(orders=orders, end=end, unk=unk)

    def columns(self, batch: Outputs) -> Tensor:
        """Count each row; some rows at a time, so that no table of positions becomes large."""
        found = decoded(batch, self.params["end"])
        rows = max(1, _CELLS // max(1, found.preds.shape[1]) ** 2)
        parts = zip(*(torch.split(tensor, rows) for tensor in found), strict=True)
        return torch.cat([self._counts(Decoded(*part)) for part in parts])

    def _counts(self, found: Decoded) -> Tensor:
        places = torch.arange(found.preds.shape[1], device=found.preds.device)
        said = places < found.preds_lengths.unsqueeze(1)
        right = places < found.target_lengths.unsqueeze(1)
        if self.params["unk"] is not None:
            right &= found.target != self.params["unk"]
        shared = _pairs(found.preds, found.target) & said.unsqueeze(2) & right.unsqueeze(1)
        again = _pairs(found.preds, found.preds) & said.unsqueeze(2) & said.unsqueeze(1)
        matched, possible, same, repeated = [], [], shared, again
        for order in range(1, self.params["orders"] + 1):
            if order > 1:
                same, repeated = _longer(same, shared, order), _longer(repeated, again, order)
            earlier = repeated.tril(-1).sum(2)  # how often the n-gram came before in the prediction
            matched.append((earlier < same.sum(2)).sum(1))
            possible.append((found.preds_lengths - order + 1).clamp(min=0))
        return torch.stack([found.preds_lengths, found.target_lengths, *matched, *possible], 1).double()


def _pairs(first: Tensor, second: Tensor) -> Tensor:
    return first.unsqueeze(2) == second.unsqueeze(1)


def _longer(same: Tensor, tokens: Tensor, order: int) -> Tensor:
    """Where n-grams of one order more are the same: those of before, and the tokens behind them."""
    longer = torch.zeros_like(same)
    step = order - 1
    longer[:, :-step, :-step] = same[:, :-step, :-step] & tokens[:, step:, step:]
    return longer
