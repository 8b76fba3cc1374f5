"""Rankings: sampled candidates at every width and cut-off, long catalogues, lists of relevant items."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from hpometrics import MetricCollection, Ranking, get_metric

from .row import Measure, Size, row


def draw(users: int, items: int, relevant: int = 1) -> tuple[Tensor, Tensor]:
    """Make scores, and flags of so many relevant items of each user."""
    generator = torch.Generator().manual_seed(7)
    scores = torch.randn(users, items, generator=generator)
    target = torch.zeros(users, items, dtype=torch.bool)
    places = torch.rand(users, items, generator=generator).topk(relevant, dim=1).indices
    target.scatter_(1, places, True)
    scores[target] += 1.0
    return scores, target


def ours(names: list[str], scores: Tensor, target: Tensor, batch: int) -> Measure:
    """Measure metrics of complete rows."""

    def measure() -> list[float]:
        metrics = MetricCollection(names, output=Ranking())
        for part, flags in zip(scores.split(batch), target.split(batch), strict=True):
            metrics.update(logits=part, target=flags)
        return [value.item() for value in metrics.compute().values()]

    return measure


def topk_of(k: int, scores: Tensor, batch: int, values: list[float]) -> Measure:
    """Compute torch's top k of each batch; the values are the metrics' own."""

    def measure() -> list[float]:
        for part in scores.split(batch):
            part.topk(k, dim=1)
        return values

    return measure


def gains_at(k: int, scores: Tensor, target: Tensor) -> float:
    """Return NDCG at a cut-off of binary relevance, by sorting each row."""
    flags = target.gather(1, scores.argsort(dim=1, descending=True))[:, :k].double()
    discounts = 1 / torch.arange(2, flags.shape[1] + 2).double().log2()
    most = target.sum(1).clamp(max=k)
    ideal = torch.cat([torch.zeros(1), discounts.cumsum(0)])[most.clamp(max=flags.shape[1])]
    return ((flags * discounts).sum(1) / ideal).mean().item()


def ranks_of(scores: Tensor, target: Tensor) -> Tensor:
    """Return the rank of the one relevant item of each row, from 0 on, by counting what is above it."""
    return (scores > scores[target].unsqueeze(1)).sum(1)


@row(
    "sampled ranking",
    "ndcg, hit rate and mrr @10 of 200,000 users x (1 + 99), batches of 4,096",
    peer="compare-and-sum",
    wanted=2.0,
    metrics="ndcg hit_rate mrr",
    turns=3,
)
def sampled(size: Size) -> tuple[Measure, Measure]:
    """With one relevant item and a complete list all is known from its rank."""
    scores, target = draw(size(200_000), 100)

    def theirs() -> list[float]:
        totals = np.zeros(3)
        for part, flags in zip(scores.split(4_096), target.split(4_096), strict=True):
            rank = ranks_of(part, flags).double()
            hit = (rank < 10).double()
            totals += [(hit / (rank + 2).log2()).sum(), hit.sum(), (hit / (rank + 1)).sum()]
        return (totals / len(scores)).tolist()

    return ours(["ndcg@10", "hit_rate@10", "mrr@10"], scores, target, 4_096), theirs


def add_cliff() -> None:
    """Add a row for each width and cut-off that a sampled evaluation may have."""
    for items in (20, 50, 100, 101, 200, 335, 500):
        for k in (1, 5, 10, 20, 50):
            if k > items:
                continue

            def make(size: Size, items: int = items, k: int = k) -> tuple[Measure, Measure]:
                scores, target = draw(size(8_000_000 // items), items, relevant=2)
                values = [gains_at(k, scores, target)]
                return ours([f"ndcg@{k}"], scores, target, 4_096), topk_of(k, scores, 4_096, values)

            row(
                f"ndcg@{k} of {items}",
                f"{8_000_000 // items:,} users x {items} candidates",
                peer="topk",
                wanted=1.0,
                metrics="ndcg",
                turns=3,
            )(make)


add_cliff()


@row("gauc", "512 users x 200,000 items, 10 relevant", peer="ten passes", wanted=1.5, metrics="gauc", turns=3)
def gauc(size: Size) -> tuple[Measure, Measure]:
    """Of few relevant items the area is a count of what is above each."""
    scores, target = draw(512, size(200_000), relevant=10)

    def theirs() -> float:
        total, items = 0.0, scores.shape[1]
        for part, flags in zip(scores.split(256), target.split(256), strict=True):
            rows = part.numpy()
            own = part[flags].reshape(-1, 10)
            above = sum((rows > own[:, [i]].numpy()).sum(1, dtype=np.int64) for i in range(10))
            among = (own.unsqueeze(1) > own.unsqueeze(2)).sum((1, 2)).numpy()
            total += float((1 - (above - among) / (10 * (items - 10))).sum())
        return total / len(scores)

    def measure() -> float:
        metric = get_metric("gauc", Ranking())
        for part, flags in zip(scores.split(256), target.split(256), strict=True):
            metric.update(logits=part, target=flags)
        return metric.compute().item()

    return measure, theirs


@row(
    "ndcg@10, lists",
    "20,000 users x 1,000 items, ten relevant as lists",
    peer="topk",
    wanted=1.3,
    metrics="ndcg",
    turns=3,
)
def lists(size: Size) -> tuple[Measure, Measure]:
    """A target of lists has to be looked up."""
    scores, target = draw(size(20_000), 1_000, relevant=10)
    relevant = [row.nonzero().flatten().tolist() for row in target]

    def measure() -> list[float]:
        metrics = MetricCollection(["ndcg@10"], output=Ranking(num_items=1_000))
        for first in range(0, len(scores), 1_024):
            metrics.update(logits=scores[first : first + 1_024], target=relevant[first : first + 1_024])
        return [value.item() for value in metrics.compute().values()]

    return measure, topk_of(10, scores, 1_024, [gains_at(10, scores, target)])
