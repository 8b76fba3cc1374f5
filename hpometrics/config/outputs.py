"""Outputs of a sweep: what its engine predicts, said by the file, by the engine, or by both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .._text import one_line
from ..exceptions import HpometricsError
from ..metrics.features import OutputFeature, parse_feature
from ..metrics.registry.names import MetricName
from ..metrics.registry.scope import Types
from .document import Document, Path

Outputs = OutputFeature | Mapping[str, OutputFeature]
"""The only output, or several by name."""

UNSAID: Types = {None: None}
"""One output, of which neither the file nor the engine says what it is."""

_PATH: Path = ("engine", "output")


def settled_output(
    given: str | Mapping[str, str] | None, told: Outputs | None, document: Document
) -> Outputs | None:
    """Settle each output: the engine's own, side data included, with the facts that the file states.

    Args:
        given: what the file says.
        told: what the engine itself says.
        document: takes the problems.
    """
    if given is None:
        return told
    stated = _read(given, document)
    if stated is None or told is None:
        return stated
    if not _alike(stated, told):
        document.add(_PATH, f"the file says {shown(stated)}, the engine itself says {shown(told)}")
        return stated
    if isinstance(given, str) or not isinstance(told, Mapping):
        return _with_facts(told, given)  # type: ignore[arg-type]  # alike: neither is a mapping
    return {name: _with_facts(output, given[name]) for name, output in told.items()}


def types_of(output: Outputs | None, settled: bool) -> Types | None:
    """Give the type of each output by name; None where the engine has yet to be asked."""
    if isinstance(output, Mapping):
        return {name: one.type for name, one in output.items()}
    if output is None:
        return UNSAID if settled else None
    return {None: output.type}


def plain(output: Outputs | None) -> str | dict[str, str] | None:
    """Give outputs as a file holds them."""
    if isinstance(output, Mapping):
        return {name: str(one) for name, one in output.items()}
    return None if output is None else str(output)


def shown(output: Outputs) -> str:
    """Print outputs on a line.

    >>> shown({"intent": parse_feature("category"), "reply": parse_feature("sequence(vocab_size=9)")})
    'intent: category, reply: sequence(vocab_size=9)'
    """
    if isinstance(output, Mapping):
        return ", ".join(f"{name}: {one}" for name, one in output.items())
    return str(output)


def _read(given: str | Mapping[str, str], document: Document) -> Outputs | None:
    """Read every output; None where one is not well formed."""
    found: dict[str | None, OutputFeature] = {}
    for name, text in {None: given}.items() if isinstance(given, str) else given.items():
        try:
            found[name] = parse_feature(text)
        except HpometricsError as err:
            document.add(_PATH if name is None else (*_PATH, name), one_line(err))
    if len(found) < (1 if isinstance(given, str) else len(given)):
        return None
    return found[None] if isinstance(given, str) else {str(name): one for name, one in found.items()}


def _alike(stated: Outputs, told: Outputs) -> bool:
    return types_of(stated, True) == types_of(told, True)


def _with_facts(told: OutputFeature, given: str) -> OutputFeature:
    return replace(told, **dict(MetricName.parse(given).params))
