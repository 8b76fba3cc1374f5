"""Edit distances: rapidfuzz, which does nothing else, and sacrebleu's TER."""

from __future__ import annotations

import random
from collections.abc import Callable

from hpometrics import Text, get_metric

from .row import Measure, Size, row

BATCH = 256


def draw(pairs: int, characters: int) -> tuple[list[str], list[str]]:
    """Make texts of so many characters, and predictions with a tenth of the letters changed."""
    rng = random.Random(7)
    texts, right = [], []
    for _ in range(pairs):
        letters = [
            rng.choice("abcdefghijklmnopqrstuvwxyz" if rng.random() < 0.82 else " ")
            for _ in range(characters)
        ]
        letters[0] = "x"  # a text of spaces alone has no word
        right.append("".join(letters))
        texts.append("".join(rng.choice("etaoin") if rng.random() < 0.1 else letter for letter in letters))
    return texts, right


def ours(name: str, texts: list[str], right: list[str]) -> Measure:
    """Measure a metric with this package."""

    def measure() -> float:
        metric = get_metric(name, Text())
        for start in range(0, len(texts), BATCH):
            metric.update(texts[start : start + BATCH], right[start : start + BATCH])
        return metric.compute().item()

    return measure


def rate(cut: Callable[[str], list[str] | str], texts: list[str], right: list[str]) -> Measure:
    """Measure the errors in all units of the right texts with rapidfuzz."""
    from rapidfuzz.distance import Levenshtein

    def measure() -> float:
        edits = sum(Levenshtein.distance(cut(a), cut(b)) for a, b in zip(texts, right, strict=True))
        return edits / sum(len(cut(one)) for one in right)

    return measure


def add_edits() -> None:
    """Add a row for each length of a text and metric."""
    lengths = {10: 10_000, 50: 10_000, 200: 4_000, 1_000: 500}
    for characters, pairs in lengths.items():
        for name, cut in (("cer", str), ("wer", str.split)):

            def make(
                size: Size,
                name: str = name,
                cut: Callable = cut,
                pairs: int = pairs,
                characters: int = characters,
            ) -> tuple[Measure, Measure]:
                texts, right = draw(size(pairs), characters)
                return ours(name, texts, right), rate(cut, texts, right)

            row(
                f"{name}, {characters}",
                f"{pairs:,} texts of {characters:,} characters",
                peer="rapidfuzz",
                wanted=1.2,
                metrics=name,
            )(make)


add_edits()


@row(
    "edit_distance, 50",
    "10,000 texts of 50 characters",
    peer="rapidfuzz",
    wanted=1.2,
    metrics="edit_distance",
)
def edit_distance(size: Size) -> tuple[Measure, Measure]:
    """The mean distance of two texts."""
    from rapidfuzz.distance import Levenshtein

    texts, right = draw(size(10_000), 50)
    return ours(
        "edit_distance", texts, right
    ), lambda: sum(map(Levenshtein.distance, texts, right)) / len(texts)


@row("ter", "600 texts of 150 characters", peer="sacrebleu", wanted=0.7, metrics="ter", turns=3)
def ter(size: Size) -> tuple[Measure, Measure]:
    """The whole of sacrebleu's metric."""
    from sacrebleu.metrics import TER

    texts, right = draw(size(600), 150)
    return ours("ter", texts, right), lambda: TER().corpus_score(texts, [right]).score / 100
