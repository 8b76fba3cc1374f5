"""StagedEngine: an engine of stages, or an evaluation of one, as the engine of a sweep over its params."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from .._imports import Kind, import_target
from .._redaction import excerpt
from ..config.fields import Metric as MetricForm
from ..config.metric_section import Measure
from ..config.plan import Plan
from ..direction import Objective
from ..engines.engine import Engine
from ..engines.evaluation import Evaluation
from ..engines.evaluator import MetricEvaluator
from ..engines.metrics import TupleMetric, objective_of
from ..engines.records import Origins
from ..engines.registered_metrics import RegisteredMetric, registered
from ..engines.tunable import Varied
from ..exceptions import ConfigError, RecordError
from ..metrics.features import OutputFeature, parse_feature
from ..metrics.metric import Metric
from ..metrics.registry.names import parse_import_path
from ..run.spec import RunSpec
from ..selection.selection import Best
from ..space.dimensions import is_whole

Folders = tuple[str, ...]
Asked = tuple[str, str | None]
"""A metric as a file names it, and the direction that the file states."""


@dataclass(frozen=True)
class Stated:
    """What a sweep file says of an engine of stages.

    `seed` is of what the stages draw, `file` the sweep file, `given` how it was named.
    """

    optimize: Asked | None = None
    track: tuple[Asked, ...] = ()
    output: str | None = None
    seed: int = 0
    file: str = ""
    given: str = ""

    @classmethod
    def of(cls, plan: Plan) -> Stated:
        """Read it.

        Raises:
            ConfigError: it says what such an engine has not.
        """
        engine, metrics = plan.config.engine, plan.config.metrics
        if isinstance(engine.output, Mapping):
            raise ConfigError("an engine of stages has one output, without a name")
        if len(metrics.optimize) > 1:
            raise ConfigError(
                "an evaluation of engine params has one metric that is optimized, and here are "
                f"{len(metrics.optimize)}; track the others"
            )
        if metrics.track and not metrics.optimize:
            raise ConfigError("metrics.track stands beside metrics.optimize, which is missing")
        first = _asked(metrics.optimize[0]) if metrics.optimize else None
        track = [*map(_asked, metrics.track), *((name, None) for name in _bounded(plan) if first)]
        file, given = str(plan.file.resolve()), str(plan.file)
        return cls(first, tuple(track), engine.output, plan.engine_seed, file, given)


class StagedEngine:
    """A `train(params, run)` that evaluates the engine params of its paths; unpickled, it is imported anew.

    Args:
        target: `module:Name` of an engine, an evaluation, or what `Evaluation.vary` gave.
        folders: put in front of the import path, the first one first.
        stated: what the file says.

    Raises:
        ConfigError: it cannot be imported, or nobody says what is optimized.
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
        """The metrics of the evaluation, the one that is optimized first."""
        return tuple(
            Measure(
                str(name),
                objective_of(metric),
                "registry" if isinstance(metric, RegisteredMetric) else "engine",
                reported=True,
            )
            for name, metric in self.train.measured
        )

    def check_bounds(self, plan: Plan) -> None:
        """Refuse a constraint on what is not measured.

        Raises:
            ConfigError: naming what is.
        """
        known = [measure.name for measure in self.measures]
        for bound in plan.bounds:
            if bound.measure.name not in known:
                raise ConfigError(
                    f"{bound.constraint}: the evaluation measures no {bound.measure.name}; it measures "
                    f"{', '.join(known)}"
                )

    @property
    def stages(self) -> str:
        """Say what the trials of this process have shared; nothing where there were none."""
        asked = sum(count.asked for count in self.train.cache.counts.values())
        return f"Stages: {self.train.cache}" if asked else ""

    @property
    def origins(self) -> Origins:
        """Where the engine and the evaluation come from, and what the file says of them."""
        stated = {"target": self.target, **asdict(self._stated)}
        if _is_kind(self._found, Engine):
            return Origins(engine=self.target, stated=stated)
        evaluation = _is_kind(self._found, Evaluation) and not self._stated.optimize
        return Origins(evaluation=self.target if evaluation else "", stated=stated)

    def write_best(self, best: Best, directory: Path) -> Path:
        """Write `best.json`, by which it can be replayed."""
        return self.train.write_best(best, directory, self.origins)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.target, self._folders, self._stated)


