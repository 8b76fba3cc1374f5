"""Differences: of a list of engine params, what is not the same in all of them, a line each."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .engine_params import EngineParams
from .json_layout import plain
from .prefixes import STAGES
from .stage import Stage


def differences(candidates: Sequence[EngineParams]) -> list[str]:
    """Say of each engine params the stages that differ; of all the same every stage that has a param.

    A stage is said by its name, if it has one; several algorithms are joined by `+`.

    >>> differences([EngineParams({"folds": 5}, algorithms=[("naive", {"lambda": x})]) for x in (1.0, 2.0)])
    ['naive(lambda=1.0)', 'naive(lambda=2.0)']
    """
    told = [_told(one) for one in candidates]
    vary = [stage for stage in STAGES if len({one[stage] for one in told}) > 1] or [
        stage for stage in STAGES if any(one[stage] != f"{stage}()" for one in told)
    ]
    return [", ".join(one[stage] for stage in vary) for one in told]


def _told(params: EngineParams) -> dict[str, str]:
    single = {stage: _stage(getattr(params, stage), stage) for stage in STAGES if stage != "algorithms"}
    return {**single, "algorithms": " + ".join(_stage(one, "algorithms") for one in params.algorithms)}


def _stage(stage: Stage, kind: str) -> str:
    described = plain(stage.params, kind, repr)
    values = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in described.items())
    return f"{stage.name or kind}({values})"
