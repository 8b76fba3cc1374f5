"""What is wrapped measures like a metric of ours: it merges, copies, forgets and joins collections."""

from __future__ import annotations

import io
import math
import pickle
import re
from typing import Any

import pytest
import torch
from sample_sources import KINDS, chances, fed, numbers, row_errors, worst_error
from torch import Tensor
from torchmetrics.classification import BinaryAUROC
from torchmetrics.regression import MeanSquaredError
from torchmetrics.retrieval import RetrievalMRR
from torchmetrics.text import ROUGEScore
from torchmetrics.wrappers import BootStrapper, ClasswiseWrapper, MinMaxMetric, MultioutputWrapper, Running

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import MetricInputError, RegistrationError, StateError
from hpometrics.metrics.as_metric import as_metric
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import LOGITS, PREDICTIONS, PROBABILITIES, Binary, Number, Text

# It keeps all rows, and says so.
pytestmark = pytest.mark.filterwarnings("ignore:Metric `Spearman:UserWarning")


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Any:
    """Make a fresh metric of one kind."""
    return KINDS[request.param]


def test_a_pooled_function_by_hand():
    """The largest of |1-2|, |5-2| and |0-0|, which no mean of batches gives, is 3."""
    metric = as_metric(worst_error, direction=MINIMIZE, inputs=PREDICTIONS, output=Number())
    metric.update(torch.tensor([1.0, 5.0]), torch.tensor([2.0, 2.0]))
    metric.update(torch.tensor([0.0]), torch.tensor([0.0]))
    assert metric.compute().item() == 3.0


def test_a_function_per_row_by_hand():
    """(1 + 3 + 2) / 3 rows, though the batches have 2 and 1."""
    metric = as_metric(row_errors, direction=MINIMIZE, inputs=PREDICTIONS, per_row=True)
    metric.update(torch.tensor([1.0, 5.0]), torch.tensor([2.0, 2.0]))
    metric.update(torch.tensor([2.0]), torch.tensor([0.0]))
    assert metric.compute().item() == 2.0


def test_a_torchmetrics_metric_gives_its_value():
    """The wrapped value is torchmetrics' own."""
    batch = chances()
    metric = as_metric(BinaryAUROC(), direction=MAXIMIZE, inputs=PROBABILITIES, output=Binary())
    assert fed(metric, batch).compute().item() == pytest.approx(BinaryAUROC()(*batch).item())


@pytest.mark.parametrize(
    ("inner", "component"),
    [
        (MultioutputWrapper(MeanSquaredError(), num_outputs=2), 1),
        (ClasswiseWrapper(MeanSquaredError(num_outputs=2)), "meansquarederror_1"),
        (MinMaxMetric(MeanSquaredError(num_outputs=1)), "raw"),
        (BootStrapper(MeanSquaredError(), num_bootstraps=3, sampling_strategy="multinomial"), "std"),
    ],
    ids=lambda case: type(case).__name__,
)
def test_a_wrapper_of_torchmetrics_measures(inner, component):
    """It counts no update itself, as the metrics inside it do; that looked like nothing measured."""
    columns = torch.stack(numbers(40), dim=1)
    metric = as_metric(inner, direction=MINIMIZE, inputs=PREDICTIONS, component=component)
    metric.update(columns, columns * torch.tensor([1.0, 2.0]))
    value = metric.compute().item()
    assert math.isfinite(value) and (component == "std" or value > 0)
    if component in (1, "meansquarederror_1"):
        assert value == pytest.approx(columns[:, 1].square().mean().item())


def test_a_running_metric_is_refused():
    """It forgets all but the last batches, so its value depends on how the epoch was cut."""
    with pytest.raises(RegistrationError, match=r"Running .* last 2 batches, .* wrap its MeanSquaredError"):
        as_metric(Running(MeanSquaredError(), window=2), direction=MINIMIZE, inputs=PREDICTIONS)


def test_parts_of_the_data_merge_to_the_whole(make):
    """Shards merged in two orders have the value of one pass, an empty one changes nothing, operands stay."""
    whole = numbers(60)
    shards = [(whole[0][rows], whole[1][rows]) for rows in (slice(0, 25), slice(25, 27), slice(27, 60))]
    expected = fed(make(), whole).compute()
    for order in ((0, 1, 2), (2, 0, 1)):
        merged, *others = [fed(make(), shards[i]) for i in order]
        for other in (*others, make()):
            before = other.compute()
            merged.merge(other)
            torch.testing.assert_close(other.compute(), before, equal_nan=True)
        torch.testing.assert_close(merged.compute(), expected, rtol=1e-5, atol=1e-6)
    late = fed(make(), shards[0])
    late.merge(fed(make(), shards[1]))
    torch.testing.assert_close(fed(late, shards[2]).compute(), expected, rtol=1e-5, atol=1e-6)


