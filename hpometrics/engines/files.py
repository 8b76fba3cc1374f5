"""The files that an evaluation leaves: the best engine params, and its results as text, JSON and a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ..records.atomic import atomic_write, make_private
from .engine_params import EngineParams
from .result import MetricEvaluatorResult

BEST_FILE = "best.json"
RESULTS_FILE = "evaluator_results"
RESULTS_FORMS = ("txt", "json", "html")


def variant(params: EngineParams, evaluation: str, engine: str, start: datetime) -> dict[str, Any]:
    """Give engine params in the layout of PredictionIO's `engine.json`; `EngineParams.from_json` reads it.

    Args:
        params: what to write.
        evaluation: its class, `package.module:Name`.
        engine: its class.
        start: when the evaluation began, which makes the id one of its own.

    Raises:
        EngineParamsError: a value has no form in JSON.
    """
    name = evaluation.replace(":", ".").rpartition(".")[2]
    return {
        "id": f"{name} {start.isoformat(timespec='seconds')}",
        "description": "",
        "engineFactory": engine,
        **params.to_variant(),
    }


def write_results(directory: Path, result: MetricEvaluatorResult) -> None:
    """Write `evaluator_results.txt`, `.json` and `.html`."""
    write_text(directory / f"{RESULTS_FILE}.txt", str(result))
    write_json(directory / f"{RESULTS_FILE}.json", result.to_json())
    write_text(directory / f"{RESULTS_FILE}.html", result.to_html())


def write_json(path: Path, told: Mapping[str, Any]) -> None:
    """Write strict JSON whole or not at all."""
    write_text(path, json.dumps(told, allow_nan=False, ensure_ascii=False, indent=2))


def write_text(path: Path, text: str) -> None:
    """Write a text whole or not at all."""
    make_private(path.parent)
    with atomic_write(path) as file:
        file.write(f"{text}\n".encode())
