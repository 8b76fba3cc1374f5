"""The commands that read a run directory, and how a test calls them."""

from __future__ import annotations

from click.testing import CliRunner, Result

from hpometrics.cli.main import main

HOME = "runs/sweep"
READERS: dict[str, list[str]] = {
    "best": ["best", HOME],
    "best as JSON": ["best", HOME, "-f", "json"],
    "status": ["status", HOME],
    "trials": ["trials", HOME],
    "trials as JSON": ["trials", HOME, "-f", "json"],
    "trials as CSV": ["trials", HOME, "-f", "csv"],
    "epochs": ["epochs", HOME, "0", "--all"],
    "report": ["report", HOME],
    "report as text": ["report", HOME, "-f", "md"],
}


def call(*arguments: str) -> Result:
    """Type `hpometrics ...`."""
    return CliRunner().invoke(main, list(arguments))


def assert_refused(result: Result, text: str) -> None:
    """It ended with exit code 2 and the message, and with no traceback."""
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 2, result.output
    assert text in result.stderr
    assert "Traceback" not in result.output
