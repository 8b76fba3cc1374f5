"""Completion: what a shell offers for the names of metrics, outputs and families, and for run directories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import click
from click.shell_completion import CompletionItem

Names = Callable[[], Mapping[str, str]]
"""Gives names, each with what it means."""


class RunDirectory(click.Path):
    """The path of a run directory: the shell offers directories; what stands there, the command reads."""

    def __init__(self, path_type: type[Path] | type[str] = Path) -> None:
        super().__init__(path_type=path_type)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Leave it to the shell."""
        return [CompletionItem(incomplete, type="dir")]


class Named(click.types.StringParamType):
    """A text for which a shell offers names; the command takes any other too, and says if it knows it.

    Args:
        names: what is offered.
        several: names with commas between them.
    """

    def __init__(self, names: Names, several: bool = False) -> None:
        self._names, self._several = names, several

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the names that go on as the text does; of several the last one is completed."""
        before, comma, begun = incomplete.rpartition(",") if self._several else ("", "", incomplete)
        found = sorted(self._names().items())
        return [
            CompletionItem(f"{before}{comma}{name}", help=meaning)
            for name, meaning in found
            if name.startswith(begun)
        ]


def _metrics() -> dict[str, str]:
    """Those of the index, and their aliases: to ask other packages for theirs would load torch."""
    from ..metrics.registry.index import index, index_aliases

    aliases = {alias: f"means {meaning}" for (alias, _), meaning in index_aliases().items()}
    return aliases | {name: entry.summary for (name, _), entry in index().items()}


def _families() -> dict[str, str]:
    from ..metrics.registry.index import index

    return {family: "family" for entry in index().values() for family in entry.families}


def _lists() -> dict[str, str]:
    groups = {"default": "a short choice for the output", "all": "all that need nothing further"}
    return groups | _families() | _metrics()


def _features() -> dict[str, str]:
    from ..metrics.features import FEATURES

    return dict.fromkeys(FEATURES, "output feature")


RUN_DIRECTORY = RunDirectory()
RUN_DIRECTORY_OR_URL = RunDirectory(str)
METRIC, METRICS = Named(_metrics), Named(_lists, several=True)
METRIC_OR_GROUP = Named(_lists)
FAMILY, FEATURE = Named(_families), Named(_features)
