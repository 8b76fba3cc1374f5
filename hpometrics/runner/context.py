"""A job: one invocation of `run`; what its trials measure, where they are kept, when no more start."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from ..config.metric_section import Measure
from ..config.plan import Plan
from ..config.space_section import arranged
from ..exceptions import SpaceError
from ..metrics.combined import Combined
from ..records.trial_record import TrialRecord, TrialState
from ..results.manifest import Resolved, resolve
from ..results.run_directory import RunDirectory
from ..run.metric_spec import Reported
from ..run.spec import RunSpec, engine_facts
from ..run.trials import Trials
from .command_engine import Program
from .engine import ImportedEngine, check_space, import_engine, settle

if TYPE_CHECKING:
    from .engine import SweepEngine

_OURS = ("metric", "direction", "track", "constraints", "at")


@dataclass
class Job:
    """A settled plan at work.

    Args:
        plan: what to do.
        resolved: the same, as it is written down.
        directory: where it is kept.
        trials: runs one trial.
        facts: what it measures, as `RunSpec` takes it.
        tell: called with the record of every trial that ends.
        say: prints a line.
        extend: a stored study of another space is accepted.
        leads: it says what the sweep is about, and tells of trials that end elsewhere; a worker joins.
        gathers: it takes the records of those trials into its directory.
        earlier: seconds that earlier invocations spent.
        reached: whether a trial has reached the target.
        failed: how many trials have failed, those of earlier invocations included.
        ended: how many trials it was told of.
    """

    plan: Plan
    resolved: Resolved
    directory: RunDirectory
    trials: Trials
    facts: Mapping[str, Any]
    tell: Callable[[TrialRecord], None] = print
    say: Callable[[str], None] = print
    extend: bool = False
    leads: bool = False
    gathers: bool = False
    earlier: float = 0.0
    began: float = field(default_factory=time.monotonic)
    reached: bool = False
    failed: int = 0
    ended: int = 0
    _noting: Lock = field(default_factory=Lock, repr=False)

    @property
    def engine(self) -> SweepEngine:
        """The engine that its trials train."""
        return cast("SweepEngine", self.trials.train)

    @property
    def over(self) -> bool:
        """Whether no further trial is to start: the time is up, the target reached, too many have failed."""
        return self.reached or self.seconds_left == 0 or self.fails(self.failed)

    @property
    def spent(self) -> float:
        """The seconds of this invocation and of earlier ones."""
        return self.earlier + time.monotonic() - self.began

    @property
    def seconds_left(self) -> float | None:
        """The rest of `budget.time`; None where there is none."""
        limit = self.plan.config.budget.time
        return None if limit is None else max(0.0, limit - self.spent)

    def note(self, record: TrialRecord) -> None:
        """Take note of a trial that ended, here or in another process; from any thread."""
        with self._noting:
            self.reached = self.reached or self.reaches(record)
            self.ended += record.state.finished
            self.failed += record.state is TrialState.FAILED
            self.tell(record)

    def fails(self, count: int) -> bool:
        """Say whether so many failed trials are as many as `budget.failures` allows."""
        limit = self.plan.config.budget.failures
        return limit is not None and count >= limit

    def reaches(self, record: TrialRecord) -> bool:
        """Say whether a trial has reached `budget.target`."""
        target = self.plan.config.budget.target
        if target is None or record.value is None or record.state is not TrialState.COMPLETE:
            return False
        return not self.resolved.objective.better(target, record.value)

    def arrange_grid(self) -> None:
        """Keep the grid points of existing trials, so that each point is visited once."""
        if self.plan.sampler != "grid":
            return
        taken = {}
        for record in self.directory.records():
            with suppress(SpaceError):  # of a trial of another space
                taken[record.number] = self.plan.space.encode(record.given)
        self.plan = replace(self.plan, points=arranged(self.plan.points, taken))


def make_job(plan: Plan, extend: bool = False) -> Job:
    """Import the engine of a plan and settle what its trials measure.

    Raises:
        HpometricsError: the engine cannot be had, or does not fit the file.
    """
    engine = import_engine(plan)
    plan = settle(plan, engine)
    home = RunDirectory(plan.directory.absolute(), plan.directory)
    measured = spec_facts(plan, engine)
    spec = RunSpec(**measured)
    check_space(plan, engine, spec)
    trials = Trials(
        engine,
        spec,
        home.path,
        plan.engine_seed,
        plan.config.results.fsync,
        [logger.spec for logger in plan.config.results.loggers],
        plan.config.budget.repeats,
        plan.config.budget.retries,
    )
    resolved = replace(resolve(plan), sources=sources_of(engine), home=str(home.path))
    return Job(plan, resolved, home, trials, measured, extend=extend)


def spec_facts(plan: Plan, engine: SweepEngine) -> dict[str, Any]:
    """Say what a run measures, as `RunSpec` takes it; what the file leaves open, the engine may settle.

    Where an engine of stages is evaluated, or a program runs, nothing is updated: values come as numbers.
    """
    facts = engine_facts(engine.train)
    own_words = ("epochs", "patience", "target", "trial_time")
    given: dict[str, Any] = {name: getattr(plan.config.budget, name) for name in own_words}
    given |= {"output": plan.output, "defaults": plan.config.metrics.defaults}
    if "checkpoints" in plan.config.results.model_fields_set:  # else the engine may say it
        given["checkpoints"] = plan.config.results.checkpoints
    told = {name: value for name, value in given.items() if value is not None}
    examples = plan.config.metrics.track_examples
    if examples is not None:
        told["track_examples"] = examples.model_dump(exclude_none=True)
    told["threads"] = plan.config.engine.threads or facts.get("threads", 1)
    told["statistics"] = plan.config.results.statistics
    own = {name: fact for name, fact in facts.items() if name not in _OURS}
    measured = {
        **own,
        **told,
        "metric": [_as_optimized(measure) for measure in plan.objectives],
        "track": tuple(_as_asked(measure) for measure in plan.track if not measure.reported),
        "constraints": tuple(str(bound.constraint) for bound in plan.bounds),
        "at": plan.at,
    }
    if isinstance(engine, ImportedEngine):
        return measured
    track = _told_by_program(plan) if isinstance(engine, Program) else facts["track"]
    return measured | {"output": None, "defaults": False, "track": track}


def _told_by_program(plan: Plan) -> tuple[Reported, ...]:
    """What is known to come as a number, so that a constraint on it measures nothing."""
    return tuple(Reported(one.name, one.objective) for one in plan.track if one.objective is not None)


def _as_optimized(measure: Measure) -> Any:
    asked = _as_asked(measure)
    return {"metric": asked, "direction": measure.objective} if isinstance(asked, str) else asked


def _as_asked(measure: Measure) -> str | Combined | Reported:
    if measure.reported and measure.objective is not None:
        return Reported(measure.name, measure.objective)
    return measure.combined or measure.name


_MOST_BYTES = 1 << 20
_INSTALLED = {"site-packages", "dist-packages"}


def sources_of(engine: SweepEngine) -> dict[str, str]:
    """Return the digest of each file of an engine's code by its path, its own file first."""
    if isinstance(engine, Program):
        parts = sorted(engine.command, key=lambda part: Path(part).is_absolute())  # its own before a shell
        files: Iterable[Path] = (Path(engine.folder, part) for part in parts)
    else:
        files = _modules(engine.target.partition(":")[0])
    readable = (path for path in dict.fromkeys(files) if path.is_file() and path.stat().st_size < _MOST_BYTES)
    return {str(path): sha256(path.read_bytes()).hexdigest()[:16] for path in readable}


def _modules(name: str) -> Iterator[Path]:
    """The files of a module and of all that is imported from its folder and below."""
    own = getattr(sys.modules.get(name), "__file__", None)
    if own is None:
        return
    yield Path(own)
    home = Path(own).parent
    others = (module for key, module in list(sys.modules.items()) if key.partition(".")[0] != "hpometrics")
    found = (getattr(module, "__file__", None) for module in others)
    for path in sorted({Path(file) for file in found if file and Path(file).is_relative_to(home)}):
        if not _INSTALLED & set(path.relative_to(home).parts):
            yield path
