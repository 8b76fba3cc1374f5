"""Rows of clustering metrics and of nominal association."""

from __future__ import annotations

import math

import torch
import torchmetrics

from ....direction import MAXIMIZE, MINIMIZE
from ...features import CATEGORY, CLUSTERS
from ._row import MetricInputs, Row, target_first

_ONE_GROUP = "nan when the rows are too few, or all in one cluster"
_DATA = "preds: (N,) int. `data=`: (N, D) float, what was clustered; no target is read."
_SHARE = "float in [0, 1], no unit, 1 is best"


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
        name="adjusted_rand", features=(CLUSTERS,), source="clustering.AdjustedRandScore", direction=MAXIMIZE,
        aliases=("adjusted_rand_score", "ari"), keeps="rows",
        summary="Share of pairs of rows on which two clusterings agree, adjusted for chance.",
        value="float in [-1, 1], no unit, 1 is best, 0 is chance",
        formula="(RI - E[RI]) / (max RI - E[RI])",
        paper="Hubert & Arabie 1985, Journal of Classification 2(1).",
    ),
    Row(
        name="adjusted_mutual_information", features=(CLUSTERS,), source="clustering.AdjustedMutualInfoScore",
        direction=MAXIMIZE, aliases=("adjusted_mutual_info_score", "ami"), keeps="rows",
        params={"average_method": ("arithmetic", "min", "geometric", "max")},
        summary="Information that two clusterings share beyond chance, as a share of their entropy.",
        value="float in [-1, 1], no unit, 1 is best, 0 is chance",
        formula="(MI - E[MI]) / (mean(H(preds), H(target)) - E[MI])",
        paper="Vinh, Epps & Bailey 2010, JMLR 11.",
    ),
    Row(
        name="normalized_mutual_information", features=(CLUSTERS,),
        source="clustering.NormalizedMutualInfoScore",
        direction=MAXIMIZE, aliases=("normalized_mutual_info_score", "nmi"), keeps="rows",
        params={"average_method": ("arithmetic", "min", "geometric", "max")},
        summary="Information that two clusterings share, as a share of their entropy.",
        value=_SHARE, formula="MI / mean(H(preds), H(target))",
        paper="Strehl & Ghosh 2002, JMLR 3.",
    ),
    Row(
        name="mutual_information", features=(CLUSTERS,), source="clustering.MutualInfoScore",
        direction=MAXIMIZE,
        aliases=("mutual_info_score",), keeps="rows",
        summary="Information that two clusterings share, in nats.",
        value="float from 0, in nats, the entropy of the target is best",
        formula="sum over pairs of clusters of p(i, j) log(p(i, j) / (p(i) p(j)))",
        paper="Cover & Thomas 2006, Elements of Information Theory.",
    ),
    Row(
        name="rand", features=(CLUSTERS,), source="clustering.RandScore", direction=MAXIMIZE,
        aliases=("rand_score", "rand_index"), keeps="rows",
        summary="Share of pairs of rows on which two clusterings agree: together in both, or apart in both.",
        value=_SHARE, formula="agreeing pairs / all pairs",
        paper="Rand 1971, Journal of the American Statistical Association 66(336).",
    ),
    Row(
        name="fowlkes_mallows", features=(CLUSTERS,), source="clustering.FowlkesMallowsIndex",
        direction=MAXIMIZE, aliases=("fowlkes_mallows_score", "fowlkes_mallows_index"), keeps="rows",
        summary="Geometric mean of precision and recall over the pairs of rows that are put together.",
        value=_SHARE, formula="tp / sqrt((tp + fp) * (tp + fn)), over pairs",
        paper="Fowlkes & Mallows 1983, Journal of the American Statistical Association 78(383).",
    ),
    Row(
        name="homogeneity", features=(CLUSTERS,), source="clustering.HomogeneityScore", direction=MAXIMIZE,
        aliases=("homogeneity_score",), keeps="rows",
        summary="Degree to which each predicted cluster holds rows of one true cluster only.",
        value=_SHARE, formula="1 - H(target | preds) / H(target)",
        paper="Rosenberg & Hirschberg 2007, EMNLP.",
    ),
    Row(
        name="completeness", features=(CLUSTERS,), source="clustering.CompletenessScore", direction=MAXIMIZE,
        aliases=("completeness_score",), keeps="rows",
        summary="Degree to which the rows of each true cluster are in one predicted cluster.",
        value=_SHARE, formula="1 - H(preds | target) / H(preds)",
        paper="Rosenberg & Hirschberg 2007, EMNLP.",
    ),
    Row(
        name="v_measure", features=(CLUSTERS,), source="clustering.VMeasureScore", direction=MAXIMIZE,
        aliases=("v_measure_score",), keeps="rows", params={"beta": 1.0},
        summary="Harmonic mean of homogeneity and completeness; above 1 `beta` favors completeness.",
        value=_SHARE, formula="(1 + beta) h c / (beta h + c)",
        paper="Rosenberg & Hirschberg 2007, EMNLP.",
    ),
    Row(
        name="cluster_accuracy", features=(CLUSTERS,), source="clustering.ClusterAccuracy",
        direction=MAXIMIZE,
        keeps="rows", packages=("torch_linear_assignment",), requires="clustering",
        summary="Accuracy of clusters under the best one-to-one assignment to classes.",
        value=_SHARE, formula="max over one-to-one namings of right rows / rows",
        paper="Yang, Xu, Nie, Yan & Zhuang 2010, IEEE Transactions on Image Processing 19(10).",
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
        name="cramers_v", features=(CATEGORY,), source="nominal.CramersV", direction=MAXIMIZE, keeps="rows",
        params={"bias_correction": False},
        summary="Strength of association of prediction and target, whatever the classes are called.",
        value=f"{_SHARE}; nan when either has one class only",
        formula="sqrt(chi2 / n / min(k - 1, r - 1)), less its bias",
        paper="Cramer 1946; Bergsma 2013, Journal of the Korean Statistical Society 42(3).",
    ),
    Row(
        name="tschuprows_t", features=(CATEGORY,), source="nominal.TschuprowsT", direction=MAXIMIZE,
        keeps="rows", params={"bias_correction": False},
        summary="Strength of association of prediction and target, scaled by both numbers of classes.",
        value=f"{_SHARE}; nan when either has one class only",
        formula="sqrt(chi2 / n / sqrt((k - 1) (r - 1))), less its bias",
        paper="Tschuprow 1939; Bergsma 2013, Journal of the Korean Statistical Society 42(3).",
    ),
    Row(
        name="pearsons_contingency", features=(CATEGORY,), source="nominal.PearsonsContingencyCoefficient",
        direction=MAXIMIZE, keeps="rows", aliases=("pearsons_contingency_coefficient",),
        summary="Pearson's contingency coefficient: association of prediction and target, below 1.",
        value="float in [0, 1], no unit, sqrt(1 - 1 / classes) is best",
        formula="sqrt(chi2 / n / (1 + chi2 / n))",
        paper="Pearson 1904, Drapers' Company Research Memoirs.",
    ),
    Row(
        name="theils_u", features=(CATEGORY,), source="nominal.TheilsU", direction=MAXIMIZE, keeps="rows",
        aliases=("uncertainty_coefficient",), feed=target_first,
        summary="Share of the uncertainty about the target that the prediction removes.",
        value=_SHARE, formula="(H(target) - H(target | preds)) / H(target)",
        paper="Theil 1970, American Journal of Sociology 76(1).",
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