def test_copies_and_saved_states_go_on(make):
    """Pickled, cloned and loaded halfway, a metric ends as one pass does; the original does not notice."""
    first, second = numbers(30, 1), numbers(20, 2)
    expected = fed(make(), first, second).compute()
    metric = fed(make(), first)
    loaded = fed(make(), second)
    loaded.load_state_dict(metric.state_dict())
    for copy in (pickle.loads(pickle.dumps(metric)), metric.clone(), loaded):
        torch.testing.assert_close(fed(copy, second).compute(), expected)
    torch.testing.assert_close(metric.compute(), fed(make(), first).compute())


def test_before_the_first_update_and_after_reset_it_is_undefined(make):
    """Nothing measured is nan with a reason, and torchmetrics does not warn (a warning fails a test)."""
    metric = make()
    for _ in range(2):
        assert metric.compute().isnan()
        assert metric.undefined_reason in ("nothing was measured", "no rows were counted")
        fed(metric, numbers()).reset()


def test_after_reset_it_measures_afresh(make):
    """What was measured before does not show."""
    metric = fed(make(), numbers(30, 1))
    metric.reset()
    torch.testing.assert_close(fed(metric, numbers(20, 2)).compute(), fed(make(), numbers(20, 2)).compute())


def test_the_callers_buffers_are_copied(make):
    """A caller that reuses its tensors does not change what was measured."""
    preds, target = numbers()
    metric = fed(make(), (preds, target))
    expected = fed(make(), numbers()).compute()
    preds.zero_(), target.zero_()
    torch.testing.assert_close(metric.compute(), expected)


def test_the_callers_extras_are_copied():
    """The queries of documents are kept as rows are; a caller that reuses their tensor changes nothing."""
    metric = as_metric(RetrievalMRR(), direction=MAXIMIZE, inputs=LOGITS)
    queries = torch.tensor([0, 0, 1])
    metric.update(torch.tensor([0.9, 0.1, 0.4]), torch.tensor([0, 1, 1]), indexes=queries)
    queries.zero_()
    assert metric.compute().item() == 0.75


def _shared_words(preds: list[str], target: list[str]) -> list[float]:
    """How many words of the target each text has; of all texts it would be the same list."""
    pairs = zip(preds, target, strict=True)
    return [len({*text.split()} & {*right.split()}) / len(right.split()) for text, right in pairs]


TEXTS = (["a b", "c"], ["a d", "e\nf"]), (['d "g"'], ["d"])  # shared: 1/2 and 0; 1
OF_TEXTS = {
    "torchmetrics with rows": lambda: as_metric(
        ROUGEScore(rouge_keys="rouge1"),
        direction=MAXIMIZE, inputs=PREDICTIONS, output=Text(), component="rouge1_recall",
    ),
    "pooled": lambda: as_metric(
        lambda preds, target: sum(_shared_words(preds, target)) / len(preds),
        direction=MAXIMIZE, inputs=PREDICTIONS, output=Text(), name="shared",
    ),
    "target first": lambda: as_metric(
        lambda y_true, y_pred: sum(_shared_words(y_pred, y_true)) / len(y_true),
        direction=MAXIMIZE, inputs=PREDICTIONS, output=Text(), name="shared",
    ),
    "per row": lambda: as_metric(
        _shared_words,
        direction=MAXIMIZE, inputs=PREDICTIONS, output=Text(), per_row=True, name="shared",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", OF_TEXTS)
def test_texts_are_measured(kind):
    """(1/2 + 0 + 1) / 3, of one pass, of parts that are merged, and of a state that is loaded."""
    whole, merged, loaded = OF_TEXTS[kind](), OF_TEXTS[kind](), OF_TEXTS[kind]()
    for preds, target in TEXTS:
        whole.update(predictions=preds, target=target)
        shard = OF_TEXTS[kind]()
        shard.update(predictions=preds, target=target)
        merged.merge(shard)
    buffer = io.BytesIO()
    torch.save(merged.state_dict(), buffer)
    loaded.load_state_dict(torch.load(io.BytesIO(buffer.getvalue()), weights_only=True))
    for measured in (whole, merged, loaded):
        assert measured.compute().item() == pytest.approx(0.5)


def test_a_pooled_function_is_given_references():
    """The right texts of a row come as they were given, several or one."""
    metric = as_metric(
        lambda preds, target: float(target == [["a", "b"], ["c"]] and preds == ["a", "c"]),
        direction=MAXIMIZE, inputs=PREDICTIONS, output=Text(), name="as_given",
    )  # fmt: skip
    metric.update(predictions=["a"], target=[["a", "b"]])
    metric.update(predictions=["c"], target=[["c"]])
    assert metric.compute().item() == 1.0


def test_a_function_pools_what_has_no_rows_of_tensors_or_texts():
    """Boxes are mappings; a function of one row after the other, or a torchmetrics.Metric, may read them."""
    metric = as_metric(
        lambda preds, target: len(preds), direction=None, inputs=PREDICTIONS, output="boxes", name="count"
    )
    with pytest.raises(MetricInputError, match=r"count pools tensors or texts, got .* a Tensor; .*per_row"):
        metric.update(predictions=[{"boxes": torch.zeros(1, 4)}], target=[{"boxes": torch.zeros(1, 4)}])


WORDS = {"predictions": ["a", "b"], "target": ["a", "c"]}
IDS = {"predictions": torch.tensor([[1, 2]]), "target": torch.tensor([[1, 3]])}
LONGER = {"predictions": torch.tensor([[1, 2, 3]]), "target": torch.tensor([[1, 3, 3]])}


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (IDS, WORDS, "must all be of one kind: earlier rows were tensors, but these are texts"),
        (WORDS, IDS, "must all be of one kind: earlier rows were texts, but these are tensors"),
        (IDS, LONGER, r"must have one shape: earlier rows had \(2,\), but these have \(3,\)"),
    ],
    ids=["texts", "tensors", "width"],
)
def test_a_pooled_function_has_rows_of_one_form(one, other, told):
    """Neither an update nor a merge brings others, which could not be one argument of it."""
    first, second = (
        as_metric(
            lambda preds, target: float(len(preds)),
            direction=None, inputs=PREDICTIONS, output=Text(), name="rows",
        )
        for _ in range(2)
    )  # fmt: skip
    first.update(**one)
    second.update(**other)
    with pytest.raises(MetricInputError, match=told):
        first.update(**other)
    with pytest.raises(StateError, match=told):
        first.merge(second)
    assert first.compute().item() == len(one["target"])


