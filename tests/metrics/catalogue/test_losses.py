"""Every loss of torch by its name: the same number as torch's own, pooled; those of Ludwig; `loss`."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from real_outputs import fed

from hpometrics.exceptions import MetricInputError, MetricNameError
from hpometrics.metrics.features import (
    Binary,
    Category,
    Mask,
    Number,
    Sequence,
    Set,
    Timeseries,
    Vector,
    parse_feature,
)
from hpometrics.metrics.registry import all_entries, find_metric, get_metric

ROWS = 53


class Draw:
    """Random tensors of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int) -> torch.Tensor:
        """Standard normal, float64."""
        return 2 * torch.randn(*shape, generator=self.random, dtype=torch.float64)

    def labels(self, classes: int, *shape: int) -> torch.Tensor:
        """Classes."""
        return torch.randint(classes, shape, generator=self.random)

    def sides(self, rows: int) -> torch.Tensor:
        """-1 and 1."""
        return 2.0 * self.labels(2, rows) - 1


def plain(draw, shape):
    """Predictions and target of a real output."""
    return {"predictions": draw.normal(*shape), "target": draw.normal(*shape)}


def of_pair(loss, **options):
    """Torch's loss of predictions and target."""
    return lambda batch: loss(batch["predictions"], batch["target"], **options)


def of_logits(loss, **options):
    """Torch's loss of logits and a float target."""
    return lambda batch: loss(batch["logits"], batch["target"].double(), **options)


def listed(batch):
    """Torch's form of a multi-hot target: the right labels, then -1."""
    target = batch["target"]
    order = torch.argsort(target, dim=1, descending=True, stable=True)
    return functional.multilabel_margin_loss(
        batch["logits"], torch.where(target.gather(1, order) == 1, order, -1)
    )


def focal(batch, alpha=0.25, gamma=2.0):
    """Torchvision's sigmoid focal loss, from its paper."""
    p, y = batch["logits"].sigmoid(), batch["target"].double()
    right = p * y + (1 - p) * (1 - y)
    weight = alpha * y + (1 - alpha) * (1 - y)
    return (weight * (1 - right) ** gamma * -right.log()).mean()


def softmax_focal(batch, gamma=2.0):
    """The same of a class per row."""
    right = batch["logits"].softmax(1).gather(1, batch["target"].unsqueeze(1))
    return ((1 - right) ** gamma * -right.log()).mean()


def ctc(batch):
    """torch's, of labels padded by -100."""
    counted = batch["target"] >= 0
    return functional.ctc_loss(
        batch["logits"].log_softmax(-1).transpose(0, 1), batch["target"].clamp(min=1),
        batch.get("lengths", torch.full((len(counted),), counted.shape[1])), counted.sum(1),
    )  # fmt: skip


def ctc_batch(draw, lengths=False):
    """Up to three labels in nine positions."""
    target = 1 + draw.labels(6, ROWS, 9)
    target[torch.arange(9) >= 1 + draw.labels(3, ROWS, 1)] = -100
    batch = {"logits": draw.normal(ROWS, 9, 7), "target": target}
    return {**batch, "lengths": 6 + draw.labels(4, ROWS)} if lengths else batch


def smooth(logits, target, loss, **options):
    """Keyword arguments of a loss with classes."""
    return loss(logits, target, **options)


