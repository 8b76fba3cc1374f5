"""Wrap a torchmetrics.Metric, a scikit-learn scorer or a plain function as a metric in one line."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torchmetrics
from torchmetrics.wrappers import Running

from ..direction import MAXIMIZE, MINIMIZE, UNSTATED, Direction
from ..exceptions import DirectionError, MetricNameError, RegistrationError
from .features import LOGITS, PREDICTIONS, PROBABILITIES, InputType, OutputFeature, parse_feature
from .metric import Metric
from .registry.ludwig_names import one_direction
from .registry.names import MetricName
from .wrappers import PooledFunction, RowFunction, WrappedMetric

_TARGET_FIRST = ("y_true", "target", "targets", "actual", "labels")
_RESPONSES = {"predict": PREDICTIONS, "predict_proba": PROBABILITIES, "decision_function": LOGITS}


def as_metric(
    source: Any,
    *,
    direction: Direction | str | None = UNSTATED,
    inputs: InputType | str = UNSTATED,
    name: str | None = None,
    output: OutputFeature | str | None = None,
    per_row: bool = False,
    component: str | int | None = None,
    objective: Direction | str | None = UNSTATED,
) -> Metric:
    """Create a metric from a source.

    A source is one of these:

    - a torchmetrics.Metric, or its class if it needs no arguments. It is copied. The direction that it
      states is not read: too often it is missing or wrong.
    - a scikit-learn scorer, as `make_scorer` returns it: its score function, with its natural value, on the
      pooled epoch. Direction and inputs are those of the scorer; arguments can only confirm them.
    - a function of `(preds, target)`, two tensors, called once on the pooled epoch. A first parameter named
      `y_true`, `target`, `targets`, `actual` or `labels` means scikit-learn's form: the target comes first,
      and both are NumPy arrays. Texts are lists in either form, and so are their references.

    Args:
        source: the object, class or function that measures.
        direction: `MINIMIZE`, `MAXIMIZE`, or None for a metric that is measured and never optimized.
        inputs: `PREDICTIONS`, `PROBABILITIES` or `LOGITS`.
        name: the name of the metric; by default that of the source.
        output: the output feature of the metric; a collection sets its own.
        per_row: the function returns one value per row, and the metric is their mean; nothing is pooled.
        component: the key or index of the number in a result that has several.
        objective: Ludwig's word for `direction`.

    Raises:
        DirectionError: the direction is missing, or is not that of the scorer.
        RegistrationError: the source cannot be wrapped, or its inputs are missing or not those of the scorer.

    >>> def within(preds, target, tolerance=0.5):
    ...     return ((preds - target).abs() <= tolerance).float()
    >>> metric = as_metric(within, direction=MAXIMIZE, inputs=PREDICTIONS, per_row=True)
    >>> metric.update([1.0, 2.0], [1.2, 4.0])
    >>> metric.name, metric.compute().item()
    ('within', 0.5)
    """
    own_name = _name_of(source)
    called = _parse_name(name or own_name)
    if per_row and (_is_scorer(source) or _is_torchmetric(source)):
        raise RegistrationError(
            f"{called}: per_row=True needs a plain function that returns one value per row"
        )
    read_facts = _scorer_facts if _is_scorer(source) else _stated_facts
    stated = one_direction(called, direction, objective)
    facts = {**read_facts(source, called, stated, inputs), "name": called, "component": component}
    metric = _wrapped(source, per_row, facts)
    if output is not None:
        metric.output = parse_feature(output)
    return metric


def _wrapped(source: Any, per_row: bool, facts: dict[str, Any]) -> Metric:
    if _is_torchmetric(source):
        return WrappedMetric(_inner_of(source), **facts)
    if _is_scorer(source):
        return PooledFunction(functools.partial(source._score_func, **source._kwargs), True, **facts)
    _check_arguments(source, facts["name"])
    return (RowFunction if per_row else PooledFunction)(source, _wants_target_first(source), **facts)


def _check_arguments(function: Callable[..., Any], name: str) -> None:
    """Raise, before an epoch is measured, if a function cannot be called with two tensors."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin without a signature
        return
    try:
        signature.bind(None, None)
    except TypeError as err:
        raise RegistrationError(
            f"{name}{signature} must be callable as {name}(preds, target): {err}; bind its other arguments "
            "with functools.partial"
        ) from err


