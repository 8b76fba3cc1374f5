"""The names and the words of the package are those of its field: nouns for values, verbs for docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "hpometrics"
TREES = {path: ast.parse(path.read_text(encoding="utf8")) for path in sorted(PACKAGE.rglob("*.py"))}

PARTICIPLES = frozenset(
    "told found given known held asked kept made said here there left taken begun ended seen shown drawn "
    "named settled stated wanted meant put done gone gathered carried counted spoken brought".split()
)
"""Words that say what became of a value and not what it is."""

PUBLIC = 0.005
"""The share of names that may be such words: those of the public API, of written files and of parameters."""

BRITISH = re.compile(r"(?:optim|normal|summar|recogn|minim|maxim)is(?:e|ed|es|ing|ation)\b")
ACCEPTED = {"direction.py"}
"""The file that accepts `minimise` and `maximise` beside the spelling of the field."""

_OPENINGS = re.compile(r"(Give|What|Say|Let|Tell|Take|Put) ")


def bindings(tree: ast.AST) -> Iterator[str]:
    """The names that a module gives to variables, arguments and functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name.lstrip("_")


def docstrings(tree: ast.AST) -> Iterator[str]:
    """The docstrings of a module and of all that it defines."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if text := ast.get_docstring(node):
                yield text


def test_names_say_what_a_value_is():
    """`record` and `matches`, not `told` and `found`."""
    names = [(path.name, name) for path, tree in TREES.items() for name in bindings(tree)]
    wrong = [one for one in names if one[1] in PARTICIPLES]
    assert len(wrong) < PUBLIC * len(names), sorted(set(wrong))


def test_docstrings_begin_as_a_reader_expects():
    """With `Return`, `Check`, `Create`, ..., or a noun; those of examples, benchmarks and docs too."""
    others = [path for folder in ("examples", "benchmarks", "docs") for path in (ROOT / folder).rglob("*.py")]
    assert len(others) > 60
    trees = TREES | {path: ast.parse(path.read_text(encoding="utf8")) for path in others}
    wrong = [
        f"{path.relative_to(ROOT)}: {text.splitlines()[0]}"
        for path, tree in trees.items()
        for text in docstrings(tree)
        if _OPENINGS.match(text)
    ]
    assert wrong == []


def test_the_spelling_is_american():
    """As that of Optuna, Ray and the keys of sweep files."""
    wrong = {
        str(path.relative_to(PACKAGE)): words
        for path in TREES
        if path.name not in ACCEPTED and (words := BRITISH.findall(path.read_text(encoding="utf8")))
    }
    assert wrong == {}
