"""The context of a sweep: one invocation of `run`, with its plan, directory, trials and limits."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from .._imports import code_of, split_target
from ..backends.optuna.prior import Prior
from ..backends.registry import REPLAY
from ..config.metric_section import Measure
from ..config.plan import Plan
from ..config.space_section import arrange_points
from ..direction import Direction
from ..exceptions import ConfigError, HpometricsError, RecordError, SpaceError
from ..metrics.combined import Combined
from ..records.epoch_log import read_trial
from ..records.schedule import read_schedule
from ..records.trial_record import TrialRecord, TrialState
from ..results.control import ControlListener
from ..results.manifest import Resolved, resolve
from ..results.run_directory import RunDirectory
from ..run.metric_spec import Reported
from ..run.spec import RunSpec, engine_facts
from ..run.trials import Trials
from ..selection.limits import seconds_at_work
from ..selection.trial_attempts import Faults
from .command_engine import Program
from .imported_engine import (
    ChosenEngine,
    ImportedEngine,
    LocalEngine,
    Train,
    check_space,
    import_engine,
    settle,
)
from .planned_trials import with_priors

if TYPE_CHECKING:
    from .imported_engine import SweepEngine

_OURS = ("metric", "direction", "track", "constraints", "at", "prune_by")
_BUDGET = ("epochs", "steps", "every", "patience", "tol", "target", "trial_time", "cost_unit")
_MAX_BYTES = 1 << 20
_INSTALLED = {"site-packages", "dist-packages"}


@dataclass
class SweepContext:
    """One invocation of a sweep, with a plan in which nothing is open.

    Args:
        plan: the plan of the sweep.
        resolved: the same in its written form.
        directory: the run directory.
        trials: the runner of one trial.
        facts: the arguments of `RunSpec`.
        tell: called with the record of every finished trial.
        say: called with every line to print.
        extend: whether a stored study of another space is accepted.
        leads: whether this process publishes the sweep and reports trials that end elsewhere.
        gathers: whether it copies the records of those trials into its directory.
        earlier: the seconds that earlier invocations spent.
        reached: whether a trial has reached the target.
        used_up: whether `budget.stale` or `budget.cost` was used up when this invocation began.
        failed: the number of failed trials, those of earlier invocations included.
        finished: the number of finished trials, those of earlier invocations included.
        faults: of the first two trials.
        control: the requests of other processes.
        ended: the trials of the study that have ended, as they were read; see `study_records`.
        priors: the trials of earlier sweeps; see `learn`.
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
    used_up: bool = False
    failed: int = 0
    finished: int = 0
    faults: Faults = field(default_factory=Faults)
    ended: dict[int, TrialRecord] = field(default_factory=dict, repr=False)
    control: ControlListener | None = field(init=False, default=None, repr=False)
    priors: Sequence[Prior] = ()
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def engine(self) -> SweepEngine:
        """The engine that the trials train."""
        return cast("SweepEngine", self.trials.train)

    @property
    def over(self) -> bool:
        """Whether no further trial may start: by time, target, failures, or faults of the first trials."""
        return self.reached or self.seconds_left == 0 or self.fails(self.failed) or self.broken

    @property
    def spent(self) -> float:
        """The seconds that this invocation and earlier ones spent."""
        return self.earlier + time.monotonic() - self.began

    @property
    def seconds_left(self) -> float | None:
        """The rest of `budget.time`; None if it has no limit."""
        limit = self.plan.config.budget.time
        return None if limit is None else max(0.0, limit - self.spent)

    def listen(self) -> Callable[[], bool]:
        """Listen to other processes from now on; return a function that checks for a stop request."""
        self.control = ControlListener(self.directory)
        return lambda: self.stopped

    @property
    def stopped(self) -> bool:
        """Whether another process has asked this one to stop."""
        return self.control is not None and self.control.stopped

    @property
    def paused(self) -> bool:
        """Whether no further trial may begin for now."""
        return self.control is not None and self.control.paused

    def wait_while_paused(self) -> None:
        """Return once the sweep is not paused; the time until then does not count."""
        if self.control is not None:
            self.began += self.control.wait(self.say)

    def count(self, earlier: Sequence[TrialRecord]) -> None:
        """Count the trials of earlier invocations."""
        self.earlier = seconds_at_work(earlier)
        self.finished = sum(record.state.finished for record in earlier)
        self.reached = any(self.reaches(record) for record in earlier)
        self.used_up = self.resolved.is_used_up(earlier)
        self.failed = sum(record.state is TrialState.FAILED for record in earlier)
        for record in earlier:
            self.faults.add(record)
        if self.broken:  # a shared study keeps them
            self.faults.first = max(record.number for record in earlier) + 1

    def note(self, record: TrialRecord) -> None:
        """Count and report a trial that ended, here or in another process; safe to call from any thread."""
        with self._lock:
            self.reached = self.reached or self.reaches(record)
            self.finished += record.state.finished
            self.failed += record.state is TrialState.FAILED
            self.faults.add(record)
            self.tell(record)

    def has_begun(self, number: int) -> bool:
        """Return whether a trial has a record in the directory."""
        return read_trial(self.directory.trial(number)) is not None

    def fails(self, count: int) -> bool:
        """Return whether a number of failed trials uses up `budget.failures`."""
        limit = self.plan.config.budget.failures
        return limit is not None and count >= limit

    @property
    def judges_faults(self) -> bool:
        """Whether two faults end the sweep; a file with `budget.failures` states its own limit."""
        return self.plan.config.budget.failures is None and not self.faults.settled

    @property
    def broken(self) -> bool:
        """Whether the first two trials have failed alike, before any epoch: the engine fails in all."""
        return self.judges_faults and self.faults.alike

    def reaches(self, record: TrialRecord) -> bool:
        """Return whether a trial has reached `budget.target`."""
        target = self.plan.config.budget.target
        if target is None or record.value is None or record.state is not TrialState.COMPLETE:
            return False
        return not self.resolved.direction.better(target, record.value)

    def learn(self, prior: Mapping[str, str]) -> None:
        """Add the trials of earlier sweeps, see `Resolved.prior`: their best points follow those of the file.

        Raises:
            RecordError: it is damaged.
        """
        self.priors, self.plan = with_priors(self.plan, prior)
        self.resolved = replace(self.resolved, prior=prior)

    def arrange_grid(self, records: Iterable[TrialRecord]) -> None:
        """Keep the grid points of existing trials, so that each point is visited once."""
        if self.plan.sampler != "grid":
            return
        existing = {}
        for record in records:
            with suppress(SpaceError):  # a trial of another space
                existing[record.number] = self.plan.space.encode(record.given)
        self.plan = replace(self.plan, points=arrange_points(self.plan.points, existing))


