"""Metrics over lists that are rows of a table: `list_metric` creates a class from a row."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from ....exceptions import MetricInputError
from ...features import RANKING
from ...registry.facts import Docstring, keyword_parameters, write_signature
from ...registry.register import register_metric
from ...retrieval.base import ListMetric


class RowMetric(ListMetric):
    """The mechanism of a table: what its metrics share; each row, given to `list_metric`, fills it in."""

    def rules(self) -> Iterable[tuple[bool, str]]:
        """Return what the parameters must satisfy: whether they do, and the words of the error."""
        return ()


def list_metric(
    base: type[RowMetric],
    name: str,
    class_name: str,
    summary: str,
    formula: str,
    source: str,
    example: tuple[str, ...],
    *,
    aliases: Mapping[str, str] | Iterable[str] = (),
    params: Mapping[str, Any] | None = None,
    shape: str = "",
    value: str = "",
    raises: str = "",
    deviates: str = "",
    **members: Any,
) -> type[RowMetric]:
    """Create the metric class of a row, in the module of its base, and register it.

    Args:
        base: the mechanism; its docstring has the sections that the rows share.
        name: the registered name.
        class_name: the name of the class.
        summary: the docstring before its sections; `formula` and `source` are two of these.
        formula: how the value is computed.
        source: where it was first described.
        example: the value to four places, how to work it out, the arguments of the constructor and of
            `update`, and those of `Ranking` if it needs some.
        aliases: further names, as `register_metric` takes them.
        params: the parameters, as `keyword_parameters` reads them; k may be positional.
        shape: a section of the docstring, in place of that of the base; so are those that follow.
        value: the range, the unit, the best value, and when it is nan.
        raises: when the parameters or the data are refused.
        deviates: where other libraries differ.
        members: the functions and facts that fill in the mechanism.
    """
    params = params or {}
    kinds = {"k": inspect.Parameter.POSITIONAL_OR_KEYWORD}
    parameters = [one.replace(kind=kinds.get(one.name, one.kind)) for one in keyword_parameters(params)]
    others = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD, annotation=Any)

    def __init__(self: RowMetric, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        values = {key: bound.arguments[key] for key in params}
        ListMetric.__init__(self, values.pop("k", None), **bound.arguments["kwargs"])
        for key, value in values.items():
            setattr(self, key, value)
        for holds, words in self.rules():
            if not holds:
                raise MetricInputError(f"{class_name}: {words}")

    signature = write_signature(__init__, [*parameters, others])
    sections = {"Shape": shape, "Value": value, "Raises": raises and f"MetricInputError: {raises}"}
    sections |= {"Formula": formula, "Deviates": deviates, "Source": source}
    page = {**Docstring.of(base).sections, **{title: text for title, text in sections.items() if text}}
    cls = type(class_name, (base,), {
        "__doc__": _docstring(class_name, summary, page, example), "__init__": __init__,
        "__module__": base.__module__, "__qualname__": class_name, **members,
    })  # fmt: skip
    return register_metric(name, [RANKING], aliases=aliases)(cls)


def _docstring(class_name: str, summary: str, sections: Mapping[str, str], example: tuple[str, ...]) -> str:
    """Return the page of a class: a sentence of meaning, sections, a doctest."""
    value, working, arguments, update, *ranking = example
    raises = ["", "Raises:", f"    {sections['Raises']}"] if sections.get("Raises") else []
    pairs = ("Shape", "Value"), ("Formula", "Deviates", "Source")
    first, last = ([f"{title}: {sections[title]}" for title in p if sections.get(title)] for p in pairs)
    code = [
        "import torch",
        *(["from hpometrics.metrics.features import Ranking"] if ranking else []),
        f"metric = {class_name}({arguments})",
        *(f"metric.output = Ranking({facts})" for facts in ranking),
        f"metric.update({update})",
        f"round(metric.compute().item(), 4)  # {working}",
    ]
    return "\n".join([summary, "", *first, *raises, *last, "", *(f">>> {line}" for line in code), value])