@lru_cache(maxsize=1)
def _arrived(target: str, folders: Folders, stated: Stated) -> StagedEngine:
    """Take what a process is sent again for each of its trials for the one it has, with its cache."""
    return StagedEngine(target, folders, stated)


def restated(told: Mapping[str, Any]) -> tuple[str, Evaluation]:
    """Make the evaluation of a sweep file again from what `StagedEngine.origins` says of it; and its name.

    Raises:
        RecordError: it says something else.
        ConfigError: the engine or a metric cannot be imported.
    """
    try:
        target, stated = _read_stated(told)
    except (KeyError, TypeError, ValueError) as err:
        raise RecordError(
            f"evaluation.stated is not what a sweep file says ({err!r}): {excerpt(repr(told), 80)}"
        ) from err
    here = Path.cwd()
    copied = here / stated.given  # a project that was copied or moved is replayed with its own code
    file = copied if copied.is_file() else Path(stated.file)
    folders = (str(file.parent), str(here))
    try:
        return f"{target} as {file} states", StagedEngine(target, folders, stated).train.evaluation
    except ConfigError as err:
        raise ConfigError(f"{err} (looked for in {' and '.join(dict.fromkeys(folders))})") from err


def _read_stated(told: Mapping[str, Any]) -> tuple[str, Stated]:
    """Read the target and what `asdict` made of a `Stated`; whatever else raises one of three errors."""
    texts = {name: told[name] for name in ("target", "file", "given")}
    output, seed = told["output"], told["seed"]
    if not all(isinstance(text, str) for text in texts.values()) or not isinstance(output, str | None):
        raise TypeError("a text is none")
    if not is_whole(seed):
        raise TypeError("the seed is none")
    optimize = None if told["optimize"] is None else _read_asked(told["optimize"])
    track = tuple(map(_read_asked, told["track"]))
    return texts["target"], Stated(optimize, track, output, seed, texts["file"], texts["given"])


def _read_asked(told: Any) -> Asked:
    name, direction = told
    if isinstance(told, str) or not isinstance(name, str) or not isinstance(direction, str | None):
        raise TypeError("a metric is none")
    return name, direction


def is_staged(found: Any) -> bool:
    """Say whether an object is an engine of stages or an evaluation, or the class of one."""
    return _is_kind(found, Engine, Evaluation) or isinstance(found, Varied)


def _is_kind(found: Any, *kinds: type) -> bool:
    return issubclass(found, kinds) if isinstance(found, type) else isinstance(found, kinds)


STAGED = Kind("engine of stages", is_staged)
METRIC = Kind("metric", lambda found: _is_kind(found, TupleMetric, Metric))


def _varied(found: Any, stated: Stated, folders: Folders) -> Varied:
    if isinstance(found, Varied):
        if stated.optimize is not None or stated.output is not None:
            raise ConfigError("states its own metrics and output; leave those of the file out")
        return found
    made = found() if isinstance(found, type) else found
    if stated.optimize is not None:
        return _judged(made, stated, folders).vary()
    if not isinstance(made, Evaluation):
        raise ConfigError(
            "is an engine without an evaluation, so the file says what is optimized, as in "
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
    cache = own is None or own.cache
    evaluator = MetricEvaluator(metric, others, output=output, cache=cache, seed=stated.seed)
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


def _bounded(plan: Plan) -> list[str]:
    """The metrics of the registry that a constraint is about."""
    return [bound.measure.name for bound in plan.bounds if not bound.measure.reported]


def _asked(form: MetricForm) -> Asked:
    if form.combine is not None:
        raise ConfigError(f"{form.name}: an evaluation measures no combination")
    return form.name, form.direction
