"""The base class of engines, and the execution of their four stages: methods, or classes by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from .._redaction import excerpt
from .._text import did_you_mean
from ..exceptions import EngineError, EngineParamsError
from ..space.values import named_fields, plain_config

Classes = Mapping[str, Callable[[dict[str, Any]], Any]]
_NONE: Classes = MappingProxyType({})

STAGES = ("data_source", "preparator", "algorithms", "serving")


class Params(dict[str, Any]):
    """The params of one stage, all dicts in it read-only; a copy of them is an ordinary dict.

    >>> Params({"lambda": 10.0}) == {"lambda": 10.0}
    True
    """

    __frozen__ = True

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__({name: _frozen(value) for name, value in params.items()})

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise EngineParamsError(
            "engine params are immutable; derive new ones with copy(...) or with_values({'serving.k': 3})"
        )

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def copy(self) -> dict[str, Any]:
        """Return an ordinary dict of the same values."""
        return deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return {name: deepcopy(value, memo) for name, value in self.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


class Stage(NamedTuple):
    """A stage's name and params."""

    name: str
    params: Mapping[str, Any]


def is_named(stage: Any) -> bool:
    """Return whether a stage is a name and its params."""
    return isinstance(stage, (tuple, list)) and len(stage) == 2 and isinstance(stage[0], str)


def stage_of(stage: Any, path: str) -> Stage:
    """Parse a stage, its params or its name and its params, a mapping or a dataclass; the values are copied.

    Raises:
        EngineParamsError: it is something else; the message names the path.
    """
    name, params = stage if is_named(stage) else ("", stage)
    params = named_fields(params)
    if not isinstance(params, Mapping):
        raise EngineParamsError(
            f"{path} must be the params of a stage or (name, params), as in ('naive', {{'lambda': 10.0}}); "
            f"got {type(stage).__name__}: {stage!r}"
        )
    for key in params:
        if not isinstance(key, str):
            raise EngineParamsError(
                f"{path}.params: the name of a param must be text, got {type(key).__name__}: {key!r}"
            )
    return Stage(name, Params({key: _copied(value, f"{path}.params.{key}") for key, value in params.items()}))


def _copied(value: Any, path: str) -> Any:
    try:
        return deepcopy(plain_config(value, records=False))
    except Exception as err:
        raise EngineParamsError(
            f"{path}: a {type(value).__qualname__} cannot be copied ({type(err).__name__}: {err}); pass "
            "the values it is built from and build it in the stage"
        ) from err


def _frozen(value: Any) -> Any:
    return Params(value) if type(value) is dict else value


class Pairs(Sequence[tuple[Any, Any]]):
    """Queries and actual results side by side, stored as they are: a row is cut out when it is read.

    >>> list(Pairs([0.5, 0.7], [0, 1]))
    [(0.5, 0), (0.7, 1)]
    """

    def __init__(self, queries: Sequence[Any], actuals: Sequence[Any]) -> None:
        if count_rows(queries) != count_rows(actuals):
            raise EngineError(
                f"{count_rows(queries)} queries have {count_rows(actuals)} actual results; each query "
                "needs one"
            )
        self.queries, self.actuals = queries, actuals

    def __len__(self) -> int:
        return count_rows(self.queries)

    def __getitem__(self, index: Any) -> Any:
        columns = [getattr(column, "iloc", column)[index] for column in (self.queries, self.actuals)]
        return Pairs(*columns) if isinstance(index, slice) else tuple(columns)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return zip(_each_row(self.queries), _each_row(self.actuals), strict=True)


class Fold(NamedTuple):
    """One split of the data: training data, facts about the fold, and queries with their actual results."""

    training: Any
    info: Any
    pairs: Sequence[tuple[Any, Any]]


class Engine:
    """Four stages: read data into folds, prepare a fold, train and predict by each algorithm, serve.

    Either override the methods, or name classes in `data_sources`, `preparators`, `algorithms`, `servings`:
    each is called with its params and has the stage's method without them: `read_eval()`,
    `prepare(training)`, `train(prepared)` with `predict(model, queries)`, `serve(query, predictions)`.

    A stage is called with params of its own, which it may change, and with copies of the outputs of earlier
    stages. Where copying costs too much, `shares` names the stages (`"data_source"`, `"preparator"`,
    `"algorithms"`) whose output is passed on without a copy; its NumPy arrays are then read-only.

    >>> class Mean(Engine):
    ...     def read_eval(self, params):
    ...         yield Fold([1.0, 2.0, 3.0], "fold 0", [("a query", 2.5)])
    ...     def train(self, prepared, name, params):
    ...         return sum(prepared) / len(prepared)
    ...     def predict(self, model, queries):
    ...         return [model for _ in queries]
    >>> Mean().predict(2.0, ["a query"])
    [2.0]
    """

    data_sources: Classes = _NONE
    preparators: Classes = _NONE
    algorithms: Classes = _NONE
    servings: Classes = _NONE
    shares: Iterable[str] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        mro = type(self).__mro__
        if (args or kwargs) and mro[mro.index(Engine) + 1] is object:
            raise EngineError(
                f"{type(self).__name__}(...) does not take stages, got {len(args) + len(kwargs)}; name "
                f"their classes in a subclass: class MyEngine(Engine): data_sources = {{'': MyDataSource}}; "
                "algorithms = {'naive': MyAlgorithm}; servings = {'': MyServing}"
            )
        super().__init__(*args, **kwargs)

    def read_eval(self, params: Mapping[str, Any]) -> Iterable[Fold | tuple[Any, Any, Sequence[Any]]]:
        """Read the data and split them into folds of (training data, info, [(query, actual), ...])."""
        raise _missing(self, "reads no data", "read_eval(self, params) or data_sources = {'': ...}")

    def prepare(self, training: Any, params: Mapping[str, Any]) -> Any:
        """Prepare a fold's training data for the algorithms; the default returns it as it is."""
        return training

    def train(self, prepared: Any, name: str, params: Mapping[str, Any]) -> Any:
        """Train the algorithm of this name on a fold and return its model."""
        raise _missing(
            self, "trains nothing", "train(self, prepared, name, params) or algorithms = {'naive': ...}"
        )

    def predict(self, model: Any, queries: Sequence[Any]) -> Sequence[Any]:
        """Predict all queries of a fold with a model of `train`: one prediction each, in their order."""
        raise _missing(
            self, "predicts nothing", "predict(self, model, queries) or algorithms = {'naive': ...}"
        )

    def serve(self, query: Any, predictions: Sequence[Any], params: Mapping[str, Any]) -> Any:
        """Return one result for the predictions of all algorithms for a query; the default is the first."""
        return predictions[0]


