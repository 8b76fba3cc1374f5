"""Wrapping: a torchmetrics.Metric, a scikit-learn scorer or a plain function becomes a metric of this package."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torchmetrics
from torch import Tensor
from torchmetrics.utilities.data import dim_zero_cat

from ..exceptions import MetricInputError, MetricNameError, ObjectiveError, RegistrationError, StateError
from ..objective import MAXIMIZE, MINIMIZE, Objective
from .facts import UNSTATED
from .features import LOGITS, PREDICTIONS, PROBABILITIES, InputType, OutputFeature, parse_feature
from .metric import MeanMetric, Metric
from .names import MetricName
from .outputs import as_tensor

Function = Callable[..., Any]
Part = dict[str, dict[str, Any]]

_TARGET_FIRST = ("y_true", "target", "targets", "actual", "labels")
_RESPONSES = {"predict": PREDICTIONS, "predict_proba": PROBABILITIES, "decision_function": LOGITS}
_REFUSALS = (
    ValueError,
    TypeError,
    RuntimeError,
    IndexError,
)  # what torchmetrics raises for a batch it cannot take


def as_metric(
    source: Any,
    *,
    objective: Objective | str | None = UNSTATED,
    inputs: InputType | str = UNSTATED,
    name: str | None = None,
    output: OutputFeature | str | None = None,
    per_row: bool = False,
    component: str | int | None = None,
) -> Metric:
    """Make a metric of something that measures.

    Args:
        source: one of
            - a torchmetrics.Metric, or its class if it needs no arguments. It is copied. What it says of its own
              direction is not read: it is missing or wrong for one class in six.
            - a scikit-learn scorer (`make_scorer(...)`): its score function on the pooled epoch, with its natural
              value; direction and inputs are the scorer's, and may be stated only to say the same.
            - a function of `(preds, target)` tensors, called once on the pooled epoch. A first parameter called
              `y_true`, `target`, `targets`, `actual` or `labels` says scikit-learn's form: the target comes first,
              and both are NumPy arrays.
        objective: `MINIMIZE`, `MAXIMIZE`, or None for a metric that is measured and never optimised.
        inputs: `PREDICTIONS`, `PROBABILITIES` or `LOGITS`.
        name: what it is called; the source's own name if not given.
        output: the output feature it serves; a collection gives its own.
        per_row: the function gives one value per row, and the metric is their mean; nothing is pooled.
        component: the key or index of the number in a result that has several.

    Raises:
        ObjectiveError: the direction is missing, or is not the scorer's.
        RegistrationError: the source cannot be wrapped, or its inputs are missing or are not the scorer's.

    >>> def within(preds, target, tolerance=0.5):
    ...     return ((preds - target).abs() <= tolerance).float()
    >>> metric = as_metric(within, objective=MAXIMIZE, inputs=PREDICTIONS, per_row=True)
    >>> metric.update(torch.tensor([1.0, 2.0]), torch.tensor([1.2, 4.0]))
    >>> metric.name, metric.compute().item()
    ('within', 0.5)
    """
    called = _checked_name(name or _name_of(source))
    if _is_scorer(source):
        facts = _scorer_facts(source, called, objective, inputs)
    else:
        facts = {"objective": _stated_objective(objective, called), "inputs": _stated_inputs(inputs, called)}
    if per_row and (_is_scorer(source) or not _is_function(source)):
        raise RegistrationError(
            f"{called}: per_row=True is for a plain function that gives one value per row"
        )
    metric = _wrapped(source, per_row, {**facts, "name": called, "component": component})
    if output is not None:
        metric.output = parse_feature(output)
    return metric


class Wrapped(Metric):
    """A metric whose facts belong to the object, not to its class."""

    objective: Objective | None  # type: ignore[misc]
    inputs: InputType  # type: ignore[misc]

    def __init__(
        self,
        *,
        objective: Objective | None,
        inputs: InputType,
        name: str,
        component: str | int | None,
    ) -> None:
        super().__init__()
        self.objective, self.inputs, self.name, self.component = objective, inputs, name, component

    def get_objective(self) -> Objective | None:  # type: ignore[override]
        """Which way is better; None if it was said to have no direction."""
        return self.objective

    def get_inputs(self) -> InputType:  # type: ignore[override]
        """Which model output it reads."""
        return self.inputs

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]
        """The objective in torchmetrics' words."""
        return None if self.objective is None else self.objective is MAXIMIZE

    def merge(self, other: Metric) -> None:
        """Take in what another one has measured; the other one stays as it is.

        Raises:
            StateError: the other one wraps something else.
        """
        if isinstance(other, Wrapped) and self._source() != other._source():
            raise StateError(f"{self.name} merges only with its own kind, got {other.name}")
        super().merge(other)

    def _source(self) -> Any:
        """What is compared to tell whether two wrap the same."""
        return self.name

    def _picked(self, result: Any) -> Any:
        """Take the named component of a result."""
        if self.component is None:
            return result
        try:
            return result[self.component]
        except (KeyError, IndexError, TypeError) as err:
            raise MetricInputError(
                f"{self.name} has no component {self.component!r}; its result has {_listing(result)}"
            ) from err

    def _scalar(self, result: Any) -> Tensor:
        """Take the one number of a result; nan with a reason if it is nan.

        Raises:
            MetricInputError: the result is not one number; the message lists what there is.
        """
        value = self._picked(result)
        if not isinstance(value, Mapping | list | tuple) and as_tensor(value).numel() == 1:
            number = as_tensor(value).double().reshape(())
            return self.undefined(f"{self.name} gave nan") if number.isnan() else number
        raise MetricInputError(
            f"{self.name} gives {_listing(value)}; component= says which is the value, as in component={_first(value)!r}"
        )


