"""The dimensions of other tools, in their own spelling, as the line to write here.

W&B, Ludwig and KerasTuner write mappings. Hydra, Ray Tune, Optuna, hyperopt, scikit-optimize and ConfigSpace
write calls in a text, and so does this package in Python. Nothing is converted silently: a sweep file with
such a dimension is refused, and the error has its line.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..space.values import is_number
from .yaml_text import flow_yaml

_LOW = ("min", "lower", "low", "min_value")
_HIGH = ("max", "upper", "high", "max_value")
_OPTIONS = ("values", "categories", "choices", "options")
_KIND = ("distribution", "space", "sampling", "type")
_STEP = ("q", "step", "quantization")
_UNREADABLE = (
    SyntaxError,
    ValueError,
    TypeError,
    IndexError,
    RecursionError,
    MemoryError,
    OverflowError,
)
_INVERTED = ("inv_", "reverse_")  # a logarithm from the upper end, which no dimension has here
_LONGEST = 1000  # of a text that is read as a call


def line_of_mapping(value: Mapping[str, Any]) -> str | None:
    """Return the dimension that another tool's mapping means; empty if it is of another tool, but incomplete.

    >>> line_of_mapping({"values": [4, 8, 16]})
    '{choice: [4, 8, 16]}'
    >>> line_of_mapping({"distribution": "log_uniform_values", "min": 1e-4, "max": 0.1})
    '{float: [0.0001, 0.1], log: true}'
    >>> line_of_mapping({"space": "qrandn", "mean": 0, "sd": 1, "q": 0.5})
    '{normal: [0, 1], step: 0.5}'
    >>> line_of_mapping({"loguniform": [1e-4, 0.1]}), line_of_mapping({"uniform": "wide"})
    ('{float: [0.0001, 0.1], log: true}', '')
    """
    if (called := next((key for key in value if _call_named(key) is not None), None)) is not None:
        return _line_of_key(called, value)
    options, low, high, step = (_first(value, names) for names in (_OPTIONS, _LOW, _HIGH, _STEP))
    kind = str(_first(value, _KIND) or "").lower()
    if kind.startswith(_INVERTED):
        return ""
    if isinstance(options, list):
        return _line("choice", options, weights=value.get("probabilities"))
    mean, deviation = _first(value, ("mu", "mean", "loc")), _first(value, ("sigma", "sd", "std", "scale"))
    if is_number(mean) and is_number(deviation):
        return _line("normal", [mean, deviation], log="log" in kind, step=step)
    if not (is_number(low) and is_number(high)):
        return None
    if kind.removeprefix("q_") == "log_uniform":  # W&B's, whose bounds are exponents
        low, high = math.exp(min(low, 700)), math.exp(min(high, 700))
    log = "log" in kind or value.get("log") is True
    is_uniform = "uniform" in kind or "randint" in kind  # with steps, whole bounds mean whole numbers
    if is_uniform and step is None and (read := _call_named(kind)) is not None:
        return read([low, high], {"log": log})
    return _range(low, high, "float" if "float" in kind else "", log=log, step=step)


def line_of_text(text: str) -> str | None:
    """Return the dimension that a call of another tool means; None if the text is none, empty if incomplete.

    >>> line_of_text("tag(log, interval(1e-4, 1e-1))"), line_of_text("choice(sgd, adam)")
    ('{float: [0.0001, 0.1], log: true}', '{choice: [sgd, adam]}')
    >>> line_of_text("tune.randint(4, 33)"), line_of_text("sgd"), line_of_text("uniform(1)")
    ('{int: [4, 32]}', None, '')
    >>> line_of_text("hp.choice('size', [8, 16])"), line_of_text("suggest_int(1, 5)")
    ('{choice: [8, 16]}', '{int: [1, 5]}')
    """
    if "(" not in text or len(text) > _LONGEST:
        return None
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except _UNREADABLE:
        return None
    if not isinstance(call, ast.Call):
        return None
    try:
        return _line_of_call(call)
    except _UNREADABLE:
        return "" if _call_named(_name_of(call)) else None


def _name_of(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _line_of_key(called: str, value: Mapping[str, Any]) -> str:
    """Return the dimension of a mapping whose key is a call, as in `{uniform: [0, 1]}`."""
    read, given = _call_named(called), value[called]
    if isinstance(given, Mapping):
        given = [_first(given, names) for names in (_LOW, _HIGH)]
    facts = {"log": value.get("log"), "step": _first(value, _STEP)}
    try:
        arguments = list(given) if isinstance(given, list) else [given]
        arguments = _without_name(arguments) if called.startswith("suggest_") else arguments
        return (
            read and read(arguments, {key: fact for key, fact in facts.items() if fact is not None})
        ) or ""
    except _UNREADABLE:
        return ""


def _line_of_call(call: ast.Call, **facts: Any) -> str | None:
    """Return the dimension of a call; `facts` are those of the calls around it: `kind`, `log`, `step`."""
    name = _name_of(call)
    facts |= _facts_of(call.keywords)
    if name in ("tag", "int", "float", "sort", "shuffle"):  # Hydra's, around another
        inner = next((part for part in call.args if isinstance(part, ast.Call)), None)
        if any(isinstance(part, ast.Name) and part.id == "log" for part in call.args):
            facts["log"] = True
        if name in ("int", "float"):
            facts["kind"] = name
        return None if inner is None else _line_of_call(inner, **facts)
    is_hyperopt = isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") == "hp"
    read = _HYPEROPT.get(name) if is_hyperopt else _call_named(name)
    if read is None:
        return None
    arguments = [_literal(part) for part in call.args]
    if is_hyperopt or name.startswith("suggest_") or name in _CLASSES:
        arguments = _without_name(arguments)
    if len(arguments) == 1 and isinstance(arguments[0], tuple):
        arguments = list(arguments[0])
    words = {word.arg: word.value for word in call.keywords}
    arguments += [_literal(words[key]) for key in (*_LOW, *_HIGH, *_OPTIONS) if key in words]
    return read(arguments, facts) or ""


def _facts_of(keywords: Sequence[ast.keyword]) -> dict[str, Any]:
    """Return `log` and `step` of a call, which some tools state as `prior`, `sampling` or `q`.

    Raises:
        ValueError: a value is not a literal, or has no dimension here.
    """
    facts: dict[str, Any] = {}
    for word in keywords:
        if word.arg in ("log", *_STEP):
            facts["log" if word.arg == "log" else "step"] = _literal(word.value)
        elif word.arg in ("prior", "sampling"):
            scale = str(_literal(word.value))
            if scale.startswith(_INVERTED):
                raise ValueError(scale)
            facts["log"] = "log" in scale
    return facts


def _without_name(arguments: list[Any]) -> list[Any]:
    """Return arguments without the name of the param in front of them."""
    first, second = (*arguments[:2], None, None)[:2]
    return arguments[isinstance(first, str) and not isinstance(second, str) :]


def _call_named(name: str) -> Callable[..., str | None] | None:
    """Return the reader of the calls of a name, also as W&B spells it: `log_uniform_values`."""
    return _CALLS.get(name) or _CALLS.get(name.removesuffix("_values").replace("_", ""))


def _literal(node: ast.expr) -> Any:
    """Return the value of a literal, the name of a name, as Hydra writes texts, and that of `log(...)`."""
    if isinstance(node, ast.Call) and _name_of(node) == "log":
        return math.log(ast.literal_eval(node.args[0]))
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)


def _options(arguments: Sequence[Any], facts: Mapping[str, Any]) -> str | None:
    options = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], list) else arguments
    return _line("choice", list(options)) if options else None


def _ranged(
    kind: str = "float", *, log: bool = False, below: bool = False, steps: bool = False
) -> Callable[..., str | None]:
    """Create the reader of a call (low, high).

    Args:
        kind: that of the dimension.
        log: whether it is drawn evenly in the exponent.
        below: whether the upper end is left out.
        steps: whether a third argument is the step.
    """

    def read(arguments: Sequence[Any], facts: Mapping[str, Any]) -> str | None:
        low, high, *rest = arguments
        step = facts.get("step", rest[0] if steps and rest else None)
        is_log = log or facts.get("log") is True
        return _range(low, high - 1 if below else high, facts.get("kind", kind), log=is_log, step=step)

    return read


def _hydra_range(arguments: Sequence[Any], facts: Mapping[str, Any]) -> str | None:
    """Read Hydra's range, whose end its Optuna sweeper includes, and whose step is 1 unless given."""
    low, high, *rest = arguments if len(arguments) > 1 else (0, *arguments)
    step = facts.get("step", rest[0] if rest else 1)
    is_int = facts.get("kind") == "int" or all(isinstance(fact, int) for fact in (low, high, step))
    return _range(
        low, high, "int" if is_int else "float", log=False, step=None if is_int and step == 1 else step
    )


