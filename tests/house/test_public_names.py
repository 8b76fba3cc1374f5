"""The top level: public names only, loaded when they are used."""

from __future__ import annotations

import ast
import typing
from pathlib import Path

import pytest

import hpometrics
from docs._generate.index import with_constants
from hpometrics.metrics.registry.index import all_entries, index_aliases

SOURCE = Path(hpometrics.__file__)
LUDWIG = {
    "ACCURACY_MICRO": "accuracy", "CHAR_ERROR_RATE": "cer", "HITS_AT_K": "hits", "MEAN_ABSOLUTE_ERROR": "mae",
    "MEAN_ABSOLUTE_PERCENTAGE_ERROR": "mape", "MEAN_SQUARED_ERROR": "mse", "ROOT_MEAN_SQUARED_ERROR": "rmse",
    "ROOT_MEAN_SQUARED_PERCENTAGE_ERROR": "rmspe", "SEQUENCE_SOFTMAX_CROSS_ENTROPY": "log_loss",
    "SIGMOID_CROSS_ENTROPY": "binary_cross_entropy", "WORD_ERROR_RATE": "wer",
}  # fmt: skip
"""The constants of Ludwig whose metric has another name here."""
LUDWIG_AS_HERE = (
    "ACCURACY", "BINARY_WEIGHTED_CROSS_ENTROPY", "CORN", "EDIT_DISTANCE", "HUBER", "JACCARD", "LAST_ACCURACY",
    "LOSS", "PERPLEXITY", "PRECISION", "R2", "RECALL", "ROC_AUC", "SEQUENCE_ACCURACY",
    "SOFTMAX_CROSS_ENTROPY", "SPECIFICITY", "TOKEN_ACCURACY",
)  # fmt: skip
"""Those whose metric is called the same."""


def test_every_public_name_is_there():
    """Whatever is public can be imported, and is listed by `dir`."""
    assert [name for name in hpometrics._HOME_OF if getattr(hpometrics, name, None) is None] == []
    assert set(hpometrics._HOME_OF) <= set(dir(hpometrics))


def test_a_star_import_hides_no_name_of_typing():
    """`from typing import *` before it stays as it was; all but those names are brought."""
    names = hpometrics._HOME_OF.keys()
    assert names - set(hpometrics.__all__) == names & set(typing.__all__)


def test_the_type_checker_sees_the_same_names():
    """The stub and the names loaded lazily are one list."""
    stub = ast.parse(SOURCE.with_suffix(".pyi").read_text(encoding="utf8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom) and node.level]
    assert {alias.name: node.module for node in imports for alias in node.names} == hpometrics._HOME_OF


def test_the_names_of_built_in_metrics_are_constants():
    """By the name in capitals, for a type checker as well; none is another public name, or in `__all__`."""
    names = {entry.name for entry in all_entries() if entry.is_built_in}
    expected = {name.upper(): name for name in names} | LUDWIG
    assert {constant: getattr(hpometrics, constant) for constant in expected} == expected
    assert expected.keys().isdisjoint({*hpometrics._HOME_OF, *hpometrics.__all__})
    text = SOURCE.with_suffix(".pyi").read_text(encoding="utf8")
    assert with_constants(text) == text
    declared = [node for node in ast.parse(text).body if isinstance(node, ast.AnnAssign)]
    constants = {node.target.id: node.value.value for node in declared if node.value}
    assert constants == expected


def test_the_constants_of_ludwig_name_metrics():
    """Each is the name here of what Ludwig calls so, for every output of which its word is an alias."""
    meant = {(alias.upper(), name) for (alias, _), name in index_aliases().items() if alias.upper() in LUDWIG}
    assert meant == set(LUDWIG.items())
    assert [getattr(hpometrics, name) for name in LUDWIG_AS_HERE] == [name.lower() for name in LUDWIG_AS_HERE]


@pytest.mark.parametrize("name", ["TOKEN_ACCURRACY", "Token_Accuracy", "NDCG@10"])
def test_what_is_no_name_of_a_metric_is_no_constant(name):
    """As any other attribute that there is not."""
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
        getattr(hpometrics, name)


def test_an_unknown_name_is_an_attribute_error():
    """A misspelled name fails as in any module."""
    with pytest.raises(AttributeError, match="has no attribute 'MetricColection'"):
        _ = hpometrics.MetricColection