class WrappedMetric(Wrapped):
    """A torchmetrics.Metric. What is merged in is kept apart, and joined at `compute` as torchmetrics joins ranks."""

    def __init__(self, inner: torchmetrics.Metric, **facts: Any) -> None:
        super().__init__(**facts)
        self.inner = inner.clone()
        self.inner.reset()
        self._parts: list[Part] = []
        for _, module in _metrics_in(self.inner):
            module.persistent(False)  # saved once, with the parts

    def update(self, preds: Any, target: Any, **extras: Any) -> None:
        """Hand a batch to the wrapped metric, copied if it keeps rows; a refused one leaves no trace."""
        if any(isinstance(state, list) for _, m in _metrics_in(self.inner) for state in m._defaults.values()):
            preds, target = preds.clone(), target.clone()
        before = self.snapshot()
        try:
            self.inner.update(preds, target, **extras)
        except _REFUSALS as err:
            self.restore(before)
            raise MetricInputError(f"{self.name} refused the batch: {err}") from err

    def compute(self) -> Tensor:
        """Take the wrapped metric's value over everything measured here and merged in."""
        parts = self.own_state()["parts"]
        if not parts:
            return self.undefined("nothing was measured")
        inner = self._joined(parts) if self._parts else self.inner
        for _, module in _metrics_in(inner):
            module._to_sync = self._to_sync
            module._computed = None
        return self._scalar(inner.compute())

    @property
    def reader(self) -> Function:
        """The wrapped `update` says which extras it wants."""
        return type(self.inner).update

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add one batch and return the value of that batch alone."""
        alone = self.alone()
        alone._to_sync = self.dist_sync_on_step
        alone.update(*args, **kwargs)
        self.update(*args, **kwargs)
        return alone.compute()

    def own_state(self) -> dict[str, Any]:
        """Everything measured here and merged in, a part for each."""
        own = _read(self.inner)
        return {"parts": [*self._parts, *([own] if own[""]["updates"] else [])]}

    def merge_own(self, state: Mapping[str, Any], updates: int) -> None:
        """Keep the parts of another one beside what is measured here."""
        self._parts.extend(state["parts"])
        self.count(updates)

    def snapshot(self) -> dict[str, Any]:
        """What `restore` takes back."""
        return {"parts": list(self._parts), "inner": _read(self.inner)}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Put back what `snapshot` gave."""
        self._parts = snapshot["parts"]
        _write(self.inner, snapshot["inner"])

    def reset_own(self) -> None:
        """Forget everything measured."""
        super().reset_own()
        self.inner.reset()
        self._parts = []

    def get_extra_state(self) -> dict[str, Any]:
        """What `state_dict` holds: the parts, as plain tensors."""
        return {**super().get_extra_state(), **self.own_state()}

    def set_extra_state(self, state: Any) -> None:
        """Load what `get_extra_state` gave."""
        super().set_extra_state(state)
        self.inner.reset()
        self._parts = list(state["parts"])

    def _source(self) -> Any:
        return self.name, type(self.inner)

    def _joined(self, parts: list[Part]) -> torchmetrics.Metric:
        """Return a copy of the wrapped metric that holds all parts."""
        joined = self.inner.clone()
        paths = {path: module._reductions for path, module in _metrics_in(joined)}
        try:
            _write(joined, {
                path: {
                    "updates": sum(part[path]["updates"] for part in parts),
                    "states": {
                        name: _join([part[path]["states"][name] for part in parts], reduction, self.device)
                        for name, reduction in reductions.items()
                    },
                }
                for path, reductions in paths.items()
            })  # fmt: skip
        except _REFUSALS as err:
            raise StateError(f"{self.name}: what was merged in does not fit together: {err}") from err
        return joined


