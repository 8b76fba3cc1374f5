from __future__ import annotations

import re
import sys
from typing import Literal

import pytest
import torch
from sample_metrics import SAMPLES, Gap, OwnGap, ScaledGap, SharedGap

from hpometrics.exceptions import (
    MetricInputError,
    MetricNameError,
    ObjectiveError,
    RegistrationError,
    UnknownMetricError,
)
from hpometrics.metrics import store
from hpometrics.metrics.features import (
    BINARY,
    CATEGORY,
    NUMBER,
    PREDICTIONS,
    PROBABILITIES,
    VECTOR,
    Binary,
    Category,
    Number,
    Set,
)
from hpometrics.metrics.metric import MeanMetric
from hpometrics.metrics.names import MetricName
from hpometrics.metrics.registry import (
    alias_names,
    all_entries,
    find_metric,
    get_metric,
    metric_names,
    register_metric,
)
from hpometrics.objective import MAXIMIZE, MINIMIZE

ENTRIES = all_entries()
pytestmark = pytest.mark.usefixtures("registry")


class Reversed(MeanMetric):
    """The opposite direction of Gap."""

    objective = MAXIMIZE
    inputs = PREDICTIONS

    def get_current_value(self, preds, target):
        return preds - target


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_an_entry_and_its_class_say_the_same(entry):
    """What the index prints is what the class does, whichever way it is asked."""
    cls = entry.load()
    assert cls.objective is cls.get_objective() is entry.objective
    assert cls.inputs is cls.get_inputs() is entry.inputs
    assert cls.higher_is_better is (None if entry.objective is None else entry.objective is MAXIMIZE)


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_an_entry_is_documented(entry):
    """A sentence of meaning, the value's range and when it is nan, a source, and parameters of a kind."""
    assert entry.summary.endswith(".")
    assert "nan" in entry.value or entry.objective is None
    assert entry.source
    assert all(param.kind in ("str", "int", "float", "bool") for param in entry.params)


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_every_alias_means_a_metric_of_its_feature(entry):
    """An alias is no name of its own, and resolves to the entry that lists it."""
    for alias, meaning in (entry.aliases or {}).items():
        assert alias not in metric_names(entry.feature_type)
        wanted = MetricName.parse(meaning)
        given = {key for key, _ in wanted.params} | ({"k"} if wanted.k else set())
        missing = [p for p in entry.params if p.required and p.name not in given]
        if not missing and (not entry.one_of or given & set(entry.one_of)):
            assert find_metric(alias, entry.feature_type).entries == (entry,)


def test_a_registered_metric_is_found_and_built():
    """One decorator, and the name works: entry, direction, class, output."""
    register_metric("gap", [NUMBER, VECTOR], aliases=["distance"])(Gap)
    found = find_metric("distance", NUMBER)
    assert (str(found.name), found.objective, found.inputs) == ("gap", MINIMIZE, PREDICTIONS)
    metric = get_metric("distance", Number())
    metric.update([1.0, 3.0], [0.0, 0.0])
    assert (type(metric), metric.name, metric.output, metric.compute().item()) == (Gap, "gap", Number(), 2.0)
    assert "gap" in metric_names(VECTOR) and "distance" in alias_names(VECTOR)


def test_a_class_inside_a_function_is_built_too():
    """Notebooks and tests define metrics anywhere; the registry holds the class itself."""

    @register_metric("local_gap", [NUMBER])
    class LocalGap(Gap):
        pass

    assert type(get_metric("local_gap", Number())) is LocalGap
    assert get_metric("local_gap", Number()).name == "local_gap"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("accuracy", [BINARY]), r"accuracy of binary is taken by .*:Accuracy; .*:Reversed needs"),
        (("Reversed", [NUMBER]), "a metric's name is lower case"),
        (("reversed", []), r"as in register_metric\('reversed', \[BINARY\]\)"),
        (("reversed", [NUMBER], MINIMIZE), "says minimize but the attribute objective says maximize"),
        (("reversed", [NUMBER], None), "says None but the attribute objective says maximize"),
        (("reversed", [NUMBER], MAXIMIZE, PROBABILITIES), "register_metric says probabilities but"),
    ],
)  # fmt: skip
def test_a_registration_that_cannot_stand_is_refused(arguments, message):
    """Taken names, malformed names, no feature, contradictions: nothing is registered."""
    with pytest.raises(RegistrationError, match=message):
        register_metric(*arguments)(Reversed)
    assert "reversed" not in metric_names()


def test_an_unknown_feature_is_refused_before_anything_is_registered():
    """The second of two features is misspelt: the first is not registered either."""
    with pytest.raises((RegistrationError, MetricInputError), match="Did you mean 'vector'"):
        register_metric("reversed", [NUMBER, "vectr"])(Reversed)
    assert "reversed" not in metric_names()


