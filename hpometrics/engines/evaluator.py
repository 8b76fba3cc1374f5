"""Scoring a list of engine params over all folds by one metric or more, and picking the best."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from ..direction import Direction
from ..exceptions import DirectionError, EngineError, EngineParamsError, MetricNameError, NoFiniteValueError
from ..space.values import is_whole
from .cache import PrefixCache
from .engine import Engine
from .engine_params import EngineParams, params_list
from .records import BEST_FILE, NO_ORIGINS, EvaluationInstance, Origins, Provenance, write_best, write_results
from .result import Failure, MetricEvaluatorResult, MetricScores, evaluated, scores_to_json
from .tuple_metrics import Folds, Score, TupleMetric, direction_of, finite


class Panel:
    """Measures the tuples of engine params by all metrics.

    Args:
        metric: the optimized metric, a metric of tuples or the name of a registered one.
        other_metrics: metrics measured beside it; groups of names too. The same metric twice is one.
        output: what the engine predicts, for metrics passed by name.

    Raises:
        DirectionError: the metric has no direction, or another one defines neither a direction nor None.
        MetricNameError: two different metrics have one name, or a name comes without `output`.
        UnknownMetricError: no metric has this name.
    """

    def __init__(self, metric: Any, other_metrics: Iterable[Any] = (), output: Any = None) -> None:
        (self.metric,) = _tuple_metrics(metric, output, optimized=True)
        self.direction = _direction_of(self.metric)
        by_header = {self.metric.header: self.metric}
        for other in (
            one for group in other_metrics for one in _tuple_metrics(group, output, optimized=False)
        ):
            direction_of(other)  # raises where it states none
            if by_header.setdefault(other.header, other) != other:
                raise MetricNameError(
                    f"two different metrics are named {other.header!r}; give one of them another title"
                )
        self.others = tuple(by_header.values())[1:]

    @property
    def all(self) -> tuple[TupleMetric, ...]:
        """All metrics, the primary one first."""
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
        """Return the scores of engine params that failed."""
        nothing = Score.undefined(str(failure))
        return MetricScores(nothing, (nothing,) * len(self.others), failure)

    def _measured(self, members: Sequence[TupleMetric], folds: Folds) -> list[Score]:
        reader = members[0].reader
        try:
            return [members[0].measure(folds)] if reader is None else reader.measure(members, folds)
        except Exception as err:
            if len(members) > 1:  # one of them has failed; the others are measured without it
                return [score for member in members for score in self._measured([member], folds)]
            if members[0] is self.metric:
                raise
            return [Score.undefined(str(Failure.of(err)))]


def _tuple_metrics(metric: Any, output: Any, optimized: bool) -> Iterable[TupleMetric]:
    """Return the metric itself, or the metrics of tuples that a name of the registry means."""
    instance = metric() if isinstance(metric, type) and issubclass(metric, TupleMetric) else metric
    if isinstance(instance, TupleMetric):
        return [instance]
    if output is None:
        raise MetricNameError(
            f"{instance!r} comes from the registry, which must know what the engine predicts; set output=, "
            "as in MetricEvaluator('f1(average=macro)', output=Category(3))"
        )
    from .registered_metrics import others_registered, registered  # with torch, unlike metrics of tuples

    return [registered(instance, output=output)] if optimized else others_registered(instance, output)


def _direction_of(metric: TupleMetric) -> Direction:
    direction = direction_of(metric)
    if direction is None:
        raise DirectionError(
            f"{metric.header} states direction = None, so it cannot rank engine params; pass it in "
            "other_metrics, or state MAXIMIZE or MINIMIZE"
        )
    return direction


Tell = Callable[[str], object]
Scored = list[tuple[EngineParams, MetricScores]]


def print_line(line: str) -> None:
    """Print a line; unlike `print`, which a library may replace, this function can always be pickled."""
    print(line)


class MetricEvaluator:
    """Evaluates engine params by a metric, with other metrics beside it.

    A score is pooled over the tuples of all folds. Engine params that raise an exception are recorded with
    it, and the rest continue; the best is the earliest of equal scores, and a score that is not finite never
    wins.

    Args:
        metric: a metric of tuples, or the name of any registered one, which needs `output`.
        other_metrics: metrics that are measured and do not decide; groups of names too.
        output: what the engine predicts, for metrics passed by name; see `registered` for other settings.
        directory: the directory of `best.json`, of the results as text, JSON and HTML, and of the record
            `instance.json`; None writes nothing.
        cache: whether stages that engine params share are executed once.
        seed: seeds what the stages draw, see `PrefixCache`.
        workers: how many engine params are evaluated at the same time, in threads; lines and results keep the
            order of the list. Stages that draw from global random streams are then not reproducible.
        tell: a function called with every line; default: it prints the line.

    Raises:
        DirectionError, MetricNameError, UnknownMetricError: see `Panel`.
        EngineError: `workers` is not a number of workers.

    >>> from hpometrics.evaluation import AverageMetric, Engine, Fold
    >>> class Constant(Engine):
    ...     def read_eval(self, params):
    ...         return [Fold(None, "fold 0", [("q", 1.0)]), Fold(None, "fold 1", [("q", 4.0)])]
    ...     def train(self, prepared, name, params):
    ...         return params["guess"]
    ...     def predict(self, model, queries):
    ...         return [model for _ in queries]
    >>> class SquaredError(AverageMetric):
    ...     direction = "minimize"
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
        self.workers = _check_workers(workers)
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
        """Return the same evaluator with other settings; None leaves a setting as it is.

        Raises:
            EngineError: `workers` is not a number of workers.
        """
        changes = {
            "directory": None if directory is None else Path(directory),
            "cache": cache,
            "seed": seed,
            "workers": None if workers is None else _check_workers(workers),
            "tell": tell,
        }
        evaluator = copy(self)
        vars(evaluator).update({name: value for name, value in changes.items() if value is not None})
        return evaluator

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
            origins: the names of engine, evaluation and list for the records.
            batch: a text of the user for the record.

        Raises:
            EngineError: `engine` is something else.
            NoFiniteValueError: no engine params has a finite score; the message has the reasons.
            EngineParamsError: there is no list, or it cannot be written as JSON to the directory.
            KeyboardInterrupt: after the scores so far are recorded.
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
            reason = f"{Failure.of(err)}; {len(scored)} engine params were evaluated"
            self._record(instance.failed(reason, partial))
            raise
        self._record(instance.completed({"oneLiner": result.one_liner(), **result.to_json()}))
        self.tell(f"Updating evaluation instance with result: {result}")
        return result

    def _candidates(self, engine_params_list: Any) -> list[EngineParams]:
        """Read the list; refuse at once what could not be written at the end."""
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
                self.tell(f"Result: {_format_scores(scored[-1][1])}")
        finally:
            pool.shutdown(cancel_futures=True)
        self.tell(f"Stages: {stages}")

    def _scores(self, stages: PrefixCache, params: EngineParams) -> MetricScores:
        start = time.perf_counter()
        try:
            scores = self.panel.measure(stages.folds(params))
        except Exception as err:
            scores = self.panel.failed(Failure.of(err))
        return replace(scores, seconds=time.perf_counter() - start)

    def _result(self, scored: Scored) -> MetricEvaluatorResult:
        scores = [scores for _, scores in scored]
        try:
            best = self.panel.direction.best_index(one.score for one in scores)
        except NoFiniteValueError:
            raise NoFiniteValueError(_nothing_finite(self.panel, scores)) from None
        return MetricEvaluatorResult(
            best_score=scores[best].score,
            best_engine_params=scored[best][0],
            best_index=best,
            metric_header=self.panel.metric.header,
            other_metric_headers=tuple(metric.header for metric in self.panel.others),
            engine_params_scores=tuple(scored),
            direction=self.panel.direction,
            output_path=None if self.directory is None else BEST_FILE,
        )

    def _write(self, result: MetricEvaluatorResult, origins: Origins, instance: EvaluationInstance) -> None:
        if self.directory is None:
            return
        scores = zip(result.headers, result.best_scores.all, strict=True)
        provenance = Provenance(
            origins.evaluation,
            result.direction.value,
            {header: finite(score.value) for header, score in scores},
            self.seed,
            stated=origins.stated,
        )
        write_best(self.directory, result.best_engine_params, origins, provenance, instance.start)
        write_results(self.directory, result)

    def _record(self, instance: EvaluationInstance) -> EvaluationInstance:
        if self.directory is not None:
            instance.write(self.directory)
        return instance


