"""An engine written as methods or as named classes, and what is said where a stage is wrong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hpometrics import Engine, EngineParams
from hpometrics.engines.cache import PrefixCache
from hpometrics.engines.engine import Fold, Pairs
from hpometrics.exceptions import EngineError


class Halves(Engine):
    """Two folds of the numbers 0 to 5; predicts the mean of what it was trained on plus a param."""

    def read_eval(self, params):
        for fold in (0, 1):
            numbers = list(range(6))
            yield Fold(numbers[fold::2], fold, [(number, number) for number in numbers[1 - fold :: 2]])

    def train(self, prepared, name, params):
        return sum(prepared) / len(prepared) + params.get("plus", 0)

    def predict(self, model, queries):
        return [model] * len(queries)


def evaluated(engine: Engine, **stages: Any) -> list[Any]:
    """What a candidate is served."""
    return PrefixCache(engine).folds(EngineParams(**stages))


def test_the_smallest_engine_has_three_methods():
    """Nothing is prepared unless said, and the first algorithm's prediction is served."""
    folds = evaluated(Halves(), algorithms=[{"plus": 1}, {"plus": 100}])
    assert [fold.info for fold in folds] == [0, 1]
    assert folds[0].results == [(1, 3.0, 1), (3, 3.0, 3), (5, 3.0, 5)]
    assert folds[1].results == [(0, 4.0, 0), (2, 4.0, 2), (4, 4.0, 4)]


class Source:
    def __init__(self, params):
        self.count = params["count"]

    def read_eval(self):
        yield list(range(self.count)), "all", [("q", 0)]


class Doubling:
    def __init__(self, params):
        pass

    def prepare(self, training):
        return [2 * number for number in training]


class Summing:
    def __init__(self, params):
        self.times = params.get("times", 1)

    def train(self, prepared):
        return sum(prepared) * self.times

    def predict(self, model, queries):
        return [(query, model) for query in queries]


class Largest:
    def __init__(self, params):
        pass

    def serve(self, query, predictions):
        return max(predictions)


class Composed(Engine):
    """Nothing but classes by name, as an engine of PredictionIO."""

    data_sources = {"": Source}  # noqa: RUF012
    preparators = {"": Doubling, "more": Doubling}  # noqa: RUF012
    algorithms = {"sum": Summing}  # noqa: RUF012
    servings = {"": Largest}  # noqa: RUF012


def test_an_engine_of_named_classes():
    """Each is made with its params and has the stage's method."""
    folds = evaluated(Composed(), data_source={"count": 4}, algorithms=[("sum", {}), ("sum", {"times": 3})])
    assert folds == [("all", [("q", ("q", 36), 0)])]


def test_a_named_class_is_made_anew_for_each_fold():
    """A preparator that hands out what it keeps does not hand out the last fold's for all."""

    class Keeping:
        def __init__(self, params):
            self.kept = []

        def prepare(self, training):
            self.kept += training
            return self.kept

    class Two(Halves):
        preparators = {"": Keeping}  # noqa: RUF012

    assert [fold.results[0][1] for fold in evaluated(Two())] == [2.0, 3.0]


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (
            {"algorithms": [("sun", {})]},
            r"Composed.algorithms has no 'sun'; there are 'sum'; did you mean 'sum'\?",
        ),
        ({"preparator": ("mode", {})}, "Composed.preparators has no 'mode'; there are '', 'more'; did you"),
        ({}, "Composed.algorithms has no ''; there are 'sum'"),
    ],
)
def test_a_class_that_an_engine_does_not_name_is_refused(stages, message):
    """The names that there are, and the one that was meant."""
    with pytest.raises(EngineError, match=message):
        evaluated(Composed(), **{"data_source": {"count": 1}, **stages})


def test_a_name_without_a_choice_is_refused():
    """A misspelled stage would otherwise be the only one there is."""
    with pytest.raises(
        EngineError, match=r"Halves has one servings only, named ''; got 'vote'. Name the choices"
    ):
        evaluated(Halves(), serving=("vote", {}))


def test_an_algorithm_s_name_reaches_train():
    """An engine written as methods may tell its algorithms apart itself."""

    class Named(Halves):
        def train(self, prepared, name, params):
            return name

    assert evaluated(Named(), algorithms=("naive", {}))[0].results[0] == (1, "naive", 1)


