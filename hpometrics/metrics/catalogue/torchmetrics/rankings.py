"""Rows of rankings: scores of items for each user, with the items that are relevant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torchmetrics
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ...features import LOGITS, RANKING
from ._packing import Given
from ._row import Row

_EMPTY = "users without a relevant item are left out (`empty=neg` counts them 0, `pos` 1)"
_CHOICES = ("skip", "neg", "pos")
_AT_K = {"k": int, "empty": _CHOICES}
_SHARE = "float in [0, 1], no unit, 1 is best; nan when no user has a relevant item"


def by_user(inner: torchmetrics.Metric, given: Given) -> None:
    """Hand over items one behind another, relevant or not, each with the number of its user."""
    preds, target, indexes = _flat(given)
    inner.update(preds, (target > 0).long(), indexes=indexes)


def graded_by_user(inner: torchmetrics.Metric, given: Given) -> None:
    """Hand over items one behind another, with their grades."""
    preds, target, indexes = _flat(given)
    inner.update(preds, target, indexes=indexes)


def mean_over_users(values: Tensor, dim: int) -> Tensor:
    """The mean in float64, which the order of the users does not change."""
    return values.double().mean(dim)


def averaging(cls: type, arguments: dict[str, Any]) -> torchmetrics.Metric:
    """Make the metric and have it average in float64, which its constructor does not offer."""
    made: torchmetrics.Metric = cls(**arguments)
    made.aggregation = mean_over_users
    return made


def nothing_relevant(given: Given, params: Mapping[str, Any]) -> str | None:
    """No user has a relevant item, which counts 0 for torchmetrics."""
    return None if bool((given.target > 0).any()) else "no user has a relevant item"


def nothing_irrelevant(given: Given, params: Mapping[str, Any]) -> str | None:
    """No user has an item that is not relevant."""
    return None if bool((given.target <= 0).any()) else "no user has an item that is not relevant"


def _flat(given: Given) -> tuple[Tensor, Tensor, Tensor]:
    preds, target = given.preds.flatten(), given.target.flatten()
    indexes = torch.arange(len(given.target), device=target.device).repeat_interleave(given.target.shape[1])
    known = (preds > -torch.inf) | (target > 0)  # what is not ranked is no item, but can be missed
    return preds[known], target[known], indexes[known]


def _row(name: str, source: str, summary: str, formula: str, paper: str, **more: Any) -> Row:
    facts: dict[str, Any] = {
        "objective": MAXIMIZE, "params": {"empty": _CHOICES, "k": None}, "value": _SHARE,
        "void": nothing_relevant, "fixed": {"aggregation": mean_over_users}, "feed": by_user,
        "renamed": {"k": "top_k", "empty": "empty_target_action"}, **more,
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
        "Gain of the items in their order, later ones counting less, of the best",
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
        "precision", "RetrievalPrecision", "Share of the first `k` items that is relevant",
        "relevant among the first k / k", "van Rijsbergen 1979, Information Retrieval.",
        aliases=("retrieval_precision",), params=_AT_K,
    ),
    _row(
        "recall", "RetrievalRecall", "Share of the relevant items that is among the first `k`",
        "relevant among the first k / relevant", "van Rijsbergen 1979, Information Retrieval.",
        aliases=("retrieval_recall",), params=_AT_K,
    ),
    _row(
        "hit_rate", "RetrievalHitRate", "Share of users with a relevant item among the first `k`",
        "users with a hit / users", "Deshpande & Karypis 2004, ACM TOIS 22(1).", params=_AT_K,
        aliases=("retrieval_hit_rate", "hits"),
    ),
    _row(
        "fall_out", "RetrievalFallOut", "Share of the irrelevant items that is among the first `k`",
        "irrelevant among the first k / irrelevant", "van Rijsbergen 1979, Information Retrieval.",
        objective=MINIMIZE, void=nothing_irrelevant, params=_AT_K, aliases=("retrieval_fall_out",),
        value="float in [0, 1], no unit, 0 is best; nan when no user has an item that is not relevant",
    ),
    _row(
        "r_precision", "RetrievalRPrecision",
        "Share of relevant items among as many as there are relevant ones",
        "relevant among the first R / R, where R items are relevant",
        "Craswell 2009, Encyclopedia of Databases.",
        params={"empty": _CHOICES}, aliases=("retrieval_r_precision",),
    ),
    _row(
        "roc_auc", "RetrievalAUROC",
        "Mean over users of the probability that a relevant item is before another",
        "mean over users of the area under the ROC curve of their items", "Rendle et al. 2009, UAI.",
        aliases=("auc", "auroc", "retrieval_auroc"),
    ),
    _row(
        "recall_at_precision", "RetrievalRecallAtFixedPrecision",
        "Highest recall, over the number of items shown, where precision is at least `min_precision`",
        "max over k of recall@k where precision@k >= min_precision", "torchmetrics.",
        params={"min_precision": float, "empty": _CHOICES, "k": None},
        aliases=("retrieval_recall_at_fixed_precision",), component=(0,), make=averaging,
        renamed={"k": "max_k", "empty": "empty_target_action"},
    ),
]  # fmt: skip
