"""The page of messages: the exit codes, and each text that the package raises or warns with."""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import hpometrics
from hpometrics import exceptions

PACKAGE = Path(hpometrics.__file__).parent
_RAISES = re.compile(r"Error\Z|\Awarn\Z|\Awarn_once\Z")
_FILE = "Sweep files"
_ABOUT_FILES = {"wrong", "_refusal", "_fatal", "add_error"}
"""Functions that report a problem of a sweep file; `document.add` and checks that yield one do so too."""
_LEAST = 8  # letters: a shorter text is made elsewhere
_HEAD = """\
# Messages and exit codes

A command prints its errors to stderr and ends with one of these codes:

| code | meaning |
|---|---|
| 0 | all is well |
| 1 | `audit` found problems, `replay` or `verify` found other values, `compare --fail-if-worse` a worse one |
| 2 | a file, a name or a setting is wrong; nothing was run |
| 3 | no trial is complete, or none is feasible |
| 4 | as many trials failed as `budget.failures` allows, or the first two failed alike |
| 5 | a disk or a storage failed; nothing recorded is lost, and `hpometrics run` resumes the sweep |
| 129, 130, 143 | SIGHUP, Ctrl-C or SIGTERM interrupted it; `hpometrics run` resumes the sweep |

In Python, errors are exceptions derived from `HpometricsError`. This page lists their texts, the
problems of a sweep file, and the warnings; `…` stands for a value.
"""


class Message(NamedTuple):
    """A text that the package raises or warns with."""

    place: str
    kind: str
    text: str


@cache
def messages(value: str = "…") -> Sequence[Message]:
    """Return each text that the package raises or warns with.

    Args:
        value: stands for each value in a text, in quotes where the text has them.
    """
    return [
        message
        for path in sorted(PACKAGE.rglob("*.py"))
        for message in _messages_of(path, ast.parse(path.read_text(encoding="utf8")), value)
    ]


def _messages_of(path: Path, tree: ast.Module, value: str) -> Iterator[Message]:
    for node in ast.walk(tree):
        place = f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Call) and _RAISES.search(_called(node)):
            text = "".join(format_text(one, value) for one in node.args)
            yield Message(place, _called(node), text)
        elif path.parent.name == "config" and (problem := _problem(node)) is not None:
            yield Message(place, _FILE, format_text(problem, value))


def _problem(node: ast.AST) -> ast.expr | None:
    """Return the text of a problem of a sweep file that a call reports or a check yields with its path."""
    if isinstance(node, ast.Yield) and isinstance(node.value, ast.Tuple):
        parts = node.value.elts
    elif isinstance(node, ast.Call) and _called(node) in _ABOUT_FILES:
        parts = node.args
    elif isinstance(node, ast.Call) and _called(node) == "add" and len(node.args) > 1:
        parts = node.args
    else:
        return None
    found = [one for one in parts if isinstance(one, (ast.Constant, ast.JoinedStr))]
    return found[-1] if found and isinstance(getattr(found[-1], "value", ""), str) else None


def page() -> str:
    """Return the page: the texts by class of error, in the order of their letters."""
    texts: defaultdict[str, set[str]] = defaultdict(set)
    for message in messages():
        if len(re.findall(r"[a-z]", message.text)) > _LEAST:
            texts[_heading(message.kind)].add(" ".join(message.text.split()))
    return "\n".join([_HEAD, *(_section(heading, texts[heading]) for heading in sorted(texts))])


def _section(heading: str, texts: set[str]) -> str:
    error = getattr(exceptions, heading, None)
    first = [] if error is None else [str(inspect.getdoc(error)).partition("\n")[0], ""]
    listing = sorted(texts, key=lambda text: (re.sub(r"[^a-z]", "", text.lower()), text))
    return "\n".join([f"## {heading}", "", *first, *(f"- {_code(text)}" for text in listing), ""])


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _heading(kind: str) -> str:
    """Return the error's name, or that of a section: warnings, errors that become one of the package's."""
    if kind == _FILE or hasattr(exceptions, kind):
        return kind
    return "Warnings" if "warn" in kind else "Other errors"


def _called(call: ast.Call) -> str:
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def format_text(node: ast.AST, value: str) -> str:
    """Return a string as it is written, with `value` in the place of each value."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.FormattedValue):
        return f"'{value}'" if node.conversion == ord("r") else value
    return (
        "".join(format_text(one, value) for one in node.values) if isinstance(node, ast.JoinedStr) else value
    )
