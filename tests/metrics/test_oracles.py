"""Agreement with scikit-learn, scipy and torchmetrics on random data; `catalogue/` has more, by family.

A reference takes what the model gave as NumPy arrays (`Case`) and says the library's value. Where a library
answers what is undefined with a number, the reference says nan, as we do.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.special
import scipy.stats
import sklearn.metrics as sk
import torch
import torchmetrics.functional as tm
import torchmetrics.functional.text as tm_text

from hpometrics.metrics.features import InputType, parse_feature
from hpometrics.metrics.outputs import Outputs
from hpometrics.metrics.registry import all_entries, get_metric
from hpometrics.testing import OUTPUTS

NAN = float("nan")
AVERAGES = ("micro", "macro", "weighted", "none")


@dataclass(frozen=True)
class Case:
    """One epoch of one feature: scores (logits) where there are any, predictions, target."""

    feature: str
    logits: np.ndarray | None
    predictions: np.ndarray
    target: np.ndarray

    @property
    def probabilities(self) -> np.ndarray:
        """Sigmoid or softmax of the logits."""
        if self.feature in ("binary", "set"):
            return scipy.special.expit(self.logits)
        return scipy.special.softmax(self.logits, axis=-1)

    @property
    def columns(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """A yes-or-no problem per class or label: target, predictions, probabilities."""
        if self.feature == "binary":
            return [(self.target, self.predictions, self.probabilities)]
        if self.feature == "set":
            return list(zip(self.target.T, self.predictions.T, self.probabilities.T, strict=True))
        classes = range(self.logits.shape[1])
        return [(self.target == c, self.predictions == c, self.probabilities[:, c]) for c in classes]

    @property
    def tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Probabilities, predictions and target for torchmetrics."""
        probabilities = self.probabilities if self.logits is not None else self.predictions
        return torch.tensor(probabilities), torch.tensor(self.predictions), torch.tensor(self.target)


