"""Rows of ranking metrics: scores of items per user, with the relevant items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torchmetrics
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ...features import LOGITS, RANKING
from ._row import MetricInputs, Row

_EMPTY = "users without a relevant item are left out (`empty=neg` counts them 0, `pos` 1)"
_CHOICES = ("skip", "neg", "pos")
_AT_K = {"k": int, "empty": _CHOICES}
_SHARE = "float in [0, 1], no unit, 1 is best; nan when no user has a relevant item"


def by_user(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with the items of all users in one vector, relevant or not, and the index of the user."""
    preds, target, indexes = _flat(inputs)
    inner.update(preds, (target > 0).long(), indexes=indexes)


def graded_by_user(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with the items of all users in one vector, with their grades."""
    preds, target, indexes = _flat(inputs)
    inner.update(preds, target, indexes=indexes)


def mean_over_users(values: Tensor, dim: int) -> Tensor:
    """Return the mean in float64, which does not depend on the order of users."""
    return values.double().mean(dim)


def construct_with_mean(cls: type, arguments: dict[str, Any]) -> torchmetrics.Metric:
    """Call the constructor and set the mean in float64, which is not an argument of it."""
    metric: torchmetrics.Metric = cls(**arguments)
    metric.aggregation = mean_over_users
    return metric


def nothing_relevant(inputs: MetricInputs, params: Mapping[str, Any]) -> str | None:
    """Return the reason where no user has a relevant item, which torchmetrics counts as 0."""
    return None if bool((inputs.target > 0).any()) else "no user has a relevant item"


def nothing_irrelevant(inputs: MetricInputs, params: Mapping[str, Any]) -> str | None:
    """Return the reason where no user has an item that is not relevant."""
    return None if bool((inputs.target <= 0).any()) else "no user has an item that is not relevant"


def _flat(inputs: MetricInputs) -> tuple[Tensor, Tensor, Tensor]:
    preds, target = inputs.preds.flatten(), inputs.target.flatten()
    indexes = torch.arange(len(inputs.target), device=target.device).repeat_interleave(inputs.target.shape[1])
    mask = (preds > -torch.inf) | (target > 0)  # an item without a rank counts only if it is relevant
    return preds[mask], target[mask], indexes[mask]


def _row(name: str, source: str, summary: str, formula: str, paper: str, **more: Any) -> Row:
    facts: dict[str, Any] = {
        "direction": MAXIMIZE, "params": {"empty": _CHOICES, "k": None}, "value": _SHARE,
        "void": nothing_relevant, "fixed": {"aggregation": mean_over_users}, "feed": by_user,
        "argument_names": {"k": "top_k", "empty": "empty_target_action"}, **more,
    }  # fmt: skip
    return Row(
        name=name, features=(RANKING,), source=f"retrieval.{source}", inputs=LOGITS, keeps="rows",
        summary=f"{summary}; {_EMPTY}.", formula=formula, paper=paper, **facts,
    )  # fmt: skip


ROWS = [
    _row(
        "map", "RetrievalMAP", "Mean over users of the mean precision at their relevant items",
        "mean over users of mean over relevant items of precision at their place",
        "Manning, Raghavan & Schuetze 2008, Introduction to Information Retrieval.",
        aliases=("mean_average_precision", "retrieval_map"),
    ),
    _row(
        "ndcg", "RetrievalNormalizedDCG",
        "Discounted gain of the items in their order, relative to that of the best order",
        "sum of relevance / log2(place + 1), over that of the best order",
        "Jarvelin & Kekalainen 2002, ACM TOIS 20(4).", aliases=("retrieval_normalized_dcg",),
        feed=graded_by_user,
        shape="preds: (users, items) float, scores. target: (users, items), how relevant, from 0.",
    ),
    _row(
        "mrr", "RetrievalMRR", "Mean over users of 1 over the place of the first relevant item",
        "mean over users of 1 / place", "Voorhees 1999, TREC-8.",
        aliases=("mean_reciprocal_rank", "retrieval_mrr"),
    ),
    _row(
        "precision", "RetrievalPrecision", "Share of the first `k` items that are relevant",
        "relevant among the first k / k", "van Rijsbergen 1979, Information Retrieval.",
        aliases=("retrieval_precision",), params=_AT_K,
    ),
    _row(
        "recall", "RetrievalRecall", "Share of the relevant items that are among the first `k`",
        "relevant among the first k / relevant", "van Rijsbergen 1979, Information Retrieval.",
        aliases=("retrieval_recall",), params=_AT_K,
    ),
    _row(
        "hit_rate", "RetrievalHitRate", "Share of users with a relevant item among the first `k`",
        "users with a hit / users", "Deshpande & Karypis 2004, ACM TOIS 22(1).", params=_AT_K,
        aliases=("retrieval_hit_rate", "hits"),
    ),
    _row(
        "fall_out", "RetrievalFallOut", "Share of the irrelevant items that are among the first `k`",
        "irrelevant among the first k / irrelevant", "van Rijsbergen 1979, Information Retrieval.",
        direction=MINIMIZE, void=nothing_irrelevant, params=_AT_K, aliases=("retrieval_fall_out",),
        value="float in [0, 1], no unit, 0 is best; nan when no user has an item that is not relevant",
    ),
    _row(
        "r_precision", "RetrievalRPrecision",
        "Share of relevant items among the first R, where R items are relevant",
        "relevant among the first R / R, where R items are relevant",
        "Craswell 2009, Encyclopedia of Databases.",
        params={"empty": _CHOICES}, aliases=("retrieval_r_precision",),
    ),
    _row(
        "roc_auc", "RetrievalAUROC",
        "Mean over users of the probability that a relevant item precedes another",
        "mean over users of the area under the ROC curve of their items", "Rendle et al. 2009, UAI.",
        aliases=("auc", "auroc", "retrieval_auroc"),
    ),
    _row(
        "recall_at_precision", "RetrievalRecallAtFixedPrecision",
        "Highest recall, over the number of items shown, where precision is at least `min_precision`",
        "max over k of recall@k where precision@k >= min_precision", "torchmetrics.",
        params={"min_precision": float, "empty": _CHOICES, "k": None},
        aliases=("retrieval_recall_at_fixed_precision",), component=(0,), make=construct_with_mean,
        argument_names={"k": "max_k", "empty": "empty_target_action"},
    ),
]  # fmt: skip