class PooledFunction(Wrapped):
    """A function of all rows of the epoch; they are copied batch by batch and kept."""

    preds: list[Tensor]
    target: list[Tensor]

    def __init__(self, function: Function, target_first: bool, **facts: Any) -> None:
        super().__init__(**facts)
        self.function, self.target_first = function, target_first
        self.add_state("preds", [], dist_reduce_fx="cat")
        self.add_state("target", [], dist_reduce_fx="cat")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Keep a copy of the rows.

        Raises:
            MetricInputError: they are of another width than those kept.
        """
        for name, kept, rows in (("outputs", self.preds, preds), ("targets", self.target, target)):
            if kept and kept[0].shape[1:] != rows.shape[1:]:
                raise MetricInputError(
                    f"{self.name} pools the rows of the epoch: {name} before had shape (N, *{tuple(kept[0].shape[1:])}), "
                    f"these have {tuple(rows.shape)}"
                )
        self.preds.append(preds.clone())
        self.target.append(target.clone())

    def compute(self) -> Tensor:
        """Call the function once."""
        if len(self.preds) == 0:
            return self.undefined("nothing was measured")
        return self._scalar(
            _called(self.function, dim_zero_cat(self.preds), dim_zero_cat(self.target), self.target_first)
        )

    def own_state(self) -> dict[str, Any]:
        """The rows kept, in lists of their own."""
        return {"preds": list(self.preds), "target": list(self.target)}

    def merge_own(self, state: Mapping[str, Any], updates: int) -> None:
        """Append the rows of another one."""
        for name in ("preds", "target"):
            getattr(self, name).extend(rows.to(self.device) for rows in state[name])
        self.count(updates)


class RowFunction(Wrapped, MeanMetric):
    """The mean of a function's values, one per row."""

    def __init__(self, function: Function, target_first: bool, **facts: Any) -> None:
        super().__init__(**facts)
        self.function, self.target_first = function, target_first

    def get_current_value(self, preds: Tensor, target: Tensor) -> Tensor:
        """Call the function on the rows of a batch.

        Raises:
            MetricInputError: it does not give one value per row.
        """
        value = as_tensor(self._picked(_called(self.function, preds, target, self.target_first)))
        if value.shape != target.shape[:1]:
            raise MetricInputError(
                f"{self.name} with per_row=True gives one value for each of {len(target)} rows, "
                f"got shape {tuple(value.shape)}"
            )
        return value


def _wrapped(source: Any, per_row: bool, facts: dict[str, Any]) -> Metric:
    if _is_scorer(source):
        return PooledFunction(functools.partial(source._score_func, **source._kwargs), True, **facts)
    if _is_function(source):
        return (RowFunction if per_row else PooledFunction)(source, _wants_target_first(source), **facts)
    return WrappedMetric(_instance(source), **facts)


def _instance(source: Any) -> torchmetrics.Metric:
    if isinstance(source, torchmetrics.Metric):
        return source
    try:
        return source()  # type: ignore[no-any-return]
    except (TypeError, ValueError) as err:
        name = source.__name__
        raise RegistrationError(
            f"{name} needs arguments: pass an object, as_metric({name}(...), ...): {err}"
        ) from err


def _name_of(source: Any) -> str:
    """The source's own name.

    Raises:
        RegistrationError: it is nothing that can be wrapped, or has no name.
    """
    if isinstance(source, Metric) or (isinstance(source, type) and issubclass(source, Metric)):
        raise RegistrationError(f"{source!r} is a metric of this package already; use it as it is")
    if isinstance(source, functools.partial):
        return _name_of(source.func)
    if _is_scorer(source):
        return str(source._score_func.__name__)
    if not callable(source) or (isinstance(source, type) and not issubclass(source, torchmetrics.Metric)):
        raise RegistrationError(
            f"as_metric takes a torchmetrics.Metric, a scikit-learn scorer or a function, got {source!r}; "
            "get_metric(name) builds a registered metric"
        )
    return str(getattr(source, "__name__", type(source).__name__))


