"""The names of ranking metrics in other libraries, and the metrics here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..metrics.features import RANKING
from ..metrics.registry.lookup import possible_meanings
from ..metrics.registry.names import MetricName

_ALPHA = "\N{GREEK SMALL LETTER ALPHA}"


@dataclass(frozen=True)
class Library:
    """A library's measures of rankings.

    Attributes:
        remark: a remark on all of them.
        names: each of its names, with the metric here.
        missing: the names without a metric here, and the reason.
    """

    remark: str
    names: Mapping[str, str]
    missing: Mapping[str, str] = field(default_factory=dict)


LIBRARIES = {
    "ir_measures": Library(
        "`rel=2` is `Ranking(relevance_threshold=1)`, `dcg='exp-log2'` is `gain=exp`, and RBP has a `rel`. "
        "Instead of `judged_only=True`, leave unjudged items out of the candidates; instead of `gains=`, "
        "pass grades.",
        {
            "AP": "map(norm=n)", "AP_IA": "map_ia", "Accuracy": "pairwise_accuracy",
            "BPM": "bpm(max_rel=1)@10",
            "BPref": "bpref", "Bpref": "bpref", "Compat": "compat", "ERR": "err@10", "ERR_IA": "err_ia@10",
            "INSQ": "insq(max_rel=1)@1000", "INST": "inst(max_rel=1)@1000",
            "IPrec": "interpolated_precision(recall=0.5)",
            "Judged": "judged@10", "MAP": "map(norm=n)", "MAP_IA": "map_ia", "MRR": "mrr", "NDCG": "ndcg",
            "NERR8": "nerr8(max_rel=1)@10", "NERR9": "nerr9(max_rel=1)@10",
            "NERR10": "nerr10(max_rel=1)@1000", "NERR11": "nerr11(max_rel=1)@1000",
            "NRBP": "nrbp", "NumRel": "num_relevant", "NumRelRet": "num_hits", "NumRet": "num_retrieved",
            "P": "precision@10", "P_IA": "p_ia@10", "Precision": "precision@10", "R": "recall@10",
            "RBP": "rbp", "RPrec": "r_precision", "RR": "mrr", "Recall": "recall@10", "Rprec": "r_precision",
            "SDCG": "sdcg(max_rel=1)@10", "SetAP": "set_ap", "SetF": "set_f", "SetP": "set_precision",
            "SetR": "set_recall", "SetRelP": "set_precision(relative=true)", "StRecall": "srecall@10",
            "Success": "hit_rate@10", "alpha_DCG": "alpha_dcg@10", "alpha_nDCG": "alpha_ndcg@10",
            "infAP": "infap", "nDCG": "ndcg", "nERR_IA": "nerr_ia@10", "nNRBP": "nnrbp",
            f"{_ALPHA}_DCG": "alpha_dcg@10", f"{_ALPHA}_nDCG": "alpha_ndcg@10",
        },
        {"NumQ": "counts users and does not measure their lists"},
    ),
    "ranx": Library(
        "`-l2` is `Ranking(relevance_threshold=1)`, `rbp.95` is `rbp(p=0.95)`.",
        {
            "bpref": "bpref", "dcg": "dcg@10", "dcg_burges": "dcg(gain=exp)@10", "f1": "f1@10",
            "hit_rate": "hit_rate@10", "hits": "num_hits@10",
            "interpolated_precision_at_recall": "interpolated_precision", "map": "map(norm=n)", "mrr": "mrr",
            "ndcg": "ndcg@10", "ndcg_burges": "ndcg(gain=exp)@10", "precision": "precision@10",
            "r-precision": "r_precision", "rbp": "rbp", "recall": "recall@10",
        },
    ),
    "torchmetrics": Library(
        "`top_k=10` is `@10`. There, precision, recall, MAP and MRR treat an item with a score of 0 or "
        "less as not retrieved; hpometrics uses only the order.",
        {
            "RetrievalAUROC": "gauc", "RetrievalFallOut": "fall_out@10", "RetrievalHitRate": "hit_rate@10",
            "RetrievalMAP": "map(norm=hits)", "RetrievalMRR": "mrr", "RetrievalNormalizedDCG": "ndcg",
            "RetrievalPrecision": "precision@10", "RetrievalRPrecision": "r_precision",
            "RetrievalRecall": "recall@10",
            "RetrievalRecallAtFixedPrecision": "recall_at_precision(min_precision=0.5)@10",
        },
        {"RetrievalPrecisionRecallCurve": "a curve; name `precision` and `recall` at each k that you need"},
    ),
    "RecBole": Library(
        "It rounds values to four digits; AUC and LogLoss pool the scores of all users.",
        {
            "AveragePopularity": "arp@10", "GAUC": "auc", "GiniIndex": "gini@10", "Hit": "hit_rate@10",
            "ItemCoverage": "catalog_coverage@10", "MAE": "mae(average=pooled)", "MAP": "map@10",
            "MRR": "mrr@10", "NDCG": "ndcg(gain=binary)@10", "Precision": "precision@10",
            "RMSE": "rmse(average=pooled)", "Recall": "recall@10", "ShannonEntropy": "shannon_entropy@10",
            "TailPercentage": "tail_percentage@10",
        },
        {
            "AUC": "pooled over users: `roc_auc` of a binary output",
            "LogLoss": "pooled over users: `log_loss` of a binary output",
        },
    ),
    "WarpRec": Library(
        "Its spelling is an alias of each metric in hpometrics.",
        {
            "ACLT": "aclt@10", "APLT": "aplt@10", "ARP": "arp@10", "AUC": "auc",
            "BiasDisparityBD": "bias_disparity_bd@10", "BiasDisparityBR": "bias_disparity_br@10",
            "BiasDisparityBS": "bias_disparity_bs", "EFD": "efd@10", "EPC": "epc@10",
            "EucDistance": "euc_distance@10", "F1": "f1@10", "GAUC": "gauc", "Gini": "gini@10",
            "HitRate": "hit_rate@10", "Hypervolume": "hypervolume@10", "IPSDCG": "ips_dcg@10",
            "IPSRecall": "ips_recall@10", "ItemCoverage": "item_coverage@10",
            "ItemMADRanking": "item_mad_ranking(gain=warprec)@10", "ItemMADRating": "item_mad_rating@10",
            "LAUC": "lauc@10", "LogLoss": "log_loss", "MAE": "mae(average=user)", "MAP": "map@10",
            "MAR": "mar@10", "MRR": "mrr@10", "MSE": "mse(average=user)", "NumRetrieved": "num_retrieved@10",
            "PopREO": "pop_reo@10", "PopRSP": "pop_rsp@10", "Precision": "precision@10", "REO": "reo@10",
            "RMSE": "rmse(average=user)", "RSP": "rsp@10", "Recall": "recall@10", "SNIPSDCG": "snips_dcg@10",
            "SNIPSRecall": "snips_recall@10", "SRecall": "srecall@10",
            "ShannonEntropy": "shannon_entropy@10", "UserCoverage": "user_coverage@10",
            "UserCoverageAtN": "user_coverage_at_n@10", "UserMADRanking": "user_mad_ranking(gain=warprec)@10",
            "UserMADRating": "user_mad_rating@10", "nDCG": "ndcg(gain=warprec)@10",
            "nDCGRendle2020": "ndcg(gain=binary)@10",
        },
    ),
}  # fmt: skip
"""The libraries by name; a test compares each with the names that the library exports."""


def libraries_of(word: str) -> dict[str, MetricName]:
    """Return the metric here for a name in each library that has it, without its cut-off.

    >>> {library: str(name) for library, name in libraries_of("nDCG").items()}
    {'ir_measures': 'ndcg', 'WarpRec': 'ndcg(gain=warprec)'}
    """
    ours = {name: library.names[word] for name, library in LIBRARIES.items() if word in library.names}
    return {library: replace(MetricName.parse(name), k=None) for library, name in ours.items()}


def format_full_name(name: MetricName) -> str:
    """Return the name of a ranking metric with the choices that are at their defaults.

    >>> [format_full_name(MetricName.parse(name)) for name in ("map", "ndcg(gain=warprec)")]
    ['map(norm=min)', 'ndcg(gain=warprec)']
    """
    ((_, entry),) = possible_meanings(name, RANKING)
    defaults = {param.name: param.default for param in entry.params if param.choices and param.default}
    return str(replace(name, params=tuple({**defaults, **dict(name.params)}.items())))
