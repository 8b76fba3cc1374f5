"""Names are found: made canonical, completed by parameters, refused with what was meant."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Literal

import pytest
from sample_metrics import Gap, Reversed

from hpometrics.direction import MAXIMIZE
from hpometrics.exceptions import DirectionError, MetricNameError, RegistrationError, UnknownMetricError
from hpometrics.metrics.features import CATEGORY, NUMBER, VECTOR, Binary, Category, Number, Set
from hpometrics.metrics.registry import lookup
from hpometrics.metrics.registry.index import all_entries
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric, register_metric

pytestmark = pytest.mark.usefixtures("registry")


@pytest.mark.parametrize("average", ["micro", "macro", "weighted"])
@pytest.mark.parametrize("name", ["f1", "precision", "recall", "jaccard", "specificity"])
@pytest.mark.parametrize("feature", [CATEGORY, "set"])
def test_an_average_is_named_never_assumed(name, average, feature):
    """Without it, an error that lists the choices; with it, by parameter or alias, the same metric."""
    with pytest.raises(
        MetricNameError, match=rf"{name} of {feature} needs average=.*{name}_{average}"
    ) as error:
        get_metric(name, feature)
    assert f"{name}(average={average})" in str(error.value)
    found = [find_metric(text, feature) for text in (f"{name}(average={average})", f"{name}_{average}")]
    assert found[0] == found[1]
    assert dict(found[0].name.params) == {"average": average}


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("f1_macro", "f1(average=macro)"),
        ("test:t/y.f1_macro", "test:t/y.f1(average=macro)"),
        ("f1_macro(average=macro)", "f1(average=macro)"),
        ("accuracy_micro", "accuracy"),
        ("top_k_accuracy@3", "hits@3"),
        ("hits(k=3)", "hits@3"),
        ("fbeta(beta=2, average=micro)", "fbeta(average=micro, beta=2.0)"),
        ("ece(bins=15)", "ece"),
    ],
)
def test_a_name_is_made_canonical(name, canonical):
    """Aliases are resolved, parameters typed, those at their default dropped; what stands in front stays."""
    found = find_metric(name, CATEGORY)
    assert str(found.name) == canonical
    assert find_metric(found.name, CATEGORY) == found


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("acuracy", UnknownMetricError, r"for a category output. Did you mean 'accuracy'\?"),
        ("zzz", UnknownMetricError, r"no metric 'zzz'.*metrics list --feature category` lists"),
        ("mse", UnknownMetricError, "not exist for a category output; it is a metric of number"),
        ("f1(average=marco)", MetricNameError, r"one of micro, .* got 'marco'; did you mean 'macro'\?"),
        ("f1(avrage=macro)", MetricNameError, "f1 of category has no parameter 'avrage'; it has average"),
        ("f1_macro(average=micro)", MetricNameError, r"means f1\(average=macro\), which fixes average"),
        ("hits", MetricNameError, "hits of category needs its k, as in hits@5"),
        ("hits@0", MetricNameError, "k .*0"),
        ("hits(k=3)@5", MetricNameError, "k"),
        ("accuracy@5", MetricNameError, "accuracy of category has no parameter 'k'; it has no parameters"),
        ("ece(bins=many)", MetricNameError, "bins is int, got 'many'"),
        ("ece(bins=0)", MetricNameError, "bins"),
        ("fbeta(beta=0, average=macro)", MetricNameError, "beta"),
    ],
)  # fmt: skip
def test_a_name_that_fits_nothing_says_why(name, error, message):
    """Unknown names suggest near ones, parameters are checked; every case is an error, none a guess."""
    with pytest.raises(error, match=message):
        get_metric(name, CATEGORY)


@pytest.mark.parametrize(
    ("name", "feature", "owner"),
    [
        ("ndcg@0", "ranking", "ndcg of ranking"),
        ("nDCG@0", "ranking", "ndcg of ranking"),
        ("hits@0", CATEGORY, "hits of category"),
        ("f1@0", None, "f1 of ranking"),
    ],
)
def test_a_list_has_a_first_place(name, feature, owner):
    """A cut-off below 1 is refused when the name is read, under the metric's own name."""
    with pytest.raises(MetricNameError, match=f"^{owner}: k must be a whole number of at least 1, got 0$"):
        find_metric(name, feature)


@pytest.mark.parametrize("name", ["f1", "f1_macro", "accuracy"])
def test_without_an_output_nothing_is_guessed(name):
    """A name that several features know, as other classes or with other parameters, asks for output=."""
    with pytest.raises(MetricNameError, match=r"set output= to one of .*category"):
        get_metric(name)


