"""Metrics are registered: entries say what their classes do, and what cannot stand is refused."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest
import torch
from forked import program
from matrix import failures
from sample_metrics import SAMPLES, Gap, OwnGap, Reversed, ScaledGap, SharedGap

import hpometrics
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import DirectionError, MetricInputError, MetricNameError, RegistrationError
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import (
    BINARY,
    CATEGORY,
    NUMBER,
    PREDICTIONS,
    PROBABILITIES,
    SEQUENCE,
    TEXT,
    VECTOR,
    Number,
)
from hpometrics.metrics.metric import MeanMetric
from hpometrics.metrics.registry import index
from hpometrics.metrics.registry.groups import DEFAULT, members_of
from hpometrics.metrics.registry.index import (
    alias_names,
    all_entries,
    metric_names,
    registry as default_registry,
)
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.names import MetricName
from hpometrics.metrics.registry.register import get_metric, register_metric

OVERRIDING = """
from hpometrics.metrics.registry.index import Layer, registry
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import FEATURES
from hpometrics.metrics.registry.groups import DEFAULT
from hpometrics.metrics.metric import MeanMetric
from hpometrics.metrics.registry.lookup import possible_meanings
from hpometrics.metrics.registry.index import all_entries
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import register_metric
from hpometrics.testing import OUTPUTS
from hpometrics.testing.subjects import is_here

class Own(MeanMetric):
    "A metric of a user's."

    direction, inputs = "minimize", "predictions"

    def get_current_value(self, preds, target):
        return preds

BEFORE = all_entries()

def override(some):
    for entry in some:
        register_metric(entry.name, [entry.feature_type], override=True)(Own)
    for entry in BEFORE:
        name = entry.name if entry in some else entry.example
        cls = find_metric(name, entry.feature_type).entries[0].load()
        assert (cls is Own) == (entry in some), entry
        if cls is not Own:
            assert f"{cls.__module__}:{cls.__qualname__}" == entry.path
        for alias in entry.aliases or {}:
            assert [one.name for _, one in possible_meanings(alias, entry.feature_type)] == [entry.name]
    for feature, names in DEFAULT.items():
        if not all(is_here(find_metric(name, feature).entries[0]) for name in names.split()):
            continue  # of boxes, where torchvision is not installed
        metrics = MetricCollection(["default"], output=OUTPUTS.get(feature) or FEATURES[feature]())
        assert len(metrics.names) == len(names.split())
    assert len(all_entries()) == len(BEFORE)

assert not registry.built_in.entries  # no class is imported yet
override(BEFORE[::2])
assert len(registry.built_in.entries) > len(BEFORE) / 2
registry.own = Layer()
override(BEFORE[1::2])
print("done")
"""


pytestmark = pytest.mark.usefixtures("registry")


def test_an_entry_and_its_class_say_the_same(entries):
    """What the index prints is what the class does, whichever way it is asked."""

    def check(entry):
        cls = entry.load()
        assert cls.direction is cls.get_objective() is entry.direction
        assert cls.inputs is cls.get_inputs() is entry.inputs
        assert cls.higher_is_better is (None if entry.direction is None else entry.direction is MAXIMIZE)

    assert failures(entries, check) == []


def test_an_entry_is_documented(entries):
    """A sentence of meaning, the value's range and when it is nan, a source, and parameters of a kind."""

    def check(entry):
        assert entry.summary.endswith(".")
        assert "nan" in entry.value or entry.direction is None
        assert entry.source
        assert all(param.kind in ("str", "int", "float", "bool") for param in entry.params)

    assert failures(entries, check) == []


