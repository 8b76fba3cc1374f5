"""Row values: their mean is the metric, their spread is its own, whatever the batches."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from matrix import EXHAUSTIVE, entries

from hpometrics.direction import MAXIMIZE
from hpometrics.metrics._validation import batch_of
from hpometrics.metrics.features import PREDICTIONS, Binary, Category, Number, Ranking, Sequence, Text
from hpometrics.metrics.metric import Metric
from hpometrics.metrics.registry.facts import value_range
from hpometrics.metrics.registry.index import observed_of
from hpometrics.metrics.registry.register import get_metric
from hpometrics.metrics.row_values.influence import GROUPS, group_of, placements, spread_evenly
from hpometrics.metrics.row_values.row_meter import NoRowValuesError, RowMeter

TARGET = [1, 1, 1, 1, 0, 0, 0, 0, 0, 1]
SCORES = [0.9, 0.8, 0.7, 0.35, 0.4, 0.3, 0.2, 0.6, 0.1, 0.55]


def rows_of(name, output, *batches, **options):
    """The row values of a metric over batches, and its value."""
    metric = get_metric(name, output)
    meter = RowMeter(metric, **options)
    for batch in batches:
        meter.add(batch_of(metric.output, **batch))
        metric.update(**batch)
    value = float(metric.compute())
    return meter.close(value), value


def standard_error(values):
    """The standard error of a mean."""
    return values.std(ddof=1) / len(values) ** 0.5


def test_an_area_has_placements():
    """DeLong's, on ten rows: of 25 pairs 22 are in order."""
    values = placements(np.array(SCORES), np.array(TARGET, dtype=bool))
    assert values == pytest.approx([1.12, 1.12, 1.12, 0.32, 0.72, 1.12, 1.12, 0.32, 1.12, 0.72])
    rows, value = rows_of("roc_auc", Binary(), {"probabilities": SCORES, "target": TARGET})
    assert (rows.method, value) == ("pairs", pytest.approx(0.88))
    assert rows.values == pytest.approx(values)


def test_a_matrix_has_one_value_for_each_cell():
    """The f1 of 3 true and 1 false positives and 1 false negative, by deleting a row of each cell."""
    batch = {"predictions": [1, 1, 1, 0, 0, 0, 0, 0, 1, 0], "target": [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]}
    rows, value = rows_of("f1", Binary(), batch)
    deleted = np.array([1.5] * 3 + [-0.214285714286] + [0.75] * 4 + [-0.214285714286, 0.75])
    assert (rows.method, value) == ("cells", 0.75)
    assert rows.values == pytest.approx(value + deleted - deleted.mean())
    assert standard_error(rows.values) == pytest.approx(0.198238415520)


def test_the_jackknife_of_cells_nears_the_closed_form():
    """The influence of a row on f1: its standard error on ten rows, and that of 200 copies of them."""
    predictions, target = np.array([1, 1, 1, 0, 0, 0, 0, 0, 1, 0]), np.array([1] * 4 + [0] * 6)
    influence = (2 * predictions * target - 0.75 * (predictions + target)) / 0.8
    assert 0.75 + influence == pytest.approx([1.375] * 3 + [-0.1875] + [0.75] * 4 + [-0.1875, 0.75])
    assert standard_error(influence) == pytest.approx(0.180421959122)
    copies = {"predictions": list(predictions) * 200, "target": list(target) * 200}
    rows, value = rows_of("f1", Binary(), copies)
    assert value == 0.75
    assert rows.values.std() / 10**0.5 == pytest.approx(influence.std() / 10**0.5, rel=2e-3)


def test_rows_weigh_what_they_count():
    """A row of weight 2 stands for two, one that is ignored for none; all rows keep their places."""
    batch = {"predictions": [0, 1, 1], "target": [0, 0, 1], "sample_weight": [2.0, 1.0, 1.0]}
    rows, value = rows_of("accuracy", Category(2), batch)
    assert (rows.method, value) == ("rows", 0.75)
    assert rows.values == pytest.approx(
        [0.75 + 2 / (4 / 3) * 0.25, 0.75 - 0.75 / (4 / 3), 0.75 + 0.25 / (4 / 3)]
    )
    tokens = {
        "predictions": torch.tensor([[1, 2], [3, 0], [0, 0]]),
        "target": torch.tensor([[1, 9], [3, -100], [-100, -100]]),
    }
    rows, value = rows_of("token_accuracy", Sequence(), tokens)
    assert value == pytest.approx(2 / 3)
    assert rows.values == pytest.approx([2 / 3 - 2 / 6, 2 / 3 + 1 / 3, 2 / 3])


