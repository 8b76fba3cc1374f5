"""Error rates: jiwer's and torchmetrics' numbers where they are right, a table written out where not."""

from __future__ import annotations

import random
from functools import cache
from itertools import product

import pytest
from drawn_texts import SHAPES, draw_texts, value
from matrix import covering
from torchmetrics.text import CharErrorRate, WordErrorRate


def only_first(seed: int, vocabulary: int, longest: int, most: int) -> tuple[list[str], list[str]]:
    """Texts with one reference each that is not empty."""
    texts, references = draw_texts(seed, vocabulary, longest, most, rows=80)
    rows = [(text, right[0]) for text, right in zip(texts, references, strict=True) if right[0]]
    return [text for text, _ in rows], [right for _, right in rows]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name, other", [("wer", WordErrorRate), ("cer", CharErrorRate)])
def test_rates_agree_with_torchmetrics(shape, name, other):
    """Edits and lengths are pooled."""
    texts, right = only_first(*shape)
    metric = other()
    metric.update(texts, right)
    assert value(name, texts, right) == pytest.approx(metric.compute().item(), rel=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_rates_agree_with_jiwer(shape):
    """To the last digit."""
    jiwer = pytest.importorskip("jiwer")
    texts, right = only_first(*shape)
    assert value("wer", texts, right) == pytest.approx(jiwer.wer(right, texts), rel=1e-12)
    assert value("cer", texts, right) == pytest.approx(jiwer.cer(right, texts), rel=1e-12)


def alignment(said: list[str], right: list[str]) -> tuple[int, int]:
    """The fewest edits, and with those the most hits, by the definition."""

    @cache
    def cost(i: int, j: int) -> tuple[int, int]:
        if not i or not j:
            return i + j, 0
        same = said[i - 1] == right[j - 1]
        edits, lost = cost(i - 1, j - 1)
        ways = [(edits + (not same), lost - same)]
        ways += [(edits + 1, lost) for edits, lost in (cost(i - 1, j), cost(i, j - 1))]
        return min(ways)

    edits, lost = cost(len(said), len(right))
    return edits, -lost


@pytest.mark.parametrize("shape", SHAPES)
def test_alignments_by_definition(shape):
    """mer, wil and wip are functions of edits, hits and lengths."""
    texts, right = only_first(*shape)
    pairs = [(text.split(), one.split()) for text, one in zip(texts, right, strict=True)]
    edits, hits = map(sum, zip(*(alignment(*pair) for pair in pairs), strict=True))
    said, wanted = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
    assert value("mer", texts, right) == pytest.approx(edits / (edits + hits))
    assert value("wip", texts, right) == pytest.approx(hits / said * hits / wanted)
    assert value("wil", texts, right) == pytest.approx(1 - hits / said * hits / wanted)


def test_where_torchmetrics_is_wrong():
    """A deletion beside an insertion: three aligned places, one of them a hit; torchmetrics sees two."""
    assert value("mer", ["a b"], ["b c"]) == pytest.approx(2 / 3)


def test_the_nearest_reference_counts():
    """One edit of four words is nearer than one of two."""
    assert value("wer", ["w x y z"], [["w x", "w x y q"]]) == pytest.approx(1 / 4)
    assert value("edit_distance", ["cat"], [["dog", "cart"]]) == 1


def test_nothing_to_divide_by():
    """Without a word in the references the rate is undefined, not 0."""
    assert value("wer", ["a"], [""]) != value("wer", ["a"], [""])
    assert value("mer", ["a"], [""]) == 1
    assert value("wip", ["a"], [""]) == 0


def draw(seed: int, streams: int, empty: float) -> tuple[list[str], list[list[str]]]:
    """Draw short texts of six words, so that shifts pay, some of them empty."""
    rng = random.Random(seed)

    def text() -> str:
        return "" if rng.random() < empty else " ".join(rng.choices("abCcd.", k=rng.randint(1, 8)))

    return [text() for _ in range(30)], [[text() for _ in range(streams)] for _ in range(30)]


@pytest.mark.parametrize(
    ("seed", "streams", "empty"),
    covering(product(range(5), [1, 2, 3], [0.0, 0.3, 0.9]), lambda case: [case[1:]]),
)
def test_agrees_with_sacrebleu(seed, streams, empty):
    """Of any corpus, with empty predictions and empty references too."""
    sacrebleu = pytest.importorskip("sacrebleu")
    texts, references = draw(seed, streams, empty)
    streams = [list(stream) for stream in zip(*references, strict=True)]
    expected = sacrebleu.corpus_ter(texts, streams).score
    assert 100 * value("ter", texts, references) == pytest.approx(expected, rel=1e-9)
    expected = sacrebleu.corpus_ter(texts, streams, case_sensitive=True).score
    assert 100 * value("ter(case_sensitive=true)", texts, references) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "texts, references, expected",
    [
        (["", ""], ["a b c", "d e"], 1.0),
        (["", "d x"], ["a b c", "d e"], 0.8),
        (["a b", "x"], ["", "x"], 2.0),
        (["a b", ""], ["", ""], 1.0),
        (["", ""], ["", ""], 0.0),
        ([""], [["a b", "a b c d"]], 2 / 3),
        (["c a b"], ["a b c"], 1 / 3),
    ],
)
def test_by_hand(texts, references, expected):
    """Edits over words: every word of the other side where one is empty; 1 where the references have none."""
    assert value("ter", texts, references) == pytest.approx(expected)
