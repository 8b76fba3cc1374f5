"""as_metric: foreign metrics become ours, with a direction that is stated and never guessed."""

from __future__ import annotations

import functools
import re

import pytest
import sklearn
import torch
from sample_sources import KINDS, auc_scorer, both_errors, chances, fed, numbers, worst_error
from sklearn.metrics import (
    brier_score_loss,
    f1_score,
    log_loss,
    make_scorer,
    mean_squared_error,
    roc_auc_score,
)
from torchmetrics.classification import BinaryConfusionMatrix, MulticlassAccuracy
from torchmetrics.regression import MeanSquaredError, PearsonCorrCoef

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import DirectionError, MetricInputError, RegistrationError
from hpometrics.metrics.as_metric import as_metric
from hpometrics.metrics.features import LOGITS, PREDICTIONS, PROBABILITIES, Binary, Category

# It keeps all rows, and says so.
pytestmark = pytest.mark.filterwarnings("ignore:Metric `Spearman:UserWarning")


def test_the_direction_is_never_read_from_torchmetrics():
    """For torchmetrics Pearson has none and MSE's is lower; we ask."""
    with pytest.raises(DirectionError, match=r"MeanSquaredError: pass direction=MINIMIZE, MAXIMIZE or None"):
        as_metric(MeanSquaredError(), inputs=PREDICTIONS)
    metric = as_metric(PearsonCorrCoef(), direction="max", inputs="predictions")
    assert (metric.get_objective(), metric.get_inputs(), metric.higher_is_better) == (
        MAXIMIZE,
        PREDICTIONS,
        True,
    )
    assert as_metric(PearsonCorrCoef, direction=None, inputs=PREDICTIONS).higher_is_better is None


@pytest.mark.parametrize(
    ("inputs", "text"), [({}, "or LOGITS"), ({"inputs": "scores"}, "or LOGITS, got 'scores'")]
)
def test_the_inputs_must_be_stated(inputs, text):
    """Which output a function reads cannot be known."""
    with pytest.raises(
        RegistrationError, match=f"worst_error: pass inputs=PREDICTIONS, PROBABILITIES {text}$"
    ):
        as_metric(worst_error, direction=MINIMIZE, **inputs)


def test_a_scorer_states_its_own_facts():
    """Natural value, direction by its sign, inputs by the method of the estimator that it calls."""
    metric = as_metric(make_scorer(log_loss, greater_is_better=False, response_method="predict_proba"))
    assert (metric.name, metric.direction, metric.inputs) == ("log_loss", MINIMIZE, PROBABILITIES)
    preds, target = chances()
    assert fed(metric, (preds, target)).compute().item() == pytest.approx(
        log_loss(target, preds.double()), rel=1e-6
    )
    weighted = as_metric(make_scorer(f1_score, average="macro"), output=Category(3))
    labels, guesses = torch.arange(30) % 3, torch.arange(30) % 4 % 3
    assert fed(weighted, (guesses, labels)).compute().item() == f1_score(labels, guesses, average="macro")


@pytest.mark.parametrize(
    ("private", "value"),
    [
        ("_score_func", f1_score),
        ("_sign", -1),
        ("_kwargs", {"average": "macro"}),
        ("_response_method", "predict"),
    ],
)
def test_a_scorer_has_its_facts_in_privates(private, value):
    """scikit-learn has no public name for them; a failure names the one that a new version moves."""
    scorer = make_scorer(f1_score, greater_is_better=False, average="macro")
    if getattr(scorer, private, None) != value:
        pytest.fail(
            f"scikit-learn {sklearn.__version__} has moved {private} of a scorer; "
            "mend hpometrics/metrics/as_metric.py"
        )


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
    with pytest.raises(
        DirectionError, match="the sign of the scorer means minimize, but direction= is maximize"
    ):
        as_metric(scorer, direction=MAXIMIZE)
    with pytest.raises(RegistrationError, match="the scorer reads probabilities, but inputs= is predictions"):
        as_metric(scorer, inputs=PREDICTIONS)
    assert as_metric(scorer, direction=None).direction is None


def test_ludwigs_keyword_is_accepted():
    """`objective=` is `direction=`, also of a scorer; two that differ are refused."""
    metric = as_metric(worst_error, objective="min", inputs=PREDICTIONS)
    assert metric.direction is metric.objective is metric.get_objective() is MINIMIZE
    assert as_metric(worst_error, objective=None, inputs=PREDICTIONS).direction is None
    scorer = make_scorer(brier_score_loss, greater_is_better=False, response_method="predict_proba")
    with pytest.raises(
        DirectionError, match="the sign of the scorer means minimize, but direction= is maximize"
    ):
        as_metric(scorer, objective=MAXIMIZE)
    with pytest.raises(DirectionError, match="worst_error: direction says minimize, but objective says max"):
        as_metric(worst_error, direction=MINIMIZE, objective=MAXIMIZE, inputs=PREDICTIONS)


