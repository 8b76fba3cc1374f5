"""The `engine` section of a sweep file: a function or a program, and its fixed params."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from importlib.util import find_spec
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from .._redaction import excerpt, secret_objection
from .._text import did_you_mean
from ..exceptions import HpometricsError, missing_extra
from ..metrics.registry.lookup import find_metric, measured_by
from ..metrics.registry.names import MetricName
from ..space.space import Space
from .document import PROGRAM, engine_command, engine_text
from .fields import (
    Directory as Path,
    OutputForm,
    ParamName,
    Params,
    Part,
    Strict,
    Target,
    nothing_by_name,
    one_key,
    wrong,
)
from .placeholders import objections, passes_params, placeholders, split_params


def _check_fixed(params: dict[str, Any]) -> dict[str, Any]:
    for name, value in params.items():
        if text := secret_objection(value):
            raise wrong(f"{name} {text}")
    return params


def _parse_source(value: Any) -> Any:
    if value == "stdout":
        return None
    if value in ("wandb", "tensorboard"):
        return {value: "{dir}"}
    if isinstance(value, dict):
        one_key(value, SOURCES, "metrics_from")
    elif value is not None and not isinstance(value, MetricsFrom):
        raise wrong(
            f"expected stdout, wandb, tensorboard, or a mapping of one of {', '.join(SOURCES)}, got "
            f"{excerpt(repr(value), 60)}"
        )
    return value


def _parse_choice(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    if repeated := [one for index, one in enumerate(value) if one in value[:index]]:
        raise wrong(f"{excerpt(repr(repeated[0]), 60)} is listed twice")
    return {str(one): one for one in value}


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _check_pattern(value: str) -> str:
    try:
        pattern = re.compile(value)
    except re.error as err:
        raise wrong(f"{excerpt(repr(value), 60)} is not a regular expression: {err}") from None
    if not pattern.groupindex:
        raise wrong(
            f"{excerpt(repr(value), 60)} names no value; name a group, as in acc=(?P<accuracy>[0-9.]+)"
        )
    return value


Pattern = Annotated[str, AfterValidator(_check_pattern)]


class MetricsFrom(Strict):
    """The source of a program's values: one of the first five keys. Paths may have placeholders."""

    csv: Path | None = None
    """A CSV file with a header that the program writes; a column `epoch` groups its rows."""
    jsonl: Path | None = None
    """A file with a JSON object per line that the program writes; `epoch` groups its lines."""
    tensorboard: Path | None = None
    """A directory of TensorBoard's event files; `metrics_from: tensorboard` is that of the trial, which the
    program gets as `{dir}`. Needs tensorboardX."""
    wandb: Path | None = None
    """The directory for the offline files of W&B, of a program that calls `wandb.log`; `metrics_from: wandb`
    is that of the trial. `wandb.config` has the params. Needs wandb."""
    regex: Annotated[
        list[Pattern] | None,
        BeforeValidator(_as_list, json_schema_input_type=str | list[str]),
        Field(min_length=1),
    ] = None
    """A pattern, or several, for lines of stdout and stderr, whose groups name values:
    `epoch (?P<epoch>[0-9]+).*acc=(?P<accuracy>[0-9.]+)`."""
    names: Annotated[dict[str, str], Field(min_length=1)] | None = None
    """The column, tag or group of each value that is called otherwise in the source:
    `{accuracy: "val/acc top1"}`."""

    @property
    def path(self) -> tuple[str, str] | None:
        """The kind and the path of a file or directory; None for output."""
        paths = ((kind, getattr(self, kind)) for kind in SOURCES if kind != "regex")
        return next(((kind, path) for kind, path in paths if path is not None), None)


_EVENTS = "tensorboardX"  # reads event files, and comes with Ray Tune
SOURCES = ("csv", "jsonl", "tensorboard", "wandb", "regex")
MetricsFromForm = Annotated[
    MetricsFrom | None,
    BeforeValidator(
        _parse_source, json_schema_input_type=Literal["stdout", "wandb", "tensorboard"] | MetricsFrom
    ),
]


