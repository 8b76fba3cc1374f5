"""as_metric: foreign metrics become ours, with a direction that is stated and never guessed."""

from __future__ import annotations

import functools
import pickle
import re
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics
from sklearn.metrics import (
    brier_score_loss,
    f1_score,
    log_loss,
    make_scorer,
    mean_squared_error,
    roc_auc_score,
)
from torch import Tensor
from torchmetrics.classification import BinaryAUROC, BinaryConfusionMatrix, MulticlassAccuracy
from torchmetrics.regression import MeanSquaredError, PearsonCorrCoef
from torchmetrics.retrieval import RetrievalMRR

from hpometrics.exceptions import MetricInputError, ObjectiveError, RegistrationError, StateError
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import LOGITS, PREDICTIONS, PROBABILITIES, Binary, Category, Number
from hpometrics.metrics.metric import Metric
from hpometrics.metrics.wrap import as_metric
from hpometrics.objective import MAXIMIZE, MINIMIZE


def worst_error(preds: Tensor, target: Tensor) -> Tensor:
    """A pooled function."""
    return (preds - target).abs().max()


def row_errors(preds: Tensor, target: Tensor) -> Tensor:
    """A function of one value per row."""
    return (preds - target).abs()


def both_errors(y_true: np.ndarray, y_pred: np.ndarray) -> dict[str, float]:
    """A function with two results, in scikit-learn's order of arguments."""
    assert isinstance(y_true, np.ndarray)
    return {"bias": float((y_pred - y_true).mean()), "mae": float(np.abs(y_pred - y_true).mean())}


def auc_scorer() -> Any:
    """Make scikit-learn's roc_auc scorer."""
    return make_scorer(roc_auc_score, response_method=("decision_function", "predict_proba"))