def test_a_direction_may_be_known_before_the_output_is():
    """Sweep files are checked without the engine: all entries of a name agree, or the question comes back."""
    assert find_metric("accuracy").direction is MAXIMIZE
    register_metric("gap", [NUMBER])(Gap)
    register_metric("gap", [VECTOR])(Reversed)
    with pytest.raises(DirectionError, match="minimize for number, maximize for vector"):
        _ = find_metric("gap").direction
    with pytest.raises(
        MetricNameError, match="gap means a different metric for each output feature; set output= to one of"
    ):
        get_metric("gap")


@pytest.mark.parametrize(
    ("name", "features", "direction", "reads"),
    [
        ("auc", {"binary", "category", "set", "ranking"}, MAXIMIZE, "probabilities or logits"),
        ("roc_auc", {"binary", "category", "set", "ranking"}, MAXIMIZE, "probabilities or logits"),
        ("iou", {"binary", "boxes"}, MAXIMIZE, "predictions"),
        ("dice(average=macro)", {"binary", "category", "set", "mask"}, MAXIMIZE, "predictions"),
        ("balanced_accuracy", {"binary", "category", "mask"}, MAXIMIZE, "predictions"),
        ("hits@5", {"category", "text", "ranking"}, MAXIMIZE, "probabilities or logits or predictions"),
    ],
)
def test_a_name_stands_for_what_it_means_for_every_output(name, features, direction, reads):
    """Its own name for one output is an alias for another: it stays as it is until the output is known."""
    found = find_metric(name)
    assert {entry.feature_type for entry in found.entries} == features
    assert (str(found.name), found.direction) == (name, direction)
    assert set(found.reads.split(" or ")) == set(reads.split(" or "))
    assert all(find_metric(name, entry.feature_type).entries == (entry,) for entry in found.entries)
    assert find_metric(found.name) == found


def test_a_found_metric_is_printed_in_a_line():
    """With its outputs and the direction for each; the last line of a cell shows it."""
    assert repr(find_metric("roc_auc", "binary")) == "FoundMetric(roc_auc: binary maximize)"
    assert repr(find_metric("confusion_matrix", "binary")) == "FoundMetric(confusion_matrix: binary -)"


def test_what_one_output_needs_is_not_asked_of_another():
    """The fall-out of a ranking needs its k, that of a binary output nothing; what all need is asked."""
    assert find_metric("fall_out").entries == find_metric("false_positive_rate", "binary").entries
    with pytest.raises(MetricNameError, match="fall_out of ranking needs its k"):
        find_metric("fall_out", "ranking")
    with pytest.raises(MetricNameError, match="hits of category needs its k, as in hits@5"):
        find_metric("hits")


def test_what_an_alias_means_has_a_direction_too(registry):
    """A name that is minimized as one output's own and maximized as another's alias has none."""
    register_metric("gap", [NUMBER])(Gap)
    register_metric("reversed", [VECTOR], aliases=["gap"])(Reversed)
    with pytest.raises(DirectionError, match=r"gap depends .*minimize for number, maximize for vector"):
        _ = find_metric("gap").direction


@pytest.mark.parametrize("name", ["auc", "hits@5", "dice(average=macro)"])
def test_no_output_is_preferred_for_having_the_name_as_its_own(name):
    """To build it, the output is to be given."""
    with pytest.raises(MetricNameError, match=r"set output= to one of .*category"):
        get_metric(name)


@pytest.mark.parametrize("output", [Category(3), "category(num_classes=3)", Set(3), Binary(0.3), "binary"])
def test_an_output_is_an_object_or_its_text(output):
    """The metric serves that output, facts included."""
    assert str(get_metric("accuracy", output).output) == str(output)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_package.module:Class", "cannot be imported as package.module:Class"),
        ("sample_metrics:Nothing", "cannot be imported as package.module:Class"),
        ("sample_metrics:GapSums", "is not registered; decorate the class with @register_metric"),
        ("math:pi", "is not registered|cannot be imported"),
        ("os:system", "is not registered|cannot be imported"),
        ("sample_metrics:Gap(scale=2)", "not a metric name|has no parameter"),
    ],
)
def test_a_path_that_leads_to_no_metric_is_refused(path, message):
    """Always a MetricNameError, whatever stands at the end of the path."""
    with pytest.raises(MetricNameError, match=message):
        get_metric(path, Number())


def test_a_metric_is_named_by_its_path(samples):
    """`package.module:Class` of a registered class is that metric; if it needs a parameter, an error."""
    assert type(get_metric("sample_metrics:Gap", Number())) is Gap
    assert get_metric("sample_metrics:ScaledGap", Number()).name == "scaled_gap"
    path = next(entry.path for entry in all_entries(CATEGORY) if entry.name == "f1")
    with pytest.raises(MetricNameError, match=r"f1 of category needs average="):
        get_metric(path, Category(3))
    with pytest.raises(UnknownMetricError, match="gap is a metric of number"):
        get_metric("sample_metrics:Gap", Category(3))