class Engine(Strict):
    """The training code."""

    target: Target | None = None
    """`module:function`, called as `train(params, run)`, or an engine of stages or evaluation,
    `module:Class`; found beside the file or in the current folder."""
    choice: Annotated[
        dict[ParamName, Target] | None,
        BeforeValidator(_parse_choice, json_schema_input_type=list[Target] | dict[str, Target]),
        Field(min_length=2),
    ] = None
    """Several functions in place of a target, a list or by label. The search draws which of them trains a
    trial, as the param `engine`; `when: {engine: trees}` makes a dimension that of one."""
    program: Annotated[Part, Field(min_length=1)] | None = None
    """A Python script instead of a target, which gets its params as W&B passes them, `--lr=0.02`. `command`
    may run it in another way: `${program}` stands for it there."""
    command: Annotated[list[Part], Field(min_length=1)] | None = None
    """A program instead of a target, with placeholders such as `{args}`, `{lr}` and `{params_file}`; see
    docs/how-to/programs.md. It prints a JSON object per epoch, unless its values come from elsewhere."""
    metrics_from: MetricsFromForm = None
    """The source of a program's values: `stdout`, unless a file, event files, W&B or a pattern are named."""
    output: OutputForm = None
    """The output of the engine: `category`, `set(ignore_index=-1)`, `number` ...; several by name."""
    params: Annotated[Params, AfterValidator(_check_fixed)] = Field(default_factory=nothing_by_name)
    """Fixed params, the same in every trial; `{secret: HUB_TOKEN}` is read from the environment and never
    written."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    """Base of the per-trial seeds; `search.seed` unless given."""
    threads: Annotated[int, Field(ge=1)] | None = None
    """Threads of torch within an operation, on every backend; 1 unless given here or by the engine."""

    def __str__(self) -> str:
        return engine_text(dict(self))

    @property
    def command_line(self) -> list[str]:
        """The command, with the program for `${program}`; empty if a target trains."""
        return engine_command(dict(self))

    @property
    def place(self) -> str:
        """The key of what trains: `target`, `choice`, `command` or `program`."""
        return next((key for key in ("choice", "command", "program") if getattr(self, key)), "target")

    @model_validator(mode="before")
    @classmethod
    def _one_way_to_train(cls, value: Any) -> Any:
        if isinstance(value, dict):
            ways = {key: one for key, one in value.items() if one is not None}
            if "program" in ways:
                ways.pop("command", None)  # it runs the program
            way = one_key(ways, ("target", "choice", "program", "command"), "an engine")
            if way not in ("program", "command") and "metrics_from" in value:
                raise wrong(
                    "metrics_from applies only to a program; a function reports with run.log and run.update"
                )
        return value


Problems = Iterator[tuple[tuple[str | int, ...], str]]
"""Texts, each with its path in the file."""


def command_problems(engine: Engine, space: Space, several: bool, wanted: Mapping[str, bool]) -> Problems:
    """Yield the problems of the placeholders in a section, and of the source of values.

    Args:
        engine: the section.
        space: the space of the sweep, with the fixed params.
        several: whether several programs may run at a time.
        wanted: the names of the metrics of the sweep, each with whether it is optimized.
    """
    fixed, secrets = split_params(engine.params)
    params = [*fixed, *(name for name in space.params if name not in engine.params)]
    wrong_parts = list(_command_problems(engine, params, secrets))
    yield from wrong_parts
    source = engine.metrics_from
    searched = [name for name in space.params if name not in engine.params]
    reads_wandb = source is not None and source.wandb is not None
    passes = reads_wandb or wrong_parts or passes_params(engine.command_line, searched)
    if searched and not passes:
        names, example = ", ".join(searched[:3]), searched[0]
        text = f"does not pass any param of the space ({names}), so all trials would be identical; "
        how = f"add {{args}}, --{example}={{{example}}} or {{params_file}}"
        yield ("engine", "command"), text + how
    if source is None:
        return
    yield from _name_problems(source, wanted)
    if source.path is None:
        return
    kind, path = source.path
    place = ("engine", "metrics_from", kind)
    for _, text in objections([path], params, secrets, whole=False):
        yield place, text
    if several and fixed.keys() >= {*placeholders(path)}:
        yield (
            place,
            f"several programs would write {path} at the same time; give each trial its own file, as in "
            f"{{dir}}/{path}",
        )
    if kind == "tensorboard" and find_spec(_EVENTS) is None:
        yield place, str(missing_extra("reading event files", _EVENTS, extra=None))
    if kind == "wandb" and find_spec("wandb") is None:
        yield place, str(missing_extra("reading the files of W&B", "wandb", "wandb"))


def _command_problems(engine: Engine, params: list[str], secrets: list[str]) -> Problems:
    """Yield the problems of the placeholders in `command` and `program`, each of which may need the other."""
    for index, text in objections(engine.command or (), params, secrets):
        yield ("engine", "command", index), text
    uses = [index for index, part in enumerate(engine.command or ()) if PROGRAM in part]
    if engine.program is None:
        text = "${program} stands for engine.program, which is missing; add program: train.py to engine"
        yield from ((("engine", "command", index), text) for index in uses)
        return
    for _, text in objections([engine.program], params, secrets, whole=False):
        yield ("engine", "program"), text
    if engine.command and not uses:
        yield (
            ("engine", "program"),
            "command does not contain ${program}, so this program would not run; add ${program} to command, "
            "or leave one of the two keys out",
        )


def _name_problems(source: MetricsFrom, wanted: Mapping[str, bool]) -> Problems:
    """Yield the names that are not metrics of the sweep, and the optimized values that no group names."""
    place = ("engine", "metrics_from")
    names = {canonical_name(name): name for name in source.names or {}}
    for canonical, name in names.items():
        if canonical not in wanted:
            text = f"{name} is not a metric of the sweep{did_you_mean(name, wanted)}"
            yield (*place, "names", name), text
    if source.regex is None:
        return
    groups = {group for pattern in source.regex for group in re.compile(pattern).groupindex}
    canonicals = {requested_name(group, wanted) for group in groups}
    for metric, is_optimized in wanted.items():
        group = (source.names or {}).get(names.get(metric, ""))
        if is_optimized and (group not in groups if group else metric not in canonicals):
            yield (
                (*place, "regex"),
                f"there is no group named {group or metric}{did_you_mean(metric, groups)}",
            )


def requested_name(name: str, requested: Collection[str]) -> str:
    """Return the name under which a sweep file knows a value of a program.

    `val_accuracy` is `accuracy` if the file names that, and no value `val_accuracy`.

    Args:
        name: the name that the program has for it.
        requested: the canonical names in the file.
    """
    own = canonical_name(name)
    if own in requested:
        return own
    try:
        plain = measured_by(MetricName.parse(name))
    except HpometricsError:
        return own
    metric = own if plain is None else canonical_name(str(plain))
    return metric if metric in requested else own


@lru_cache(maxsize=1024)
def canonical_name(name: str) -> str:
    """Return the canonical name of a registered metric; any other name is returned unchanged."""
    try:
        parsed = MetricName.parse(name)
        return str(find_metric(parsed.bare).name.like(parsed))
    except HpometricsError:
        return name
