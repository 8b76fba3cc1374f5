"""K folds: each row is tested once, and by whom is what was asked for."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy import sparse
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from hpometrics.engines.folds import fold_columns, fold_rows, split
from hpometrics.exceptions import EngineError

LABELS = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2])
GROUPS = np.array(["a", "a", "b", "b", "c", "c", "d", "d", "e", "e", "f", "f"])


def test_by_default_a_row_is_tested_in_the_fold_of_its_index():
    """PredictionIO's rule: index mod k, in order, nothing drawn."""
    folds = split(7, 3)
    assert [test.tolist() for _, test in folds] == [[0, 3, 6], [1, 4], [2, 5]]
    assert folds[1][0].tolist() == [0, 2, 3, 5, 6]


@given(st.integers(2, 30), st.integers(2, 30), st.none() | st.integers(0, 99))
def test_every_row_is_tested_once_and_trained_on_otherwise(count, k, seed):
    """The tests part the rows; trained on is the rest."""
    k = min(k, count)
    folds = split(count, k, seed=seed)
    assert len(folds) == k
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(count))
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(count))


@pytest.mark.parametrize(
    ("how", "splitter"),
    [
        ({"seed": 7}, KFold(3, shuffle=True, random_state=7)),
        ({"stratify": LABELS}, StratifiedKFold(3)),
        ({"stratify": LABELS, "seed": 7}, StratifiedKFold(3, shuffle=True, random_state=7)),
        ({"groups": GROUPS}, GroupKFold(3)),
        ({"groups": GROUPS, "seed": 7}, GroupKFold(3, shuffle=True, random_state=7)),
        ({"groups": GROUPS, "stratify": LABELS}, StratifiedGroupKFold(3)),
        (
            {"groups": GROUPS, "stratify": LABELS, "seed": 7},
            StratifiedGroupKFold(3, shuffle=True, random_state=7),
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else type(value).__name__,
)
def test_on_request_scikit_learn_splits(how, splitter):
    """The folds are those of its splitter, row by row."""
    expected = splitter.split(np.zeros(12), how.get("stratify"), how.get("groups"))
    for (train, test), (its_train, its_test) in zip(split(12, 3, **how), expected, strict=True):
        assert (train.tolist(), test.tolist()) == (its_train.tolist(), its_test.tolist())


@pytest.mark.parametrize(
    ("arguments", "how", "message"),
    [
        ((5, 1), {}, "between 2 and the number of rows, 5; got 1"),
        ((5, 6), {}, "between 2 and the number of rows, 5; got 6"),
        ((5, 2.0), {}, "got 2.0"),
        ((5, 2), {"stratify": [0, 1]}, "stratify has a value for each of the 5 rows, got 2"),
        ((5, 2), {"groups": [0] * 6}, "groups has a value for each of the 5 rows, got 6"),
        ((4, 3), {"groups": list("aabb")}, "4 rows do not split into 3 folds: .*number of groups: 2"),
        ((4, 3), {"stratify": list("aabb")}, "4 rows do not split into 3 folds: .*n_splits=3"),
    ],
)
def test_folds_that_cannot_be_are_refused(arguments, how, message):
    """Too few rows, groups or labels; a column that is too short."""
    with pytest.raises(EngineError, match=message):
        split(*arguments, **how)


MATRIX = np.arange(8.0).reshape(4, 2)


@pytest.mark.parametrize(
    "features",
    [MATRIX, torch.tensor(MATRIX), sparse.csr_matrix(MATRIX), MATRIX.tolist()],
    ids=["array", "tensor", "sparse", "list"],
)
def test_columns_of_any_kind_split_by_rows(features):
    """Trained on is (features, target), a query is a row."""
    fold = list(fold_columns(features, ["a", "b", "c", "d"], 2))[1]
    dense = [
        part.toarray() if sparse.issparse(part) else np.asarray(part)
        for part in (fold.training[0], fold.pairs.queries)
    ]
    assert [part.tolist() for part in dense] == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    assert (fold.training[1], fold.info, fold.pairs.actuals) == (["a", "c"], {"fold": 1}, ["b", "d"])


def test_a_data_frame_splits_by_rows_whatever_its_index():
    """Rows are places, not labels of the index."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [10, 11, 12, 13]}, index=[3, 2, 1, 0])
    fold = next(fold_columns(frame, frame["x"], 2))
    assert (fold.pairs.queries["x"].tolist(), fold.training[1].tolist()) == ([10, 12], [11, 13])
    assert [(query["x"], actual) for query, actual in fold.pairs] == [(10, 10), (12, 12)]
    assert fold.pairs[-1][1] == 12


def test_rows_of_any_type_are_made_into_queries_and_answers():
    """Three functions say what is trained on, asked and right."""
    rows = [{"text": text, "label": len(text)} for text in ("a", "bb", "ccc", "dddd")]
    fold, _ = fold_rows(
        rows,
        2,
        query=lambda row: row["text"],
        actual=lambda row: row["label"],
        training=lambda rows: {row["text"]: row["label"] for row in rows},
    )
    assert fold.training == {"bb": 2, "dddd": 4}
    assert list(fold.pairs) == [("a", 1), ("ccc", 3)]


WITHOUT = """
import sys
sys.modules["sklearn"] = None
from hpometrics.engines.folds import split
assert len(split(6, 3)) == 3
split(6, 3, seed=0)
"""


def test_without_scikit_learn_only_what_needs_it_is_missing():
    """The default split works; the others name the package and how to get it."""
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    wanted = (
        "MissingExtraError: a shuffled, stratified or grouped split needs scikit-learn, which is not "
        "installed: pip install 'scikit-learn>=1.7'"
    )
    assert wanted in done.stderr
