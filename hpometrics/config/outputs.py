"""The outputs that the engine of a sweep predicts, stated by the file, by the engine, or by both."""

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

UNKNOWN_OUTPUT: Types = {None: None}
"""One output, of which neither the file nor the engine says what it is."""

_PATH: Path = ("engine", "output")


def resolve_output(
    file_output: str | Mapping[str, str] | None, engine_output: Outputs | None, document: Document
) -> Outputs | None:
    """Return each output: the engine's own, side data included, with the facts that the file states.

    Args:
        file_output: the outputs that the file states.
        engine_output: the outputs that the engine itself states.
        document: receives the problems.
    """
    if file_output is None:
        return engine_output
    parsed = _parse(file_output, document)
    if parsed is None or engine_output is None:
        return parsed
    if types_of(parsed, True) != types_of(engine_output, True):
        document.add(
            _PATH,
            f"the file says {format_outputs(parsed)}, the engine itself says {format_outputs(engine_output)}",
        )
        return parsed
    if isinstance(file_output, str) or not isinstance(engine_output, Mapping):
        return _with_facts(engine_output, file_output)  # type: ignore[arg-type]  # neither is a mapping
    return {name: _with_facts(output, file_output[name]) for name, output in engine_output.items()}


def types_of(output: Outputs | None, settled: bool) -> Types | None:
    """Return the type of each output by name; None if only the engine, not imported yet, can state them."""
    if isinstance(output, Mapping):
        return {name: one.type for name, one in output.items()}
    if output is None:
        return UNKNOWN_OUTPUT if settled else None
    return {None: output.type}


def to_plain(output: Outputs | None) -> str | dict[str, str] | None:
    """Return outputs as a file holds them."""
    if isinstance(output, Mapping):
        return {name: str(one) for name, one in output.items()}
    return None if output is None else str(output)


def format_outputs(output: Outputs) -> str:
    """Format outputs on one line.

    >>> category, sequence = parse_feature("category"), parse_feature("sequence(vocab_size=9)")
    >>> format_outputs({"intent": category, "reply": sequence})
    'intent: category, reply: sequence(vocab_size=9)'
    """
    if isinstance(output, Mapping):
        return ", ".join(f"{name}: {one}" for name, one in output.items())
    return str(output)


def _parse(output: str | Mapping[str, str], document: Document) -> Outputs | None:
    """Parse every output; return None where one is not well formed."""
    features: dict[str | None, OutputFeature] = {}
    for name, text in {None: output}.items() if isinstance(output, str) else output.items():
        try:
            features[name] = parse_feature(text)
        except HpometricsError as err:
            document.add(_PATH if name is None else (*_PATH, name), one_line(err))
    if len(features) < (1 if isinstance(output, str) else len(output)):
        return None
    return features[None] if isinstance(output, str) else {str(name): one for name, one in features.items()}


def _with_facts(feature: OutputFeature, text: str) -> OutputFeature:
    return replace(feature, **dict(MetricName.parse(text).params))
