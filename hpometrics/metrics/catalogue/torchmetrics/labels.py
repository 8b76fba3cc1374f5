"""Rows of metrics of labels: fairness between groups, separation of clusters, agreement of raters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torchmetrics
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricInputError
from ...features import BINARY, CATEGORY, CLUSTERS
from ._row import MetricInputs, Row

_ONE_GROUP = "nan when the rows are too few, or all in one cluster"
_DATA = "preds: (N,) int. `data=`: (N, D) float, what was clustered; no target is read."


def in_groups(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with predictions, target and the group of each row, which must be one of the groups."""
    groups, last = inputs.extras["groups"], int(inner.num_groups) - 1  # type: ignore[arg-type]  # a number
    odd = groups if isinstance(groups, list) else groups[(groups < 0) | (groups > last) | (groups % 1 != 0)]
    if len(odd):
        first = odd[0].item() if isinstance(odd, Tensor) else odd[0]
        raise MetricInputError(
            f"fairness needs groups= as whole numbers from 0 to {last}, got {first!r}; set "
            f"fairness(num_groups={last + 2}) for more"
        )
    with inputs.preds.device:  # torchmetrics makes a target of its own for demographic_parity
        inner.update(inputs.preds, inputs.target, groups.long())


def without_rates(inputs: MetricInputs, params: Mapping[str, Any]) -> str | None:
    """Return why no rate is a share of another: a group has none, or all are 0."""
    groups, count = inputs.extras["groups"].long(), params["num_groups"]
    rows = {
        "demographic_parity": ("", inputs.target >= 0),
        "equal_opportunity": (" of class 1", inputs.target == 1),
    }
    for task, (kind, among) in rows.items():
        if params["task"] not in ("all", task):
            continue
        without = torch.bincount(groups[among], minlength=count) == 0
        if without.any():
            return f"group {int(without.nonzero()[0])} of {count} has no row{kind}"
        if not inputs.preds[among].any():
            return f"no row{kind} is predicted 1"
    return None


def data_and_labels(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with the clustered data and the clusters."""
    inner.update(inputs.extras["data"], inputs.preds)


def two_raters(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with the counts, per row, of the classes that two raters, the model and the target, assign."""
    classes = int(max(inputs.preds.max(), inputs.target.max())) + 1
    votes = torch.stack([inputs.preds, inputs.target], 1).long()
    inner.update(torch.nn.functional.one_hot(votes, classes).sum(1))


ROWS = [
    Row(
        name="fairness", features=(BINARY,), source="classification.BinaryFairness", direction=MAXIMIZE,
        params={"num_groups": 2, "task": ("all", "demographic_parity", "equal_opportunity")},
        feed=in_groups, void=without_rates, extras=("groups",), component=("least",), keeps="rows",
        summary="Lowest rate of a group over the highest, of `groups=` (N,) int.",
        shape="preds, target, `groups=`: (N,) int.",
        value="float in [0, 1], no unit, 1 is best; nan where a group has no row (of class 1), or none is "
        "predicted 1",
        formula="min of least / largest share predicted 1, and of least / largest recall",
        paper="Sokolova & Lapalme 2009, Information Processing & Management 45(4).",
        deviates="torchmetrics says that lower is better; 1 is fair. Where a rate is missing it gives 0.",
    ),
    Row(
        name="calinski_harabasz", features=(CLUSTERS,), source="clustering.CalinskiHarabaszScore",
        direction=MAXIMIZE, aliases=("calinski_harabasz_score",), keeps="rows",
        feed=data_and_labels, extras=("data",),
        summary="Variance between clusters over variance within; it reads `data=` (N, D) and no target.",
        shape=_DATA,
        value=f"float from 0, no unit, higher is better; {_ONE_GROUP}",
        formula="(between / (k - 1)) / (within / (n - k))",
        paper="Calinski & Harabasz 1974, Communications in Statistics 3(1).",
    ),
    Row(
        name="davies_bouldin", features=(CLUSTERS,), source="clustering.DaviesBouldinScore",
        direction=MINIMIZE, aliases=("davies_bouldin_score",), keeps="rows",
        feed=data_and_labels, extras=("data",),
        summary="Mean similarity of each cluster to the closest one; it reads `data=` (N, D) and no target.",
        shape=_DATA,
        value=f"float from 0, no unit, 0 is best; {_ONE_GROUP}",
        formula="mean over i of max over j of (s_i + s_j) / d_ij",
        paper="Davies & Bouldin 1979, IEEE TPAMI 1(2).",
        deviates="torchmetrics says that higher is better; lower is.",
    ),
    Row(
        name="dunn", features=(CLUSTERS,), source="clustering.DunnIndex", direction=MAXIMIZE,
        aliases=("dunn_index",), keeps="rows", feed=data_and_labels, extras=("data",), params={"p": 2.0},
        sentinel=(math.inf, "all rows are in one cluster"),
        summary="Least distance between centers over the largest radius; it reads `data=` (N, D), no target.",
        shape=_DATA,
        value=f"float from 0, no unit, higher is better; {_ONE_GROUP}",
        formula="min distance of two centers / max distance of a row from its center, in the p-norm",
        paper="Dunn 1974, Journal of Cybernetics 4(1).",
    ),
    Row(
        name="fleiss_kappa", features=(CATEGORY,), source="nominal.FleissKappa", direction=MAXIMIZE,
        keeps="rows", feed=two_raters,
        summary="Agreement of two raters, the model and the target, beyond that of chance (Scott's pi).",
        value="float in [-1, 1], no unit, 1 is best, 0 is chance",
        formula="(p_o - p_e) / (1 - p_e), p_e from the classes' shares in both together",
        paper="Fleiss 1971, Psychological Bulletin 76(5).",
    ),
]  # fmt: skip