def _checked_name(name: str) -> str:
    if "<lambda>" in name:
        raise RegistrationError("a lambda has no name; give name=")
    try:
        return str(MetricName.parse(name))
    except MetricNameError as err:
        raise RegistrationError(f"name={name!r}: {err}") from err


def _is_scorer(source: Any) -> bool:
    return hasattr(source, "_score_func") and hasattr(source, "_sign")


def _is_function(source: Any) -> bool:
    return not isinstance(source, type) and not isinstance(source, torchmetrics.Metric)


def _stated_objective(objective: Any, name: str) -> Objective | None:
    if objective is UNSTATED:
        raise ObjectiveError(f"{name}: say objective=MINIMIZE, MAXIMIZE or None (measured, never optimised)")
    return None if objective is None else Objective.parse(objective)


def _stated_inputs(inputs: Any, name: str) -> InputType:
    try:
        return InputType(str(inputs).lower())
    except ValueError:
        said = "" if inputs is UNSTATED else f", got {inputs!r}"
        raise RegistrationError(f"{name}: say inputs=PREDICTIONS, PROBABILITIES or LOGITS{said}") from None


def _scorer_facts(scorer: Any, name: str, objective: Any, inputs: Any) -> dict[str, Any]:
    """Read a scorer's direction and inputs; what is stated beside must agree."""
    own = MAXIMIZE if scorer._sign > 0 else MINIMIZE
    stated = own if objective is UNSTATED else _stated_objective(objective, name)
    if stated not in (own, None):
        raise ObjectiveError(f"{name}: the scorer's sign says {own}, objective= says {stated}")
    methods = (
        [scorer._response_method] if isinstance(scorer._response_method, str) else scorer._response_method
    )
    readable = [_RESPONSES[method] for method in methods if method in _RESPONSES]
    if inputs is not UNSTATED:
        asked = _stated_inputs(inputs, name)
        if asked not in readable:
            raise RegistrationError(f"{name}: the scorer reads {' or '.join(readable)}, inputs= says {asked}")
        readable = [asked]
    if not readable:
        raise RegistrationError(
            f"{name}: a scorer of {' or '.join(methods)} reads no output that a metric has"
        )
    return {"objective": stated, "inputs": PROBABILITIES if PROBABILITIES in readable else readable[0]}


def _wants_target_first(function: Function) -> bool:
    try:
        names = list(inspect.signature(function).parameters)
    except ValueError:  # a builtin without a signature
        return False
    return bool(names) and names[0] in _TARGET_FIRST


def _called(function: Function, preds: Tensor, target: Tensor, target_first: bool) -> Any:
    return function(_array(target), _array(preds)) if target_first else function(preds, target)


def _array(tensor: Tensor) -> Any:
    return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).cpu().numpy()


def _listing(result: Any) -> str:
    """What a result consists of, in words."""
    if isinstance(result, Mapping):
        return f"a dict of {', '.join(map(str, result))}"
    if isinstance(result, list | tuple):
        return f"a {type(result).__name__} of {len(result)}"
    try:
        shape = tuple(as_tensor(result).shape)
    except MetricInputError:
        return f"{result!r}, which is no number"
    return f"values of shape {shape}" if shape else "one number"


def _first(result: Any) -> Any:
    return next(iter(result), 0) if isinstance(result, Mapping) else 0


def _metrics_in(inner: torchmetrics.Metric) -> Iterator[tuple[str, torchmetrics.Metric]]:
    """The metric and those inside it, by path."""
    for path, module in inner.named_modules():
        if isinstance(module, torchmetrics.Metric):
            yield path, module


def _read(inner: torchmetrics.Metric) -> Part:
    return {
        path: {
            "updates": module._update_count,
            "states": {k: _copied(getattr(module, k)) for k in module._defaults},
        }
        for path, module in _metrics_in(inner)
    }


def _write(inner: torchmetrics.Metric, part: Part) -> None:
    for path, module in _metrics_in(inner):
        module._update_count = part[path]["updates"]
        module._computed = None
        for name, value in part[path]["states"].items():
            setattr(module, name, value)


def _copied(state: Tensor | list[Tensor]) -> Tensor | list[Tensor]:
    return list(state) if isinstance(state, list) else state.clone()  # rows in a list are never written to


def _join(states: list[Any], reduction: Function | None, device: torch.device) -> Any:
    """Join a state of several parts as torchmetrics joins that of several ranks."""
    if isinstance(states[0], list):
        return [rows.to(device) for state in states for rows in state]
    stacked = torch.stack([state.to(device) for state in states])
    return stacked if reduction is None else reduction(stacked)
