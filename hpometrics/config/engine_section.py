"""The `engine` section of a sweep file: a function or a program, and its fixed params."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from .._redaction import secret_objection
from ..space.space import Space
from .fields import OutputForm, Params, Part, Strict, Target, nothing_by_name, one_key, wrong
from .placeholders import objections, split_params


def _check_fixed(params: dict[str, Any]) -> dict[str, Any]:
    for name, value in params.items():
        if text := secret_objection(value):
            raise wrong(f"{name} {text}")
    return params


class Engine(Strict):
    """The training code."""

    target: Target | None = None
    """`module:function`, called as `train(params, run)`, or an engine of stages or evaluation,
    `module:Class`; found beside the file or in the current folder."""
    command: Annotated[list[Part], Field(min_length=1)] | None = None
    """A program instead of a target, with placeholders such as `{args}`, `{lr}` and `{params_file}`; see
    docs/programs.md. It prints a JSON object per epoch, unless its values come from elsewhere."""
    output: OutputForm = None
    """The output of the engine: `category`, `set(ignore_index=-1)`, `number` ...; several by name."""
    params: Annotated[Params, AfterValidator(_check_fixed)] = Field(default_factory=nothing_by_name)
    """Fixed params, the same in every trial; `{secret: HUB_TOKEN}` is read from the environment and never
    written."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    """Base of the per-trial seeds; `search.seed` unless given."""
    threads: Annotated[int, Field(ge=1)] | None = None
    """Threads of torch within an operation, on every backend; 1 unless given here or by the engine."""

    @model_validator(mode="before")
    @classmethod
    def _one_way_to_train(cls, value: Any) -> Any:
        if isinstance(value, dict):
            one_key(value, ("target", "command"), "an engine")
        return value


def command_problems(engine: Engine, space: Space) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the problems of the placeholders in a section, each with its path in the file.

    Args:
        engine: the section.
        space: the space of the sweep, with the fixed params.
    """
    fixed, secrets = split_params(engine.params)
    params = [*fixed, *(name for name in space.params if name not in engine.params)]
    for index, text in objections(engine.command or (), params, secrets):
        yield ("engine", "command", index), text
