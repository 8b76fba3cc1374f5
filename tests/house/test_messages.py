from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import hpometrics
from docs._generate.messages import PACKAGE, messages, page
from docs._generate.texts import golden, help_pages
from hpometrics._text import did_you_mean, one_line, printable

ROOT = Path(__file__).parents[2]
VALUE = "some_value"
PUBLIC = frozenset(hpometrics.__all__)


def test_the_page_has_every_message():
    """`make index` has been run since the last change of a message, which the change of the page shows."""
    assert (ROOT / "docs/reference/messages.md").read_text(encoding="utf8") == page()


def test_the_list_of_texts_is_current():
    """`make index` has been run since the last change of any text, so that a review sees each one."""
    assert (ROOT / "tests/house/texts.txt").read_text(encoding="utf8") == golden()


def test_the_list_has_texts_of_every_kind():
    """Problems of files, verdicts, reports, notes of imports, findings, prints of the CLI and help pages."""
    listed = golden()
    for text in (
        "is fixed here and varied by space.…",
        "Verdict: …% intervals for …, …",
        "No trial has completed an epoch.",
        "… changed or dropped during import:",
        "report every epoch; if there are no epochs, pass --ignore unreported",
        "Usage: hpometrics run [OPTIONS] FILE",
        "  hpometrics metrics show ndcg",
    ):
        assert text in listed, text
    assert len(list(help_pages())) > 25


def test_the_page_has_problems_of_sweep_files():
    """Those of checks, of models and of the reader."""
    problems = page().partition("## Sweep files")[2].partition("\n## ")[0]
    assert "needs one of" in problems and problems.count("\n- ") > 100


def test_the_nearest_name_is_proposed():
    """And nothing where none is near."""
    assert did_you_mean("trian", ["train", "other"]) == "; did you mean 'train'?"
    assert did_you_mean("xyz", ["train"]) == did_you_mean(3, []) == ""


def test_an_error_becomes_one_line():
    """Its type where it has no text."""
    assert one_line(ValueError("a\n  b\t\x1b[31m")) == r"a b \x1b[31m"
    assert one_line(KeyError()) == "KeyError"


def test_what_would_steer_a_terminal_is_escaped():
    """Letters of any script stay."""
    assert printable("é\x07\u202e") == r"é\x07\u202e"


def _calls_in(text: str) -> Iterator[ast.Call]:
    """The calls of public names that a text prints, as far as they are Python."""
    for start in re.finditer(r"(?<![\w.])(\w+)\(", text):
        if start[1] not in PUBLIC:
            continue
        for end in re.finditer(r"\)", text[start.start() :]):
            with suppress(SyntaxError):
                yield ast.parse(text[start.start() :][: end.end()], mode="eval").body
                break
        else:
            raise AssertionError(f"{text!r} prints what is not Python, from {start[0]!r}")


def test_a_call_that_a_message_prints_can_be_made():
    """Whoever pastes it gets no TypeError: what it calls takes the arguments that are printed."""
    seen = 0
    for place, _, text in messages(VALUE):
        for call in _calls_in(text):
            given = {one.arg: None for one in call.keywords if one.arg not in (None, VALUE)}
            signature = inspect.signature(getattr(hpometrics, call.func.id))
            positional = [one for one in call.args if ast.unparse(one) != "..."]
            try:
                signature.bind_partial(*positional, **given)
            except TypeError as err:
                raise AssertionError(f"{place}: {ast.unparse(call)} cannot be called: {err}") from None
            seen += 1
    assert seen > 20


def test_no_message_states_a_direction_of_its_own():
    """A text that names one direction names the other beside it; a direction that it prints is a value."""
    for place, _, text in messages(VALUE):
        words = re.findall(r"\b(minimize|maximize|MINIMIZE|MAXIMIZE)\b", text)
        assert len({word.lower() for word in words}) in (0, 2), f"{place}: {text}"


CUT_AS_THEY_ARE = {
    "_redaction.py": "what hides secrets",
    "testing/waits.py": "errors of torch",
    "backends/optuna/database.py": "the name of a study in a database",
}
"""Files whose texts are cut in which no secret can stand."""


def _cuts(tree: ast.AST) -> Iterator[str]:
    """The expressions that show the start of a text: a slice up to 20 and more, a format of a precision."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            if node.conversion != -1 and re.search(r"\.", ast.unparse(node.format_spec)):
                yield ast.unparse(node)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and not node.slice.lower:
            end = node.slice.upper
            if isinstance(end, ast.Constant) and isinstance(end.value, int) and end.value >= 20:
                yield ast.unparse(node)
            elif isinstance(end, ast.Name) and end.id in ("_LONGEST", "length"):
                yield ast.unparse(node)


def test_no_text_is_cut_before_its_secrets_are_hidden():
    """The start of a secret is hidden by nobody: what is shown in part is an excerpt."""
    files = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}
    found = {name: list(_cuts(ast.parse(path.read_text(encoding="utf8")))) for name, path in files.items()}
    assert all(found[name] for name in CUT_AS_THEY_ARE)
    assert not {name: cuts for name, cuts in found.items() if cuts and name not in CUT_AS_THEY_ARE}
