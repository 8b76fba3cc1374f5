"""The door between measuring and searching: one training run, what it measures, keeps and reports."""

from .run import Run
from .spec import Reported, RunSpec, engine, engine_facts
from .trial import run_trial

__all__ = ["Reported", "Run", "RunSpec", "engine", "engine_facts", "run_trial"]
