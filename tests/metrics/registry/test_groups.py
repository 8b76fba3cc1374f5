from __future__ import annotations

from typing import Literal

import pytest
from matrix import EXHAUSTIVE
from sample_metrics import Gap

from hpometrics.exceptions import MetricNameError, UnknownMetricError
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import BOXES, IMAGE, NUMBER, Number, parse_feature
from hpometrics.metrics.registry.groups import DEFAULT, expand, group_named, group_names, members_of
from hpometrics.metrics.registry.index import MetricEntry, all_entries, needs_of, observed_of
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.names import MetricName
from hpometrics.metrics.registry.register import get_metric, register_metric
from hpometrics.testing import ORDINARY, ordinary

FEATURES = sorted({entry.feature_type for entry in all_entries()})


def expanded(*names, output="number") -> list[str]:
    """The members as text."""
    return [str(name) for name in expand(names, output)]


@pytest.mark.parametrize("feature", DEFAULT)
def test_a_default_is_made_of_metrics_that_exist(feature):
    """Each can be built for the feature and has a direction."""
    for name in members_of("default", feature):
        assert find_metric(name, feature).direction is not None


def ready(entry: MetricEntry) -> bool:
    """Whether it has a direction, needs nothing, and measured an ordinary batch when the index was made."""
    needy = needs_of(entry) or entry.one_of or entry.requires or any(p.required for p in entry.params)
    return entry.direction is not None and not needy and not observed_of(entry).refuses


@pytest.mark.parametrize("feature", FEATURES)
def test_all_is_what_can_be_built_as_it_is(feature):
    """Every member builds; nothing that is ready is left out."""
    names = {entry.name for entry in all_entries(feature) if ready(entry)}
    if not names:
        with pytest.raises(
            MetricNameError, match="every metric of the group 'all' for a boxes output needs parameters"
        ):
            members_of("all", feature)
        return
    members = members_of("all", feature)
    assert {name.metric for name in members} == names
    assert all(get_metric(name, feature).direction is not None for name in members)


@pytest.mark.parametrize(
    "feature",
    [pytest.param(one, marks=EXHAUSTIVE if one == IMAGE else ()) for one in FEATURES if one != BOXES],
)
def test_all_measures_an_ordinary_batch(feature):
    """No member refuses it, and none is undefined."""
    output = ORDINARY.get(feature) or parse_feature(feature)
    panel = MetricCollection(["all"], output=output)
    panel.update(**ordinary(output, 30, seed=1))
    values = panel.compute()
    assert len(values) == len(members_of("all", feature))
    assert {name: panel.reasons[name] for name, value in values.items() if value.isnan().any()} == {}


@pytest.mark.parametrize(
    ("name", "feature"),
    [
        ("js_divergence", "vector"),
        ("ctc", "sequence"),
        ("hinge_embedding", "number"),
        ("msle", "number"),
        ("procrustes", "image"),
        ("c_si_snr", "audio"),
    ],
)
def test_what_refuses_ordinary_data_is_to_be_named(name, feature):
    """Signed numbers, tokens from 0, pictures, sounds of one speaker; alone the metric can be had."""
    assert observed_of(find_metric(name, feature).entries[0]).refuses
    assert name not in map(str, members_of("all", feature))
    assert get_metric(name, feature).name == name


@pytest.mark.parametrize("feature", FEATURES)
def test_every_metric_is_of_a_family(feature):
    """A family is found by its own name, or with `_family` behind it where a metric has the name."""
    groups = group_names(feature)
    for entry in all_entries(feature):
        for family in entry.families:
            assert f"{family}_family" in groups
            is_metric = family in {e.name for e in all_entries(feature)}
            assert is_metric or family in groups or find_metric(family, feature)


def test_groups_are_expanded_in_their_place():
    """Names keep their order, what is named twice stands once, objects stay what they are."""
    gap = Gap()
    assert expanded("mape", "default") == ["mape", "mae", "rmse", "r2"]
    assert expanded("default", "mae") == ["mae", "rmse", "r2"]
    assert expand([gap, Gap, "mae", "a.b:C"], Number()) == [gap, Gap, "mae", "a.b:C"]


def test_a_group_keeps_what_stands_in_front_of_it():
    """Its members are measured on the split, the task and the feature that it names."""
    assert expanded("test:default") == ["test:mae", "test:rmse", "test:r2"]
    assert expanded("t/y.default") == ["t/y.mae", "t/y.rmse", "t/y.r2"]


@pytest.mark.parametrize("name", ["default(average=macro)", "default@5", "mae", "a.b:all"])
def test_what_is_no_group(name):
    """A group has no parameters, and a path is a path."""
    assert group_named(name, NUMBER) is None


def test_a_metric_wins_over_the_family_of_its_name(registry):
    """`gap` is the metric, `gap_family` the metric and its kin."""
    for name in ("gap", "gap_2"):
        kin = type("Kin", (Gap,), {"family": "gap"})
        register_metric(name, [NUMBER])(kin)
    assert expanded("gap") == ["gap"]
    assert expanded("gap_family") == ["gap", "gap_2"]


def test_a_family_has_every_choice_of_a_needed_parameter(registry):
    """Nothing is decided silently; a choice that gives more than one number is left out."""

    def init(self, *, average: Literal["micro", "none", "macro"], order: Literal[1, 2]): ...

    register_metric("chosen", [NUMBER])(type("Chosen", (Gap,), {"family": "choice", "__init__": init}))
    names = expanded("choice")
    assert names[:2] == ["chosen(average=micro, order=1)", "chosen(average=micro, order=2)"]
    assert len(names) == 4
    assert all(find_metric(name, NUMBER) for name in names)


def test_a_group_of_an_unknown_output_is_refused():
    """Its members are others for each output."""
    with pytest.raises(MetricNameError, match=r"the group 'default' differs .* set output="):
        expand(["default"], None)
    with pytest.raises(MetricNameError, match="no group 'words' for a ranking output"):
        expand(["words"], "ranking")


def test_a_group_without_ready_members_names_them(registry):
    """What needs a parameter is chosen by the user."""
    needy = type("Needy", (Gap,), {"family": "needy", "__init__": lambda self, *, k: None})
    register_metric("needy_gap", [NUMBER])(needy)
    with pytest.raises(MetricNameError, match=r"for a number output needs parameters .*such as needy_gap@5"):
        expand(["needy"], "number")


def test_a_group_is_no_metric():
    """Where one metric is wanted the message says what the word is; a misspelled group is suggested."""
    with pytest.raises(UnknownMetricError, match="'default' is a group of metrics, not a metric"):
        find_metric("default", NUMBER)
    with pytest.raises(UnknownMetricError, match="Did you mean 'default'"):
        find_metric("defualt", NUMBER)


def test_members_are_names():
    """So that a collection reads them as it reads any name."""
    assert all(isinstance(name, MetricName) for name in expand(["all"], "binary"))


def test_words_are_the_default_of_texts_given_as_strings():
    """Each of them measures strings; an output without texts has no such group."""
    panel = MetricCollection(["words"], output="text")
    panel.update(predictions=["a b", "c d e f"], target=["a b", "c d e g"])
    assert not any(value.isnan() for value in panel.compute().values())
    with pytest.raises(MetricNameError, match="no group 'words' for a number output"):
        expand(["words"], "number")