def location(target: Any) -> str:
    """Return the name of a class or a function: `package.module:Name`."""
    return f"{target.__module__}:{target.__qualname__}"


def engine_of(source: Any) -> Engine:
    """Return an engine, from itself or from its class.

    Raises:
        EngineError: it is something else.
    """
    engine = source() if isinstance(source, type) and issubclass(source, Engine) else source
    if not isinstance(engine, Engine):
        raise EngineError(f"an evaluation needs an Engine or its class, got {engine!r}")
    return engine


def _check_workers(workers: int) -> int:
    if not is_whole(workers) or workers < 1:
        raise EngineError(f"workers must be the number of engine params to evaluate at once, got {workers!r}")
    return workers


def _format_scores(scores: MetricScores) -> str:
    if scores.failure is not None:
        return f"failed: {scores.failure}"
    return f"{scores} ({scores.primary.reason})" if scores.primary.reason else str(scores)


def _nothing_finite(panel: Panel, scores: Sequence[MetricScores]) -> str:
    reasons: dict[str, list[str]] = {}
    for index, one in enumerate(scores):
        reasons.setdefault(str(one.primary.reason), []).append(str(index))
    details = "; ".join(f"{reason} (engine params {', '.join(where)})" for reason, where in reasons.items())
    return (
        f"{panel.metric.header}: no engine params has a finite score to {panel.direction.value}, "
        f"out of {evaluated(scores)}: {details}"
    )
