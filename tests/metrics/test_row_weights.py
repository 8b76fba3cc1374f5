"""Which rows count and how much: weights, ignored targets, soft labels, values that are not finite, texts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from sample_metrics import Gap, OwnGap
from torch import nan

from hpometrics.exceptions import MetricInputError, NonFiniteError, StateError
from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Binary, Category, Clusters, Mask, Number, Ranking, Sequence, Text
from hpometrics.metrics.registry.register import get_metric

LOGITS = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0], [0.0, 4.0]], dtype=torch.float64)
TARGET = torch.tensor([0, 1, 1, -1])
PANEL = ("accuracy", "f1_macro", "roc_auc", "average_precision", "log_loss", "brier", "ece", "hits@1")


def panel(names=PANEL, output=None, **options) -> MetricCollection:
    """A collection that any test here may fill."""
    return MetricCollection(names, output or Category(2), **options)


def values(collection, *batches) -> dict[str, float]:
    """Measure batches."""
    for batch in batches:
        collection.update(**batch)
    return {name: value.item() for name, value in collection.compute().items()}


def test_rows_to_be_ignored_count_for_nothing():
    """With `ignore_index=-1` the rows of target -1 are as absent; without it -1 is no class."""
    ignoring = values(panel(output=Category(2, ignore_index=-1)), {"logits": LOGITS, "target": TARGET})
    assert ignoring == values(panel(), {"logits": LOGITS[:3], "target": TARGET[:3]})
    with pytest.raises(MetricInputError, match=r"target of a category output must be in 0..1, got .* -1"):
        panel().update(logits=LOGITS, target=TARGET)


def test_nothing_but_ignored_rows_is_undefined():
    """A batch of ignored rows adds nothing, and an epoch of them has no value."""
    collection = panel(["accuracy"], Binary(ignore_index=2))
    collection.update(predictions=torch.tensor([1, 0]), target=torch.tensor([2, 2]))
    assert collection.compute()["accuracy"].isnan() and collection.rows == 0
    assert collection.reasons["accuracy"] == "nothing was measured"


def test_extras_and_weights_are_cut_with_the_rows():
    """What belongs to a row goes with it, also as a list, an array or a column; what does not stays."""
    batch = Outputs(
        Number(), predictions=torch.arange(3.0), target=torch.arange(3.0), sample_weight=[1, 2, 3],
        names=["a", "b", "c"], level=0.5, bounds=torch.eye(3).numpy(), ages=pd.Series([7, 8, 9], [2, 1, 0]),
    ).rows(torch.tensor([True, False, True]))  # fmt: skip
    assert batch.extras["names"] == ["a", "c"] and batch.extras["level"] == 0.5
    assert batch.extras["ages"].tolist() == [7, 9]
    assert batch.weight.tolist() == [1.0, 3.0] and batch.extras["bounds"].shape == (2, 3)


@pytest.mark.parametrize("feature", [Mask(3, ignore_index=255), Sequence(3, ignore_index=255)], ids=str)
def test_positions_to_be_ignored_are_left_out_one_by_one(feature):
    """A pixel or a token of the ignored label is as absent; its row goes on counting."""
    shape = (2, 3, 4, 5) if feature.type == "mask" else (2, 20, 3)
    target = torch.randint(3, (2, 20), generator=torch.Generator().manual_seed(0))
    target[:, 3:9] = 255
    scores = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    batch = Outputs(feature, logits=scores, target=target.view(2, 4, 5) if feature.type == "mask" else target)
    assert len(batch.decided.target) == len(batch.decided.preds) == 28
    assert batch.decided.target.amax() == 2 and batch.decided.weight is None


def test_weights_by_hand():
    """Right rows weigh 2 + 1, the wrong one 3: accuracy is a half; the AUC counts pairs by their products."""
    measured = values(
        panel(["accuracy", "roc_auc"]),
        {"logits": LOGITS[:3], "target": TARGET[:3], "sample_weight": [2, 1, 3]},
    )
    assert measured["accuracy"] == pytest.approx(0.5)
    assert measured["roc_auc"] == pytest.approx(
        0.25
    )  # of class 1: row 1 beats row 0 (1 of 4), row 2 does not


@pytest.mark.parametrize(
    ("weight", "says"),
    [
        ([1.0, 2.0], r"must have one entry per row, shape \(3,\); got \(2,\)"),
        ([1.0, -1.0, 1.0], "sample_weight must be at least 0, got -1"),
        ([1.0, nan, 1.0], "sample_weight hold 1 values that are nan"),
        ([1.0, 1e308, 1e308], r"sample_weight must be at most 1e\+100, got 1e\+308"),
    ],
)
def test_weights_are_checked(weight, says):
    """A weight per row, finite, from 0; a refused batch leaves nothing behind."""
    collection = panel(["accuracy"])
    with pytest.raises(MetricInputError, match=says):
        collection.update(logits=LOGITS[:3], target=TARGET[:3], sample_weight=weight)
    assert collection.rows == 0


def test_a_batch_without_weights_may_follow_one_with():
    """Rows without a weight weigh 1, in either order and after a merge."""
    first = {"logits": LOGITS[:3], "target": TARGET[:3], "sample_weight": [2.0, 1.0, 3.0]}
    second = {"logits": -LOGITS[:3], "target": TARGET[:3]}
    ones = {**second, "sample_weight": torch.ones(3)}
    whole = values(panel(), first, ones)
    merged = panel()
    merged.update(**second)
    other = panel()
    other.update(**first)
    merged.merge(other)
    for measured in (values(panel(), first, second), values(panel(), second, first), values(merged)):
        assert measured == pytest.approx(whole, abs=1e-12)


def test_soft_labels_are_for_those_who_read_them():
    """Log loss and Brier take label distributions; accuracy needs a class, and says so."""
    soft = torch.tensor([[0.9, 0.1], [0.4, 0.6]], dtype=torch.float64)
    probabilities = torch.tensor([[0.8, 0.2], [0.5, 0.5]], dtype=torch.float64)
    measured = values(panel(["log_loss"]), {"probabilities": probabilities, "target_probabilities": soft})
    assert measured["log_loss"] == pytest.approx(-(soft * probabilities.log()).sum(1).mean().item())
    with pytest.raises(
        MetricInputError, match="accuracy reads a target, not soft labels; pass target= beside"
    ):
        panel(["log_loss", "accuracy"]).update(probabilities=probabilities, target_probabilities=soft)
    both = {"probabilities": probabilities, "target_probabilities": soft, "target": torch.tensor([0, 0])}
    assert values(panel(["log_loss", "accuracy"]), both) == {**measured, "accuracy": 1.0}


@pytest.mark.parametrize(
    ("soft", "says"),
    [
        (torch.tensor([[0.9, 0.3]]), "category target_probabilities must sum to 1, one is off by 0.2"),
        (torch.tensor([0.9]), r"have the shape of its probabilities, \(1, 2\); got \(1,\)"),
        (torch.tensor([[1.5, -0.5]]), r"target_probabilities lie in \[0, 1\], got values from -0.5 to 1.5"),
    ],
)
def test_soft_labels_are_probabilities(soft, says):
    """What is no distribution over the classes is refused."""
    with pytest.raises(MetricInputError, match=says):
        panel(["log_loss"]).update(logits=LOGITS[:1], target_probabilities=soft)


def test_policies_for_values_that_are_not_finite():
    """`error` refuses, `propagate` makes the epoch nan with the reason, `ignore` leaves the rows out."""
    logits = LOGITS[:3].clone()
    logits[1, 0] = nan
    bad = {"logits": logits, "target": TARGET[:3]}
    with pytest.raises(NonFiniteError, match="logits hold 1 values that are nan"):
        panel().update(**bad)
    voided = panel(non_finite="propagate")
    assert all(
        value != value for value in values(voided, bad, {"logits": LOGITS[:1], "target": TARGET[:1]}).values()
    )
    assert voided.reasons["accuracy"].startswith("batch 0: logits hold 1 values that are nan")
    ignoring = panel(non_finite="ignore")
    assert values(ignoring, bad) == values(panel(), {"logits": LOGITS[[0, 2]], "target": TARGET[[0, 2]]})
    assert ignoring.rows_left_out == 1 and ignoring.fresh().rows_left_out == 0
    with pytest.raises(MetricInputError, match="non_finite is one of error, propagate, ignore; got 'drop'"):
        panel(non_finite="drop")


PROBABLE = LOGITS.softmax(1)


@pytest.mark.parametrize(
    ("output", "batch"),
    [
        (Category(2, ignore_index=-1), {"probabilities": PROBABLE, "target": TARGET}),
        (Category(2), {"probabilities": PROBABLE, "target_probabilities": PROBABLE.flip(1)}),
        (Category(2), {"logits": LOGITS, "target_probabilities": PROBABLE.flip(1)}),
        (Binary(), {"probabilities": PROBABLE[:, 0], "target_probabilities": PROBABLE[:, 1]}),
    ],
    ids=["ignored", "soft", "soft with logits", "soft binary"],
)
def test_what_is_left_out_on_a_device_breaks_no_rule(output, batch, elsewhere):
    """Its probabilities still sum to 1, and soft labels are not taken for classes: the other rows count."""
    expected = values(panel(["log_loss"], output), {name: value[:3] for name, value in batch.items()})
    if "target" not in batch:
        batch = {name: value.clone() for name, value in batch.items()}
        batch["target_probabilities"][3] = nan
    elsewhere()
    collection = panel(["log_loss"], output, non_finite="ignore")
    assert values(collection, batch) == pytest.approx(expected) and not collection.reasons


def test_a_metric_without_weights_counts_no_row_that_is_left_out(elsewhere):
    """On a device such a row is still there, with the weight 0, which the metric cannot read."""
    metric = OwnGap()
    metric.output = Binary(ignore_index=-1)
    metric.update(torch.tensor([1, 0, 1]), torch.tensor([0, 0, -1]))
    assert metric.compute().item() == 0.5
    elsewhere()
    with pytest.raises(MetricInputError, match=r"does not support weights; .* on a device ignore_index= and"):
        metric.update(torch.tensor([1, 0, 1]), torch.tensor([0, 0, -1]))
    assert metric.update_count == 1


def test_a_metric_alone_has_the_policies_too():
    """The policy is set before the first update, and stays."""
    metric = get_metric("mse", "number")
    metric.non_finite = "ignore"
    metric.update(torch.tensor([1.0, nan, 3.0]), torch.tensor([1.0, 2.0, nan]))
    assert metric.compute().item() == 0.0 and metric.non_finite == "ignore"
    with pytest.raises(StateError, match="has already measured with non_finite='ignore'"):
        metric.non_finite = "error"


class Overflowing(Gap):
    """A metric that finds out itself what is not finite."""

    def get_current_value(self, preds, target):
        if (preds > 100).any():
            raise NonFiniteError("the values overflow")
        return super().get_current_value(preds, target)


@pytest.mark.parametrize("before", [0, 1])
def test_the_policies_hold_for_what_a_metric_finds(before):
    """In the first batch as in one that is like those before it."""
    alone, together = Overflowing(), panel([Overflowing()], Number(), non_finite="propagate")
    alone.output, alone.non_finite = Number(), "propagate"
    for preds in [*[1.0] * before, 200.0, 1.0]:
        alone.update(predictions=torch.tensor([preds]), target=torch.tensor([0.0]))
        together.update(predictions=torch.tensor([preds]), target=torch.tensor([0.0]))
    assert together.compute()["Overflowing"].isnan() and alone.compute().isnan()
    assert together.reasons["Overflowing"] == alone.undefined_reason == f"batch {before}: the values overflow"


@pytest.mark.parametrize("name", ["mse", "spearman", "kendall"])
def test_a_metric_alone_hands_on_why_it_has_no_value(name):
    """What was found under `propagate` voids what it is merged into, and is saved with the rest."""
    odd, sound = get_metric(name, "number"), get_metric(name, "number")
    for metric in (odd, sound):
        metric.non_finite = "propagate"
        metric.update(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 3.0, 2.0]))
    value = sound.compute().item()
    odd.update(torch.tensor([nan]), torch.tensor([1.0]))
    why = "batch 1: predictions hold 1 values that are nan or infinite, the first at position 0"
    loaded = get_metric(name, "number")
    loaded.load_state_dict(odd.state_dict())
    merged = sound.alone()
    merged.merge(odd)
    assert all(x.compute().isnan() and x.undefined_reason == why for x in (odd, loaded, merged))
    loaded.load_state_dict(sound.state_dict())
    assert loaded.compute().item() == value and loaded.undefined_reason is None


def test_rows_left_out_are_counted_over_shards():
    """A collection that takes in another, or its state, knows of the rows that the other left out."""
    shards = [panel(["mae"], Number(), non_finite="ignore") for _ in range(2)]
    for shard in shards:
        shard.update(predictions=[1.0, nan], target=[0.0, 0.0])
    shards[0].merge(shards[1])
    loaded = shards[0].fresh()
    loaded.load_state_dict(shards[0].state_dict())
    assert [shard.rows_left_out for shard in (*shards, loaded)] == [2, 1, 2]
    loaded.reset()
    assert loaded.rows_left_out == 0


@pytest.mark.parametrize("column", [pd.Series, pa.array, np.array], ids=["pandas", "pyarrow", "numpy"])
def test_texts_may_be_columns_of_a_table(column):
    """As `frame.answer` is; a cell without a text is named by its row."""
    batch = Outputs(Text(), predictions=column(["a b", "c"]), target=column(["a", "c"]))
    assert batch.texts == ["a b", "c"] and batch.references == [("a",), ("c",)]
    with pytest.raises(MetricInputError, match=r"predictions must be texts, got .* in row 1"):
        _ = Outputs(Text(), predictions=column(["a", None]), target=["a", "b"]).texts


def test_texts_are_lists():
    """Texts and their references are kept as given, one reference or several; ids may stand beside them."""
    batch = Outputs(Text(), predictions=["a b", "c"], target=["a", ["c", "d"]])
    assert batch.texts == ["a b", "c"] and batch.references == [("a",), ("c", "d")] and len(batch) == 2
    ids = Outputs(
        Text(), predictions=torch.zeros(1, 2), target=torch.zeros(1, 2), texts=["x"], references=["y"]
    )
    assert ids.texts == ["x"] and ids.references == [("y",)] and ids.has_target
    with pytest.raises(MetricInputError, match=r"expected texts as predictions=\[...\], or beside token ids"):
        _ = Outputs(Text(), predictions=torch.zeros(1, 2), target=torch.zeros(1, 2)).texts


@pytest.mark.parametrize(
    ("predictions", "target", "says"),
    [
        (["a"], ["a", "b"], "as many predictions as targets, got 1 predictions, 2 target"),
        (["a", 3], ["a", "b"], "predictions must be texts, got int in row 1"),
        (["a"], [[]], r"a list of at least one text, got \[\] in row 0"),
    ],
)
def test_texts_are_checked(predictions, target, says):
    """What is no text is named with its row."""
    with pytest.raises(MetricInputError, match=says):
        batch = Outputs(Text(), predictions=predictions, target=target)
        _ = batch.texts, batch.references


@pytest.mark.parametrize(("name", "extra"), [("crps", "samples"), ("loss", "loss")])
def test_what_a_metric_reads_beside_follows_the_policy(name, extra):
    """Refused by name, or under `propagate` nan with the reason; only the metric knows what rows hold it."""
    odd = torch.tensor([0.0, 0.0, nan])
    shown = torch.stack([odd, odd], 1) if extra == "samples" else odd
    bad = {"predictions": torch.zeros(3), "target": torch.zeros(3), extra: shown}
    told = f"{name}: {extra}= contains nan or infinite values"
    for policy in ("error", "ignore"):
        with pytest.raises(NonFiniteError, match=told):
            panel([name, "mae"], Number(), non_finite=policy).update(**bad)
    propagating = panel([name, "mae"], Number(), non_finite="propagate")
    assert all(torch.isnan(torch.tensor(value)) for value in values(propagating, bad).values())
    assert propagating.reasons["mae"] == f"batch 0: {told}" and propagating.rows == 0
    alone = get_metric(name, Number())
    alone.non_finite = "propagate"
    alone.update(**bad)
    assert alone.compute().isnan() and alone.undefined_reason == f"batch 0: {told}"


def test_what_torchmetrics_reads_beside_is_finite():
    """The data that were clustered, of which torchmetrics would make nan."""
    metric = get_metric("davies_bouldin", Clusters())
    with pytest.raises(NonFiniteError, match="davies_bouldin: data= contains nan"):
        metric.update(predictions=[0, 1, 1], target=[0, 1, 1], data=[[0.0], [1.0], [torch.nan]])


def test_rankings_leave_out_rows_whose_weight_is_not_finite():
    """Under `ignore`, as every other output does; so with grades that are nan."""
    batch = {"scores": torch.eye(2), "target": torch.tensor([[1, 0], [1, 0]])}
    ignoring = panel(["hit_rate@1"], Ranking(), non_finite="ignore")
    assert values(ignoring, {**batch, "sample_weight": [1.0, torch.nan]}) == {"hit_rate@1": 1.0}
    assert ignoring.rows_left_out == 1
    with pytest.raises(NonFiniteError, match="grades of a target must be finite numbers"):
        panel(["ndcg@1"], Ranking()).update(
            scores=torch.eye(2), target=torch.tensor([[1, torch.nan], [1, 0]])
        )