def test_forward_gives_the_value_of_the_batch(make):
    """Called like a module it returns the batch's value and goes on counting."""
    first, second = numbers(30, 1), numbers(20, 2)
    metric = make()
    metric(*first)
    torch.testing.assert_close(metric(*second), fed(make(), second).compute())
    torch.testing.assert_close(metric.compute(), fed(make(), first, second).compute())


def test_in_a_collection_it_has_the_value_it_has_alone():
    """All kinds in one collection, merged from two."""
    batch, other = numbers(30, 1), numbers(20, 2)

    def collection(*batches: tuple[Tensor, Tensor]) -> MetricCollection:
        made = MetricCollection([kind() for kind in KINDS.values()], output=Number())
        for preds, target in batches:
            made.update(predictions=preds, target=target)
        return made

    merged = collection(batch)
    merged.merge(collection(other))
    loaded = collection()
    loaded.load_state_dict(merged.state_dict())
    for name, kind in ((kind().name, kind) for kind in KINDS.values()):
        expected = fed(kind(), batch, other).compute()
        for measured in (collection(batch, other), merged, loaded):
            torch.testing.assert_close(measured.compute()[name], expected, rtol=1e-5, atol=1e-6)


def test_per_row_wants_one_value_per_row():
    """A mean of batch means must not slip in."""
    metric = as_metric(worst_error, direction=MINIMIZE, inputs=PREDICTIONS, per_row=True)
    with pytest.raises(
        MetricInputError, match=re.escape("must return one value for each of 50 rows, got shape ()")
    ):
        metric.update(*numbers())
    with pytest.raises(RegistrationError, match="per_row=True needs a plain function"):
        as_metric(MeanSquaredError(), direction=MINIMIZE, inputs=PREDICTIONS, per_row=True)


def test_a_refused_batch_leaves_the_state_as_it_was():
    """What torchmetrics raises is our error, and the next batch is measured as if nothing had been."""
    metric = as_metric(RetrievalMRR(), direction=MAXIMIZE, inputs=LOGITS)
    scores, target = torch.tensor([0.9, 0.1, 0.4]), torch.tensor([0, 1, 1])
    metric.update(scores, target, indexes=torch.tensor([0, 0, 0]))
    with pytest.raises(MetricInputError, match="RetrievalMRR refused the batch"):
        metric.update(scores, target, indexes=torch.tensor([0.5, 0.5, 0.5]))
    assert metric.compute().item() == 0.5


def test_another_source_does_not_merge():
    """Two metrics of the same kind of wrapping are not the same metric."""
    mse, pearson = KINDS["torchmetrics"](), KINDS["torchmetrics with stacked states"]()
    with pytest.raises(
        StateError, match="MeanSquaredError merges only with the same metric, got PearsonCorrCoef"
    ):
        mse.merge(pearson)


def test_the_wrapped_object_is_a_copy():
    """What the caller's object has measured, and will, does not show."""
    inner = MeanSquaredError()
    inner.update(*numbers())
    metric = as_metric(inner, direction=MINIMIZE, inputs=PREDICTIONS)
    metric.update(torch.tensor([1.0]), torch.tensor([3.0]))
    assert metric.compute().item() == 4.0


def test_a_nan_of_the_source_has_a_reason():
    """Nobody has to guess where it came from."""
    metric = as_metric(lambda p, t: float("nan"), direction=MINIMIZE, inputs=PREDICTIONS, name="broken")
    assert fed(metric, numbers()).compute().isnan()
    assert metric.undefined_reason == "the wrapped broken returned nan"
