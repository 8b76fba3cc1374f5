"""`python -m hpometrics` is the `hpometrics` command."""

from __future__ import annotations

from .cli.main import main

main(prog_name="hpometrics")
