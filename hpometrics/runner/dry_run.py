"""Probing: one trial of a sweep for one epoch, in memory: is every value there that the file names?"""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from .._redaction import redacted
from .._text import one_line
from ..config.document import Path, Problem
from ..config.metric_section import value_meant
from ..config.plan import Plan
from ..exceptions import NoFiniteValueError
from ..metrics.registry.diagnostics import diagnostic
from ..records.trial_record import EpochRecord, Reading
from ..run.checkpoint import Keep
from ..run.reporter import ListReporter, derive_seed
from ..run.spec import RunSpec
from ..run.trial import attempt
from .context import spec_facts
from .engine import check_space, import_engine, settle
from .sample import sample

_PACKAGE = str(FilePath(__file__).parent.parent)


@dataclass(frozen=True)
class Probe:
    """What one epoch has shown.

    Args:
        params: of trial 0.
        seconds: that it took.
        values: those that the file names, and all others that were recorded.
        reasons: for each value that is undefined, why.
        problems: what the file names and the epoch lacks, or how the engine failed.
    """

    params: Mapping[str, Any]
    seconds: float
    values: Mapping[str, Reading] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def probe(plan: Plan) -> Probe:
    """Import the engine and train trial 0 for one epoch, in memory.

    Raises:
        HpometricsError: what `run` says before its first trial.
        KeyboardInterrupt: it was pressed.
    """
    (params,) = sample(plan, 1).params
    engine = import_engine(plan)
    plan = settle(plan, engine)
    spec = RunSpec(**{**spec_facts(plan, engine), "epochs": 1, "checkpoints": Keep.NONE})
    check_space(plan, engine, spec)
    seed = derive_seed(plan.engine_seed, 0)
    record, error = attempt(engine, params, spec, ListReporter(0, params), seed=seed)
    if error is not None and not isinstance(error, Exception):
        raise error
    epoch = record.epochs[0] if record.epochs else EpochRecord(0, {})
    problems = [*_failure(plan, error)]
    if record.epochs or not problems:
        problems += _missing(plan, epoch)
    return Probe(params, record.seconds, epoch.values, epoch.reasons, tuple(problems))


def _failure(plan: Plan, error: Exception | None) -> Iterator[Problem]:
    """Say how the engine failed; that the metric has no value is said of the metric."""
    if error is None or isinstance(error, NoFiniteValueError):
        return
    path: Path = ("engine", "command" if plan.config.engine.command else "target")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _PACKAGE not in frame.filename]
    where = f" ({FilePath(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    told = f"its first epoch failed: {type(error).__name__}: {redacted(one_line(error))}{where}"
    yield Problem(plan.document.mark(path), path, told)


def _missing(plan: Plan, epoch: EpochRecord) -> Iterator[Problem]:
    for name, path in _named(plan).items():
        value = epoch.values.get(name, math.nan if name in epoch.reasons else None)
        if value is None:
            yield Problem(plan.document.mark(path), path, f"{name} {_why_absent(name, epoch)}")
        elif not isinstance(value, list) and not math.isfinite(value):
            why = epoch.reasons.get(name, "it is not finite")
            yield Problem(plan.document.mark(path), path, f"{name} has no value: {why}")


def _named(plan: Plan) -> dict[str, Path]:
    """Give each value that the file names its place there."""
    bounds = {bound.measure.name: ("metrics", "constraints", i) for i, bound in enumerate(plan.bounds)}
    tracked = {measure.name: ("metrics", "track") for measure in plan.track}
    optimized = {measure.name: ("metrics", "optimize") for measure in plan.objectives}
    return {**optimized, **tracked, **bounds}


def _why_absent(name: str, epoch: EpochRecord) -> str:
    known = diagnostic(name)
    if known is not None:
        return f"is not recorded; it comes from {known.comes_from}"
    there = ", ".join(epoch.values) or "nothing"
    meant = value_meant(name, epoch.values)
    return f"is not recorded; there are {there}.{meant} Have the engine report it, or leave it out"