def test_every_alias_means_a_metric_of_its_feature(entries):
    """An alias is no name of another, and resolves to the entry that lists it."""
    names = {entry.feature_type: metric_names(entry.feature_type) for entry in entries}

    def check(case):
        entry, alias, meaning = case
        assert alias == entry.name or alias not in names[entry.feature_type]
        wanted = MetricName.parse(meaning)
        given = {key for key, _ in wanted.params} | ({"k"} if wanted.k else set())
        missing = [p for p in entry.params if p.required and p.name not in given]
        if not missing and (not entry.one_of or given & set(entry.one_of)):
            assert find_metric(alias, entry.feature_type).entries == (entry,)

    cases = [(entry, *alias) for entry in entries for alias in (entry.aliases or {}).items()]
    assert failures(cases, check) == []


def test_a_registered_metric_is_found_and_built():
    """One decorator, and the name works: entry, direction, class, output."""
    register_metric("gap", [NUMBER, VECTOR], aliases=["distance"])(Gap)
    found = find_metric("distance", NUMBER)
    assert (str(found.name), found.direction, found.inputs) == ("gap", MINIMIZE, PREDICTIONS)
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


def anonymous(direction=MINIMIZE):
    """Another class each time, which is found where the others are: as of a notebook's cell, run again."""

    class Anonymous(MeanMetric):
        """A gap, or its opposite."""

        inputs = PREDICTIONS

        def get_current_value(self, preds, target):
            return (preds - target).abs() if direction is MINIMIZE else -(preds - target).abs()

    Anonymous.direction = direction
    return Anonymous


def test_a_class_that_was_never_registered_takes_nobody_elses_name():
    """It stands where a registered one stood, but is no metric of numbers for that."""
    first = register_metric("gap", [NUMBER])(anonymous())
    second = anonymous(MAXIMIZE)
    assert (first().name, second().name) == ("gap", "Anonymous")
    assert first().output == Number() != second().output
    panel = MetricCollection([first(), second()], output=Number())
    panel.update(predictions=torch.tensor([3.0]), target=torch.tensor([1.0]))
    assert {name: value.item() for name, value in panel.compute().items()} == {"gap": 2, "Anonymous": -2}


def test_of_two_registered_in_one_place_each_has_its_name():
    """A function that makes and registers classes makes as many metrics."""
    first, second = anonymous(), anonymous(MAXIMIZE)
    register_metric("gap", [NUMBER])(first)
    register_metric("opposite", [NUMBER])(second)
    assert type(get_metric("gap", "number")) is first and type(get_metric("opposite", "number")) is second
    assert (first().name, second().name) == ("gap", "opposite")


def test_of_two_registered_under_one_name_the_newer_one_is_built():
    """As of a cell that is run again; the older one keeps its name and its meaning."""
    older = register_metric("gap", [NUMBER])(anonymous())
    newer = register_metric("gap", [NUMBER])(anonymous(MAXIMIZE))
    assert type(get_metric("gap", "number")) is newer
    assert older().name == newer().name == "gap"
    with pytest.raises(MetricInputError, match="two different metrics are named 'gap'"):
        MetricCollection([older(), newer()], output=Number())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("taken", [NUMBER]), r"taken of number is already the name of .*:Gap; .*:Reversed needs another"),
        (("Reversed", [NUMBER]), "the name of a metric must be lower case"),
        (("reversed", []), r"as in register_metric\('reversed', \[BINARY\]\)"),
        (("reversed", [NUMBER], MINIMIZE), "says minimize but the attribute direction says maximize"),
        (("reversed", [NUMBER], None), "says None but the attribute direction says maximize"),
        (("reversed", [NUMBER], MAXIMIZE, PROBABILITIES), "register_metric says probabilities but"),
    ],
)  # fmt: skip
def test_a_registration_that_cannot_stand_is_refused(arguments, message):
    """Taken names, malformed names, no feature, contradictions: nothing is registered."""
    register_metric("taken", [NUMBER])(Gap)
    with pytest.raises(RegistrationError, match=message):
        register_metric(*arguments)(Reversed)
    assert "reversed" not in metric_names()


