"""An update on a device makes the host wait for nothing: tensors without values show it on any machine."""

from __future__ import annotations

import pytest
import torch

from hpometrics.metrics.registry import all_entries
from hpometrics.testing import subjects_of

READS = {
    "statistics.contingency": "which pairs of groups occur depends on the data",
    "catalogue.reference": "torchmetrics' own updates read what they are given",
}
"""What reads values back by its nature: part of the path of its class or statistic -> why."""

WITHOUT_KERNEL = {"ctc": "torch has no shape function for its loss"}


def _waits(entry) -> bool:
    """Whether an update of the metric has to read from the device, or cannot be tried."""
    metric = subjects_of(entry)[0].make()
    homes = [entry.path, *(type(statistic).__module__ for statistic in metric.kept.values())]
    return entry.name in WITHOUT_KERNEL or any(part in home for part in READS for home in homes)


def _on_device(batch):
    """The same batch on a device whose tensors have shapes and dtypes, and no values to read."""
    return {name: torch.empty_like(value, device="meta") for name, value in batch.items()}


ENTRIES = [
    entry
    for entry in all_entries()
    if not entry.requires
    and all(isinstance(value, torch.Tensor) for value in subjects_of(entry)[0].draw(2).values())
    and not _waits(entry)
]


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_an_update_reads_nothing(entry):
    """Neither checks nor statistics ask a tensor for a value: `.item()` or `nonzero` would fail here."""
    subject = subjects_of(entry)[0]
    metric = subject.make()
    for seed in (0, 1):
        metric.update(**_on_device(subject.draw(40, seed=seed)))
    assert metric.update_count == 2


def test_what_reads_is_listed_by_name():
    """Most metrics read nothing; those that do are known."""
    assert len(ENTRIES) > 350 and all(READS.values()) and all(WITHOUT_KERNEL.values())
