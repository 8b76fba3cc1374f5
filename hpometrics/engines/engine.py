"""The base class of engines: four stages of the user's, as methods or as named classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from .._text import did_you_mean
from ..exceptions import EngineError, EngineParamsError

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
            "engine params do not change; derive others by copy(...) or with_values({'serving.k': 3})"
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
    """Parse a stage, its params or its name and its params; the values are copied.

    Raises:
        EngineParamsError: it is something else; the message names the path.
    """
    name, params = stage if is_named(stage) else ("", stage)
    if not isinstance(params, Mapping):
        raise EngineParamsError(
            f"{path} is the params of a stage or (name, params), as in ('naive', {{'lambda': 10.0}}); "
            f"got {type(stage).__name__}: {stage!r}"
        )
    for key in params:
        if not isinstance(key, str):
            raise EngineParamsError(
                f"{path}.params: a param's name is a text, got {type(key).__name__}: {key!r}"
            )
    return Stage(name, Params({key: _copied(value, f"{path}.params.{key}") for key, value in params.items()}))


def _copied(value: Any, path: str) -> Any:
    try:
        return deepcopy(value)
    except Exception as err:
        raise EngineParamsError(
            f"{path}: a {type(value).__qualname__} cannot be copied ({type(err).__name__}: {err}); "
            "pass what it is made of and build it in the stage"
        ) from err


def _frozen(value: Any) -> Any:
    return Params(value) if type(value) is dict else value


class Pairs(Sequence[tuple[Any, Any]]):
    """Queries and actual results side by side, stored as they are: a row is cut out when it is read.

    >>> list(Pairs([0.5, 0.7], [0, 1]))
    [(0.5, 0), (0.7, 1)]
    """

    def __init__(self, queries: Sequence[Any], actuals: Sequence[Any]) -> None:
        if rows_of(queries) != rows_of(actuals):
            raise EngineError(
                f"{rows_of(queries)} queries have {rows_of(actuals)} actual results; one each is needed"
            )
        self.queries, self.actuals = queries, actuals

    def __len__(self) -> int:
        return rows_of(self.queries)

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

    def read_eval(self, params: Mapping[str, Any]) -> Iterable[Fold | tuple[Any, Any, Sequence[Any]]]:
        """Read the data and split them into folds of (training data, info, [(query, actual), ...])."""
        raise EngineError(
            f"{type(self).__qualname__} reads no data: it needs read_eval(self, params) "
            "or data_sources = {'': ...}"
        )

    def prepare(self, training: Any, params: Mapping[str, Any]) -> Any:
        """Prepare a fold's training data for the algorithms; the default returns it as it is."""
        return training

    def train(self, prepared: Any, name: str, params: Mapping[str, Any]) -> Any:
        """Train the algorithm of this name on a fold and return its model."""
        raise EngineError(
            f"{type(self).__qualname__} trains nothing: it needs train(self, prepared, name, params) "
            "or algorithms = {'naive': ...}"
        )

    def predict(self, model: Any, queries: Sequence[Any]) -> Sequence[Any]:
        """Predict all queries of a fold with a model of `train`: one prediction each, in their order."""
        raise EngineError(
            f"{type(self).__qualname__} predicts nothing: it needs predict(self, model, queries) "
            "or algorithms = {'naive': ...}"
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
                f"{type(engine).__qualname__} has one of its {kind}, named ''; got {name!r}. "
                f"Name the choice in {kind} = {{{name!r}: ...}}"
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


def rows_of(rows: Any) -> int:
    """Count the rows of an array, tensor, sparse matrix, data frame or sequence."""
    shape = getattr(rows, "shape", None)  # a sparse matrix refuses len()
    return shape[0] if shape else len(rows)