class OneOf(Gap):
    """Mean distance of one class, or of all classes averaged in some way."""

    one_of = ("average", "class")

    def __init__(
        self,
        *,
        average: Literal["micro", "macro"] | None = None,
        class_: int | None = None,
        top: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.average, self.class_, self.top = average, class_, top


@pytest.fixture
def one_of(registry):
    """A metric of which exactly one of two parameters is to be given."""
    return register_metric("distance", [NUMBER], aliases={"distance_macro": "distance(average=macro)"})(OneOf)


def test_a_reserved_word_is_a_parameter_like_any_other(one_of):
    """`class` in a name is `class_` in Python; the metric's own name has it again."""
    metric = get_metric("distance(class=3)", Number())
    assert (metric.class_, metric.average, metric.name) == (3, None, "distance(class=3)")
    assert OneOf(class_=2, top=4).name == "distance(class=2, top=4)"
    assert str(find_metric("distance(top=2, average=macro)").name) == "distance(average=macro, top=2)"


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("class_3_distance", "distance(class=3)"),
        ("class_12_distance(top=1)", "distance(class=12, top=1)"),
        ("test:t/class_0_distance", "test:t/distance(class=0)"),
        ("distance-macro", "distance(average=macro)"),
    ],
)
def test_parlais_spellings_are_read(name, canonical, one_of):
    """A class in front of the metric, and dashes for underscores."""
    assert str(find_metric(name, NUMBER).name) == canonical


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "distance",
            r"distance of number needs average= or class=, .* choose one of distance_macro, "
            r"distance\(average=micro\), distance\(average=macro\), distance\(class=2\)",
        ),
        ("distance(top=3)", "needs average= or class="),
        ("distance(average=macro, class=1)", "needs one of average, class, got average and class"),
        ("class_1_distance(class=2)", r"means distance\(class=1\), which fixes class"),
        ("class_x_distance", "no metric 'class_x_distance'"),
        ("distance(class=one)", "class is int, got 'one'"),
        ("distance(clas=1)", "has no parameter 'clas'; it has average, class, top. Did you mean 'class'"),
        ("class_1_gap", "no metric 'class_1_gap'"),
    ],
)
def test_exactly_one_of_several_parameters_is_given(name, message, one_of):
    """Neither is assumed, and both are a contradiction."""
    with pytest.raises((MetricNameError, UnknownMetricError), match=message):
        find_metric(name, NUMBER)


def test_one_of_names_parameters_that_may_be_left_out(registry):
    """A misspelled or needed parameter cannot be one of several."""
    odd = type("Odd", (OneOf,), {"one_of": ("average", "klass")})
    with pytest.raises(
        RegistrationError, match="one_of names klass, which must be a parameter with the default"
    ):
        register_metric("odd", [NUMBER])(odd)


def test_a_torchmetrics_class_name_is_no_alias():
    """Case is part of a name; the near one is suggested."""
    with pytest.raises(UnknownMetricError, match=r"no metric 'Accuracy'.*Did you mean 'accuracy'\?"):
        find_metric("Accuracy", CATEGORY)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("F1Score", "f1_score"), ("MulticlassLogAUC", "log_auc"),
        ("AveragePrecision", "average_precision"), ("MinkowskiDistance", "minkowski"),
        ("WordInfoLost", "wil"), ("acc", "accuracy"), ("ap", "average_precision"), ("mAP", "map"),
        ("AveragePopularity", "arp"), ("tailpercentage", "tail_percentage"), ("GiniIndex", "gini"),
        ("IPrec", "interpolated_precision"), ("NumRel", "num_relevant"), ("NumRet", "num_retrieved"),
        ("roc_auc_score", "roc_auc"), ("medae", "median_absolute_error"), ("ndcg_score", "ndcg"),
        ("quadratic_weighted_kappa", "cohen_kappa(weights=quadratic)"), ("f2", "fbeta(beta=2)"),
        ("R2", "r2"), ("SQuAD", "squad_f1"), ("DunnIndx", "dunn_index"),
    ],
)  # fmt: skip
def test_a_spelling_of_another_library_leads_to_ours(written, meant):
    """Class names of torchmetrics, functions of scikit-learn, and what people say."""
    with pytest.raises(UnknownMetricError, match=re.escape(f"Did you mean {meant!r}?")):
        find_metric(written)


def test_what_another_output_has_does_not_hide_what_is_meant():
    """`AP` is ir_measures' word for a ranking, and scikit-learn's users' for an area."""
    message = r"not exist for a binary output; it is a metric of ranking. Did you mean 'average_precision'\?"
    with pytest.raises(UnknownMetricError, match=message):
        find_metric("AP", "binary")


