"""Class totals are what a confusion matrix has on its diagonal and at its margins."""

from __future__ import annotations

import pytest
import torch

from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.features import Sequence
from hpometrics.metrics.statistics.confusion import ClassTotals, Confusion


def batch(size: int, rows: int, seed: int, weighted: bool = False, output: Sequence | None = None) -> Outputs:
    """Random tokens, a third of them padding."""
    random = torch.Generator().manual_seed(seed)
    target, preds = torch.randint(size, (2, rows, 5), generator=random)
    target = target.masked_fill(torch.rand(rows, 5, generator=random) < 0.3, -100)
    weight = torch.rand(rows, generator=random, dtype=torch.float64) if weighted else None
    return Outputs(output or Sequence(), predictions=preds, target=target, sample_weight=weight)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("vocabulary", [None, 9])
def test_they_agree_with_the_matrix(vocabulary, weighted):
    """Also when later batches hold tokens that earlier ones did not, and when parts are merged."""
    output = Sequence(vocabulary)
    totals, other, matrix = ClassTotals(), ClassTotals(), Confusion()
    for number, size in enumerate((3, 9, 5)):
        given = batch(size, 20, number, weighted, output)
        (other if number == 1 else totals).update(given)
        matrix.update(given)
    totals.merge(other)
    for name in ("tp", "fp", "fn", "tn"):
        torch.testing.assert_close(getattr(totals.counts, name), getattr(matrix.counts, name))


def test_whole_rows_are_counted_in_whole_numbers():
    """int64 without weights, float64 with them."""
    for weighted, dtype in ((False, torch.int64), (True, torch.float64)):
        totals = ClassTotals()
        totals.update(batch(4, 10, 0, weighted))
        assert totals.state()["totals"].dtype is dtype


def test_scores_of_another_width_are_refused():
    """As everywhere: a vocabulary does not change in the middle of an epoch."""
    totals = ClassTotals()
    tokens = torch.zeros(2, 3, dtype=torch.int64)
    totals.update(Outputs(Sequence(), logits=torch.zeros(2, 3, 4), target=tokens))
    with pytest.raises(MetricInputError, match="scores of 4 classes, this one has 5"):
        totals.check(Outputs(Sequence(), logits=torch.zeros(2, 3, 5), target=tokens))
