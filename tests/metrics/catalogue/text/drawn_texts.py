"""Random texts for the tests of text metrics: punctuation, articles, other scripts, empty ones."""

from __future__ import annotations

import random

from hpometrics.metrics.features import Text
from hpometrics.metrics.registry.register import get_metric

ODD = [
    "the",
    "A",
    "an",
    "-",
    ".",
    "!",
    "1,000",
    "&amp;",
    "it's",
    "U.S.",
    "(hi)",
    "“q”",
    "Ünï",
    "3.5",
    "a_b",
    "naïve",
]

SHAPES = [(0, 5, 4, 1), (1, 40, 12, 2), (2, 300, 40, 3)]
"""Seed, words to choose from, longest text, most references."""


def draw_texts(
    seed: int, vocabulary: int, longest: int, most: int, rows: int = 150
) -> tuple[list[str], list[list[str]]]:
    """Draw predictions and up to `most` references of each; a third of the words is wrong or missing."""
    rng = random.Random(seed)
    words = [rng.choice([*ODD, "w", "x"]) + str(rng.randrange(vocabulary)) for _ in range(vocabulary)] + ODD
    texts, references = [], []
    for _ in range(rows):
        right = rng.choices(words, k=rng.randrange(longest))
        said = [word if rng.random() < 0.75 else rng.choice(words) for word in right if rng.random() < 0.9]
        others = [rng.choices(words, k=rng.randrange(longest)) for _ in range(rng.randrange(most))]
        texts.append(" ".join(said))
        references.append([" ".join(right), *map(" ".join, others)])
    return texts, references


def value(name: str, texts: list[str], references: list, batch: int = 37, **extras) -> float:
    """Measure texts in batches."""
    metric = get_metric(name, Text())
    for i in range(0, len(texts), batch):
        part = {key: rows[i : i + batch] for key, rows in extras.items()}
        metric.update(texts[i : i + batch], references[i : i + batch], **part)
    return metric.compute().item()
