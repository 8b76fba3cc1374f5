"""Collections of the sample metrics, and what they are fed."""

from __future__ import annotations

import itertools

import torch
from sample_metrics import SAMPLES

from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Number
from hpometrics.testing import all_subjects, draw

KINDS = ["gap", "own_gap", "shared_gap"]
PREDS = torch.tensor([1.0, 2.0, 6.0])
TARGET = torch.tensor([0.0, 0.0, 0.0])


def collection(*names: str) -> MetricCollection:
    """The sample metrics, or those named."""
    return MetricCollection(names or list(SAMPLES), Number())


def fed(panel: MetricCollection, preds=PREDS, target=TARGET, **extras) -> MetricCollection:
    """The same collection after one more batch."""
    panel.update(predictions=preds, target=target, **extras)
    return panel


def values(panel: MetricCollection) -> dict[str, float]:
    """The values as plain numbers."""
    return {name: value.item() for name, value in panel.compute().items()}


EVERY_ORDER = list(itertools.permutations(KINDS))


def company_of(output):
    """Every use of every metric of the output that measures what `draw` gives."""
    return [subject.name for subject in all_subjects(output.type) if subject.source is draw]
