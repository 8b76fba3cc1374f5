"""Measures: the metrics of a sweep file, looked up in the registry, with direction and provenance."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..exceptions import HpometricsError, MetricNameError, ObjectiveError, UnknownMetricError
from ..metrics.diagnostics import Diagnostic, diagnostic, direction_of
from ..metrics.groups import group_named, members_of
from ..metrics.names import MetricName, parse_import_path
from ..metrics.registry import FoundMetric, all_entries, find_metric, import_metric
from ..objective import Objective
from .forms import Metric
from .problems import one_line

NOT_YET = "is not carried out yet in this version"


class MeasureError(HpometricsError, ValueError):
    """A metric of a sweep file cannot be used; the message is the text of a problem."""


@dataclass(frozen=True)
class Measure:
    """A metric as a sweep uses it.

    `objective` is None where the metric has no direction, or where `run` has yet to import it. `origin` says
    where the direction comes from: `registry`, `stated` (in the file) or `run`. A `reported` metric is one
    that the engine itself reports with `run.log`. A `group` stands for the metrics that it will be once the
    output is known.
    """

    name: str
    objective: Objective | None
    origin: str
    inputs: str | None = None
    reported: bool = False
    group: bool = False


def read_measures(
    form: Metric, feature_type: str | None, steers: bool, settle: bool = False
) -> list[Measure]:
    """Look up what the file names: a metric, or each one of a group.

    A group is another list for each output feature: where the file does not say what the engine predicts,
    it stays as it is until `settle`.

    Args:
        form: the metric or group as the file names it.
        feature_type: what the engine predicts; None where the file does not say.
        steers: it is to be optimised, which a group cannot be.
        settle: leave nothing open.

    Raises:
        MeasureError: see `read_measure`; a group is to be optimised, or has a direction or no members.
    """
    try:
        group = group_named(form.name, feature_type)
        if group is None:
            return [read_measure(form, feature_type, steers, settle)]
        if steers or form.direction is not None:
            raise MeasureError(f"{group} is a group of metrics; it can be tracked, one metric is optimised")
        if feature_type is None and not settle:
            return [Measure(str(group), None, "run", group=True)]
        members = [
            replace(name, split=group.split, task=group.task, feature=group.feature)
            for name in members_of(group.metric, feature_type)
        ]
    except MetricNameError as err:
        told = f"{one_line(err).removesuffix('; give output=')}; say engine.output"
        raise MeasureError(told if feature_type is None else one_line(err)) from None
    return [
        read_measure(form.model_copy(update={"name": str(name)}), feature_type, False, settle)
        for name in members
    ]


def read_measure(form: Metric, feature_type: str | None, steers: bool, settle: bool = False) -> Measure:
    """Look a metric up.

    Args:
        form: the metric as the file names it.
        feature_type: what the engine predicts; None where the file does not say.
        steers: it is to be optimised, so it needs a direction and validation values.
        settle: import a metric that is named by path, and leave no direction open.

    Raises:
        MeasureError: it does not exist, has no direction or another one than the file says.
    """
    stated = None if form.direction is None else Objective.parse(form.direction)
    if parse_import_path(form.name):
        return _imported(form.name, stated, steers) if settle else Measure(form.name, stated, "run")
    name = MetricName.parse(form.name)
    _check_parts(name, steers)
    try:
        found = find_metric(name, feature_type)
    except UnknownMetricError as err:
        if (known := diagnostic(name)) is not None:
            return _of_a_run(name, known, stated, steers)
        if stated is not None and not _is_registered(name):
            return Measure(str(name), stated, "stated", reported=True)
        raise MeasureError(_unknown(name, err, steers)) from None
    except HpometricsError as err:
        raise MeasureError(one_line(err)) from None
    if settle and feature_type is None:
        _check_clear(found)
    return _known(found, stated, steers)


def outputs_of(measure: Measure) -> set[str]:
    """Name the output features that a measure can serve; none for what only its engine knows."""
    if measure.reported or measure.group or parse_import_path(measure.name):
        return set()
    return {entry.feature_type for entry in find_metric(MetricName.parse(measure.name)).entries}


def _check_clear(found: FoundMetric) -> None:
    """Refuse a metric that is another for each output feature, where none is known."""
    entries = [entry for entry in all_entries() if entry.name == found.name.metric]
    if len({entry.path for entry in entries}) > 1:
        outputs = [entry.feature_type for entry in entries]
        example = "category" if "category" in outputs else outputs[0]
        raise MeasureError(
            f"{found.name} is another metric for each output ({', '.join(outputs)}), and neither the file "
            f"nor the engine says which it is; say engine.output, as in output: {example}"
        )


def _imported(path: str, stated: Objective | None, steers: bool) -> Measure:
    try:
        return _known(import_metric(path), stated, steers)
    except MetricNameError as err:
        raise MeasureError(one_line(err)) from err


def _of_a_run(name: MetricName, known: Diagnostic, stated: Objective | None, steers: bool) -> Measure:
    """A diagnostic, which a run records whether it is tracked or not."""
    origin = "registry" if known.objective is not None else "stated"
    if not steers and known.objective is None and stated is None:
        return Measure(str(name), None, "run", reported=True)
    try:
        return Measure(str(name), direction_of(name, known, stated), origin, reported=True)
    except ObjectiveError as err:
        raise MeasureError(str(err)) from None


def _is_registered(name: MetricName) -> bool:
    """Say whether any output feature has the metric, so that it cannot be a name of the engine's own."""
    try:
        find_metric(name)
    except UnknownMetricError:
        return False
    except MetricNameError:
        return True
    return True


def _known(found: FoundMetric, stated: Objective | None, steers: bool) -> Measure:
    name, inputs = str(found.name), found.inputs.value
    try:
        objective = found.objective
    except ObjectiveError as err:
        if steers:
            raise MeasureError(f"{err}: engine.output") from None
        return Measure(name, None, "run")
    if objective is None:
        if steers and stated is None:
            raise MeasureError(
                f"{name} has no direction of its own; say {{metric: {name}, direction: minimize}}"
            )
        return Measure(name, stated, "stated", inputs)
    if stated not in (None, objective):
        raise MeasureError(f"direction {stated} contradicts the registry, which says to {objective} {name}")
    return Measure(name, objective, "registry", inputs)


def _check_parts(name: MetricName, steers: bool) -> None:
    if name.task or name.feature:
        raise MeasureError(
            f"a metric of one of several tasks or output features {NOT_YET}; write {name.metric}"
        )
    if steers and name.split not in (None, "validation") and diagnostic(name) is None:
        raise MeasureError(f"only validation values steer the search; {name} can be tracked")


def _unknown(name: MetricName, err: UnknownMetricError, steers: bool) -> str:
    own = f"; if the engine reports it, state {{metric: {name.metric}, direction: ...}}"
    return one_line(err) + (own if steers and not _is_registered(name) else "")
