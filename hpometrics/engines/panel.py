"""Panel: the metrics of an evaluation, the one that decides and those beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..direction import Objective
from ..exceptions import MetricNameError, ObjectiveError
from .metrics import Folds, TupleMetric, objective_of
from .result import Failure, MetricScores
from .score import Score


class Panel:
    """Measures the tuples of engine params by all metrics.

    Args:
        metric: what is optimised, a metric of tuples or the name of a registered one.
        other_metrics: what is measured beside it; groups of names too. The same metric twice is one.
        output: what the engine predicts, for those given by name.

    Raises:
        ObjectiveError: the metric does not say which way is better, or another does not say that it has none.
        MetricNameError: two different metrics are called the same, or a name comes without `output`.
        UnknownMetricError: no metric has this name.
    """

    def __init__(self, metric: Any, other_metrics: Iterable[Any] = (), output: Any = None) -> None:
        self.metric = _optimised(metric, output)
        self.objective = _direction(self.metric)
        found = {self.metric.header: self.metric}
        for other in (other for given in other_metrics for other in _others(given, output)):
            if found.setdefault(other.header, other) != other:
                raise MetricNameError(
                    f"two different metrics are called {other.header!r}; give one of them another title"
                )
        self.others = tuple(found.values())[1:]

    @property
    def all(self) -> tuple[TupleMetric, ...]:
        """Every metric, the primary one first."""
        return self.metric, *self.others

    def measure(self, folds: Folds) -> MetricScores:
        """Measure the tuples of all folds; metrics of the registry in one pass.

        Where another metric than the primary one fails, its score is nan with the error as the reason; an
        error of the primary metric is raised.
        """
        groups: dict[Any, list[TupleMetric]] = {}
        for metric in self.all:
            groups.setdefault(id(metric) if metric.reader is None else metric.reader, []).append(metric)
        scores: dict[int, Score] = {}
        for members in groups.values():
            scores.update(zip(map(id, members), self._measured(members, folds), strict=True))
        primary, *others = (scores[id(metric)] for metric in self.all)
        return MetricScores(primary, tuple(others))

    def failed(self, failure: Failure) -> MetricScores:
        """The scores of engine params that gave nothing to measure."""
        nothing = Score.undefined(str(failure))
        return MetricScores(nothing, (nothing,) * len(self.others), failure)

    def _measured(self, members: Sequence[TupleMetric], folds: Folds) -> list[Score]:
        reader = members[0].reader
        try:
            return [members[0].measure(folds)] if reader is None else reader.measure(members, folds)
        except Exception as err:
            if len(members) > 1:  # one of them is at fault; the others are measured without it
                return [score for member in members for score in self._measured([member], folds)]
            if members[0] is self.metric:
                raise
            return [Score.undefined(str(Failure.of(err)))]


def _optimised(metric: Any, output: Any) -> TupleMetric:
    made = _made(metric)
    if isinstance(made, TupleMetric):
        return made
    _check_output(made, output)
    from .registered_metrics import registered  # it loads torch, which metrics of tuples do without

    return registered(made, output=output)


def _others(metric: Any, output: Any) -> list[TupleMetric]:
    made = _made(metric)
    if isinstance(made, TupleMetric):
        objective_of(made)
        return [made]
    _check_output(made, output)
    from .registered_metrics import others_registered

    return list(others_registered(made, output))


def _made(metric: Any) -> Any:
    return metric() if isinstance(metric, type) and issubclass(metric, TupleMetric) else metric


def _direction(metric: TupleMetric) -> Objective:
    objective = objective_of(metric)
    if objective is None:
        raise ObjectiveError(
            f"{metric.header} states objective = None, so nothing can be best by it; make it one of the "
            "other_metrics, or state MAXIMIZE or MINIMIZE"
        )
    return objective


def _check_output(metric: Any, output: Any) -> None:
    if output is None:
        raise MetricNameError(
            f"{metric!r} is measured by the registry, which must know what the engine predicts: give "
            "output=, as in MetricEvaluator('f1(average=macro)', output=Category(3))"
        )
