"""Every metric has values that were worked out: by hand in its docstring, by a reference in a test."""

from __future__ import annotations

import ast
import doctest
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from matrix import failures

from hpometrics.metrics.registry.index import MetricEntry

HERE = Path(__file__).parent


def native(entries: Iterable[MetricEntry]) -> list[MetricEntry]:
    """Those that torchmetrics does not measure for us."""
    return [entry for entry in entries if ".catalogue.torchmetrics" not in entry.path]


def test_every_metric_has_a_value_worked_out_by_hand(entries):
    """Its docstring makes one, measures, and shows a value that is not nan; doctest compares it."""

    def check(entry):
        cls = entry.load()
        made = re.compile(rf"= {cls.__qualname__.partition('.')[0]}[.(]")
        examples = doctest.DocTestParser().get_examples(cls.__doc__ or "")
        assert any(made.search(example.source) for example in examples)
        assert any("compute()" in e.source and e.want.strip() and "nan" not in e.want for e in examples)

    assert failures(native(entries), check) == []


def strings_of(tree: ast.AST) -> Iterator[str]:
    """The strings of a test's code, what is put into them as `{}`; docstrings and comments are not code."""
    if isinstance(tree, ast.JoinedStr):
        yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in tree.values)
        return
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        yield tree.value
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
            yield from strings_of(child)


def patterns(text: str) -> Iterator[str]:
    """The names that a string may hold: `f1_max` of "f1_max(beta=2)", any `..._max` of "{}_max"."""
    for name in re.findall(r"[a-z{][a-z0-9_{}]*", text):
        if name.count("_") or "{}" not in name:  # `{}` alone, or with a letter, could be anything
            yield name.replace("{}", "[a-z0-9_]+")


def test_every_metric_is_named_in_a_test_of_values(entries):
    """By its name or an alias, in code that compares it with a reference or a number: none is forgotten."""
    files = [HERE / "oracles.py", *(HERE.parent / "catalogue").rglob("*.py")]
    trees = [ast.parse(path.read_text(encoding="utf8")) for path in files]
    held = {pattern for tree in trees for text in strings_of(tree) for pattern in patterns(text)}
    named = re.compile("|".join(sorted(held)))
    left = {e.name for e in native(entries) if not any(map(named.fullmatch, (e.name, *(e.aliases or {}))))}
    assert left == set()
