"""`python -m hpometrics` is the `hpometrics` command."""

from __future__ import annotations

from .cli.cli import main

main(prog_name="hpometrics")
