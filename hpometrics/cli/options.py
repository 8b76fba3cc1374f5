"""Commands with examples, and the options and types of arguments that they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from .console import report_errors

NameProvider = Callable[[], Mapping[str, str]]
"""A function that returns names, each with its meaning."""


class Command(click.Command):
    """A command whose help page ends with examples, and whose errors have exit codes.

    Args:
        arguments: the positional arguments of `click.Command`.
        examples: what one types after `hpometrics`, a line each.
        facts: its further arguments.
    """

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **facts: Any) -> None:
        super().__init__(*arguments, **facts)
        self.examples = examples

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error of this package ends it with a message and an exit code."""
        with report_errors(ctx.params.get("verbose", False)):
            return super().invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples as the last section, one to a line."""
        if not self.examples:
            return
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}hpometrics {example}\n")


class Group(Command, click.Group):
    """A group of such commands."""

    command_class = Command


class RunDirectory(click.Path):
    """The path of a run directory, for which the shell offers directories."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the request that the shell complete a directory."""
        return [CompletionItem(incomplete, type="dir")]


class NameType(click.types.StringParamType):
    """A text for which a shell offers names; the command accepts other texts too and checks them itself.

    Args:
        names: returns the names to offer.
        several: whether the text is a list of names with commas between them.
    """

    def __init__(self, names: NameProvider, several: bool = False) -> None:
        self._names, self._several = names, several

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that start with the text; in a list, the last one is completed."""
        before, comma, prefix = incomplete.rpartition(",") if self._several else ("", "", incomplete)
        meanings = sorted(self._names().items())
        return [
            CompletionItem(f"{before}{comma}{name}", help=meaning)
            for name, meaning in meanings
            if name.startswith(prefix)
        ]


def parse_duration(text: str) -> float:
    """Return the seconds of a duration as in a sweep file, such as `90s` or `10m`.

    Raises:
        click.BadParameter: the text is not one.
    """
    from pydantic import TypeAdapter, ValidationError

    from ..config.fields import Duration

    try:
        seconds: float = TypeAdapter(Duration).validate_python(text)
    except ValidationError as err:
        raise click.BadParameter(err.errors()[0]["msg"]) from None
    return seconds


def _metrics() -> dict[str, str]:
    """Return the metrics of the index and their aliases; those of other packages would load torch."""
    from ..metrics.registry.index import index, index_aliases

    aliases = {alias: f"means {meaning}" for (alias, _), meaning in index_aliases().items()}
    return aliases | {name: entry.summary for (name, _), entry in index().items()}


def _families() -> dict[str, str]:
    from ..metrics.registry.index import index

    return {family: "family" for entry in index().values() for family in entry.families}


def _lists() -> dict[str, str]:
    groups = {"default": "a short selection for the output", "all": "all that need no further input"}
    return groups | _families() | _metrics()


def _features() -> dict[str, str]:
    from ..metrics.features import FEATURES

    return dict.fromkeys(FEATURES, "output feature")


RUN_DIRECTORY = RunDirectory(path_type=Path)
RUN_DIRECTORY_OR_URL = RunDirectory(path_type=str)
METRIC, METRICS = NameType(_metrics), NameType(_lists, several=True)
METRIC_OR_GROUP = NameType(_lists)
FAMILY, FEATURE = NameType(_families), NameType(_features)
FILE = click.Path(path_type=Path)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
INTERVAL = click.option(
    "--interval",
    "level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="LEVEL",
    help="Recompute the intervals of the winner and the runner-up at this level, such as 0.95.",
)


def output_format(form: str | None, as_json: bool, default: str = "text") -> str:
    """Return the output format that `--format` and `--json` request together.

    Raises:
        click.UsageError: they name two formats.
    """
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and -f {form} exclude each other; use one of them")
    return "json" if as_json else form or default