def numbers(rows: int = 50, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draw real predictions and targets."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randn(rows, generator=generator)
    return target + torch.randn(rows, generator=generator), target


def chances(rows: int = 50, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draw probabilities and labels."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.arange(rows) % 2
    return (0.3 * target + 0.7 * torch.rand(rows, generator=generator)), target


# It keeps all rows, and says so.
pytestmark = pytest.mark.filterwarnings("ignore:Metric `Spearman:UserWarning")

KINDS = {
    "torchmetrics": lambda: as_metric(MeanSquaredError(), objective=MINIMIZE, inputs=PREDICTIONS),
    "torchmetrics with stacked states": lambda: as_metric(
        PearsonCorrCoef(), objective=MAXIMIZE, inputs=PREDICTIONS
    ),
    "torchmetrics with rows": lambda: as_metric(
        torchmetrics.SpearmanCorrCoef(), objective=MAXIMIZE, inputs=PREDICTIONS
    ),
    "nested torchmetrics": lambda: as_metric(
        torchmetrics.MeanSquaredError() + torchmetrics.MeanAbsoluteError(),
        objective=MINIMIZE, inputs=PREDICTIONS, name="both",
    ),
    "pooled": lambda: as_metric(worst_error, objective=MINIMIZE, inputs=PREDICTIONS),
    "per row": lambda: as_metric(row_errors, objective=MINIMIZE, inputs=PREDICTIONS, per_row=True),
    "scorer": lambda: as_metric(make_scorer(mean_squared_error, greater_is_better=False)),
}  # fmt: skip


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Any:
    """Make a fresh metric of one kind."""
    return KINDS[request.param]


def fed(metric: Metric, *batches: tuple[Tensor, Tensor]) -> Metric:
    """Update a metric with batches."""
    for batch in batches:
        metric.update(*batch)
    return metric


def test_a_pooled_function_by_hand():
    """The largest of |1-2|, |5-2| and |0-0|, which no mean of batches gives, is 3."""
    metric = as_metric(worst_error, objective=MINIMIZE, inputs=PREDICTIONS, output=Number())
    metric.update(torch.tensor([1.0, 5.0]), torch.tensor([2.0, 2.0]))
    metric.update(torch.tensor([0.0]), torch.tensor([0.0]))
    assert metric.compute().item() == 3.0


def test_a_function_per_row_by_hand():
    """(1 + 3 + 2) / 3 rows, though the batches have 2 and 1."""
    metric = as_metric(row_errors, objective=MINIMIZE, inputs=PREDICTIONS, per_row=True)
    metric.update(torch.tensor([1.0, 5.0]), torch.tensor([2.0, 2.0]))
    metric.update(torch.tensor([2.0]), torch.tensor([0.0]))
    assert metric.compute().item() == 2.0


def test_a_torchmetrics_metric_gives_its_value():
    """The wrapped value is torchmetrics' own."""
    batch = chances()
    metric = as_metric(BinaryAUROC(), objective=MAXIMIZE, inputs=PROBABILITIES, output=Binary())
    assert fed(metric, batch).compute().item() == pytest.approx(BinaryAUROC()(*batch).item())


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
        assert metric.undefined_reason in ("nothing was measured", "no row counted")
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


def test_the_direction_is_never_read_from_torchmetrics():
    """For torchmetrics Pearson has none and MSE's is lower; we ask."""
    with pytest.raises(ObjectiveError, match=r"MeanSquaredError: say objective=MINIMIZE, MAXIMIZE or None"):
        as_metric(MeanSquaredError(), inputs=PREDICTIONS)
    metric = as_metric(PearsonCorrCoef(), objective="max", inputs="predictions")
    assert (metric.get_objective(), metric.get_inputs(), metric.higher_is_better) == (
        MAXIMIZE,
        PREDICTIONS,
        True,
    )
    assert as_metric(PearsonCorrCoef, objective=None, inputs=PREDICTIONS).higher_is_better is None


@pytest.mark.parametrize(
    ("inputs", "text"), [({}, "or LOGITS"), ({"inputs": "scores"}, "or LOGITS, got 'scores'")]
)
def test_the_inputs_must_be_stated(inputs, text):
    """Which output a function reads cannot be known."""
    with pytest.raises(
        RegistrationError, match=f"worst_error: say inputs=PREDICTIONS, PROBABILITIES {text}$"
    ):
        as_metric(worst_error, objective=MINIMIZE, **inputs)


def test_a_scorer_states_its_own_facts():
    """Natural value, direction by its sign, inputs by the method of the estimator that it calls."""
    metric = as_metric(make_scorer(log_loss, greater_is_better=False, response_method="predict_proba"))
    assert (metric.name, metric.objective, metric.inputs) == ("log_loss", MINIMIZE, PROBABILITIES)
    preds, target = chances()
    assert fed(metric, (preds, target)).compute().item() == pytest.approx(
        log_loss(target, preds.double()), rel=1e-6
    )
    weighted = as_metric(make_scorer(f1_score, average="macro"), output=Category(3))
    labels, guesses = torch.arange(30) % 3, torch.arange(30) % 4 % 3
    assert fed(weighted, (guesses, labels)).compute().item() == f1_score(labels, guesses, average="macro")


def test_a_scorer_of_two_methods_reads_either():
    """roc_auc takes decisions or probabilities: probabilities unless said."""
    assert as_metric(auc_scorer()).inputs is PROBABILITIES
    metric = as_metric(auc_scorer(), inputs=LOGITS, output=Binary())
    preds, target = chances()
    metric.update(logits=100 * preds, target=target)
    assert metric.compute().item() == pytest.approx(roc_auc_score(target, preds))


def test_a_scorer_is_not_contradicted():
    """Both facts are named."""
    scorer = make_scorer(brier_score_loss, greater_is_better=False, response_method="predict_proba")
    with pytest.raises(ObjectiveError, match="the scorer's sign says minimize, objective= says maximize"):
        as_metric(scorer, objective=MAXIMIZE)
    with pytest.raises(RegistrationError, match="the scorer reads probabilities, inputs= says predictions"):
        as_metric(scorer, inputs=PREDICTIONS)
    assert as_metric(scorer, objective=None).objective is None


def test_the_order_of_arguments_follows_the_first_name():
    """`y_true` first means scikit-learn's form; a bias shows which came first."""
    metric = as_metric(both_errors, objective=MINIMIZE, inputs=PREDICTIONS, component="bias")
    metric.update(torch.tensor([3.0]), torch.tensor([1.0]))
    assert metric.compute().item() == 2.0


def test_a_partial_function_keeps_its_name():
    """The parameters are fixed, the order is still scikit-learn's."""
    function = functools.partial(mean_squared_error, multioutput="uniform_average")
    metric = as_metric(function, objective=MINIMIZE, inputs=PREDICTIONS)
    assert metric.name == "mean_squared_error"
    assert fed(metric, (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))).compute().item() == 2.0


def test_a_result_of_several_numbers_needs_a_component():
    """The error lists what there is."""
    batch = numbers()
    metric = fed(as_metric(both_errors, objective=MINIMIZE, inputs=PREDICTIONS), batch)
    with pytest.raises(
        MetricInputError, match="gives a dict of bias, mae; say which is its value, as in component='bias'"
    ):
        metric.compute()
    metric = fed(as_metric(both_errors, objective=MINIMIZE, inputs=PREDICTIONS, component="rmse"), batch)
    with pytest.raises(MetricInputError, match="has no component 'rmse'; its result is a dict of bias, mae"):
        metric.compute()


def test_a_component_of_a_vector():
    """Accuracy of class 1 alone."""
    accuracy = MulticlassAccuracy(num_classes=3, average=None)
    metric = as_metric(accuracy, objective=MAXIMIZE, inputs=PREDICTIONS, component=1, output=Category(3))
    metric.update(torch.tensor([0, 1, 0]), torch.tensor([0, 1, 1]))
    assert metric.compute().item() == 0.5
    bare = as_metric(BinaryConfusionMatrix, objective=None, inputs=PREDICTIONS)
    bare.update(torch.tensor([0, 1]), torch.tensor([0, 1]))
    with pytest.raises(
        MetricInputError, match=re.escape("gives values of shape (2, 2); say which is its value")
    ):
        bare.compute()


def test_per_row_wants_one_value_per_row():
    """A mean of batch means must not slip in."""
    metric = as_metric(worst_error, objective=MINIMIZE, inputs=PREDICTIONS, per_row=True)
    with pytest.raises(
        MetricInputError, match=re.escape("gives one value for each of 50 rows, got shape ()")
    ):
        metric.update(*numbers())
    with pytest.raises(RegistrationError, match="per_row=True is for a plain function"):
        as_metric(MeanSquaredError(), objective=MINIMIZE, inputs=PREDICTIONS, per_row=True)


def test_a_refused_batch_leaves_the_state_as_it_was():
    """What torchmetrics raises is our error, and the next batch is measured as if nothing had been."""
    metric = as_metric(RetrievalMRR(), objective=MAXIMIZE, inputs=LOGITS)
    scores, target = torch.tensor([0.9, 0.1, 0.4]), torch.tensor([0, 1, 1])
    metric.update(scores, target, indexes=torch.tensor([0, 0, 0]))
    with pytest.raises(MetricInputError, match="RetrievalMRR refused the batch"):
        metric.update(scores, target, indexes=torch.tensor([0.5, 0.5, 0.5]))
    assert metric.compute().item() == 0.5


def test_another_source_does_not_merge():
    """Two metrics of the same kind of wrapping are not the same metric."""
    mse, pearson = KINDS["torchmetrics"](), KINDS["torchmetrics with stacked states"]()
    with pytest.raises(
        StateError, match="MeanSquaredError merges only with its own kind, got PearsonCorrCoef"
    ):
        mse.merge(pearson)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (MulticlassAccuracy, "MulticlassAccuracy needs arguments; pass an object"),
        ("accuracy", r"got 'accuracy'; get_metric\(name\) builds"),
        (dict, "got <class 'dict'>"),
        (lambda preds, target: 0, "a lambda has no name of its own; give name="),
    ],
)
def test_what_cannot_be_wrapped_is_refused(source, text):
    """The error says what can."""
    with pytest.raises(RegistrationError, match=text):
        as_metric(source, objective=MINIMIZE, inputs=PREDICTIONS)


