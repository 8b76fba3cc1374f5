"""RunSpec: what the runs of a search measure, which value steers them and when they end."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import index
from typing import Any, TypeVar, overload

from ..direction import Direction
from ..exceptions import RunError
from ..metrics.combined import ResolvedCombined
from ..metrics.features import Output, OutputFeature, parse_feature
from ..metrics.multitask import TaskCollection, Unasked
from ..metrics.registry.facts import value_range
from ..metrics.registry.groups import DEFAULT, WORDS
from ..metrics.registry.index import observed_of
from ..metrics.registry.lookup import find_metric
from ..metrics.registry.ludwig_names import ReadableObjective
from ..metrics.registry.names import MICRO, MetricName
from ..metrics.registry.scope import ALL_TASKS, VALIDATION, check_output_name
from ..selection.intervals import Scale
from ..selection.rules import At, Constraint, CostUnit
from .checkpoint import Keep
from .example_selection import resolve_examples
from .metric_spec import (
    Features,
    MetricSpec,
    Reported,
    listed,
    resolve_all,
    resolve_constraints,
    resolve_judged,
    resolve_tracked,
)
from .statistics_store import STATISTICS_LEVELS, StatisticsLevel, row_metrics_of

__all__ = ["Reported", "RunSpec", "Train", "engine", "engine_facts"]

_FIXED = "a fixed size"
Train = Callable[..., Any]
T = TypeVar("T", bound=Callable[..., Any])
Outputs = Output | Mapping[str, Output]
_FACTS = "__hpometrics__"
Collections = Mapping[str | None, TaskCollection]
"""The collection of each output by name; None names the only one."""


def defaults_of(output: OutputFeature) -> tuple[MetricName, ...]:
    """Return the metrics of the default group whose memory does not grow with the length of an epoch.

    A text is measured as token ids or as words, depending on its updates. A ranking that keeps the values of
    every user keeps those of the requested metrics alone.
    """
    if getattr(output, "per_user", False):
        return ()
    groups = (DEFAULT.get(output.type, ""), WORDS.get(output.type, ""))
    names = dict.fromkeys(MetricName.parse(name) for group in groups for name in group.split())
    entries = {name: observed_of(find_metric(name, output.type).entries[0]) for name in names}
    return tuple(name for name, entry in entries.items() if entry is not None and entry.memory == _FIXED)


@dataclass(frozen=True)
class RunSpec(ReadableObjective):
    """The settings that all runs of a search share.

    Args:
        metric: what is optimized: a name, a metric object or class, `Reported(name, direction)`, or
            `{"metric": name, "direction": ..., **params}`, or a combination (`Combined`, `combined.loss`,
            `{"combine": {name: weight, ...}}`). A name that is not registered is reported by the engine if
            its `direction` is given. A list of these searches for their Pareto front.
        output: the output feature, or a function that returns it (see `engine`). For several outputs, a
            mapping by name, as in `{"intent": Category(5), "reply": Sequence()}`. May be omitted if the
            metrics have their own.
        track: further metrics to measure; `test:accuracy` measures on the updates of that split.
        defaults: also measure the default group of each output, and count examples (`exs`). Metrics that
            cannot read the updates, or whose memory grows with the epoch, are left out.
        direction: repeats the direction of the registry, or supplies a missing one; never overrules it. The
            spec then has that of its metric; of several metrics it has None, and `optimized` has theirs.
        constraints: bounds such as `"ece <= 0.05"` on values that are measured, or that the engine reports.
            A run whose picked epoch breaks a bound, or has no such value, is infeasible and never the best.
            The best epoch is one that keeps all bounds, if any does.
        prune_by: by what a pruner judges a run: an optimized or tracked metric, or `dominance`, see
            `DominanceRule`. Default: the optimized metric; with several, no run is stopped.
        at: the epoch whose value counts for the run, its `best` or its `last`. With several metrics, all
            values are those of one epoch, and `best` is by the first metric, then by the next ones.
        epochs: the most epochs a run can have.
        steps: the most steps, for an engine that loops over `run.steps` in place of `run.epochs`.
        every: the steps from one report to the next; it comes with `steps`.
        reports: the most reports a run can make, whether of epochs or of steps.
        patience: epochs without an improvement by more than `tol` after which a run ends. With several
            metrics, any may improve, and `tol` and `target` are not allowed.
        target: a value (in the metric's own unit) at which a run ends.
        tol: the largest change that is not an improvement, in the metric's own unit.
        trial_time: seconds after which a run ends, with the epoch in which they are up. They count from the
            creation of the run, and include the earlier epochs of a run that resumes. Each repeat and
            each retry of a trial is a run of its own.
        checkpoints: which of those that `run.checkpoint` copies are stored: see `Keep`.
        threads: torch's threads within an operation; None leaves them as they are.
        track_examples: whether the worst and best examples of the picked epoch are kept: true (20 of each),
            how many of each, or `{"worst": 20, "best": 20, "metric": name}`; see `Examples`.
        cost_unit: what a trial costs: `seconds`, `gpu_seconds` (times the GPUs of its process), or the money
            of its hours, `{"rate": 2.5}`. With `{"logged": name}`, the sum of the values that its epochs log
            under that name.
        statistics: which statistics of every epoch a run with a directory stores. Other metrics can be
            computed from them without training. `small` has a fixed size, up to 64 KiB an epoch. `rows` adds
            the row values of the optimized metric, by which a winner is confirmed. `all` adds the scores of
            every row. `none` stores nothing.

    Raises:
        ConfigError: the unit of the cost does not exist.
        ConstraintError: a constraint is not well formed, or does not bound one value of validation data.
        DirectionError: no direction is known, or two that differ.
        UnknownMetricError, MetricNameError: a metric does not exist or does not fit the output.
        RunError: a number is out of range, the metric has one value per class, or none per example while
            examples are ranked by it.
    """

    metric: Any
    output: Outputs | None = None
    track: Iterable[Any] = ()
    defaults: bool = True
    direction: Direction | str | None = None
    constraints: Iterable[str] = ()
    prune_by: str | None = None
    at: At | str = At.BEST
    epochs: int | None = None
    steps: int | None = None
    every: int | None = None
    reports: int | None = None
    patience: int | None = None
    target: float | None = None
    tol: float = 0.0
    trial_time: float | None = None
    checkpoints: Keep | str = Keep.BEST
    threads: int | None = None
    track_examples: Any = False
    statistics: StatisticsLevel = "small"
    cost_unit: str | Mapping[str, Any] = "seconds"
    features: Features = field(init=False, repr=False, compare=False)
    """The outputs by name."""
    objectives: tuple[MetricSpec, ...] = field(init=False, repr=False, compare=False)
    """The metrics that are optimized."""
    requested: tuple[MetricSpec, ...] = field(init=False, repr=False, compare=False)
    """The metrics that are optimized, tracked or bounded."""
    judged: Mapping[str, Direction] = field(init=False, repr=False, compare=False)
    """The direction of each value that a pruner judges, by name; empty if that is the optimized one."""
    bounds: tuple[Constraint, ...] = field(init=False, repr=False, compare=False)
    """The constraints."""
    combined: tuple[ResolvedCombined, ...] = field(init=False, repr=False, compare=False)
    """The combinations of metrics, each once."""
    collections: Mapping[str, Collections] = field(init=False, repr=False, compare=False)
    """The collection of each split and output."""
    warned: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    """The warnings that runs of this spec have given, so that a search warns once."""

    def __post_init__(self) -> None:
        track, features = listed("track", self.track), _features(self.output)
        objectives = resolve_all(self.metric, features, self.direction)
        tracked = tuple(resolve_tracked(track, features))
        reported = {spec.name for spec in (*objectives, *tracked) if spec.reported}
        bounds = dict(resolve_constraints(listed("constraints", self.constraints), features, reported))
        requested = (*objectives, *tracked, *bounds.values())
        self._set(
            output=features[None] if None in features else features,
            track=track,
            constraints=tuple(map(str, bounds)),
            features=features,
            objectives=objectives,
            requested=requested,
            judged=resolve_judged(self.prune_by, objectives, tracked, features),
            bounds=tuple(bounds),
            combined=_unique_combinations(requested),
            collections=_create_collections(requested, features, self._default_metrics),
        )
        choices = {"at": (At, "'best' or 'last'"), "checkpoints": (Keep, "best, last, all or none")}
        for name, (kind, names) in choices.items():
            try:
                self._set(**{name: kind(getattr(self, name))})
            except ValueError:
                raise RunError(f"{name} is {names}, got {getattr(self, name)!r}") from None
        self._check_numbers()
        self._set(cost_unit=self.unit.form)
        if self.statistics not in STATISTICS_LEVELS:
            raise RunError(
                f"statistics must be one of {', '.join(STATISTICS_LEVELS)}, got {self.statistics!r}"
            )
        first, directions = self.objectives[0], list(self.optimized.values())
        self._set(direction=directions[0] if len(directions) == 1 else None)
        measured = self.collections.get(VALIDATION, {}).get(first.feature)
        collection = None if measured is None else measured.prototype
        self._set(track_examples=resolve_examples(self.track_examples, first.key, directions[0], collection))

    def warn_of_unkept(self, stacklevel: int) -> None:
        """Warn that a checkpoint is not kept, if it is wanted and this is the first."""
        if self.checkpoints is not Keep.NONE and "checkpoint" not in self.warned:
            self.warned.add("checkpoint")
            warnings.warn(
                "run.checkpoint saves nothing, because the run has no directory; pass directory= to the run "
                'or its objective, or checkpoints="none" to save none',
                RuntimeWarning,
                stacklevel=stacklevel,
            )

    @property
    def most_reports(self) -> int | None:
        """The most reports a run can make, one per epoch or per `every` steps; None if it is not known."""
        by_steps = None if self.steps is None or self.every is None else -(-self.steps // self.every)
        return min((most for most in (self.epochs, by_steps, self.reports) if most is not None), default=None)

    def most_epochs(self, n: int | None) -> int:
        """Return the epochs of a run whose engine calls `run.epochs(n)`.

        Raises:
            RunError: there is no number of them, or it is not one, or steps are counted.
        """
        if self.steps is not None:
            raise RunError(
                f"the budget counts steps (steps {self.steps}, every {self.every}), but the engine calls "
                "run.epochs(); loop over run.steps() instead, or set epochs in place of steps and every"
            )
        return _most(
            "run.epochs(n)",
            "the number of epochs is missing; call run.epochs(n), or set epochs= with the metric",
            n,
            self.epochs,
        )

    def most_steps(self, n: int | None, every: int | None, size: int) -> tuple[int, int, int]:
        """Return the steps of a run, a report and a pass, for `run.steps(n, every=..., size=...)`.

        Raises:
            RunError: a number is missing, or is not one, or epochs are counted.
        """
        if self.epochs is not None:
            raise RunError(
                f"the budget counts epochs (epochs {self.epochs}), but the engine calls run.steps(); loop "
                "over run.epochs() instead, or set steps and every in place of epochs"
            )
        call = "run.steps(n, every=...)"
        most = _most(
            call,
            f"the number of steps is missing; set {call}, or steps= and every= with the metric",
            n,
            self.steps,
        )
        missing = (
            f"the number of steps between reports is missing; set {call}, or steps= and every= with the "
            "metric"
        )
        every = _most("every= of run.steps", missing, self.every or every)
        _check_every(every, most)
        size = _most("size= of run.steps", "", size)
        if size > every:
            raise RunError(f"size={size} is more than every={every}, but a pass has one report; lower it")
        return most, every, size

    def without_checkpoints(self) -> RunSpec:
        """Return the spec of a run that keeps no checkpoint."""
        spec = copy(self)
        spec._set(checkpoints=Keep.NONE)
        return spec

    def with_row_values(self) -> RunSpec:
        """Return the spec of a run that keeps row values, unless it keeps nothing."""
        spec = copy(self)
        spec._set(statistics="rows" if self.statistics == "small" else self.statistics)
        return spec

    @cached_property
    def name(self) -> str:
        """The name of the metric that is optimized; of several the first."""
        return self.objectives[0].name

    @cached_property
    def optimized(self) -> Mapping[str, Direction]:
        """The direction of each metric that is optimized, by name."""
        return {spec.name: spec.direction for spec in self.objectives if spec.direction is not None}

    @property
    def goal(self) -> str:
        """The direction and the name of each optimized metric, as in `maximize roc_auc`."""
        return ", ".join(f"{direction} {name}" for name, direction in self.optimized.items())

    @cached_property
    def unit(self) -> CostUnit:
        """The unit of what a trial costs."""
        return CostUnit.parse(self.cost_unit)

    @property
    def bounded(self) -> str:
        """The constraints in one line, by which two searches are compared."""
        return "; ".join(self.constraints)

    @property
    def reported(self) -> bool:
        """Whether the engine reports its value."""
        return self.objectives[0].reported

    @cached_property
    def recorded(self) -> tuple[str, ...]:
        """The recorded values that no metric measures: those that steer, and terms of combinations."""
        terms = [term for combined in self.combined for term in combined.terms if term.placed is None]
        return tuple(dict.fromkeys([*self.steering, *(str(term.name) for term in terms)]))

    @property
    def directions(self) -> Mapping[str, Direction]:
        """The direction of each requested or default value that has one, by name."""
        outputs = {key: output for key, output in self.features.items() if output is not None}
        directions = {
            str(replace(name, feature=key)): find_metric(name, output.type).direction
            for key, output in outputs.items()
            for name in (defaults_of(output) if self.defaults else ())
        }
        directions |= {one.name: one.direction for one in reversed(self.requested)}
        return {name: direction for name, direction in directions.items() if direction is not None}

    @cached_property
    def steering(self) -> tuple[str, ...]:
        """The values that are optimized, and those that constraints bound."""
        return *self.optimized, *(bound.name for bound in self.bounds)

    @cached_property
    def pools_tasks(self) -> bool:
        """Whether the optimized value of several tasks is that of all their rows, not a mean over tasks."""
        one = self.objectives[0]
        way = MetricName.parse(one.name).over_tasks
        metric = self.collections[one.split][one.feature].prototype[one.key]
        return way == MICRO or (way is None and metric.pools_tasks)

    @property
    def scale(self) -> Scale:
        """On which scale intervals of the metric that is optimized are symmetric."""
        one = self.objectives[0]
        collection = self.collections.get(one.split, {}).get(one.feature)
        if one.reported or one.combined is not None or collection is None:
            return Scale.IDENTITY
        return Scale.of_range(*value_range(type(collection.prototype[one.key])))

    def _default_metrics(self, output: OutputFeature) -> tuple[Unasked, ...]:
        """Return what is measured of an output without a request, as far as its updates can be read by it."""
        defaults = defaults_of(output) if self.defaults else ()
        return (*defaults, *(row_metrics_of(output) if self.statistics == "all" else ()))

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _check_numbers(self) -> None:
        for name in ("epochs", "steps", "every", "reports", "patience", "threads"):
            if (value := getattr(self, name)) is not None:
                self._set(**{name: _most(name, "", value)})
        for name in ("target", "trial_time", "tol"):
            value = getattr(self, name)
            if value is not None and not hasattr(value, "__float__"):
                raise RunError(f"{name} must be a number, got {value!r}")
        if (self.steps is None) != (self.every is None):
            given, other = ("every", "steps") if self.steps is None else ("steps", "every")
            raise RunError(
                f"steps and every belong together: {given} is {getattr(self, given)}; set {other} too"
            )
        if self.steps is not None and self.every is not None:
            _check_every(self.every, self.steps)
        if self.epochs is not None and self.steps is not None:
            raise RunError(
                f"a run counts either epochs or steps, got epochs={self.epochs} and steps={self.steps}"
            )
        if self.target is not None and not math.isfinite(self.target):
            raise RunError(f"target must be a finite number, got {self.target!r}")
        if self.trial_time is not None and not (math.isfinite(self.trial_time) and self.trial_time > 0):
            raise RunError(f"trial_time must be a number of seconds above 0, got {self.trial_time!r}")
        if not (math.isfinite(self.tol) and self.tol >= 0):
            raise RunError(f"tol must be a finite number of at least 0, got {self.tol!r}")
        if len(self.optimized) > 1 and (self.tol or self.target is not None):
            word = "tol" if self.tol else "target"
            raise RunError(
                f"{word} is in the unit of one metric; leave it out, because several are optimized"
            )


@overload
def engine(train: T, /) -> T: ...


@overload
def engine(*, output: Outputs | None = None, **facts: Any) -> Callable[[T], T]: ...


def engine(train: Any = None, /, *, output: Outputs | None = None, **facts: Any) -> Any:
    """Attach facts to a train function for objectives and sweeps to read: any of `RunSpec`.

    Side data of an output may exist only after the data have been read. Then `output` is a function without
    arguments that returns the output. Creating an objective and running a sweep call it, once per process and
    before the first trial. Defining the engine and checking a sweep file do not call it. A Ray worker
    receives the function, not the side data, and calls it too. The worker reads the data in any case, so side
    data made of them (`seen` is what is trained on) take no memory of their own.

    Raises:
        RunError: the positional argument is not a train function.

    >>> @engine(output="category(num_classes=10)")
    ... def train(params, run): ...
    >>> print(engine_facts(train)["output"])
    category(num_classes=10)
    """
    if train is not None and not callable(train):
        raise RunError(
            f"an engine must be a function train(params, run), got {train!r}; pass its output as output="
        )
    is_resolved = output is None or callable(output) or isinstance(output, Mapping)
    feature = output if is_resolved else parse_feature(output)  # type: ignore[arg-type]  # one output is left

    def mark(train: T) -> T:
        setattr(train, _FACTS, {"output": feature, **facts})
        return train

    return mark if train is None else mark(train)


def engine_facts(train: Train) -> Mapping[str, Any]:
    """Return the facts that `engine` put on a function, an output as it was given; none if it did not."""
    facts: Mapping[str, Any] = getattr(train, _FACTS, {})
    return {name: fact for name, fact in facts.items() if fact is not None}


def _most(call: str, missing: str, *limits: int | None) -> int:
    """Return the least of the limits that there are.

    Raises:
        RunError: there are none, or one is not a whole number of at least 1.
    """
    stated = [limit for limit in limits if limit is not None]
    for limit in stated:
        if isinstance(limit, bool) or not hasattr(limit, "__index__") or limit < 1:
            raise RunError(f"{call} must be a whole number of at least 1, got {limit!r}")
    if not stated:
        raise RunError(missing)
    return index(min(stated))


def _check_every(every: int, steps: int) -> None:
    """Check that a run makes a report before its last step."""
    if every > steps:
        raise RunError(
            f"every={every} is more than the {steps} steps of the run, so it would never report; lower it"
        )


def _features(output: Outputs | None) -> Features:
    """Parse the outputs by name; None names the only one."""
    if not isinstance(output, Mapping):
        return {None: None if output is None else parse_feature(output)}
    if not output:
        raise RunError("output= is an empty mapping; name each output, as in {'intent': Category(5)}")
    return {check_output_name(name): parse_feature(feature) for name, feature in output.items()}


def _unique_combinations(every: Iterable[MetricSpec]) -> tuple[ResolvedCombined, ...]:
    """Return each combination once; one over all tasks also under its name with `all/`."""
    combinations: dict[str, ResolvedCombined] = {}
    for requested in (one.combined for one in every if one.combined is not None):
        combined = requested.of_every_task
        earlier = combinations.setdefault(combined.name, combined)
        if requested.task == ALL_TASKS:
            combinations[requested.name] = requested
        if earlier != combined:
            raise RunError(
                f"{combined.name} is {earlier.formula} ({earlier.direction.value}) and also "
                f"{combined.formula} ({combined.direction.value}); give one of them another name="
            )
    return tuple(combinations.values())


def _create_collections(
    every: Iterable[MetricSpec], features: Features, unasked_of: Callable[[OutputFeature], Sequence[Unasked]]
) -> dict[str, dict[str | None, TaskCollection]]:
    """Create the collections of each split and output: the requested metrics and the unasked ones."""
    splits = dict.fromkeys([VALIDATION, *(one.split for one in every if one.measured is not None)])
    requested: dict[str, dict[str | None, list[Any]]] = {
        split: {key: [] for key in features} for split in splits
    }
    for one in every:
        if one.measured is not None:
            requested[one.split][one.feature].append(one.measured)
        for term in one.combined.terms if one.combined else ():
            if term.placed is not None:
                requested[VALIDATION][term.name.feature].append(term.placed.measured)
    collections: dict[str, dict[str | None, TaskCollection]] = {}
    for split, by_feature in requested.items():
        for name, metrics in by_feature.items():
            output = features[name]
            unasked = () if output is None else unasked_of(output)
            if metrics or unasked or name is not None:  # of one of several outputs maybe nothing is measured
                collection = TaskCollection(metrics, output, unasked=unasked, feature=name)
                collections.setdefault(split, {})[name] = collection
    return collections
