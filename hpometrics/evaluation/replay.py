"""Replay of an evaluation: the engine params of a `best.json` evaluated again, from the file alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..exceptions import RecordError
from ..replayed import Replayed
from .cache import PrefixCache
from .command import import_evaluation
from .engine_params import EngineParams
from .evaluation import Evaluation
from .evaluator import Tell
from .files import BEST_FILE
from .instance import INSTANCE_FILE
from .provenance import Provenance
from .result import Failure
from .score import Number, finite


def best_file(path: Path) -> Path | None:
    """Give the `best.json` that a path means: itself, or the one in the directory of an evaluation."""
    inside = path / BEST_FILE
    if path.is_dir() and inside.is_file() and (path / INSTANCE_FILE).is_file():
        return inside
    return path if path.suffix == ".json" else None


def replay_best(path: Path, target: str | None, tell: Tell) -> int:
    """Evaluate the engine params of a `best.json` again, tell whether its scores came out; write nothing.

    Args:
        path: the file.
        target: the evaluation, `package.module:Name`; None: the one that the file names.
        tell: what every line is given to.

    Returns:
        The exit code, which says the same.

    Raises:
        RecordError: the file is no `best.json`, names no evaluation, or was judged by other metrics.
        ConfigError: the evaluation cannot be imported.
        EngineParamsError: the engine params do not read.
    """
    told = _read(path)
    params = EngineParams.from_json(told)
    provenance = Provenance.from_json(told["evaluation"]) if "evaluation" in told else None
    name = target or (provenance.evaluation if provenance else "")
    if not name:
        raise RecordError(f"{path}: does not say by which evaluation; {_remedy(path)}")
    evaluation = import_evaluation(name)
    seed = provenance.seed if provenance else evaluation.evaluator.seed
    tell(f"replaying {path}: {name}, seed {seed}")
    versions = provenance.versions if provenance else {}
    recorded = _recorded(path, provenance, evaluation, name)
    try:
        replayed = Replayed(recorded, _scores(evaluation, params, seed), versions)
    except Exception as err:  # a stage may raise anything
        replayed = Replayed(recorded, {}, versions, str(Failure.of(err)))
    tell(str(replayed))
    return replayed.code


def _recorded(
    path: Path, provenance: Provenance | None, evaluation: Evaluation, name: str
) -> Mapping[str, Number | None]:
    """Give the recorded scores by the metrics of the evaluation, the one that decides first."""
    if provenance is None:
        return {}
    headers = [metric.header for metric in evaluation.evaluator.panel.all]
    if headers[0] not in provenance.scores:
        by = ", ".join(provenance.scores)
        raise RecordError(f"{path}: has scores by {by}, and {name} judges by {headers[0]}; {_remedy(path)}")
    return {header: provenance.scores[header] for header in headers if header in provenance.scores}


def _remedy(path: Path) -> str:
    return f"name the one that made it: hpometrics replay {path} module:Evaluation"


def _scores(evaluation: Evaluation, params: EngineParams, seed: int | None) -> dict[str, Number | None]:
    panel = evaluation.evaluator.panel
    scores = panel.measure(PrefixCache(evaluation.engine, [params], seed=seed).folds(params))
    values = [finite(score.value) for score in scores.all]
    return dict(zip([metric.header for metric in panel.all], values, strict=True))


def _read(path: Path) -> Mapping[str, Any]:
    try:
        told = json.loads(path.read_text(encoding="utf8"))
    except ValueError as err:
        raise RecordError(f"{path}: is no JSON: {err}") from err
    if not isinstance(told, Mapping):
        raise RecordError(f"{path}: is no best.json, but a {type(told).__name__}")
    return told
