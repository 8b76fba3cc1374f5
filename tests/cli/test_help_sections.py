from __future__ import annotations

import click
from click.testing import CliRunner

from hpometrics.cli.main import GroupedCommands, main


def test_help_lists_every_command_once_below_a_heading():
    """None is left to the section of others."""
    text = CliRunner().invoke(main, ["--help"]).stdout
    shown = text[text.index("\nSweeps:") :]
    first = [line.split()[0] for line in shown.splitlines() if line.startswith("  ") and line[2] != " "]
    assert sorted(first) == sorted(main.commands)
    assert "Others:" not in shown


def test_a_command_that_is_added_later_comes_last():
    """It is not lost among those of the sections."""
    first, later = (click.Command(name, help=f"Do {name}.") for name in "ba")
    group = GroupedCommands(name="tool", sections={"First": [first]})
    group.add_command(later)
    text = CliRunner().invoke(group, ["--help"]).stdout
    assert text.endswith("First:\n  b  Do b.\n\nOthers:\n  a  Do a.\n")
