"""What is computed on a device, where nobody reads a value, is what the host computes, of every metric."""

from __future__ import annotations

import pytest
import torch
from matrix import covering, entries, traits

from hpometrics.metrics.features import RANKING
from hpometrics.testing import subjects_of
from hpometrics.testing.laws.inputs import LABELED
from hpometrics.testing.subjects import is_here

ENTRIES = [entry for entry in entries() if is_here(entry) and entry.feature_type != RANKING]
"""Those of rankings are tried in every form, see `metrics/retrieval/test_rankings_on_device.py`."""


def _measured(subject):
    metric = subject.make()
    for seed in (0, 1):
        metric.update(**subject.draw(40, seed=seed))
    return metric.compute().double(), metric.undefined_reason


@pytest.mark.parametrize("entry", covering(ENTRIES, traits, ids=str))
def test_a_value_is_the_same(entry, elsewhere):
    """The way over a device is gone by tensors of the host, for each use of a metric."""
    subjects = subjects_of(entry)
    here = [_measured(subject) for subject in subjects]
    elsewhere()
    for subject, (value, reason) in zip(subjects, here, strict=True):
        found, why = _measured(subject)
        torch.testing.assert_close(found, value, rtol=1e-9, atol=1e-9, equal_nan=True, msg=str(subject))
        assert (why is None) is (reason is None)


@pytest.mark.parametrize(
    "entry", covering([one for one in ENTRIES if one.feature_type in LABELED], traits, ids=str)
)
def test_a_label_that_is_no_class_voids_the_value(entry, elsewhere):
    """It is found when the value is computed; until then it is no index, which would end the process."""
    elsewhere()
    for subject in subjects_of(entry):
        for label in (99, -7):
            batch, metric = subject.draw(40), subject.make()
            batch["target"].view(-1)[-1] = label
            metric.update(**batch)
            assert metric.compute().isnan().all() and "batch 0: target of a" in metric.undefined_reason
