"""Measures: the metrics of a sweep file, each at its place, with its direction and where that comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .._text import one_line
from ..direction import MINIMIZE, Objective
from ..exceptions import HpometricsError, MetricNameError, ObjectiveError, UnknownMetricError
from ..metrics.registry.diagnostics import Diagnostic, diagnostic, direction_of
from ..metrics.registry.index import metric_names
from ..metrics.registry.lookup import FoundMetric, find_metric, is_registered, possible_meanings, suggestion
from ..metrics.registry.names import MetricName, parse_import_path
from ..metrics.registry.scope import COMBINED, VALIDATION, Placed, Types, group_of, members, place
from ..selection.constraints import Constraint
from .fields import Metric
from .outputs import UNSAID

if TYPE_CHECKING:
    from ..metrics.combined import Combined


def value_meant(name: str, there: Iterable[str], feature_type: str | None = None) -> str:
    """Give ` Did you mean ...?` for the nearest of the values there, else of all metrics; empty if none is.

    Args:
        name: of a value that is missing.
        there: the values that are reported, or named in the sweep file.
        feature_type: of this output feature the metrics are.
    """
    word = name if ":" in name else MetricName.parse(name).metric  # package.module:Class is no name
    return suggestion(word, there) or suggestion(word, metric_names(feature_type))


class MeasureError(HpometricsError, ValueError):
    """A metric of a sweep file cannot be used; the message is the text of a problem."""


@dataclass(frozen=True)
class Measure:
    """A metric as a sweep uses it.

    `objective` is None where the metric has no direction, or where `run` has yet to import it. `origin` says
    where the direction comes from: `registry`, `stated` (in the file), `mixed` (a combination of both) or
    `run`. A `reported` metric is one that the engine itself reports with `run.log`. A `group` stands for the
    metrics that it will be once the output is known. `formula` says how a `combined` value is made. An
    `unknown` one may be a metric that the engine registers.
    """

    name: str
    objective: Objective | None
    origin: str
    inputs: str | None = None
    reported: bool = False
    group: bool = False
    combined: Combined | None = None
    formula: str | None = None
    unknown: bool = False


Registers = Callable[[str], bool]
"""Whether a name that nobody knows may be that of a metric which the engine registers as it is imported."""


def nothing(name: str) -> bool:
    """Assume that the engine registers no metric."""
    return False


def anything(name: str) -> bool:
    """Assume that the engine may register any name: it is imported before names are judged."""
    return True


OWN = Measure("as the engine says", None, "run")
"""What a file optimizes that leaves it to its engine, an evaluation."""


def read_measures(
    form: Metric,
    types: Types | None,
    steers: bool,
    settle: bool = False,
    registers: Registers = nothing,
) -> list[Measure]:
    """Look up what the file names: a metric, a combination, or each metric of a group.

    A group is another list for each output: where the file does not say what the engine predicts, it stays
    as it is until `settle`.

    Args:
        form: what the file names.
        types: see `place`.
        steers: it is to be optimized, so it needs a direction and one number of validation values.
        settle: import a metric that is named by path, and leave nothing open.
        registers: which unknown names to accept until `settle`.

    Raises:
        MeasureError: it cannot steer, has another direction than the file says, or depends on an output that
            nobody says.
        MetricNameError, UnknownMetricError, ObjectiveError: see `place` and `Combined`.
    """
    if form.combined is not None:
        return [_combined(form.combined, types, settle)]
    group = group_of(form.name, types)
    if group is None:
        return [_measure(form, types, steers, settle, registers)]
    if steers or form.direction is not None:
        raise MeasureError(f"{group} is a group of metrics; it can be tracked, one metric is optimized")
    if types is None:
        return [Measure(str(group), None, "run", group=True)]
    return [_measure(Metric(name=str(name)), types, False, settle) for name in _members(group, types)]


def outputs_of(measure: Measure) -> set[str]:
    """Name the output features that a measure can serve; none for what only its engine knows."""
    open_ = measure.reported or measure.group or measure.unknown or measure.combined
    if open_ or parse_import_path(measure.name):
        return set()
    return {entry.feature_type for entry in find_metric(MetricName.parse(measure.name).bare).entries}


def _measure(
    form: Metric, types: Types | None, steers: bool, settle: bool, registers: Registers = nothing
) -> Measure:
    stated = None if form.direction is None else Objective.parse(form.direction)
    path = parse_import_path(form.name)
    if path and not settle:
        return Measure(form.name, stated, "run")
    name = _imported(form.name) if path else MetricName.parse(form.name)
    if (known := diagnostic(name)) is not None:
        return _of_a_run(name, known, stated, steers)
    if name.feature == COMBINED:
        return _over_all_outputs(name, types, stated, settle)
    if steers:
        _check_steers(name)
    try:
        placed = place(name, types)
    except UnknownMetricError as err:
        if is_registered(name):
            raise
        if stated is not None:
            return Measure(str(name), stated, "stated", reported=True)
        if not settle and registers(name.metric):
            return Measure(str(name), None, "run", unknown=True)
        if not steers:
            raise
        raise MeasureError(
            f"{one_line(err)}; if the engine reports it, state {{metric: {name}, direction: ...}}"
        ) from None
    if settle and types == UNSAID and not path:
        _check_clear(placed.found)
    return _known(placed, stated, steers)


def _imported(path: str) -> MetricName:
    from ..metrics.registry.register import import_metric

    return import_metric(path).name


def _known(placed: Placed, stated: Objective | None, steers: bool) -> Measure:
    name, inputs = str(placed.name), placed.found.reads
    try:
        objective = placed.found.objective
    except ObjectiveError as err:
        if steers:
            raise MeasureError(f"{err}: engine.output") from None
        return Measure(name, None, "run")
    if objective is None:
        if steers and stated is None:
            raise MeasureError(
                f"{name} has no direction of its own; state which way is better, "
                f"{{metric: {name}, direction: minimize}} or {{metric: {name}, direction: maximize}}"
            )
        return Measure(name, stated, "stated", inputs)
    _check_agreed(name, objective, stated)
    return Measure(name, objective, "registry", inputs)


def _of_a_run(name: MetricName, known: Diagnostic, stated: Objective | None, steers: bool) -> Measure:
    """A diagnostic, which a run records whether it is tracked or not."""
    origin = "registry" if known.objective is not None else "stated"
    if not steers and known.objective is None and stated is None:
        return Measure(str(name), None, "run", reported=True)
    return Measure(str(name), direction_of(name, known, stated), origin, reported=True)


def _combined(combined: Combined, types: Types | None, settle: bool) -> Measure:
    settled = combined.settled(types)
    measured = [term.placed.found for term in settled.terms if term.placed is not None]
    if settle and types == UNSAID:
        for found in measured:
            _check_clear(found)
    one_way = len({term.objective for term in settled.terms}) == 1
    origin = "stated" if combined.direction is not None else "registry" if one_way else "mixed"
    inputs = ", ".join(dict.fromkeys(found.reads for found in measured)) or None
    return Measure(
        settled.name, settled.objective, origin, inputs, combined=combined, formula=settled.formula
    )


def _over_all_outputs(
    name: MetricName, types: Types | None, stated: Objective | None, settle: bool
) -> Measure:
    """Read `combined.loss`; what it is made of is open where the outputs are."""
    from ..metrics.combined import Combined, check_split

    if types is None:
        check_split(name)
        found = find_metric(name.bare)
        called = str(MetricName(name.metric, feature=COMBINED, task=name.task))
        measure = Measure(called, found.objective, "registry", found.reads)
    else:
        measure = _combined(Combined.of_all_outputs(name, types), types, settle)
    if measure.objective is not None:
        _check_agreed(measure.name, measure.objective, stated)
    return measure


def _members(group: MetricName, types: Types) -> Iterator[MetricName]:
    try:
        yield from members(group, types)
    except MetricNameError as err:
        told = f"{one_line(err).removesuffix('; give output=')}; say engine.output"
        raise MeasureError(told if types == UNSAID else one_line(err)) from None


def _check_agreed(name: str, known: Objective, stated: Objective | None) -> None:
    if stated not in (None, known):
        raise MeasureError(f"{name} is to {known.value}, but direction says {stated}")


def _check_steers(name: MetricName) -> None:
    if name.split not in (None, VALIDATION):
        raise MeasureError(f"only validation values steer a search; {name} can be tracked")
    if dict(name.params).get("average") == "none":
        raise MeasureError(
            f"{name} has one value per class, and a search optimizes one number; choose average=micro, "
            "macro or weighted, and track this one"
        )


def _check_clear(found: FoundMetric) -> None:
    """Refuse a metric that is another for each output feature, where none is known."""
    entries = [entry for _, entry in possible_meanings(found.name)]
    if len({entry.path for entry in entries}) > 1:
        outputs = [entry.feature_type for entry in entries]
        example = "category" if "category" in outputs else outputs[0]
        own = f"{{metric: my_{found.name.metric}, direction: {entries[0].objective or MINIMIZE}}}"
        raise MeasureError(
            f"{found.name} is another metric for each output ({', '.join(outputs)}), and neither the file "
            f"nor the engine says which it is; say engine.output, as in output: {example}. A value that the "
            f"engine logs has a name and a direction of its own, as in {own}"
        )


@dataclass(frozen=True)
class Bound:
    """A constraint under the canonical name of its value, and that value."""

    constraint: Constraint
    measure: Measure


def read_bound(text: str, types: Types | None, settle: bool = False) -> Bound:
    """Read a constraint; a value of no registered name is one that the engine reports.

    Args:
        text: such as `ece <= 0.05`.
        types: see `place`.
        settle: leave nothing open, see `read_measures`.

    Raises:
        ConstraintError: it is not well formed.
        MeasureError: it is about no single value of validation data.
        MetricNameError, ObjectiveError: see `read_measures`.
    """
    constraint = Constraint.parse(text)
    name = MetricName.parse(constraint.name)
    if group_of(name, types) is not None:
        raise MeasureError(f"{name} is a group of metrics; bound one of them")
    if name.split not in (None, VALIDATION):
        raise MeasureError(f"only validation values steer a search; {name} can be tracked")
    if dict(name.params).get("average") == "none":
        raise MeasureError(f"{name} has one value per class; bound one of them, as in {name.metric}(class=0)")
    measure = _measured(name, types, settle)
    return Bound(replace(constraint, name=measure.name), measure)


def _measured(name: MetricName, types: Types | None, settle: bool) -> Measure:
    try:
        (measure,) = read_measures(Metric(name=str(name)), types, steers=False, settle=settle)
    except (MeasureError, UnknownMetricError):
        if is_registered(name):
            raise
        return Measure(str(name), None, "run", reported=True)
    return measure
