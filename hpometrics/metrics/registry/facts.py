"""The facts and parameters that a metric class states, read once, at registration or first use."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ..._text import did_you_mean
from ...direction import UNSTATED, Direction
from ...exceptions import DirectionError, MetricNameError, RegistrationError
from ..features import InputType
from .ludwig_names import METHODS, ReadableObjective, attributes_of, write_attributes
from .names import Scalar

_CATALOGUE = "hpometrics.metrics.catalogue."
_TITLES = "Shape Value Raises Formula Deviates Source Args"
_NUMBER = r"-?(?:inf|[0-9.]*[0-9])"
_RANGE = re.compile(
    rf"float (?:in [\[(](?P<low>{_NUMBER}), (?P<high>{_NUMBER})[\])]|from (?P<least>{_NUMBER})"
    rf"|up to (?P<most>{_NUMBER}))"
)
_SHARED = ("Args", "Shape", "Value", "Raises")  # what a family shares; the rest is each metric's own
_TITLE = re.compile(rf"(?P<title>{'|'.join(_TITLES.split())}):(?:\s+(?P<text>\S.*))?\Z")


@dataclass(frozen=True)
class Docstring:
    r"""The docstring of a metric: a sentence of meaning, prose, and titled sections.

    >>> docstring = Docstring.of_text("Right rows.\n\nOf rows.\nValue: float in [0, 1];\n    1 is best.")
    >>> docstring.summary, docstring.prose, docstring["Value"], docstring["Source"]
    ('Right rows.', 'Of rows.', 'float in [0, 1]; 1 is best.', '')
    """

    summary: str
    prose: str
    sections: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, title: str) -> str:
        return self.sections.get(title, "")

    @property
    def texts(self) -> dict[str, Any]:
        """The texts of an entry beside its summary: the prose as `docs`, and the sections by name."""
        titles = ("Shape", "Value", "Formula", "Raises", "Deviates", "Source")
        return {"docs": self.prose, **{title.lower(): self[title] for title in titles}}

    @classmethod
    def of(cls, thing: type) -> Docstring:
        """Parse the docstring of a class; sections that a family shares may come from its base classes."""
        own = cls.of_text(inspect.getdoc(thing) or "")
        inherited = [cls.of_text(inspect.cleandoc(base.__doc__ or "")) for base in thing.__mro__[1:-1]]
        shared = {title: next(filter(None, (base[title] for base in inherited)), "") for title in _SHARED}
        return replace(own, sections={**shared, **own.sections})

    @classmethod
    def of_text(cls, text: str) -> Docstring:
        """Parse a text up to its first example."""
        summary, _, rest = text.partition("\n")
        lines: dict[str, list[str]] = {"": []}
        title = ""
        for line in rest.splitlines():
            if line.startswith(">>>"):
                break
            started = _TITLE.match(line)
            if started:
                title = started["title"]
                line = started["text"] or ""
            elif line and not line[0].isspace():
                title = ""
            lines.setdefault(title, []).append(line)
        sections = {title: _join_paragraphs(content) for title, content in lines.items()}
        return cls(summary.strip(), sections.pop(""), sections)


def _join_paragraphs(lines: list[str]) -> str:
    """Join the lines of each paragraph; blank lines between paragraphs stay."""
    paragraphs = "\n".join(line.strip() for line in lines).split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in paragraphs if part.strip())


_CHOICES = {"direction": "MINIMIZE, MAXIMIZE or None", "inputs": "PREDICTIONS, PROBABILITIES or LOGITS"}
_TEXTS = ("texts", "references")  # what predictions and target are too, where they are strings
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


@dataclass(frozen=True, kw_only=True)
class Facts(ReadableObjective):
    """The facts of a class that the registry stores.

    The texts are those of its docstring. `one_of` names parameters of which exactly one is required,
    `extras` the further keyword arguments that it reads, `needs` those of them that it requires,
    `requires` the pip extra with the package that it is built on, `families` the groups to which it belongs.
    """

    direction: Direction | None
    inputs: InputType
    params: tuple[Param, ...] = ()
    one_of: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    requires: str | None = None
    reads_soft: bool = False
    families: tuple[str, ...] = ()
    summary: str = ""
    docs: str = ""
    shape: str = ""
    value: str = ""
    formula: str = ""
    raises: str = ""
    deviates: str = ""
    source: str = ""


def facts_of(cls: type, name: str, direction: Any = UNSTATED, inputs: Any = UNSTATED) -> Facts:
    """Collect the facts of a class and write its direction and inputs back to it.

    Raises:
        RegistrationError: the name is malformed, a fact is missing, or two statements disagree.
    """
    if not _NAME.match(name):
        raise RegistrationError(
            f"the name of a metric must be lower case, [a-z][a-z0-9_]*, got {name!r} for {cls.__qualname__}"
        )
    called = f"{name} ({cls.__qualname__})"
    arguments = {"direction": direction, "inputs": inputs}
    agreed = {fact: _agree_on(cls, called, fact, argument) for fact, argument in arguments.items()}
    for fact, value in agreed.items():
        _write(cls, fact, value)

    docstring, extras = Docstring.of(cls), _extras_of(cls)
    return Facts(
        direction=agreed["direction"],
        inputs=agreed["inputs"],
        params=(params := params_of(cls)),
        one_of=_one_of(cls, name, params),
        extras=tuple(extras),
        needs=tuple(extra for extra, needed in extras.items() if needed),
        requires=getattr(cls, "requires", None),
        reads_soft=bool(getattr(cls, "reads_soft", False)),
        families=_families_of(cls),
        summary=docstring.summary,
        **docstring.texts,
    )


def value_range(cls: type) -> tuple[float, float]:
    """Return the least and the greatest value of a metric, as its docstring states them, else infinity.

    >>> from hpometrics.metrics.registry.register import get_metric
    >>> [value_range(type(get_metric(name, of))) for name, of in [("ece", "binary"), ("mse", "number")]]
    [(0.0, 1.0), (0.0, inf)]
    """
    stated = _RANGE.match(Docstring.of(cls)["Value"])
    if stated is None:
        return -math.inf, math.inf
    low = stated["low"] or stated["least"] or "-inf"
    return float(low), float(stated["high"] or stated["most"] or "inf")


def write_facts(cls: type) -> None:
    """Write the direction and inputs that an unregistered class states to its attributes.

    Raises:
        RegistrationError: two statements disagree, or one has an unknown value.
    """
    facts = [fact for fact in _CHOICES if list(_statements(cls, fact, UNSTATED))]
    agreed = {fact: _agree_on(cls, cls.__qualname__, fact) for fact in facts}
    for fact, value in agreed.items():
        _write(cls, fact, value)


def unstated(called: str, fact: str) -> RegistrationError:
    """Return the error for a class that does not state a fact."""
    return RegistrationError(
        f"{called} does not state its {fact}, which has no default; set {fact} = {_CHOICES[fact]}"
    )


def _write(cls: type, fact: str, value: Any) -> None:
    """Set the attribute, and the classmethod too if an inherited one returns another value."""
    write_attributes(cls, fact, value)
    method = getattr(cls, METHODS[fact], None)
    if method is not None and method() != value:
        setattr(cls, METHODS[fact], classmethod(lambda own: getattr(own, fact)))
    if fact == "direction":
        cls.higher_is_better = None if value is None else value is Direction.MAXIMIZE  # type: ignore[attr-defined]


def _agree_on(cls: type, called: str, fact: str, argument: Any = UNSTATED) -> Any:
    """Return the value on which all statements of a fact agree."""
    statements = [(where, _plain(value)) for where, value in _statements(cls, fact, argument)]
    if not statements:
        raise unstated(called, fact)
    if len({value for _, value in statements}) > 1:
        listed = " but ".join(f"{where} says {value}" for where, value in statements)
        raise RegistrationError(f"{called}: its statements of {fact} contradict each other: {listed}")
    _, value = statements[0]
    try:
        return InputType(value) if fact == "inputs" else value and Direction.parse(value)
    except ValueError as err:
        raise RegistrationError(f"{called}: {err}") from err


def _statements(cls: type, fact: str, argument: Any) -> Iterator[tuple[str, Any]]:
    """Yield the statements of the decorator and of the most derived class that has any, with their place."""
    if argument is not UNSTATED:
        yield "register_metric", argument
    for base in cls.__mro__:
        attributes = list(attributes_of(base, fact))
        method = vars(base).get(METHODS[fact])
        own_method = method is not None and not hasattr(
            getattr(method, "__func__", method), "reads_attribute"
        )
        for name, value in attributes:
            yield f"the attribute {name}", value
        if own_method:
            yield f"{METHODS[fact]}()", getattr(cls, METHODS[fact])()
        if attributes or own_method:
            return


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (Direction, InputType)):
        return value and value.value
    try:
        return Direction.parse(value).value
    except DirectionError:
        return str(value).lower()


def _one_of(cls: type, name: str, params: tuple[Param, ...]) -> tuple[str, ...]:
    """Return the parameters of which exactly one is required."""
    names = tuple(getattr(cls, "one_of", ()))
    optional = {param.name for param in params if not param.required and param.default is None}
    if missing := [one for one in names if one not in optional]:
        raise RegistrationError(
            f"{name} ({cls.__qualname__}): one_of names {', '.join(missing)}, which must be a parameter "
            "with the default None"
        )
    return names


def _extras_of(cls: type) -> dict[str, bool]:
    """Return the further keyword arguments that the class reads, and whether each is required."""
    declared = getattr(cls, "extras", ())
    needed = getattr(cls, "needs", [extra for extra in declared if extra not in _TEXTS])
    declared_needs = {extra: extra in needed for extra in declared}
    readers = (vars(base).get(name) for base in cls.__mro__ for name in ("update", "get_current_value"))
    reader = next(filter(None, readers), None)
    read = [] if reader is None else list(inspect.signature(reader).parameters.values())[3:]
    by_signature = {
        p.name: p.default is p.empty for p in read if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }
    return {**declared_needs, **by_signature}


def _families_of(cls: type) -> tuple[str, ...]:
    """Return its groups: its `family`, its module and, in the catalogue, the folder of the module."""
    declared = getattr(cls, "family", ())
    own = (declared,) if isinstance(declared, str) else tuple(declared)
    folders = cls.__module__.removeprefix(_CATALOGUE).split(".")
    modules = folders if cls.__module__.startswith(_CATALOGUE) else folders[-1:]
    return tuple(dict.fromkeys((*own, *(name.lstrip("_") for name in reversed(modules)))))


_KINDS: dict[Any, str] = {int: "int", float: "float", bool: "bool", str: "str"}


@dataclass(frozen=True)
class Param:
    """One parameter of a metric: `average` of `f1(average=macro)`, `k` of `hits@5`.

    `argument` is its name in `__init__` if Python reserves the word: `class` of `f1(class=3)` is the argument
    `class_`.
    """

    name: str
    kind: str = "str"
    default: Scalar | None = None
    required: bool = False
    choices: tuple[str, ...] = ()
    argument: str = ""

    @property
    def keyword(self) -> str:
        """The keyword of `__init__`, and the attribute that has the value."""
        return self.argument or self.name

    def check(self, value: Scalar, owner: str) -> Scalar:
        """Return `value` in the type of the parameter.

        Raises:
            MetricNameError: the value is of another type or not one of the choices.
        """
        if value is None and self.default is None and not self.required:
            return value
        if self.choices and str(value) not in self.choices:
            raise MetricNameError(
                f"{owner}: {self.name} must be one of {', '.join(self.choices)}, got {value!r}"
                f"{did_you_mean(value, self.choices)}"
            )
        if self.kind == "float" and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if self.kind in _KINDS.values() and _KINDS.get(type(value)) != self.kind:
            raise MetricNameError(f"{owner}: {self.name} is {self.kind}, got {value!r}")
        if self.name == "k" and isinstance(value, int) and value < 1:
            raise MetricNameError(f"{owner}: k must be a whole number of at least 1, got {value}")
        return value

    @property
    def settings(self) -> tuple[Scalar, ...]:
        """Its choices in its type."""
        return tuple(int(choice) if self.kind == "int" else choice for choice in self.choices)

    @property
    def example(self) -> Scalar:
        """A value that can stand in an example."""
        if self.choices:
            return "macro" if "macro" in self.choices else self.settings[0]
        return _EXAMPLES.get(self.kind, "a")


_NOT_OF_A_NAME = ("output", "dist_sync_on_step")
"""Arguments of `__init__` that are not parameters: the output feature, and when torchmetrics synchronizes."""

_EXAMPLES: dict[str, Scalar] = {"int": 2, "float": 0.5, "bool": True}


def params_of(cls: type) -> tuple[Param, ...]:
    """Return the parameters of the `__init__` of a class, without a trailing underscore in their names."""
    init = cls.__init__  # type: ignore[misc]
    parameters = [
        p for p in list(inspect.signature(init).parameters.values())[1:]
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name not in _NOT_OF_A_NAME
    ]  # fmt: skip
    hints = get_type_hints(init) if parameters else {}
    return tuple(_param(p, hints.get(p.name)) for p in parameters)


def keyword_parameters(table: Mapping[str, Any]) -> list[inspect.Parameter]:
    """Return the parameters that a table writes as name -> default.

    A type has no default, None is that of an optional integer, and a tuple has the choices, its first the
    default.
    """
    return [_keyword_parameter(name, value) for name, value in table.items()]


def _keyword_parameter(name: str, value: Any) -> inspect.Parameter:
    hint: Any = type(value)
    if isinstance(value, tuple):
        hint, value = Literal[value], value[0]
    elif value is None:
        hint = int | None
    elif isinstance(value, type):
        hint, value = value, inspect.Parameter.empty
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=hint)


def write_signature(init: Any, parameters: Sequence[inspect.Parameter]) -> inspect.Signature:
    """Write the signature of an `__init__` to it, where `params_of` reads it, and return the signature."""
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    signature = init.__signature__ = inspect.Signature([own, *parameters])
    init.__annotations__ = {one.name: one.annotation for one in parameters}
    return signature


def _param(parameter: inspect.Parameter, hint: Any) -> Param:
    types = _alternatives(hint)
    literals = [choice for one in types if get_origin(one) is Literal for choice in get_args(one)]
    choices = tuple(dict.fromkeys(str(choice) for choice in literals if choice is not None))
    required = parameter.default is parameter.empty
    name = parameter.name.rstrip("_")
    return Param(
        name,
        _kind([type(choice) for choice in literals if choice is not None] or types),
        None if required else parameter.default,
        required,
        choices,
        parameter.name if parameter.name != name else "",
    )


def _alternatives(hint: Any) -> Sequence[Any]:
    """Return the types of a union except None."""
    if get_origin(hint) in (Union, UnionType):
        return [one for one in get_args(hint) if one is not NoneType]
    return [hint]


def _kind(types: Sequence[Any]) -> str:
    kinds = {_KINDS.get(one, "any") for one in types}
    if kinds == {"int", "float"}:
        return "float"
    return kinds.pop() if len(kinds) == 1 else "any"
