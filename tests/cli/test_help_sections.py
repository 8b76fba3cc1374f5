from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from hpometrics.cli.main import GroupedCommands, main


def commands(command: click.Command = main, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of the group, of each command of it, and of each command of those."""
    yield path
    for name, child in command.commands.items() if isinstance(command, click.Group) else ():
        yield from commands(child, (*path, name))


@pytest.mark.parametrize("path", list(commands()), ids=lambda path: " ".join(path) or "hpometrics")
def test_help_ends_with_examples_that_the_command_takes(path, tmp_path, monkeypatch):
    """Each line fits a terminal of 80 columns, and each example parses, with all its options."""
    monkeypatch.chdir(tmp_path)
    Path("study.db").touch()
    Path("runs/digits").mkdir(parents=True)
    text = CliRunner().invoke(main, [*path, "--help"]).stdout
    assert max(map(len, text.splitlines())) <= 80
    *_, examples = text.partition("\nExamples:\n")
    lines = examples.splitlines()
    assert lines and all(line.startswith("  hpometrics ") for line in lines)
    for line in lines:
        _, *words = shlex.split(line)
        assert tuple(words[: len(path)]) == path
        command, context = main, click.Context(main, **main.context_settings)
        while isinstance(command, click.Group):
            name, command, words = command.resolve_command(context, words)
            context = click.Context(command, parent=context, info_name=name)
        command.make_context(command.name, words, parent=context.parent)


def test_help_lists_every_command_once_below_a_heading():
    """None is left to the section of others."""
    text = CliRunner().invoke(main, ["--help"]).stdout
    shown = text[text.index("\nSweeps:") : text.index("\nExamples:")]
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
