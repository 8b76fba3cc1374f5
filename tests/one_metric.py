"""One metric: the tests that concern it, for `make metric NAME=mcc`."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from hpometrics.exceptions import HpometricsError
from hpometrics.metrics.registry.index import MetricEntry, all_entries
from hpometrics.metrics.registry.lookup import find_metric

HERE = Path(__file__).parent
METRICS = HERE / "metrics"
LAWS, PAGES, DOCUMENTS = HERE / "testing", HERE / "cli", HERE / "house"
_FROM = re.compile(r"^from (\w+) import", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z]\w*")
_OF_ALL = re.compile(r"^from matrix import .*\bentries\b|\bdef test_\w+\(.*\bentries\b", re.MULTILINE)


@cache
def entries_named(name: str) -> tuple[MetricEntry, ...]:
    """Return the entries that a name or an alias may mean, for whatever output.

    Raises:
        UnknownMetricError, MetricNameError: see `find_metric`.
    """
    return _called().get(name) or find_metric(name).entries


@cache
def _called() -> Mapping[str, tuple[MetricEntry, ...]]:
    """Return the entries of every name and alias."""
    called: dict[str, tuple[MetricEntry, ...]] = {}
    for entry in all_entries():
        for name in (entry.name, *(entry.aliases or {})):
            called[name] = (*called.get(name, ()), entry)
    return called


def files_about(chosen: Collection[MetricEntry]) -> list[Path]:
    """Return the files to collect: those over all metrics, those that name this one, and its own module."""
    words, modules = words_of(chosen), {entry.path.partition(":")[0] for entry in chosen}
    about = {Path(find_spec(module).origin) for module in modules}
    for path in (path for folder in (METRICS, LAWS, PAGES, DOCUMENTS) for path in folder.rglob("test_*.py")):
        if _OF_ALL.search(path.read_text(encoding="utf8")) or is_own_file(path, chosen):
            about.add(path)
        elif any(map(path.is_relative_to, (METRICS, LAWS))) and _names_it(path, words):
            about.add(path)
    return sorted(about)


def is_about(item: pytest.Item, chosen: Collection[MetricEntry]) -> bool:
    """Whether a test concerns the chosen metric.

    It does if it is in a file of the metric's own or goes over all entries. Others do if a parameter, or
    where none of those is a metric a word of the code, is the name of it.
    """
    if isinstance(item, pytest.DoctestItem) or "entries" in item.fixturenames:
        return True
    parameters = tuple(item.callspec.params.values()) if hasattr(item, "callspec") else ()
    if frozenset().union(*map(_measured, parameters)):
        return may_concern(chosen, parameters)
    named = strings_of(item.path, words_of(chosen)).get(item.originalname)
    return bool(named) or is_own_file(item.path, chosen)


def may_concern(chosen: Iterable[MetricEntry], values: Iterable[Any]) -> bool:
    """Whether the values of a test name the chosen metric, or no metric at all."""
    measured = frozenset().union(*map(_measured, values))
    keys = {(entry.name, entry.feature_type) for entry in chosen}
    same = (name == key[0] and of in (None, key[1]) for name, of in measured for key in keys)
    return not measured or any(same)


def is_own_file(path: Path, chosen: Iterable[MetricEntry]) -> bool:
    """Whether a file has the tests of the module that the metric is defined in."""
    modules = {tuple(entry.path.partition(":")[0].split(".")[-2:]) for entry in chosen}
    return any(
        path.parent.name == kind and path.stem.startswith(f"test_{family}") for kind, family in modules
    )


def words_of(chosen: Iterable[MetricEntry]) -> frozenset[str]:
    """Return what a test calls the metric: its name, its aliases."""
    return frozenset(word for entry in chosen for word in (entry.name, *(entry.aliases or {})))


@cache
def strings_of(path: Path, words: frozenset[str]) -> Mapping[str, set[str]]:
    """Return which words are in the strings of each function of a file, and of the whole file under ""."""
    text = path.read_text(encoding="utf8")
    if not any(word in text for word in words):  # which is soon seen, where a tree takes long
        return {}
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {"": _words(tree) & words, **{node.name: _words(node) & words for node in functions}}


def _names_it(path: Path, words: frozenset[str]) -> bool:
    """Whether a metric is named in a file of tests, or in a helper that it imports."""
    helpers = _FROM.findall(path.read_text(encoding="utf8"))
    places = [
        path,
        *(folder / f"{name}.py" for folder in (path.parent, HERE / "samples") for name in helpers),
    ]
    return any(strings_of(place, words).get("") for place in places if place.exists())


def _words(tree: ast.AST) -> set[str]:
    """The words of its strings; docstrings are prose."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    )
    return {word for string in strings for word in _WORD.findall(string)}


def _measured(value: Any) -> frozenset[tuple[str, str | None]]:
    """The metrics that a parameter of a test is about: the name of each, and the feature where it has one."""
    if isinstance(value, tuple | list):
        return frozenset().union(*map(_measured, value))
    entry = getattr(value, "entry", value)  # of a use of a metric
    if isinstance(entry, MetricEntry):
        return frozenset({(entry.name, entry.feature_type)})
    return _meant(value) if isinstance(value, str) else frozenset()


@cache
def _meant(text: str) -> frozenset[tuple[str, None]]:
    """The metrics that a text is the name of."""
    try:
        return frozenset((entry.name, None) for entry in entries_named(text))
    except HpometricsError:
        return frozenset()