def test_a_metric_of_ours_is_not_wrapped():
    """It is one already."""
    with pytest.raises(RegistrationError, match="is a metric of this package already"):
        as_metric(KINDS["pooled"](), objective=MINIMIZE, inputs=PREDICTIONS)


def test_a_name_must_print_as_it_parses():
    """A collection's key is a metric name."""
    with pytest.raises(RegistrationError, match="name='my metric'"):
        as_metric(worst_error, objective=MINIMIZE, inputs=PREDICTIONS, name="my metric")
    assert as_metric(lambda p, t: 0.0, objective=None, inputs=PREDICTIONS, name="zero").name == "zero"


def test_the_wrapped_object_is_a_copy():
    """What the caller's object has measured, and will, does not show."""
    inner = MeanSquaredError()
    inner.update(*numbers())
    metric = as_metric(inner, objective=MINIMIZE, inputs=PREDICTIONS)
    metric.update(torch.tensor([1.0]), torch.tensor([3.0]))
    assert metric.compute().item() == 4.0


def test_a_nan_of_the_source_has_a_reason():
    """Nobody has to guess where it came from."""
    metric = as_metric(lambda p, t: float("nan"), objective=MINIMIZE, inputs=PREDICTIONS, name="broken")
    assert fed(metric, numbers()).compute().isnan()
    assert metric.undefined_reason == "the wrapped broken gave nan"
