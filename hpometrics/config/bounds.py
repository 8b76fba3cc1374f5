"""Bounds: the constraints of a sweep file, each with the measure whose value it bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..exceptions import UnknownMetricError
from ..metrics.registry.lookup import is_registered
from ..metrics.registry.names import MetricName
from ..metrics.registry.scope import VALIDATION, Types, group_of
from ..selection.constraints import Constraint
from .fields import Metric
from .metric_section import Measure, MeasureError, read_measures


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
