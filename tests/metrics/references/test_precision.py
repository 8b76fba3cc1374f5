"""Digits that survive: offsets, scales, narrow types, and scores that a sigmoid would make equal."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
from oracle_cases import Case, expected, make_case
from oracles import ORACLES

from hpometrics.metrics.registry.register import get_metric


def spread(size: float, offset: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Targets of a deviation `size` around `offset`, and predictions that follow them closely."""
    random = np.random.default_rng(seed)
    target = random.normal(size=1000) * size + offset
    return torch.tensor(target + random.normal(size=1000) * size / 10), torch.tensor(target)


@pytest.mark.parametrize(
    ("size", "offset"), [(1e-4, 0.0), (1e-8, 0.0), (1.0, 4096.0), (1.0, 1e6), (1e-3, 1e6)]
)
@pytest.mark.parametrize("name", ["r2", "explained_variance", "pearson"])
def test_shares_of_variation_survive_offset_and_scale(name, size, offset):
    """Where sums of squares in float32 give an R2 of 1.0000001 or 0: batches of 100, the two-pass value."""
    preds, target = spread(size, offset)
    metric = get_metric(name, "number")
    for start in range(0, 1000, 100):
        metric.update(preds[start : start + 100], target[start : start + 100])
    case = Case("number", None, preds.numpy(), target.numpy())
    np.testing.assert_allclose(metric.compute(), expected(ORACLES[name, "number"][0], case), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "preds", "target", "value"),
    [
        ("mse", torch.full((70_000,), 1.0).half(), torch.zeros(70_000), 1.0),
        ("mse", torch.tensor([300.0]).half(), torch.tensor([0.0]).half(), 90_000.0),
        ("mse", torch.tensor([100_000], dtype=torch.int32), torch.tensor([0], dtype=torch.int32), 1e10),
        ("mae", torch.tensor([0], dtype=torch.uint8), torch.tensor([255], dtype=torch.uint8), 255.0),
        ("mae", torch.tensor([255], dtype=torch.uint8), torch.tensor([0.0]), 255.0),
        ("mae", torch.full((1000,), 0.1, dtype=torch.float64), torch.zeros(1000), 0.1),
        ("mae", torch.tensor([True, False]), torch.tensor([0.0, 0.0]), 0.5),
    ],
)
def test_narrow_types_do_not_overflow(name, preds, target, value):
    """Half, int32 and uint8 are widened before any arithmetic."""
    metric = get_metric(name, "number")
    metric.update(preds, target)
    assert metric.compute().item() == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("form", "scores", "target", "value"),
    [
        ("logits", torch.linspace(18, 40, 100), torch.arange(100) >= 50, 1.0),
        ("logits", torch.linspace(-400, -300, 100), torch.arange(100) >= 50, 1.0),
        ("probabilities", torch.linspace(0.998, 0.999, 100), torch.arange(100) >= 50, 1.0),
        ("probabilities", torch.linspace(1e-12, 1e-10, 100), torch.arange(100) >= 50, 1.0),
        ("logits", torch.zeros(100), torch.arange(100) >= 50, 0.5),
        ("logits", torch.tensor([0.0, 1.0, 1.0, 1.0, 2.0, 2.0]), torch.tensor([0, 0, 1, 1, 0, 1]), 5.5 / 9),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ranking_sees_what_a_sigmoid_would_hide(form, scores, target, value, dtype):
    """Logits of 18 to 40 are in order although their sigmoids tie at 1; a tie counts one half."""
    metric = get_metric("roc_auc", "binary")
    metric.update(**{form: scores.to(dtype)}, target=target)
    assert metric.compute().item() == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("name", ["roc_auc(average=none)", "average_precision(average=none)"])
@pytest.mark.parametrize("form", ["logits", "probabilities"])
def test_a_sure_category_is_ranked_as_it_stands(name, form):
    """Probabilities far below the machine epsilon of float32 keep their order, as in scikit-learn."""
    case = make_case("category", 200, 6, ties=False)
    logits = torch.tensor(6 * case.logits, dtype=torch.float32)
    given = logits if form == "logits" else logits.softmax(1)
    metric = get_metric(name, "category")
    metric.update(**{form: given}, target=torch.tensor(case.target))
    score = sk.roc_auc_score if name.startswith("roc") else sk.average_precision_score
    ranked = logits.double().softmax(1).numpy() if form == "logits" else given.numpy()
    held = [c for c in range(4) if (case.target == c).any()]
    reference = [score(case.target == c, ranked[:, c]) for c in held]
    np.testing.assert_allclose(metric.compute()[held], reference, rtol=1e-5)
