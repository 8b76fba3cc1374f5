"""Batches for losses, drawn from one seed, and their references by torch."""

from __future__ import annotations

import torch
import torch.nn.functional as functional

from hpometrics.metrics.features import Binary, Category, Number, Sequence, Set, Timeseries, Vector

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
            ("poisson_nll_loss", of_pair(functional.poisson_nll_loss)),
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