def _is_scorer(source: Any) -> bool:
    return hasattr(source, "_score_func") and hasattr(source, "_sign")


def _is_torchmetric(source: Any) -> bool:
    return issubclass(source if isinstance(source, type) else type(source), torchmetrics.Metric)


def _inner_of(source: Any) -> torchmetrics.Metric:
    """Return the object to wrap: the source itself, or one of its class."""
    try:
        inner: torchmetrics.Metric = source() if isinstance(source, type) else source
    except (TypeError, ValueError) as err:
        name = source.__name__
        raise RegistrationError(
            f"{name} needs arguments; pass an object, as_metric({name}(...)): {err}"
        ) from err
    if isinstance(inner, Running):
        name, inside = type(inner).__name__, type(inner.base_metric).__name__
        raise RegistrationError(
            f"{name} keeps only the last {inner.window} batches, so its value depends on the batch size; "
            f"wrap its {inside}"
        )
    return inner


def _name_of(source: Any) -> str:
    """Return the name of the source itself."""
    if isinstance(source, functools.partial):
        return _name_of(source.func)
    if _is_scorer(source):
        return _name_of(source._score_func)
    if isinstance(source, Metric) or (isinstance(source, type) and issubclass(source, Metric)):
        raise RegistrationError(f"{source!r} is already a metric of this package; use it directly")
    if not callable(source) or (isinstance(source, type) and not _is_torchmetric(source)):
        raise RegistrationError(
            f"as_metric expects a torchmetrics.Metric, a scikit-learn scorer or a function, got {source!r}; "
            "build a registered metric with get_metric(name)"
        )
    return str(getattr(source, "__name__", type(source).__name__))


def _parse_name(name: str) -> str:
    if "<lambda>" in name:
        raise RegistrationError("a lambda has no name; pass name=")
    try:
        return str(MetricName.parse(name))
    except MetricNameError as err:
        raise RegistrationError(f"name={name!r}: {err}") from err


def _stated_facts(source: Any, name: str, direction: Any, inputs: Any) -> dict[str, Any]:
    """Return the facts of the arguments; there are no defaults, and those of torchmetrics are not read."""
    if direction is UNSTATED:
        raise DirectionError(f"{name}: pass direction=MINIMIZE, MAXIMIZE or None (measured, never optimized)")
    parsed = None if direction is None else Direction.parse(direction)
    return {"direction": parsed, "inputs": _input_type(inputs, name)}


def _input_type(inputs: Any, name: str) -> InputType:
    try:
        return InputType(str(inputs).lower())
    except ValueError:
        received = "" if inputs is UNSTATED else f", got {inputs!r}"
        raise RegistrationError(
            f"{name}: pass inputs=PREDICTIONS, PROBABILITIES or LOGITS{received}"
        ) from None


def _scorer_facts(scorer: Any, name: str, requested: Any, inputs: Any) -> dict[str, Any]:
    """Return the direction and inputs of a scorer, with which the arguments must agree."""
    own = MAXIMIZE if scorer._sign > 0 else MINIMIZE
    direction = own if requested is UNSTATED else requested and Direction.parse(requested)
    if direction not in (own, None):
        raise DirectionError(f"{name}: the sign of the scorer means {own}, but direction= is {direction}")
    responses = scorer._response_method
    methods = [responses] if isinstance(responses, str) else list(responses)
    readable = [_RESPONSES[method] for method in methods if method in _RESPONSES]
    if not readable:
        raise RegistrationError(f"{name}: no metric reads the input of a scorer of {' or '.join(methods)}")
    if inputs is UNSTATED:  # probabilities can be had from either of the two that some scorers take
        return {"direction": direction, "inputs": PROBABILITIES if PROBABILITIES in readable else readable[0]}
    input_type = _input_type(inputs, name)
    if input_type not in readable:
        raise RegistrationError(
            f"{name}: the scorer reads {' or '.join(readable)}, but inputs= is {input_type}"
        )
    return {"direction": direction, "inputs": input_type}


def _wants_target_first(function: Callable[..., Any]) -> bool:
    try:
        names = list(inspect.signature(function).parameters)
    except ValueError:  # a builtin without a signature
        return False
    return bool(names) and names[0] in _TARGET_FIRST
