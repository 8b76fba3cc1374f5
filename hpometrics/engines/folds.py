"""K-fold splits of rows, by index mod k as in PredictionIO, or by scikit-learn's splitters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import EngineError, missing_extra
from .engine import Fold, Pairs, count_rows

Rows = NDArray[np.int64]


def split(
    count: int, k: int, *, seed: int | None = None, stratify: Any = None, groups: Any = None
) -> list[tuple[Rows, Rows]]:
    """Split `count` rows into k folds of (rows to train on, rows to test on); each row is tested once.

    Row i is tested in fold i mod k, unless there are a seed, labels or groups: then scikit-learn splits.

    Args:
        count: the number of rows.
        k: the number of folds, from 2 to the number of rows.
        seed: shuffles the rows first, the same way for the same seed.
        stratify: a label per row; the share of each label is the same in all folds.
        groups: a key per row; rows of one group are tested in the same fold.

    Raises:
        EngineError: there cannot be k folds of these rows.
        MissingExtraError: scikit-learn is needed and not installed.

    >>> [test.tolist() for _, test in split(5, 2)]
    [[0, 2, 4], [1, 3]]
    """
    _check(count, k, stratify=stratify, groups=groups)
    if seed is None and stratify is None and groups is None:
        rows = np.arange(count)
        return [(rows[rows % k != fold], rows[rows % k == fold]) for fold in range(k)]
    splitter = _splitter(k, seed, stratify is not None, groups is not None)
    try:
        return list(splitter.split(np.zeros(count), stratify, groups))
    except ValueError as err:
        raise EngineError(f"{count} rows do not split into {k} folds: {err}") from err


def fold_columns(features: Any, target: Any, k: int, **how: Any) -> Iterator[Fold]:
    """Create k folds of features and target: trained on is (features, target), a query is a row of features.

    Both may be arrays, tensors, sparse matrices, data frames or lists; for `how` see `split`.

    >>> fold = next(fold_columns(np.arange(4.0), np.array([0, 1, 0, 1]), 2))
    >>> fold.training, fold.info, list(zip(fold.pairs.queries.tolist(), fold.pairs.actuals.tolist()))
    ((array([1., 3.]), array([1, 1])), {'fold': 0}, [(0.0, 0), (2.0, 0)])
    """
    for fold, (train, test) in enumerate(split(count_rows(features), k, **how)):
        training = take(features, train), take(target, train)
        yield Fold(training, {"fold": fold}, Pairs(take(features, test), take(target, test)))


def fold_rows(
    rows: Sequence[Any],
    k: int,
    *,
    query: Callable[[Any], Any],
    actual: Callable[[Any], Any],
    training: Callable[[list[Any]], Any] = list,
    **how: Any,
) -> Iterator[Fold]:
    """Create k folds of rows of any type, by functions that return the query and the actual result of a row.

    `training` returns the training data of a fold's rows; for `how` see `split`.

    >>> fold = next(fold_rows([("a", 1), ("b", 0)], 2, query=lambda row: row[0], actual=lambda row: row[1]))
    >>> fold.training, list(fold.pairs)
    ([('b', 0)], [('a', 1)])
    """
    for fold, (train, test) in enumerate(split(len(rows), k, **how)):
        tested = take(rows, test)
        pairs = Pairs(list(map(query, tested)), list(map(actual, tested)))
        yield Fold(training(take(rows, train)), {"fold": fold}, pairs)


def take(data: Any, rows: Rows) -> Any:
    """Return some rows of an array, tensor, sparse matrix, data frame or sequence."""
    if hasattr(data, "iloc"):
        return data.iloc[rows]
    return data[rows] if hasattr(data, "shape") else [data[row] for row in rows]


def _check(count: int, k: int, **columns: Any) -> None:
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 2 <= k <= count:
        raise EngineError(f"the number of folds must be between 2 and the number of rows, {count}; got {k!r}")
    for name, column in columns.items():
        if column is not None and count_rows(column) != count:
            raise EngineError(f"{name} has a value for each of the {count} rows, got {count_rows(column)}")


def _splitter(k: int, seed: int | None, stratified: bool, grouped: bool) -> Any:
    try:
        from sklearn import model_selection as splitters
    except ImportError as err:
        raise missing_extra("a shuffled, stratified or grouped split", "scikit-learn", "sklearn") from err
    cls = {
        (False, False): splitters.KFold,
        (True, False): splitters.StratifiedKFold,
        (False, True): splitters.GroupKFold,
        (True, True): splitters.StratifiedGroupKFold,
    }[stratified, grouped]
    return cls(k, shuffle=seed is not None, random_state=seed)