REAL = [(Number(), (ROWS,)), (Vector(), (ROWS, 4)), (Timeseries(), (ROWS, 3))]
CASES = [
    *[
        (name, output, lambda d, s=shape: plain(d, s), reference)
        for output, shape in REAL
        for name, reference in (
            ("l1", of_pair(functional.l1_loss)),
            ("mse_loss", of_pair(functional.mse_loss)),
            ("smooth_l1(beta=0.7)", of_pair(functional.smooth_l1_loss, beta=0.7)),
            ("huber(delta=1.3)", of_pair(functional.huber_loss, delta=1.3)),
            ("gaussian_nll(eps=0.000001)", None),
            ("poisson_nll(log_input=true)", of_pair(functional.poisson_nll_loss)),
            ("poisson_nll(log_input=true, full=true)", of_pair(functional.poisson_nll_loss, full=True)),
            ("poisson_nll", of_pair(functional.poisson_nll_loss, log_input=False)),
            ("poisson_nll(full=true)", of_pair(functional.poisson_nll_loss, log_input=False, full=True)),
        )
        if reference is not None
    ],
    *[
        (name, output, lambda d, s=shape: {"logits": 3 * d.normal(*s), "target": d.labels(2, *s)}, reference)
        for output, shape in ((Binary(), (ROWS,)), (Set(5), (ROWS, 5)))
        for name, reference in (
            ("bce_with_logits", of_logits(functional.binary_cross_entropy_with_logits)),
            ("bce", lambda b: functional.binary_cross_entropy(b["logits"].sigmoid(), b["target"].double())),
            ("soft_margin", lambda b: functional.soft_margin_loss(b["logits"], 2.0 * b["target"] - 1)),
            ("focal", focal),
            ("focal(alpha=0.6, gamma=3.5)", lambda b: focal(b, 0.6, 3.5)),
        )
    ],
    *[
        (name, Set(5), lambda d: {"logits": d.normal(ROWS, 5), "target": d.labels(2, ROWS, 5)}, reference)
        for name, reference in (
            ("multilabel_margin", listed),
            ("multilabel_soft_margin", of_logits(functional.multilabel_soft_margin_loss)),
            ("sigmoid_cross_entropy", of_logits(functional.binary_cross_entropy_with_logits)),
        )
    ],
    *[
        (name, Category(6), lambda d: {"logits": d.normal(ROWS, 6), "target": d.labels(6, ROWS)}, reference)
        for name, reference in (
            ("softmax_cross_entropy", lambda b: functional.cross_entropy(b["logits"], b["target"])),
            ("nll_loss", lambda b: functional.nll_loss(b["logits"].log_softmax(1), b["target"])),
            (
                "softmax_cross_entropy(label_smoothing=0.2)",
                lambda b: functional.cross_entropy(b["logits"], b["target"], label_smoothing=0.2),
            ),
            ("multi_margin", lambda b: functional.multi_margin_loss(b["logits"], b["target"])),
            (
                "multi_margin(p=2, margin=0.4)",
                lambda b: functional.multi_margin_loss(b["logits"], b["target"], p=2, margin=0.4),
            ),
            ("focal", softmax_focal),
            ("focal(gamma=0)", lambda b: functional.cross_entropy(b["logits"], b["target"])),
        )
    ],
    (
        "hinge_embedding(margin=1.5)", Number(),
        lambda d: {"predictions": d.normal(ROWS).abs(), "target": d.sides(ROWS)},
        of_pair(functional.hinge_embedding_loss, margin=1.5),
    ),
    (
        "margin_ranking(margin=0.3)", Number(),
        lambda d: {"predictions": d.normal(ROWS), "target": d.sides(ROWS), "other": d.normal(ROWS)},
        lambda b: functional.margin_ranking_loss(b["predictions"], b["other"], b["target"], margin=0.3),
    ),
    (
        "cosine_embedding(margin=0.1)", Vector(),
        lambda d: {**plain(d, (ROWS, 4)), "similar": d.sides(ROWS)},
        lambda b: functional.cosine_embedding_loss(b["predictions"], b["target"], b["similar"], margin=0.1),
    ),
    (
        "triplet_margin(margin=2.0, p=1.5)", Vector(),
        lambda d: {**plain(d, (ROWS, 4)), "negative": d.normal(ROWS, 4)},
        lambda b: functional.triplet_margin_loss(
            b["predictions"], b["target"], b["negative"], margin=2.0, p=1.5
        ),
    ),
    (
        "triplet_margin(swap=true)", Vector(),
        lambda d: {**plain(d, (ROWS, 4)), "negative": d.normal(ROWS, 4)},
        lambda b: functional.triplet_margin_loss(b["predictions"], b["target"], b["negative"], swap=True),
    ),
    ("ctc", Sequence(7), ctc_batch, ctc),
    ("ctc", Sequence(7), lambda d: ctc_batch(d, lengths=True), ctc),
]  # fmt: skip


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
    "LinearCrossEntropyLoss": "owns the last layer; of that layer's outputs it is cross_entropy",
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
        assert str(find_metric(name, feature).objective) == "minimize"


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


LUDWIG = {
    "binary": "binary_weighted_cross_entropy loss",
    "category": "softmax_cross_entropy corn loss",
    "set": "sigmoid_cross_entropy loss",
    "sequence": "sequence_softmax_cross_entropy next_token_softmax_cross_entropy loss",
    "text": "sequence_softmax_cross_entropy next_token_softmax_cross_entropy loss",
    "mask": "softmax_cross_entropy loss",
    "number": "mean_squared_error mean_absolute_error mean_absolute_percentage_error root_mean_squared_error "
    "root_mean_squared_percentage_error r2 huber loss",
    "vector": "mean_squared_error mean_absolute_error mean_absolute_percentage_error r2 huber loss",
    "timeseries": "mean_squared_error mean_absolute_error mean_absolute_percentage_error r2 huber loss "
    "root_mean_squared_error mean_absolute_scaled_error symmetric_mean_absolute_percentage_error",
}


