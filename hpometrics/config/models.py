"""The sweep file as a model: seven small sections, each answering one question; unknown keys are errors.

A section that may be left out stands as `model_construct()` leaves it: of defaults alone there is nothing to
validate, and no validator of its own is built beside the one of the file.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    model_serializer,
    model_validator,
)

from .._redaction import redacted
from ..selection.rules import RULES
from . import secrets
from .fields import (
    Condition,
    Directory,
    Duration,
    MetricForm,
    Name,
    Option,
    OutputForm,
    ParamName,
    Params,
    Part,
    PlainScalar,
    PluginForm,
    Strict,
    Target,
    nothing_by_name,
    nothing_listed,
    one_key,
    wrong,
)
from .gpus import GpusForm
from .storage_url import StorageForm

KINDS = ("float", "int", "choice", "value")


class Dimension(Strict):
    """What all searched dimensions share."""

    when: Annotated[dict[ParamName, Condition] | None, Field(min_length=1)] = None
    """Only there when other parameters have these values: `{optimizer: sgd}`, `{layers: [2, 3]}`."""


class FloatDimension(Dimension):
    """`{float: [1e-4, 1e-1], log: true}`: a real number between two bounds, both included."""

    bounds: Annotated[list[float], Field(alias="float", min_length=2, max_length=2)]
    """Lowest and highest value, as they are (never exponents)."""
    log: bool = False
    """Draw evenly in the exponent."""
    step: float | None = None
    """Only low, low + step, low + 2 step and so on."""


class IntDimension(Dimension):
    """`{int: [16, 256], step: 16}`: a whole number between two bounds, both included."""

    bounds: Annotated[list[int], Field(alias="int", min_length=2, max_length=2)]
    """Lowest and highest value, both included."""
    log: bool = False
    """Draw evenly in the exponent."""
    step: int | None = None
    """Only low, low + step, low + 2 step and so on."""


def _choices_shape(value: Any) -> Any:
    if not isinstance(value, (list, dict)):
        raise wrong("wants a list of values, as in [sgd, adam], or bundles by label: {small: {depth: 2}}")
    return value


def _choices_kind(value: Any) -> str:
    return "<bundle>" if isinstance(value, dict) else "<options>"


class ChoiceDimension(Dimension):
    """`{choice: [sgd, adam]}`, or bundles of params by label: `{choice: {small: {depth: 2}}}`."""

    choice: Annotated[
        Annotated[list[Option], Field(min_length=1), Tag("<options>")]
        | Annotated[dict[str, Params], Field(min_length=1), Tag("<bundle>")],
        Discriminator(_choices_kind),
        BeforeValidator(_choices_shape),
    ]
    """The values, or the params that each label stands for."""


class ValueDimension(Strict):
    """`{value: [3, 3]}`, or the bare value `3`: the same in every trial."""

    value: Any
    """Any value."""


MODELS: dict[str, type[Strict]] = {
    "float": FloatDimension,
    "int": IntDimension,
    "choice": ChoiceDimension,
    "value": ValueDimension,
}
AnyDimension = FloatDimension | IntDimension | ChoiceDimension | ValueDimension


def _dimension_shape(value: Any) -> Any:
    if isinstance(value, list):
        raise wrong("a list may mean much; write {choice: [...]}, {float: [low, high]} or {int: [low, high]}")
    if value is None:
        raise wrong(f"a search dimension needs one of {', '.join(KINDS)}")
    if not isinstance(value, dict):
        return {"value": value}
    one_key(value, KINDS, "a search dimension")
    return value


def _dimension_kind(value: Any) -> str:
    if isinstance(value, dict):
        return f"<{next(kind for kind in KINDS if kind in value)}>"
    return next(f"<{kind}>" for kind, model in MODELS.items() if isinstance(value, model))


DimensionForm = Annotated[
    Annotated[FloatDimension, Tag("<float>")]
    | Annotated[IntDimension, Tag("<int>")]
    | Annotated[ChoiceDimension, Tag("<choice>")]
    | Annotated[ValueDimension, Tag("<value>")],
    Discriminator(_dimension_kind),
    BeforeValidator(_dimension_shape, json_schema_input_type=PlainScalar | AnyDimension),
]
SpaceForm = dict[ParamName, DimensionForm]


BACKENDS = ("optuna", "ray", "list")


def _fixed(params: dict[str, Any]) -> dict[str, Any]:
    for name, value in params.items():
        if text := secrets.objection(value):
            raise wrong(f"{name} {text}")
    return params


class Engine(Strict):
    """What is trained."""

    target: Target | None = None
    """`module:function`, called as `train(params, run)`, or an engine of stages or evaluation,
    `module:Class`; found beside the file or in the current folder."""
    command: Annotated[list[Part], Field(min_length=1)] | None = None
    """A program instead: `{params_file}` stands for its params, and it prints a JSON object per epoch."""
    output: OutputForm = None
    """What the engine predicts: `category`, `set(ignore_index=-1)`, `number` ...; several by name."""
    params: Annotated[Params, AfterValidator(_fixed)] = Field(default_factory=nothing_by_name)
    """Fixed params, the same in every trial; `{secret: HUB_TOKEN}` is read from the environment and never
    written."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    """Base of the per-trial seeds; `search.seed` unless given."""
    threads: Annotated[int, Field(ge=1)] | None = None
    """Threads of torch within an operation, on every backend; 1 unless given here or by the engine."""

    @model_validator(mode="before")
    @classmethod
    def _one_way_to_train(cls, value: Any) -> Any:
        if isinstance(value, dict):
            one_key(value, ("target", "command"), "an engine")
        return value


def _one_or_more(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


class ExampleCounts(Strict):
    """How many examples are kept, ranked by which metric."""

    worst: Annotated[int, Field(ge=0)] | None = None
    """How many of the worst; 20 unless given."""
    best: Annotated[int, Field(ge=0)] | None = None
    """How many of the best; 20 unless given."""
    metric: str | None = None
    """A measured metric that has a value per example; the one that is optimized unless given."""

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.worst == 0 and self.best == 0:
            raise wrong("0 worst and 0 best are no examples; leave track_examples out")
        return self


def _examples(value: Any) -> Any:
    if value is False or value is None:
        return None
    if value is True:
        return {}
    whole = isinstance(value, int) and value > 0
    if not whole and not isinstance(value, (dict, ExampleCounts)):
        raise wrong(
            "wants true, how many, or a mapping such as {worst: 20, best: 20, metric: log_loss}, got "
            f"{value!r}"
        )
    return {"worst": value, "best": value} if whole else value


_ExamplesShape = bool | Annotated[int, Field(ge=1)] | ExampleCounts
ExamplesForm = Annotated[
    ExampleCounts | None, BeforeValidator(_examples, json_schema_input_type=_ExamplesShape)
]


def _pick(value: Any) -> Any:
    number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if not number and value not in RULES:
        raise wrong(f"wants best, one_se, knee or the number of a trial, got {value!r}")
    return value


_PickShape = Literal["best", "one_se", "knee"] | Annotated[int, Field(ge=0)]
PickForm = Annotated[
    Literal["best", "one_se", "knee"] | int, BeforeValidator(_pick, json_schema_input_type=_PickShape)
]


class Metrics(Strict):
    """What is good."""

    optimize: Annotated[
        list[MetricForm],
        BeforeValidator(_one_or_more, json_schema_input_type=MetricForm | list[MetricForm]),
        Field(min_length=1),
    ] = Field(default_factory=nothing_listed)
    """The metric to optimize; its direction is the metric's own. An evaluation of engine params has one. Of a
    list of several the Pareto front is searched for."""
    constraints: Annotated[list[str], Field(max_length=100)] = Field(default_factory=nothing_listed)
    """Conditions such as `ece <= 0.05`."""
    track: Annotated[list[MetricForm], Field(max_length=1000)] = Field(default_factory=nothing_listed)
    """Metrics to measure beside it."""
    defaults: bool | None = None
    """Whether the default group of each output is recorded too; it is, unless said here or by the engine."""
    at: Literal["best", "last"] = "best"
    """Which epoch's value counts for a trial."""
    pick: PickForm = "best"
    """Which trial is picked: the best, or `one_se`, of those within one standard error of it, over repeats,
    the one of the fewest epochs. Of several objectives `knee`, or a trial of the front by its number; without
    it the front is named, and `best.yaml` holds the knee."""
    track_examples: ExamplesForm = None
    """Keep the worst and best examples of each trial's picked epoch: true, how many, or a mapping."""


