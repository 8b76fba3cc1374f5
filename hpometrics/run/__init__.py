"""The door between measuring and searching: one training run, what it measures, keeps and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._imports import lazy_names

if TYPE_CHECKING:
    from .metric_spec import Reported
    from .run import Run
    from .spec import RunSpec, engine, engine_facts
    from .trial import run_trial

__all__ = ["Reported", "Run", "RunSpec", "engine", "engine_facts", "run_trial"]

_HOME_OF = {
    "Reported": "spec",
    "Run": "run",
    "RunSpec": "spec",
    "engine": "spec",
    "engine_facts": "spec",
    "run_trial": "trial",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
