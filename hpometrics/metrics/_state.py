"""The state of a metric: its statistics, which are moved, saved, merged and synchronized with it.

torchmetrics has no public name for some parts of a state: to set the number of its updates, the value that
was computed, how a state is reduced, whether ranks are synchronized. No other module reads or sets them, and
`tests/metrics/test_torchmetrics_internals.py` names each one that a new version moves.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from types import FunctionType
from typing import Any, Self, TypeVar

import torch
import torchmetrics
from torch import Tensor
from torchmetrics.utilities.data import dim_zero_cat, dim_zero_mean

from ..exceptions import MetricInputError, StateError
from ._buffer import BatchBuffer
from ._device import gather_from_ranks, without_autograd, world_size
from ._validation import BatchValidator
from .features import OutputFeature
from .statistics.statistic import Statistic

S = TypeVar("S", bound=Statistic)
_CONSTANTS = {bool, int, float, str, type(None), type, FunctionType, torch.dtype, torch.device}
_MEASURED = ("_statistics", "_batch_buffer", "_validator", "_computed", "_forward_cache")
_NOTHING = dict.fromkeys(_MEASURED)
_CONTAINERS = {dict, list, set, OrderedDict}
_UNSUPPORTED = {"compute_on_cpu", "process_group"}
"""Options of torchmetrics that would have no effect: a state stays on its device, and all ranks share it."""
_REGISTERED = (Tensor, torch.nn.Module)
"""Types of values that a torch module registers instead of storing them as plain attributes."""


class StatefulMetric(torchmetrics.Metric):
    """The state of a metric: statistics, its own or shared in a collection, and the states of `add_state`.

    All that torchmetrics does with a state (device moves, `state_dict`, pickling, `reset`, synchronization
    over the ranks of a process group) is done with the statistics as well.
    """

    name: str

    def __init__(self, **kwargs: Any) -> None:
        for option in _UNSUPPORTED & kwargs.keys():
            if kwargs[option]:
                raise MetricInputError(f"{type(self).__name__} does not support {option}=; leave it out")
        super().__init__(**kwargs)
        self.undefined_reason: str | None = None
        self.kept_by_others = False
        self._statistics: dict[str, Statistic] | None = None
        self._batch_buffer: BatchBuffer | None = None
        self._validator = BatchValidator()

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if not isinstance(value, _REGISTERED) and (name in own or self._is_new(name)):
            own[name] = value  # a plain attribute, for which torch would search its registries first
        else:
            super().__setattr__(name, value)

    def _is_new(self, name: str) -> bool:
        """Return whether neither the class nor the module has an attribute of this name."""
        own = self.__dict__
        return not (
            hasattr(type(self), name)
            or name in own.get("_parameters", ())
            or name in own.get("_buffers", ())
            or name in own.get("_modules", ())
        )

    def statistics(self) -> Mapping[str, Statistic]:
        """Return the statistics by name of which `compute` is a function; parameters and `output` are set."""
        return {}

    @property
    def update_count(self) -> int:
        """The number of batches added; a collection counts its batches once for all members."""
        shared = self._batch_buffer.batches if self.kept_by_others and self._batch_buffer is not None else 0
        own: int = self._update_count
        return own + shared

    @property
    def update_called(self) -> bool:
        """Whether a batch was added."""
        return self.update_count > 0

    @property
    def kept(self) -> dict[str, Statistic]:
        """Its statistics over all rows so far: its own, or those that its collection shares among members."""
        if self._batch_buffer is not None:
            self._batch_buffer.flush()
        return self._buffered_statistics if self._statistics is None else self._statistics

    @property
    def _buffered_statistics(self) -> dict[str, Statistic]:
        """Its statistics, which may lack rows that are still in the buffer."""
        if self._statistics is None:
            self._statistics = dict(self.statistics())
        return self._statistics

    def share(self, statistics: Mapping[str, Statistic], buffer: BatchBuffer | None = None) -> None:
        """Use statistics of a collection in place of its own; the collection updates them."""
        self.__dict__.update(  # a module's __setattr__ would cost more for each
            _batch_buffer=buffer, _statistics=dict(statistics), kept_by_others=True, _to_sync=False
        )

    def statistic(self, kind: type[S], name: str | None = None) -> S:
        """Return its statistic of a class, by name if it has several of the class."""
        for key, statistic in self.kept.items():
            if isinstance(statistic, kind) and name in (None, key):
                return statistic
        raise StateError(f"{self.name} keeps no {kind.__name__}{f' named {name!r}' if name else ''}")

    def own_state(self) -> dict[str, Any]:
        """Return a copy of the states of `add_state`, without the statistics.

        Raises:
            StateError: the class has plain attributes as state, which can be neither saved nor merged.
        """
        resets_attributes = type(self).reset is not StatefulMetric.reset
        is_plain = resets_attributes and type(self).own_state is StatefulMetric.own_state
        if is_plain and not self.metric_state and not self.kept:
            raise StateError(
                f"{self.name} keeps its state in plain attributes, which cannot be saved, merged or moved; "
                "declare them with add_state, or use statistics"
            )
        return {name: list(s) if isinstance(s, list) else s.clone() for name, s in self.metric_state.items()}

    def merge_own(self, state: Mapping[str, Any], updates: int) -> None:
        """Merge the `own_state` of another metric of the same kind, which had so many updates.

        Raises:
            StateError: it lacks a state, or has one of another shape; the own states do not change.
        """
        if updates:
            own = [self.metric_state] if self.update_count else []
            try:
                joined = {
                    name: join_states([part[name] for part in (*own, state)], reduction, self.device)
                    for name, reduction in reductions_of(self).items()
                }
            except (KeyError, RuntimeError) as err:
                raise StateError(f"{self.name}: its states and those to merge do not match: {err}") from err
            for name, value in joined.items():
                setattr(self, name, value)
        self.count_updates(updates)

    def count_updates(self, updates: int = 1) -> None:
        """Count added batches and drop the computed value."""
        own = self.__dict__  # a module's __setattr__ would cost more than many an update
        own["_update_count"] += updates
        own["_computed"] = None
        if own["kept_by_others"]:
            self._mark_changed()

    def _mark_changed(self) -> None:
        """Mark a member as changed, so that the next reset of its collection visits it."""
        if self.kept_by_others and self._batch_buffer is not None:
            self._batch_buffer.members_changed = True

    def snapshot(self) -> dict[str, Any]:
        """Return its own states for `restore`: copies, and the lengths of lists, which only grow."""
        return {name: len(s) if isinstance(s, list) else s.clone() for name, s in self.metric_state.items()}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Set its own states back to those of `snapshot`."""
        for name, value in snapshot.items():
            if isinstance(value, int):
                del getattr(self, name)[value:]
            else:
                setattr(self, name, value)

    def reset(self) -> None:
        """Drop everything measured; a collection resets the statistics that its members share."""
        self._refuse_if_shared("reset")
        with torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext():
            super().reset()
        if self._batch_buffer is not None and not self.kept_by_others:
            self._batch_buffer.reset()
        for statistic in (self._statistics or {}).values():
            statistic.reset()
        self.forget()
        self.count_updates(-self.update_count)  # a member without statistics may be reset by itself

    def reset_member(self) -> None:
        """Reset a member of a collection by the `reset` of its class, without the shared statistics."""
        if self.resets_itself:
            self._reset_own()
        self.forget()

    @property
    def resets_itself(self) -> bool:
        """Whether there is more to reset than statistics: states, or a `reset` of its class."""
        return bool(self.metric_state) or type(self).reset is not StatefulMetric.reset

    def _reset_own(self) -> None:
        """Call `reset` without the shared statistics."""
        statistics, shared = self._statistics, self.kept_by_others
        self._statistics, self.kept_by_others = {}, False
        try:
            self.reset()
        finally:
            self._statistics, self.kept_by_others = statistics, shared

    def forget(self) -> None:
        """Drop flags, reason, computed value and the count of updates."""
        self._validator.reset()
        self.__dict__.update(undefined_reason=None, _update_count=0, _computed=None)

    def _refuse_if_shared(self, call: str) -> None:
        if self.kept_by_others and self.kept:
            raise StateError(
                f"{self.name} belongs to a collection and shares its statistics; {call} the collection"
            )

    def alone(self) -> Self:
        """Return the same metric with nothing measured."""
        own, policy = self.__dict__, self._validator.non_finite
        measured = {name: own[name] for name in _MEASURED}
        rows = {name: state for name, state in self.metric_state.items() if isinstance(state, list)}
        own.update(_NOTHING, **{name: [] for name in rows})
        try:
            copy = self.__deepcopy__({})
        finally:
            own.update(measured, **rows)
        copy.__dict__.update(_validator=BatchValidator(policy), kept_by_others=False, _to_sync=True)
        if copy.resets_itself:
            copy.reset()
        copy.forget()
        return copy

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add one batch and return the value of that batch alone, which a copy computes."""
        copy = self.alone()
        copy._to_sync = self.dist_sync_on_step
        copy.update(*args, **kwargs)
        self.update(*args, **kwargs)
        self.__dict__["_forward_cache"] = value = copy.compute()
        return value

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy all that may change; most attributes of a metric are constants, or empty."""
        copy = type(self).__new__(type(self))
        memo[id(self)] = copy
        state = self.__getstate__()
        for name, value in state.items():
            kind = type(value)
            if kind in _CONTAINERS and not value:
                state[name] = memo.setdefault(id(value), kind())
            elif not (kind in _CONSTANTS or isinstance(value, OutputFeature)):
                state[name] = deepcopy(value, memo)
        copy.__setstate__({**state, "_update_signature": self._update_signature})
        return copy

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_update_signature" not in state:
            super().__setstate__(state)
            return
        own = self.__dict__  # of a copy; to inspect the signature again would take longer than the rest
        own.update(state)
        own["update"], own["compute"] = self._wrap_update(self.update), self._wrap_compute(self.compute)

    def __getstate__(self) -> dict[str, Any]:
        if self._batch_buffer is not None:
            self._batch_buffer.flush()
        state: dict[str, Any] = super().__getstate__()
        return state

    def get_extra_state(self) -> dict[str, Any]:
        """Return the part of `state_dict` beside the states of `add_state`: statistics as plain tensors."""
        self.own_state()  # which refuses state that nothing here can save
        return {
            "updates": self.update_count,
            "complaint": self._validator.verdict(),
            "statistics": {k: s.state() for k, s in self.kept.items()},
        }

    def set_extra_state(self, state: Any) -> None:
        """Load the result of `get_extra_state`.

        Raises:
            StateError: the statistics are those of another metric.
        """
        if set(state["statistics"]) != set(self.kept):
            raise StateError(
                f"{self.name} needs {list(self.kept)}, but the state has {list(state['statistics'])}"
            )
        for name, statistic in self.kept.items():
            statistic.load_state(state["statistics"][name])
        self._validator.reset()
        self._validator.add_complaint(state.get("complaint"))
        self.count_updates(state["updates"] - self.update_count)

    def add_state(self, name: str, default: Any, dist_reduce_fx: Any = None, persistent: bool = True) -> None:
        """Add a state as torchmetrics does, but saved in `state_dict` unless `persistent=False`.

        Raises:
            StateError: its `dist_reduce_fx` is "mean", since a mean of means is not the mean; it is None for
                a tensor, since two parts cannot become one; or every metric has an attribute of that name.
        """
        if hasattr(type(self), name):
            raise StateError(
                f"{type(self).__name__}: {name!r} is an attribute of every metric; choose another name "
                "for the state"
            )
        is_own = not _is_of_torchmetrics(type(self))
        if dist_reduce_fx in ("mean", dim_zero_mean):
            if is_own:
                raise StateError(
                    f"{self.name}: {name} cannot merge by 'mean'; keep a sum and a count, both by 'sum'"
                )
            dist_reduce_fx = _check_constant  # such a state is a constant there, as `data_range`
        if dist_reduce_fx is None and isinstance(default, Tensor) and is_own:
            raise StateError(
                f"{type(self).__name__}: add_state({name!r}, ...) needs dist_reduce_fx= to merge two states; "
                "pass sum, max, min or cat"
            )
        super().add_state(name, default, dist_reduce_fx, persistent)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Load copies, so that the tensors of the caller stay unchanged."""
        super()._load_from_state_dict(state_dict, prefix, *args)
        for name, value in self.own_state().items() if self.metric_state else ():
            setattr(self, name, value)

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> torch.nn.Module:
        module = super()._apply(fn, *args, **kwargs)
        device = fn(torch.empty(0, device=self.device)).device
        if self._batch_buffer is not None:
            self._batch_buffer.flush()
        for statistic in (self._statistics or {}).values():
            statistic.to(device)
        return module

    @property
    def is_local(self) -> bool:
        """Whether its value is that of the rows of this process alone."""
        return world_size() == 1 or not self._to_sync or not self.distributed_available_fn()

    def compute_once(self, compute: Callable[[], Any]) -> Any:
        """Return the stored value; without one, store the value that `compute` returns over all ranks."""
        if self._computed is not None:
            return self._computed
        with without_autograd(), self._over_all_ranks():
            value = compute()
        if self.compute_with_cache:
            self.__dict__["_computed"] = value
        self._mark_changed()
        return value

    def _over_all_ranks(self) -> AbstractContextManager[None]:
        """Return a context in which the metric has the statistics of all ranks of the process group."""
        return nullcontext() if self.is_local else self._merge_over_all_ranks()

    @contextmanager
    def _merge_over_all_ranks(self) -> Iterator[None]:
        own, gate = self.kept, self._validator
        merged = {name: merge_over_ranks(statistic) for name, statistic in own.items()}
        self._statistics, self._validator = merged, BatchValidator(gate.non_finite)
        for complaint in gather_from_ranks((gate.verdict(),)):
            self._validator.add_complaint(*complaint)
        try:
            with self.sync_context(dist_sync_fn=self.dist_sync_fn, should_sync=bool(self.metric_state)):
                yield
        finally:
            self._statistics, self._validator = own, gate


@contextmanager
def all_or_none(metrics: Iterable[StatefulMetric]) -> Iterator[None]:
    """Return a context that restores the states and counts of all metrics if its body raises."""
    before = [(metric, metric.snapshot(), metric.update_count) for metric in metrics]
    try:
        yield
    except Exception:
        for metric, snapshot, updates in before:
            metric.restore(snapshot)
            metric.count_updates(updates - metric.update_count)
        raise


def disable_sync(metric: torchmetrics.Metric) -> None:
    """Set a metric to compute over the rows of this process alone, from now on."""
    metric._to_sync = False


def set_update_count(metric: torchmetrics.Metric, count: int) -> None:
    """Set the number of updates in the states of a metric, which were written to it, and drop its value."""
    metric._update_count, metric._computed = count, None


def reductions_of(metric: torchmetrics.Metric) -> Mapping[str, Callable[..., Any] | None]:
    """Return the function of each state by which the states of several metrics become one."""
    return metric._reductions  # type: ignore[return-value]  # a name has become its function


def join_states(states: list[Any], reduction: Callable[..., Any] | None, device: torch.device) -> Any:
    """Return the state that several of one name become: rows one after the other, all else reduced."""
    if isinstance(states[0], list):
        parts = [part for state in states for part in state]
        return [part.to(device) if isinstance(part, Tensor) else part for part in parts]
    if len(states) == 1:
        return states[0].to(device, copy=True)
    if reduction is dim_zero_cat:
        return torch.cat([state.to(device) for state in states])
    shape = max((state.shape for state in states), key=len)  # torchmetrics 1.7 has () beside (1,)
    stacked = torch.stack([state.to(device).reshape(shape) for state in states])
    return stacked if reduction is None else reduction(stacked)


def merge_over_ranks(statistic: S) -> S:
    """Gather a statistic from every rank of the default process group and merge them, alike on each rank."""
    merged = statistic.fresh()
    for state in gather_from_ranks(statistic.state()):
        merged.merge_state(state)
    return merged


def squeeze(value: Any) -> Any:
    """Return a value in which every tensor of one element is a scalar, as torchmetrics does."""
    if isinstance(value, Tensor):
        return value.squeeze() if value.ndim and value.numel() == 1 else value
    if type(value) is dict:
        return {name: squeeze(part) for name, part in value.items()}
    return type(value)(map(squeeze, value)) if type(value) in (list, tuple) else value


def put_foreign_bases_first(cls: type, base: type) -> None:
    """Reorder the bases of a class to `class M(MeanSquaredError, Metric)` if they are the other way round.

    Behind `Metric`, the `update` of a metric of torchmetrics would never be called, but its `compute` would.

    Args:
        cls: the class that is being created.
        base: the base of this package whose `update` hides the other.
    """
    update, compute = (_definer(cls, name) for name in ("update", "compute"))
    if update is base and compute is not None and _is_foreign(compute):
        first = next(place for place, one in enumerate(cls.__bases__) if issubclass(one, StatefulMetric))
        behind = sorted(cls.__bases__[first:], key=lambda one: not _is_foreign(one))
        cls.__bases__ = (*cls.__bases__[:first], *behind)


def _definer(cls: type, name: str) -> type | None:
    """Return the class from which a class inherits an attribute, whether it overrides it or not."""
    return next((one for one in cls.__mro__[1:] if name in vars(one)), None)


def _is_foreign(cls: type) -> bool:
    """Return whether a class is a torchmetrics.Metric from outside this package."""
    own = issubclass(cls, StatefulMetric) or cls is torchmetrics.Metric
    return issubclass(cls, torchmetrics.Metric) and not own


def _is_of_torchmetrics(cls: type) -> bool:
    """Return whether a class inherits the states of a metric of torchmetrics."""
    bases = (base for base in cls.__mro__ if issubclass(base, torchmetrics.Metric))
    return any(
        base.__module__.startswith("torchmetrics.") for base in bases if base is not torchmetrics.Metric
    )


def _check_constant(states: Tensor) -> Tensor:
    """Return the state that all metrics to merge share.

    Raises:
        StateError: their states differ.
    """
    if not bool((states == states[0]).all()):
        raise StateError(
            f"only metrics with the same settings can merge, got {states.tolist()} for one constant"
        )
    return states[0]