def _normal(arguments: Sequence[Any], facts: Mapping[str, Any]) -> str:
    step = facts.get("step", arguments[2] if len(arguments) > 2 else None)
    return _line("normal", list(arguments[:2]), log=facts.get("log") is True, step=step)


_CLASSES: Mapping[str, Callable[..., str | None]] = {
    **dict.fromkeys(("Float", "Real", "UniformFloat", "UniformFloatHyperparameter"), _ranged()),
    **dict.fromkeys(("Int", "Integer", "UniformInteger", "UniformIntegerHyperparameter"), _ranged("int")),
    **dict.fromkeys(("Choice", "Categorical", "CategoricalHyperparameter"), _options),
    "Normal": _normal,
}
"""Dimensions of this package in Python, of scikit-optimize and of ConfigSpace."""

_CALLS: Mapping[str, Callable[..., str | None]] = {
    "interval": _ranged(),
    "range": _hydra_range,
    "choice": _options,
    "grid_search": _options,
    "suggest_categorical": _options,
    "uniform": _ranged(),
    "quniform": _ranged(steps=True),
    "loguniform": _ranged(log=True),
    "qloguniform": _ranged(log=True, steps=True),
    "randint": _ranged("int", below=True),
    "qrandint": _ranged("int", steps=True),
    "lograndint": _ranged("int", log=True, below=True),
    "qlograndint": _ranged("int", log=True, steps=True),
    "randn": _normal,
    "qrandn": _normal,
    "suggest_float": _ranged(),
    "suggest_int": _ranged("int"),
    "suggest_uniform": _ranged(),
    "suggest_loguniform": _ranged(log=True),
    **_CLASSES,
}
"""Calls of Hydra's Optuna sweeper, `ray.tune` and Optuna, and the classes above."""


