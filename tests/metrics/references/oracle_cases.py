"""Cases for the oracles: random epochs of each feature as NumPy arrays, and our value of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.special
import scipy.stats
import torch

from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.features import InputType, parse_feature
from hpometrics.metrics.registry.register import get_metric
from hpometrics.testing import OUTPUTS

NAN = float("nan")


@dataclass(frozen=True)
class Case:
    """One epoch of one feature: scores (logits) where there are any, predictions, target."""

    feature: str
    logits: np.ndarray | None
    predictions: np.ndarray
    target: np.ndarray

    @property
    def probabilities(self) -> np.ndarray:
        """Sigmoid or softmax of the logits."""
        if self.feature in ("binary", "set"):
            return scipy.special.expit(self.logits)
        return scipy.special.softmax(self.logits, axis=-1)

    @property
    def columns(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """A yes-or-no problem per class or label: target, predictions, probabilities."""
        if self.feature == "binary":
            return [(self.target, self.predictions, self.probabilities)]
        if self.feature == "set":
            return list(zip(self.target.T, self.predictions.T, self.probabilities.T, strict=True))
        classes = range(self.logits.shape[1])
        return [(self.target == c, self.predictions == c, self.probabilities[:, c]) for c in classes]

    @property
    def tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Probabilities, predictions and target for torchmetrics."""
        probabilities = self.probabilities if self.logits is not None else self.predictions
        return torch.tensor(probabilities), torch.tensor(self.predictions), torch.tensor(self.target)


def make_case(feature: str, rows: int, seed: int, ties: bool) -> Case:
    """Random outputs of a middling model; a category's last class but one is never the target."""
    random = np.random.default_rng([seed, rows])
    shape = {"vector": (rows, 3), "timeseries": (rows, 5), "set": (rows, 3)}.get(feature, (rows,))
    if feature in ("number", "vector", "timeseries"):
        target = random.lognormal(size=shape)
        return Case(feature, None, np.abs(target + random.normal(0, 0.5, shape)), target)
    classes = {"category": 4, "sequence": 7, "text": 7}.get(feature, 2)
    if feature in ("sequence", "text"):
        shape = (rows, 5)
    target = random.integers(classes, size=shape)
    target[target == 2] = 3 if feature == "category" else 1
    shown = np.eye(classes)[target] if classes > 2 else 2 * target - 1
    logits = random.normal(size=(*shape, classes) if classes > 2 else shape) + 0.7 * shown
    logits = logits[random.integers(rows // 3 + 1, size=rows)] if ties else logits
    predictions = logits.argmax(-1) if classes > 2 else (logits > 0).astype(int)
    if feature in ("sequence", "text"):
        target[random.random(shape) < 0.3] = -100
    return Case(feature, logits, predictions, target)


Reference = Callable[[Case], float | np.ndarray]


def measured(name: str, case: Case, form: str = "logits", dtype: torch.dtype = torch.float64) -> np.ndarray:
    """Our value, over two uneven batches."""
    output = OUTPUTS.get(case.feature) or parse_feature(case.feature)
    metric = get_metric(name, output)
    source = case.predictions if case.logits is None else case.logits
    given, target = torch.tensor(source), torch.tensor(case.target)
    if case.logits is None:
        form = "predictions"
    elif form != "logits":
        given = Outputs(output, logits=given, target=target)[InputType(form)]
    given = given.to(dtype) if given.is_floating_point() else given
    third = -(-len(given) // 3)
    for part in (slice(None, third), slice(third, None)):
        metric.update(**{form: given[part]}, target=target[part])
    return metric.compute().double().numpy()


def expected(reference: Reference, case: Case) -> np.ndarray:
    """The reference's value; its warnings about odd data are its own affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(reference(case), dtype=float)
