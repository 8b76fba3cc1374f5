"""The `hpometrics` command, whose help lists its commands by purpose.

A command imports what it needs when it runs: only `run` loads a search backend; `run`,
`measure` and `compare` load torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from .. import __version__
from .._text import printable_lines
from . import compare, metrics, results, sweep
from .console import print_everything
from .options import Group


class GroupedCommands(Group):
    """A group of commands under headings; those that are added later come last, under `Others`.

    Args:
        sections: the commands by heading.
        arguments: the further arguments of `Group`.
    """

    def __init__(self, *, sections: Mapping[str, Sequence[click.Command]], **arguments: Any) -> None:
        super().__init__(**arguments)
        self.sections = {
            heading: [str(command.name) for command in commands] for heading, commands in sections.items()
        }
        for commands in sections.values():
            for command in commands:
                self.add_command(command)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; in its messages, characters that would control the terminal are escaped.

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
        for heading, names in self._commands_by_heading():
            rows = [(name.ljust(width), self.commands[name]) for name in names]
            limit = formatter.width - width - 6
            with formatter.section(heading):
                formatter.write_dl([(name, command.get_short_help_str(limit)) for name, command in rows])

    def _commands_by_heading(self) -> Iterator[tuple[str, list[str]]]:
        yield from self.sections.items()
        listed = {name for names in self.sections.values() for name in names}
        if others := [name for name in self.commands if name not in listed]:
            yield "Others", others


_SECTIONS: dict[str, tuple[click.Command, ...]] = {
    "Sweeps": (sweep.init, sweep.check, sweep.run, sweep.confirm, sweep.evaluate),
    "At work": (sweep.worker, sweep.add, sweep.pause, sweep.resume, sweep.stop),
    "Results": (
        results.ls,
        results.status,
        results.best,
        results.trials,
        results.tag,
        results.epochs,
        compare.compare,
        results.report,
        results.dashboard,
        results.replay,
        results.verify,
        results.audit,
    ),
    "Metrics": (metrics.metrics, metrics.measure),
    "Editors": (metrics.schema,),
}


@click.group(
    cls=GroupedCommands,
    sections=_SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=("init", "check sweep.yaml", "run sweep.yaml", "best runs/sweep"),
)
@click.version_option(__version__, prog_name="hpometrics")
def main() -> None:
    """Name any metric; search in the right direction; keep the optimal engine params.

    \b
    Exit codes:
      0    success
      1    audit found problems, replay or verify did not reproduce the values,
           or compare --fail-if-worse found a worse model
      2    a file, a name or a setting is wrong, and nothing was run
      3    no trial is complete, or no score is finite
      4    too many trials failed
      5    a disk or a storage failed
      129  SIGHUP interrupted the command
      130  Ctrl-C interrupted the command
      143  SIGTERM interrupted the command

    Run a sweep again to resume it.
    """  # noqa: D301  # \b is click's mark of lines that stay as they are
    print_everything()
