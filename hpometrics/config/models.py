"""The pydantic models of the sweep file: eight small sections; unknown keys are errors.

The default of an optional section is made by `model_construct()`: defaults alone need no validation, so
pydantic builds no validator for the section beside the one for the file. The text below each field is its
description in the JSON Schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    create_model,
    model_serializer,
    model_validator,
)

from .._formatting import listed
from .._imports import load_path
from .._redaction import excerpt, redacted
from .._text import did_you_mean
from ..backends.registry import BACKENDS, DEFAULT
from ..exceptions import ConfigError
from ..records.remote_copy import url_problem
from ..selection.confirm_settings import LEAST_SEEDS, LEVELS, LUCK
from ..selection.rules import RULES, CostUnit
from ..space.values import is_whole
from .dimension_models import SpaceForm
from .engine_section import Engine
from .fields import (
    Directory,
    Duration,
    MetricForm,
    Module,
    Name,
    Params,
    Part,
    PluginForm,
    Strict,
    Target,
    nothing_by_name,
    nothing_listed,
    one_key,
    wrong,
)


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


class ExampleCounts(Strict):
    """The number of examples to keep, and the metric that ranks them."""

    worst: Annotated[int, Field(ge=0)] | None = None
    """Number of the worst examples; 20 unless given."""
    best: Annotated[int, Field(ge=0)] | None = None
    """Number of the best examples; 20 unless given."""
    metric: str | None = None
    """A measured metric that has a value per example; the optimized one unless given."""

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.worst == 0 and self.best == 0:
            raise wrong("0 worst and 0 best examples keep nothing; leave track_examples out")
        return self


def _parse_examples(value: Any) -> Any:
    if value is False or value is None:
        return None
    if value is True:
        return {}
    whole = isinstance(value, int) and value > 0
    if not whole and not isinstance(value, (dict, ExampleCounts)):
        raise wrong(
            "expected true, a number of examples, or a mapping such as {worst: 20, best: 20, metric: "
            f"log_loss}}, got {value!r}"
        )
    return {"worst": value, "best": value} if whole else value


_ExamplesShape = bool | Annotated[int, Field(ge=1)] | ExampleCounts
ExamplesForm = Annotated[
    ExampleCounts | None, BeforeValidator(_parse_examples, json_schema_input_type=_ExamplesShape)
]


def _check_pick(value: Any) -> Any:
    number = is_whole(value) and value >= 0
    if not number and value not in RULES:
        raise wrong(f"expected {', '.join(RULES)} or the number of a trial, got {value!r}")
    return value


_Rule = Literal["best", "one_se", "cheapest_within_se", "knee"]
_PickShape = _Rule | Annotated[int, Field(ge=0)]
PickForm = Annotated[_Rule | int, BeforeValidator(_check_pick, json_schema_input_type=_PickShape)]


class Metrics(Strict):
    """The metrics to optimize and to track."""

    optimize: Annotated[
        list[MetricForm],
        BeforeValidator(_as_list, json_schema_input_type=MetricForm | list[MetricForm]),
        Field(min_length=1),
    ] = Field(default_factory=nothing_listed)
    """The metric to optimize, in its own direction. An evaluation of engine params may name it instead. For a
    list of several metrics the sweep searches for the Pareto front."""
    constraints: Annotated[list[str], Field(max_length=100)] = Field(default_factory=nothing_listed)
    """Conditions such as `ece <= 0.05`."""
    track: Annotated[list[MetricForm], Field(max_length=1000)] = Field(default_factory=nothing_listed)
    """Metrics to measure beside the optimized one."""
    defaults: bool | None = None
    """Whether to record the default group of each output too; true unless given here or by the engine."""
    at: Literal["best", "last"] = "best"
    """The epoch whose value counts for a trial."""
    pick: PickForm = "best"
    """The trial to pick: `best`, or, of those within one standard error of the best, over `repeats`,
    `one_se`, the trial with the fewest epochs, or `cheapest_within_se`, the cheapest. With several objectives
    `knee`, or the number of a trial on the front; by default the front is listed, and `best.yaml` holds the
    knee."""
    track_examples: ExamplesForm = None
    """Keep the worst and best examples of each trial's picked epoch: true, a number, or a mapping."""


class WarmStart(Strict):
    """Earlier sweeps whose trials are prior knowledge; none of them counts as a trial of this one."""

    sweeps: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=100)]
    """Run directories, and studies in files, `study.db#name`, relative to the current directory. Each is read
    once, before the first trial."""
    enqueue: Annotated[int, Field(ge=0, le=10_000)] = 1
    """Number of the best trials of each whose params are tried first."""
    values: bool | None = None
    """Whether the sampler learns from their values; unless given, if the engine, its fixed params and its
    output are the same."""


