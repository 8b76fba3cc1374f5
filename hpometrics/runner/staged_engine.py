"""An engine of stages, or an evaluation of one, as the engine of a sweep over its engine params."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from .._imports import Kind, import_modules, import_target
from .._redaction import excerpt
from ..config.fields import Metric as MetricForm
from ..config.metric_section import Measure
from ..config.plan import Plan
from ..direction import Direction
from ..engines.engine import Engine
from ..engines.evaluation import Evaluation
from ..engines.evaluator import MetricEvaluator
from ..engines.records import Origins
from ..engines.registered_metrics import RegisteredMetric, registered
from ..engines.tunable import TunableEvaluation
from ..engines.tuple_metrics import TupleMetric, direction_of
from ..exceptions import ConfigError, RecordError
from ..metrics.features import OutputFeature, parse_feature
from ..metrics.metric import Metric
from ..metrics.registry.names import parse_import_path
from ..metrics.registry.scope import direction_problem
from ..run.spec import RunSpec
from ..selection.selection import Best
from ..space.values import is_whole

Folders = tuple[str, ...]
MetricRequest = tuple[str, str | None]
"""A metric as a file names it, and the direction that the file states."""


@dataclass(frozen=True)
class FileSettings:
    """The part of a sweep file that concerns an engine of stages.

    `seed` is the seed of the stages, `file` the sweep file, and `given` its path as the user wrote it.
    `plugins` are the modules of metrics that are imported before the engine.
    """

    optimize: MetricRequest | None = None
    track: tuple[MetricRequest, ...] = ()
    output: str | None = None
    seed: int = 0
    file: str = ""
    given: str = ""
    plugins: tuple[str, ...] = ()

    @classmethod
    def of(cls, plan: Plan) -> FileSettings:
        """Create it from a plan.

        Raises:
            ConfigError: the file has a setting that an engine of stages does not support.
        """
        engine, metrics = plan.config.engine, plan.config.metrics
        if isinstance(engine.output, Mapping):
            raise ConfigError("an engine of stages has a single output without a name")
        if len(metrics.optimize) > 1:
            raise ConfigError(
                "an evaluation of engine params optimizes one metric, got "
                f"{len(metrics.optimize)}; track the others"
            )
        if metrics.track and not metrics.optimize:
            raise ConfigError("metrics.track needs metrics.optimize, which is missing")
        first = _request_of(metrics.optimize[0]) if metrics.optimize else None
        bounded = [bound.measure for bound in plan.bounds if first and not bound.measure.reported]
        track = [*map(_request_of, metrics.track), *((measure.name, None) for measure in bounded)]
        file, path = str(plan.file.resolve()), str(plan.file)
        plugins = tuple(plan.config.plugins)
        return cls(first, tuple(track), engine.output, plan.engine_seed, file, path, plugins)


class StagedEngine:
    """A `train(params, run)` that evaluates the engine params of its paths; unpickling imports it again.

    Args:
        target: `module:Name` of an engine, an evaluation, or the result of `Evaluation.vary`.
        folders: put in front of the import path, the first one first.
        settings: the settings of the file.

    Raises:
        ConfigError: it cannot be imported, or neither the file nor the evaluation names a metric to optimize.
        HpometricsError: a metric cannot be measured.
    """

    def __init__(self, target: str, folders: Folders, settings: FileSettings) -> None:
        self.target, self._folders, self._settings = target, folders, settings
        import_modules(settings.plugins, folders)
        self._imported = import_target(target, STAGED, folders)
        self.train = _make_varied(self._imported, settings, folders)

    @classmethod
    def of(cls, target: str, folders: Folders, plan: Plan) -> StagedEngine:
        """Create it with the settings of a plan; the errors are those of the class and `FileSettings.of`."""
        return cls(target, folders, FileSettings.of(plan))

    def __call__(self, params: dict[str, Any], run: Any) -> None:
        """Evaluate the engine params of one trial."""
        self.train(params, run)

    def check_search(self, spec: RunSpec, params: Mapping[str, Sequence[Any]]) -> None:
        """Check for errors that would fail every trial; see `TunableEvaluation.check_search`."""
        self.train.check_search(spec, params)

    @property
    def output(self) -> OutputFeature | None:
        """The output of the engine, if the file or the evaluation states it."""
        output = self._settings.output or self.train.evaluation.output
        return None if output is None else parse_feature(output)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The metrics of the evaluation, the optimized one first."""
        return tuple(
            Measure(
                str(name),
                direction_of(metric),
                "registry" if isinstance(metric, RegisteredMetric) else "engine",
                reported=True,
            )
            for name, metric in self.train.measured
        )

    def check_bounds(self, plan: Plan) -> None:
        """Check that the evaluation measures the value of every constraint.

        Raises:
            ConfigError: it does not; the message names the metrics that it measures.
        """
        names = [measure.name for measure in self.measures]
        for bound in plan.bounds:
            if bound.measure.name not in names:
                raise ConfigError(
                    f"{bound.constraint}: the evaluation does not measure {bound.measure.name}; it measures "
                    f"{', '.join(names)}"
                )

    @property
    def stages(self) -> str:
        """A line on the stages that the trials of this process have shared; empty if none has run."""
        requests = sum(count.requested for count in self.train.cache.counts.values())
        return f"Stages: {self.train.cache}" if requests else ""

    @property
    def origins(self) -> Origins:
        """The origins of the engine and the evaluation, with the settings of the file."""
        record = {"target": self.target, **asdict(self._settings)}
        if _is_kind(self._imported, Engine):
            return Origins(engine=self.target, stated=record)
        evaluation = _is_kind(self._imported, Evaluation) and not self._settings.optimize
        return Origins(evaluation=self.target if evaluation else "", stated=record)

    def write_best(self, best: Best, directory: Path) -> Path:
        """Write `best.json`, from which the evaluation can be replayed."""
        return self.train.write_best(best, directory, self.origins)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.target, self._folders, self._settings)


