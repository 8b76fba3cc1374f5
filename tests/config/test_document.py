from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from sample_sweeps import problems_of

from hpometrics.config import document as loader
from hpometrics.config.document import (
    MAX_BYTES,
    SweepFileError,
    parse_document,
    parse_value,
    read_document,
)
from hpometrics.config.scalars import read_plain
from hpometrics.config.yaml_writer import dump_yaml

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn")), max_size=20)
NUMBERS = st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("1E5", 1e5),
        ("1.", 1.0),
        (".5", 0.5),
        ("-3", -3),
        ("010", 10),
        ("0o17", 15),
        ("0xff", 255),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2026-11-21", "2026-11-21"),
        ("no", "no"),
        ("on", "on"),
        ("Yes", "Yes"),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("1.2.3", "1.2.3"),
    ],
)
def test_plain_scalars_are_those_of_yaml_1_2(text, value):
    """A number is a number and a word is a word, the type included."""
    read = read_plain(text)
    assert (type(read), read) == (type(value), value)


@given(VALUES)
def test_what_is_written_reads_back(value):
    """Writing and reading are inverse, for text that looks like a number too."""
    text = dump_yaml({"key": value})
    assert parse_document(text, "x.yaml").data == {"key": value}


@pytest.mark.parametrize(
    "text", ["1e-5", "no", "010", "null", "~", "<<", "", "12:30", ".nan", "a: b", "# x", "é"]
)
def test_text_stays_text(text):
    """What would read as something else is put in quotes."""
    assert parse_document(dump_yaml({"key": text, text: 1}), "x.yaml").data == {"key": text, text: 1}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "x.yaml:1:1: is empty"),
        ("# nothing\n", "x.yaml:1:1: is empty"),
        ("- a", "x.yaml:1:1: starts with a list, but a sweep file is a mapping of sections"),
        ("just text", "x.yaml:1:1: starts with a text"),
        ("a: &x 1\nb: 2", "x.yaml:1:4: anchors and aliases are not supported"),
        ("<<: {a: 1}", "x.yaml:1:1: merge keys are not supported"),
        ("a: !env HOME", "x.yaml:1:4: the tag !env is not supported"),
        ("a: !!binary aGk=", "x.yaml:1:4: the tag tag:yaml.org,2002:binary is not supported"),
        ("a: !!python/object/apply:os.system [ls]", "x.yaml:1:4: the tag tag:yaml.org,2002:python/object"),
        ("a: !!int 1.5", "x.yaml:1:4: !!int does not fit '1.5'; remove the tag"),
        ("a: !!float {}", "x.yaml:1:4: the tag tag:yaml.org,2002:float is not supported"),
        ("a: !!float .nan", "x.yaml:1:4: .nan is not a value that a sweep can use"),
        ("a: .nan", "x.yaml:1:4: .nan is not a value that a sweep can use; write a finite number"),
        ("a: -.inf", "x.yaml:1:4: -.inf is not a value that a sweep can use"),
        ("a: 1e999", "x.yaml:1:4: 1e999 is too large"),
        ("a: 99999999999999999999", "x.yaml:1:4: 99999999999999999999 is too large"),
        ("a: " + "1" * 5000, "x.yaml:1:4: a number of 5000 characters"),
        ("---\na: 1\n---\nb: 2", "x.yaml:3:1: a second document starts here"),
        ("[" * 5000, "x.yaml:1:65: nested deeper than 64 levels"),
        ("{a: " * 5000, "nested deeper than 64 levels"),
        ("a:\n\t- b", "x.yaml:2:1: a tab is used where YAML requires spaces"),
        ("a: \x00", "x.yaml:1:4: the character #x0000 is not YAML text"),
        ('a: "\\ud800"', "x.yaml:1:4: an unpaired surrogate is not text"),
        ("1: 2", "x.yaml:1:1: the key 1 reads as a number or word of YAML"),
        ("true: 2", "x.yaml:1:1: the key true reads as a number or word of YAML"),
        ("? [a]\n: b", "x.yaml:1:3: a key is text, not a list or mapping"),
        ("a: [1, 2", "x.yaml:1:9: not YAML"),
        ("a: b: c", "x.yaml:1:5: not YAML: mapping values are not allowed here"),
        ("a b\nc: 1", "x.yaml:1:1: a key ends in a colon, as in a: ..."),
        ("a: 1\n\nb mod:train  # c: d\n\nc: 1", "x.yaml:3:1: a key ends in a colon, as in b: ..."),
        ("a: 1\nb: c: d", "x.yaml:2:5: not YAML: mapping values are not allowed here"),
    ],
)
def test_what_is_no_sweep_file_is_one_line(text, line):
    """Every hostile or broken text ends in one problem with its place, never in a traceback or a hang."""
    with pytest.raises(SweepFileError) as caught:
        parse_document(text, "x.yaml").raise_problems()
    assert len(caught.value.problems) == 1
    assert line in str(caught.value.problems[0])


