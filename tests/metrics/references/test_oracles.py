"""Agreement with scikit-learn, scipy and torchmetrics on random data; `catalogue/` has more, by family."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matrix import covering, pairs
from oracle_cases import Case, expected, make_case, measured
from oracles import ORACLES

from hpometrics.metrics.features import parse_feature
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric
from hpometrics.testing import OUTPUTS

DRAWS = [(5, 3, True), (300, 1, True), (41, 2, False), (300, 0, False)]
"""Rows, a seed, and whether there are ties among scores."""
CASES = [(*oracle, *DRAWS[(place + turn) % 4]) for turn in range(4) for place, oracle in enumerate(ORACLES)]


def use_of(name: str, feature: str) -> list:
    """What an oracle stands for: a metric, and its parameters of an output."""
    found = find_metric(name, feature).name
    return [found.metric, (found.params, feature)]


def kinds_of(case: tuple) -> list:
    """Every oracle once, and what it stands for with every draw."""
    return [case[:2], *(kind for use in use_of(*case[:2]) for kind in pairs(use, case[2:]))]


def brief(case: tuple) -> str:
    """The id of a case."""
    return "-".join(map(str, case))


@pytest.mark.parametrize(("name", "feature", "rows", "seed", "ties"), covering(CASES, kinds_of, brief))
def test_a_metric_agrees_with_its_reference(name, feature, rows, seed, ties):
    """From logits, many rows and few, with ties among scores and with a class that is never the target."""
    reference, tolerance = ORACLES[name, feature]
    case = make_case(feature, rows, seed, ties)
    np.testing.assert_allclose(
        measured(name, case), expected(reference, case), rtol=tolerance, atol=tolerance
    )


ONCE = covering(ORACLES, lambda oracle: use_of(*oracle), "-".join)


@pytest.mark.parametrize(("name", "feature"), ONCE)
def test_a_single_row_agrees_with_its_reference(name, feature):
    """One row of any kind: a number where the reference has one, nan where nothing can be said."""
    reference, tolerance = ORACLES[name, feature]
    for seed in range(8):
        case = make_case(feature, 1, seed, ties=False)
        np.testing.assert_allclose(
            measured(name, case), expected(reference, case), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize(("name", "feature"), ONCE)
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
@pytest.mark.parametrize(("name", "feature"), ONCE)
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


@pytest.mark.parametrize(("name", "feature"), ONCE)
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
