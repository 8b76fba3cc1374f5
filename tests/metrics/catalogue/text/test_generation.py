"""Generated ids: BLEU, edits and lengths of decoded sequences."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from hpometrics.exceptions import MetricNameError
from hpometrics.metrics.features import Sequence
from hpometrics.metrics.registry.register import get_metric
from hpometrics.metrics.statistics.edits import edit_distance

PAD, END, UNK = -100, 0, 1


def draw(seed: int, rows: int = 40, length: int = 12, words: int = 6) -> tuple[Tensor, Tensor]:
    """Draw ids with an end, and targets that are padded behind theirs; half of the ids are right."""
    random = torch.Generator().manual_seed(seed)
    target, guess = torch.randint(words, (2, rows, length), generator=random)
    preds = torch.where(torch.rand(rows, length, generator=random) < 0.5, guess, target)
    behind = (target == END).cumsum(1) > 1
    return preds, target.masked_fill(behind, PAD)


def read(ids: Tensor) -> list[list[int]]:
    """What stands before the end or the padding of each row."""
    rows = []
    for row in ids.tolist():
        stop = next((i for i, token in enumerate(row) if token in (END, PAD)), len(row))
        rows.append(row[:stop])
    return rows


def corpus_bleu(said: list[list[int]], right: list[list[int]], order: int) -> float:
    """Fairseq's corpus BLEU, written out: an unknown token of the target matches nothing."""
    logs = 0.0
    for n in range(1, order + 1):
        matched = possible = 0
        for row, wanted in zip(said, right, strict=True):
            grams, have = (Counter(tuple(x[i : i + n]) for i in range(len(x) - n + 1)) for x in (row, wanted))
            possible += grams.total()
            matched += sum(min(c, have[gram]) for gram, c in grams.items() if UNK not in gram)
        logs += math.log(matched / possible) if matched else -math.inf
    lengths = sum(map(len, right)) / sum(map(len, said))
    return 100 * min(1, math.exp(1 - lengths)) * math.exp(logs / order)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_fairseq_bleu_by_counters(seed, order):
    """Pooled counts of all batches."""
    preds, target = draw(seed)
    metric = get_metric(f"fairseq_bleu(end={END}, order={order}, unk={UNK})", Sequence())
    for part in zip(preds.split(7), target.split(7), strict=True):
        metric.update(*part)
    expected = corpus_bleu(read(preds), read(target), order)
    assert metric.compute().item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_edits_by_rows(seed):
    """The table over all rows at once gives the distance of each."""
    preds, target = draw(seed)
    edits = [edit_distance(*row) for row in zip(read(preds), read(target), strict=True)]
    distance, rate = (
        get_metric(f"{name}(end={END})", Sequence()) for name in ("edit_distance", "token_error_rate")
    )
    distance.update(preds, target)
    rate.update(preds, target)
    assert distance.compute().item() == pytest.approx(sum(edits) / len(edits))
    assert rate.compute().item() == pytest.approx(sum(edits) / sum(map(len, read(target))))


def test_without_an_end_padding_does_not_count():
    """Prediction and target are read where the target counts, wherever that is."""
    preds, target = torch.tensor([[9, 4, 9, 5, 6]]), torch.tensor([[PAD, 4, PAD, 5, 7]])
    for name, expected in (("edit_distance", 1), ("token_error_rate", 1 / 3), ("gen_n_toks", 3)):
        metric = get_metric(name, Sequence())
        metric.update(preds, target)
        assert metric.compute().item() == pytest.approx(expected)


def test_nothing_generated():
    """Only ends: no length, no BLEU."""
    metric = get_metric(f"fairseq_bleu(end={END})", Sequence())
    metric.update(torch.tensor([[END, 3]]), torch.tensor([[3, 3]]))
    assert metric.compute().isnan()
    assert metric.undefined_reason == "no tokens were predicted"


def test_an_order_that_is_not_counted():
    """The error names the range."""
    with pytest.raises(MetricNameError, match="order must be from 1 to 4, got 0"):
        get_metric("fairseq_bleu(order=0)", Sequence())
