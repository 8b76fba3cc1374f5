"""A row for each metric that has an oracle among the tests: what scikit-learn, scipy or torchmetrics take."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch

from hpometrics.metrics.features import parse_feature
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric
from hpometrics.testing import OUTPUTS

from .row import Measure, Row, Size

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests/metrics/references"))
from oracle_cases import expected, make_case
from oracles import ORACLES

ROWS, BATCH = 100_000, 1_024


def reference_rows(metric: str) -> list[Row]:
    """Return a row for each output of a metric that has an oracle, by any name of the metric."""
    return [
        Row(
            f"{name} of {feature}",
            f"{ROWS:,} rows in batches of {BATCH:,}",
            "its oracle",
            1.0,
            (metric,),
            partial(_make, name, feature),
            tolerance=max(tolerance, 1e-9),
            turns=3,
        )
        for (name, feature), (_, tolerance) in ORACLES.items()
        if name.partition("(")[0] == metric or find_metric(name, feature).name.metric == metric
    ]


def _make(name: str, feature: str, size: Size) -> tuple[Measure, Measure]:
    case = make_case(feature, size(ROWS), seed=7, ties=False)
    source = torch.tensor(case.predictions if case.logits is None else case.logits)
    form = "predictions" if case.logits is None else "logits"
    target = torch.tensor(case.target)
    reference, _ = ORACLES[name, feature]

    def ours() -> np.ndarray:
        metric = get_metric(name, OUTPUTS.get(feature) or parse_feature(feature))
        for outputs, right in zip(source.split(BATCH), target.split(BATCH), strict=True):
            metric.update(**{form: outputs}, target=right)
        return metric.compute().double().numpy()

    return ours, lambda: expected(reference, case)
