"""A collection under torch.distributed: every rank has the value of all rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from ranks import on_ranks
from sample_collections import KINDS, collection, fed, values
from sample_metrics import SAMPLES

from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import NUMBER, Binary
from hpometrics.metrics.registry.register import get_metric, register_metric
from hpometrics.testing import cut, draw

pytestmark = pytest.mark.usefixtures("samples")


RANKS = 3
SHARDS = {0: [7, 30], 1: [13], 2: []}
PANEL = ["accuracy", "f1", "roc_auc", "log_loss", "ece", "mcc"]


def on_rank(rank: int) -> dict[str, Any]:
    """What one of three processes does: measure its shard, compute, and `forward` each of its batches."""
    for name, cls in SAMPLES.items():
        register_metric(name, [NUMBER])(cls)
    found: dict[str, Any] = {}
    panel, numbers = MetricCollection(PANEL, Binary()), collection(*KINDS)
    single = [get_metric("roc_auc", Binary()), get_metric("log_loss", Binary())]
    for batch in shard_of(rank):
        panel.update(**batch)
        fed(numbers, batch["logits"], batch["target"].double())
        found.setdefault("forward", []).append([metric(**batch).item() for metric in single])
    found["panel"] = values(panel)
    found["twice"] = values(panel)
    found["numbers"] = values(numbers)
    found["single"] = [metric.compute().item() for metric in single]
    found["rows"] = panel.rows
    void = get_metric("log_loss", Binary())
    void.non_finite = "propagate"
    void.update(logits=torch.tensor([torch.nan if rank == 1 else 1.0]), target=torch.tensor([1]))
    found["void"] = [str(void.compute().item()), void.undefined_reason]
    found["own"] = void.non_finite
    return found


def shard_of(rank: int) -> list:
    """The batches of a rank: two, one, none."""
    batches = cut(draw(Binary(), 50, noise=0.5), [size for sizes in SHARDS.values() for size in sizes])
    first = sum(len(sizes) for other, sizes in SHARDS.items() if other < rank)
    return batches[first : first + len(SHARDS[rank])]


def test_ranks_measure_as_one():
    """Three processes with 37, 13 and no rows: each gets the value of all 50, `forward` that of its batch.

    What one of them was given that has no value voids the value of all.
    """
    found = on_ranks(RANKS, on_rank)
    whole = MetricCollection(PANEL, Binary())
    numbers = collection(*KINDS)
    for batch in [batch for rank in SHARDS for batch in shard_of(rank)]:
        whole.update(**batch)
        fed(numbers, batch["logits"], batch["target"].double())
    for rank, batches in SHARDS.items():
        assert found[rank]["panel"] == found[rank]["twice"] == pytest.approx(values(whole), rel=1e-12)
        assert found[rank]["numbers"] == pytest.approx(values(numbers), rel=1e-12)
        assert found[rank]["single"] == pytest.approx(
            [values(whole)["roc_auc"], values(whole)["log_loss"]], rel=1e-12
        )
        assert found[rank]["rows"] == sum(batches)
        why = "batch 0: logits hold 1 values that are nan or infinite, the first at position 0"
        assert found[rank]["void"] == ["nan", why] and found[rank]["own"] == "propagate"
        for batch, answer in zip(shard_of(rank), found[rank].get("forward", []), strict=True):
            alone = [get_metric(name, Binary()) for name in ("roc_auc", "log_loss")]
            assert answer == pytest.approx([metric(**batch).item() for metric in alone], rel=1e-12)
