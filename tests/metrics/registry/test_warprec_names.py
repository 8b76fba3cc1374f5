"""Every metric of WarpRec 2.2.8 under its own name, which its configuration files spell like this."""

from __future__ import annotations

import pytest

from hpometrics.exceptions import UnknownMetricError
from hpometrics.metrics.registry.lookup import find_metric

WARPREC = {
    "accuracy": "AUC F1 GAUC HitRate LAUC LogLoss MAP MAR MRR nDCG nDCGRendle2020 Precision Recall",
    "bias": "ACLT APLT ARP PopREO PopRSP",
    "coverage": "ItemCoverage NumRetrieved UserCoverage UserCoverageAtN",
    "debiased": "IPSDCG IPSRecall SNIPSDCG SNIPSRecall",
    "diversity": "Gini ShannonEntropy SRecall",
    "fairness": "BiasDisparityBD BiasDisparityBR BiasDisparityBS ItemMADRanking ItemMADRating REO RSP "
    "UserMADRanking UserMADRating",
    "multiobjective": "EucDistance Hypervolume",
    "novelty": "EFD EPC",
    "rating": "MAE MSE RMSE",
}
NAMES = [name for names in WARPREC.values() for name in names.split()]
WITHOUT_K = {"AUC", "GAUC", "LogLoss", "MAE", "MSE", "RMSE", "BiasDisparityBS"}
OTHERWISE = {
    "nDCG": "ndcg(gain=warprec)@10",
    "nDCGRendle2020": "ndcg(gain=binary)@10",
    "ItemMADRanking": "item_mad_ranking(gain=warprec)@10",
    "UserMADRanking": "user_mad_ranking(gain=warprec)@10",
    "MAE": "mae(average=user)",
    "MSE": "mse(average=user)",
    "RMSE": "rmse(average=user)",
}
"""Where the name alone would not say which formula is meant."""


@pytest.mark.parametrize(("name", "own"), [("Ndcg", "ndcg"), ("F-1", "f1@3")])
def test_another_case_leads_to_our_own_name(name, own):
    """The error suggests the lower one, not that of WarpRec."""
    with pytest.raises(UnknownMetricError, match=f"Did you mean '{own}'"):
        find_metric(f"{name}@3", "ranking")


def test_another_case_is_read_where_both_mean_the_same():
    """Ours and WarpRec's."""
    assert str(find_metric("Auc", "ranking").name) == str(find_metric("AUC", "ranking").name) == "auc"


def test_there_are_as_many_as_in_its_registry():
    """None is forgotten, none stands twice."""
    assert len(set(NAMES)) == len(NAMES) == 45


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_warprec_means_that_metric(name):
    """The canonical name has the same letters, unless it must say more."""
    asked = name if name in WITHOUT_K else f"{name}@10"
    found = str(find_metric(asked, "ranking").name)
    assert found == OTHERWISE.get(name, found)
    assert found in OTHERWISE.values() or found.replace("_", "") == asked.lower()