def test_an_unknown_feature_is_refused_before_anything_is_registered():
    """The second of two features is misspelled: the first is not registered either."""
    with pytest.raises((RegistrationError, MetricInputError), match="did you mean 'vector'"):
        register_metric("reversed", [NUMBER, "vectr"])(Reversed)
    assert "reversed" not in metric_names()


def test_a_taken_name_is_replaced_only_on_request():
    """`override=True` replaces the entry of one feature and leaves the others."""
    register_metric("gap", [NUMBER, VECTOR])(Gap)
    with pytest.raises(RegistrationError, match="override=True to replace it"):
        register_metric("gap", [NUMBER])(Reversed)
    register_metric("gap", [NUMBER], override=True)(Reversed)
    assert find_metric("gap", NUMBER).direction is MAXIMIZE
    assert find_metric("gap", VECTOR).direction is MINIMIZE


def test_a_class_of_the_ludwig_guide_is_a_metric():
    """To the letter of the guide: its base, its four methods, its line above the class."""

    @register_metric("guided_accuracy", [SEQUENCE, TEXT])
    class TokenAccuracyMetric(MeanMetric):
        def get_current_value(self, preds: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return (preds == target).float().mean()

        @classmethod
        def get_objective(cls):
            return MAXIMIZE

        @classmethod
        def get_inputs(cls):
            return PREDICTIONS

    entry = find_metric("guided_accuracy", "sequence").entries[0]
    assert (entry.direction, entry.objective, entry.inputs) == (MAXIMIZE, MAXIMIZE, PREDICTIONS)
    metric = get_metric("guided_accuracy", "sequence")
    metric.update(predictions=torch.tensor([[1, 2], [3, 4]]), target=torch.tensor([[1, 2], [3, 0]]))
    assert (metric.compute().item(), metric.direction, metric.objective) == (0.75, MAXIMIZE, MAXIMIZE)


def test_ludwigs_keyword_registers_too():
    """`objective=` is `direction=`; both may be there if they agree."""
    bare = type("Bare", (MeanMetric,), {"inputs": PREDICTIONS})
    register_metric("barely", [NUMBER], objective=MINIMIZE)(bare)
    assert find_metric("barely").direction is MINIMIZE
    register_metric("also_barely", [NUMBER], "min", objective="minimize")(bare)
    with pytest.raises(DirectionError, match="torn: direction says max, but objective says None"):
        register_metric("torn", [NUMBER], "max", objective=None)
    with pytest.raises(RegistrationError, match="register_metric says maximize but the attribute direction"):
        register_metric("torn", [NUMBER], objective=MAXIMIZE)(bare)


def test_the_line_of_the_ludwig_guide_runs():
    """A class of one's own takes the name of a built-in one, said once; with `override=True` not at all."""
    with pytest.warns(index.ReplacedWarning) as said:

        @register_metric(hpometrics.TOKEN_ACCURACY, [SEQUENCE, TEXT])
        class TokenAccuracyMetric(Gap):
            pass

    (warning,) = said
    assert warning.filename == __file__
    assert re.match(
        r"token_accuracy of sequence and token_accuracy of text will be measured by .*TokenAccuracyMetric "
        "instead of the built-in metric; pass override=True",
        str(warning.message),
    )
    assert type(get_metric("token_accuracy", "sequence")) is TokenAccuracyMetric
    register_metric("accuracy", [BINARY], override=True)(Gap)
    with pytest.warns(index.ReplacedWarning, match="rmse of number will be measured by .*Gap"):
        register_metric(hpometrics.ROOT_MEAN_SQUARED_ERROR, [NUMBER])(Gap)
    assert type(get_metric("root_mean_squared_error", "number")) is Gap


def test_an_override_holds_whether_it_comes_before_or_after_the_catalogue(tmp_path):
    """Half of all names are replaced before any class is loaded, the other half when all are.

    What is replaced is the user's, everything else, aliases and `default` included, is as it was.
    """
    (tmp_path / "overriding.py").write_text(OVERRIDING, encoding="utf8")
    done = program(tmp_path / "overriding.py").result()
    assert (done.stdout.strip(), done.stderr) == ("done", "")


def test_an_override_leaves_every_other_name_as_it_was(monkeypatch):
    """One name of the catalogue at a time: its module, its aliases and the default group of its feature."""
    catalogue, neighbors = all_entries(), defaultdict(list)
    for entry in catalogue:
        neighbors[entry.path.partition(":")[0]].append(entry)
    groups = {kind: members_of("default", kind) for kind in DEFAULT}
    plain = default_registry.own
    for entry in catalogue:
        kind = entry.feature_type
        near = [one for one in neighbors[entry.path.partition(":")[0]] if one is not entry]
        monkeypatch.setattr(default_registry, "own", plain.copy())
        register_metric(entry.name, [kind], override=True)(Gap)
        for other in near:
            assert find_metric(other.example, other.feature_type).entries == (other,)
        for alias, meaning in (entry.aliases or {}).items():
            params, depth = MetricName.parse(meaning).params, MetricName.parse(meaning).k
            cut = f"@{k}" if params and (k := MetricName.parse(entry.example).k) else ""
            needed = [f"{p.name}=2" for p in entry.params if depth and p.required and p.name != "k"]
            (found,) = find_metric(f"{alias}{f'({needed[0]})' if needed else ''}{cut}", kind).entries
            assert found is entry if params and alias != entry.name else found.name == entry.name
        assert members_of("default", kind) == groups[kind]
        for member in groups[kind]:
            assert find_metric(member, kind).entries[0].name == member.metric


def test_a_replaced_metric_answers_to_what_the_new_one_cannot_be():
    """An `f1` without an average leaves `f1(average=macro)`, which is another number, to the built-in one."""
    register_metric("f1", [CATEGORY], override=True)(Gap)
    assert type(get_metric("f1", "category")) is Gap
    assert type(get_metric("f1_macro", "category")).__name__ == "F1"
    both = MetricCollection(["f1", "f1(average=macro)"], output="category(num_classes=3)")
    both.update(predictions=torch.tensor([0, 2]), target=torch.tensor([0, 0]))
    assert {name: value.item() for name, value in both.compute().items()} == {
        "f1": 1.0,  # the mean gap
        "f1(average=macro)": pytest.approx(1 / 3),  # 2/3 and 0, of the two classes that occur
    }
    with pytest.raises(MetricNameError, match="has no parameter 'averge'"):
        find_metric("f1(averge=macro)", CATEGORY)


@pytest.mark.parametrize("aliases", [["accuracy"], {"f1_macro": "reversed"}, ["exact_match"]])
def test_an_alias_takes_nobody_elses_name(aliases):
    """Neither a canonical name of the feature nor another metric's alias is redirected silently."""
    with pytest.raises(RegistrationError, match=next(iter(aliases))):
        register_metric("reversed", ["set"], aliases=aliases)(Reversed)
    assert "reversed" not in metric_names()


def test_no_alias_replaces_a_name():
    """With `override=True` neither: the name would go on meaning the metric that it names."""
    with pytest.raises(RegistrationError, match="'accuracy' is the name of another metric; register the cl"):
        register_metric("reversed", ["set"], aliases=["accuracy"], override=True)(Reversed)
    register_metric("reversed", ["set"], aliases=["exact_match"], override=True)(Reversed)
    assert find_metric("exact_match", "set").name == MetricName("reversed")


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


@pytest.mark.parametrize("cls", [OwnGap, SharedGap, ScaledGap])
def test_any_kind_of_metric_registers(cls, samples):
    """Every way to measure is built by its name and serves several features."""
    name = next(name for name, held in SAMPLES.items() if held is cls)
    samples.register_metric(name, [VECTOR])(cls)
    metric = get_metric(name, "vector(size=2)")
    metric.update(torch.ones(3, 2), torch.zeros(3, 2))
    assert metric.compute() > 0