@pytest.mark.parametrize(
    ("written", "feature", "meant"),
    [
        ("MSE", "number", "mse"),
        ("RMSE", "vector", "rmse"),
        ("F1", "binary", "f1"),
        ("AUC", "category", "auc"),
    ],
)
def test_capitals_of_a_ranking_do_not_hide_what_is_meant(written, feature, meant):
    """WarpRec's and RecBole's words for rankings are what anybody may write for metrics of other outputs."""
    message = rf"{feature} output; it is a metric of ranking. Did you mean '{meant}'\?"
    with pytest.raises(UnknownMetricError, match=message):
        find_metric(written, feature)


@pytest.mark.parametrize("feature", ["set", "binary"])
def test_a_threshold_is_that_of_the_output(feature):
    """It decides for every metric of the output at once, so that none of them has one of its own."""
    message = (
        rf"has no parameter 'threshold'; .* Set the threshold on the output, as in {feature}\(threshold=0.3\)"
    )
    with pytest.raises(MetricNameError, match=message):
        find_metric("f1(average=macro, threshold=0.3)", feature)
    with pytest.raises(MetricNameError, match=r"roc_auc of .* has average, class, max_fpr$"):
        find_metric("roc_auc(threshold=0.3)", feature)


@pytest.mark.parametrize("feature", ["ranking", None])
@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("hit@10", "hit_rate@10"), ("Hit@10", "hit_rate@10"), ("shannonentropy@5", "shannon_entropy@5"),
        ("alpha_DCG@5", "alpha_dcg@5"), ("BPREF", "bpref"), ("NDCGRendle2020@5", "ndcg(gain=binary)@5"),
        ("AP@5", "map(norm=n)@5"), ("MAP@5", "map@5"), ("nDCG@5", "ndcg(gain=warprec)@5"),
        ("ndcg@5", "ndcg@5"), ("P@5", "precision@5"), ("R@5", "recall@5"),
    ],
)  # fmt: skip
def test_a_name_of_a_ranking_may_be_in_any_case(written, canonical, feature):
    """An exact name goes first; else whatever differs in case alone, if it means one thing."""
    found = find_metric(written, feature)
    assert (str(found.name), [entry.feature_type for entry in found.entries]) == (canonical, ["ranking"])


@pytest.mark.parametrize("feature", ["ranking", None])
def test_names_that_case_tells_apart_are_not_guessed(feature):
    """RecBole's NDCG has binary gains, ir_measures' linear ones, WarpRec's nDCG its own."""
    with pytest.raises(UnknownMetricError, match=r"mean 'ndcg' or 'nDCG', which is ndcg\(gain=warprec\)\?"):
        find_metric("NDCG@10", feature)


@pytest.mark.parametrize(("written", "feature"), [("Auc", None), ("RECALL@5", None), ("p@5", "ranking")])
def test_a_word_that_may_be_something_else_stays_unknown(written, feature):
    """A metric of other outputs in other letters, and one letter, are names an engine may have of its own."""
    assert find_metric("Auc", "ranking").entries and find_metric("RECALL@5", "ranking").entries
    with pytest.raises(UnknownMetricError, match="Did you mean"):
        find_metric(written, feature)


def test_an_alias_of_several_outputs_means_what_most_of_them_mean():
    """Where no output is known: `jaccard_score` is not the overlap of boxes or masks."""
    assert str(find_metric("jaccard_score").name) == "jaccard"
    with pytest.raises(MetricNameError, match="iou of mask needs average="):
        find_metric("jaccard_score", "mask")


def test_near_names_are_looked_for_when_the_error_is_read(suggested_for):
    """A name that no metric has may be one of the engine's own: to ask costs no search among all names."""
    assert not lookup.is_registered("acuracy")
    with pytest.raises(UnknownMetricError) as error:
        find_metric("acuracy", CATEGORY)
    assert suggested_for == []
    assert "Did you mean 'accuracy'?" in str(error.value) and str(error.value) in repr(error.value)
    assert suggested_for == ["acuracy"]


@pytest.mark.parametrize("copied", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_tells_the_same_in_another_process(copied):
    """Whether it was read before or not."""
    with pytest.raises(UnknownMetricError) as error:
        find_metric("acuracy", CATEGORY)
    assert str(copied(error.value)) == str(error.value)
    assert "Did you mean 'accuracy'?" in str(copied(error.value))


def test_a_suggestion_is_the_name_and_not_an_alias_with_hyphens():
    """`bleu_4`, which `bleu-4` is an alias of."""
    with pytest.raises(UnknownMetricError, match="Did you mean 'bleu_4'"):
        find_metric("bleu_9", "text")
