"""Every text that a user can meet, in one file that the tests keep: strings and help pages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import click

from hpometrics.cli.main import main as hpometrics_command

from .messages import PACKAGE, format_text

_LEAST = 3
"""The number of words from which a string is a text."""
_OTHER_LANGUAGES = re.compile(r"\A(ALTER|CHECK|CREATE|DELETE|INSERT|PRAGMA|SELECT|UPDATE)\b|\(\?|\\[dswA-Z]")
"""The starts of SQL, and signs that only a regular expression has."""
_HEAD = "# Texts of the package, sorted; … stands for a value. Written by `python -m docs._generate`.\n"
_COMMANDS = """\
# Commands

Printed by `make index`: the help of each command, as `hpometrics COMMAND --help` shows it.
"""


class Text(NamedTuple):
    """A string of the package, with the line where it starts."""

    place: str
    text: str


def texts(value: str = "…") -> Iterator[Text]:
    """Yield each string of the package that has several words: messages, lines of reports, words of tables.

    Args:
        value: stands for each value in a string.
    """
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf8"))
        left_out = _documentation(tree) | _pieces(tree)
        for node in ast.walk(tree):
            if isinstance(node, (ast.Constant, ast.JoinedStr)) and node not in left_out:
                text = " ".join(_content(node, value).split())
                if _is_text(text):
                    yield Text(f"{path.relative_to(PACKAGE)}:{node.lineno}", text)


def help_pages() -> Iterator[tuple[str, str]]:
    """Yield each command with its help page, in columns of 80 characters."""
    return _pages_below(hpometrics_command, "hpometrics", None)


def commands_page() -> str:
    """Return the text of `docs/reference/cli.md`."""
    pages = (f"## {name}\n\n```text\n{page.rstrip()}\n```\n" for name, page in help_pages())
    return "\n".join([_COMMANDS, *pages])


@cache
def golden() -> str:
    """Return the file of the tests: the texts in the order of their letters, then the help pages."""
    found = {one.text for one in texts()}
    listing = sorted(found, key=lambda text: (re.sub(r"[^a-z]", "", text.lower()), text))
    pages = [f"\n## {name}\n\n{page}" for name, page in help_pages()]
    return "\n".join([_HEAD, *listing, "\n# Help pages", *pages]) + "\n"


def public_docstrings() -> Iterator[Text]:
    """Yield the docstrings of public modules, classes and functions, without their examples."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if not path.stem.startswith("_"):
            tree = ast.parse(path.read_text(encoding="utf8"))
            yield from (Text(f"{path.relative_to(PACKAGE)}:{line}", text) for line, text in _below(tree))


def _below(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> Iterator[tuple[int, str]]:
    if text := ast.get_docstring(node):
        yield getattr(node, "lineno", 1), re.sub(r"^\s*(>>>|\.\.\. ).*(\n.+)*", "", text, flags=re.MULTILINE)
    for part in node.body:
        if isinstance(part, (ast.ClassDef, ast.FunctionDef)) and not part.name.startswith("_"):
            yield from _below(part)


def _pages_below(
    command: click.Command, name: str, parent: click.Context | None
) -> Iterator[tuple[str, str]]:
    facts = {"terminal_width": 80, "max_content_width": 80, **command.context_settings}
    context = click.Context(command, info_name=name, parent=parent, **facts)
    yield context.command_path, "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    if isinstance(command, click.Group):
        for one in sorted(command.list_commands(context)):
            if (part := command.get_command(context, one)) is not None:
                yield from _pages_below(part, one, context)


def _documentation(tree: ast.AST) -> set[ast.AST]:
    """Return the strings that stand alone: docstrings, and the descriptions of fields below them."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def _pieces(tree: ast.AST) -> set[ast.AST]:
    """Return the strings within other strings, and those that only a regular expression is made of."""
    inner = (one for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for one in node.values)
    patterns = (
        argument
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.")
        for argument in node.args[:1]
    )
    return {*inner, *patterns}


def _content(node: ast.Constant | ast.JoinedStr, value: str) -> str:
    return format_text(node, value) if not isinstance(getattr(node, "value", ""), bytes) else ""


def _is_text(text: str) -> bool:
    words = re.findall(r"\b[A-Za-z]{2,}\b", text)
    return len(words) >= _LEAST and " " in text and not _OTHER_LANGUAGES.search(text)
