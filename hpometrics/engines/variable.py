"""What a search may vary: paths that lead to a value of the base, and names that the engine knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..exceptions import EngineParamsError
from .engine import Engine, check_named
from .engine_params import EngineParams
from .paths import STAGES, named_by, split_path

_CLASSES = dict(zip(STAGES, ("data_sources", "preparators", "algorithms", "servings"), strict=True))


def check_varied(params: Mapping[str, Sequence[Any]], base: EngineParams | None, engine: Engine) -> None:
    """Refuse params of which no engine params can be made.

    Args:
        params: each path with the values it can have; none of a range.
        base: where the values are set; None where the paths are all there is. A stage that the search gives
            another name than the base has params that the base cannot know.
        engine: knows the names of its stages, unless it is written as methods.

    Raises:
        EngineParamsError: a path leads nowhere; of a base the message has those there are.
        EngineError: the engine has no stage of a name.
    """
    for path in params:
        stage, parts = split_path(path)
        if not parts:
            _check_names(stage, params[stage], engine)
        elif base is None:
            _check_new(path, params, engine)
        elif parts[0] not in params.get(stage, ()) or parts[0] in _names(base, stage):
            base.check_values([path])


def _check_new(path: str, params: Mapping[str, Sequence[Any]], engine: Engine) -> None:
    """A path is `stage.param` or `stage.name.param`, or leads into what another one sets."""
    stage, parts = split_path(path)
    shorter = [".".join([stage, *parts[:count]]) for count in range(1, len(parts))]
    if any(way in params for way in shorter) or len(parts) == 1:
        return
    check_named(engine, _CLASSES[stage], parts[0])
    if len(parts) > 2:
        raise EngineParamsError(
            f"{path}: leads into {shorter[1]}, which nothing sets; set that to a dict, or write "
            f"{stage}.name.param"
        )


def _check_names(stage: str, names: Sequence[Any], engine: Engine) -> None:
    if not names:
        raise EngineParamsError(f"{stage}: a search varies the name of a stage by a choice of names")
    for name in names:
        named_by({stage: name})  # a text
        check_named(engine, _CLASSES[stage], name)


def _names(base: EngineParams, stage: str) -> list[str]:
    return [one.name for one in base.algorithms] if stage == "algorithms" else [getattr(base, stage).name]
