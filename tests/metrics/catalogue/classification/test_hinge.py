from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
from scored import SEEDS, epoch, measured

from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.registry.register import get_metric


@pytest.mark.parametrize(("rows", "seed", "ties"), SEEDS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("feature", ["binary", "category", "set"])
def test_hinge_agrees_with_scikit_learn(feature, weighted, rows, seed, ties):
    """Binary, by Crammer & Singer for a category, and per label of a set."""
    case = epoch(feature, rows, seed, ties)
    weight = case.weight if weighted else None
    if feature == "set":
        columns = zip(case.target.T, case.logits.T, strict=True)
        expected = np.mean([sk.hinge_loss(t, x, labels=[0, 1], sample_weight=weight) for t, x in columns])
    else:
        labels = [0, 1] if feature == "binary" else list(range(4))
        expected = sk.hinge_loss(case.target, case.logits, labels=labels, sample_weight=weight)
    np.testing.assert_allclose(measured("hinge", case, weighted, form="logits"), expected, atol=1e-12)


def test_a_margin_is_between_logits():
    """Probabilities have none, and are refused."""
    with pytest.raises(MetricInputError, match="hinge reads logits"):
        get_metric("hinge", "binary").update(probabilities=torch.rand(3), target=torch.ones(3))
