"""Parameters: the arguments that several commands take."""

from __future__ import annotations

from pathlib import Path

import click

FILE = click.Path(path_type=Path)
AS_JSON = click.option("--json", "form", flag_value="json", help="The same as --format json.")
INTERVAL = click.option(
    "--interval",
    "level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="LEVEL",
    help="Draw the intervals of winner and runner-up anew, as in 0.95.",
)