def test_a_taken_name_is_replaced_only_on_request():
    """`override=True` replaces the entry of one feature and leaves the others."""
    register_metric("gap", [NUMBER, VECTOR])(Gap)
    with pytest.raises(RegistrationError, match="override=True to replace it"):
        register_metric("gap", [NUMBER])(Reversed)
    register_metric("gap", [NUMBER], override=True)(Reversed)
    assert find_metric("gap", NUMBER).objective is MAXIMIZE
    assert find_metric("gap", VECTOR).objective is MINIMIZE


@pytest.mark.parametrize("aliases", [["accuracy"], {"f1_macro": "reversed"}, ["exact_match"]])
def test_an_alias_takes_nobody_elses_name(aliases):
    """Neither a canonical name of the feature nor another metric's alias is redirected silently."""
    with pytest.raises(RegistrationError, match=next(iter(aliases))):
        register_metric("reversed", ["set"], aliases=aliases)(Reversed)
    assert "reversed" not in metric_names()


def test_a_name_that_is_an_alias_is_taken():
    """A new metric called `f1_macro` would change what `f1_macro` means."""
    with pytest.raises(RegistrationError, match="f1_macro"):
        register_metric("f1_macro", [CATEGORY])(Reversed)


@pytest.mark.parametrize("aliases", ["distance", ["distance"], {"distance": "gap"}])
def test_an_alias_may_be_a_word_a_list_or_a_mapping(aliases):
    """One word is one alias, not a letter each."""
    register_metric("gap", [NUMBER], aliases=aliases)(Gap)
    assert alias_names(NUMBER).count("distance") == 1
    assert "d" not in alias_names(NUMBER)


@pytest.mark.parametrize("aliases", [["a b"], ["(x)"], {"distance": "gap(scale"}, {"distance": "other"}])
def test_an_alias_that_cannot_be_used_is_refused(aliases):
    """One that the grammar cannot read, or that means no such metric, fails at registration, not at use."""
    with pytest.raises((RegistrationError, MetricNameError)):
        register_metric("gap", [NUMBER], aliases=aliases)(Gap)


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
        ("f1(average=marco)", MetricNameError, r"one of micro, .* got 'marco'. Did you mean 'macro'\?"),
        ("f1(avrage=macro)", MetricNameError, "f1 of category takes no 'avrage'; it takes average"),
        ("f1_macro(average=micro)", MetricNameError, r"means f1\(average=macro\), which fixes average"),
        ("hits", MetricNameError, "hits of category needs its k, as in hits@5"),
        ("hits@0", MetricNameError, "k .*0"),
        ("hits(k=3)@5", MetricNameError, "k"),
        ("accuracy@5", MetricNameError, "accuracy of category takes no 'k'; it takes no parameters"),
        ("ece(bins=many)", MetricNameError, "bins is int, got 'many'"),
        ("ece(bins=0)", MetricNameError, "bins"),
        ("fbeta(beta=0, average=macro)", MetricNameError, "beta"),
    ],
)  # fmt: skip
def test_a_name_that_fits_nothing_says_why(name, error, message):
    """Unknown names suggest near ones, parameters are checked; every case is an error, none a guess."""
    with pytest.raises(error, match=message):
        get_metric(name, CATEGORY)


@pytest.mark.parametrize("name", ["f1", "f1_macro", "accuracy"])
def test_without_an_output_nothing_is_guessed(name):
    """A name that several features know, as other classes or with other parameters, asks for output=."""
    with pytest.raises(MetricNameError, match=r"give output= one of .*category"):
        get_metric(name)


def test_a_direction_may_be_known_before_the_output_is():
    """Sweep files are checked without the engine: all entries of a name agree, or the question comes back."""
    assert find_metric("accuracy").objective is MAXIMIZE
    register_metric("gap", [NUMBER])(Gap)
    register_metric("gap", [VECTOR])(Reversed)
    with pytest.raises(ObjectiveError, match="minimize for number, maximize for vector"):
        _ = find_metric("gap").objective
    with pytest.raises(
        MetricNameError, match="gap is another metric for each output feature; give output= one of"
    ):
        get_metric("gap")


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
        ("sample_metrics:Gap(scale=2)", "no metric name|takes no"),
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