@pytest.mark.parametrize("feature", LUDWIG)
def test_ludwigs_names(feature):
    """Each of its regression names and losses resolves for its output features, with its direction."""
    for name in LUDWIG[feature].split():
        assert str(find_metric(name, feature).objective) == ("maximize" if name == "r2" else "minimize")


def test_a_probability_of_zero_costs_a_hundred():
    """Torch's way of cutting off the logarithm; from logits nothing is cut off."""
    target = torch.tensor([1, 0])
    assert (
        fed("bce", Binary(), probabilities=torch.tensor([0.0, 1.0]), target=target).compute().item() == 100.0
    )
    logits = torch.tensor([-500.0, 500.0])
    assert fed("bce", Binary(), logits=logits, target=target).compute().item() == 500.0


def ludwig_bwce(logits, target, weight, robust):
    """Ludwig's, without the confidence penalty."""
    loss = functional.binary_cross_entropy_with_logits(
        logits, target.double(), pos_weight=torch.tensor([weight], dtype=torch.float64)
    )
    return ((1 - robust) * loss + robust / 2).item()


@pytest.mark.parametrize(("weight", "robust"), [(1.0, 0.0), (3.0, 0.0), (0.4, 0.3)])
def test_ludwigs_weighted_cross_entropy(weight, robust):
    """Its formula of the whole epoch, in uneven batches."""
    draw = Draw(1)
    batch = {"logits": draw.normal(ROWS), "target": draw.labels(2, ROWS)}
    name = f"binary_weighted_cross_entropy(positive_class_weight={weight}, robust_lambda={robust})"
    expected = ludwig_bwce(batch["logits"], batch["target"], weight, robust)
    assert fed(name, Binary(), [10, 43], **batch).compute().item() == pytest.approx(expected, rel=1e-12)


def test_the_price_of_being_sure():
    """Nothing for a coin, one for certainty: the entropy of each row against log(2)."""
    name = "binary_weighted_cross_entropy(confidence_penalty=2.0)"
    coin = fed(name, Binary(), logits=torch.zeros(1), target=torch.ones(1)).compute().item()
    sure = fed(name, Binary(), logits=torch.full((1,), 60.0), target=torch.ones(1)).compute().item()
    assert (coin, sure) == pytest.approx((math.log(2), 2.0), abs=1e-9)
    p = np.array([0.2, 0.7])
    entropy = -(p * np.log(p) + (1 - p) * np.log(1 - p))
    expected = (-np.log(p) + 2 * (1 - entropy / np.log(2))).mean()
    got = fed(name, Binary(), logits=torch.logit(torch.tensor(p)), target=torch.ones(2)).compute().item()
    assert got == pytest.approx(expected, rel=1e-12)


def corn(logits, target):
    """Question by question, as coral-pytorch does."""
    total, asked = 0.0, 0
    for k in range(logits.shape[1] - 1):
        reached = target >= k
        beyond = (target[reached] > k).double()
        total += functional.binary_cross_entropy_with_logits(
            logits[reached, k], beyond, reduction="sum"
        ).item()
        asked += int(reached.sum())
    return total / asked


@pytest.mark.parametrize("seed", range(3))
def test_ordered_classes(seed):
    """CORN of the whole epoch, every question weighing the same."""
    draw = Draw(seed)
    batch = {"logits": draw.normal(ROWS, 5), "target": draw.labels(5, ROWS)}
    got = fed("corn", Category(5), [1, 12, 40], **batch).compute().item()
    assert got == pytest.approx(corn(batch["logits"], batch["target"]), rel=1e-12)


def test_weights_are_repetitions():
    """Of losses that average rows, and of those that average questions."""
    draw = Draw(4)
    batch = {"logits": draw.normal(ROWS, 5), "target": draw.labels(5, ROWS)}
    times = draw.labels(4, ROWS)
    repeated = {name: x.repeat_interleave(times, 0) for name, x in batch.items()}
    for name in ("corn", "softmax_cross_entropy", "focal", "multi_margin"):
        weighed = fed(name, Category(5), [20, 33], **batch, sample_weight=times).compute().item()
        assert weighed == pytest.approx(fed(name, Category(5), **repeated).compute().item(), rel=1e-12)


