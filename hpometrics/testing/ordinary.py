"""Ordinary batches: the outputs of any model of a feature, without extras that only some metrics read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ..metrics.features import AUDIO, IMAGE, NUMBER, RANKING, TEXT, TIMESERIES, VECTOR, OutputFeature, Ranking
from ..metrics.sample_data import OUTPUTS, Batch, draw

_NOISE = 0.3

ORDINARY: Mapping[str, OutputFeature] = {**OUTPUTS, RANKING: Ranking()}
"""The outputs of ordinary batches: those of the laws, but a ranking without side data."""


def ordinary(output: OutputFeature, rows: int, seed: int = 0) -> Batch:
    """Draw a batch that is made for no metric in particular: no extras, and numbers of either sign.

    A text has both its forms: token ids, and beside them the texts and the references.

    Raises:
        MetricInputError: there is no recipe for the feature.
    """
    if output.type in _MADE:
        return _MADE[output.type](rows, torch.Generator().manual_seed(seed))
    batch = draw(output, rows, _NOISE, seed)
    if output.type in (NUMBER, VECTOR, TIMESERIES):
        return {name: values - 200 for name, values in batch.items()}
    if output.type == TEXT:
        ignored: int = output.ignore_index  # type: ignore[attr-defined]  # a text has one
        spelt = {"texts": batch["logits"].argmax(-1), "references": batch["target"]}
        return batch | {name: _spelt(tokens, ignored) for name, tokens in spelt.items()}
    return batch


def _spelt(tokens: Tensor, ignored: int) -> list[str]:
    return [" ".join(f"w{token}" for token in row if token != ignored) for row in tokens.tolist()]


def _pictures(rows: int, random: torch.Generator) -> Batch:
    return _mixed(*torch.rand(2, rows, 3, 48, 48, generator=random, dtype=torch.float64))


def _sounds(rows: int, random: torch.Generator) -> Batch:
    """Draw sounds of one speaker, centered."""
    return _mixed(*(2 * torch.rand(2, rows, 800, generator=random, dtype=torch.float64) - 1))


def _rankings(rows: int, random: torch.Generator) -> Batch:
    target = (torch.rand(rows, 12, generator=random) < 0.3).long()
    return {"logits": target + torch.randn(rows, 12, generator=random, dtype=torch.float64), "target": target}


def _mixed(target: Tensor, wrong: Tensor) -> Batch:
    return {"predictions": torch.lerp(target, wrong, _NOISE), "target": target}


_MADE: Mapping[str, Callable[[int, torch.Generator], Batch]] = {
    IMAGE: _pictures,
    AUDIO: _sounds,
    RANKING: _rankings,
}