def plug_in(tmp_path, monkeypatch, registry, body: str) -> None:
    """Install a distribution whose entry point names a module with this body."""
    (tmp_path / "plugged_metrics.py").write_text(body, encoding="utf8")
    info = tmp_path / "plugged-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n", encoding="utf8")
    (info / "entry_points.txt").write_text(
        "[hpometrics.metrics]\nplugged = plugged_metrics\n", encoding="utf8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "plugged_metrics", raising=False)
    store.load_plugins.cache_clear()


PLUGIN = """
from hpometrics.metrics.features import NUMBER
from hpometrics.metrics.registry import register_metric
from sample_metrics import Gap

@register_metric("plugged_gap", [NUMBER], aliases=["plugged"])
class PluggedGap(Gap):
    pass
"""


@pytest.mark.parametrize("ask", ["plugged_gap", "plugged", None])
def test_an_entry_point_brings_metrics(ask, tmp_path, monkeypatch, registry):
    """A package registers by being installed: its metrics are found by name, by alias, and listed."""
    plug_in(tmp_path, monkeypatch, registry, PLUGIN)
    if ask:
        assert get_metric(ask, Number()).name == "plugged_gap"
    assert "plugged_gap" in metric_names(NUMBER)
    assert [entry.path for entry in all_entries() if entry.name == "plugged_gap"] == [
        "plugged_metrics:PluggedGap"
    ]


@pytest.mark.parametrize(
    "body",
    [
        "import no_such_module",
        "raise RuntimeError('broken')",
        "syntax error",
        PLUGIN.replace("_gap", "Bad"),
    ],
)
def test_a_broken_package_takes_nothing_with_it(body, tmp_path, monkeypatch, registry):
    """A warning names it, and all other metrics are there."""
    plug_in(tmp_path, monkeypatch, registry, body)
    with pytest.warns(RuntimeWarning, match="the metrics of 'plugged_metrics' are left out"):
        assert "accuracy" in metric_names(CATEGORY)


@pytest.mark.parametrize("cls", [OwnGap, SharedGap, ScaledGap])
def test_any_kind_of_metric_registers(cls, samples):
    """Every way to measure is built by its name and serves several features."""
    name = next(name for name, held in SAMPLES.items() if held is cls)
    samples.register_metric(name, [VECTOR])(cls)
    metric = get_metric(name, "vector(size=2)")
    metric.update(torch.ones(3, 2), torch.zeros(3, 2))
    assert metric.compute() > 0


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
        ("distance(average=macro, class=1)", "takes one of average, class, got average and class"),
        ("class_1_distance(class=2)", r"means distance\(class=1\), which fixes class"),
        ("class_x_distance", "no metric 'class_x_distance'"),
        ("distance(class=one)", "class is int, got 'one'"),
        ("distance(clas=1)", "takes no 'clas'; it takes average, class, top. Did you mean 'class'"),
        ("class_1_gap", "no metric 'class_1_gap'"),
    ],
)
def test_exactly_one_of_several_parameters_is_given(name, message, one_of):
    """Neither is assumed, and both are a contradiction."""
    with pytest.raises((MetricNameError, UnknownMetricError), match=message):
        find_metric(name, NUMBER)


def test_one_of_names_parameters_that_may_be_left_out(registry):
    """A misspelt or needed parameter cannot be one of several."""
    odd = type("Odd", (OneOf,), {"one_of": ("average", "klass")})
    with pytest.raises(
        RegistrationError, match="one_of names klass, which must be a parameter whose default"
    ):
        register_metric("odd", [NUMBER])(odd)


def test_a_torchmetrics_class_name_is_no_alias():
    """Case is part of a name; the near one is suggested."""
    with pytest.raises(UnknownMetricError, match=r"no metric 'Accuracy'.*Did you mean 'accuracy'\?"):
        find_metric("Accuracy", CATEGORY)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("BinaryF1Score", "f1_score"), ("MulticlassAUROC", "roc_auc"),
        ("AveragePrecision", "average_precision"), ("MinkowskiDistance", "minkowski"),
        ("MeanIoU", "mean_iou"), ("acc", "accuracy"), ("AP", "average_precision"), ("mAP", "map"),
        ("roc_auc_score", "roc_auc"), ("medae", "median_absolute_error"), ("ndcg_score", "ndcg"),
        ("quadratic_weighted_kappa", "cohen_kappa(weights=quadratic)"), ("f2", "fbeta(beta=2)"),
        ("R2", "r2"), ("Perplexity", "perplexity"), ("WordErrorRate", "word_error_rate"),
    ],
)  # fmt: skip
def test_a_spelling_of_another_library_leads_to_ours(written, meant):
    """Class names of torchmetrics, functions of scikit-learn, and what people say."""
    with pytest.raises(UnknownMetricError, match=re.escape(f"Did you mean {meant!r}?")):
        find_metric(written)


def test_an_alias_of_several_outputs_means_what_most_of_them_mean():
    """Where no output is known: `jaccard_score` is not the overlap of boxes or masks."""
    assert str(find_metric("jaccard_score").name) == "jaccard"
    with pytest.raises(MetricNameError, match="iou of mask needs average="):
        find_metric("jaccard_score", "mask")
