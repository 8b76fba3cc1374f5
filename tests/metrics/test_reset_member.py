"""What `MetricCollection.reset` costs a member, and what it may not leave behind."""

from __future__ import annotations

import torch

from hpometrics import MetricCollection
from hpometrics.metrics.features import Binary
from hpometrics.metrics.keeper import Keeper


def test_a_member_without_a_state_of_its_own_forgets_without_a_reset_of_its_own(monkeypatch):
    """Its statistics are the collection's: what is left are a count and a value."""
    panel = MetricCollection(["accuracy", "brier"], output=Binary())
    panel.update(probabilities=torch.tensor([0.9, 0.2]), target=torch.tensor([1, 1]))
    panel.compute()
    calls = []
    monkeypatch.setattr(Keeper, "_reset_own", lambda self: calls.append(self.name))
    panel.reset()
    assert not calls
    assert panel["brier"].update_count == 0
    assert panel.compute()["brier"].isnan()
