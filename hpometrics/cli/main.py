"""Sections: a command whose help lists its verbs by what they are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from .._text import printable_lines


class Sections(click.Group):
    """A group of commands; those that are added later come last, under a heading of their own.

    Args:
        sections: the commands by heading.
        arguments: as `click.Group` takes them.
    """

    def __init__(self, *, sections: Mapping[str, Sequence[click.Command]], **arguments: object) -> None:
        super().__init__(**arguments)  # type: ignore[arg-type]  # handed on as they came
        self.sections = {heading: [str(one.name) for one in those] for heading, those in sections.items()}
        for those in sections.values():
            for command in those:
                self.add_command(command)

    def invoke(self, ctx: click.Context) -> Any:
        """Carry out a command; what it says of its arguments steers no terminal, whatever files are called.

        Raises:
            UsageError: an argument is wrong.
        """
        try:
            return super().invoke(ctx)
        except click.UsageError as err:
            raw = err.format_message()
            if (text := printable_lines(raw)) == raw:
                raise
            raise click.UsageError(text, err.ctx) from err

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, a list below each heading."""
        width = max(map(len, self.commands), default=0)
        for heading, names in self._headed():
            rows = [(name.ljust(width), self.commands[name]) for name in names]
            limit = formatter.width - width - 6
            with formatter.section(heading):
                formatter.write_dl([(name, command.get_short_help_str(limit)) for name, command in rows])

    def _headed(self) -> Iterator[tuple[str, list[str]]]:
        yield from self.sections.items()
        named = {name for names in self.sections.values() for name in names}
        if others := [name for name in self.commands if name not in named]:
            yield "Others", others
