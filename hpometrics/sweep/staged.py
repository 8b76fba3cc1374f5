"""StagedEngine: an engine of stages, or an evaluation of one, as the engine of a sweep over its params."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..evaluation.engine import Engine
from ..evaluation.evaluation import Evaluation
from ..evaluation.evaluator import MetricEvaluator
from ..evaluation.registered_metric import RegisteredMetric, registered
from ..evaluation.tuple_metric import TupleMetric, objective_of
from ..evaluation.varied import Varied
from ..exceptions import ConfigError
from ..metrics.features import OutputFeature, parse_feature
from ..metrics.metric import Metric
from ..metrics.names import parse_import_path
from ..objective import Objective
from ..run.spec import RunSpec
from ..search.selection import Best
from ..target import Kind, import_target
from .forms import Metric as MetricForm
from .measures import Measure
from .plan import Plan

Folders = tuple[str, ...]
Asked = tuple[str, str | None]
"""A metric as a file names it, and the direction that the file states."""


@dataclass(frozen=True)
class Stated:
    """What a sweep file says of an engine of stages."""

    optimize: Asked | None = None
    track: tuple[Asked, ...] = ()
    output: str | None = None
    seed: int | None = None

    @classmethod
    def of(cls, plan: Plan) -> Stated:
        """Read it.

        Raises:
            ConfigError: it says what such an engine has not.
        """
        engine, metrics = plan.config.engine, plan.config.metrics
        if isinstance(engine.output, Mapping):
            raise ConfigError("an engine of stages has one output, without a name")
        if metrics.track and not metrics.optimize:
            raise ConfigError("metrics.track stands beside metrics.optimize, which is missing")
        first = _asked(metrics.optimize[0]) if metrics.optimize else None
        return cls(first, tuple(map(_asked, metrics.track)), engine.output, engine.seed)


class StagedEngine:
    """A `train(params, run)` that evaluates the engine params of its paths; unpickled, it is imported anew.

    Args:
        target: `module:Name` of an engine, an evaluation, or what `Evaluation.vary` gave.
        folders: put in front of the import path, the first one first.
        stated: what the file says.

    Raises:
        ConfigError: it cannot be imported, or nobody says what is optimised.
        HpometricsError: a metric cannot be measured.
    """

    def __init__(self, target: str, folders: Folders, stated: Stated) -> None:
        self.target, self._folders, self._stated = target, folders, stated
        self._found = import_target(target, STAGED, folders)
        self.train = _varied(self._found, stated, folders)

    def __call__(self, params: dict[str, Any], run: Any) -> None:
        """Evaluate the engine params of one trial."""
        self.train(params, run)

    def check_search(self, spec: RunSpec, params: Mapping[str, Sequence[Any]]) -> None:
        """Refuse what would fail in every trial; see `Varied.check_search`."""
        self.train.check_search(spec, params)

    @property
    def output(self) -> OutputFeature | None:
        """What the engine predicts, if anybody says so."""
        told = self._stated.output or self.train.evaluation.output
        return None if told is None else parse_feature(told)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The metrics of the evaluation, the one that is optimised first."""
        return tuple(
            Measure(
                str(name),
                objective_of(metric),
                "registry" if isinstance(metric, RegisteredMetric) else "engine",
                reported=True,
            )
            for name, metric in self.train.measured
        )

    @property
    def stages(self) -> str:
        """Say what the trials of this process have shared; nothing where there were none."""
        asked = sum(count.asked for count in self.train.cache.counts.values())
        return f"Stages: {self.train.cache}" if asked else ""

    @property
    def origins(self) -> dict[str, str]:
        """Where the engine and the evaluation come from, as far as the file names them."""
        if isinstance(self._found, Varied):
            return {}
        if not _is_kind(self._found, Evaluation):
            return {"engine_factory": self.target}
        return {} if self._stated.optimize else {"evaluation_class": self.target}

    def write_best(self, best: Best, directory: Path) -> Path:
        """Write `best.json`, which says where the engine comes from."""
        return self.train.write_best(best, directory, **self.origins)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.target, self._folders, self._stated)


@lru_cache(maxsize=1)
def _arrived(target: str, folders: Folders, stated: Stated) -> StagedEngine:
    """Take what a process is sent again for each of its trials for the one it has, with its cache."""
    return StagedEngine(target, folders, stated)


def is_staged(found: Any) -> bool:
    """Say whether an object is an engine of stages or an evaluation, or the class of one."""
    return _is_kind(found, Engine, Evaluation) or isinstance(found, Varied)


def _is_kind(found: Any, *kinds: type) -> bool:
    return issubclass(found, kinds) if isinstance(found, type) else isinstance(found, kinds)


STAGED = Kind("engine of stages", is_staged)
METRIC = Kind("metric", lambda found: _is_kind(found, TupleMetric, Metric))


def _varied(found: Any, stated: Stated, folders: Folders) -> Varied:
    if isinstance(found, Varied):
        if stated != Stated():
            raise ConfigError("states its own metrics, output and seed; leave those of the file out")
        return found
    made = found() if isinstance(found, type) else found
    if stated.optimize is not None:
        return _judged(made, stated, folders).vary()
    if not isinstance(made, Evaluation):
        raise ConfigError(
            "is an engine without an evaluation, so the file says what is optimised, as in "
            "metrics: {optimize: accuracy}"
        )
    seeded = copy(made)
    seeded.evaluator = made.evaluator.changed(seed=stated.seed)
    return seeded.vary()


def _judged(made: Engine | Evaluation, stated: Stated, folders: Folders) -> Evaluation:
    """The engine judged by the metrics of the file."""
    engine, own = (made.engine, made.evaluator) if isinstance(made, Evaluation) else (made, None)
    output = stated.output or getattr(made, "output", None)
    metric, *others = (_metric(asked, output, folders) for asked in (stated.optimize, *stated.track) if asked)
    seed = stated.seed if stated.seed is not None else 0 if own is None else own.seed
    evaluator = MetricEvaluator(metric, others, output=output, cache=own is None or own.cache, seed=seed)
    return Evaluation(engine, evaluator, output=output)


def _metric(asked: Asked, output: Any, folders: Folders) -> Any:
    """A metric of tuples that a path names, or one of the registry."""
    name, direction = asked
    found = import_target(name, METRIC, folders) if parse_import_path(name) else name
    made = found() if isinstance(found, type) and issubclass(found, TupleMetric) else found
    if isinstance(made, TupleMetric):
        if direction is not None and objective_of(made) is not Objective.parse(direction):
            raise ConfigError(f"{name} is to {objective_of(made)}, but direction says {direction}")
        return made
    if output is None or direction is None:
        return made
    return registered(made, output=output, objective=direction)


def _asked(form: MetricForm) -> Asked:
    if form.combine is not None:
        raise ConfigError(f"{form.name}: an evaluation measures no combination")
    return form.name, form.direction
