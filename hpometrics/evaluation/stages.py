"""Stages: an engine's four stages, each carried out over all folds, its results checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from ..exceptions import EngineError
from .engine import Engine, Fold, Pairs, named_stage
from .engine_params import Stage
from .isolation import Isolation


class EvaluatedFold(NamedTuple):
    """What an engine served on one fold: its info and (query, predicted, actual) of each query."""

    info: Any
    results: Sequence[tuple[Any, Any, Any]]


class Stages:
    """An engine's stages as functions of a stage's name and params and of what earlier stages gave."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.isolation = Isolation(engine.shares)

    def read(self, stage: Stage) -> list[Fold]:
        """Read the folds.

        Raises:
            EngineError: there is no fold, or one is not (training data, info, pairs).
        """
        source = named_stage(self.engine, "data_sources", *stage)
        given = source.read_eval() if source else self.engine.read_eval(deepcopy(stage.params))
        folds = [_fold(fold, index) for index, fold in enumerate(given)]
        if not folds:
            raise EngineError("read_eval gave no fold; one is (training data, info, [(query, actual), ...])")
        return folds

    def prepare(self, stage: Stage, folds: Sequence[Fold]) -> list[Any]:
        """Prepare the training data of each fold; what no preparator touches is not copied."""
        preparator = named_stage(self.engine, "preparators", *stage)
        if preparator is None and type(self.engine).prepare is Engine.prepare:
            return [fold.training for fold in folds]
        prepared = []
        for fold in folds:
            training = self.isolation.hand_out(fold.training, "data_source")
            if preparator is not None:
                prepared.append(preparator.prepare(training))
            else:
                prepared.append(self.engine.prepare(training, deepcopy(stage.params)))
        return prepared

    def predict(self, stage: Stage, prepared: Sequence[Any], folds: Sequence[Fold]) -> list[Sequence[Any]]:
        """Train one algorithm on each fold and predict its queries; the models are not kept.

        Raises:
            EngineError: there is not one prediction per query.
        """
        algorithm = named_stage(self.engine, "algorithms", *stage)
        predictions = []
        untouched = type(self.engine).prepare is Engine.prepare and not self.engine.preparators
        for index, (fold, given) in enumerate(zip(folds, prepared, strict=True)):
            data = self.isolation.hand_out(given, "data_source" if untouched else "preparator")
            queries = self.isolation.hand_out(_queries(fold.pairs), "data_source")
            if algorithm is not None:
                predicted = algorithm.predict(algorithm.train(data), queries)
            else:
                model = self.engine.train(data, stage.name, deepcopy(stage.params))
                predicted = self.engine.predict(model, queries)
            predictions.append(
                _one_each(predicted, len(fold.pairs), f"algorithm {stage.name!r}, fold {index}")
            )
        return predictions

    def serve(
        self, stage: Stage, folds: Sequence[Fold], predictions: Sequence[Sequence[Sequence[Any]]]
    ) -> list[EvaluatedFold]:
        """Serve each query from the predictions of all algorithms."""
        serving = named_stage(self.engine, "servings", *stage)
        params = deepcopy(stage.params)
        served = []
        for fold, *of_algorithms in zip(folds, *predictions, strict=True):
            pairs = self.isolation.hand_out(fold.pairs, "data_source")
            columns = [self.isolation.hand_out(column, "algorithms") for column in of_algorithms]
            results = []
            for (query, actual), *predicted in zip(pairs, *columns, strict=True):
                one = (
                    serving.serve(query, predicted)
                    if serving is not None
                    else self.engine.serve(query, predicted, params)
                )
                results.append((query, one, actual))
            served.append(EvaluatedFold(self.isolation.hand_out(fold.info, "data_source"), results))
        return served


def _fold(given: Any, index: int) -> Fold:
    if not isinstance(given, Sequence) or len(given) != 3:
        raise EngineError(
            f"fold {index} is (training data, info, [(query, actual), ...]), got {type(given).__name__}"
        )
    training, info, pairs = given
    if isinstance(pairs, Pairs):
        return Fold(training, info, pairs)
    if not isinstance(pairs, Iterable):
        raise EngineError(
            f"fold {index}: its third part is [(query, actual), ...], got {type(pairs).__name__}"
        )
    return Fold(training, info, [_pair(pair, index) for pair in pairs])


def _pair(pair: Any, index: int) -> tuple[Any, Any]:
    if isinstance(pair, (tuple, list)) and len(pair) == 2:
        return pair[0], pair[1]
    raise EngineError(
        f"fold {index}: a query comes with its actual result, (query, actual); got {pair!r:.80}"
    )


def _queries(pairs: Sequence[tuple[Any, Any]]) -> Sequence[Any]:
    return pairs.queries if isinstance(pairs, Pairs) else [query for query, _ in pairs]


def _one_each(predicted: Any, wanted: int, where: str) -> Sequence[Any]:
    try:
        count = len(predicted)
    except TypeError:
        raise EngineError(
            f"{where}: predict gives a sequence with one prediction per query, "
            f"got {type(predicted).__name__}; a generator is made one by list(...)"
        ) from None
    if count != wanted:
        raise EngineError(f"{where}: predict was given {wanted} queries and gave {count} predictions")
    return predicted  # type: ignore[no-any-return]
