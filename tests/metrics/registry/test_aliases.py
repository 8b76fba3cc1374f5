"""What is told on a miss: the name here of what people write elsewhere."""

from __future__ import annotations

import importlib
import inspect
import re
from itertools import chain

import pytest
import sklearn.metrics
import torch
import torchmetrics
import torchmetrics.functional
from matrix import failures

from hpometrics.exceptions import MetricNameError, UnknownMetricError
from hpometrics.metrics.registry.aliases import ALSO_CALLED, CALLED_HERE, NOT_HERE
from hpometrics.metrics.registry.groups import group_names
from hpometrics.metrics.registry.index import alias_names, metric_names
from hpometrics.metrics.registry.lookup import find_metric, is_registered, measured_by
from hpometrics.metrics.registry.names import MetricName
from hpometrics.metrics.registry.torchmetrics_names import CLASS_NAMES

MEANT = {
    "AUROC": "roc_auc", "CalibrationError": "ece",
    "FBetaScore": "fbeta_score",
    "MatchErrorRate": "mer", "MatthewsCorrCoef": "matthews_corrcoef",
    "MulticlassExactMatch": "exact_match",
    "RocCurveDisplay": "roc_curve", "SQuAD": "squad_f1", "SacreBLEUScore": "sacrebleu",
    "TranslationEditRate": "ter", "WordInfoPreserved": "wip", "brier_score_loss": "brier",
    "class_likelihood_ratios": "positive_likelihood_ratio", "concordance_corrcoef": "concordance",
    "cramers_v_matrix": "cramers_v", "dcg_score": "dcg",
    "homogeneity_completeness_v_measure": "v_measure", "hr@10": "hit_rate@10",
    "pair_confusion_matrix": "rand",
    "precision_recall_fscore_support": "f1", "retrieval_average_precision": "map",
    "retrieval_reciprocal_rank": "mean_reciprocal_rank", "rsme": "rmse", "silhouette_score": "davies_bouldin",
    "theils_u_matrix": "theils_u", "word_information_lost": "wil", "word_information_preserved": "wip",
    "Chrf++": "chrf(word_order=2)", "chrf++": "chrf(word_order=2)", "f0.5": "fbeta(beta=0.5)",
    "KLDivLoss": "kl_divergence", "linear_cross_entropy": "softmax_cross_entropy",
    "TripletMarginWithDistanceLoss": "triplet_margin", "AdaptiveLogSoftmaxWithLoss": "log_loss",
    "val_accuracy": "accuracy", "mean_accuracy": "accuracy", "test_f1": "test:f1",
    "best_val_acc": "accuracy", "val_loss": "loss", "top5": "hits@5",
    "top_5_accuracy": "hits@5",
    "val_top5": "hits@5", "F1.5": "fbeta(beta=1.5)", "f_0.5_score": "fbeta(beta=0.5)",
    "r^2": "r2", "R²": "r2", "absolute_error": "mae", "squared_error": "mse", "exact": "squad_em",
    "f1_max_threshold": "best_threshold(criterion=f1)",
    "prec_at_80_recall": "precision_at_recall(recall=0.8)",
    "average_precision_samples": "label_ranking_average_precision", "per_category_iou": "iou(average=none)",
}  # fmt: skip

NO_METRICS = {
    "DistanceMetric", "PredictionErrorDisplay", "check_scoring", "consensus_score", "euclidean_distances",
    "get_scorer", "get_scorer_names", "make_scorer", "nan_euclidean_distances", "pairwise_distances",
    "pairwise_distances_argmin", "pairwise_distances_argmin_min", "pairwise_distances_chunked",
    "pairwise_kernels", "BaseAggregator", "BinaryGroupStatRates", "BinaryTargetTransformer", "BootStrapper",
    "CatMetric", "ClasswiseWrapper", "LambdaInputTransformer", "LipVertexError", "MaxMetric", "MeanMetric",
    "Metric", "MetricInputTransformer", "MetricTracker", "MinMaxMetric", "MinMetric", "MultioutputWrapper",
    "MultitaskWrapper", "Running", "RunningMean", "RunningSum", "SumMetric", "image_gradients",
    "lip_vertex_error", "pairwise_euclidean_distance", "pairwise_linear_similarity",
    "pairwise_manhattan_distance", "pairwise_minkowski_distance", "FeatureShare",
}  # fmt: skip
"""Public names of scikit-learn and torchmetrics that are tools, or metrics with no kin here."""