def _exponents(steps: bool = False) -> Callable[..., str | None]:
    """Create the reader of hyperopt's logarithmic ranges, whose bounds are exponents of e."""

    def read(arguments: Sequence[Any], facts: Mapping[str, Any]) -> str | None:
        low, high, *rest = arguments
        low, high = (float(f"{math.exp(bound):.6g}") for bound in (low, high))
        return _range(low, high, "float", log=True, step=rest[0] if steps else None)

    return read


def _below(arguments: Sequence[Any], facts: Mapping[str, Any]) -> str | None:
    """Read hyperopt's randint, whose lower bound is 0 unless given."""
    low, high = arguments if len(arguments) > 1 else (0, *arguments)
    return _range(low, high - 1, "int", log=False, step=None)


_HYPEROPT: Mapping[str, Callable[..., str | None]] = {
    "choice": _options,
    "uniform": _ranged(),
    "quniform": _ranged(steps=True),
    "uniformint": _ranged("int"),
    "randint": _below,
    "loguniform": _exponents(),
    "qloguniform": _exponents(steps=True),
    "normal": _normal,
    "qnormal": _normal,
    "lognormal": lambda arguments, facts: _line("normal", list(arguments[:2]), log=True),
    "Int": _ranged("int"),
    "Float": _ranged(),
    "Choice": _options,
}
"""Calls of `hp`, hyperopt's and KerasTuner's."""


def _range(low: Any, high: Any, kind: str, *, log: bool, step: Any) -> str | None:
    if not (is_number(low) and is_number(high)):
        return None
    whole = all(isinstance(fact, int) for fact in (low, high, step) if fact is not None)
    return _line(kind or ("int" if whole else "float"), [low, high], log=log, step=step)


def _line(kind: str, value: Any, *, log: bool = False, step: Any = None, weights: Any = None) -> str:
    more = {"log": log or None, "step": step, "weights": weights}
    parts = {kind: value, **{name: fact for name, fact in more.items() if fact is not None}}
    return flow_yaml(parts)


def _first(value: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((value[name] for name in names if name in value), None)
