"""A collection measures its metrics in one pass: who belongs to it, what reaches whom, what is refused."""

from __future__ import annotations

import pytest
import torch
from sample_collections import EVERY_ORDER, KINDS, PREDS, TARGET, collection, company_of, fed, values
from sample_metrics import Gap, GapSums, OwnGap, ScaledGap, SharedGap

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import (
    HpometricsError,
    MetricInputError,
    NonFiniteError,
    StateError,
    UnknownMetricError,
)
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import BINARY, NUMBER, Binary, Category, Number, Sequence, Set
from hpometrics.metrics.registry.register import get_metric
from hpometrics.testing import cut, draw

pytestmark = pytest.mark.usefixtures("samples")


@pytest.mark.parametrize("names", EVERY_ORDER, ids="-".join)
def test_metrics_of_every_kind_measure_together(names):
    """However they keep their sums, and in any order, each one sees every batch: (1 + 2 + 6 + 5) / 4."""
    panel = fed(fed(collection(*names)), torch.tensor([5.0]), torch.tensor([0.0]))
    assert values(panel) == dict.fromkeys(names, 3.5)
    assert panel.names == names
    assert panel.rows == 4


def test_equal_statistics_are_one_and_updated_once():
    """Two metrics over the same statistic share one object, and a batch reaches it once."""
    panel = collection("shared_gap", "shared_total", "gap")
    before = GapSums.updates
    fed(fed(panel))
    assert GapSums.updates - before == 2
    assert [s.key[0].__name__ for s in panel.statistics].count("GapSums") == 1
    assert values(panel) == {"shared_gap": 3.0, "shared_total": 18.0, "gap": 3.0}


@pytest.mark.parametrize("kind", KINDS)
def test_the_average_of_uneven_batches_is_over_rows(kind):
    """Batches of 3, 1 and 2 rows: (1+2+6+4+0+5)/6, not the mean of three means."""
    panel = collection(kind)
    for preds in ([1.0, 2.0, 6.0], [4.0], [0.0, 5.0]):
        fed(panel, preds, torch.zeros(len(preds)))
    assert values(panel) == {kind: 3.0}


@pytest.mark.parametrize("kind", KINDS)
def test_computing_in_between_changes_nothing(kind):
    """`compute` is pure: asked after each batch it says the value so far, and twice the same."""
    panel = collection(kind)
    assert values(fed(panel)) == values(panel) == {kind: 3.0}
    assert values(fed(panel, [7.0], [0.0])) == {kind: 4.0}


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        ({"predictions": [1.0, torch.nan], "target": [0.0, 0.0]}, NonFiniteError),
        ({"predictions": [1.0, 2.0], "target": [0.0, torch.inf]}, NonFiniteError),
        ({"predictions": [1.0, 2.0], "target": [0.0]}, MetricInputError),
        ({"predictions": [[1.0], [2.0]], "target": [0.0, 0.0]}, MetricInputError),
        ({"predictions": [1.0, 2.0], "target": [0.0, 13.0]}, MetricInputError),
        ({"predictions": [1.0, 2.0]}, MetricInputError),
        ({"target": [1.0, 2.0]}, MetricInputError),
        ({"logits": [1.0, 2.0], "target": [0.0, 0.0]}, MetricInputError),
        ({"predictions": ["a", "b"], "target": [0.0, 0.0]}, MetricInputError),
        ({"predictions": [1.0, 2.0], "target": [0.0, 0.0], "wieght": [1, 1]}, MetricInputError),
    ],
)
@pytest.mark.parametrize("names", EVERY_ORDER, ids="-".join)
def test_a_refused_batch_leaves_every_metric_as_it_was(names, batch, error):
    """Whoever refuses it (the gate, or one metric's own update), no metric has taken any of the batch."""
    panel = fed(collection(*names))
    with pytest.raises(error):
        panel.update(**batch)
    assert values(panel) == dict.fromkeys(names, 3.0)
    assert panel.rows == 3
    assert values(fed(panel, [7.0], [0.0])) == dict.fromkeys(names, 4.0)