def engine_with(**methods: Any) -> Engine:
    """The engine above with some methods replaced."""
    return type("Replaced", (Halves,), methods)()


WRONG = {
    "no fold": ({"read_eval": lambda self, params: []}, "read_eval returned no fold"),
    "two parts": (
        {"read_eval": lambda self, params: [([], [])]},
        r"fold 0 must be \(training data, info, .* got tuple",
    ),
    "no pairs": (
        {"read_eval": lambda self, params: [([], 0, 3)]},
        r"fold 0: its third part must be .* got int",
    ),
    "no pair": (
        {"read_eval": lambda self, params: [([1], 0, [(1, 1)]), ([1], 0, [1])]},
        r"fold 1: a query must come with its actual result, \(query, actual\); got 1",
    ),
    "too few": (
        {"predict": lambda self, model, queries: [model]},
        "algorithm 'naive', fold 0: predict got 3 queries and returned 1 predictions",
    ),
    "a generator": (
        {"predict": lambda self, model, queries: (model for _ in queries)},
        r"algorithm 'naive', fold 0: predict must return a sequence .* got generator; .* list\(...\)",
    ),
}


@pytest.mark.parametrize(("methods", "message"), WRONG.values(), ids=WRONG)
def test_a_stage_that_gives_something_else_is_refused(methods, message):
    """What was wanted, what came and on which fold."""
    with pytest.raises(EngineError, match=message):
        evaluated(engine_with(**methods), algorithms=("naive", {}))


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("read_eval", "Replaced reads no data: it needs read_eval"),
        ("train", "Replaced trains nothing: it needs train"),
        ("predict", "Replaced predicts nothing: it needs predict"),
    ],
)
def test_a_missing_stage_is_named(missing, message):
    """There is no default for what only the user can know."""
    with pytest.raises(EngineError, match=message):
        evaluated(engine_with(**{missing: getattr(Engine, missing)}))


def test_pairs_hold_columns_as_they_are():
    """An array of queries reaches `predict` as one array; a row is cut out when it is read."""
    received = []
    queries, actuals = np.arange(6.0).reshape(3, 2), np.array([1, 0, 1])

    class Columns(Halves):
        def read_eval(self, params):
            yield [1], None, Pairs(queries, actuals)

        def predict(self, model, queries):
            received.append(queries)
            return queries.sum(axis=1)

    (fold,) = evaluated(Columns())
    assert isinstance(received[0], np.ndarray)
    assert [predicted for _, predicted, _ in fold.results] == [1.0, 5.0, 9.0]
    assert [int(actual) for *_, actual in fold.results] == [1, 0, 1]
    assert fold.results[1][0].tolist() == [2.0, 3.0]


def test_pairs_read_as_a_sequence():
    """Length, places, slices; two columns of different length are none."""
    pairs = Pairs("abc", [1, 2, 3])
    assert (len(pairs), pairs[1], list(pairs[1:])) == (3, ("b", 2), [("b", 2), ("c", 3)])
    assert len(Pairs(SimpleNamespace(shape=(2, 5)), [1, 2])) == 2
    with pytest.raises(EngineError, match="3 queries have 2 actual results"):
        Pairs("abc", [1, 2])


def test_a_stage_may_change_its_params():
    """They are its own: neither the next fold nor the next candidate sees it."""
    seen = []

    class Changing(Halves):
        def read_eval(self, params):
            seen.append(params.pop("deep")["a"].pop())
            return super().read_eval(params)

        def train(self, prepared, name, params):
            seen.append(params.pop("deep")["a"].pop())
            return 0

        def serve(self, query, predictions, params):
            seen.append(params["deep"]["a"][0])
            return predictions[0]

    deep = {"deep": {"a": [1]}}
    cache = PrefixCache(Changing())
    for other in (1, 2):
        cache.folds(EngineParams(deep, {"other": other}, deep, deep))
    assert seen == [1] * (1 + 2 * 2 + 2 * 6)


def test_an_engine_is_not_called_with_its_stages():
    """As PredictionIO's is: their classes are named in a class. A mix-in behind it may take arguments."""
    with pytest.raises(
        EngineError, match=r"does not take stages, got 2; .* class MyEngine\(Engine\): data_sources"
    ):
        Engine(object, object)

    class Sized:
        def __init__(self, size):
            self.size = size

    class Mixed(Engine, Sized):
        pass

    assert Mixed(3).size == 3
