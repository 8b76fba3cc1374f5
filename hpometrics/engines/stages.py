"""An engine's four stages, each executed over all folds, with its results checked and isolated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._redaction import excerpt
from ..exceptions import EngineError
from .engine import STAGES, Engine, Fold, Pairs, Stage, named_stage


def read_only(value: Any) -> Any:
    """Return the value with its arrays as read-only views, whose data are not copied.

    >>> read_only([np.zeros(3)])[0].flags.writeable
    False
    """
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    if type(value) in (list, tuple):
        return type(value)(map(read_only, value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(read_only, value))
    if type(value) is dict:
        return {key: read_only(part) for key, part in value.items()}
    return Pairs(read_only(value.queries), read_only(value.actuals)) if isinstance(value, Pairs) else value


class EvaluatedFold(NamedTuple):
    """The results of an engine on one fold: its info and (query, predicted, actual) of each query."""

    info: Any
    results: Sequence[tuple[Any, Any, Any]]


class Stages:
    """An engine's stages as functions of a stage's name and params and of the outputs of earlier stages.

    Each fold gets an instance of its own of a named class; what an instance stores of a fold stays there.
    No stage can change what another one receives: it gets a copy, by `copy.deepcopy`, which takes the speed
    of memory for arrays and tensors and about a microsecond per object in lists of Python objects. Receivers
    are trusted not to write to the output of the stages in `shares`, which is handed out as it is; a NumPy
    array in it, however deep in tuples, lists and dicts, is a read-only view.

    Attributes:
        execute: the function of each stage; its arguments are the stage and the outputs that it is made from.

    Raises:
        EngineError: the engine's `shares` names something else than stages.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._shares = frozenset(engine.shares)
        if isinstance(engine.shares, str) or not self._shares <= set(STAGES):
            raise EngineError(f"shares names stages, any of {STAGES}, got {engine.shares!r}")
        functions = (self.read, self.prepare, self.predict, self.serve)
        self.execute: dict[str, Callable[..., Any]] = dict(zip(STAGES, functions, strict=True))

    def hand_out(self, output: Any, stage: str) -> Any:
        """Return the output of a stage for one receiver.

        Raises:
            EngineError: it is not shared and cannot be copied.
        """
        if stage in self._shares:
            return read_only(output)
        try:
            return deepcopy(output)
        except Exception as err:
            raise EngineError(
                f"the output of {stage} cannot be copied for those who read it "
                f"({type(err).__name__}: {err}); return plain data, or declare shares = ({stage!r},) on the "
                "engine if these only read it"
            ) from err

    def read(self, stage: Stage) -> list[Fold]:
        """Read the folds.

        Raises:
            EngineError: there is no fold, or one is not (training data, info, pairs).
        """
        source = named_stage(self.engine, "data_sources", *stage)
        raw_folds = source.read_eval() if source else self.engine.read_eval(deepcopy(stage.params))
        folds = [_as_fold(fold, index) for index, fold in enumerate(raw_folds)]
        if not folds:
            raise EngineError("read_eval gave no fold; one is (training data, info, [(query, actual), ...])")
        return folds

    def prepare(self, stage: Stage, folds: Sequence[Fold]) -> list[Any]:
        """Prepare the training data of each fold; without a preparator nothing is copied."""
        if self._prepares:
            return [self._prepare(stage, fold) for fold in folds]
        named_stage(self.engine, "preparators", *stage)  # a name that means nothing is refused
        return [fold.training for fold in folds]

    def predict(self, stage: Stage, prepared: Sequence[Any], folds: Sequence[Fold]) -> list[Sequence[Any]]:
        """Train one algorithm on each fold and predict its queries; the models are dropped.

        Raises:
            EngineError: the predictions are not one per query.
        """
        predictions = []
        for index, (fold, training) in enumerate(zip(folds, prepared, strict=True)):
            data = self.hand_out(training, "preparator" if self._prepares else "data_source")
            queries = self.hand_out(_queries(fold.pairs), "data_source")
            predicted = self._train_and_predict(stage, data, queries)
            predictions.append(
                _check_count(predicted, len(fold.pairs), f"algorithm {stage.name!r}, fold {index}")
            )
        return predictions

    def serve(
        self, stage: Stage, folds: Sequence[Fold], *predictions: Sequence[Sequence[Any]]
    ) -> list[EvaluatedFold]:
        """Serve each query from the predictions of all algorithms."""
        return [self._serve(stage, *of_fold) for of_fold in zip(folds, *predictions, strict=True)]

    @property
    def _prepares(self) -> bool:
        return bool(self.engine.preparators) or type(self.engine).prepare is not Engine.prepare

    def _prepare(self, stage: Stage, fold: Fold) -> Any:
        training = self.hand_out(fold.training, "data_source")
        preparator = named_stage(self.engine, "preparators", *stage)
        if preparator is None:
            return self.engine.prepare(training, deepcopy(stage.params))
        return preparator.prepare(training)

    def _train_and_predict(self, stage: Stage, data: Any, queries: Sequence[Any]) -> Any:
        algorithm = named_stage(self.engine, "algorithms", *stage)
        if algorithm is None:
            return self.engine.predict(self.engine.train(data, stage.name, deepcopy(stage.params)), queries)
        return algorithm.predict(algorithm.train(data), queries)

    def _serve(self, stage: Stage, fold: Fold, *predictions: Sequence[Any]) -> EvaluatedFold:
        pairs = self.hand_out(fold.pairs, "data_source")
        columns = [self.hand_out(column, "algorithms") for column in predictions]
        serving = named_stage(self.engine, "servings", *stage)
        serve = serving.serve if serving else partial(self.engine.serve, params=deepcopy(stage.params))
        results = [
            (query, serve(query, predicted), actual)
            for (query, actual), *predicted in zip(pairs, *columns, strict=True)
        ]
        return EvaluatedFold(self.hand_out(fold.info, "data_source"), results)


def _as_fold(fold: Any, index: int) -> Fold:
    if not isinstance(fold, Sequence) or len(fold) != 3:
        raise EngineError(
            f"fold {index} is (training data, info, [(query, actual), ...]), got {type(fold).__name__}"
        )
    training, info, pairs = fold
    if isinstance(pairs, Pairs):
        return Fold(training, info, pairs)
    if not isinstance(pairs, Iterable):
        raise EngineError(
            f"fold {index}: its third part is [(query, actual), ...], got {type(pairs).__name__}"
        )
    return Fold(training, info, [_as_pair(pair, index) for pair in pairs])


def _as_pair(pair: Any, index: int) -> tuple[Any, Any]:
    if isinstance(pair, (tuple, list)) and len(pair) == 2:
        return pair[0], pair[1]
    raise EngineError(
        f"fold {index}: a query comes with its actual result, (query, actual); got {excerpt(repr(pair), 80)}"
    )


def _queries(pairs: Sequence[tuple[Any, Any]]) -> Sequence[Any]:
    return pairs.queries if isinstance(pairs, Pairs) else [query for query, _ in pairs]


def _check_count(predicted: Sequence[Any], expected: int, where: str) -> Sequence[Any]:
    try:
        count = len(predicted)
    except TypeError:  # the user's code gave something else
        raise EngineError(
            f"{where}: predict gives a sequence with one prediction per query, "
            f"got {type(predicted).__name__}; a generator is made one by list(...)"
        ) from None
    if count != expected:
        raise EngineError(f"{where}: predict was given {expected} queries and gave {count} predictions")
    return predicted