MODULES = (
    "aggregation audio classification clustering detection image multimodal nominal regression retrieval "
    "segmentation shape text video wrappers"
)


def public_names() -> list[str]:
    """What scikit-learn and torchmetrics call their metrics, and torch its losses."""
    modules = [importlib.import_module(f"torchmetrics.{name}") for name in MODULES.split()]
    classes = {
        name
        for module in modules
        for name, thing in vars(module).items()
        if inspect.isclass(thing) and issubclass(thing, torchmetrics.Metric)
    }
    losses = re.findall(r"\b\w*Loss\b", " ".join(dir(torch.nn)))
    losses += re.findall(r"\b[a-z]\w*(?:_loss|_entropy|_div)\b", " ".join(dir(torch.nn.functional)))
    return sorted({*sklearn.metrics.__all__, *torchmetrics.functional.__all__, *classes, *losses})


def told(written: str) -> str | None:
    """What is suggested for a name that there is not; the name itself where there is."""
    try:
        return str(find_metric(written).name)
    except (UnknownMetricError, MetricNameError) as err:
        if "because there is no common" in str(err) or "needs its k" in str(err):
            return written
        found = re.search(r"Did you mean '(.*?)'\?", str(err))
        return found[1] if found else None


def test_a_name_of_elsewhere_leads_to_ours():
    """A word for it, a class, a function, and what is no name by our grammar."""

    def check(names):
        written, meant = names
        suggested = re.escape(f"Did you mean {meant!r}?")
        with pytest.raises((UnknownMetricError, MetricNameError), match=suggested):
            find_metric(written)

    assert failures(MEANT.items(), check) == []


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("F1[nDCG, Recall]@10", "f_score(a=ndcg, b=recall)@10"),
        ("F1[Precision,MAP]@5", "f_score(a=precision, b=map)@5"),
        ("EucDistance[nDCG, Recall]@5", 'euc_distance(metrics="ndcg, recall")@5'),
        ("Hypervolume[nDCG, Recall, ARP]@5", 'hypervolume(metrics="ndcg, recall, arp", nadir="0, 0, 20")@5'),
    ],
)
def test_a_combination_of_metrics_leads_to_ours(written, meant):
    """As WarpRec writes it; what is told can be written, a point of three numbers aside."""
    told_of = meant.replace(', nadir="0, 0, 20"', "")
    with pytest.raises(MetricNameError, match=re.escape(f"Did you mean {told_of!r}?")):
        find_metric(written, "ranking")
    assert find_metric(meant, "ranking").entries


def test_a_parameter_of_another_metric_leads_there():
    """Where few metrics take it; where many do, as `k`, none is named."""
    with pytest.raises(
        MetricNameError, match=r"it has average, class\. It is a parameter of .*fbeta\(beta=...\)"
    ):
        find_metric("f1(beta=0.5)", "binary")
    with pytest.raises(
        MetricNameError, match=r"has no parameters\. It is a parameter of huber\(delta=...\)$"
    ):
        find_metric("mae(delta=1)", "number")
    with pytest.raises(MetricNameError, match=r"has no parameters\. Did you mean 'hits@5'\?$"):
        find_metric("accuracy@5", "category")
    with pytest.raises(MetricNameError, match=r"it has no parameters$"):
        find_metric("auc(k=3)", "ranking")


def test_every_public_name_of_elsewhere_leads_somewhere():
    """To a metric or group that there is; tools lead nowhere, rather than to a metric that looks alike."""
    known = {*metric_names(), *alias_names(), *group_names(), *chain.from_iterable(CLASS_NAMES.values())}

    def check(written):
        meant = told(written)
        assert (meant is None) == (written in NO_METRICS), meant
        assert meant is None or meant.partition("(")[0].partition("@")[0] in known

    assert failures(public_names(), check) == []


def test_what_is_told_exists():
    """Every meaning in the table is a metric, and no word in it has a meaning of its own."""
    known = {*metric_names(), *alias_names()}
    assert {meaning.partition("(")[0].partition("@")[0] for meaning in ALSO_CALLED.values()} <= known
    assert not set(NOT_HERE) & (known | set(ALSO_CALLED))
    assert not set(ALSO_CALLED) & {*metric_names()}