def _parse_warm_start(value: Any) -> Any:
    return {"sweeps": _as_list(value)} if isinstance(value, (str, list)) else value


_WarmStartShape = str | list[str] | WarmStart
WarmStartForm = Annotated[
    WarmStart, BeforeValidator(_parse_warm_start, json_schema_input_type=_WarmStartShape)
]


class Search(Strict):
    """The search strategy."""

    sampler: PluginForm | None = None
    """A name, or a name with options; tpe unless given. `seed` draws the order of a grid that
    the budget may cut. Only tpe models a param with `when`, and grid lists it; others draw it at random.
    `module:Class` is a class of your own, `hub:PATH` a package of OptunaHub in a folder."""
    pruner: PluginForm | None = None
    """A name, `module:Class` or `hub:PATH`, or one of them with options; none unless given. Options count
    epochs on every backend: `{asha: {min_epochs: 3}}` compares trials after 3 epochs, then after 3 * eta;
    `{median: {warmup: 3}}` compares them from the fourth epoch on."""
    prune_by: Annotated[str, Field(min_length=1)] | None = None
    """By what the pruner judges a trial: an optimized or tracked metric, in its own direction, or
    `dominance`: by all objectives, median or percentile. Unless given, by the optimized metric; with
    several, no trial is pruned."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Seed of the sampler and, unless `engine.seed` is given, of the trials."""
    start: list[Params] = Field(default_factory=nothing_listed)
    """Points to try first; params that a point does not have are sampled."""
    warm_start: Annotated[WarmStartForm | None, Field(alias="from")] = None
    """Earlier sweeps to learn from: run directories, and studies as in `study.db#name`."""


