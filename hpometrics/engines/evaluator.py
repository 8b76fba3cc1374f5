"""MetricEvaluator: score every engine params of a list over all folds, and say which is the best."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from ..direction import Objective
from ..exceptions import EngineError, EngineParamsError, MetricNameError, NoFiniteValueError, ObjectiveError
from ..space.dimensions import is_whole
from .cache import PrefixCache
from .engine import Engine
from .engine_params import EngineParams, params_list
from .metrics import Folds, Score, TupleMetric, objective_of
from .records import (
    BEST_FILE,
    NO_ORIGINS,
    EvaluationInstance,
    Origins,
    Provenance,
    variant,
    write_json,
    write_results,
)
from .result import Failure, MetricEvaluatorResult, MetricScores, evaluated, scores_to_json


class Panel:
    """Measures the tuples of engine params by all metrics.

    Args:
        metric: what is optimized, a metric of tuples or the name of a registered one.
        other_metrics: what is measured beside it; groups of names too. The same metric twice is one.
        output: what the engine predicts, for those given by name.

    Raises:
        ObjectiveError: the metric does not say which way is better, or another does not say that it has none.
        MetricNameError: two different metrics are called the same, or a name comes without `output`.
        UnknownMetricError: no metric has this name.
    """

    def __init__(self, metric: Any, other_metrics: Iterable[Any] = (), output: Any = None) -> None:
        self.metric = _optimized(metric, output)
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


def _optimized(metric: Any, output: Any) -> TupleMetric:
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


Tell = Callable[[str], object]
Scored = list[tuple[EngineParams, MetricScores]]


def print_line(line: str) -> None:
    """Print a line; it is pickled by its name, as `print` is not once a library has replaced it."""
    print(line)


class MetricEvaluator:
    """Evaluates engine params by a metric, other metrics beside it.

    A score is pooled over the tuples of all folds. What raises an exception is recorded with it and the rest
    go on; the best is the earliest of equal scores, and one that is not finite never wins.

    Args:
        metric: a metric of tuples, or the name of any registered one, which needs `output`.
        other_metrics: metrics that are measured and compared by nobody; groups of names too.
        output: what the engine predicts, for metrics given by name; see `registered` for what differs.
        directory: where `best.json`, the results as text, JSON and HTML, and the record `instance.json` are
            written; None writes nothing.
        cache: whether stages that engine params share are carried out once.
        seed: of what the stages draw, see `PrefixCache`.
        workers: how many engine params are evaluated at the same time, in threads; lines and results keep the
            order of the list. Where stages draw from global random streams, these are then nobody's.
        tell: what every line is given to; default: it is printed.

    Raises:
        ObjectiveError, MetricNameError, UnknownMetricError: see `Panel`.
        EngineError: `workers` is no number of workers.

    >>> from hpometrics.evaluation import AverageMetric, Engine, Fold
    >>> class Constant(Engine):
    ...     def read_eval(self, params):
    ...         return [Fold(None, "fold 0", [("q", 1.0)]), Fold(None, "fold 1", [("q", 4.0)])]
    ...     def train(self, prepared, name, params):
    ...         return params["guess"]
    ...     def predict(self, model, queries):
    ...         return [model for _ in queries]
    >>> class SquaredError(AverageMetric):
    ...     objective = "minimize"
    ...     def calculate(self, query, predicted, actual):
    ...         return (predicted - actual) ** 2
    >>> guesses = [EngineParams(algorithms={"guess": guess}) for guess in (1.0, 2.0, 3.0)]
    >>> evaluator = MetricEvaluator(SquaredError(), tell=lambda line: None)
    >>> evaluator.evaluate(Constant(), guesses).one_liner()  # (1 + 4) / 2
    'Best Params Index: 1 Score: 2.5'
    """

    def __init__(
        self,
        metric: Any,
        other_metrics: Iterable[Any] = (),
        *,
        output: Any = None,
        directory: Path | str | None = None,
        cache: bool = True,
        seed: int | None = 0,
        workers: int = 1,
        tell: Tell = print_line,
    ) -> None:
        self.panel = Panel(metric, other_metrics, output)
        self.directory = None if directory is None else Path(directory)
        self.cache = cache
        self.seed = seed
        self.workers = _checked(workers)
        self.tell = tell

    def changed(
        self,
        *,
        directory: Path | str | None = None,
        cache: bool | None = None,
        seed: int | None = None,
        workers: int | None = None,
        tell: Tell | None = None,
    ) -> Self:
        """The same evaluator, carried out in another way; None leaves each setting as it is.

        Raises:
            EngineError: `workers` is no number of workers.
        """
        made = copy(self)
        made.directory = self.directory if directory is None else Path(directory)
        made.cache = self.cache if cache is None else cache
        made.seed = self.seed if seed is None else seed
        made.workers = self.workers if workers is None else _checked(workers)
        made.tell = self.tell if tell is None else tell
        return made

    def evaluate(
        self,
        engine: Engine | type[Engine],
        engine_params_list: Any,
        *,
        origins: Origins = NO_ORIGINS,
        batch: str = "",
    ) -> MetricEvaluatorResult:
        """Evaluate every engine params of a list, in its order.

        Args:
            engine: an engine, or its class.
            engine_params_list: what `params_list` reads.
            origins: for the records, where all this comes from.
            batch: the user's own words for the record.

        Raises:
            EngineError: it is no engine.
            NoFiniteValueError: no engine params has a finite score; the message has the reasons.
            EngineParamsError: the list is none, or cannot be written as JSON where there is a directory.
            KeyboardInterrupt: after what is done is recorded.
        """
        engine = engine_of(engine)
        origins = replace(origins, engine=origins.engine or location(type(engine)))
        judged = origins.evaluation or origins.engine
        instance = self._record(EvaluationInstance(judged, origins.engine_params, batch))
        self.tell(f"Starting evaluation instance ID: {instance.id}")
        scored: Scored = []
        try:
            candidates = self._candidates(engine_params_list)
            instance = self._record(instance.started())
            self._score_all(engine, candidates, scored)
            result = self._result(scored)
            self._write(result, origins, instance)
        except BaseException as err:
            partial = {"engineParamsScores": scores_to_json(scored)}
            told = f"{Failure.of(err)}; {len(scored)} engine params were evaluated"
            self._record(instance.failed(told, partial))
            raise
        self._record(instance.completed({"oneLiner": result.one_liner(), **result.to_json()}))
        self.tell(f"Updating evaluation instance with result: {result}")
        return result

    def _candidates(self, engine_params_list: Any) -> list[EngineParams]:
        """Read the list; what could not be written at the end is refused now."""
        candidates = params_list(engine_params_list)
        for index, params in enumerate(candidates if self.directory else ()):
            try:
                params.to_json()
            except EngineParamsError as err:
                raise EngineParamsError(
                    f"engine params {index} cannot be written to {BEST_FILE}: {err}"
                ) from err
        return candidates

    def _score_all(self, engine: Engine, candidates: Sequence[EngineParams], scored: Scored) -> None:
        stages = PrefixCache(engine, candidates, cache=self.cache, seed=self.seed)
        pool = ThreadPoolExecutor(self.workers)
        try:
            spread = map if self.workers == 1 else pool.map
            every = iter(spread(partial(self._scores, stages), candidates))
            for index, params in enumerate(candidates):
                self.tell(f"Iteration {index}")
                self.tell(f"EngineParams: {params}")
                scored.append((params, next(every)))
                self.tell(f"Result: {_told(scored[-1][1])}")
        finally:
            pool.shutdown(cancel_futures=True)
        self.tell(f"Stages: {stages}")

    def _scores(self, stages: PrefixCache, params: EngineParams) -> MetricScores:
        begun = time.perf_counter()
        try:
            scores = self.panel.measure(stages.folds(params))
        except Exception as err:
            scores = self.panel.failed(Failure.of(err))
        return replace(scores, seconds=time.perf_counter() - begun)

    def _result(self, scored: Scored) -> MetricEvaluatorResult:
        scores = [scores for _, scores in scored]
        try:
            best = self.panel.objective.best_index(one.score for one in scores)
        except NoFiniteValueError:
            raise NoFiniteValueError(_nothing_finite(self.panel, scores)) from None
        return MetricEvaluatorResult(
            best_score=scores[best].score,
            best_engine_params=scored[best][0],
            best_index=best,
            metric_header=self.panel.metric.header,
            other_metric_headers=tuple(metric.header for metric in self.panel.others),
            engine_params_scores=tuple(scored),
            objective=self.panel.objective,
            output_path=None if self.directory is None else BEST_FILE,
        )

    def _write(self, result: MetricEvaluatorResult, origins: Origins, instance: EvaluationInstance) -> None:
        if self.directory is None:
            return
        best = variant(result.best_engine_params, instance.evaluation_class, origins.engine, instance.start)
        provenance = Provenance.of(result, origins.evaluation, self.seed, origins.stated)
        write_json(self.directory / BEST_FILE, {**best, "evaluation": provenance.to_json()})
        write_results(self.directory, result)

    def _record(self, instance: EvaluationInstance) -> EvaluationInstance:
        if self.directory is not None:
            instance.write(self.directory)
        return instance


def location(found: Any) -> str:
    """Say where a class or a function is: `package.module:Name`."""
    return f"{found.__module__}:{found.__qualname__}"


def engine_of(found: Any) -> Engine:
    """Take an engine or its class.

    Raises:
        EngineError: it is something else.
    """
    made = found() if isinstance(found, type) and issubclass(found, Engine) else found
    if not isinstance(made, Engine):
        raise EngineError(f"an evaluation needs an Engine or its class, got {made!r}")
    return made


def _checked(workers: int) -> int:
    if not is_whole(workers) or workers < 1:
        raise EngineError(f"workers is how many engine params are evaluated at once, got {workers!r}")
    return workers


def _told(scores: MetricScores) -> str:
    if scores.failure is not None:
        return f"failed: {scores.failure}"
    return f"{scores} ({scores.primary.reason})" if scores.primary.reason else str(scores)


def _nothing_finite(panel: Panel, scores: Sequence[MetricScores]) -> str:
    reasons: dict[str, list[str]] = {}
    for index, one in enumerate(scores):
        reasons.setdefault(str(one.primary.reason), []).append(str(index))
    told = "; ".join(f"{reason} (engine params {', '.join(where)})" for reason, where in reasons.items())
    return (
        f"{panel.metric.header}: no engine params has a finite score to {panel.objective.value}, of "
        f"{evaluated(scores)}: {told}"
    )
