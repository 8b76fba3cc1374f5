"""A dry run: one epoch of a trial in memory, to check that it records every value that the file names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from .._redaction import redacted
from .._text import one_line
from ..config.document import Path, Problem
from ..config.metric_section import suggest_value
from ..config.plan import Plan
from ..exceptions import NoFiniteValueError
from ..metrics.registry.diagnostics import diagnostic
from ..records.trial_record import EpochRecord, Reading, to_json
from ..run.checkpoint import Keep
from ..run.reporter import ListReporter
from ..run.spec import RunSpec
from ..run.trial import attempt, failing_frame
from ..space.draws import derive_seed
from .context import spec_facts
from .imported_engine import check_space, import_engine, settle
from .planned_trials import sample


@dataclass(frozen=True)
class Probe:
    """The result of one epoch.

    Args:
        params: the params of trial 0.
        seconds: the duration of the epoch.
        values: all recorded values, whether the file names them or not.
        reasons: for each undefined value, the reason.
        problems: the values of the file that the epoch lacks, or the failure of the engine.
    """

    params: Mapping[str, Any]
    seconds: float
    values: Mapping[str, Reading] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the params, seconds, values and reasons as plain JSON."""
        return {
            "params": dict(self.params),
            "seconds": self.seconds,
            "values": {name: to_json(value) for name, value in self.values.items()},
            "reasons": dict(self.reasons),
        }


def probe(plan: Plan) -> Probe:
    """Import the engine and train trial 0 for one epoch, in memory.

    Raises:
        HpometricsError: any error that `run` raises before its first trial.
        KeyboardInterrupt: the user pressed Ctrl-C.
    """
    (params,) = sample(plan, 1).params
    engine = import_engine(plan)
    plan = settle(plan, engine)
    spec = RunSpec(**{**spec_facts(plan, engine), "reports": 1, "checkpoints": Keep.NONE})
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
    """Yield the failure of the engine; that the metric has no value is a problem of the metric."""
    if error is None or isinstance(error, NoFiniteValueError):
        return
    path: Path = ("engine", plan.config.engine.place)
    frame = failing_frame(error)
    where = "" if frame is None else f" ({FilePath(frame.filename).name}:{frame.lineno})"
    notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
    text = f"its first epoch failed: {type(error).__name__}: {redacted(one_line(error) + notes)}{where}"
    yield plan.document.problem(path, text)


def _missing(plan: Plan, epoch: EpochRecord) -> Iterator[Problem]:
    for name, path in _paths_by_name(plan).items():
        value = epoch.values.get(name, math.nan if name in epoch.reasons else None)
        if value is None:
            yield plan.document.problem(path, f"{name} {_why_absent(name, epoch)}")
        elif not isinstance(value, list) and not math.isfinite(value):
            why = epoch.reasons.get(name, "it is not finite")
            yield plan.document.problem(path, f"{name} has no value: {why}")


def _paths_by_name(plan: Plan) -> dict[str, Path]:
    """Return the path in the file of each value that it names."""
    bounds = {bound.measure.name: ("metrics", "constraints", i) for i, bound in enumerate(plan.bounds)}
    tracked = {measure.name: ("metrics", "track") for measure in plan.track}
    optimized = {measure.name: ("metrics", "optimize") for measure in plan.objectives}
    return {**optimized, **tracked, **bounds}


def _why_absent(name: str, epoch: EpochRecord) -> str:
    run_diagnostic = diagnostic(name)
    if run_diagnostic is not None:
        return f"is not recorded; {run_diagnostic.comes_from} reports it"
    names = ", ".join(epoch.values) or "nothing"
    return (
        f"is not recorded; the recorded values are {names}.{suggest_value(name, epoch.values)} Report it "
        "in the engine, or leave it out"
    )
