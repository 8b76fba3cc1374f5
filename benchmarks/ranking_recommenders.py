"""RecBole and WarpRec: their own evaluators on the same scores, at each cut-off.

Each is handed scores as its evaluation loop would have them: WarpRec a model that returns them, RecBole those
with what was seen set to -inf. Both are given what is relevant in the form that its collate function makes.
Neither is a requirement of this package. What they need on a new NumPy, and WarpRec on Python 3.11, is told
in README.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from rankings import CUTOFFS, Evaluation, Values
from torch import Tensor

RECBOLE = {
    "precision": "precision", "recall": "recall", "hit_rate": "hit", "ndcg": "ndcg", "mrr": "mrr",
    "map": "map", "item_coverage": "itemcoverage", "gini": "giniindex", "shannon_entropy": "shannonentropy",
    "arp": "averagepopularity",
}  # fmt: skip
APART = {"item_coverage", "gini", "shannon_entropy"}
"""The metric that RecBole defines otherwise: a share, over one item more, divided by the number of items."""
WARPREC = {
    "precision": "Precision", "recall": "Recall", "hit_rate": "HitRate", "ndcg": "nDCG", "mrr": "MRR",
    "map": "MAP", "item_coverage": "ItemCoverage", "gini": "Gini", "shannon_entropy": "ShannonEntropy",
    "arp": "ARP",
}  # fmt: skip


def installed() -> dict[str, Callable[[Evaluation], Values]]:
    """Those that can be imported."""
    every = {"recbole": recbole, "warprec": warprec}
    return {name: measure for name, measure in every.items() if find_spec(name)}


def recbole(task: Evaluation) -> Values:
    """Measure forty values; what it defines otherwise is timed and left out."""
    collector, evaluator, counts = _of_recbole(task)
    for first, last in task.parts:
        scores, part = task.scores[first:last].clone(), task.relevant.part(first, last)
        seen = task.seen.part(first, last)
        scores[seen.row_of, seen.items] = -torch.inf
        collector.eval_batch_collect(scores, {}, part.row_of, part.items)
    data = collector.get_data_struct()  # which fails on anything but tensors, so that these come later
    data.set("data.num_items", task.items)
    data.set("data.count_items", counts)
    found = evaluator.evaluate(data)
    return {
        f"{name}@{k}": float(found[f"{own}@{k}"])
        for name, own in RECBOLE.items()
        for k in CUTOFFS
        if name not in APART
    }


@cache
def _of_recbole(task: Evaluation) -> tuple[Any, Any, Any]:
    """Its collector and evaluator, which a trainer builds once, and how often each item was seen."""
    from collections import Counter

    np.float = float  # its metrics use the name that NumPy has dropped
    from recbole.evaluator import Collector, Evaluator

    config = {
        "metrics": list(RECBOLE.values()), "topk": list(CUTOFFS), "metric_decimal_place": 12,
        "device": torch.device("cpu"), "eval_args": {"mode": "full"},
    }  # fmt: skip
    return Collector(config), Evaluator(config), Counter(task.seen.items.tolist())


def warprec(task: Evaluation) -> Values:
    """Measure forty values with its loader and `Evaluator.evaluate`."""
    evaluator, loader, dataset, model = _of_warprec(task)
    evaluator.evaluate(model, loader, "full", dataset)
    found = evaluator.compute_results()
    return {
        f"{name}@{k}": float(torch.as_tensor(found[k][own]).nanmean())
        for name, own in WARPREC.items()
        for k in CUTOFFS
    }


@cache
def _of_warprec(task: Evaluation) -> tuple[Any, Any, Any, Any]:
    """Its evaluator, loader and data, which a trainer builds once, and a model that returns the scores."""
    from scipy.sparse import csr_matrix
    from torch.utils.data import DataLoader
    from warprec.data.eval_loaders import EvaluationDataset, sparse_eval_collate
    from warprec.evaluation.evaluator import Evaluator

    def matrix(entries: Any) -> csr_matrix:
        ones = np.ones(len(entries.items), dtype=np.float32)
        parts = (ones, entries.items.numpy(), entries.offsets.numpy())
        return csr_matrix(parts, shape=(task.users, task.items))

    class Model(torch.nn.Module):
        name = "scores"

        def predict(self, user_indices: Tensor, **kwargs: Any) -> Tensor:
            return task.scores[user_indices]

    train = matrix(task.seen)
    loader = DataLoader(
        EvaluationDataset(matrix(task.relevant)), batch_size=task.batch, collate_fn=sparse_eval_collate
    )
    dataset = SimpleNamespace(train_set=SimpleNamespace(get_sparse=lambda: train), train_transactions=None)
    return Evaluator(list(WARPREC.values()), list(CUTOFFS), train), loader, dataset, Model()
