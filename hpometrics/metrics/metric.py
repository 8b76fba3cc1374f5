"""Metric: a direction, an input and a function of statistics; in all else a torchmetrics.Metric."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, ClassVar, TypeVar

import torch
import torchmetrics
from torch import Tensor

from ..exceptions import MetricInputError, StateError
from ..objective import Objective
from .checks import Gate
from .features import FEATURES, InputType, OutputFeature
from .outputs import Outputs
from .registry import printed_name, registered_types
from .statistics.statistic import Statistic

S = TypeVar("S", bound=Statistic)
Value = Tensor | float | None


class AnyOutput(OutputFeature):
    """The output of a metric that was never registered: nothing is known, nothing checked or derived."""

    type: ClassVar[str] = "any"


class Metric(torchmetrics.Metric):
    """Base class of all metrics.

    A subclass states its facts, `objective` (MINIMIZE, MAXIMIZE or None) and `inputs`, as class attributes,
    by the classmethods `get_objective` and `get_inputs`, or in `register_metric`. It measures in one of two
    ways:

    - over statistics: `statistics()` names what it needs, `compute()` is a function of them. In a
    collection equal
      statistics are one object.
    - on its own: `add_state`, `update(preds, target)` and `compute()`, as any torchmetrics.Metric.

    Its parameters are keyword arguments of `__init__`, kept as attributes of the same name.
    """

    objective: ClassVar[Objective | None]
    inputs: ClassVar[InputType]
    full_state_update: bool = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._name: str | None = None
        self.undefined_reason: str | None = None
        self._output: OutputFeature | None = None
        self._kept: dict[str, Statistic] | None = None
        self.kept_by_others = False
        self._gate = Gate()

    @classmethod
    def get_objective(cls) -> Objective | None:
        """Which way is better; None if the metric has no direction."""
        return cls.objective

    @classmethod
    def get_inputs(cls) -> InputType:
        """Which model output the metric reads."""
        return cls.inputs

    get_objective.__func__.reads_attribute = True  # type: ignore[attr-defined]
    get_inputs.__func__.reads_attribute = True  # type: ignore[attr-defined]

    @property
    def name(self) -> str:
        """Its canonical name, with parameters that are not at their default; may be set."""
        if self._name is None:
            self._name = printed_name(type(self), vars(self)) or type(self).__name__
        return self._name

    @name.setter
    def name(self, text: str) -> None:
        self._name = text

    @property
    def output(self) -> OutputFeature:
        """The output feature it serves; by default the first one that its class is registered for."""
        if self._output is None:
            types = registered_types(type(self))
            self._output = FEATURES[types[0]]() if types else AnyOutput()
        return self._output

    @output.setter
    def output(self, feature: OutputFeature) -> None:
        if self._kept is not None:
            raise StateError(
                f"{self.name} has begun to measure {self._output}; its output cannot become {feature}"
            )
        self._output = feature

    def statistics(self) -> Mapping[str, Statistic]:
        """Name the statistics that `compute` is a function of; parameters and `output` are known by then."""
        return {}

    @property
    def kept(self) -> dict[str, Statistic]:
        """Its statistics: its own, or those that a collection shares among its members."""
        if self._kept is None:
            self._kept = dict(self.statistics())
        return self._kept

    def share(self, statistics: Mapping[str, Statistic]) -> None:
        """Use these statistics in the place of its own; the collection that calls this updates them."""
        self._kept = dict(statistics)
        self.kept_by_others = True
        self._to_sync = False

    def statistic(self, kind: type[S], name: str | None = None) -> S:
        """Return its statistic of a class; by name where it has several of the class."""
        for key, statistic in self.kept.items():
            if isinstance(statistic, kind) and name in (None, key):
                return statistic
        raise StateError(f"{self.name} keeps no {kind.__name__}{f' named {name!r}' if name else ''}")

    def update(self, preds: Any = None, target: Any = None, **tensors: Any) -> None:
        """Add one batch.

        Args:
            preds: the output that the metric reads (`inputs`), in the shape of its output feature.
            target: what was right.
            tensors: `logits=`, `probabilities=` or `predictions=` in the place of `preds`; others are extras.

        Raises:
            MetricInputError: the batch is not what the metric reads; the state stays as it was.
        """
        self._refuse_if_shared("update")
        batch = self.batch(preds, target, tensors)
        self._gate.admit(batch)
        if len(batch):
            self.observe(batch)

    def _update_gated(self, preds: Any = None, target: Any = None, **tensors: Any) -> None:
        """Stand before an `update(preds, target)` of a metric's own: the same door as for all others."""
        batch = self.batch(preds, target, tensors)
        self._gate.admit(batch)
        if not len(batch):
            return
        before = self.snapshot()
        try:
            self.observe(batch)
        except Exception:
            self.restore(before)
            raise

    def batch(self, preds: Any, target: Any, tensors: Mapping[str, Any]) -> Outputs:
        """Make one batch of what `update` was given."""
        if preds is not None and self.inputs.value in tensors:
            raise MetricInputError(
                f"{self.name}: {self.inputs} are given twice, by position and as {self.inputs}="
            )
        given = dict(tensors) if preds is None else {**tensors, self.inputs.value: preds}
        batch = Outputs(self.output, target=target, **given)
        self.refuse_unwanted(batch.extras)
        if not isinstance(self.output, AnyOutput):
            batch.require(self.inputs, self.name)
        return batch

    def observe(self, batch: Outputs) -> None:
        """Add a batch that has passed the gate."""
        if overrides_update(self):
            type(self).update(self, batch[self.inputs], batch.target, **self.wanted(batch.extras))
            return
        for statistic in self.kept.values():
            statistic.check(batch)
        for statistic in self.kept.values():
            statistic.update(batch)

    @property
    def reader(self) -> Callable[..., Any] | None:
        """The function of its own whose keyword arguments say which extras it wants; None if it has none."""
        return type(self).update if overrides_update(self) else None

    def wanted(self, extras: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the extra keywords that its own `update` (or `get_current_value`) asks for."""
        names = _extra_names(self.reader) if extras and self.reader else ()
        return dict(extras) if names is None else {name: extras[name] for name in extras if name in names}

    def refuse_unwanted(self, extras: Mapping[str, Any]) -> None:
        """Refuse extra keywords that nothing reads: a misspelt one must not be lost.

        Raises:
            MetricInputError: naming them.
        """
        unwanted = extras.keys() - self.wanted(extras).keys()
        if unwanted:
            raise MetricInputError(
                f"{self.name} does not ask for {', '.join(sorted(unwanted))}; leave it out"
            )

    def undefined(self, reason: str) -> Tensor:
        """Return nan, and keep why in `undefined_reason`."""
        self.undefined_reason = reason
        return torch.tensor(torch.nan, dtype=torch.float64)

    def merge(self, other: Metric) -> None:
        """Take in what another metric of the same kind has measured; the other one stays as it is.

        Raises:
            StateError: the other metric is of another class or has other parameters.
        """
        self._refuse_if_shared("merge")
        if type(other) is not type(self) or other.name != self.name or other.kept.keys() != self.kept.keys():
            raise StateError(
                f"{self.name} merges only with its own kind, got {getattr(other, 'name', other)!r}"
            )
        for name, statistic in self.kept.items():
            statistic.merge(other.kept[name])
        self.merge_own(other.own_state(), other.update_count)

    def own_state(self) -> dict[str, Any]:
        """The states of `add_state`, without the statistics."""
        return {name: getattr(self, name) for name in self._defaults}

    def merge_own(self, state: Mapping[str, Any], updates: int) -> None:
        """Take in the `own_state` of another metric of the same kind, made by so many updates."""
        if state and updates:
            self.merge_state(dict(state))
        self.count(updates)

    def count(self, updates: int = 1) -> None:
        """Note that batches were added: the computed value no longer holds."""
        own = self.__dict__  # a module's __setattr__ would cost more than many an update
        own["_update_count"] += updates
        own["_computed"] = None

    def snapshot(self) -> dict[str, Any]:
        """Its own states, for `restore` after a refused batch: of a list, which only grows, the length."""
        return {k: len(v) if isinstance(v, list) else v.clone() for k, v in self.own_state().items()}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Put its own states back to what `snapshot` gave."""
        for name, value in snapshot.items():
            if isinstance(value, int):
                del getattr(self, name)[value:]
            else:
                setattr(self, name, value)

    def reset(self) -> None:
        """Forget everything measured."""
        self._refuse_if_shared("reset")
        self.reset_own()
        for statistic in (self._kept or {}).values():
            statistic.reset()

    def reset_own(self) -> None:
        """Forget the states of `add_state`, not the statistics."""
        with torch.inference_mode(False):
            super().reset()
        self._gate.reset()
        self.undefined_reason = None

    def _refuse_if_shared(self, call: str) -> None:
        if self.kept_by_others and self.kept:
            raise StateError(
                f"{self.name} is a member of a collection and shares its statistics; {call} the collection"
            )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add one batch and return the value of that batch alone."""
        if not self.kept:
            return super().forward(*args, **kwargs)
        alone = self.alone()
        alone._to_sync = self.dist_sync_on_step
        alone.update(*args, **kwargs)
        self.update(*args, **kwargs)
        return alone.compute()

    def alone(self) -> Metric:
        """Return the same metric with nothing measured."""
        held, self._kept = self._kept, None
        try:
            copy = deepcopy(self)
        finally:
            self._kept = held
        copy.kept_by_others, copy._to_sync = False, True
        copy.reset()
        return copy

    def get_extra_state(self) -> dict[str, Any]:
        """What `state_dict` holds beside the states of `add_state`: statistics as plain tensors."""
        return {"updates": self._update_count, "statistics": {k: s.state() for k, s in self.kept.items()}}

    def set_extra_state(self, state: Any) -> None:
        """Load what `get_extra_state` gave.

        Raises:
            StateError: the statistics are not this metric's.
        """
        if set(state["statistics"]) != set(self.kept):
            raise StateError(
                f"{self.name} keeps {list(self.kept)}, the state has {list(state['statistics'])}"
            )
        for name, statistic in self.kept.items():
            statistic.load_state(state["statistics"][name])
        self._update_count = state["updates"]
        self._computed = None

    def add_state(self, *args: Any, **kwargs: Any) -> None:
        """Add a state as torchmetrics does, but saved in `state_dict` unless `persistent=False`."""
        super().add_state(*args, **{"persistent": True, **kwargs})

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> torch.nn.Module:
        module = super()._apply(fn, *args, **kwargs)
        device = fn(torch.empty(0, device=self.device)).device
        for statistic in (self._kept or {}).values():
            statistic.to(device)
        return module

    def _wrap_update(self, update: Callable[..., Any]) -> Callable[..., None]:
        gated = self._update_gated if overrides_update(self) and _reads_pairs(type(self).update) else update

        @functools.wraps(update)
        def wrapped(*args: Any, **kwargs: Any) -> None:
            with (
                torch.inference_mode(False),
                torch.no_grad(),
            ):  # a state made in inference mode could not be added to
                gated(*args, **kwargs)
            self.count()

        return wrapped

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compute)
        def wrapped() -> Any:
            if self._computed is None:
                with torch.inference_mode(False), torch.no_grad(), self._over_all_ranks():
                    self._computed = self._compute_defined(compute)
            return self._computed

        return wrapped

    def _compute_defined(self, compute: Callable[[], Any]) -> Any:
        """Compute, unless the answer is known to be undefined."""
        self.undefined_reason = self._gate.verdict()
        if self.undefined_reason is None and self.kept and all(s.empty for s in self.kept.values()):
            self.undefined_reason = "nothing was measured"
        if self.undefined_reason is not None:
            return self.undefined(self.undefined_reason)
        return compute()

    @contextmanager
    def _over_all_ranks(self) -> Iterator[None]:
        """While computing, hold the statistics of all ranks of the process group, if there is one."""
        if world_size() == 1 or not self._to_sync:
            yield
            return
        own = self.kept
        merged = {name: merged_over_ranks(statistic) for name, statistic in own.items()}
        self._kept = merged
        try:
            with self.sync_context(dist_sync_fn=self.dist_sync_fn, should_sync=bool(self._defaults)):
                yield
        finally:
            self._kept = own


def overrides_update(metric: Metric) -> bool:
    """Whether a metric measures on its own, by an `update(preds, target)` of its own."""
    return type(metric).update is not Metric.update


def world_size() -> int:
    """The number of ranks of the default process group; 1 without one."""
    distributed = torch.distributed
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def merged_over_ranks(statistic: S) -> S:
    """Gather a statistic from every rank of the default process group and merge; all ranks get the same."""
    states: list[Any] = [None] * world_size()
    torch.distributed.all_gather_object(states, statistic.state())
    merged = statistic.fresh()
    for state in states:
        merged.merge_state(state)
    return merged


@functools.cache
def _reads_pairs(function: Callable[..., Any]) -> bool:
    """Whether a function takes at least `self, preds, target` by position."""
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    return len(kinds) > 2 and all(k in (k.POSITIONAL_ONLY, k.POSITIONAL_OR_KEYWORD) for k in kinds[:3])


@functools.cache
def _extra_names(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """The keyword arguments after `self, preds, target`; None if it takes any."""
    parameters = list(inspect.signature(function).parameters.values())
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return tuple(p.name for p in parameters[3:])


class MeanMetric(Metric):
    """A metric whose value is the mean over rows: give `get_current_value`, the rest is here.

    The mean is over rows, never over batches: values are summed in float64 and divided once, so the result
        does not
    depend on how the data was cut into batches.
    """

    total: Tensor
    weight: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("weight", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def get_current_value(self, preds: Tensor, target: Tensor) -> Value | tuple[Value, Any]:
        """Measure one batch.

        Args:
            preds: the output named by `inputs`.
            target: what was right.

        Returns:
            One value per row, or one value for the batch (it then weighs as much as the batch has rows), or
            a pair of value and weight, where the weight may be a bool mask of the rows that count. None
            leaves the batch out.
        """
        raise NotImplementedError(f"{type(self).__name__} needs get_current_value(preds, target)")

    def measure(self, batch: Outputs) -> Value | tuple[Value, Any]:
        """Measure one batch of outputs; override this one to read shared blocks."""
        preds = batch[self.inputs]
        return self.get_current_value(preds, batch.target, **self.wanted(batch.extras))

    @property
    def reader(self) -> Callable[..., Any]:
        """`get_current_value` says which extras it wants."""
        return type(self).get_current_value

    def observe(self, batch: Outputs) -> None:
        """Add a batch that has passed the gate."""
        self.add(*self.contribution(batch))

    def contribution(self, batch: Outputs) -> tuple[Tensor, Tensor]:
        """Return the batch's weighted sum and weight, both 0-d float64; the state is not touched.

        Raises:
            MetricInputError: the measured values or weights do not have one entry per row.
        """
        measured = self.measure(batch)
        value, weight = measured if isinstance(measured, tuple) else (measured, None)
        if value is None:
            zero = torch.zeros((), dtype=torch.float64, device=batch.target.device)
            return zero, zero
        return self._weighted(torch.as_tensor(value), weight, batch)

    def add(self, total: Tensor, weight: Tensor) -> None:
        """Add a contribution."""
        self.total.add_(total)
        self.weight.add_(weight)

    def compute(self) -> Tensor:
        """Divide once; nan with a reason when nothing counted."""
        if self.weight == 0:
            return self.undefined("no row counted")
        return self.total / self.weight

    def _weighted(self, value: Tensor, weight: Any, batch: Outputs) -> tuple[Tensor, Tensor]:
        if value.ndim and value.shape[0] != len(batch):
            raise MetricInputError(
                f"{self.name}: get_current_value gives one value, or one per row; the batch has "
                f"{len(batch)} rows, got shape {tuple(value.shape)}"
            )
        if weight is None:
            count = torch.tensor(
                value.numel() if value.ndim else len(batch), dtype=torch.float64, device=value.device
            )
            return (value.sum(dtype=torch.float64) if value.ndim else value.double() * count), count
        share = self._checked_weight(torch.as_tensor(weight, device=value.device), value)
        counted = torch.where(share == 0, 0.0, value.double())
        return (counted * share).sum(), share.sum()

    def _checked_weight(self, weight: Tensor, value: Tensor) -> Tensor:
        if value.ndim and weight.shape != value.shape:
            raise MetricInputError(
                f"{self.name}: values have shape {tuple(value.shape)}, weights {tuple(weight.shape)}"
            )
        share = weight.double() if value.ndim else weight.sum(dtype=torch.float64)
        if share.device.type == "cpu" and not bool(((weight >= 0) & weight.isfinite()).all()):
            raise MetricInputError(
                f"{self.name}: a weight is a finite number from 0, got {weight.tolist()}"[:300]
            )
        return share


LudwigMetric = Metric
