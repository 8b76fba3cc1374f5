"""Parameters: the arguments that several commands take."""

from __future__ import annotations

from pathlib import Path

import click

FILE = click.Path(path_type=Path)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
INTERVAL = click.option(
    "--interval",
    "level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="LEVEL",
    help="Draw the intervals of winner and runner-up anew, as in 0.95.",
)


def form_of(form: str | None, as_json: bool, default: str = "text") -> str:
    """Return the form that `--format` and `--json` ask for together.

    Raises:
        click.UsageError: they name two.
    """
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and -f {form} are two forms; name one")
    return "json" if as_json else form or default