def test_aliases_are_refused_before_they_grow():
    """The billion laughs end at the first of them; every alias has its line."""
    lines = [
        "a: &a [x, x]",
        *(f"{b}: &{b} [*{a}, *{a}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
    ]
    with pytest.raises(SweepFileError, match=r"x.yaml:9:\d+: anchors and aliases") as caught:
        parse_document("\n".join(lines), "x.yaml").raise_problems()
    assert len(caught.value.problems) == 25


def test_a_duplicate_key_names_both_lines():
    """The second one is refused, wherever it stands, and other problems can be found beside it."""
    document = parse_document("space:\n  lr: 1\n  lr: 2\n", "x.yaml")
    assert [str(p) for p in document.problems] == ["x.yaml:3:3: space: duplicate key 'lr' (first at line 2)"]


def test_keys_and_items_have_places():
    """A path leads to its key; where the file has none, to the nearest parent."""
    document = parse_document("space:\n  lr: {float: [1, 2]}\n", "x.yaml")
    places = {
        path: str(document.mark(path))
        for path in [("space", "lr", "float", 1), ("space", "lr", "log"), ("x",)]
    }
    assert list(places.values()) == ["x.yaml:2:19", "x.yaml:2:3", "x.yaml:1:1"]


def test_a_file_is_read_with_care(tmp_path):
    """Missing, too large or not UTF-8: each is said in one line; a byte order mark is no key."""
    path = tmp_path / "sweep.yaml"
    (tmp_path / "base.yaml").touch()
    with pytest.raises(SweepFileError, match=r"No such file or directory; did you mean 'base\.yaml'\?"):
        read_document(tmp_path / "base.yml")
    with pytest.raises(SweepFileError, match=r"cannot be read: No such file or directory\n"):
        read_document(path)
    path.write_bytes(b"a: 1\nb: \xff")
    with pytest.raises(SweepFileError, match=r"sweep\.yaml:2:1: byte 0xff is not UTF-8 text"):
        read_document(path)
    path.write_bytes(b"a: " + b"x" * MAX_BYTES)
    with pytest.raises(SweepFileError, match="is larger than 1 MiB"):
        read_document(path)
    path.write_bytes(b"\xef\xbb\xbfa: 1")
    assert read_document(path).data == {"a": 1}


def test_a_file_holds_so_many_values(monkeypatch):
    """Keys and the entries of lists count, wherever they stand; the place is that of the first too many."""
    monkeypatch.setattr(loader, "MAX_VALUES", 7)
    assert parse_document("a: [1, {b: 2}]", "x.yaml").data == {"a": [1, {"b": 2}]}
    with pytest.raises(SweepFileError, match=r"^x\.yaml:1:16: holds more than 7 keys and values"):
        parse_document("a: [1, {b: 2}, 3, 4]", "x.yaml")


def test_one_value_is_read_for_the_command_line():
    """`--set` values follow the same rules; a problem is shown at the flag."""
    assert parse_value("[1e-3, no]", "--set x=...") == [1e-3, "no"]
    with pytest.raises(SweepFileError, match=r"^--set x=\.nan: \.nan is not a value"):
        parse_value(".nan", "--set x=.nan")


def test_what_is_refused_does_not_end_the_reading():
    """Each has its line and its place among the broken; an anchor's value is there all the same."""
    document = parse_document("a: .nan\nb: [1, !x 2, 99999999999999999999]\nc: &c 3\nd: *c\ne: 5", "x.yaml")
    assert [problem.mark.line for problem in document.problems] == [1, 2, 2, 3, 4]
    assert document.broken == {("a",), ("b", 1), ("b", 2), ("d",)}
    assert (document.data["c"], document.data["e"]) == (3, 5)


def test_the_tags_of_scalars_are_read():
    """PyYAML reads `1e-5` as text, so files of other tools write `!!float 1e-5`."""
    text = "a: !!float 1e-5\nb: !!float 1\nc: !!int 3\nd: !!str 010\ne: !!bool true\nf: !!null ''\n"
    data = parse_document(text, "x.yaml").data
    assert data == {"a": 1e-5, "b": 1.0, "c": 3, "d": "010", "e": True, "f": None}
    assert type(data["b"]) is float


@pytest.mark.parametrize("line", ["space {lr: {float: [0, 1]}}", "space {lr: 1}"])
def test_a_section_without_its_colon_is_named(line):
    """YAML reads a key `space {lr`; nothing else is called missing because of it."""
    text = f"engine: a:train\n{line}\nmetrics: {{optimize: accuracy}}\nbudget: {{trials: 1}}\n"
    [problem] = problems_of(text)
    assert problem.startswith("sweep.yaml:2:1: a key ends in a colon, as in space: ")