@pytest.mark.parametrize("others", [5, 1])
@pytest.mark.parametrize(
    ("output", "names"),
    [
        (Category, ["f1_macro", "roc_auc", "hits@2", "log_loss", "ece"]),
        (Set, ["f1_macro", "accuracy"]),
    ],
)
def test_another_number_of_classes_is_refused_by_all(output, names, others):
    """A later batch with other classes is an input error for statistics too, and leaves all of them."""
    panel = MetricCollection(names, output())
    panel.update(**draw(output(4), 30, seed=1))
    before = values(panel)
    with pytest.raises(MetricInputError, match=r"4|classes"):
        panel.update(**draw(output(others), 30, seed=2))
    panel.update(**draw(output(4), 0))
    assert values(panel) == before


def test_an_extra_reaches_only_the_metric_that_asks():
    """`weights` is known to one metric of four: that one weighs its rows, the others do not notice."""
    panel = fed(collection("gap", "own_gap", "shared_gap", "weighted_gap"), weights=torch.tensor([1, 0, 0]))
    assert values(panel) == {"gap": 3.0, "own_gap": 3.0, "shared_gap": 3.0, "weighted_gap": 1.0}


@pytest.mark.parametrize("kind", KINDS)
def test_an_extra_that_nobody_asks_for_is_refused(kind):
    """A misspelled keyword is named, whatever kinds of metric are in the collection."""
    with pytest.raises(MetricInputError, match=f"no metric of {kind} accepts wieghts; leave it out"):
        fed(collection(kind), wieghts=torch.ones(3))


def test_one_identity_is_measured_once():
    """An alias and the name it means are one metric; two settings of one class are two."""
    panel = MetricCollection(["f1_macro", "f1(average=macro)", "f1_micro"], Category(3))
    assert panel.names == ("f1(average=macro)", "f1(average=micro)")


@pytest.mark.parametrize("name", ["test:accuracy", "task/accuracy", "intent.accuracy"])
def test_a_name_keeps_its_front_or_is_refused(name):
    """A collection measures what it is given: a split, task or feature in front is never dropped silently."""
    try:
        panel = MetricCollection([name], Binary())
    except HpometricsError as err:
        assert name in str(err)
    else:
        assert panel.names == (name,)


def test_objects_of_one_class_with_other_parameters_are_two_metrics():
    """Neither may be lost: both are measured, each under a name that tells them apart."""
    panel = fed(MetricCollection([ScaledGap(scale=1.0), ScaledGap(scale=3.0)], Number()))
    assert list(values(panel).values()) == [3.0, 9.0]


class UntypedGap(Gap):
    """A distance with parameters without types, of which one may be anything."""

    def __init__(self, scale=1.0, marks=None):
        super().__init__()
        self.scale, self.marks = scale, marks

    def get_current_value(self, preds, target):
        return self.scale * super().get_current_value(preds, target)


def test_parameters_without_types_are_parameters_too(samples):
    """Their values stand in the name, which builds the metric again; what no name can tell is refused."""
    samples.register_metric("untyped_gap", [NUMBER])(UntypedGap)
    panel = fed(MetricCollection([UntypedGap(), UntypedGap(scale=3.0)], Number()))
    assert values(panel) == {"untyped_gap": 3.0, "untyped_gap(scale=3.0)": 9.0}
    assert fed(MetricCollection(panel.names, Number())).compute() == panel.compute()
    with pytest.raises(MetricInputError, match="two different metrics are named 'untyped_gap'"):
        MetricCollection([UntypedGap(marks=[1]), UntypedGap(marks=[2])], Number())


def test_two_classes_under_one_name_are_refused():
    """A name is an identity: the second holder is told to take another."""
    other = OwnGap()
    other.name = "gap"
    with pytest.raises(MetricInputError, match="two different metrics are named 'gap'"):
        MetricCollection(["gap", other], Number())