@pytest.mark.parametrize("written", ["make_scorer", "pairwise_kernels", "RunningMean", "consensus_score"])
def test_a_tool_is_not_taken_for_a_metric(written):
    """Better no suggestion than one of a metric that only looks alike."""
    with pytest.raises(UnknownMetricError) as error:
        find_metric(written)
    assert "Did you mean" not in str(error.value)


@pytest.mark.parametrize("name", ["map", "mAP", "MAP", "mean_average_precision", "map@5", "mean_ap"])
@pytest.mark.parametrize("output", ["set", "category", "binary"])
def test_mean_average_precision_of_labels_is_hinted_at(name, output):
    """The mean over labels of their average precision is what the field calls mAP of a set."""
    meant = "average_precision" + ("" if output == "binary" else "(average=macro)")
    with pytest.raises(UnknownMetricError, match=re.escape(f"Did you mean {meant!r}?")):
        find_metric(name, output)


def test_what_is_hinted_at_of_an_output_is_one_of_its_metrics():
    """Each hint can be written as it is told."""
    for meanings in CALLED_HERE.values():
        for output, meant in meanings.items():
            assert find_metric(meant, output).entries
    with pytest.raises(UnknownMetricError, match=r"it is a metric of boxes, ranking$"):
        find_metric("map", "text")


@pytest.mark.parametrize(
    ("written", "output", "answer"),
    [
        (
            "test_accuracy",
            "binary",
            "Did you mean 'test:accuracy'? It can be tracked; test data cannot",
        ),
        ("train_f1", None, "Did you mean 'train:f1'?"),
        ("neg_mse", "number", "Did you mean 'mse'? It is not negated here, so lower is better."),
        ("neg_mse", "binary", "It is 'mse', a metric of "),
        ("hr", "binary", "It is 'hit_rate', a metric of ranking."),
        ("recall@[5,10]", "ranking", "is a list of names; write them separately: recall@5, recall@10"),
        ("ndcg@1, 3", "ranking", "write them separately: ndcg@1, ndcg@3"),
        ("ndcg_at_10", "ranking", "Did you mean 'ndcg@10'?"),
        ("map@0.5", "boxes", "Did you mean 'map_50'?"),
        ("mAP50-95", "boxes", "Did you mean 'map'?"),
        ("bal_acc", "category", "Did you mean 'balanced_accuracy'?"),
        ("meteor", "text", "METEOR is not computed here; if the engine reports it, more is better."),
        (
            "cox-nloglik",
            None,
            "Cox's partial likelihood is not computed here; if the engine reports it",
        ),
        (
            "dice_loss",
            None,
            "The Dice loss, whose score is dice, is not computed here; if the engine reports",
        ),
        (
            "poly_loss",
            "category",
            "The poly loss is not computed here; if the engine reports it, less is better.",
        ),
        ("fever", "text", "The FEVER score, of labels with their evidence, is not computed here"),
        ("drocc", "binary", "The DROCC loss is not computed here; if the engine reports it, less is better."),
        (
            "overall_precision",
            None,
            "Precision of entities is not computed here; if the engine reports it, more",
        ),
        ("conll_score", None, "The CoNLL score of coreference is not computed here"),
        (
            "pass@10",
            "text",
            "Pass@k of programs is not computed here; if the engine reports it, more is better.",
        ),
        ("knowledge_f1_max_docs", None, "It is not computed here; if the engine reports it, more is better."),
        ("speaker-acc", "text", "It is not computed here; if the engine reports it, more is better."),
        ("generator_ppl", "text", "It is not computed here; if the engine reports it, less is better."),
    ],
)
def test_a_name_that_is_typed_elsewhere_is_answered(written, output, answer):
    """With the right spelling, the output that has it, or what it is and which way is better."""
    with pytest.raises((UnknownMetricError, MetricNameError), match=re.escape(answer)):
        find_metric(written, output)


def test_a_logged_name_stands_for_its_metric_where_it_is_requested():
    """Not of the registry, nor of a loss: an engine may report a value of such a name itself."""
    assert str(measured_by(MetricName.parse("val_accuracy"), "binary")) == "accuracy"
    assert str(measured_by(MetricName.parse("intent.eval_ndcg@5"))) == "intent.ndcg@5"
    for name in ("val_loss", "accuracy", "val_nonsense", "test:val_accuracy"):
        assert measured_by(MetricName.parse(name)) is None
    assert not is_registered("val_accuracy", "binary")
