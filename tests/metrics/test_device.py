from __future__ import annotations

import pytest
import torch

from hpometrics import MetricCollection, Ranking
from hpometrics.metrics._device import without_autograd

SCORES, TARGET = torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1, 0]])


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_what_is_made_within_can_be_added_to_later(mode):
    """In every mode of the caller's, which is the same again afterwards, after an error too."""
    with mode():
        before = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        with pytest.raises(ValueError, match="within"), without_autograd():
            assert not torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
            made = torch.ones(2)
            raise ValueError("within")
        assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == before
    assert not made.is_inference() and not made.requires_grad
    made += 1


def test_values_are_plain_whatever_the_mode():
    """A collection is updated and computed in inference mode, and goes on outside of it."""
    metrics = MetricCollection(["mrr", "gini@1", "ndcg@2"], Ranking(num_items=3))
    with torch.inference_mode():
        metrics.update(scores=SCORES, target=TARGET)
        first = metrics.compute()
    metrics.update(scores=SCORES.requires_grad_(), target=TARGET)
    assert {name: value.item() for name, value in metrics.compute().items()} == {
        name: value.item() for name, value in first.items()
    }
    assert not any(value.is_inference() for value in first.values())