@lru_cache(maxsize=1)
def _unpickle(target: str, folders: Folders, settings: FileSettings) -> StagedEngine:
    """Return the engine that this process already has, with its cache, for each of its trials."""
    return StagedEngine(target, folders, settings)


def rebuild_evaluation(record: Mapping[str, Any]) -> tuple[str, Evaluation]:
    """Return the name and the evaluation of a sweep file, made again from `StagedEngine.origins`.

    Raises:
        RecordError: the record is not well formed.
        ConfigError: the engine or a metric cannot be imported.
    """
    try:
        target, settings = _parse_settings(record)
    except (KeyError, TypeError, ValueError) as err:
        raise RecordError(
            f"evaluation.stated is not a sweep file record ({err!r}): {excerpt(repr(record), 80)}"
        ) from err
    current = Path.cwd()
    copied = current / settings.given  # a project that was copied or moved is replayed with its own code
    file = copied if copied.is_file() else Path(settings.file)
    folders = (str(file.parent), str(current))
    try:
        return f"{target} as {file} states", StagedEngine(target, folders, settings).train.evaluation
    except ConfigError as err:
        raise ConfigError(f"{err} (looked for in {' and '.join(dict.fromkeys(folders))})") from err


def _parse_settings(record: Mapping[str, Any]) -> tuple[str, FileSettings]:
    """Parse the target and the `asdict` of a `FileSettings`; anything else raises one of three errors."""
    texts = {name: record[name] for name in ("target", "file", "given")}
    output, seed = record["output"], record["seed"]
    if not all(isinstance(text, str) for text in texts.values()) or not isinstance(output, str | None):
        raise TypeError("a text value is not text")
    if not is_whole(seed):
        raise TypeError("the seed is not a whole number")
    optimize = None if record["optimize"] is None else _parse_request(record["optimize"])
    track, plugins = tuple(map(_parse_request, record["track"])), tuple(record.get("plugins", ()))
    if not all(isinstance(plugin, str) for plugin in plugins):
        raise TypeError("a plug-in is not a module name")
    settings = FileSettings(optimize, track, output, seed, texts["file"], texts["given"], plugins)
    return texts["target"], settings


def _parse_request(item: Any) -> MetricRequest:
    name, direction = item
    if isinstance(item, str) or not isinstance(name, str) or not isinstance(direction, str | None):
        raise TypeError("a metric needs a name and a direction")
    return name, direction


def is_staged(target: Any) -> bool:
    """Return whether an object is an engine of stages or an evaluation, or the class of one."""
    return _is_kind(target, Engine, Evaluation) or isinstance(target, TunableEvaluation)


def _is_kind(target: Any, *kinds: type) -> bool:
    return issubclass(target, kinds) if isinstance(target, type) else isinstance(target, kinds)


STAGED = Kind("engine of stages", is_staged)
METRIC = Kind("metric", lambda target: _is_kind(target, TupleMetric, Metric))


def _make_varied(target: Any, settings: FileSettings, folders: Folders) -> TunableEvaluation:
    if isinstance(target, TunableEvaluation):
        if settings.optimize is not None or settings.output is not None:
            raise ConfigError("states its own metrics and output; leave them out of the sweep file")
        return target
    engine = target() if isinstance(target, type) else target
    if settings.optimize is not None:
        return _evaluate_by(engine, settings, folders).vary()
    if not isinstance(engine, Evaluation):
        raise ConfigError(
            "is an engine without an evaluation; name the metric in the sweep file, as in "
            "metrics: {optimize: accuracy}"
        )
    seeded = copy(engine)
    seeded.evaluator = engine.evaluator.changed(seed=settings.seed)
    return seeded.vary()


def _evaluate_by(source: Engine | Evaluation, settings: FileSettings, folders: Folders) -> Evaluation:
    """Return an evaluation of the engine by the metrics of the file."""
    engine, own = (source.engine, source.evaluator) if isinstance(source, Evaluation) else (source, None)
    output = settings.output or getattr(source, "output", None)
    requests = [request for request in (settings.optimize, *settings.track) if request]
    metric, *others = (_make_metric(request, output, folders) for request in requests)
    evaluator = MetricEvaluator(
        metric, others, output=output, cache=own is None or own.cache, seed=settings.seed
    )
    return Evaluation(engine, evaluator, output=output)


def _make_metric(request: MetricRequest, output: Any, folders: Folders) -> Any:
    """Return a metric of tuples that a path names, or one of the registry."""
    name, direction = request
    target = import_target(name, METRIC, folders) if parse_import_path(name) else name
    metric = target() if isinstance(target, type) and issubclass(target, TupleMetric) else target
    if isinstance(metric, TupleMetric):
        expected = None if direction is None else Direction.parse(direction)
        if problem := direction_problem(name, direction_of(metric), expected, "direction"):
            raise ConfigError(problem)
        return metric
    if output is None or direction is None:
        return metric
    return registered(metric, output=output, direction=direction)


def _request_of(form: MetricForm) -> MetricRequest:
    if form.combine is not None:
        raise ConfigError(f"{form.name}: an evaluation does not measure combinations")
    return form.name, form.direction