def test_what_is_refused():
    """Targets, rates, labels and parameters that a loss cannot have."""
    two = torch.ones(2)
    with pytest.raises(
        MetricInputError, match="hinge_embedding reads targets of -1 and 1, got values from 0 to 0"
    ):
        get_metric("hinge_embedding", Number()).update(two, 0 * two)
    with pytest.raises(MetricInputError, match=r"margin_ranking reads other= beside .*; other= is missing"):
        get_metric("margin_ranking", Number()).update(two, two)
    with pytest.raises(
        MetricInputError, match="cosine_embedding reads similar= of -1 and 1, got values from 3"
    ):
        get_metric("cosine_embedding", Vector()).update(torch.ones(2, 2), torch.ones(2, 2), similar=3 * two)
    with pytest.raises(
        MetricInputError, match="poisson_nll reads rates and counts from 0, got predictions from -1"
    ):
        get_metric("poisson_nll", Number()).update(-two, two)
    with pytest.raises(MetricInputError, match="ctc: a target holds the blank, 0"):
        get_metric("ctc", Sequence(3)).update(torch.zeros(1, 2, 3), torch.tensor([[0, -100]]))
    with pytest.raises(MetricInputError, match="ctc: labels come first in a row"):
        get_metric("ctc", Sequence(3)).update(torch.zeros(1, 2, 3), torch.tensor([[-100, 1]]))
    with pytest.raises(MetricInputError, match=r"reads lengths= of shape \(1,\), each in 1..2"):
        get_metric("ctc", Sequence(3)).update(torch.zeros(1, 2, 3), torch.tensor([[1, -100]]), lengths=[5])
    for name, feature in (("multi_margin(p=3)", "category"), ("focal(gamma=-1)", "binary"),
                          ("huber(delta=0)", "number"), ("cosine_embedding(margin=2)", "vector"),
                          ("softmax_cross_entropy(label_smoothing=2)", "category"),
                          ("binary_weighted_cross_entropy(robust_lambda=2)", "binary"),
                          ("triplet_margin(margin=0)", "vector")):  # fmt: skip
        with pytest.raises(MetricNameError):
            get_metric(name, feature)


def test_labels_that_do_not_fit_into_their_positions():
    """An infinite loss is undefined, with the reason."""
    metric = get_metric("ctc", Sequence(3))
    metric.update(torch.zeros(1, 2, 3), torch.tensor([[1, 1]]))  # a repetition needs a blank between
    assert metric.compute().isnan()
    assert metric.undefined_reason == "a row has fewer positions than its labels need"


@pytest.mark.parametrize("feature", ["binary", "category", "set", "number", "vector", "timeseries"])
def test_the_loss_of_the_caller(feature):
    """One value a row, or one a batch that weighs as much as its rows; the outputs are not read."""
    target = torch.ones(4, 2) if feature in ("set", "vector", "timeseries") else torch.ones(4)
    metric = get_metric("loss", parse_feature(feature))
    metric.update(predictions=target, target=target, loss=torch.tensor([1.0, 2.0, 3.0, 4.0]))
    metric.update(predictions=target[:2], target=target[:2], loss=torch.tensor(7.0))
    assert metric.compute().item() == (10 + 14) / 6


def test_the_loss_is_needed_and_of_the_rows():
    """Missing, of another shape, not finite, or one value whose rows would have to weigh."""
    metric, two = get_metric("loss", Binary()), torch.ones(2)
    with pytest.raises(MetricInputError, match="loss reads loss=, the criterion's value"):
        metric.update(two, two)
    with pytest.raises(MetricInputError, match=r"as one value or one a row, got shape \(2, 1\)"):
        metric.update(two, two, loss=torch.ones(2, 1))
    with pytest.raises(MetricInputError, match="the batch has 2 rows, got shape"):
        metric.update(two, two, loss=torch.ones(3))
    with pytest.raises(MetricInputError, match="nan or infinite"):
        metric.update(two, two, loss=torch.nan)
    with pytest.raises(MetricInputError, match="cannot be weighed"):
        metric.update(two, two, loss=1.0, sample_weight=two)


def test_every_loss_file_is_compared_here():
    """A loss added to the catalogue must be compared with its reference."""
    compared = {get_metric(name, output).name.partition("(")[0] for name, output, _, _ in CASES}
    compared |= {"loss", "corn", "binary_weighted_cross_entropy"}
    modules = ("losses", "label_losses", "class_losses", "pair_losses", "alignment")
    found = {e.name for e in all_entries() if e.path.partition(":")[0].rpartition(".")[2] in modules}
    assert found <= compared