def with_schedule(plan: Plan, metric: str, direction: Direction) -> Plan:
    """Return a plan whose trials begin with the first params of the schedule that they replay, if they do.

    Raises:
        ConfigError: the schedule cannot be read, or the space does not contain its first params.
    """
    pruner = plan.config.search.pruner
    if pruner is None or pruner.name != REPLAY:
        return plan
    try:
        run, trial = pruner.options["run"], pruner.options.get("trial")
        first = plan.space.encode(read_schedule(Path(run), trial, metric, direction).first)
    except HpometricsError as err:
        raise ConfigError(f"search.pruner: {REPLAY}: {err}") from err
    return replace(plan, points=(first,) * (plan.trials or 0))


def make_context(
    plan: Plan, extend: bool = False, train: Train | None = None, fresh: bool = False
) -> SweepContext:
    """Import the engine of a plan and resolve the metrics of its trials; see `import_engine`.

    Unless the sweep starts over, it has what its directory has recorded of earlier sweeps.

    Raises:
        HpometricsError: the engine cannot be imported, or does not fit the file.
    """
    engine = import_engine(plan, train)
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
    plan = with_schedule(plan, spec.name, spec.optimized[spec.name])
    resolved = replace(
        resolve(plan),
        sources=sources_of(engine),
        home=str(home.path),
        tol=spec.tol,
        cost_unit=spec.cost_unit,
    )
    context = SweepContext(plan, resolved, home, trials, measured, extend=extend)
    warm = plan.config.search.warm_start
    if warm is not None and home.resolved.exists() and not fresh:
        with suppress(RecordError):  # if it is damaged, it is made again when the directory is opened
            prior = home.read().prior
            context.learn({source: prior[source] for source in warm.sweeps if source in prior})
    return context


