"""The outputs that the engine of a sweep predicts, and the `metrics` section, which is about them.

The file states the outputs, or the engine, or both do. Each metric gets its scope, its direction and the
origin of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .._text import one_line
from ..direction import MINIMIZE, Direction
from ..exceptions import DirectionError, HpometricsError, MetricNameError, UnknownMetricError
from ..metrics.combined import Combined, check_split
from ..metrics.features import OutputFeature, parse_feature
from ..metrics.registry.diagnostics import Diagnostic, diagnostic, direction_of
from ..metrics.registry.index import metric_names
from ..metrics.registry.lookup import (
    FoundMetric,
    find_metric,
    import_metric,
    is_registered,
    measured_by,
    possible_meanings,
)
from ..metrics.registry.names import MetricName, parse_import_path
from ..metrics.registry.scope import (
    COMBINED,
    ScopedMetric,
    Types,
    constraint_problem,
    direction_problem,
    group_of,
    is_per_class,
    members,
    resolve_in_scope,
    steering_problem,
)
from ..metrics.registry.suggestions import suggestion
from ..selection.rules import DOMINANCE, Constraint, unjudged
from .document import Document, Path

if TYPE_CHECKING:
    from .fields import Metric  # with pydantic, which readers of results need not load

Outputs = OutputFeature | Mapping[str, OutputFeature]
"""The only output, or several by name."""

UNKNOWN_OUTPUT: Types = {None: None}
"""One output, of which neither the file nor the engine says what it is."""

_OUTPUT: Path = ("engine", "output")


def resolve_output(
    file_output: str | Mapping[str, str] | None, engine_output: Outputs | None, document: Document
) -> Outputs | None:
    """Return each output: the engine's own, side data included, with the facts that the file states.

    Args:
        file_output: the outputs that the file states.
        engine_output: the outputs that the engine itself states.
        document: receives the problems.
    """
    if file_output is None:
        return engine_output
    parsed = _parse_outputs(file_output, document)
    if parsed is None or engine_output is None:
        return parsed
    if types_of(parsed, True) != types_of(engine_output, True):
        document.add(
            _OUTPUT,
            f"the file states {format_outputs(parsed)}, but the engine states "
            f"{format_outputs(engine_output)}",
        )
        return parsed
    if isinstance(file_output, str) or not isinstance(engine_output, Mapping):
        return _with_facts(engine_output, file_output)  # type: ignore[arg-type]  # neither is a mapping
    return {name: _with_facts(output, file_output[name]) for name, output in engine_output.items()}


def types_of(output: Outputs | None, settled: bool) -> Types | None:
    """Return the type of each output by name; None if only the engine, not imported yet, can state them."""
    if isinstance(output, Mapping):
        return {name: one.type for name, one in output.items()}
    if output is None:
        return UNKNOWN_OUTPUT if settled else None
    return {None: output.type}


def format_outputs(output: Outputs) -> str:
    """Format outputs on one line.

    >>> category, sequence = parse_feature("category"), parse_feature("sequence(vocab_size=9)")
    >>> format_outputs({"intent": category, "reply": sequence})
    'intent: category, reply: sequence(vocab_size=9)'
    """
    if isinstance(output, Mapping):
        return ", ".join(f"{name}: {one}" for name, one in output.items())
    return str(output)


def _parse_outputs(output: str | Mapping[str, str], document: Document) -> Outputs | None:
    """Parse every output; return None where one is not well formed."""
    features: dict[str | None, OutputFeature] = {}
    for name, text in {None: output}.items() if isinstance(output, str) else output.items():
        try:
            features[name] = parse_feature(text)
        except HpometricsError as err:
            document.add(_OUTPUT if name is None else (*_OUTPUT, name), one_line(err))
    if len(features) < (1 if isinstance(output, str) else len(output)):
        return None
    return features[None] if isinstance(output, str) else {str(name): one for name, one in features.items()}


def _with_facts(feature: OutputFeature, text: str) -> OutputFeature:
    return replace(feature, **dict(MetricName.parse(text).params))


def suggest_value(name: str, values: Iterable[str], feature_type: str | None = None) -> str:
    """Return ` Did you mean ...?` for the nearest of the values, else of all metrics; empty if none is near.

    Args:
        name: the name of a missing value.
        values: the values that are reported, or named in the sweep file.
        feature_type: the type of the output feature whose metrics to suggest; all metrics unless given.
    """
    word = name if ":" in name else MetricName.parse(name).metric  # package.module:Class has no parts
    return suggestion(word, values) or suggestion(word, metric_names(feature_type))


class MeasureError(HpometricsError, ValueError):
    """A metric of a sweep file cannot be used; the message is the text of a problem."""


@dataclass(frozen=True)
class Measure:
    """A metric as a sweep uses it.

    `direction` is None where the metric has no direction, or where only `run` imports it. `origin` is the
    origin of the direction: `registry`, `stated` (in the file), `mixed` (a combination of both) or `run`. A
    `reported` metric is reported by the engine itself with `run.log`. A `group` stands for its metrics until
    the output is known. `formula` is the formula of a `combined` value. An `unknown` one may be a metric that
    the engine registers.
    """

    name: str
    direction: Direction | None
    origin: str
    inputs: str | None = None
    reported: bool = False
    group: bool = False
    combined: Combined | None = None
    formula: str | None = None
    unknown: bool = False


Registers = Callable[[str], bool]
"""A function that returns whether the engine may register an unknown metric name when it is imported."""


def nothing(name: str) -> bool:
    """Assume that the engine registers no metric."""
    return False


def anything(name: str) -> bool:
    """Assume that the engine may register any name: it is imported before names are checked."""
    return True


OWN = Measure("as the engine states", None, "run")
"""The optimized metric of a file that leaves it to its engine, an evaluation."""


def read_measures(
    form: Metric, types: Types | None, steers: bool, settle: bool = False, registers: Registers = nothing
) -> list[Measure]:
    """Look up an entry of the file: a metric, a combination, or each metric of a group.

    The metrics of a group depend on the output: where the file does not state the output, the group stays as
    it is until `settle`.

    Args:
        form: the entry of the file.
        types: see `resolve_in_scope`.
        steers: whether it is optimized, so that it needs a direction and one number of validation values.
        settle: import a metric that is named by path, and leave nothing open.
        registers: which unknown names to accept until `settle`.

    Raises:
        MeasureError: it cannot be optimized, its direction is not the one in the file, or it depends on an
            output that is stated nowhere.
        MetricNameError, UnknownMetricError, DirectionError: see `resolve_in_scope` and `Combined`.
    """
    if form.combined is not None:
        return [_resolve_combined(form.combined, types, settle)]
    direction = None if form.direction is None else Direction.parse(form.direction)
    group = group_of(form.name, types)
    if group is None or steers or direction is not None:
        return [read_measure(form.name, types, steers, direction, settle, registers)]
    if types is None:
        return [Measure(str(group), None, "run", group=True)]
    return [read_measure(str(name), types, False, settle=settle) for name in _list_members(group, types)]


def judging_problem(
    prune_by: str, measures: Iterable[Measure], types: Types | None, settle: bool, registers: Registers
) -> str | None:
    """Return why a pruner cannot judge by a metric of a file; None if it can, or only `run` knows."""
    known = {measure.name: measure for measure in measures}
    if prune_by == DOMINANCE:
        return None
    name = prune_by
    if name not in known:
        try:
            name = read_measure(prune_by, types, False, None, settle, registers).name
        except UnknownMetricError:
            name = str(MetricName.parse(prune_by))
        except HpometricsError as err:
            return one_line(err)
    measure = known.get(name)
    if measure is None:
        is_open = OWN.name in known or any(one.group for one in known.values())
        return None if is_open else unjudged(prune_by, known)
    if measure.combined or parse_import_path(name):
        return None
    if measure.direction is None and (measure.reported or measure.origin == "stated"):
        return (
            f"{name} has no direction; state which way is better, as in "
            f"{{metric: {name}, direction: minimize}}"
        )
    scoped = MetricName.parse(name)
    return steering_problem(scoped, scoped.split, is_per_class(scoped))


def outputs_of(measure: Measure) -> set[str]:
    """Return the output features that a measure can serve; none for a value that only the engine knows."""
    is_open = measure.reported or measure.group or measure.unknown or measure.combined
    if is_open or parse_import_path(measure.name):
        return set()
    return {entry.feature_type for entry in find_metric(MetricName.parse(measure.name).bare).entries}


def read_measure(
    text: str,
    types: Types | None,
    steers: bool,
    direction: Direction | None = None,
    settle: bool = False,
    registers: Registers = nothing,
    logged: bool = False,
) -> Measure:
    """Look up one metric by its name or its import path.

    Args:
        text: its name, or `package.module:Class`.
        types: see `resolve_in_scope`.
        steers: see `read_measures`.
        direction: the stated direction.
        settle: see `read_measures`.
        registers: see `read_measures`.
        logged: whether the engine may log a value of the name, so that `val_f1` does not stand for `f1`.

    Raises:
        MeasureError: it is a group of metrics; see also `read_measures`.
        MetricNameError, UnknownMetricError, DirectionError: see `resolve_in_scope`.
    """
    if (group := group_of(text, types)) is not None:
        raise MeasureError(f"{group} is a group of metrics, which can only be tracked; name one metric")
    path = parse_import_path(text)
    if path and not settle:
        return Measure(text, direction, "run")
    name = import_metric(text).name if path else MetricName.parse(text)
    if (run_diagnostic := diagnostic(name)) is not None:
        return _resolve_diagnostic(name, run_diagnostic, direction, steers)
    if name.feature == COMBINED:
        return _resolve_over_outputs(name, types, direction, settle)
    if steers and (problem := steering_problem(name, name.split, is_per_class(name))):
        raise MeasureError(problem)
    try:
        placed = resolve_in_scope(name, types)
    except UnknownMetricError as err:
        if is_registered(name):
            raise
        if direction is not None:
            return Measure(str(name), direction, "stated", reported=True)
        if not settle and registers(name.metric):
            return Measure(str(name), None, "run", unknown=True)
        if not logged and (plain := measured_by(name)) is not None:
            return read_measure(str(plain), types, steers, settle=settle)
        if not steers:
            raise
        raise MeasureError(
            f"{one_line(err)}; if the engine reports it, state {{metric: {name}, direction: ...}}"
        ) from None
    if settle and types == UNKNOWN_OUTPUT and not path:
        logged_value = _resolve_ambiguous(placed.metric, direction)
        if logged_value is not None:
            return logged_value
    return _resolve_registered(placed, direction, steers)


def _resolve_registered(placed: ScopedMetric, requested: Direction | None, steers: bool) -> Measure:
    name, inputs = str(placed.name), placed.metric.reads
    try:
        direction = placed.metric.direction
    except DirectionError as err:
        if steers:
            raise MeasureError(f"{err}: engine.output") from None
        return Measure(name, None, "run")
    if direction is None:
        if steers and requested is None:
            raise MeasureError(
                f"{name} has no direction; state which way is better, "
                f"{{metric: {name}, direction: minimize}} or {{metric: {name}, direction: maximize}}"
            )
        return Measure(name, requested, "stated", inputs)
    _check_direction(name, direction, requested)
    return Measure(name, direction, "registry", inputs)


def _resolve_diagnostic(
    name: MetricName, run_diagnostic: Diagnostic, direction: Direction | None, steers: bool
) -> Measure:
    """Return a diagnostic, which a run records whether it is tracked or not."""
    origin = "registry" if run_diagnostic.direction is not None else "stated"
    if not steers and run_diagnostic.direction is None and direction is None:
        return Measure(str(name), None, "run", reported=True)
    return Measure(str(name), direction_of(name, run_diagnostic, direction), origin, reported=True)


def _resolve_combined(combined: Combined, types: Types | None, settle: bool) -> Measure:
    resolved = combined.settled(types)
    metrics = [term.placed.metric for term in resolved.terms if term.placed is not None]
    if settle and types == UNKNOWN_OUTPUT:
        for metric in metrics:
            _resolve_ambiguous(metric, None)
    one_way = len({term.direction for term in resolved.terms}) == 1
    origin = "stated" if combined.direction is not None else "registry" if one_way else "mixed"
    inputs = ", ".join(dict.fromkeys(metric.reads for metric in metrics)) or None
    return Measure(
        resolved.name, resolved.direction, origin, inputs, combined=combined, formula=resolved.formula
    )


def _resolve_over_outputs(
    name: MetricName, types: Types | None, direction: Direction | None, settle: bool
) -> Measure:
    """Return the measure of `combined.loss`; its terms are unknown where the outputs are."""
    if types is None:
        check_split(name)
        metric = find_metric(name.bare)
        full_name = str(MetricName(name.metric, feature=COMBINED, task=name.task))
        measure = Measure(full_name, metric.direction, "registry", metric.reads)
    else:
        measure = _resolve_combined(Combined.of_all_outputs(name, types), types, settle)
    if measure.direction is not None:
        _check_direction(measure.name, measure.direction, direction)
    return measure


def _list_members(group: MetricName, types: Types) -> Iterator[MetricName]:
    try:
        yield from members(group, types)
    except MetricNameError as err:
        text = f"{one_line(err).removesuffix('; set output=')}; set engine.output"
        raise MeasureError(text if types == UNKNOWN_OUTPUT else one_line(err)) from None


def _check_direction(name: str, own: Direction, requested: Direction | None) -> None:
    if problem := direction_problem(name, own, requested, "direction"):
        raise MeasureError(problem)


def _resolve_ambiguous(metric: FoundMetric, direction: Direction | None) -> Measure | None:
    """Resolve a name of different metrics, where the output is unknown: the engine logs the value.

    Returns:
        None if the name stands for one metric.

    Raises:
        MeasureError: no direction is stated, or not the one that all these metrics have.
    """
    entries = [entry for _, entry in possible_meanings(metric.name)]
    if len({entry.path for entry in entries}) == 1:
        return None
    if direction is None:
        outputs = [entry.feature_type for entry in entries]
        example = "category" if "category" in outputs else outputs[0]
        own = f"{{metric: {metric.name.metric}, direction: {entries[0].direction or MINIMIZE}}}"
        raise MeasureError(
            f"{metric.name} means a different metric for each output ({', '.join(outputs)}), but neither "
            f"the file nor the engine names the output; set engine.output, as in output: {example}. If the "
            f"engine logs the value, state its direction, as in {own}"
        )
    directions = {entry.direction for entry in entries}
    if len(directions) == 1 and (own_direction := directions.pop()) is not None:
        _check_direction(str(metric.name), own_direction, direction)
    return Measure(str(metric.name), direction, "stated", reported=True)


@dataclass(frozen=True)
class Bound:
    """A constraint with the canonical name of its value, and the measure of that value."""

    constraint: Constraint
    measure: Measure


def read_bound(text: str, types: Types | None, settle: bool = False) -> Bound:
    """Parse a constraint; a value without a registered name is reported by the engine.

    Args:
        text: such as `ece <= 0.05`.
        types: see `resolve_in_scope`.
        settle: leave nothing open, see `read_measures`.

    Raises:
        ConstraintError: it is not well formed.
        MeasureError: it is not about a single value of validation data.
        MetricNameError, DirectionError: see `read_measures`.
    """
    constraint = Constraint.parse(text)
    name = MetricName.parse(constraint.name)
    if problem := constraint_problem(name, types):
        raise MeasureError(problem)
    try:
        measure = read_measure(str(name), types, steers=False, settle=settle, logged=True)
    except (MeasureError, UnknownMetricError):
        if is_registered(name):
            raise
        measure = Measure(str(name), None, "run", reported=True)
    return Bound(replace(constraint, name=measure.name), measure)
