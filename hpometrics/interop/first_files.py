"""The first files of a sweep, from the starter or from a sweep file of another tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from .._formatting import json_text, plural
from .._text import slug_of
from ..backends.registry import DEFAULT
from ..config.document import parse_document, read_text
from ..config.json_schema import json_schema
from ..config.metric_section import Measure, read_measure
from ..config.plan import make_plan
from ..config.yaml_text import flow_yaml, format_exact
from ..exceptions import ConfigError
from ..metrics.features import BINARY
from ..metrics.registry.lookup import find_metric
from ..metrics.registry.names import MetricName
from ..records._files import write_text
from .hydra_config import is_hydra, read_hydra
from .keras_oracle import is_keras, read_keras
from .ludwig_config import read_ludwig
from .notes import ConvertedSweep, Notes
from .ray_config import experiments_of, is_warprec, read_ray, read_warprec
from .recbole_params import is_recbole, read_recbole
from .wandb_sweep import read_wandb

_SWEEP, _ENGINE, _SCHEMA = "sweep.yaml", "training.py", "sweep.schema.json"
_METRICS = ("roc_auc", "accuracy", "log_loss", "ece")
"""The metrics that the starter optimizes or tracks."""
_WIDTH = 33  # of the text before a comment


def write_starter(directory: Path, metric: str = _METRICS[0], backend: str = DEFAULT) -> str:
    """Write the files of a first sweep and return the next command; existing files are never overwritten.

    Args:
        directory: the folder to write to.
        metric: the metric that it optimizes, one of a binary output.
        backend: a backend that has its pruner.

    Raises:
        ConfigError: one of the files exists already, or the engine of the starter cannot feed the metric.
        MetricNameError, UnknownMetricError, MeasureError: see `find_metric` and `read_measure`.
    """
    measure = _resolve_metric(metric)
    starter = files("hpometrics.interop.starter")
    texts = {name: starter.joinpath(name).read_text(encoding="utf8") for name in (_SWEEP, _ENGINE)}
    texts[_SWEEP] = "\n".join(_fill_line(line, measure, backend) for line in texts[_SWEEP].split("\n"))
    return f"{_write_first(directory, texts)}\nnext: hpometrics run {directory / _SWEEP}"


def _resolve_metric(name: str) -> Measure:
    parsed = MetricName.parse(name)
    if parsed != parsed.bare:
        raise ConfigError(f"{name}: the starter has a single output; write only the metric, {parsed.bare}")
    needs = [extra for entry in find_metric(parsed, BINARY).entries for extra in entry.needs]
    if needs:
        inputs = " and ".join(f"{extra}=" for extra in needs)
        raise ConfigError(f"{name} also needs {inputs}, which the starter's engine does not pass")
    return read_measure(name, {None: BINARY}, steers=True)


def _fill_line(line: str, measure: Measure, backend: str) -> str:
    """Return a line of the starter with the requested value, its comment in the same column."""
    values = {
        "  optimize": format_exact(measure.name),
        "  track": f"[{', '.join(name for name in _METRICS if name != measure.name)}]",
        "backend": backend,
    }
    key, _, rest = line.partition(": ")
    if key not in values:
        return line
    comment = rest[rest.index("#") :].replace("maximize", f"{measure.direction}") if "#" in rest else ""
    return f"{f'{key}: {values[key]}':<{_WIDTH}} {comment}".rstrip()


Reader = Callable[[Notes], ConvertedSweep]
_READERS: tuple[tuple[str, Callable[[Mapping[str, Any]], object], Reader], ...] = (
    ("a Ludwig config with hyperopt:", lambda data: "hyperopt" in data, read_ludwig),
    ("a W&B sweep with parameters:", lambda data: "parameters" in data, read_wandb),
    ("a Hydra config with hydra.sweeper:", is_hydra, read_hydra),
    ("the oracle.json of KerasTuner", is_keras, read_keras),
    ("a WarpRec config with models:", is_warprec, read_warprec),
    ("a Ray Tune experiment with run: and config:", experiments_of, read_ray),
)
"""The mappings that can be converted: what they are, how to recognize them, and their readers."""


def read_foreign(file: Path) -> ConvertedSweep:
    """Read a file of another tool: a mapping of `_READERS`, or RecBole's `hyper.test`.

    Raises:
        SweepFileError: the file cannot be read, or is not well formed.
        ConfigError: the file is of none of these tools.
    """
    text = read_text(file)
    if is_recbole(text):
        conversion = read_recbole(text, str(file))
    else:
        notes = Notes(parse_document(text, str(file)))
        read = next((read for _, recognizes, read in _READERS if recognizes(notes.document.data)), None)
        if read is None:
            kinds = ", ".join(kind for kind, *_ in _READERS)
            raise ConfigError(f"{file} must be one of {kinds}, or the hyper.test of RecBole")
        conversion = read(notes)
    make_plan(parse_document(conversion.text(), f"{file} as a sweep"))
    return conversion


def write_imported(file: Path, directory: Path) -> str:
    """Write the converted sweep and return a text with the settings that could not be converted.

    Raises:
        ConfigError: the sweep file exists already; see also `read_foreign`.
    """
    conversion = read_foreign(file)
    saved = _write_first(directory, {_SWEEP: conversion.text()})
    notes = conversion.notes.sorted()
    changed = f"{plural(len(notes), 'setting')} changed or dropped during import:"
    summary = [changed if notes else "every setting was imported unchanged"]
    return "\n".join([saved, *summary, *map(str, notes), f"next: hpometrics check {directory / _SWEEP}"])


def _add_name(text: str, directory: Path) -> str:
    """Name a sweep without a name after its folder, so that each sweep has its own run directory."""
    name = slug_of(directory.resolve().name)
    lines = text.split("\n")
    if name is None or any(line.startswith("name:") for line in lines):
        return text
    first = next((i for i, line in enumerate(lines) if line and not line.startswith("#")), 0)
    return "\n".join([*lines[:first], f"name: {flow_yaml(name)}", "", *lines[first:]])


def _write_first(directory: Path, texts: Mapping[str, str]) -> str:
    """Write files and the schema beside them, and return a line that names them."""
    contents = {
        **texts,
        _SWEEP: _add_name(texts[_SWEEP], directory),
        _SCHEMA: json_text(json_schema()) + "\n",
    }
    existing = [name for name in contents if (directory / name).exists()]
    if existing:
        raise ConfigError(
            f"{directory / existing[0]} already exists, so nothing was written; name another folder"
        )
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in contents.items():
        write_text(directory / name, text)
    return f"saved {', '.join(contents)} in {directory}"