def test_an_object_belongs_to_one_collection():
    """A second collection would take its statistics away; so would one that comes after updates alone."""
    metric = get_metric("shared_gap", Number())
    panel = MetricCollection([metric])
    with pytest.raises(StateError, match="shared_gap"):
        MetricCollection([metric])
    assert values(fed(panel)) == {"shared_gap": 3.0}
    measured = SharedGap()
    measured.update(PREDS, TARGET)
    with pytest.raises(StateError, match="shared_gap"):
        MetricCollection([measured])


@pytest.mark.parametrize("call", ["reset", "update", "merge"])
def test_a_member_is_not_driven_alone(call):
    """What a member shares belongs to the collection; its own update or reset would wreck the others."""
    panel = fed(collection("shared_gap", "shared_total"))
    member, arguments = panel["shared_gap"], {"update": (PREDS, TARGET), "merge": (SharedGap(),)}
    with pytest.raises(StateError, match=f"{call} the collection"):
        getattr(member, call)(*arguments.get(call, ()))
    assert values(panel)["shared_total"] == 9.0


@pytest.mark.parametrize("kind", [Gap, SharedGap, OwnGap])
def test_a_metric_serves_only_its_features(kind):
    """A class registered for a number does not measure a binary output by accident."""
    with pytest.raises((MetricInputError, UnknownMetricError), match=r"binary"):
        MetricCollection([kind], Binary())


def test_the_output_is_known_from_the_metrics():
    """With objects that agree it may be left out; otherwise it must be given."""
    assert MetricCollection([get_metric("gap", Number())]).output == Number()
    with pytest.raises(MetricInputError, match="pass output=: the metrics support"):
        MetricCollection([get_metric("gap", Number()), get_metric("accuracy", Binary())])
    with pytest.raises(
        MetricInputError,
        match=r"needs metrics of hpometrics, got object; convert it with as_metric\(object\(\.\.\.\),",
    ):
        MetricCollection([object()], Number())


def test_directions_are_told_by_name():
    """What a search needs to know of each metric."""
    panel = MetricCollection(["accuracy", "log_loss"], Binary())
    assert (panel.direction_of("accuracy"), panel.direction_of("log_loss")) == (MAXIMIZE, MINIMIZE)


def test_undefined_values_have_reasons():
    """One class only: roc_auc is nan and says why; accuracy is a number and has no reason."""
    panel = MetricCollection(["roc_auc", "accuracy"], Binary())
    panel.update(logits=torch.tensor([1.0, 2.0]), target=torch.tensor([1, 1]))
    found = values(panel)
    assert found["accuracy"] == 1.0
    assert found["roc_auc"] != found["roc_auc"]
    assert list(panel.reasons) == ["roc_auc"] and panel.reasons["roc_auc"]
    panel.update(logits=torch.tensor([-1.0]), target=torch.tensor([0]))
    assert values(panel)["roc_auc"] == 1.0
    assert panel.reasons == {}


