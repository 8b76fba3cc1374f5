"""Edits: three ways to the same distance, and the longest common subsequence."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
import torch
from torchmetrics.functional.text.eed import _eed_function, _preprocess_en

from hpometrics.metrics.features import Text
from hpometrics.metrics.registry.names import MetricName
from hpometrics.metrics.registry.register import get_metric
from hpometrics.metrics.statistics.edits import (
    align,
    common_length,
    edit_distance,
    edit_distances,
    extended_edits,
    shifted_edits,
)


def table(first: str, second: str) -> tuple[int, int]:
    """Edit distance and length of the longest common subsequence, by the tables of the textbooks."""
    edits, common = list(range(len(second) + 1)), [0] * (len(second) + 1)
    for i, a in enumerate(first, 1):
        above, edits = edits, [i]
        longest, common = common, [0]
        for j, b in enumerate(second, 1):
            edits.append(min(above[j] + 1, edits[j - 1] + 1, above[j - 1] + (a != b)))
            common.append(longest[j - 1] + 1 if a == b else max(longest[j], common[j - 1]))
    return edits[-1], common[-1]


@pytest.mark.parametrize("longest", [3, 12, 150])
def test_by_tables(longest):
    """Pairs one by one and together, tensors of padded rows, and the table agree, on long texts too."""
    rng = random.Random(longest)
    pairs = [["".join(rng.choices("abcd", k=rng.randrange(longest))) for _ in range(2)] for _ in range(60)]
    expected = [table(*pair) for pair in pairs]
    assert [(edit_distance(*pair), common_length(*pair)) for pair in pairs] == expected
    assert edit_distances(*zip(*pairs, strict=True)).tolist() == [edits for edits, _ in expected]
    words = [[[c * 2 for c in text] for text in side] for side in zip(*pairs, strict=True)]
    assert edit_distances(*words).tolist() == [edits for edits, _ in expected]
    sides = [[torch.tensor([ord(c) for c in pair[side]]).long() for pair in pairs] for side in (0, 1)]
    padded = [torch.nn.utils.rnn.pad_sequence(side, batch_first=True) for side in sides]
    lengths = [torch.tensor([len(row) for row in side]) for side in sides]
    edits, hits = align(padded[0], lengths[0], padded[1], lengths[1])
    assert edits.tolist() == [edits for edits, _ in expected]
    assert all(0 <= hit <= common for hit, (_, common) in zip(hits.tolist(), expected, strict=True))


def test_the_most_hits_of_the_fewest_edits():
    """`ab` becomes `ba` by two substitutions or around a hit: the hit counts."""
    ids = torch.tensor([[1, 2]]), torch.tensor([[2, 1]])
    two = torch.tensor([2])
    assert [x.item() for x in align(ids[0], two, ids[1], two)] == [2, 1]


COSTS = [
    {"alpha": 2.0, "rho": 0.3, "deletion": 0.2, "insertion": 1.0},
    {"alpha": 1.0, "rho": 0.5, "deletion": 0.01, "insertion": 0.3},
]
WORDS = "the a cat. dog, U . S. e.g. 3.5 it, sat! Dr. x y ünï 日本".split()


@pytest.mark.parametrize("costs", COSTS, ids=["default", "cheap"])
@pytest.mark.parametrize("length", [1, 4, 40])
def test_an_extended_distance_is_that_of_torchmetrics(length, costs):
    """To the last digit, as of two equal costs it takes the first place; with words and without."""
    draw = random.Random(length)
    for separator in (" ", ""):
        texts = [separator.join(draw.choices(WORDS, k=length)) for _ in range(12)]
        for text, right in pairwise(texts):
            metric = get_metric(MetricName("eed", tuple(costs.items())), Text())
            metric.update([text], [right])
            theirs = _eed_function(*map(_preprocess_en, (text, right)), **costs)
            assert metric.compute().item() == theirs


def test_a_long_run_of_deletions_is_measured_as_a_short_one():
    """Longer than whole arrays go on for."""
    costs = COSTS[1]
    text, right = f" {'ab' * 90} ", " a "
    assert extended_edits(text, right, **costs) == _eed_function(text, right, **costs)


def shuffled(words: list[int], rng: random.Random, vocabulary: int) -> list[int]:
    """Move three runs of the words, replace some words and leave out others."""
    for _ in range(3):
        start, end = sorted(rng.choices(range(len(words) + 1), k=2))
        run, words = words[start:end], words[:start] + words[end:]
        target = rng.randint(0, len(words))
        words = words[:target] + run + words[target:]
    changed = [word if rng.random() < 0.85 else rng.randrange(vocabulary) for word in words]
    return [word for word in changed if rng.random() < 0.95]


@pytest.mark.parametrize(
    ("most", "vocabulary", "pairs"),
    [(6, 3, 400), (20, 6, 100), (30, 100, 60), (60, 60, 20), (70, 9, 6), (120, 400, 8)],
    ids=["short", "repeated", "usual", "at the edge of the beam", "too many shifts", "beyond the beam"],
)
def test_shifts_agree_with_sacrebleu(most, vocabulary, pairs):
    """Of texts that are moved about, of unlike texts of any two lengths, and of texts alike."""
    lib_ter = pytest.importorskip("sacrebleu.metrics.lib_ter")
    rng = random.Random(most)
    for pair in range(pairs):
        right = [rng.randrange(vocabulary) for _ in range(rng.randint(1, most))]
        text = [rng.randrange(vocabulary) for _ in range(rng.randint(1, most))]
        text = shuffled(right, rng, vocabulary) if pair % 2 else text
        expected, _ = lib_ter.translation_edit_rate(list(map(str, text)), list(map(str, right)))
        assert shifted_edits(text, right) == expected, (text, right)
        assert shifted_edits(right, right) == 0


@pytest.mark.parametrize("lengths", [(1, 90), (2, 130), (90, 1), (130, 2), (3, 40)], ids=str)
def test_shifts_agree_with_sacrebleu_where_one_text_is_long(lengths):
    """The beam is then wider."""
    lib_ter = pytest.importorskip("sacrebleu.metrics.lib_ter")
    text, right = (list(map(str, random.Random(size).choices(range(9), k=size))) for size in lengths)
    assert shifted_edits(text, right) == lib_ter.translation_edit_rate(text, right)[0]