def spec_facts(plan: Plan, engine: SweepEngine) -> dict[str, Any]:
    """Return the arguments of `RunSpec`; the engine may state settings that the file leaves open.

    An engine of stages and a program report values as numbers, so their runs measure nothing themselves.
    """
    facts, results = engine_facts(engine.train), plan.config.results
    judges = plan.config.search.prune_by is not None  # perhaps by a value that the engine reports
    examples = plan.config.metrics.track_examples
    optional = {
        **{name: getattr(plan.config.budget, name) for name in _BUDGET},
        "output": plan.output,
        "prune_by": plan.config.search.prune_by,
        "defaults": plan.config.metrics.defaults,
        "checkpoints": results.checkpoints if "checkpoints" in results.model_fields_set else None,
        "track_examples": None if examples is None else examples.model_dump(exclude_none=True),
    }
    measured = {
        **{name: fact for name, fact in facts.items() if name not in _OURS},
        **{name: value for name, value in optional.items() if value is not None},
        "threads": plan.config.engine.threads or facts.get("threads", 1),
        "statistics": "rows" if plan.config.confirm and results.statistics == "small" else results.statistics,
        "metric": [_optimized_metric(measure) for measure in plan.objectives],
        "track": tuple(_metric_of(measure) for measure in plan.track if judges or not measure.reported),
        "constraints": tuple(str(bound.constraint) for bound in plan.bounds),
        "at": plan.at,
    }
    if isinstance(engine, ImportedEngine):
        return measured
    if isinstance(engine, Program):  # it reports numbers, so that a constraint on one measures nothing
        track = tuple(Reported(one.name, one.direction) for one in plan.track)
    else:
        track = facts["track"]
    return measured | {"output": None, "defaults": False, "track": track}


def _optimized_metric(measure: Measure) -> Any:
    metric = _metric_of(measure)
    return {"metric": metric, "direction": measure.direction} if isinstance(metric, str) else metric


def _metric_of(measure: Measure) -> str | Combined | Reported:
    if measure.reported and measure.direction is not None:
        return Reported(measure.name, measure.direction)
    return measure.combined or measure.name


def sources_of(engine: SweepEngine) -> dict[str, str]:
    """Return the digest of each file of an engine's code by its path, its own file first."""
    if isinstance(engine, LocalEngine):
        return {engine.target: sha256(code_of(engine.train).encode()).hexdigest()[:16]}
    if isinstance(engine, Program):
        parts = sorted(engine.command, key=lambda part: Path(part).is_absolute())  # its files before a shell
        files: Iterable[Path] = (Path(engine.folder, part) for part in parts)
    else:
        files = chain.from_iterable(map(_modules, module_files(engine)))
    readable = (path for path in dict.fromkeys(files) if path.is_file() and path.stat().st_size < _MAX_BYTES)
    return {str(path): sha256(path.read_bytes()).hexdigest()[:16] for path in readable}


def module_files(engine: SweepEngine) -> list[str]:
    """Return the files of an engine's modules, of most engines one; of a program none."""
    if isinstance(engine, (Program, LocalEngine)):
        return []
    targets = engine.targets.values() if isinstance(engine, ChosenEngine) else [engine.target]
    modules = dict.fromkeys(split_target(target)[0] for target in targets)
    files = (getattr(sys.modules.get(module), "__file__", None) for module in modules)
    return [file for file in files if file is not None]


def _modules(own: str) -> Iterator[Path]:
    """Yield the file of a module and those of all modules imported from its folder and below."""
    yield Path(own)
    home = Path(own).parent
    others = (module for key, module in list(sys.modules.items()) if key.partition(".")[0] != "hpometrics")
    paths = (getattr(module, "__file__", None) for module in others)
    for path in sorted({Path(file) for file in paths if file and Path(file).is_relative_to(home)}):
        if not _INSTALLED & set(path.relative_to(home).parts):
            yield path