def test_the_order_of_arguments_follows_the_first_name():
    """`y_true` first means scikit-learn's form; a bias shows which came first."""
    metric = as_metric(both_errors, direction=MINIMIZE, inputs=PREDICTIONS, component="bias")
    metric.update(torch.tensor([3.0]), torch.tensor([1.0]))
    assert metric.compute().item() == 2.0


def test_a_partial_function_keeps_its_name():
    """The parameters are fixed, the order is still scikit-learn's."""
    function = functools.partial(mean_squared_error, multioutput="uniform_average")
    metric = as_metric(function, direction=MINIMIZE, inputs=PREDICTIONS)
    assert metric.name == "mean_squared_error"
    assert fed(metric, (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))).compute().item() == 2.0


def test_a_result_of_several_numbers_needs_a_component():
    """The error lists what there is."""
    batch = numbers()
    metric = fed(as_metric(both_errors, direction=MINIMIZE, inputs=PREDICTIONS), batch)
    with pytest.raises(
        MetricInputError, match="gives a dict of bias, mae; choose its value, as in component='bias'"
    ):
        metric.compute()
    metric = fed(as_metric(both_errors, direction=MINIMIZE, inputs=PREDICTIONS, component="rmse"), batch)
    with pytest.raises(MetricInputError, match="has no component 'rmse'; its result is a dict of bias, mae"):
        metric.compute()


@pytest.mark.parametrize("result", [None, "0.5", 1j])
def test_a_result_that_is_no_number_has_no_component(result):
    """It is said what a value is."""
    metric = as_metric(lambda preds, target: result, direction=MINIMIZE, inputs=PREDICTIONS, name="odd")
    with pytest.raises(
        MetricInputError, match=f"odd gives {re.escape(repr(result))}; a value must be one number"
    ):
        fed(metric, numbers()).compute()


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (
            lambda preds: 0.0,
            "odd(preds) must be callable as odd(preds, target): too many positional arguments",
        ),
        (
            lambda preds, target, k: 0.0,
            "odd(preds, target, k) must be callable .*: missing a required argument: 'k'",
        ),
    ],
)
def test_a_function_that_cannot_be_called_is_refused_at_once(function, told):
    """And not at the end of the first epoch."""
    told = re.escape(told).replace(re.escape(".*"), ".*")
    with pytest.raises(RegistrationError, match=told):
        as_metric(function, direction=MINIMIZE, inputs=PREDICTIONS, name="odd")


def test_a_component_of_a_vector():
    """Accuracy of class 1 alone."""
    accuracy = MulticlassAccuracy(num_classes=3, average=None)
    metric = as_metric(accuracy, direction=MAXIMIZE, inputs=PREDICTIONS, component=1, output=Category(3))
    metric.update(torch.tensor([0, 1, 0]), torch.tensor([0, 1, 1]))
    assert metric.compute().item() == 0.5
    bare = as_metric(BinaryConfusionMatrix, direction=None, inputs=PREDICTIONS)
    bare.update(torch.tensor([0, 1]), torch.tensor([0, 1]))
    with pytest.raises(MetricInputError, match=re.escape("gives values of shape (2, 2); choose its value")):
        bare.compute()


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (MulticlassAccuracy, "MulticlassAccuracy needs arguments; pass an object"),
        ("accuracy", r"got 'accuracy'; build"),
        (dict, "got <class 'dict'>"),
        (lambda preds, target: 0, "a lambda has no name; pass name="),
    ],
)
def test_what_cannot_be_wrapped_is_refused(source, text):
    """The error says what can."""
    with pytest.raises(RegistrationError, match=text):
        as_metric(source, direction=MINIMIZE, inputs=PREDICTIONS)


def test_a_metric_of_ours_is_not_wrapped():
    """It is one already."""
    with pytest.raises(RegistrationError, match="is already a metric of this package"):
        as_metric(KINDS["pooled"](), direction=MINIMIZE, inputs=PREDICTIONS)


def test_a_name_must_print_as_it_parses():
    """A collection's key is a metric name."""
    with pytest.raises(RegistrationError, match="name='my metric'"):
        as_metric(worst_error, direction=MINIMIZE, inputs=PREDICTIONS, name="my metric")
    assert as_metric(lambda p, t: 0.0, direction=None, inputs=PREDICTIONS, name="zero").name == "zero"
