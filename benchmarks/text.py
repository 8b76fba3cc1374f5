"""Text metrics against NLTK, sacrebleu, rouge-score, jiwer and torchmetrics; distinct-n against ParlAI's way.

The same texts go through all in turn, in one process on one thread, from raw strings to the value; a row
prints the median of the CPU microseconds per text and of the ratios taken within each turn. Before anything
is timed the values must agree. The last table shows how the cost of distinct-n grows with the texts.

    python benchmarks/text.py [--turns 5] [--texts 1000] [--batch 256]
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import jiwer
import torch
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics import BLEU, CHRF
from torchmetrics.text import WordErrorRate

from hpometrics import MetricCollection, Text
from hpometrics.metrics.catalogue.text.bleu import bleus_of
from hpometrics.metrics.statistics.ngrams import NgramMatches
from hpometrics.metrics.statistics.text_counts import normalized, normalized_words

Texts = list[str]
Measure = Callable[[Texts, Texts], list[float]]

TOLERANCE = 1e-6  # torchmetrics sums in float32
SMOOTHING = SmoothingFunction(epsilon=1e-12).method1


class Case(NamedTuple):
    """The measurements, ours and the other library's."""

    name: str
    ours: Measure
    other: str
    theirs: Measure


def draw(count: int, longest: int = 30) -> tuple[Texts, Texts]:
    """Make texts of 5 to 30 words whose frequencies fall as 1/rank, and predictions with a third changed."""
    rng = random.Random(7)
    words = ["the", "a", "an", *(f"w{i}" for i in range(5000))]
    weights = [1 / (i + 1) for i in range(len(words))]
    texts, right = [], []
    for _ in range(count):
        sentence = rng.choices(words, weights, k=rng.randint(5, longest))
        texts.append(" ".join(word if rng.random() < 0.7 else rng.choice(words) for word in sentence) + ".")
        right.append(" ".join(sentence) + "!")
    return texts, right


def ours(names: list[str], batch: int) -> Measure:
    """Measure with this package; the panel is made once, as in a run of many epochs."""
    panel = MetricCollection(names, output=Text())

    def measure(texts: Texts, right: Texts) -> list[float]:
        panel.reset()
        for i in range(0, len(texts), batch):
            panel.update(predictions=texts[i : i + batch], target=right[i : i + batch])
        return [value.item() for value in panel.compute().values()]

    return measure


def nltk(orders: tuple[int, ...]) -> Measure:
    """Mean sentence BLEU as ParlAI calls NLTK: each order normalizes and counts for itself."""

    def measure(texts: Texts, right: Texts) -> list[float]:
        totals = [0.0] * len(orders)
        for text, one in zip(texts, right, strict=True):
            for place, k in enumerate(orders):
                said, wanted = normalized(text).split(" "), normalized(one).split(" ")
                totals[place] += sentence_bleu([wanted], said, [1 / k] * k, SMOOTHING)
        return [total / len(texts) for total in totals]

    return measure


def bleu_of_tokens(batch: int) -> Measure:
    """BLEU-4 of words that are cut already, without update and compute: what NLTK's function does."""

    def measure(texts: Texts, right: Texts) -> list[float]:
        said, wanted = (list(map(str.split, rows)) for rows in (texts, right))
        total = 0.0
        for i in range(0, len(said), batch):
            found = NgramMatches(said[i : i + batch], [[one] for one in wanted[i : i + batch]])
            total += bleus_of(found)[:, 3].sum()
        return [total / len(texts)]

    return measure


def nltk_of_tokens(texts: Texts, right: Texts) -> list[float]:
    """The same by NLTK."""
    pairs = zip(texts, right, strict=True)
    scores = [sentence_bleu([b.split()], a.split(), [1 / 4] * 4, SMOOTHING) for a, b in pairs]
    return [sum(scores) / len(texts)]


def rouge_score(texts: Texts, right: Texts) -> list[float]:
    """Three F1s by rouge-score."""
    keys = ["rouge1", "rouge2", "rougeL"]
    scorer = RougeScorer(keys)
    scores = [scorer.score(one, text) for text, one in zip(texts, right, strict=True)]
    return [statistics.fmean(score[key].fmeasure for score in scores) for key in keys]


