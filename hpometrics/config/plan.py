"""The plan: a sweep file that was understood in every part; what `check` prints and `run` carries out."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from .._text import one_line
from ..exceptions import HpometricsError
from ..selection.rules import At
from ..space.space import Space
from .bounds import Bound, read_bound
from .compatibility import check_support
from .document import Document
from .fields import Metric
from .metric_section import OWN, Measure, Registers, anything, nothing, outputs_of, read_measures
from .models import Draft, Sweep
from .outputs import UNSAID, Outputs, settled_output, types_of
from .overrides import read_overridden
from .population import check_population
from .problems import Path
from .slugs import slug_of
from .space_section import Points, first_points, read_space
from .validate import read_config


@dataclass(frozen=True)
class Plan:
    """Everything that a sweep file says, resolved; nothing in it has imported the engine.

    `points` are the stored points of the first trials; with a grid or a list there are no others.
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
        """What is optimised; of several objectives the first."""
        return self.objectives[0]

    @property
    def file(self) -> pathlib.Path:
        """The sweep file."""
        return pathlib.Path(self.document.source)

    @property
    def at(self) -> At:
        """Which epoch's value counts."""
        return At(self.config.metrics.at)

    @property
    def sampler(self) -> str:
        """Name of the sampler."""
        chosen = self.config.search.sampler
        return "list" if self.config.backend.points else "tpe" if chosen is None else chosen.name

    @property
    def sampler_spec(self) -> object:
        """The sampler with its options; the points of a list are given, so that it is never asked there."""
        chosen = self.config.search.sampler
        return "random" if self.sampler == "list" else self.sampler if chosen is None else chosen.spec

    @property
    def pruner(self) -> str:
        """Name of the pruner."""
        chosen = self.config.search.pruner
        return "none" if chosen is None else chosen.name

    @property
    def trials(self) -> int | None:
        """The total number of trials; None where only time or target end the sweep."""
        asked = self.config.budget.trials
        if self.sampler not in ("list", "grid"):
            return asked
        return len(self.points) if asked is None else min(asked, len(self.points))

    @property
    def engine_seed(self) -> int:
        """Base of the seeds of the trials."""
        seed = self.config.engine.seed
        return self.config.search.seed if seed is None else seed


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
        workers: how many of its backend are at work, in the place of what it says.
        registers: see `read_measures`.

    Raises:
        SweepFileError: anything is wrong; every problem is in it.
    """
    return make_plan(read_overridden(file, assignments, workers), registers=registers)


def make_plan(
    document: Document,
    engine_output: Outputs | None = None,
    settle: bool = False,
    measures: Sequence[Measure] = (),
    registers: Registers = nothing,
) -> Plan:
    """Check what a document says, in structure and in meaning.

    Args:
        document: see `read_document`.
        engine_output: what the engine itself says that it predicts.
        settle: import what the file names by path, so that nothing stays open.
        measures: what the engine measures itself, settled already; unless given, what the file names.
        registers: see `read_measures`.

    Raises:
        SweepFileError: anything is wrong.
    """
    config = read_config(document)
    name = _name(config, document)
    check_support(config, document, settle)
    _check_budget(config, document)
    output = settled_output(None if config.engine is None else config.engine.output, engine_output, document)
    clear = settle and not _is_program(config)  # of what a program tells only the direction is asked for
    measures = list(measures) or _measures(config, output, clear, document, registers)
    bounds = _bounds(config, output, clear, document)
    space = read_space(config, document)
    points = () if space is None else first_points(config, space, document)
    check_population(config, space, document)
    document.raise_problems()
    whole = cast(Sweep, config)  # nothing is wrong, so nothing is missing
    count = max(1, len(whole.metrics.optimize))
    objectives, track = tuple(measures[:count]), measures[count:]
    known = {measure.name for measure in measures}
    bounded = {bound.measure.name: bound.measure for bound in bounds if bound.measure.name not in known}
    track += bounded.values()
    directory = pathlib.Path(whole.results.dir or f"runs/{name}")
    return Plan(
        document, whole, name, directory, output, objectives, tuple(track), bounds, cast(Space, space), points
    )


def _name(config: Draft, document: Document) -> str:
    """Give the sweep's name; the file's own, made into a slug, unless the file says another."""
    stem = slug_of(pathlib.Path(document.source).stem)
    if config.name is None and stem is None:
        document.add(("name",), "is missing, and the file's name makes none")
    return config.name or stem or ""


def _check_budget(config: Draft, document: Document) -> None:
    budget, sampler = config.budget, config.search.sampler
    if budget is None or config.backend.points or (sampler is not None and sampler.name == "grid"):
        return
    if {("backend",), ("backend", "list"), ("search", "sampler")} & document.broken:
        return  # it may have been a list or a grid, which end by themselves
    if budget.trials is None and budget.time is None and budget.target is None:
        document.add(("budget",), "says no end; give trials, time or target")


def _measures(
    config: Draft, output: Outputs | None, settle: bool, document: Document, registers: Registers
) -> list[Measure]:
    """Look up what is optimised, then what is tracked; a metric that stands twice counts once."""
    if config.metrics is None:
        return []
    if settle and not config.metrics.optimize:
        document.add(("metrics",), "does not say what is optimised; say it as in optimize: accuracy")
    places: list[tuple[Path, Metric, bool]]
    unsure = config.engine is None or ("engine", "output") in document.broken
    steers = not unsure  # else its output is unknown for another reason
    several = len(config.metrics.optimize) > 1
    places = [
        (("metrics", "optimize", *([i] if several else [])), form, steers)
        for i, form in enumerate(config.metrics.optimize)
    ]
    places += [(("metrics", "track", i), form, False) for i, form in enumerate(config.metrics.track)]
    program = _is_program(config)
    types = types_of(output, settle)
    found: dict[str, Measure] = {} if config.metrics.optimize else {OWN.name: OWN}
    first: Measure | None = None
    for path, form, steers in places:
        try:
            measures = read_measures(form, types, steers, settle, registers)
        except HpometricsError as err:
            document.add(path, one_line(err))
            continue
        for measure in measures:
            if program and (measure.group or measure.combined):
                document.add(path, f"{measure.name}: a program tells single values; name each of them")
            measure = replace(measure, reported=measure.reported or program)
            if path[1] == "optimize" and measure.name in found:
                document.add(path, f"{measure.name} is among the objectives already")
            found.setdefault(measure.name, measure)
            first = measure if path[1] == "optimize" and first is None else first
            if types == UNSAID and first is not None:
                _check_together(first, measure, path, document)
    return list(found.values())


def _is_program(config: Draft) -> bool:
    return config.engine is not None and config.engine.command is not None


def _bounds(config: Draft, output: Outputs | None, settle: bool, document: Document) -> tuple[Bound, ...]:
    found = []
    for index, text in enumerate(config.metrics.constraints if config.metrics else ()):
        try:
            found.append(read_bound(text, types_of(output, settle), settle))
        except HpometricsError as err:
            document.add(("metrics", "constraints", index), one_line(err))
    return tuple(found)


def _check_together(optimized: Measure, tracked: Measure, path: Path, document: Document) -> None:
    """Note two metrics that no output feature has both."""
    one, other = outputs_of(optimized), outputs_of(tracked)
    if one and other and not one & other:
        document.add(
            path,
            f"no output serves both: {optimized.name} is a metric of {', '.join(sorted(one))}, "
            f"{tracked.name} of {', '.join(sorted(other))}",
        )
