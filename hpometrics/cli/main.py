"""Sections: a command whose help lists its verbs by what they are for.

What a command needs is imported when it runs: only `run` loads a search host; `run`,
`measure` and `compare` load torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from .. import __version__
from .._stdout import print_everything
from .._text import printable_lines
from . import metrics, metrics as editors, results, results as comparisons, sweep


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


_SECTIONS: dict[str, tuple[click.Command, ...]] = {
    "Sweeps": (sweep.init, sweep.check, sweep.run, sweep.worker, sweep.evaluate),
    "Results": (
        results.status,
        results.best,
        results.trials,
        results.epochs,
        comparisons.compare,
        results.report,
        results.dashboard,
        results.replay,
        results.audit,
    ),
    "Metrics": (metrics.metrics, metrics.measure),
    "Editors": (editors.schema,),
}


@click.group(cls=Sections, sections=_SECTIONS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hpometrics")
def main() -> None:
    """Name any metric; search in the right direction; keep the optimal engine params.

    Exit codes: 0 all is well; 1 what audit or replay look for; 2 a file, a name or a setting is wrong and
    nothing was run; 3 no trial is complete, no score is finite; 4 as many trials have failed as the budget
    allows; 5 what is to be recorded cannot be written; 130 interrupted, a sweep that is run again goes on
    (143 by SIGTERM, 129 by SIGHUP).
    """
    print_everything()
