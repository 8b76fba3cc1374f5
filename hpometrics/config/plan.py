"""The plan of a sweep: a fully checked sweep file, which `check` prints and `run` executes."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from .._text import one_line, slug_of
from ..backends.hub import with_folder
from ..backends.registry import BACKENDS, REPLAY
from ..backends.storage_url import redact_storage
from ..exceptions import HpometricsError
from ..selection.rules import At
from ..space.space import Space
from .compatibility import check_population, check_support
from .document import Document, Path
from .engine_section import canonical_name, command_problems
from .fields import Metric
from .metric_section import (
    OWN,
    UNKNOWN_OUTPUT,
    Bound,
    Measure,
    Outputs,
    Registers,
    anything,
    judging_problem,
    nothing,
    outputs_of,
    read_bound,
    read_measures,
    resolve_output,
    types_of,
)
from .models import Draft, Sweep
from .overrides import read_with_overrides
from .placeholders import keep_placeholders
from .space_section import Points, first_points, read_space
from .validate import read_config


@dataclass(frozen=True)
class Plan:
    """The resolved content of a sweep file, made without an import of the engine.

    `points` are the stored points of the first trials; with a grid or a list there are no other trials.
    """

    document: Document
    config: Sweep
    name: str
    directory: pathlib.Path
    output: Outputs | None
    objectives: tuple[Measure, ...]
    track: tuple[Measure, ...]
    bounds: tuple[Bound, ...]
    space: Space
    points: Points = ()

    @property
    def optimize(self) -> Measure:
        """The optimized metric; of several objectives the first."""
        return self.objectives[0]

    @property
    def plain_output(self) -> str | dict[str, str] | None:
        """The output as a file holds it, several by name."""
        if isinstance(self.output, Mapping):
            return {name: str(one) for name, one in self.output.items()}
        return None if self.output is None else str(self.output)

    @property
    def file(self) -> pathlib.Path:
        """The sweep file."""
        return pathlib.Path(self.document.source)

    @property
    def at(self) -> At:
        """The epoch whose value counts."""
        return At(self.config.metrics.at)

    @property
    def sampler(self) -> str:
        """The name of the sampler."""
        sampler = self.config.search.sampler
        return "list" if self.config.backend.points else "tpe" if sampler is None else sampler.name

    @property
    def sampler_spec(self) -> object:
        """The sampler with its options; a list, whose points are fixed, never calls it."""
        sampler = self.config.search.sampler
        if sampler is None or self.sampler == "list":
            return "random" if self.sampler == "list" else self.sampler
        return with_folder("sampler", sampler.spec, (self.file.parent,))

    @property
    def pruner_spec(self) -> object:
        """The pruner with its options; None if there is none."""
        pruner = self.config.search.pruner
        return None if pruner is None else with_folder("pruner", pruner.spec, (self.file.parent,))

    @property
    def pruner(self) -> str:
        """The name of the pruner."""
        pruner = self.config.search.pruner
        return "none" if pruner is None else pruner.name

    @property
    def replays(self) -> bool:
        """Whether each trial trains the schedule of an earlier sweep, and so no sampler draws."""
        return self.pruner == REPLAY

    @property
    def earlier(self) -> tuple[str, ...]:
        """The earlier sweeps whose params the first trials have: one to replay, or those of `search.from`."""
        search = self.config.search
        if search.pruner is not None and self.replays:
            return (str(search.pruner.options["run"]),)
        return () if search.warm_start is None else tuple(search.warm_start.sweeps)

    @property
    def trials(self) -> int | None:
        """The total number of trials; None where only time or target end the sweep."""
        trials = self.config.budget.trials
        if self.sampler not in ("list", "grid"):
            return trials
        return len(self.points) if trials is None else min(trials, len(self.points))

    @property
    def engine_seed(self) -> int:
        """The base of the seeds of the trials."""
        seed = self.config.engine.seed
        return self.config.search.seed if seed is None else seed

    def to_config(self) -> dict[str, Any]:
        """Return the sweep file with every default spelled out."""
        config = self.config.model_dump(by_alias=True, exclude_none=True)
        config["name"], config["results"]["dir"] = self.name, str(self.directory)
        backend = self.config.backend
        if BACKENDS[backend.name].has_storage:
            config["backend"][backend.name]["storage"] = redact_storage(backend.storage)
        if backend.points is None:  # a list is tried as it is, by no sampler
            config["search"].setdefault("sampler", self.sampler)
            config["search"].setdefault("pruner", self.pruner)
        config["engine"]["seed"] = self.engine_seed
        if not self.config.metrics.optimize:
            del config["metrics"]["optimize"]  # the engine says it
        for key in ("plugins", "tags"):
            if not config[key]:
                del config[key]
        config.pop("on_end", None)  # of the run that ends; no other command or machine needs its variables
        keep_placeholders(config, self.document.data)
        return config


def read_plan(
    file: pathlib.Path,
    assignments: Iterable[str] = (),
    workers: int | None = None,
    registers: Registers = anything,
) -> Plan:
    """Read and check a sweep file.

    Args:
        file: the YAML file.
        assignments: `key=value` texts that change it.
        workers: the number of workers of its backend, instead of the number in the file.
        registers: see `read_measures`.

    Raises:
        SweepFileError: anything is wrong; it holds every problem.
    """
    return make_plan(read_with_overrides(file, assignments, workers), registers=registers)


def make_plan(
    document: Document,
    engine_output: Outputs | None = None,
    settle: bool = False,
    measures: Sequence[Measure] = (),
    registers: Registers = nothing,
) -> Plan:
    """Check the structure and the meaning of a document, and return its plan.

    Args:
        document: see `read_document`.
        engine_output: the outputs that the engine itself states.
        settle: import metrics that the file names by path, so that nothing stays open.
        measures: the resolved metrics that the engine measures itself; unless given, those of the file.
        registers: see `read_measures`.

    Raises:
        SweepFileError: anything is wrong.
    """
    config = read_config(document)
    if config.plugins or any(path[:1] == ("plugins",) for path in document.broken):
        registers = anything
    elif _runs_command(config):
        registers = nothing  # it is not imported
    name = _resolve_name(config, document)
    check_support(config, document)
    _check_budget(config, document)
    output = resolve_output(None if config.engine is None else config.engine.output, engine_output, document)
    clear = settle and not _runs_command(config)  # only the direction of a program's values is needed
    measures = list(measures) or _resolve_metrics(config, output, clear, document, registers)
    if config.search.prune_by is not None and measures and not document.problems:
        types = types_of(output, clear)
        problem = judging_problem(config.search.prune_by, measures, types, clear, registers)
        if problem is not None:
            document.add(("search", "prune_by"), problem)
    bounds = _resolve_bounds(config, output, clear, document)
    space = read_space(config, document)
    points = () if space is None else first_points(config, space, document)
    check_population(config, space, document)
    _check_command(config, space, measures, document)
    document.raise_problems()
    whole = cast(Sweep, config)  # without problems the draft is complete
    count = max(1, len(whole.metrics.optimize))
    objectives, track = tuple(measures[:count]), measures[count:]
    names = {measure.name for measure in measures}
    bounded = {bound.measure.name: bound.measure for bound in bounds if bound.measure.name not in names}
    track += bounded.values()
    directory = pathlib.Path(whole.results.dir or f"runs/{name}")
    return Plan(
        document, whole, name, directory, output, objectives, tuple(track), bounds, cast(Space, space), points
    )


def _resolve_name(config: Draft, document: Document) -> str:
    """Return the sweep's name; unless the file states one, a slug of the file's name."""
    stem = slug_of(pathlib.Path(document.source).stem)
    if config.name is None and stem is None:
        document.add(("name",), "is missing, and the name of the file cannot serve as one")
    return config.name or stem or ""


def _check_budget(config: Draft, document: Document) -> None:
    budget, sampler = config.budget, config.search.sampler
    if budget is None or config.backend.points or (sampler is not None and sampler.name == "grid"):
        return
    points = {("backend", name) for name, entry in BACKENDS.items() if entry.has_points}
    if {("backend",), ("search", "sampler"), *points} & document.broken:
        return  # it may be intended as a list or a grid, which end by themselves
    limits = ("trials", "time", "target", "stale", "cost")
    if all(getattr(budget, name) is None for name in limits):
        document.add(("budget",), f"needs one of {', '.join(limits)}")


def _resolve_metrics(
    config: Draft, output: Outputs | None, settle: bool, document: Document, registers: Registers
) -> list[Measure]:
    """Look up the optimized metrics, then the tracked ones; a duplicate counts once."""
    if config.metrics is None:
        return []
    if settle and not config.metrics.optimize:
        document.add(("metrics",), "does not name the metric to optimize; write it as in optimize: accuracy")
    places: list[tuple[Path, Metric, bool]]
    steers = config.engine is not None and ("engine", "output") not in document.broken  # its output is known
    several = len(config.metrics.optimize) > 1
    places = [
        (("metrics", "optimize", *([i] if several else [])), form, steers)
        for i, form in enumerate(config.metrics.optimize)
    ]
    places += [(("metrics", "track", i), form, False) for i, form in enumerate(config.metrics.track)]
    program = _runs_command(config)
    types = types_of(output, settle)
    by_name: dict[str, Measure] = {} if config.metrics.optimize else {OWN.name: OWN}
    first: Measure | None = None
    for path, form, steers in places:
        try:
            measures = read_measures(form, types, steers, settle, registers)
        except HpometricsError as err:
            document.add(path, one_line(err))
            continue
        for measure in measures:
            if program and (measure.group or measure.combined):
                document.add(
                    path,
                    f"{measure.name}: a program reports single values, so a group is not possible; name "
                    "each value",
                )
            measure = replace(measure, reported=measure.reported or program)
            if path[1] == "optimize" and measure.name in by_name:
                document.add(path, f"{measure.name} is already among the objectives")
            by_name.setdefault(measure.name, measure)
            first = measure if path[1] == "optimize" and first is None else first
            if types == UNKNOWN_OUTPUT and first is not None:
                _check_together(first, measure, path, document)
    return list(by_name.values())


def _check_command(
    config: Draft, space: Space | None, measures: Sequence[Measure], document: Document
) -> None:
    if config.engine is not None and _runs_command(config) and config.metrics and space is not None:
        count = len(config.metrics.optimize)
        wanted = {measure.name: index < count for index, measure in enumerate(measures)}
        bounds = [text.partition("<=")[0].partition(">=")[0] for text in config.metrics.constraints]
        wanted = {canonical_name(name.strip()): False for name in bounds} | wanted
        section = config.backend.section
        several = BACKENDS[config.backend.name].is_remote or (getattr(section, "workers", None) or 1) > 1
        for path, text in command_problems(config.engine, space, several, wanted):
            document.add(path, text)


def _runs_command(config: Draft) -> bool:
    return config.engine is not None and bool(config.engine.command_line)


def _resolve_bounds(
    config: Draft, output: Outputs | None, settle: bool, document: Document
) -> tuple[Bound, ...]:
    bounds = []
    for index, text in enumerate(config.metrics.constraints if config.metrics else ()):
        try:
            bounds.append(read_bound(text, types_of(output, settle), settle))
        except HpometricsError as err:
            document.add(("metrics", "constraints", index), one_line(err))
    return tuple(bounds)


def _check_together(optimized: Measure, tracked: Measure, path: Path, document: Document) -> None:
    """Check that some output feature has both metrics."""
    one, other = outputs_of(optimized), outputs_of(tracked)
    if one and other and not one & other:
        document.add(
            path,
            f"no output fits both: {optimized.name} is a metric of {', '.join(sorted(one))}, and "
            f"{tracked.name} of {', '.join(sorted(other))}",
        )
