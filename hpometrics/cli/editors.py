"""Editors: the commands for those who write sweep files."""

from __future__ import annotations

import json
from pathlib import Path

import click

from .exit_codes import reported
from .options import FILE


@click.command()
@click.option("-o", "--output", type=FILE, help="Write to this file.")
def schema(output: Path | None) -> None:
    """Print the JSON Schema of sweep files, for editors."""
    from ..config.json_schema import json_schema

    text = json.dumps(json_schema(), indent=1) + "\n"
    with reported():
        if output is None:
            click.echo(text, nl=False)
        else:
            output.write_text(text, encoding="utf8")
