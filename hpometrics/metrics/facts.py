"""Facts: what a metric class says of itself, wherever it says it, read once at registration."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ..exceptions import MetricNameError, ObjectiveError, RegistrationError
from ..objective import Objective
from .features import InputType
from .names import Scalar

UNSTATED: Any = type("Unstated", (), {"__repr__": lambda self: "unstated"})()

_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_KINDS: dict[Any, str] = {int: "int", float: "float", bool: "bool", str: "str"}


@dataclass(frozen=True)
class Param:
    """One parameter of a metric: `average` of `f1(average=macro)`, `k` of `hits@5`."""

    name: str
    kind: str = "str"
    default: Scalar | None = None
    required: bool = False
    choices: tuple[str, ...] = ()

    def check(self, value: Scalar, owner: str) -> Scalar:
        """Return `value` in the parameter's own type.

        Raises:
            MetricNameError: the value is of another type or none of the choices.
        """
        if self.choices and value not in self.choices:
            close = get_close_matches(str(value), self.choices, 1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise MetricNameError(
                f"{owner}: {self.name} is one of {', '.join(self.choices)}, got {value!r}.{hint}"
            )
        if self.kind == "float" and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if self.kind in _KINDS.values() and _KINDS[type(value)] != self.kind:
            raise MetricNameError(f"{owner}: {self.name} is {self.kind}, got {value!r}")
        return value


@dataclass(frozen=True)
class Facts:
    """Everything the registry needs to know of a class."""

    objective: Objective | None
    inputs: InputType
    params: tuple[Param, ...]
    summary: str
    value: str
    source: str


def facts_of(cls: type, name: str, objective: Any = UNSTATED, inputs: Any = UNSTATED) -> Facts:
    """Gather a class's facts and write the two agreed ones back to it.

    Raises:
        RegistrationError: a malformed name, a fact that is missing, or two statements that disagree.
    """
    if not _NAME.match(name):
        raise RegistrationError(
            f"a metric's name is lower case, [a-z][a-z0-9_]*, got {name!r} for {cls.__qualname__}"
        )
    try:
        agreed = _agree(cls, name, "objective", objective)
        agreed = None if agreed is None else Objective.parse(agreed)
        read = InputType(_agree(cls, name, "inputs", inputs))
    except (ObjectiveError, ValueError) as err:
        raise (
            err
            if isinstance(err, RegistrationError)
            else RegistrationError(f"{name} ({cls.__qualname__}): {err}")
        ) from err
    _write(cls, "objective", agreed)
    _write(cls, "inputs", read)
    cls.higher_is_better = None if agreed is None else agreed is Objective.MAXIMIZE  # type: ignore[attr-defined]
    summary, value, source = _doc_of(cls)
    return Facts(agreed, read, _params_of(cls), summary, value, source)


def _write(cls: type, fact: str, value: Any) -> None:
    """Set the attribute, and the classmethod too where an inherited one would say something else."""
    setattr(cls, fact, value)
    method = getattr(cls, f"get_{fact}", None)
    if method is not None and method() != value:
        setattr(cls, f"get_{fact}", classmethod(lambda own: getattr(own, fact)))


def _agree(cls: type, name: str, fact: str, argument: Any) -> Any:
    """Collect every statement of a fact; one of them, if they agree."""
    stated = [(where, _plain(value)) for where, value in _statements(cls, fact, argument)]
    if not stated:
        wanted = (
            "MINIMIZE, MAXIMIZE or None" if fact == "objective" else "PREDICTIONS, PROBABILITIES or LOGITS"
        )
        raise RegistrationError(
            f"{name} ({cls.__qualname__}) states no {fact}; say {fact} = {wanted}: there is no default"
        )
    if len({value for _, value in stated}) > 1:
        said = " but ".join(f"{where} says {value}" for where, value in stated)
        raise RegistrationError(f"{name} ({cls.__qualname__}): its statements of {fact} disagree: {said}")
    return stated[0][1]


def _statements(cls: type, fact: str, argument: Any) -> Iterator[tuple[str, Any]]:
    """The decorator's word, and those of the class that speaks last: attribute, classmethod or both."""
    if argument is not UNSTATED:
        yield "register_metric", argument
    for base in cls.__mro__:
        attribute = vars(base).get(fact, UNSTATED)
        method = vars(base).get(f"get_{fact}")
        own_method = method is not None and not hasattr(
            getattr(method, "__func__", method), "reads_attribute"
        )
        if attribute is not UNSTATED:
            yield f"the attribute {fact}", attribute
        if own_method:
            yield f"get_{fact}()", getattr(cls, f"get_{fact}")()
        if attribute is not UNSTATED or own_method:
            return


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (Objective, InputType)):
        return value and value.value
    word = str(value).lower()
    return Objective.parse(word).value if word in {"min", "max", "minimise", "maximise"} else word


def _params_of(cls: type) -> tuple[Param, ...]:
    init = cls.__init__  # type: ignore[misc]
    named = [
        p for p in list(inspect.signature(init).parameters.values())[1:]
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name != "output"
    ]  # fmt: skip
    hints = get_type_hints(init) if named else {}
    return tuple(_param(p, hints.get(p.name)) for p in named)


def _param(parameter: inspect.Parameter, hint: Any) -> Param:
    choices = tuple(str(choice) for choice in get_args(hint)) if get_origin(hint) is Literal else ()
    required = parameter.default is parameter.empty
    default = None if required else parameter.default
    return Param(parameter.name, "str" if choices else _KINDS.get(hint, "any"), default, required, choices)


def _doc_of(cls: type) -> tuple[str, str, str]:
    text = inspect.getdoc(cls) or ""
    return text.partition("\n")[0], _section(text, "Value"), _section(text, "Source")


def _section(text: str, title: str) -> str:
    match = re.search(rf"^{title}: (.*(?:\n[ ]+\S.*)*)", text, re.MULTILINE)
    return " ".join(match[1].split()) if match else ""