def make_case(feature: str, rows: int, seed: int, ties: bool) -> Case:
    """Random outputs of a middling model; a category's last class but one is never the target."""
    random = np.random.default_rng([seed, rows])
    shape = {"vector": (rows, 3), "timeseries": (rows, 5), "set": (rows, 3)}.get(feature, (rows,))
    if feature in ("number", "vector", "timeseries"):
        target = random.lognormal(size=shape)
        return Case(feature, None, np.abs(target + random.normal(0, 0.5, shape)), target)
    classes = {"category": 4, "sequence": 7, "text": 7}.get(feature, 2)
    if feature in ("sequence", "text"):
        shape = (rows, 5)
    target = random.integers(classes, size=shape)
    target[target == 2] = 3 if feature == "category" else 1
    shown = np.eye(classes)[target] if classes > 2 else 2 * target - 1
    logits = random.normal(size=(*shape, classes) if classes > 2 else shape) + 0.7 * shown
    logits = logits[random.integers(rows // 3 + 1, size=rows)] if ties else logits
    predictions = logits.argmax(-1) if classes > 2 else (logits > 0).astype(int)
    if feature in ("sequence", "text"):
        target[random.random(shape) < 0.3] = -100
    return Case(feature, logits, predictions, target)


Reference = Callable[[Case], float | np.ndarray]


def averaged(per_class: Callable[[np.ndarray, np.ndarray], float], average: str) -> Reference:
    """Average a yes-or-no score over the classes that occur, as scikit-learn does with its default labels."""

    def reference(case: Case) -> float | np.ndarray:
        if average == "micro":
            stacked = np.concatenate([np.stack(column[:2]) for column in case.columns], axis=1)
            return per_class(*stacked)
        values = np.array([per_class(target, preds) for target, preds, _ in case.columns])
        occurs = np.array([bool(target.any() or preds.any()) for target, preds, _ in case.columns])
        if average == "none":
            return np.where(occurs, values, NAN)
        weights = [
            target.sum() if average == "weighted" else here
            for (target, _, _), here in zip(case.columns, occurs, strict=True)
        ]
        return np.average(values, weights=weights) if np.sum(weights) else NAN

    return reference


def curve(per_class: Callable[[np.ndarray, np.ndarray], float], average: str) -> Reference:
    """Average an area over the classes that have one."""

    def reference(case: Case) -> float | np.ndarray:
        areas = np.array([_area(per_class, target, scores) for target, _, scores in case.columns])
        if average == "none":
            return areas
        weights = np.array(
            [float(target.sum()) if average == "weighted" else 1.0 for target, _, _ in case.columns]
        )
        has = ~np.isnan(areas)
        return np.average(areas[has], weights=weights[has]) if has.any() else NAN

    return reference


def _area(per_class: Callable, target: np.ndarray, scores: np.ndarray) -> float:
    if not target.any() or (per_class is sk.roc_auc_score and target.all()):
        return NAN
    return per_class(target, scores)


def decision(score: Callable, **options) -> Reference:
    """A scikit-learn score of target and predictions."""
    return lambda case: score(case.target, case.predictions, **options)


def yes_or_no(score: Callable, zero_division: float) -> Callable[[np.ndarray, np.ndarray], float]:
    """A score of class 1 with scikit-learn's answer to a denominator of 0 spelled out."""
    return lambda target, preds: score(target, preds, labels=[0, 1], zero_division=zero_division)


def real(score: Callable) -> Reference:
    """A scikit-learn score of real outputs."""
    return lambda case: score(case.target, case.predictions)


def per_column(score: Callable[[np.ndarray, np.ndarray], float]) -> Reference:
    """The mean over columns of a score that scipy or torchmetrics has for one."""

    def reference(case: Case) -> float:
        target, preds = (x.reshape(len(x), -1).T for x in (case.target, case.predictions))
        return float(np.mean([score(p, t) for p, t in zip(preds, target, strict=True)]))

    return reference


def spread_or_nan(score: Reference) -> Reference:
    """A share of variation needs two rows."""
    return lambda case: score(case) if len(case.target) > 1 else NAN


def all_labels(case: Case) -> list[int]:
    """The classes of a category or of a binary output."""
    return [0, 1] if case.feature == "binary" else list(range(case.logits.shape[1]))


def kappa(weights: str | None) -> Reference:
    """Cohen's kappa; nan where target and predictions are one and the same class."""
    return lambda case: sk.cohen_kappa_score(
        case.target, case.predictions, labels=all_labels(case), weights=weights
    )


def mcc(case: Case) -> float:
    """Matthews' correlation; undefined where target or predictions are constant (scikit-learn gives 0)."""
    constant = len(set(case.target)) == 1 or len(set(case.predictions)) == 1
    return NAN if constant else sk.matthews_corrcoef(case.target, case.predictions)


def specificity(target: np.ndarray, preds: np.ndarray, zero_division: float = 0) -> float:
    """The recall of class 0."""
    return sk.recall_score(target, preds, pos_label=0, labels=[0, 1], zero_division=zero_division)


def log_loss(case: Case) -> float:
    """Mean over the labels of a set, as scikit-learn has one column only."""
    if case.feature == "category":
        return sk.log_loss(case.target, case.probabilities, labels=all_labels(case))
    return float(np.mean([sk.log_loss(target, scores, labels=[0, 1]) for target, _, scores in case.columns]))


def brier(case: Case) -> float:
    """The sum over classes of a category, the square of class 1 of a binary output."""
    if case.feature == "binary":
        return sk.brier_score_loss(case.target, case.probabilities, labels=[0, 1])
    return sk.brier_score_loss(case.target, case.probabilities, labels=all_labels(case), scale_by_half=False)


def ece(case: Case) -> float:
    """The binned calibration error of torchmetrics."""
    probabilities, _, target = case.tensors
    if case.feature == "binary":
        return tm.classification.binary_calibration_error(probabilities, target, 15).item()
    classes = probabilities.shape[1]
    return tm.classification.multiclass_calibration_error(probabilities, target, classes, 15).item()


def hits(case: Case) -> float:
    """Top-2; scikit-learn breaks ties the other way, so the scores are given a hint of class order."""
    hinted = case.logits - 1e-9 * np.arange(case.logits.shape[1])
    return sk.top_k_accuracy_score(case.target, hinted, k=2, labels=all_labels(case))


def token_accuracy(case: Case) -> float:
    """The micro accuracy of torchmetrics over tokens that count."""
    _, preds, target = case.tensors
    return tm.classification.multiclass_accuracy(
        preds, target, num_classes=7, average="micro", ignore_index=-100
    ).item()


def token_accuracy_by_sequence(case: Case) -> float:
    """The mean of torchmetrics' accuracies of the sequences that have tokens."""
    _, preds, target = case.tensors
    shares = tm.classification.multiclass_accuracy(
        preds, target, num_classes=7, average="micro", ignore_index=-100, multidim_average="samplewise"
    )
    has_tokens = (target != -100).any(1)
    return shares[has_tokens].double().mean().item()


def sequence_accuracy(case: Case) -> float:
    """The exact match of torchmetrics over the sequences that have tokens."""
    _, preds, target = case.tensors
    has_tokens = (target != -100).any(1)
    if not has_tokens.any():
        return NAN
    return tm.classification.multiclass_exact_match(
        preds[has_tokens], target[has_tokens], num_classes=7, ignore_index=-100
    ).item()


def jaccard(case: Case) -> float:
    """The Jaccard index of class 1; scikit-learn has no nan for an empty union."""
    union = case.target.any() or case.predictions.any()
    return sk.jaccard_score(case.target, case.predictions) if union else NAN


def perplexity(case: Case) -> float:
    """The perplexity of torchmetrics."""
    return tm_text.perplexity(torch.tensor(case.logits), torch.tensor(case.target), ignore_index=-100).item()


RATIOS = {
    "precision": sk.precision_score,
    "recall": sk.recall_score,
    "f1": sk.f1_score,
    "fbeta": partial(sk.fbeta_score, beta=0.5),
    "jaccard": sk.jaccard_score,
}
REAL = ("number", "vector", "timeseries")

ORACLES: dict[tuple[str, str], tuple[Reference, float]] = {
    ("accuracy", "binary"): (decision(sk.accuracy_score), 1e-12),
    ("accuracy", "category"): (decision(sk.accuracy_score), 1e-12),
    ("accuracy", "set"): (decision(sk.accuracy_score), 1e-12),
    ("balanced_accuracy", "binary"): (decision(sk.balanced_accuracy_score), 1e-12),
    ("balanced_accuracy", "category"): (decision(sk.balanced_accuracy_score), 1e-12),
    ("hamming", "binary"): (decision(sk.hamming_loss), 1e-12),
    ("hamming", "category"): (decision(sk.hamming_loss), 1e-12),
    ("hamming", "set"): (decision(sk.hamming_loss), 1e-12),
    ("mcc", "binary"): (mcc, 1e-12),
    ("mcc", "category"): (mcc, 1e-12),
    ("hits@2", "category"): (hits, 1e-12),
    ("specificity", "binary"): (decision(partial(specificity, zero_division=NAN)), 1e-12),
    ("jaccard", "binary"): (jaccard, 1e-12),
    **{
        (name, feature): (reference, 1e-5)
        for feature in ("sequence", "text")
        for name, reference in (
            ("token_accuracy", token_accuracy),
            ("token_accuracy(average=sequence)", token_accuracy_by_sequence),
            ("sequence_accuracy", sequence_accuracy),
            ("perplexity", perplexity),
        )
    },
    **{("log_loss", feature): (log_loss, 1e-12) for feature in ("binary", "category", "set")},
    **{("brier", feature): (brier, 1e-12) for feature in ("binary", "category")},
    **{("ece", feature): (ece, 1e-5) for feature in ("binary", "category")},
    **{
        (f"cohen_kappa{f'(weights={weights})' if weights else ''}", feature): (kappa(weights), 1e-12)
        for weights in (None, "linear", "quadratic")
        for feature in ("binary", "category")
    },
    **{
        (f"{name}{'(beta=0.5)' if name == 'fbeta' else ''}", "binary"): (
            decision(yes_or_no(score, NAN)),
            1e-12,
        )
        for name, score in RATIOS.items()
        if name != "jaccard"
    },
    **{
        (f"{name}(average={average}{', beta=0.5' if name == 'fbeta' else ''})", feature): (
            averaged(yes_or_no(score, 0), average),
            1e-12,
        )
        for name, score in RATIOS.items()
        for average in AVERAGES
        for feature in ("category", "set")
    },
    **{
        (f"specificity(average={average})", feature): (averaged(specificity, average), 1e-12)
        for average in AVERAGES
        for feature in ("category", "set")
    },
    **{
        (f"{name}{'' if average == 'macro' else f'(average={average})'}", feature): (
            curve(score, average),
            1e-12,
        )
        for name, score in (("roc_auc", sk.roc_auc_score), ("average_precision", sk.average_precision_score))
        for average in ("macro", "weighted", "none")
        for feature in ("binary", "category", "set")
    },
    **{
        (name, feature): (reference, tolerance)
        for feature in REAL
        for name, reference, tolerance in (
            ("mse", real(sk.mean_squared_error), 1e-12),
            ("rmse", real(sk.root_mean_squared_error), 1e-12),
            ("mae", real(sk.mean_absolute_error), 1e-12),
            ("mape", real(sk.mean_absolute_percentage_error), 1e-12),
            ("rmsle", real(sk.root_mean_squared_log_error), 1e-12),
            ("r2", spread_or_nan(real(sk.r2_score)), 1e-9),
            ("explained_variance", spread_or_nan(real(sk.explained_variance_score)), 1e-9),
            ("pearson", spread_or_nan(per_column(lambda p, t: scipy.stats.pearsonr(p, t).statistic)), 1e-9),
            (
                "smape",
                per_column(
                    lambda p, t: tm.symmetric_mean_absolute_percentage_error(
                        torch.tensor(p), torch.tensor(t)
                    ).item()
                ),
                1e-9,
            ),
        )
    },
}


def measured(name: str, case: Case, form: str = "logits", dtype: torch.dtype = torch.float64) -> np.ndarray:
    """Our value, over two uneven batches."""
    output = OUTPUTS.get(case.feature) or parse_feature(case.feature)
    metric = get_metric(name, output)
    source = case.predictions if case.logits is None else case.logits
    given, target = torch.tensor(source), torch.tensor(case.target)
    if case.logits is None:
        form = "predictions"
    elif form != "logits":
        given = Outputs(output, logits=given, target=target)[InputType(form)]
    given = given.to(dtype) if given.is_floating_point() else given
    third = -(-len(given) // 3)
    for part in (slice(None, third), slice(third, None)):
        metric.update(**{form: given[part]}, target=target[part])
    return metric.compute().double().numpy()


def expected(reference: Reference, case: Case) -> np.ndarray:
    """The reference's value; its warnings about odd data are its own affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(reference(case), dtype=float)


@pytest.mark.parametrize(
    ("rows", "seed", "ties"), [(300, 0, False), (300, 1, True), (41, 2, False), (5, 3, True)]
)
@pytest.mark.parametrize(("name", "feature"), ORACLES, ids=map("-".join, ORACLES))
def test_a_metric_agrees_with_its_reference(name, feature, rows, seed, ties):
    """From logits, many rows and few, with ties among scores and with a class that is never the target."""
    reference, tolerance = ORACLES[name, feature]
    case = make_case(feature, rows, seed, ties)
    np.testing.assert_allclose(
        measured(name, case), expected(reference, case), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize(("name", "feature"), ORACLES, ids=map("-".join, ORACLES))
def test_a_single_row_agrees_with_its_reference(name, feature):
    """One row of any kind: a number where the reference has one, nan where nothing can be said."""
    reference, tolerance = ORACLES[name, feature]
    for seed in range(8):
        case = make_case(feature, 1, seed, ties=False)
        np.testing.assert_allclose(
            measured(name, case), expected(reference, case), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize(("name", "feature"), ORACLES, ids=map("-".join, ORACLES))
def test_probabilities_do_as_well_as_logits(name, feature):
    """What reads probabilities or predictions has the same value when it is given them."""
    reference, tolerance = ORACLES[name, feature]
    case = make_case(feature, 100, 4, ties=False)
    forms = {
        "predictions": ["probabilities", "predictions"],
        "probabilities": ["probabilities"],
        "logits": [],
    }
    for form in forms[get_metric(name, feature).inputs]:
        np.testing.assert_allclose(
            measured(name, case, form), expected(reference, case), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("sure", [1.0, 15.0])
@pytest.mark.parametrize(("name", "feature"), ORACLES, ids=map("-".join, ORACLES))
def test_single_precision_is_good_to_single_precision(name, feature, sure):
    """In float32 the value of the same numbers is right to four digits, also of a model that is very sure."""
    reference, _ = ORACLES[name, feature]
    case = make_case(feature, 300, 5, ties=False)
    if case.logits is None:
        as_float32 = Case(
            feature, None, *(x.astype("float32").astype(float) for x in (case.predictions, case.target))
        )
    else:
        right = np.where(case.target < 0, 0, case.target)
        shown = np.eye(case.logits.shape[-1])[right] if case.logits.ndim > right.ndim else 2 * right - 1
        logits = (case.logits + sure * shown).astype("float32").astype(float)
        chosen = logits.argmax(-1) if logits.ndim > right.ndim else (logits > 0).astype(int)
        as_float32 = Case(feature, logits, chosen, case.target)
    value = measured(name, as_float32, dtype=torch.float32)
    np.testing.assert_allclose(value, expected(reference, as_float32), rtol=1e-4, atol=1e-6)


def spread(size: float, offset: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Targets of a deviation `size` around `offset`, and predictions that follow them closely."""
    random = np.random.default_rng(seed)
    target = random.normal(size=1000) * size + offset
    return torch.tensor(target + random.normal(size=1000) * size / 10), torch.tensor(target)


@pytest.mark.parametrize(
    ("size", "offset"), [(1e-4, 0.0), (1e-8, 0.0), (1.0, 4096.0), (1.0, 1e6), (1e-3, 1e6)]
)
@pytest.mark.parametrize("name", ["r2", "explained_variance", "pearson"])
def test_shares_of_variation_survive_offset_and_scale(name, size, offset):
    """Where sums of squares in float32 give an R2 of 1.0000001 or 0: batches of 100, the two-pass value."""
    preds, target = spread(size, offset)
    metric = get_metric(name, "number")
    for start in range(0, 1000, 100):
        metric.update(preds[start : start + 100], target[start : start + 100])
    case = Case("number", None, preds.numpy(), target.numpy())
    np.testing.assert_allclose(metric.compute(), expected(ORACLES[name, "number"][0], case), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "preds", "target", "value"),
    [
        ("mse", torch.full((70_000,), 1.0).half(), torch.zeros(70_000), 1.0),
        ("mse", torch.tensor([300.0]).half(), torch.tensor([0.0]).half(), 90_000.0),
        ("mse", torch.tensor([100_000], dtype=torch.int32), torch.tensor([0], dtype=torch.int32), 1e10),
        ("mae", torch.tensor([0], dtype=torch.uint8), torch.tensor([255], dtype=torch.uint8), 255.0),
        ("mae", torch.tensor([255], dtype=torch.uint8), torch.tensor([0.0]), 255.0),
        ("mae", torch.full((1000,), 0.1, dtype=torch.float64), torch.zeros(1000), 0.1),
        ("mae", torch.tensor([True, False]), torch.tensor([0.0, 0.0]), 0.5),
    ],
)
def test_narrow_types_do_not_overflow(name, preds, target, value):
    """Half, int32 and uint8 are widened before any arithmetic."""
    metric = get_metric(name, "number")
    metric.update(preds, target)
    assert metric.compute().item() == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("form", "scores", "target", "value"),
    [
        ("logits", torch.linspace(18, 40, 100), torch.arange(100) >= 50, 1.0),
        ("logits", torch.linspace(-400, -300, 100), torch.arange(100) >= 50, 1.0),
        ("probabilities", torch.linspace(0.998, 0.999, 100), torch.arange(100) >= 50, 1.0),
        ("probabilities", torch.linspace(1e-12, 1e-10, 100), torch.arange(100) >= 50, 1.0),
        ("logits", torch.zeros(100), torch.arange(100) >= 50, 0.5),
        ("logits", torch.tensor([0.0, 1.0, 1.0, 1.0, 2.0, 2.0]), torch.tensor([0, 0, 1, 1, 0, 1]), 5.5 / 9),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ranking_sees_what_a_sigmoid_would_hide(form, scores, target, value, dtype):
    """Logits of 18 to 40 are in order although their sigmoids tie at 1; a tie counts one half."""
    metric = get_metric("roc_auc", "binary")
    metric.update(**{form: scores.to(dtype)}, target=target)
    assert metric.compute().item() == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("name", ["roc_auc(average=none)", "average_precision(average=none)"])
@pytest.mark.parametrize("form", ["logits", "probabilities"])
def test_a_sure_category_is_ranked_as_it_stands(name, form):
    """Probabilities far below the machine epsilon of float32 keep their order, as in scikit-learn."""
    case = make_case("category", 200, 6, ties=False)
    logits = torch.tensor(6 * case.logits, dtype=torch.float32)
    given = logits if form == "logits" else logits.softmax(1)
    metric = get_metric(name, "category")
    metric.update(**{form: given}, target=torch.tensor(case.target))
    score = sk.roc_auc_score if name.startswith("roc") else sk.average_precision_score
    ranked = logits.double().softmax(1).numpy() if form == "logits" else given.numpy()
    held = [c for c in range(4) if (case.target == c).any()]
    reference = [score(case.target == c, ranked[:, c]) for c in held]
    np.testing.assert_allclose(metric.compute()[held], reference, rtol=1e-5)


@pytest.mark.parametrize(("name", "feature"), ORACLES, ids=map("-".join, ORACLES))
def test_all_rows_of_one_class_or_one_value(name, feature):
    """Constant targets, predictions right or wrong: a finite value or nan with a reason, never infinity."""
    output = OUTPUTS.get(feature) or parse_feature(feature)
    for seed in range(2):
        case = make_case(feature, 20, seed, ties=False)
        constant = torch.tensor(case.target)
        constant[:] = constant.reshape(-1)[constant.reshape(-1) != -100][0]
        metric = get_metric(name, output)
        source = "predictions" if case.logits is None else "logits"
        given = case.predictions if case.logits is None else case.logits
        metric.update(**{source: torch.tensor(given)}, target=constant)
        value = metric.compute()
        assert not value.isinf().any()
        assert value.ndim or not value.isnan() or metric.undefined_reason


def test_every_metric_is_named_in_a_test_of_values():
    """What is not in the table above is compared in the tests of its catalogue file: none is forgotten."""
    files = [Path(__file__), *(Path(__file__).parent / "catalogue").glob("*.py")]
    text = "\n".join(path.read_text(encoding="utf8") for path in files)
    names, parts = (set(re.findall(word, text)) for word in ("[a-z][a-z0-9_]*", "[a-z0-9]+"))
    native = [entry for entry in all_entries() if ".reference" not in entry.path]
    unnamed = [entry for entry in native if not {entry.name, *(entry.aliases or {})} & names]
    assert [entry.name for entry in unnamed if not parts.issuperset(entry.name.split("_"))] == []
