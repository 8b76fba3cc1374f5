"""RunSpec: what a run measures, which value steers it and when it ends; settled before the first trial."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..exceptions import NotYetError, ObjectiveError, RunError, UnknownMetricError
from ..metrics.collection import MetricCollection
from ..metrics.features import Output, OutputFeature, parse_feature
from ..metrics.metric import Metric
from ..metrics.names import MetricName, parse_import_path
from ..metrics.registry import find_metric
from ..objective import Objective
from ..search.selection import At
from .example_plan import settle_examples

Train = Callable[..., Any]
T = TypeVar("T", bound=Callable[..., Any])

VALIDATION = "validation"
_FACTS = "__hpometrics__"


@dataclass(frozen=True)
class Reported:
    """A value that the engine reports itself, by `run.log(name=...)`, and the direction it is to go."""

    name: str
    objective: Objective

    def __post_init__(self) -> None:
        object.__setattr__(self, "objective", Objective.parse(self.objective))


@dataclass(frozen=True)
class RunSpec:
    """What all runs of a search have in common.

    Args:
        metric: what is optimised: a name, a metric object or class, `Reported(name, objective)`, or
            `{"metric": name, "direction": ..., **params}`. A name that is not registered is reported by the
            engine if its `direction` is given.
        output: the output feature, or a function that gives it (see `engine`); may be left out when the
            metrics know theirs.
        track: further metrics to measure; `test:accuracy` measures on the updates of that split.
        direction: states what the registry says, or supplies what it does not; never overrules it.
        at: whose value counts for the run, that of its `best` epoch or its `last`.
        epochs: the most epochs a run can have.
        patience: epochs without an improvement by more than `tol` after which a run ends.
        target: a value (in the metric's own unit) at which a run ends.
        tol: what is no improvement, in the metric's own unit.
        threads: torch's threads within an operation; None leaves them as they are.
        track_examples: whether the worst and best examples of the picked epoch are kept: true (20 of each),
            how many of each, or `{"worst": 20, "best": 20, "metric": name}`; see `Examples`.

    Raises:
        ObjectiveError: no direction is known, or two that differ.
        UnknownMetricError, MetricNameError: a metric does not exist or does not fit the output.
        NotYetError: several metrics are to be optimised, or one of several features or tasks.
        RunError: a number makes no sense, the metric has one value per class, or none per example while
            examples are to be ranked by it.
    """

    metric: Any
    output: Output | None = None
    track: Iterable[Any] = ()
    direction: Objective | str | None = None
    at: At | str = At.BEST
    epochs: int | None = None
    patience: int | None = None
    target: float | None = None
    tol: float = 0.0
    threads: int | None = None
    track_examples: Any = False
    name: str = field(init=False)
    objective: Objective = field(init=False)
    collections: Mapping[str, MetricCollection] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        feature = None if self.output is None else parse_feature(self.output)
        measured, name, objective = _settle(self.metric, feature, self.direction)
        self._set(output=feature, name=name, objective=objective, track=tuple(self.track))
        self._set(collections=_collections(measured, tuple(self.track), feature))
        try:
            self._set(at=At(self.at))
        except ValueError:
            raise RunError(f"at is 'best' or 'last', got {self.at!r}") from None
        self._check_numbers()
        examples = settle_examples(self.track_examples, name, objective, self.collections.get(VALIDATION))
        self._set(track_examples=examples)

    @property
    def reported(self) -> bool:
        """Whether the engine reports the value itself."""
        collection = self.collections.get(VALIDATION)
        return collection is None or self.name not in collection.names

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _check_numbers(self) -> None:
        for name in ("epochs", "patience", "threads"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise RunError(f"{name} must be a whole number of at least 1, got {value!r}")
        if self.target is not None and not math.isfinite(self.target):
            raise RunError(f"target must be a finite number, got {self.target!r}")
        if not (math.isfinite(self.tol) and self.tol >= 0):
            raise RunError(f"tol must be a finite number of at least 0, got {self.tol!r}")


def engine(*, output: Output | None = None, **facts: Any) -> Callable[[T], T]:
    """Put facts on a train function for objectives and sweeps to read: any of `RunSpec`.

    Side data of an output may be there only when the data have been read. Then `output` is a function of no
    arguments that returns the output. An objective that is made and a sweep that is run call it, once per
    process and before the first trial; to define the engine and to check a sweep file is not to call it.
    A Ray worker is sent the function, not the side data, and calls it too: it reads the data in any case,
    and side data made of them (`seen` is what is trained on) then take no memory of their own.

    >>> @engine(output="category(num_classes=10)")
    ... def train(params, run): ...
    >>> print(engine_facts(train)["output"])
    category(num_classes=10)
    """
    settled = output if output is None or callable(output) else parse_feature(output)

    def mark(train: T) -> T:
        setattr(train, _FACTS, {"output": settled, **facts})
        return train

    return mark


def engine_facts(train: Train) -> Mapping[str, Any]:
    """Return the facts that `engine` put on a function, an output as it was given; none if it did not."""
    facts: Mapping[str, Any] = getattr(train, _FACTS, {})
    return {name: fact for name, fact in facts.items() if fact is not None}


def _settle(
    metric: Any, output: OutputFeature | None, direction: Objective | str | None
) -> tuple[Any, str, Objective]:
    """Return what a collection measures (None: the engine reports it), its name and its direction."""
    if isinstance(metric, Mapping):
        metric, direction = _read_mapping(metric, direction)
    stated = None if direction is None else Objective.parse(direction)
    if isinstance(metric, (list, tuple)):
        raise NotYetError(f"several objectives are not built yet, got {len(metric)}: {metric!r}")
    if isinstance(metric, Reported):
        return None, metric.name, _agreed(metric.name, metric.objective, stated)
    if isinstance(metric, (str, MetricName)):
        return _settle_name(metric, output, stated)
    made = metric() if isinstance(metric, type) else metric
    if not isinstance(made, Metric):
        raise RunError(f"a metric is a name, a Metric or Reported(name, objective), got {metric!r}")
    _check_one_value(made.name, getattr(made, "average", None))
    return made.alone(), made.name, _agreed(made.name, made.objective, stated)


def _settle_name(
    metric: str | MetricName, output: OutputFeature | None, stated: Objective | None
) -> tuple[Any, str, Objective]:
    _check_built(metric, stated)
    try:
        found = find_metric(metric, output.type if output else None)
    except UnknownMetricError as err:
        if stated is not None:
            return None, str(metric), stated
        raise UnknownMetricError(
            f"{err} If the engine reports it by run.log, state its direction: "
            f"Reported({str(metric)!r}, 'minimize')"
        ) from None
    _check_one_value(str(found.name), dict(found.name.params).get("average"))
    if found.name.split not in (None, VALIDATION):
        raise RunError(f"{found.name}: only validation values steer a search; track it, and optimise another")
    return found.name, str(found.name), _agreed(str(found.name), found.objective, stated)


def _check_built(metric: str | MetricName, stated: Objective | None) -> None:
    if stated is not None or (isinstance(metric, str) and parse_import_path(metric)):
        return
    name = MetricName.parse(metric)
    if name.feature is not None or name.task is not None:
        raise NotYetError(
            f"{name}: several features and tasks are not carried out yet; name the metric alone, {name.bare}"
        )


def _check_one_value(name: str, average: object) -> None:
    if average == "none":
        raise RunError(
            f"{name} has one value per class, and a search optimises one number; choose average=micro, "
            "macro or weighted, and track this one"
        )


def _read_mapping(metric: Mapping[str, Any], direction: Any) -> tuple[Any, Any]:
    params = dict(metric)
    name, own = params.pop("metric", None), params.pop("direction", None)
    if name is None:
        raise RunError(f"a metric as a mapping needs the key 'metric', got {dict(metric)!r}")
    if own is not None and direction is not None and Objective.parse(own) is not Objective.parse(direction):
        raise ObjectiveError(f"{name}: its own direction says {own}, but direction= says {direction}")
    if params:
        parsed = MetricName.parse(name)
        name = MetricName(
            parsed.metric, (*parsed.params, *params.items()), parsed.k, parsed.feature, parsed.task
        )
    return name, own if own is not None else direction


def _agreed(name: str, known: Objective | None, stated: Objective | None) -> Objective:
    if known is None and stated is None:
        raise ObjectiveError(f"{name} has no direction of its own; state direction='minimize' or 'maximize'")
    if known is not None and stated is not None and known is not stated:
        raise ObjectiveError(f"{name} is to {known.value}, but direction= says {stated.value}")
    return known or stated  # type: ignore[return-value]  # one of the two is there


def _collections(
    measured: Any, track: tuple[Any, ...], output: OutputFeature | None
) -> dict[str, MetricCollection]:
    by_split: dict[str, list[Any]] = {VALIDATION: [] if measured is None else [measured]}
    for metric in track:
        splits = isinstance(metric, str) and ":" in metric and not parse_import_path(metric)
        name = MetricName.parse(metric) if splits else metric
        split = name.split or VALIDATION if isinstance(name, MetricName) else VALIDATION
        by_split.setdefault(split, []).append(name.bare if isinstance(name, MetricName) else metric)
    return {split: MetricCollection(metrics, output) for split, metrics in by_split.items() if metrics}