@pytest.mark.parametrize("output", [Category(), Category(4), Sequence(), Sequence(7)], ids=str)
def test_facts_that_a_shape_shows_need_not_be_given(output):
    """The number of classes may be left out, and the values are the same."""
    full = {"category": Category(4), "sequence": Sequence(7)}[output.type]
    names = company_of(output)
    panels = [MetricCollection(names, feature) for feature in (output, full)]
    for panel in panels:
        for batch in cut(draw(full, 60), [10, 1, 49]):
            panel.update(**batch)
    assert panels[0].compute().keys() == panels[1].compute().keys()
    for ours, theirs in zip(*(panel.compute().values() for panel in panels), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


SOFTMAX = {"log_softmax": 0, "softmax": 0, "argmax": 0, "sigmoid": 0}


@pytest.mark.parametrize("output", [Category(4), Binary(), Sequence(7)], ids=lambda output: output.type)
def test_each_output_is_derived_once_per_batch(output, monkeypatch):
    """All metrics of a feature together take one softmax (or sigmoid) and one argmax of a batch."""
    calls = dict(SOFTMAX)
    for name in calls:
        _count(monkeypatch, name, calls)
    panel = MetricCollection(company_of(output), output)
    panel.update(**draw(output, 100))
    assert calls["log_softmax"] + calls["softmax"] == (0 if output.type == BINARY else 1)
    assert calls["sigmoid"] == (1 if output.type == BINARY else 0)
    assert calls["argmax"] <= 1


def _count(monkeypatch, name: str, calls: dict[str, int]) -> None:
    """Count the calls of a method of Tensor, of torch, and of torch.nn.functional."""
    for owner in (torch.Tensor, torch, torch.nn.functional):
        inner = getattr(owner, name, None)
        if inner is None:
            continue

        def counted(*args, inner=inner, **kwargs):
            calls[name] += 1
            return inner(*args, **kwargs)

        monkeypatch.setattr(owner, name, counted)


def test_what_is_given_by_position_is_refused():
    """As torchmetrics takes it: which output it is, has to be said."""
    panel = MetricCollection(["accuracy"], output=Binary())
    with pytest.raises(
        MetricInputError, match=r"keyword: update\(logits=\.\.\., target=\.\.\.\), .*; got 2 without one"
    ):
        panel.update(torch.tensor([1]), torch.tensor([1]))
    assert panel.rows == 0


@pytest.mark.parametrize("metrics", [None, 3])
def test_what_is_no_list_of_metrics_is_refused(metrics):
    """By what it is."""
    with pytest.raises(MetricInputError, match=f"needs a list of metrics, got {type(metrics).__name__}"):
        MetricCollection(metrics, output=Binary())


def test_the_names_of_a_collection_are_those_of_its_values():
    """It can be asked for a metric by name, looped over and looked into; another name is told apart."""
    panel = MetricCollection(["accuracy", "f1"], output=Binary())
    assert [*panel] == [*panel.names] == [*panel.compute()] == ["accuracy", "f1"]
    assert "f1" in panel and "roc_auc" not in panel and 0 not in panel
    with pytest.raises(UnknownMetricError, match="the metrics are accuracy, f1; there is no 'roc_auc'"):
        panel["roc_auc"]


def test_what_is_no_collection_or_state_does_not_merge():
    """Named by what it is."""
    panel = MetricCollection(["accuracy"], output=Binary())
    with pytest.raises(StateError, match="a collection can merge only with another collection, got int"):
        panel.merge(3)
    with pytest.raises(StateError, match=r"a state must be the result of state_dict\(\), got NoneType"):
        panel.load_state_dict(None)


def test_a_misspelled_keyword_is_told_what_it_may_be():
    """Without its weights the batch would be measured as another one."""
    panel = MetricCollection(["accuracy"], output=Binary())
    with pytest.raises(MetricInputError, match=r"accepts sample_weigth. Did you mean 'sample_weight'\?"):
        panel.update(predictions=[1], target=[1], sample_weigth=[2.0])


def test_a_collection_is_a_table_in_a_notebook():
    """A row per metric, which alone shows the same."""
    panel = MetricCollection(["accuracy", "log_loss"], output=Binary())
    head, first, second = panel._repr_html_().removesuffix("</table>").split("<tr>")[1:]
    assert head == "<th>metric</th><th>direction</th><th>reads</th><th>output</th></tr>"
    assert second == "<td>log_loss</td><td>minimize</td><td>probabilities</td><td>binary</td></tr>"
    assert panel["accuracy"]._repr_html_() == f"<table><tr>{head}<tr>{first}</table>"


def test_a_collection_is_a_mapping_to_its_metrics():
    """As torchmetrics' own has items, keys and values; what `compute` returns has the values."""
    panel = MetricCollection(["accuracy", "ece"], output=Category(3))
    assert list(panel.keys()) == list(panel.names) == list(dict(panel))
    assert list(panel.values()) == [panel["accuracy"], panel["ece"]]
    assert dict(panel.items()) == dict(panel)
