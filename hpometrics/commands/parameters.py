"""Parameters: the arguments that several commands take."""

from __future__ import annotations

from pathlib import Path

import click

FILE = click.Path(path_type=Path)
AS_JSON = click.option("--json", "form", flag_value="json", help="The same as --format json.")