@pytest.mark.parametrize(
    ("name", "method"),
    [("mse", "rows"), ("rmse", "groups"), ("r2", "groups"), ("spearman", "groups"), ("log_cosh", "rows")],
)
def test_the_method_follows_from_the_metric(name, method):
    """A mean of rows is exact, and batches of a single row do not hide that a root is none."""
    generator = torch.Generator().manual_seed(0)
    columns = {key: torch.rand(30, generator=generator) for key in ("predictions", "target")}
    rows, value = rows_of(name, Number(), *({k: v[i : i + 1] for k, v in columns.items()} for i in range(30)))
    assert rows.method == method
    assert len(rows.values) == 30 and rows.values.mean() == pytest.approx(value)


def test_users_are_rows():
    """A user without a relevant item weighs nothing."""
    scores = torch.tensor([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    rows, value = rows_of("recall@2", Ranking(), {"logits": scores, "target": [[0, 2], [1], []]})
    assert (rows.method, value) == ("rows", 0.75)
    assert rows.values == pytest.approx([0.75 - 0.25 * 1.5, 0.75 + 0.25 * 1.5, 0.75])


def test_many_rows_are_deleted_by_group():
    """The groups are of one size, and batches do not matter."""
    generator = torch.Generator().manual_seed(0)
    columns = {key: torch.rand(5 * GROUPS + 7, generator=generator) for key in ("predictions", "target")}
    whole, value = rows_of("rmse", Number(), columns)
    cuts = [1, 99, 100, 250, 5 * GROUPS + 7]
    parts = [{k: v[a:b] for k, v in columns.items()} for a, b in zip([0, *cuts], cuts, strict=False)]
    apart, _ = rows_of("rmse", Number(), *parts)
    assert len(whole.values) == GROUPS
    assert whole.values == pytest.approx(apart.values)
    assert whole.values.mean() == pytest.approx(value)


def test_groups_take_every_row_in_turn():
    """The first rows are in order, later ones shuffled; a group has one row of every stretch."""
    assert group_of(0, 5, 10).tolist() == [0, 1, 2, 3, 4]
    whole = group_of(0, 47, 10)
    assert np.array_equal(np.concatenate([group_of(0, 13, 10), group_of(13, 34, 10)]), whole)
    assert sorted(whole[20:30]) == list(range(10)) and whole[20:30].tolist() != list(range(10))


def test_more_rows_than_are_kept_are_summed_by_group():
    """Mean and standard error stay those of the rows."""
    target = torch.arange(20_480) % 3
    batch = {"predictions": torch.where(torch.rand(20_480) < 0.8, target, (target + 1) % 3), "target": target}
    rows, value = rows_of("accuracy", Category(3), batch, most_rows=4_000)
    assert len(rows.values) == 2_048 and rows.values.mean() == pytest.approx(value)
    assert standard_error(rows.values) == pytest.approx((value * (1 - value) / 20_480) ** 0.5, rel=0.06)
    few = np.arange(7.0)
    assert spread_evenly(few, few.mean(), 7) == pytest.approx(few)


@pytest.mark.parametrize(
    ("name", "output", "batch", "why"),
    [
        ("max_error", Number(), {"predictions": [1.0, 2.0], "target": [1.0, 3.0]}, "depends on few rows"),
        (
            "interdistinct_1",
            Text(),
            {"predictions": ["a b", "b"], "target": ["", ""]},
            "depends on few rows",
        ),
        ("roc_auc", Category(2), {"logits": [[1.0, 0.0], [0.0, 1.0]], "target": [0, 1]}, "without some of"),
    ],
)
def test_what_has_no_row_values_says_why(name, output, batch, why):
    """Extremes depend on few rows, and the last row of a class cannot be deleted."""
    with pytest.raises(NoRowValuesError, match=why):
        rows_of(name, output, batch)


def test_what_is_undefined_or_has_no_rows_has_no_row_values():
    """As an epoch that was void; afterwards the meter is as new."""
    meter = RowMeter(get_metric("accuracy", "category"))
    with pytest.raises(NoRowValuesError, match="has not measured any rows"):
        meter.close(0.5)
    batch = batch_of(Category(2), predictions=[0, 1], target=[0, 0])
    meter.add(batch)
    with pytest.raises(NoRowValuesError, match="is undefined"):
        meter.close(float("nan"))
    meter.add(batch)
    assert meter.close(0.5).values.tolist() == [1.0, 0.0]


def test_batches_of_ignored_rows_add_nothing():
    """Whether such a batch is the first or a later one."""
    ignored = {"predictions": [0, 1], "target": [-1, -1]}
    batch = {"predictions": [0, 1, 1], "target": [0, 1, 0]}
    output = Category(2, ignore_index=-1)
    plain, _ = rows_of("accuracy", output, batch)
    for name in ("accuracy", "f1_macro"):
        alone, _ = rows_of(name, output, batch)
        for batches in ((ignored, batch), (batch, ignored)):
            rows, _ = rows_of(name, output, *batches)
            assert rows.values == pytest.approx(alone.values)
    assert len(plain.values) == 3


def test_weights_that_begin_late_are_refused():
    """Rows of a cell are alike only without weights, which later batches may have."""
    meter = RowMeter(get_metric("f1_macro", Category(2)))
    meter.add(batch_of(Category(2), predictions=[0] * (1 << 20), target=[0] * (1 << 20)))
    meter.add(batch_of(Category(2), predictions=[0, 1], target=[0, 0], sample_weight=[1.0, 3.0]))
    with pytest.raises(NoRowValuesError, match="only some batches have a sample_weight"):
        meter.close(0.5)


class Fussy(Metric):
    """Fails, or warns, on few rows, which a metric of a user's may do."""

    direction = MAXIMIZE
    inputs = PREDICTIONS

    def __init__(self, fails: bool = False, **kwargs) -> None:
        super().__init__(**kwargs)
        self.fails = fails
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("rows", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, preds, target):
        """Add what is right."""
        if self.fails and len(target) < 3:
            raise IndexError("three rows at least")
        warnings.warn("a careless metric", stacklevel=2)
        self.total += (preds == target).sum()
        self.rows += len(target)

    def compute(self):
        """The share of right rows."""
        return self.total / self.rows


class Hoarder(Metric):
    """Its state is a plain attribute, which nothing can merge."""

    direction = MAXIMIZE
    inputs = PREDICTIONS
    seen = 0

    def update(self, preds, target):
        """Count the rows."""
        self.seen += len(target)

    def compute(self):
        """How many there were."""
        return torch.tensor(float(self.seen))

    def reset(self):
        """Forget all."""
        super().reset()
        self.seen = 0


def test_a_metric_that_warns_on_few_rows_has_row_values():
    """It is measured on parts of the rows only here, so its warnings are not the user's."""
    metric = Fussy()
    metric.output = Category(2)
    meter = RowMeter(metric)
    meter.add(batch_of(metric.output, predictions=[0, 1, 1, 0], target=[0, 1, 0, 0]))
    assert meter.close(0.75).values.tolist() == pytest.approx([1.0, 1.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("metric", "why"),
    [(Fussy(fails=True), "IndexError: three rows at least"), (Hoarder(), "StateError: .* plain attributes")],
    ids=["fails", "does not merge"],
)
def test_a_metric_that_fails_on_few_rows_has_no_row_values(metric, why):
    """The run must not suffer from it."""
    metric.output = Category(2)
    meter = RowMeter(metric)
    meter.add(batch_of(metric.output, predictions=[0, 1, 1, 0], target=[0, 1, 0, 0]))
    with pytest.raises(NoRowValuesError, match=f"cannot be measured on a part of the rows: {why}"):
        meter.close(0.75)


def test_the_batch_may_be_overwritten():
    """A loop may write the next batch into the same memory."""
    memory = torch.tensor([0, 1, 1])
    meter = RowMeter(get_metric("accuracy", "category"))
    meter.add(batch_of(Category(2), predictions=memory, target=torch.tensor([0, 1, 0])))
    memory.zero_()
    assert meter.close(2 / 3).values.tolist() == [1.0, 1.0, 0.0]


def test_values_lie_in_the_range_that_is_stated():
    """Of every metric that was tried for the index; by it an interval stays where values can be."""
    ranges = {str(entry): (value_range(entry.load()), observed_of(entry)) for entry in entries()}
    outside = {
        name: value
        for name, ((low, high), observed) in ranges.items()
        for value in (observed.values if observed else ())
        if value is not None and not low - 1e-9 <= value <= high + 1e-9
    }
    assert outside == {}
    assert sum(known[0] == 0 for known, _ in ranges.values()) > len(ranges) / 2


@EXHAUSTIVE
@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("f1_macro", Category(4)), ("mcc", Category(4)), ("roc_auc", Binary()),
        ("average_precision", Binary()), ("rmse", Number()), ("r2", Number()), ("pearson", Number()),
        ("spearman", Number()),
    ],
)  # fmt: skip
def test_the_spread_is_how_the_metric_varies(name, output):
    """Over fresh samples of 400 rows the standard error of the row values is the deviation of the value.

    Not so of a sum of absolute gaps such as `ece`, of which the jackknife says too much.
    """
    generator, values, errors = torch.Generator().manual_seed(5), [], []
    for _ in range(300):
        if output.type == "number":
            target = torch.randn(400, generator=generator)
            batch = {"predictions": target + 0.5 * torch.randn(400, generator=generator), "target": target}
        else:
            classes = 4 if output.type == "category" else 2
            target = torch.randint(classes, (400,), generator=generator)
            if classes == 4:
                other = torch.randint(4, (400,), generator=generator)
                right = torch.rand(400, generator=generator) < 0.7
                batch = {"predictions": torch.where(right, target, other), "target": target}
            else:
                logits = target - 0.5 + torch.randn(400, generator=generator)
                batch = {"probabilities": logits.sigmoid(), "target": target}
        rows, value = rows_of(name, output, batch)
        values.append(value)
        errors.append(standard_error(rows.values))
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.15)
