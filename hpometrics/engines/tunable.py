"""An evaluation as `train(params, run)`: every search can vary engine params by their paths."""

from __future__ import annotations

import math
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from ..direction import Direction
from ..exceptions import EngineParamsError, RunError
from ..metrics.registry.names import MetricName
from ..records.trial_record import numbers_of
from ..run.metric_spec import Reported
from ..run.run import Run
from ..run.spec import RunSpec, engine
from ..selection.selection import Best
from .cache import PrefixCache
from .engine import STAGES, Engine, check_named
from .engine_params import EngineParams, split_path, stages_named_in
from .evaluator import MetricEvaluator, location
from .records import NO_ORIGINS, Origins, Provenance, write_best
from .registered_metrics import value_names, values_of, with_folds
from .tuple_metrics import TupleMetric, direction_of, finite

_CLASSES = dict(zip(STAGES, ("data_sources", "preparators", "algorithms", "servings"), strict=True))


def check_search_params(
    params: Mapping[str, Sequence[Any]], base: EngineParams | None, engine: Engine
) -> None:
    """Refuse params that cannot become engine params.

    Args:
        params: each path with the values it can have; none for a range.
        base: the engine params to set the values in; None if the paths have all values. A stage with another
            name than in the base has params that the base does not have.
        engine: has the names of its stages, unless it is written as methods.

    Raises:
        EngineParamsError: a path leads nowhere; with a base the message has its paths.
        EngineError: the engine has no stage of a name.
    """
    for path in params:
        stage, parts = split_path(path)
        if not parts:
            _check_names(stage, params[stage], engine)
        elif base is None:
            _check_new(path, params, engine)
        elif parts[0] not in params.get(stage, ()) or parts[0] in _names_in(base, stage):
            base.check_values([path])


def _check_new(path: str, params: Mapping[str, Sequence[Any]], engine: Engine) -> None:
    """Refuse a path that is not `stage.param` or `stage.name.param` and leads into no value of another."""
    stage, parts = split_path(path)
    shorter = [".".join([stage, *parts[:count]]) for count in range(1, len(parts))]
    if any(way in params for way in shorter) or len(parts) == 1:
        return
    check_named(engine, _CLASSES[stage], parts[0])
    if len(parts) > 2:
        raise EngineParamsError(
            f"{path}: leads into {shorter[1]}, which is not set; set it to a dict, or write "
            f"{stage}.name.param"
        )


def _check_names(stage: str, names: Sequence[Any], engine: Engine) -> None:
    if not names:
        raise EngineParamsError(f"{stage}: to search the name of a stage, use a choice of names")
    for name in names:
        stages_named_in({stage: name})  # a text
        check_named(engine, _CLASSES[stage], name)


def _names_in(base: EngineParams, stage: str) -> list[str]:
    return [one.name for one in base.algorithms] if stage == "algorithms" else [getattr(base, stage).name]


class EngineWithMetrics(Protocol):
    """An engine and the evaluator of its metrics; an `Evaluation` is one."""

    engine: Engine
    evaluator: MetricEvaluator

    @property
    def origin(self) -> str:
        """Its name, `package.module:Name`; empty where no other process could import it."""