def named_stage(engine: Engine, kind: str, name: str, params: Mapping[str, Any]) -> Any:
    """Create the class that an engine names for a stage; None if the engine has methods instead.

    Raises:
        EngineError: see `check_named`.
    """
    check_named(engine, kind, name)
    classes: Classes = getattr(engine, kind)
    return classes[name](dict(params)) if classes else None


def check_named(engine: Engine, kind: str, name: str) -> None:
    """Refuse the name of a stage that an engine does not have; algorithms written as methods take any name.

    Args:
        engine: the engine of the stage.
        kind: `data_sources`, `preparators`, `algorithms` or `servings`.
        name: the name of the stage.

    Raises:
        EngineError: there is no such stage; the message has the names.
    """
    classes: Classes = getattr(engine, kind)
    if not classes:
        if name and kind != "algorithms":
            raise EngineError(
                f"{type(engine).__qualname__} has one {kind} only, named ''; got {name!r}. Name the "
                f"choices in {kind} = {{{name!r}: ...}}"
            )
    elif name not in classes:
        choices = ", ".join(map(repr, classes))
        raise EngineError(
            f"{type(engine).__qualname__}.{kind} has no {name!r}; there are {choices}"
            f"{did_you_mean(name, classes)}"
        )


def _each_row(rows: Any) -> Iterable[Any]:
    """Return the rows to iterate over; iterating over a data frame itself yields the names of its columns."""
    return map(rows.iloc.__getitem__, range(len(rows))) if hasattr(rows, "iloc") else rows


def count_rows(rows: Any) -> int:
    """Count the rows of an array, tensor, sparse matrix, data frame or sequence."""
    shape = getattr(rows, "shape", None)  # a sparse matrix refuses len()
    return shape[0] if shape else len(rows)


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
            raise EngineError(f"shares must name stages from {STAGES}, got {engine.shares!r}")
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
                f"the output of {stage} cannot be copied for its readers ({type(err).__name__}: {err}); "
                f"return plain data, or set shares = ({stage!r},) on the engine if the readers do not "
                "change it"
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
            raise EngineError(
                "read_eval returned no fold; a fold is (training data, info, [(query, actual), ...])"
            )
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
            pairs = fold.pairs
            rows = pairs.queries if isinstance(pairs, Pairs) else [query for query, _ in pairs]
            queries = self.hand_out(rows, "data_source")
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
            f"fold {index} must be (training data, info, [(query, actual), ...]), got {type(fold).__name__}"
        )
    training, info, pairs = fold
    if isinstance(pairs, Pairs):
        return Fold(training, info, pairs)
    if not isinstance(pairs, Iterable):
        raise EngineError(
            f"fold {index}: its third part must be [(query, actual), ...], got {type(pairs).__name__}"
        )
    return Fold(training, info, [_as_pair(pair, index) for pair in pairs])


def _missing(engine: Engine, lack: str, forms: str) -> EngineError:
    return EngineError(f"{type(engine).__qualname__} {lack}: it needs {forms}")


def _as_pair(pair: Any, index: int) -> tuple[Any, Any]:
    if isinstance(pair, (tuple, list)) and len(pair) == 2:
        return pair[0], pair[1]
    raise EngineError(
        f"fold {index}: a query must come with its actual result, (query, actual); got "
        f"{excerpt(repr(pair), 80)}"
    )


def _check_count(predicted: Sequence[Any], expected: int, where: str) -> Sequence[Any]:
    try:
        count = len(predicted)
    except TypeError:  # the user's code gave something else
        raise EngineError(
            f"{where}: predict must return a sequence with one prediction per query, got "
            f"{type(predicted).__name__}; convert a generator with list(...)"
        ) from None
    if count != expected:
        raise EngineError(f"{where}: predict got {expected} queries and returned {count} predictions")
    return predicted