class Search(Strict):
    """How to look."""

    sampler: PluginForm | None = None
    """tpe (default), gp, cmaes, random, grid, qmc, nsga2. The order of a grid that the budget may cut is
    drawn by `seed`. gp, cmaes and qmc draw a param with `when` at random, cmaes each choice too."""
    pruner: PluginForm | None = None
    """median, percentile, asha, hyperband, patient, threshold, none (default)."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Seed of the sampler and, unless `engine.seed` is given, of the trials."""
    start: list[Params] = Field(default_factory=nothing_listed)
    """Points to try first; what a point leaves open is sampled."""


class OptunaBackend(Strict):
    """Trials in processes on this machine, drawn by Optuna."""

    storage: StorageForm = "sqlite"
    """`sqlite` (study.db in the run directory), `journal` (study.journal there), `memory`, or what machines
    share: `postgresql://ada:${PGPASSWORD}@host/database`, `mysql+pymysql://...`, `grpc://host:port`."""
    workers: Annotated[int, Field(ge=1)] = 1
    """Processes that work on trials; `hpometrics worker DIR|URL` adds one at any time."""
    gpus: GpusForm = "auto"
    """How several workers share the GPUs of the machine: `auto` gives each its own, as far as they go, `all`
    lets each see all of them, and a list names which are shared out. Each finds its own in
    CUDA_VISIBLE_DEVICES."""
    heartbeat: Duration = 15.0
    """How often workers that share only the storage say that they live; after four in which one did not,
    its trial goes on elsewhere."""


