"""Every hostile or broken file ends with exit code 2 and the one message that says what is wrong, where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from matrix import EXHAUSTIVE
from sample_sweeps import SWEEP, changed

from hpometrics.cli.main import main

TRAP = "from pathlib import Path\nPath('imported').touch()\ndef train(params, run): ...\n"
LETTERS = "abcdefgh"
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip(LETTERS, "bcdefghi", strict=True)
)
MERGES = "a0: &a0 {k: 1}\n" + "".join(f"a{i}: &a{i}\n  <<: [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 31))
LR = "{float: [1e-4, 1e-1], log: true}"
OUTPUT = "output: binary}"


def lr(form: str) -> str:
    """The sweep file with another form of its first dimension."""
    return changed(LR, form)


def target(text: str) -> str:
    """The sweep file with another engine."""
    return changed("toy_engine:train", json.dumps(text))


def named(text: str) -> str:
    """The sweep file with a name."""
    return f"{SWEEP}name: {json.dumps(text)}\n"


def param(text: str) -> str:
    """The sweep file with another name for its first parameter."""
    return changed("  lr:", f"  {text}:")


def results(text: str) -> str:
    """The sweep file with results."""
    return f"{SWEEP}results: {text}\n"


NO_NAME = (
    "is not a valid name; use 1 to 80 characters of A-Z a-z 0-9 . _ -, without a leading . or - and "
    "without a trailing ."
)
DEVICE = "is a device on Windows, so no directory can have that name"
NO_TARGET = "is not a target; write module:function, as in examples.digits:train"
NO_PARAM = "is not a param name; use 1 to 128 printable characters"
NO_PATH = "is not a path; write up to 1024 printable characters"
NO_SECRET = (
    "expected {secret: NAME}, where NAME is an environment variable in capitals, never the secret itself"
)

FILES: dict[str, tuple[str | bytes, str]] = {
    # what a YAML reader could be made to do
    "tag that calls": (
        "engine: !!python/object/apply:os.system [touch imported]",
        "1:9: the tag tag:yaml.org,2002:python/object/apply:os.system is not supported; use plain",
    ),
    "tag that names": (
        "a: !!python/name:os.system",
        "1:4: the tag tag:yaml.org,2002:python/name:os.system is",
    ),
    "tag of a module": (
        "a: !!python/module:os",
        "1:4: the tag tag:yaml.org,2002:python/module:os is not supported; use",
    ),
    "tag of another tool": ("a: !env HOME", "1:4: the tag !env is not supported; use plain YAML values"),
    "tag of bytes": ("a: !!binary aGk=", "1:4: the tag tag:yaml.org,2002:binary is not supported"),
    "tag of a number": (changed("seed: 3", "seed: !!int 3.5"), "6:33: !!int does not fit '3.5'; remove"),
    "tag by a directive": (
        "%TAG ! tag:x,2000:\n---\na: !y 1",
        "3:4: the tag tag:x,2000:y is not supported",
    ),
    "billion laughs": (LAUGHS, "2:4: anchors and aliases are not supported; write out the value"),
    "merge bomb": (MERGES, "1:5: anchors and aliases are not supported; write out the value"),
    "merge key": ("<<: {a: 1}", "1:1: merge keys are not supported; write out the keys"),
    "alias of itself": ("a: &a [*a]", "1:8: anchors and aliases are not supported; write out the value"),
    "anchor alone": (changed("seed: 3", "seed: &s 3"), "6:33: anchors and aliases are not supported"),
    "deep lists": ("[" * 900, "1:65: nested deeper than 64 levels"),
    "deeper lists": ("[" * 5000, "1:65: nested deeper than 64 levels"),
    "deep mappings": ("{a: " * 5000, "1:257: nested deeper than 64 levels"),
    "deep blocks": ("".join(f"{' ' * i}a:\n" for i in range(400)), "65:65: nested deeper than 64 levels"),
    "scalar of 10 MB": (
        "a: " + "x" * 10_000_000,
        "1:1: is larger than 1 MiB; a sweep file has only a few lines",
    ),
    "scalar below 1 MiB": ("engine: " + "x" * 1_000_000, f"1:1: engine: '{'x' * 119}... {NO_TARGET}"),
    "long scalar": ("engine: " + "x" * 10_000, f"1:1: engine: '{'x' * 119}... {NO_TARGET}"),
    "many unknown keys": (
        SWEEP + "".join(f"k{i}: 1\n" for i in range(300)),
        "... and 50 more\n100 errors - nothing was run.",
    ),
    "many tags": (f"a: [{'!x 1, ' * 150_000}]", "... and 51 more\n101 errors - nothing was run."),
    "many keys": (
        SWEEP + "".join(f"k{i}: 1\n" for i in range(2000)),
        "1003:1: a mapping has at most 1000 keys",
    ),
    "many values": (
        changed("seed: 3", f"start: [{'[],' * 200_000}]"),
        "holds more than 100000 keys and values",
    ),
    "many constraints": (
        changed("[accuracy]", f"[accuracy], constraints: [{'x <= 1, ' * 40_000}]"),
        "metrics.constraints: has at most 100 entries, got 40000",
    ),
    "more constraints than may be": (
        changed("[accuracy]", f"[accuracy], constraints: [{'x <= 1, ' * 101}]"),
        "metrics.constraints: has at most 100 entries, got 101",
    ),
    # numbers
    "int of 5000 digits": (
        changed("seed: 3", f"seed: {'1' * 5000}"),
        "6:33: a number of 5000 characters; write",
    ),
    "int of 300 digits": (changed("seed: 3", f"seed: {'1' * 300}"), f"6:33: {'1' * 30} is too large; whole"),
    "hexadecimal": (changed("seed: 3", f"seed: 0x{'f' * 390}"), f"6:33: 0x{'f' * 28} is too large; whole"),
    "float beyond": (changed("1e-1]", "1e400]"), "3:22: 1e400 is too large; whole numbers have 64 bits"),
    "float below": (
        changed("[1e-4", "[1e-400"),
        "3:16: 1e-400 is too small; the smallest number above 0 is 5e-324",
    ),
    "nan": (
        changed("1e-1]", ".nan]"),
        "3:22: .nan is not a value that a sweep can use; write a finite number",
    ),
    "infinity": (
        changed("[1e-4", "[-.inf"),
        "3:16: -.inf is not a value that a sweep can use; write a finite number",
    ),
    "number in quotes": (
        changed("[1e-4", "['1e-4'"),
        "3:16: space.lr.float[0]: expected a number, got '1e-4' (text); "
        "write it without quotes and underscores",
    ),
    "nan as a word": (
        changed("1e-1]", "nan]"),
        "3:22: space.lr.float[1]: expected a number, got 'nan' (text); write a finite number",
    ),
    "infinity as a word": (
        changed("[1e-4", "[-Infinity"),
        "3:16: space.lr.float[0]: expected a number, got '-Infinity' (text); write a finite number",
    ),
    "no": (changed("log: true", "log: no"), "3:29: space.lr.log: expected true or false, got 'no' (text)"),
    "on": (changed("log: true", "log: on"), "3:29: space.lr.log: expected true or false, got 'on' (text)"),
    "time of day": (
        changed("seed: 3", "seed: 12:30:45"),
        "6:27: search.seed: expected a whole number, got '12:30:45'",
    ),
    "date": (
        changed("seed: 3", "seed: 2024-01-02"),
        "6:27: search.seed: expected a whole number, got '2024-01-02'",
    ),
    # keys
    "section twice": (f"{SWEEP}search: {{seed: 4}}\n", "8:1: duplicate key 'search' (first at line 6)"),
    "key twice": (
        changed("seed: 3", "seed: 3, 'seed': 4"),
        "6:36: search: duplicate key 'seed' (first at line 6)",
    ),
    "number as a key": ("1: 2", "1:1: the key 1 reads as a number or word of YAML; quote it"),
    "null as a key": ("~: 2", "1:1: the key ~ reads as a number or word of YAML; quote it"),
    "mapping as a key": ("? {a: 1}\n: 2", "1:3: a key is text, not a list or mapping"),
    # what is no sweep file at all
    "empty": ("", "1:1: is empty; start with `engine:`, `space:`, `metrics:` and `budget:`"),
    "comment": ("# nothing\n", "1:1: is empty; start with `engine:`"),
    "list at the top": ("- a", "1:1: starts with a list, but a sweep file is a mapping of sections"),
    "text at the top": ("hello", "1:1: starts with a text, but a sweep file is a mapping of sections"),
    "two documents": (
        f"{SWEEP}---\n{SWEEP}",
        "8:1: a second document starts here, but a file holds one sweep",
    ),
    "tab": ("engine:\n\ttarget: x", "2:1: a tab is used where YAML requires spaces"),
    "NUL": (f"{SWEEP}a: \0\n", "8:4: the character #x0000 is not YAML text"),
    "NUL alone": (b"\0" * 4096, "1:1: the character #x0000 is not YAML text"),
    "escape": (f"{SWEEP}a: \x1b[31m\n", "8:4: the character #x001b is not YAML text"),
    "C1 escape": (f"{SWEEP}a: \x9b31m\n", "8:4: the character #x009b is not YAML text"),
    "an unpaired surrogate": (f'{SWEEP}a: "\\ud800"\n', "8:4: an unpaired surrogate is not text"),
    "surrogate as bytes": (SWEEP.encode() + b"a: \xed\xa0\x80\n", "8:1: byte 0xed is not UTF-8 text"),
    "UTF-16": (SWEEP.encode("utf-16"), "1:1: byte 0xff is not UTF-8 text"),
    "Latin-1": (SWEEP.encode() + b"# \xe9\n", "8:1: byte 0xe9 is not UTF-8 text"),
    "YAML of another version": (
        f"%YAML 3.0\n---\n{SWEEP}",
        "1:1: not YAML: found incompatible YAML document",
    ),
    "open quote": ('a: "x', "1:6: not YAML: found unexpected end of stream (while scanning a quoted scalar)"),
    # code that is named
    "target in C": (
        target("os:system"),
        "os:system is a builtin_function_or_method, not a function train(params, run)",
    ),
    "target that evaluates": (
        target("builtins:eval"),
        "builtins:eval is a builtin_function_or_method, not a function",
    ),
    "target of the same argument": (
        target("textwrap:dedent"),
        "textwrap:dedent must accept two arguments: train(params, run)",
    ),
    "target with attributes": (
        target("a.b:c.__globals__"),
        f"1:10: engine.target: 'a.b:c.__globals__' {NO_TARGET}",
    ),
    "target of Python's own": (target("a:__import__"), f"'a:__import__' {NO_TARGET}"),
    "target in the parent": (target("..a:b"), f"'..a:b' {NO_TARGET}"),
    "target by its file": (target("./trap.py:train"), f"'./trap.py:train' {NO_TARGET}"),
    "target by its path": (target("/tmp/trap:train"), f"'/tmp/trap:train' {NO_TARGET}"),
    "target that is called": (target("trap:train()"), f"'trap:train()' {NO_TARGET}"),
    "target with a newline": (target("trap:train\n"), rf"'trap:train\n' {NO_TARGET}"),
    "target of wide letters": (target("\uff41:b"), f"'\uff41:b' {NO_TARGET}"),
    "command with a NUL": (
        changed("target: toy_engine:train", r'command: ["a\0b"]'),
        r"engine.command[0]: 'a\x00b' is not a part of a command; a program cannot receive a NUL",
    ),
    # names and places
    "name in the parent": (named("../escaped"), f"8:1: name: '../escaped' {NO_NAME}"),
    "name of the root": (named("/abs"), f"8:1: name: '/abs' {NO_NAME}"),
    "name of the parent": (named(".."), f"8:1: name: '..' {NO_NAME}"),
    "name that is hidden": (named(".hidden"), f"8:1: name: '.hidden' {NO_NAME}"),
    "name like a flag": (named("-rf"), f"8:1: name: '-rf' {NO_NAME}"),
    "name with a dot at the end": (named("x."), f"8:1: name: 'x.' {NO_NAME}"),
    "name of two": (named("a/b"), f"8:1: name: 'a/b' {NO_NAME}"),
    "name with a backslash": (named("a\\b"), rf"8:1: name: 'a\\b' {NO_NAME}"),
    "name with a newline": (named("a\nb"), rf"8:1: name: 'a\nb' {NO_NAME}"),
    "name that turns": (named("a\u202eb"), rf"8:1: name: 'a\u202eb' {NO_NAME}"),
    "long name": (named("x" * 81), f"8:1: name: '{'x' * 80}'... {NO_NAME}"),
    "name of a device": (named("con"), f"8:1: name: 'con' {DEVICE}"),
    "name of a device's file": (named("LPT1.log"), f"8:1: name: 'LPT1.log' {DEVICE}"),
    "directory with a newline": (results(r'{dir: "a\nb"}'), rf"8:11: results.dir: 'a\nb' {NO_PATH}"),
    "directory with a NUL": (results(r'{dir: "a\0b"}'), rf"8:11: results.dir: 'a\x00b' {NO_PATH}"),
    "directory with colors": (results(r'{dir: "\e[31m"}'), rf"8:11: results.dir: '\x1b[31m' {NO_PATH}"),
    "long directory": (results(f"{{dir: {'x' * 2000}}}"), f"8:11: results.dir: '{'x' * 40}' {NO_PATH}"),
    # parameters
    "param with a newline": (param(r'"a\nb"'), rf"3:3: space.a\nb: 'a\nb' {NO_PARAM}"),
    "param with colors": (param(r'"\e[31m"'), rf"3:3: space.\x1b[31m: '\x1b[31m' {NO_PARAM}"),
    "param that turns": (param(r'"\u202ea"'), rf"3:3: space.\u202ea: '\u202ea' {NO_PARAM}"),
    "param without a name": (param('""'), f"3:3: space.: '' {NO_PARAM}"),
    "long param": (param("x" * 129), f"'{'x' * 40}' {NO_PARAM}"),
    "param of parts": (
        param(r'"e\u0301"'),
        "is not in the composed form of Unicode (NFC), so another name could look the",
    ),
    "secret that is said": (
        changed(OUTPUT, "output: binary, params: {token: {secret: hf_abc}}}"),
        f"1:52: engine.params: token {NO_SECRET}",
    ),
    # the space
    "range without end": (
        lr("{float: [-1e308, 1e308]}"),
        "the range from -1e+308 to 1e+308 is too wide for a float",
    ),
    "int beyond floats": (
        lr("{int: [0, 9223372036854775807]}"),
        "is above 2**53, beyond which whole numbers are no",
    ),
    "int beyond 64 bits": (
        lr("{int: [0, 1180591620717411303424]}"),
        "3:17: 1180591620717411303424 is too large",
    ),
    "step beyond the range": (
        lr("{int: [0, 10], step: 20}"),
        "step must be positive and at most high - low = 10",
    ),
    "step of nothing": (lr("{float: [0, 1], step: 0}"), "step must be positive and at most high - low = 1"),
    "bounds the wrong way": (
        lr("{float: [1, 0]}"),
        "space.lr.float: low 1.0 must not be greater than high 0.0",
    ),
    "bool as a bound": (lr("{float: [true, 1]}"), "3:16: space.lr.float[0]: expected a number, got True"),
    "bool as a whole bound": (
        lr("{int: [true, 3]}"),
        "3:14: space.lr.int[0]: expected a whole number, got True",
    ),
    "logarithm of 0": (lr("{float: [0, 1], log: true}"), "space.lr.float: log requires low above 0, got 0.0"),
    "list as a choice": (
        lr("{choice: [[1], 2]}"),
        "space.lr.choice[0]: an option must be text, a number, true, false",
    ),
    "nan as a choice": (lr("{choice: [.nan, 1]}"), "3:17: .nan is not a value that a sweep can use"),
    "infinity in a bundle": (
        lr("{choice: {a: {b: .inf}}}"),
        "3:24: .inf is not a value that a sweep can use",
    ),
}


def call(command: str, *arguments: str) -> Result:
    """Type `hpometrics COMMAND ...`."""
    return CliRunner().invoke(main, [command, *arguments])


def assert_refused(result: Result, text: str) -> None:
    """It ended with exit code 2 and the message, of printable characters, and with no traceback."""
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 2, result.output
    assert text in result.stderr
    assert "Traceback" not in result.output
    assert result.stderr.replace("\n", "").isprintable()
    assert len(result.stderr) < 10_000


LARGE = ("scalar below 1 MiB", "many values", "many constraints")
"""Files that take seconds to read; the short suite sees their limits in smaller ones."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=EXHAUSTIVE if name in LARGE else ()) for name in FILES]
)
def test_a_hostile_file_is_refused_before_anything_happens(name, folder):
    """By `run`, and by `check` unless the file is right and only its engine is not: that, `check` leaves."""
    content, text = FILES[name]
    (folder / "trap.py").write_text(TRAP)
    (folder / "sweep.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    before = sorted(folder.rglob("*"))
    if "train(params, run)" not in text and "not a function" not in text:
        assert_refused(call("check", "sweep.yaml"), text)
    assert_refused(call("run", "sweep.yaml"), text)
    left = [path for path in folder.rglob("*") if "__pycache__" not in path.parts]
    assert sorted(left) == before


def test_a_file_that_is_none_is_refused(folder):
    """A directory, and one that is not there."""
    (folder / "dir.yaml").mkdir()
    assert_refused(call("check", "dir.yaml"), "dir.yaml: cannot be read: Is a directory")
    assert_refused(call("run", "a\nb.yaml"), r"a\nb.yaml: cannot be read: No such file or directory")


def test_a_password_on_the_command_line_is_not_repeated(folder):
    """Nor one in the file: the URL is shown without who logs in."""
    (folder / "sweep.yaml").write_text(SWEEP)
    url = "backend.optuna.storage=[postgresql://ada:pw@db/x]"
    result = call("check", "sweep.yaml", "--set", url)
    assert_refused(result, "--set backend.optuna.storage=[postgresql://***@db/x]: ")
    assert "pw" not in result.output


def test_check_imports_nothing_that_a_file_names(folder):
    """Only what trains does: the module of the engine, of a metric, and none at all for reading results."""
    (folder / "trap.py").write_text(TRAP)
    (folder / "sweep.yaml").write_text(changed("toy_engine:train", "trap:train"))
    assert call("check", "sweep.yaml").exit_code == 0
    assert not Path("imported").exists()
    (folder / "sweep.yaml").write_text(changed("[accuracy]", "[trap:Metric]"))
    assert call("check", "sweep.yaml").exit_code == 0
    assert not Path("imported").exists()