def torchmetrics_wer(texts: Texts, right: Texts) -> list[float]:
    """Word error rate by torchmetrics."""
    metric = WordErrorRate()
    metric.update(texts, right)
    return [metric.compute().item()]


def cases(batch: int) -> list[Case]:
    """The rows of the table."""
    return [
        Case(
            "bleu_1 to bleu_4", ours([f"bleu_{k}" for k in (1, 2, 3, 4)], batch), "NLTK", nltk((1, 2, 3, 4))
        ),
        Case("bleu_4 alone", ours(["bleu_4"], batch), "NLTK", nltk((4,))),
        Case("bleu_4 of words, no panel", bleu_of_tokens(batch), "NLTK", nltk_of_tokens),
        Case("bleu", ours(["bleu"], batch), "sacrebleu", lambda a, b: [BLEU().corpus_score(a, [b]).score]),
        Case("chrf", ours(["chrf"], batch), "sacrebleu", lambda a, b: [CHRF().corpus_score(a, [b]).score]),
        Case("rouge_1, 2, l", ours(["rouge1", "rouge2", "rougeL"], batch), "rouge-score", rouge_score),
        Case("wer", ours(["wer"], batch), "torchmetrics", torchmetrics_wer),
        Case("wer", ours(["wer"], batch), "jiwer", lambda a, b: [jiwer.wer(b, a)]),
    ]


def check_agreement(case: Case, texts: Texts, right: Texts) -> float:
    """The largest difference, of values up to 100.

    Raises:
        SystemExit: it is more than the tolerance; what is timed must first agree.
    """
    pairs = zip(case.ours(texts, right), case.theirs(texts, right), strict=True)
    gap = max(abs(mine - other) for mine, other in pairs)
    if not gap <= TOLERANCE:
        raise SystemExit(f"{case.name}: differs from {case.other} by {gap:.3g}")
    return gap


def seconds(measure: Callable[..., object], *texts: Texts) -> float:
    """CPU time of one call."""
    start = time.process_time()
    measure(*texts)
    return time.process_time() - start


def compare(case: Case, texts: Texts, right: Texts, turns: int) -> None:
    """Print one row."""
    gap = check_agreement(case, texts, right)
    taken = [(seconds(case.ours, texts, right), seconds(case.theirs, texts, right)) for _ in range(turns)]
    mine, other = (statistics.median(side) * 1e6 / len(texts) for side in zip(*taken, strict=True))
    ratio = statistics.median(b / a for a, b in taken)
    row = f"{case.name:<26} {case.other:<13} {mine:>7.1f} {other:>9.1f} {ratio:>8.1f} x   {gap:.0e}"
    print(row, flush=True)


def distinct_of_parlai(texts: Texts) -> None:
    """Add a counter per text to the one of all, which makes a new one each time."""
    total: Counter[tuple[str, ...]] = Counter()
    for text in texts:
        words = normalized_words(text)
        total = total + Counter(pairwise(words))


def distinct(turns: int) -> None:
    """Print how distinct-n grows: microseconds per text must stay what they are."""
    print(f"\n{'interdistinct_2 of':<20} {'ParlAI us/text':>15} {'ours us/text':>13} {'ratio':>10}")
    for count in (500, 1000, 2000, 8000, 32000):
        texts, right = draw(count)
        measure = ours(["interdistinct_2"], 256)
        mine = statistics.median(seconds(measure, texts, right) for _ in range(turns)) / count
        if count > 2000:
            print(f"{count:>12,} texts {'':>17} {mine * 1e6:>13.1f}", flush=True)
            continue
        other = seconds(distinct_of_parlai, texts) / count
        print(
            f"{count:>12,} texts {other * 1e6:>17.1f} {mine * 1e6:>13.1f} {other / mine:>8.0f} x", flush=True
        )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=256)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # NLTK's, about texts without a match
    texts, right = draw(arguments.texts)
    print(f"{'measured':<26} {'other':<13} {'us/text':>7} {'other us':>9} {'ratio':>10}   gap")
    for case in cases(arguments.batch):
        compare(case, texts, right, arguments.turns)
    distinct(arguments.turns)


if __name__ == "__main__":
    main()
