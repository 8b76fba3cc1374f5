"""Engines of scikit-learn estimators, of training functions and of plain functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ..exceptions import EngineError
from .engine import Engine, Fold
from .folds import fold_columns

Factories = Callable[..., Any] | Mapping[str, Callable[..., Any]]
Data = Any  # (features, target), or a function of them; for scikit-learn's loaders pyright infers a Bunch too


def as_engine(
    data: Data,
    *,
    estimator: Factories | None = None,
    preparator: Factories | None = None,
    method: str = "predict",
    train: Factories | None = None,
    predict: Callable[[Any, Any], Sequence[Any]] | None = None,
    function: Factories | None = None,
    folds: int = 5,
    stratified: bool = False,
    groups: Any = None,
) -> Engine:
    """Create an engine from an estimator, a training function or a plain function.

    Each of them, and the preparator, may be one or several by name: `{"naive": MultinomialNB, "tree": ...}`.
    The params of the data source are `folds`, `seed` (shuffles) and `stratified`; the rest goes to `data`.

    Args:
        data: (features, target), or a function of the data source's other params that returns them.
        estimator: a class or function that is called with the algorithm's params and returns an estimator of
            scikit-learn.
        preparator: for estimators, a class or function that is called with the preparator's params and
            returns a transformer; it is fitted on the training data of each fold alone.
        method: the estimator's method that predicts, such as `"predict_proba"`.
        train: `train((features, target), params)`, which returns a model.
        predict: `predict(model, queries)`; by default the model is called with all queries, a torch module
            in evaluation mode and without gradients.
        function: `function((features, target), queries, params)`, which trains and predicts in one.
        folds: the number of folds, unless the params have one.
        stratified: whether each label of the target has the same share in all folds, unless the params say.
        groups: a key per row of the data; rows of one group are tested in the same fold.

    Raises:
        EngineError: not exactly one of `estimator`, `train` and `function` is passed.

    >>> def nearest(training, queries, params):
    ...     features, target = training
    ...     distances = [[abs(x - query) for x in features] for query in queries]
    ...     return [target[row.index(min(row))] for row in distances]
    >>> engine = as_engine(([1.0, 2.0, 8.0, 9.0], [0, 0, 1, 1]), function=nearest, folds=2)
    >>> fold = next(iter(engine.read_eval({})))
    >>> fold.training, fold.pairs.queries
    (([2.0, 9.0], [0, 1]), [1.0, 8.0])
    """
    makers = {"estimator": estimator, "train": train, "function": function}
    kinds = [kind for kind, value in makers.items() if value is not None]
    if len(kinds) != 1:
        raise EngineError(
            "an engine needs exactly one of estimator=, train=, function=; got "
            f"{' and '.join(kinds) or 'none'}"
        )
    if preparator is not None and estimator is None:
        raise EngineError(
            "preparator= works only with estimator=; otherwise prepare the data in the function"
        )
    source = partial(_read_folds, data, {"folds": folds, "stratified": stratified}, groups)
    adapters: dict[str, Callable[..., Any]] = {
        "estimator": partial(_Estimator, method),
        "train": partial(_TrainFunction, predict or _call),
        "function": _Function,
    }
    algorithms = _each(makers[kinds[0]], adapters[kinds[0]])
    return _AdaptedEngine(source, algorithms, _each(preparator, _Transformer))


class _AdaptedEngine(Engine):
    def __init__(
        self,
        source: Callable[[Mapping[str, Any]], Iterable[Fold]],
        algorithms: Mapping[str, Any],
        preparators: Mapping[str, Any],
    ) -> None:
        self._source = source
        self.algorithms = algorithms
        self.preparators = preparators

    def read_eval(self, params: Mapping[str, Any]) -> Iterable[Fold]:
        return self._source(params)


class _Transformer:
    """Fits a new transformer on each fold, and returns it beside the data, for the queries."""

    def __init__(self, factory: Callable[..., Any], params: dict[str, Any]) -> None:
        self._make = partial(factory, **params)

    def prepare(self, training: tuple[Any, Any]) -> tuple[Any, Any, Any]:
        features, target = training
        transformer = self._make()
        return transformer.fit_transform(features, target), target, transformer


class _Estimator:
    """Fits a new estimator on each fold."""

    def __init__(self, method: str, factory: Callable[..., Any], params: dict[str, Any]) -> None:
        self._make = partial(factory, **params)
        self._method = method

    def train(self, prepared: tuple[Any, ...]) -> tuple[Any, Any]:
        features, target, *transformer = prepared
        return self._make().fit(features, target), transformer[0] if transformer else None

    def predict(self, model: tuple[Any, Any], queries: Any) -> Sequence[Any]:
        estimator, transformer = model
        rows = queries if transformer is None else transformer.transform(queries)
        predictions: Sequence[Any] = getattr(estimator, self._method)(rows)
        return predictions


class _TrainFunction:
    """Trains by one function and predicts by another."""

    def __init__(
        self, predict: Callable[..., Any], train: Callable[..., Any], params: dict[str, Any]
    ) -> None:
        self._train, self._params = train, params
        self.predict = predict

    def train(self, prepared: Any) -> Any:
        return self._train(prepared, dict(self._params))


class _Function:
    """Trains when it predicts."""

    def __init__(self, function: Callable[..., Any], params: dict[str, Any]) -> None:
        self._function, self._params = function, params

    def train(self, prepared: Any) -> Any:
        return prepared

    def predict(self, model: Any, queries: Any) -> Sequence[Any]:
        predictions: Sequence[Any] = self._function(model, queries, dict(self._params))
        return predictions


def _read_folds(
    data: Data, defaults: Mapping[str, Any], groups: Any, params: Mapping[str, Any]
) -> Iterable[Fold]:
    others = {**defaults, **params}
    k, stratified, seed = others.pop("folds"), others.pop("stratified"), others.pop("seed", None)
    if others and not callable(data):
        raise EngineError(
            f"the params of the data source are folds, seed and stratified, got {', '.join(others)}; for "
            "other params, pass a function of them as data="
        )
    features, target = data(**others) if callable(data) else data
    return fold_columns(
        features, target, k, seed=seed, stratify=target if stratified else None, groups=groups
    )


def _each(factories: Factories | None, adapter: Callable[..., Any]) -> dict[str, Any]:
    """Return the classes of a stage by name, each adapted."""
    if factories is None:
        return {}
    by_name = factories if isinstance(factories, Mapping) else {"": factories}
    return {name: partial(adapter, one) for name, one in by_name.items()}


def _call(model: Any, queries: Any) -> Any:
    import torch

    if not isinstance(model, torch.nn.Module):
        return model(queries)
    with torch.no_grad():
        return model.eval()(queries)
