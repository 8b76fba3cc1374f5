"""Stage: what a stage of an engine is called and its params, which do not change."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple, NoReturn

from ..exceptions import EngineParamsError

Named = tuple[str, Mapping[str, Any]]


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
    """Say whether it is a name with what belongs to it."""
    return isinstance(stage, (tuple, list)) and len(stage) == 2 and isinstance(stage[0], str)


def stage_of(stage: Any, path: str) -> Stage:
    """Read a stage, its params or its name and its params; what is given is copied.

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
