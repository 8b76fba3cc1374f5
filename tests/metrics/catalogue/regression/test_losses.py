"""Every loss of torch by its name: the same number as torch's own, pooled."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as functional
from loss_draws import CASES, ROWS, Draw
from real_outputs import fed

from hpometrics.metrics.features import Mask
from hpometrics.metrics.registry.index import all_entries
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("name", "output", "make", "reference"), CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES]
)
def test_torch_agrees(name, output, make, reference, seed):
    """Over three uneven batches, to the precision of float64."""
    batch = make(Draw(seed))
    if name.startswith("poisson"):
        batch["target"] = batch["target"].abs().round()
        batch["predictions"] = batch["predictions"] if "log_input" in name else batch["predictions"].abs()
    metric = fed(name, output, [1, 40, ROWS - 41], **batch)
    assert metric.compute().item() == pytest.approx(reference(batch).item(), rel=1e-9)


TORCH = {
    "BCELoss": ("bce", "binary"), "BCEWithLogitsLoss": ("bce_with_logits", "binary"),
    "CTCLoss": ("ctc", "sequence"),
    "CosineEmbeddingLoss": ("cosine_embedding", "vector"), "CrossEntropyLoss": ("cross_entropy", "category"),
    "GaussianNLLLoss": ("gaussian_nll", "number"), "HingeEmbeddingLoss": ("hinge_embedding", "number"),
    "HuberLoss": ("huber", "number"), "KLDivLoss": ("kl_div", "vector"), "L1Loss": ("l1", "number"),
    "MSELoss": ("mse", "number"), "MarginRankingLoss": ("margin_ranking", "number"),
    "MultiLabelMarginLoss": ("multilabel_margin", "set"),
    "MultiLabelSoftMarginLoss": ("multilabel_soft_margin", "set"),
    "MultiMarginLoss": ("multi_margin", "category"), "NLLLoss": ("nll_loss", "category"),
    "PoissonNLLLoss": ("poisson_nll", "number"), "SmoothL1Loss": ("smooth_l1", "number"),
    "SoftMarginLoss": ("soft_margin", "binary"), "TripletMarginLoss": ("triplet_margin", "vector"),
}  # fmt: skip
"""Each loss of torch and the name and output that it goes by here."""


LEFT_OUT = {
    "AdaptiveLogSoftmaxWithLoss": "owns the last layer; its log-probabilities are logits of cross_entropy",
    "LinearCrossEntropyLoss": "owns the last layer; of that layer's outputs it measures; cross_entropy",
    "NLLLoss2d": "the deprecated name of NLLLoss for pictures",
    "TripletMarginWithDistanceLoss": "takes a function; hand its values over as loss=",
}
"""Losses of torch whose inputs are no outputs of a feature -> what to do."""


def test_every_loss_of_torch_has_a_name_or_a_reason():
    """A loss that torch adds has to be decided on."""
    losses = {name for name in dir(torch.nn) if name.endswith(("Loss", "Loss2d"))}
    assert losses <= TORCH.keys() | LEFT_OUT.keys()
    assert all(LEFT_OUT.values())
    for name, feature in TORCH.values():
        assert str(find_metric(name, feature).direction) == "minimize"


@pytest.mark.parametrize("seed", range(2))
def test_pixels(seed):
    """Ludwig's cross entropy of pictures: every pixel that counts weighs the same, in uneven batches."""
    draw = Draw(seed)
    batch = {"logits": draw.normal(7, 3, 4, 5), "target": draw.labels(3, 7, 4, 5)}
    batch["target"][:, 0] = 255
    expected = functional.cross_entropy(batch["logits"], batch["target"], ignore_index=255)
    for name in ("softmax_cross_entropy", "focal(gamma=0)"):
        got = fed(name, Mask(3, ignore_index=255), [1, 4, 2], **batch).compute().item()
        assert got == pytest.approx(expected.item(), rel=1e-12)


def test_every_loss_file_is_compared_here():
    """A loss added to the catalogue must be compared with its reference."""
    compared = {get_metric(name, output).name.partition("(")[0] for name, output, _, _ in CASES}
    compared |= {"loss", "corn", "binary_weighted_cross_entropy"}
    compared |= {"hinge"}  # which test_hinge.py compares
    modules = ("losses", "pair_losses")
    found = {e.name for e in all_entries() if e.path.partition(":")[0].rpartition(".")[2] in modules}
    assert found | {"ctc"} <= compared
