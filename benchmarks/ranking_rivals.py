"""ranx, ir_measures and torchmetrics' retrieval: the six formulas over users, at each cut-off.

ranx and ir_measures are handed lists of fifty that `torch.topk` found, as dicts, as their manuals show; that
is in their time. torchmetrics reads every pair of user and item, and is given 300 users.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import torch
import torchmetrics.retrieval as tm
from rankings import CUTOFFS, Evaluation, Values
from torchmetrics import MetricCollection

SAMPLE = 300
NAMES = {"precision": "P", "recall": "R", "hit_rate": "Success", "ndcg": "nDCG", "mrr": "RR", "map": "AP"}
"""Of ir_measures. Its AP and ranx's map divide by all relevant items, torchmetrics' by the hits."""


def installed() -> dict[str, Callable[[Evaluation], Values]]:
    """Those that can be imported."""
    every = {"ranx": ranx, "ir_measures": ir_measures, "torchmetrics": retrieval}
    return {name: measure for name, measure in every.items() if find_spec(name)}


def scale(name: str, task: Evaluation) -> float:
    """How many times more users there are than were measured."""
    return task.users / min(SAMPLE, task.users) if name == "torchmetrics" else 1.0


def ranx(task: Evaluation) -> Values:
    """Measure 24 values, of which its map is another."""
    from ranx import Qrels, Run, evaluate

    names = [f"{name}@{k}" for name in NAMES for k in CUTOFFS]
    found = evaluate(Qrels(_wanted(task)), Run(_lists(task)), names)
    return {name: float(value) for name, value in found.items() if not name.startswith("map")}


def ir_measures(task: Evaluation) -> Values:
    """Measure 24 values, of which its map is another."""
    import ir_measures as ir

    named = {f"{name}@{k}": getattr(ir, own) @ k for name, own in NAMES.items() for k in CUTOFFS}
    found = ir.calc_aggregate(list(named.values()), _wanted(task), _lists(task))
    return {name: found[own] for name, own in named.items() if not name.startswith("map")}


def retrieval(task: Evaluation) -> Values:
    """Measure 24 values of the first users alone; none of them can be compared."""
    classes = {
        "precision": tm.RetrievalPrecision, "recall": tm.RetrievalRecall, "hit_rate": tm.RetrievalHitRate,
        "ndcg": tm.RetrievalNormalizedDCG, "mrr": tm.RetrievalMRR, "map": tm.RetrievalMAP,
    }  # fmt: skip
    metrics = MetricCollection(
        {f"{name} at {k}": kind(top_k=k) for name, kind in classes.items() for k in CUTOFFS}
    )
    users = min(SAMPLE, task.users)
    target = torch.zeros(users, task.items, dtype=torch.int64)
    relevant = task.relevant.part(0, users)
    target[relevant.row_of, relevant.items] = 1
    rows = torch.arange(users).repeat_interleave(task.items)
    metrics.update(task.masked[:users].reshape(-1), target.view(-1), indexes=rows)
    return {name: value.item() for name, value in metrics.compute().items()}


def _wanted(task: Evaluation) -> dict[str, dict[str, int]]:
    offsets, items = task.relevant.offsets.tolist(), task.relevant.items.tolist()
    return {
        str(user): {str(item): 1 for item in items[offsets[user] : offsets[user + 1]]}
        for user in range(task.users)
    }


def _lists(task: Evaluation) -> dict[str, dict[str, float]]:
    lists = {}
    for first, last in task.parts:
        values, items = task.masked[first:last].topk(max(CUTOFFS), dim=1)
        for user, (own, which) in enumerate(zip(values.tolist(), items.tolist(), strict=True), first):
            lists[str(user)] = dict(zip(map(str, which), own, strict=True))
    return lists
