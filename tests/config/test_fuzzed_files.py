"""Fuzzing: whatever a sweep file or a metric's name holds, it is read, or refused by an error of ours.

`corpus` holds what to begin with; an input that is found to break a rule is added there as a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings, strategies as st
from matrix import EXHAUSTIVE
from sample_sweeps import SWEEP

from hpometrics.config.document import _SIMPLE, MAX_DEPTH, SweepFileError, _Builder, parse_document
from hpometrics.config.plan import make_plan
from hpometrics.config.yaml_text import dump_yaml
from hpometrics.exceptions import MetricNameError
from hpometrics.metrics.registry.names import MetricName

CORPUS = Path(__file__).with_name("corpus")
FILES = {path.name: path.read_text() for path in sorted(CORPUS.glob("*.yaml"))}
NAMES = (CORPUS / "names.txt").read_text().splitlines()
LONGEST = 250_000
"""Characters of an error: fifty problems of at most two thousand, in escapes."""

WORDS = ["engine", "space", "metrics", "float", "choice", "a", "1", "1e-4", ".nan", "~", "no", "---", "..."]
SIGNS = [*"\"'{}[]|>#%@`\t\n\\", ": ", ", ", "- ", "? ", "&a ", "*a", "!t ", "<<", "\n  "]
PIECES = st.sampled_from([*WORDS, *SIGNS])
TEXTS = st.lists(PIECES | st.characters(), max_size=40).map("".join)
SIMPLE_PIECES = st.sampled_from([*WORDS, *"\"'{}[]#:,-", ": ", ", ", "- ", "- - ", "''", "<<", "\n", "\n  "])
SIMPLE_TEXTS = st.lists(SIMPLE_PIECES, max_size=40).map("".join)


def with_parts(texts):
    """Files of the corpus, a part of each replaced by a text."""
    cuts = st.tuples(st.sampled_from(sorted(FILES.values())), st.integers(0, 200), st.integers(0, 9), texts)
    return cuts.map(lambda cut: cut[0][: cut[1]] + cut[3] + cut[0][cut[1] + cut[2] :])


NAME_PIECES = st.sampled_from(
    [
        "f1",
        "ndcg",
        "a",
        "_b",
        "test:",
        "/",
        ".",
        "(",
        ")",
        "=",
        ", ",
        "@",
        "10",
        "-1",
        "1e5",
        "true",
        '"x"',
        '"',
        "\\",
    ]
)
NAME_TEXTS = st.lists(NAME_PIECES | st.characters(), max_size=12).map("".join)
EXAMPLES = pytest.mark.parametrize("examples", [200, pytest.param(2000, marks=EXHAUSTIVE)])


def sizes(value: Any, depth: int = 0) -> tuple[int, int]:
    """How many values there are, and how deep the deepest is."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    below = [sizes(one, depth + 1) for one in inner]
    return 1 + sum(count for count, _ in below), max((deep for _, deep in below), default=depth)


def check_file(text: str) -> None:
    """It is a plan, or an error of a bounded length; what was read is no larger than the text."""
    try:
        document = parse_document(text, "sweep.yaml")
        count, deep = sizes(document.data)
        assert count <= len(text) + 1 and deep <= MAX_DEPTH
        if not document.problems:
            assert parse_document(dump_yaml(document.data), "again").data == document.data
        make_plan(document)
    except SweepFileError as err:
        assert 0 < len(str(err)) <= LONGEST
        assert str(err).replace("\n", "").isprintable()


def check_parsers(text: str) -> None:
    """Both parsers read the same data, places and problems, unless libyaml refuses the text."""
    try:
        quick = read_by(yaml.CSafeLoader, text)
    except yaml.YAMLError:
        return
    assert quick == read_by(yaml.SafeLoader, text)


def read_by(loader: type[Any], text: str) -> str:
    """What a parser reads, or why that is no sweep file."""
    try:
        return repr(_Builder("sweep.yaml", text).build(loader))
    except SweepFileError as err:
        return str(err)


def check_name(text: str) -> None:
    """It prints as it parses, or is refused in a few words."""
    try:
        name = MetricName.parse(text)
    except MetricNameError as err:
        assert len(str(err)) <= 2000
        return
    assert MetricName.parse(str(name)) == name
    assert str(MetricName.parse(str(name))) == str(name)


@pytest.mark.parametrize("name", FILES)
def test_each_file_of_the_corpus_is_read_or_refused(name):
    """They are the seeds of the fuzzing, and what it has found."""
    check_file(FILES[name])


@pytest.mark.parametrize("name", NAMES)
def test_each_name_of_the_corpus_prints_as_it_parses(name):
    """Or is refused."""
    check_name(name)


@EXAMPLES
def test_any_text_is_a_sweep_file_or_an_error_of_ours(examples):
    """Pieces of YAML in any order, and files of the corpus with a part replaced."""
    settings(derandomize=True, max_examples=examples)(given(TEXTS | with_parts(TEXTS))(check_file))()


@EXAMPLES
def test_any_simple_text_is_read_alike_by_either_parser(examples):
    """Files of the corpus with a part replaced too."""
    texts = (SIMPLE_TEXTS | with_parts(SIMPLE_TEXTS)).filter(_SIMPLE.fullmatch)
    settings(derandomize=True, max_examples=examples)(given(texts)(check_parsers))()


def test_without_libyaml_the_same_is_read(monkeypatch):
    """As where PyYAML was built without it."""
    quick = parse_document(SWEEP, "sweep.yaml")
    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    assert parse_document(SWEEP, "sweep.yaml") == quick


@EXAMPLES
def test_any_text_is_a_name_or_an_error_of_ours(examples):
    """Pieces of names in any order."""
    settings(derandomize=True, max_examples=examples)(given(NAME_TEXTS)(check_name))()