class TunableEvaluation:
    """Evaluates the engine params of a trial's params; `Evaluation.vary` returns one.

    It has facts of its own: the metric with its direction, and one epoch per trial. The record has the scores
    of all metrics, pooled over the folds, and for each the mean and the deviation over the folds, under the
    names of `value_names`. An undefined score is nan with its reason; a stage or metric that raises fails the
    trial.

    One cache of prefixes serves all trials of a process; each worker process has its own.

    Args:
        evaluation: the engine, and the metrics with their options.
        base: the engine params to set a trial's params in; None if these have all values, see
            `EngineParams.of_values`.
        keep: how many outputs of each stage the cache keeps.

    Raises:
        MetricNameError: see `value_names`.
        EngineParamsError: the base has a value without a structure, by which nothing can be shared.
    """

    def __init__(
        self, evaluation: EngineWithMetrics, base: EngineParams | None = None, *, keep: int = 4
    ) -> None:
        self.evaluation: Any = evaluation  # an Evaluation as a rule, whose module imports this one
        self.base = base
        evaluator = evaluation.evaluator
        self._panel = evaluator.panel
        self._names = value_names(self._panel.all)
        self._keep, self._id = keep, uuid.uuid4().hex
        if base is not None and evaluator.cache:
            _ = base.key  # raises for a value without a structure
        self.cache = PrefixCache(evaluation.engine, cache=evaluator.cache, keep=keep, seed=evaluator.seed)
        first, *others = [Reported(name, direction) for name, direction in self._recorded()]
        engine(metric=first, track=tuple(others), epochs=1)(self)

    def __call__(self, params: Mapping[str, Any], run: Run) -> None:
        """Evaluate the engine params of one trial."""
        for _ in run.epochs(1):
            scores = self._panel.measure(self.cache.folds(self.engine_params(params)))
            for name, score in zip(self._names, scores.all, strict=True):
                for called, value, reason in values_of(name, score):
                    if reason is None:
                        run.log(**{called: value})
                    else:
                        run.undefined(**{called: reason})

    @property
    def measured(self) -> tuple[tuple[MetricName, TupleMetric], ...]:
        """The metrics, each with the name of its value, the optimized one first."""
        return tuple(zip(self._names, self._panel.all, strict=True))

    def engine_params(self, params: Mapping[str, Any]) -> EngineParams:
        """Return the engine params of a trial's params, such as those of `objective.best(study)`.

        Raises:
            EngineParamsError: a path leads nowhere.
        """
        return EngineParams.of_values(params) if self.base is None else self.base.with_values(params)

    def write_best(self, best: Best, directory: Path | str, origins: Origins = NO_ORIGINS) -> Path:
        """Write the engine params of the best trial and what they scored as `best.json`; return its path.

        Args:
            best: what an objective's `best` returned.
            directory: the directory of the file.
            origins: the names of engine and evaluation.

        Raises:
            EngineParamsError: a value has no form in JSON.
        """
        origins = replace(
            origins,
            engine=origins.engine or location(type(self.evaluation.engine)),
            evaluation=origins.evaluation or self.evaluation.origin,
        )
        numbers = numbers_of(best.values)
        provenance = Provenance(
            origins.evaluation,
            best.direction.value,
            {metric.header: finite(numbers.get(str(name), math.nan)) for name, metric in self.measured},
            self.evaluation.evaluator.seed,
            stated=origins.stated,
        )
        params = self.engine_params(best.params)
        return write_best(Path(directory), params, origins, provenance, datetime.now(UTC))

    def _recorded(self) -> Iterator[tuple[str, Direction | None]]:
        """Yield every name that a trial's record may have, with its direction; a deviation has none."""
        for name, metric in self.measured:
            direction = direction_of(metric)
            yield from zip(with_folds(name), (direction, direction, None), strict=False)

    def check_search(self, spec: RunSpec, params: Mapping[str, Sequence[Any]]) -> None:
        """Refuse what would fail in every trial.

        Args:
            spec: the resolved facts of the search.
            params: each param that a trial may have, with the values it can take; none for a range.

        Raises:
            RunError: the search optimizes or measures another metric than the evaluation's.
            EngineParamsError: a path leads nowhere; the message has all paths.
            EngineError: the engine has no stage of a name.
        """
        if spec.name != str(self._names[0]):
            raise RunError(
                f"the evaluation optimizes {self._names[0]}, but metric= names {spec.name}; leave metric= "
                "out, or evaluate by another metric"
            )
        if spec.collections:
            measured = ", ".join(str(name) for name in self._names)
            raise RunError(
                f"the evaluation measures {measured}; leave output= and track= out, set constraints on its "
                "metrics only, or add metrics to it"
            )
        check_search_params(params, self.base, self.evaluation.engine)

    def __reduce__(self) -> tuple[Any, ...]:
        return _adopt, (self._id, self.evaluation, self.base, self._keep)


_LOCK = threading.Lock()
_CURRENT: dict[str, TunableEvaluation] = {}


def _adopt(
    key: str, evaluation: EngineWithMetrics, base: EngineParams | None, keep: int
) -> TunableEvaluation:
    """Return the object of this process for one that it unpickles, again for each of its trials."""
    with _LOCK:
        if key not in _CURRENT:
            _CURRENT.clear()  # a worker has one search at a time
            _CURRENT[key] = TunableEvaluation(evaluation, base, keep=keep)
        return _CURRENT[key]
