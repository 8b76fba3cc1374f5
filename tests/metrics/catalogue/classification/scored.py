"""Scored epochs: random scores and targets as NumPy arrays, and our value of them over uneven batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.special
import torch

from hpometrics.metrics.registry.register import get_metric

SEEDS = [(120, 0, False), (120, 1, True), (13, 3, True)]
"""Rows, seed, whether many scores tie."""


@dataclass(frozen=True)
class Epoch:
    """Logits, target and weights of one epoch of one output."""

    feature: str
    logits: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    ties: bool = False

    @property
    def form(self) -> str:
        """What to hand over: of a category the softmax of equal rows may differ in its last bit."""
        return "probabilities" if self.ties and self.feature == "category" else "logits"

    @property
    def probabilities(self) -> np.ndarray:
        """Sigmoid or softmax of the logits."""
        return (
            scipy.special.softmax(self.logits, 1)
            if self.feature == "category"
            else scipy.special.expit(self.logits)
        )

    @property
    def shown(self) -> np.ndarray:
        """The target of each column, 0 or 1, (N, C)."""
        if self.feature == "category":
            return np.eye(self.logits.shape[1], dtype=int)[self.target]
        return self.target.reshape(len(self.target), -1)

    @property
    def columns(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Target and probability of each column."""
        return list(zip(self.shown.T, self.probabilities.reshape(self.shown.shape).T, strict=True))


def epoch(feature: str, rows: int, seed: int, ties: bool = False, classes: int = 4) -> Epoch:
    """Scores of a middling model, with few distinct values if `ties`; some rows weigh nothing."""
    random = np.random.default_rng([seed, rows])
    shape = (rows,) if feature == "binary" else (rows, classes)
    logits = random.normal(size=shape)
    if feature == "category":
        target = random.integers(classes, size=rows)
        logits[np.arange(rows), target] += 0.8
    else:
        target = (random.random(shape) < scipy.special.expit(logits - 0.3)).astype(int)
    if ties and feature == "category":  # whole rows, so that equal scores stay equal in any softmax
        logits = logits[random.integers(rows // 3 + 1, size=rows)]
    elif ties:
        logits = np.round(logits * 2) / 2
    return Epoch(feature, logits, target, random.integers(0, 4, rows).astype(float), ties)


def measured(name, case, weighted=False, form=None, dtype=torch.float64, output=None, make=None):
    """Our value, over two uneven batches; with `make` the metric itself as well."""
    metric, form = get_metric(name, output or case.feature), form or case.form
    given = torch.tensor(case.logits if form == "logits" else case.probabilities).to(dtype)
    target, weight = torch.tensor(case.target), torch.tensor(case.weight)
    third = -(-len(given) // 3)
    for part in (slice(None, third), slice(third, None)):
        extra = {"sample_weight": weight[part]} if weighted else {}
        metric.update(**{form: given[part]}, target=target[part], **extra)
    value = metric.compute().double().numpy()
    return (value, metric) if make else value


def over_columns(score, case, average="macro", weight=None):
    """A yes-or-no score (target, probability, sample_weight) averaged over the columns that have one."""
    score = score if weight is None else partial(score, sample_weight=weight)
    if average == "micro":
        spread = None if weight is None else np.repeat(weight, case.shown.shape[1])
        score = score if weight is None else partial(score, sample_weight=spread)
        return score(case.shown.reshape(-1), case.probabilities.reshape(-1))
    values = np.array([score(target, p) for target, p in case.columns])
    if average == "none":
        return values
    rows = np.ones(len(case.target)) if weight is None else weight
    counts = np.array([target @ rows if average == "weighted" else 1.0 for target, _ in case.columns])
    has = ~np.isnan(values)
    return np.average(values[has], weights=counts[has])
