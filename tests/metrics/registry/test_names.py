from __future__ import annotations

import re
import string
from collections.abc import Hashable

import pytest
from hypothesis import given, strategies as st

from hpometrics.exceptions import MetricNameError
from hpometrics.metrics.registry.names import SPLITS, MetricName, parse_import_path

WORDS = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
TASKS = st.text(string.ascii_letters + string.digits + "_-.'é", min_size=1, max_size=8)
VALUES = st.one_of(
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.text(max_size=12),
    st.sampled_from(["true", "nan", "-inf", "1e5", "1_0", "a b", 'a"b', "a,b", "a)@3", "", "macro"]),
)
NAMES = st.builds(
    MetricName,
    metric=WORDS,
    params=st.dictionaries(WORDS, VALUES, max_size=3).map(lambda params: tuple(params.items())),
    k=st.none() | st.integers(0, 10**6),
    feature=st.none() | WORDS,
    task=st.none() | TASKS,
    split=st.none() | st.sampled_from(SPLITS),
)


@given(name=NAMES)
def test_a_name_prints_as_it_parses(name):
    """Whatever its parts hold, the text of a name reads back as the same name, types included."""
    read = MetricName.parse(str(name))
    assert read == name
    assert [type(value) for _, value in read.params] == [type(value) for _, value in name.params]
    assert str(read) == str(name)


@given(text=st.text(string.printable + "é\u202e\x00\ud800", max_size=40))
def test_any_text_is_a_name_or_a_named_error(text):
    """No text gets past the grammar by another exception, and what is read prints back."""
    try:
        name = MetricName.parse(text)
    except MetricNameError:
        return
    assert MetricName.parse(str(name)) == name


@given(text=st.text(string.digits + '"\\(),=@:/. aeinfx_+-\n\u0661', max_size=20))
def test_any_parameter_text_is_read_or_a_named_error(text):
    """The same between the brackets, where quotes, escapes and odd digits live."""
    try:
        name = MetricName.parse(f"f1({text})")
    except MetricNameError:
        return
    assert MetricName.parse(str(name)) == name


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("roc_auc", {}),
        ("f1(average=macro)", {"params": (("average", "macro"),)}),
        ("ndcg@10", {"k": 10}),
        ("convai2/intent.f1(average=macro)", {"task": "convai2", "feature": "intent"}),
        ("all/f1(average=macro)", {"task": "all"}),
        ("test:accuracy", {"split": "test"}),
        ("train:t/f.m@3", {"split": "train", "task": "t", "feature": "f", "k": 3, "metric": "m"}),
        (" bleu-4 ", {"metric": "bleu-4"}),
        ("rouge_L", {"metric": "rouge_L"}),
    ],
)
def test_the_grammar_by_example(text, parts):
    """The names of the design mean what they say; what a name does not say is None."""
    name = MetricName.parse(text)
    for part in ("split", "task", "feature", "k"):
        assert getattr(name, part) == parts.get(part)
    assert name.params == parts.get("params", name.params)
    assert name.metric == parts.get("metric", name.metric)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("ndcg( gain=exp )@10", "ndcg(gain=exp)@10"),
        ("fbeta(beta=2,average=micro)", "fbeta(average=micro, beta=2)"),
        ("f1()", "f1"),
        ('f1(average="macro")', "f1(average=macro)"),
        ('m(a="1.5")', 'm(a="1.5")'),
        ("m(a=1.50)", "m(a=1.5)"),
        ("m(a=+5)", "m(a=5)"),
        ("hits@2(average=macro)", "hits(average=macro)@2"),
        ("test:t/f.m@3(a=1)", "test:t/f.m(a=1)@3"),
        ('m@3(a="x)@4(")', 'm(a="x)@4(")@3'),
        ("ndcg@5()", "ndcg@5"),
    ],
)
def test_one_identity_has_one_spelling(text, canonical):
    """Spaces, order and needless quotes make no other metric; a quoted number stays text."""
    assert str(MetricName.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a metric name; the form is"),
        ("f1(average=macro", "is not a metric name"),
        ("@5", "is not a metric name"),
        ("f1@five", "is not a metric name"),
        ("torchmetrics.classification.MulticlassF1Score", "write only 'MulticlassF1Score', or convert"),
        ("f1@-1", "is not a metric name"),
        ("f1@2@3", "is not a metric name"),
        ("m@2(a=1)@3", r"'m@2\(a=1\)@3': the cut-off is set twice; leave @2 out"),
        ("a/b/f1", "is not a metric name"),
        ("x" * 300, "is not a metric name"),
        ("f1(macro)", "cannot read 'macro' as param=value"),
        ("f1(average=a, average=b)", "'average' is set twice"),
        ("f1(a=1e400)", "'1e400' is not a finite number"),
        ("f1(a=$x)", "not a number, true, false or a word"),
        ('f1(a="x)', "cannot read"),
        ('f1(a="\\x")', "is not valid quoted text"),
        ('f1(a="x\ny")', "is not a metric name"),
        ("f1(a=1_000)", "is not a number"),
        ("f1(a=\u0661)", "is not a number"),
        ("a\x00b/f1", "is not a metric name"),
        ("\u202eabc/f1", "is not a metric name"),
    ],
)
def test_a_malformed_name_says_where(text, message):
    """Each error shows the text that cannot be read, never another exception."""
    with pytest.raises(MetricNameError, match=message):
        MetricName.parse(text)


@pytest.mark.parametrize("thing", [None, 5, b"f1", ["f1"]])
def test_a_name_is_text(thing):
    """What is no text is named with its type."""
    with pytest.raises(MetricNameError, match=f"must be text, got .*{type(thing).__name__}"):
        MetricName.parse(thing)


@pytest.mark.parametrize(
    "thing", [1, 1.5, True, b"a", ["a"], {"a": 1}, object()], ids=lambda thing: type(thing).__name__
)
@pytest.mark.parametrize("part", ["metric", "feature", "task", None])
def test_a_part_of_a_name_is_text(part, thing):
    """A part that is not text, or a key that is not, is refused by name whatever it is."""
    if part is None:
        thing = thing if isinstance(thing, Hashable) and not isinstance(thing, str) else (1, 2)
    with pytest.raises(MetricNameError, match=r"text, .*got"):
        MetricName.of_parts({"metric": "f1"} | ({thing: 1} if part is None else {part: thing}))


@pytest.mark.parametrize("thing", [3, None, "f1", ["f1"], [("metric", "f1")]])
def test_a_name_in_parts_is_a_mapping(thing):
    """What is none is shown."""
    with pytest.raises(MetricNameError, match=f"must be a mapping, .*got {re.escape(repr(thing))}"):
        MetricName.of_parts(thing)


def test_bare_is_what_the_registry_knows():
    """Split, task and feature go; parameters and k stay."""
    assert str(MetricName.parse("test:t/f.ndcg(gain=exp)@5").bare) == "ndcg(gain=exp)@5"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("package.module:Class", ("package.module", "Class")),
        ("module:Class", ("module", "Class")),
        ("test:accuracy", None),
        ("package.module:Class.method", None),
        ("os.__dict__:x", None),
        ("a.b:c.__globals__", None),
        ("../evil:x", None),
        ("accuracy", None),
    ],
)
def test_an_import_path_is_told_from_a_name(text, path):
    """A split is no module, and nothing reaches through dunders or file paths."""
    assert parse_import_path(text) == path