class OneBackend(Strict):
    """The backend that runs the trials: one of its keys."""

    @model_validator(mode="before")
    @classmethod
    def _one_key(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if len(value) == 1 and not value.keys() & BACKENDS.keys():
            [name] = value
            hint = did_you_mean(name, BACKENDS) or f"; choose {listed(BACKENDS, 'or')}"
            raise wrong(f"{excerpt(name, 60)!r} is not a backend{hint}")
        name = one_key(value, tuple(BACKENDS), "a backend")
        return {**value, name: _with_defaults(name)} if value[name] is None else value

    @property
    def name(self) -> str:
        """The key of the backend."""
        return next(name for name in BACKENDS if getattr(self, name) is not None)

    @property
    def section(self) -> Any:
        """The settings of the backend, or its list of params."""
        return getattr(self, self.name)

    @property
    def points(self) -> list[dict[str, Any]] | None:
        """The list of params to try; None if params are sampled."""
        points: list[dict[str, Any]] | None = self.section if BACKENDS[self.name].has_points else None
        return points

    @property
    def storage(self) -> str:
        """The storage of the study; unless the section says it, a file in the run directory."""
        return str(self.section.storage) if BACKENDS[self.name].has_storage else "sqlite"

    @model_serializer
    def _dump(self) -> dict[str, Any]:
        section = self.section
        is_list = self.points is not None
        return {self.name: section if is_list else section.model_dump(by_alias=True, exclude_none=True)}


def _with_defaults(name: str) -> dict[str, Any]:
    """Return the section of a backend without settings."""
    if name in BACKENDS and BACKENDS[name].has_points:
        raise wrong(f"the {name} backend needs its list: {{{name}: [{{lr: 0.1}}, {{lr: 0.01}}]}}")
    return {}


def _parse_backend(value: Any) -> Any:
    return {value: _with_defaults(value)} if isinstance(value, str) else value


_SECTIONS: dict[str, Any] = {name: load_path(entry.section) for name, entry in BACKENDS.items()}
_BY_NAME = [name for name, entry in BACKENDS.items() if not entry.has_points]

if TYPE_CHECKING:
    Backend = OneBackend
else:
    Backend = create_model(
        "Backend",
        __base__=OneBackend,
        __doc__=OneBackend.__doc__,
        **{name: (section | None, None) for name, section in _SECTIONS.items()},
    )

_Name = Annotated[str, Field(json_schema_extra={"enum": list(_BY_NAME)})]
BackendForm = Annotated[Backend, BeforeValidator(_parse_backend, json_schema_input_type=_Name | Backend)]


def default_backend() -> Backend:
    """Return the backend of a file that names none."""
    return Backend.model_construct(**{DEFAULT: _SECTIONS[DEFAULT].model_construct()})


def backend_texts() -> tuple[str, dict[str, str]]:
    """Return the description of the section, and that of each of its keys."""
    names = ", ".join(f"`{name}`" for name in _BY_NAME)
    text = f"The backend that runs the trials: {names}, or a mapping with one key."
    return text, {name: entry.summary for name, entry in BACKENDS.items()}


def section_models() -> dict[str, type[BaseModel]]:
    """Return the model of each mapping in the section, by its place in the file: `backend.ray.resources`."""
    models: dict[str, type[BaseModel]] = {}
    for name in _BY_NAME:
        models |= _nested(f"backend.{name}", _SECTIONS[name])
    return models


def _nested(place: str, model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    models = {place: model}
    for key, field in model.model_fields.items():
        for kind in get_args(field.annotation) or (field.annotation,):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                models |= _nested(f"{place}.{key}", kind)
    return models


class CostSource(Strict):
    """A cost that is not counted in seconds: one of its keys."""

    rate: Annotated[float, Field(gt=0)] | None = None
    """Money for an hour of a trial."""
    logged: Annotated[str, Field(min_length=1)] | None = None
    """Name of a value that the engine logs; the cost of a trial is its sum over the epochs."""


def _check_unit(value: Any) -> Any:
    try:
        CostUnit.parse(value)
    except ConfigError as err:
        raise wrong(str(err)) from None
    return value


_UnitShape = Literal["seconds", "gpu_seconds"] | CostSource
UnitForm = Annotated[Any, BeforeValidator(_check_unit, json_schema_input_type=_UnitShape)]


class Budget(Strict):
    """The limits of the sweep; at least one of trials, time, target, stale and cost."""

    trials: Annotated[int, Field(ge=1, le=10**6)] | None = None
    """Total number of trials, those of earlier runs included."""
    time: Duration | None = None
    """Start no trial after this time; running ones end."""
    trial_time: Duration | None = None
    """End a trial after the epoch in which this time is up; a program is ended at once. Each repeat and each
    retry has this time."""
    epochs: Annotated[int, Field(ge=1)] | None = None
    """Maximum number of epochs of one trial."""
    steps: Annotated[int, Field(ge=1)] | None = None
    """Maximum number of steps of one trial, for an engine that loops over `run.steps`; in place of `epochs`.
    What counts epochs elsewhere, as `patience` and pruners do, then counts reports."""
    every: Annotated[int, Field(ge=1)] | None = None
    """Number of steps from one report to the next; it comes with `steps`."""
    retries: Annotated[int, Field(ge=0)] = 0
    """Number of times a failed trial is tried again, with its seed; retries do not count as `trials`."""
    failures: Annotated[int, Field(ge=1)] | None = None
    """Start no trial after so many failed; exit code 4. Without it, a broken engine ends the sweep, too."""
    target: float | None = None
    """Stop when a trial reaches this value."""
    stale: Annotated[int, Field(ge=1)] | None = None
    """Start no trial after this many complete ones in a row without a new best, in the order in which they
    ended. With several objectives a new best is a trial that enters the front."""
    tol: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """The largest change of the metric that is neither a new best for `stale` nor an improvement for
    `patience`; 0 unless the engine sets it by `@engine(tol=...)`."""
    cost: Annotated[float, Field(gt=0)] | None = None
    """Start no trial after those that have ended cost this much; running ones end. Trainings of `confirm` do
    not count."""
    cost_unit: UnitForm | None = None
    """The cost of a trial: `seconds` unless given, `gpu_seconds`, `{rate: 2.5}` for the money of an hour, or
    `{logged: dollars}` for the sum of what the engine logs under a name in each epoch."""
    patience: Annotated[int, Field(ge=1)] | None = None
    """End a trial after this many epochs without improvement."""
    repeats: Annotated[int, Field(ge=1)] = 1
    """Number of seeds per params: the value of a trial is the mean over its runs. Pruners judge the first."""

    @property
    def reports(self) -> int | None:
        """The most reports of one trial, one per epoch or per `every` steps; None if it is not known."""
        return self.epochs if self.steps is None or self.every is None else -(-self.steps // self.every)


def _check_level(value: float) -> float:
    if value not in LEVELS:
        raise wrong(f"must be one of {', '.join(map(str, LEVELS))}, got {value!r}")
    return value


class Confirm(Strict):
    """More trainings of the best trials, or of a front, under seeds that they share, until one is decided."""

    top: Annotated[int, Field(ge=2, le=100)] = 5
    """Number of contenders: the best complete trials."""
    repeats: Annotated[int, Field(ge=LEAST_SEEDS, le=1000)] = 8
    """Most fresh seeds of each contender. They are compared after a half, three quarters and all of them."""
    equivalence: Literal["luck"] | Annotated[float, Field(ge=0)] = LUCK
    """A difference that does not matter: `luck`, 0.95 deviations of a seed, a number in the metric's unit, or
    0 to call no trials tied."""
    until: Literal["decided", "spent"] | None = None
    """`decided` ends as soon as the winner is decided or tied; `spent`, and a front, trains all seeds."""
    time: Duration | None = None
    """Begin no training after this time."""
    level: Annotated[float, AfterValidator(_check_level), Field(json_schema_extra={"enum": list(LEVELS)})] = (
        0.05
    )
    """Share of such verdicts that may be wrong."""


def _parse_confirm(value: Any) -> Any:
    if value is False:
        return None
    return {} if value is True else value


ConfirmForm = Annotated[
    Confirm | None, BeforeValidator(_parse_confirm, json_schema_input_type=bool | Confirm)
]


def _check_copy(value: str) -> str:
    if problem := url_problem(value):
        raise wrong(f"{redacted(value)} {problem}")
    return value


class Results(Strict):
    """The files that a sweep writes."""

    dir: Directory | None = None
    """The run directory, relative to the current directory; `runs/{name}` unless given."""
    copy_to: Annotated[str, AfterValidator(_check_copy)] | None = None
    """A URL to which `run` copies the run directory at its end, also after an error or Ctrl-C, as in
    `s3://bucket/digits`: any file system of fsspec, whose package has to be installed."""
    report: Literal["html", "md", "none"] = "none"
    """Kind of report."""
    loggers: Annotated[list[PluginForm], Field(max_length=100)] = Field(default_factory=nothing_listed)
    """Other places to log values to: csv, table, tensorboard, mlflow, wandb. `trials.csv` and `.trainstats`
    are always written."""
    checkpoints: Literal["best", "last", "all", "none"] = "best"
    """Which checkpoints of the engine to keep: `best`, those of the picked epoch and of the latest, `last`,
    the latest, `all`, or `none`. Without a checkpoint a killed trial starts over."""
    fsync: Literal["epoch", "trial"] = "epoch"
    """When the record of a trial is flushed to disk: after every `epoch`, or at the end of the `trial`, for
    epochs of less than some 20 milliseconds. A killed process loses nothing either way, a power cut may."""
    statistics: Literal["small", "rows", "all", "none"] = "small"
    """Statistics of every epoch kept for `best --metric`: `small`, those of a fixed size, `rows`, also the
    row values of the optimized metric (with `confirm` by default), `all`, also all scores, or `none`."""


def _parse_engine(value: Any) -> Any:
    return {"target": value} if isinstance(value, str) else value


EngineForm = Annotated[Engine, BeforeValidator(_parse_engine, json_schema_input_type=Target | Engine)]


def _refuse_include(value: Any) -> Any:
    if value is not None:
        raise wrong("names files to read together with a sweep file; write it into the file itself")
    return value


IncludeForm = Annotated[None, BeforeValidator(_refuse_include, json_schema_input_type=str | list[str])]


class Draft(Strict):
    """The valid part of a sweep file; whatever is wrong or missing is None."""

    version: Literal[1] = 1
    """Version of this format."""
    name: Name | None = None
    """Name of the sweep; the file's name unless given."""
    tags: Annotated[list[Name], Field(max_length=100)] = Field(default_factory=nothing_listed)
    """Tags of the sweep, by which `hpometrics ls --tag` finds it. A resumed sweep may change them."""
    note: Annotated[str, Field(max_length=1000)] | None = None
    """A note on the sweep."""
    include: IncludeForm = None
    """Other sweep files below the folder of this one, one or several: what they say counts unless a later one
    or this file says otherwise. The sections, `space` and `engine.params` are merged key by key."""
    engine: EngineForm | None = None
    """The training code: `module:function`, or a mapping."""
    plugins: Annotated[list[Module], Field(max_length=100)] = Field(default_factory=nothing_listed)
    """Modules that `run` and its workers import, beside the engine, for the metrics that they register."""
    space: SpaceForm | None = None
    """The search space: a dimension per param."""
    metrics: Metrics | None = None
    """The metrics to optimize and to track."""
    search: Search = Search.model_construct()
    """The search strategy."""
    backend: BackendForm = default_backend()
    budget: Budget | None = None
    """The limits of the sweep."""
    confirm: ConfirmForm = None
    """Whether the best trials are trained again until the winner is decided: true, or a mapping."""
    results: Results = Results.model_construct()
    """The files that a sweep writes."""
    on_end: Annotated[list[Part], Field(min_length=1, max_length=1000)] | None = None
    """A program and its arguments, which `run` starts in the folder of this file at the end of the sweep,
    also after an error or Ctrl-C. Its environment has the outcome: `HPOMETRICS_STATE` and others."""


class Sweep(Draft):
    """A sweep: one file, eight sections."""

    engine: EngineForm
    """The training code: `module:function`, or a mapping."""
    space: SpaceForm = Field(default_factory=nothing_by_name)
    """The search space: a dimension per param. The list backend works without it."""
    metrics: Metrics = Metrics.model_construct()
    """The metrics to optimize and to track."""
    budget: Budget
    """The limits of the sweep."""