def _custom(amounts: dict[str, float]) -> dict[str, float]:
    for name in amounts:
        if name.lower() in ("cpu", "gpu"):
            raise wrong(f"{name} is none of the cluster's own; write {name.lower()} beside custom")
    return amounts


class Resources(Strict):
    """What one trial needs of a Ray cluster."""

    cpu: Annotated[float, Field(gt=0)] | None = None
    """CPU cores; as many as `engine.threads` unless given."""
    gpu: Annotated[float, Field(ge=0)] = 0.0
    """GPUs."""
    custom: Annotated[dict[str, Annotated[float, Field(gt=0)]], AfterValidator(_custom)] = Field(
        default_factory=nothing_by_name
    )
    """What else a node offers, by its name there: `{TPU: 4}`, or `{memory: 8e9}` in bytes."""

    def of_trial(self, threads: int) -> dict[str, float]:
        """All amounts by name; a core for each thread where no other number is given."""
        return {"cpu": self.cpu or threads, "gpu": self.gpu, **self.custom}


def _address(value: str) -> str:
    if value.startswith("ray://"):
        raise wrong(
            f"{redacted(value)}: through Ray's client the search would run on the head node, away from the "
            "study; run on a machine of the cluster with address: auto, or submit it: "
            "ray job submit -- hpometrics run FILE"
        )
    if value != "auto" and not re.fullmatch(r"[\w.\-\[\]:]+:[0-9]{1,5}", value):
        raise wrong(f"{redacted(value)!r} is no address of a Ray cluster; write auto, or host:6379")
    return value


Address = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_address)]


class RayBackend(Strict):
    """Trials as Ray Tune workers, drawn by the same samplers."""

    workers: Annotated[int, Field(ge=1)] | None = None
    """Trials at the same time; as many as fit unless given."""
    resources: Resources = Resources.model_construct()
    """What one trial needs."""
    reuse_actors: bool | None = None
    """Whether a worker trains one trial after another, until one fails in it; unless given, where trials ask
    for no GPU: the end of a process alone gives all memory there back."""
    storage: Directory | None = None
    """Where Ray keeps its own files, a path or a URI such as `s3://bucket/ray`; `ray` in the run directory
    unless given. Every machine of a cluster must see it, and the run directory."""
    address: Address | None = None
    """A running cluster: `auto` finds that of this machine, `host:6379` names its head; one is started here
    unless given."""


class Backend(Strict):
    """Where it runs: one of its keys."""

    optuna: OptunaBackend | None = None
    """Trials in this process."""
    ray: RayBackend | None = None
    """Trials as Ray Tune workers."""
    points: Annotated[list[Params] | None, Field(alias="list", min_length=1)] = None
    """A list of params, tried in order. Nothing is sampled; each lies in the space, if there is one."""

    @model_validator(mode="before")
    @classmethod
    def _one_backend(cls, value: Any) -> Any:
        if isinstance(value, dict):
            one_key(value, BACKENDS, "a backend")
        return value

    @property
    def name(self) -> str:
        """`optuna`, `ray` or `list`."""
        return "ray" if self.ray is not None else "optuna" if self.optuna is not None else "list"

    @model_serializer
    def _the_one_key(self) -> dict[str, Any]:
        chosen: Any = self.ray or self.optuna
        return {
            self.name: self.points if chosen is None else chosen.model_dump(by_alias=True, exclude_none=True)
        }


class Budget(Strict):
    """When to stop; at least one of trials, time and target."""

    trials: Annotated[int, Field(ge=1, le=10**6)] | None = None
    """Total number of trials, those of earlier runs included."""
    time: Duration | None = None
    """Start no trial after this time; running ones end."""
    trial_time: Duration | None = None
    """End a trial with the epoch in which it has taken this long; a program is ended at once. Each repeat and
    each retry has as long."""
    epochs: Annotated[int, Field(ge=1)] | None = None
    """Most epochs of one trial."""
    retries: Annotated[int, Field(ge=0)] = 0
    """How often a failed trial is tried again, under its seed; that takes nothing off `trials`."""
    failures: Annotated[int, Field(ge=1)] | None = None
    """Start no trial after this many have failed, those of earlier runs included; exit code 4."""
    target: float | None = None
    """Stop when a trial reaches this value."""
    patience: Annotated[int, Field(ge=1)] | None = None
    """End a trial after this many epochs without improvement."""
    repeats: Annotated[int, Field(ge=1)] = 1
    """Seeds per params: the value of a trial is the mean over as many runs. Pruners judge the first."""


class Results(Strict):
    """What is left."""

    dir: Directory | None = None
    """The run directory, seen from the current directory; `runs/{name}` unless given."""
    report: Literal["html", "md", "none"] = "none"
    """Kind of report."""
    loggers: Annotated[list[PluginForm], Field(max_length=100)] = Field(default_factory=nothing_listed)
    """Where else values go: csv, table, tensorboard, mlflow, wandb. `trials.csv` and `.trainstats` always."""
    checkpoints: Literal["best", "last", "all", "none"] = "best"
    """Which are kept of the checkpoints that the engine gives: those of the picked epoch and the latest, the
    latest, all, or none. Without any a trial that is killed begins again."""
    fsync: Literal["epoch", "trial"] = "epoch"
    """When the record of a trial is forced to disk."""
    statistics: Literal["small", "all", "none"] = "small"
    """Statistics kept of every epoch for `best --metric`: small (of a fixed size), all (every row's too)."""


def _engine(value: Any) -> Any:
    return {"target": value} if isinstance(value, str) else value


def _backend(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value == "list":
        raise wrong("the list backend wants its list: {list: [{lr: 0.1}, {lr: 0.01}]}")
    return {value: {}}


EngineForm = Annotated[Engine, BeforeValidator(_engine, json_schema_input_type=Target | Engine)]
_BackendShape = Literal["optuna", "ray"] | Backend
BackendForm = Annotated[Backend, BeforeValidator(_backend, json_schema_input_type=_BackendShape)]


class Draft(Strict):
    """As much of a sweep as its file has right; what is wrong or missing is None."""

    version: Literal[1] = 1
    """Version of this form."""
    name: Name | None = None
    """Name of the sweep; the file's name unless given."""
    engine: EngineForm | None = None
    """What is trained: `module:function`, or a mapping."""
    space: SpaceForm | None = None
    """What varies: a dimension per parameter."""
    metrics: Metrics | None = None
    """What is good."""
    search: Search = Search.model_construct()
    """How to look."""
    backend: BackendForm = Backend.model_construct(optuna=OptunaBackend.model_construct())
    """Where it runs: `optuna`, `ray`, or a mapping of one key."""
    budget: Budget | None = None
    """When to stop."""
    results: Results = Results.model_construct()
    """What is left."""


class Sweep(Draft):
    """A sweep: one file, seven sections."""

    engine: EngineForm
    """What is trained: `module:function`, or a mapping."""
    space: SpaceForm = Field(default_factory=nothing_by_name)
    """What varies: a dimension per parameter. The list backend can do without."""
    metrics: Metrics = Metrics.model_construct()
    """What is good."""
    budget: Budget
    """When to stop."""
