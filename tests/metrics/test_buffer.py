"""Small batches are joined and large ones cut; nobody can tell but by the time it takes."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from hpometrics import MINIMIZE, PREDICTIONS, Category, MeanMetric, MetricCollection, Set, get_metric
from hpometrics.exceptions import MetricInputError, NonFiniteError
from hpometrics.metrics.statistics.confusion import Confusion
from hpometrics.testing import cut, draw

NAMES = ("accuracy", "f1_macro", "hits@2", "roc_auc", "log_loss", "brier", "ece")


@pytest.fixture
def counted(monkeypatch):
    """The sizes of the batches that the confusion matrix is updated with."""
    sizes: list[int] = []
    update = Confusion.update
    monkeypatch.setattr(
        Confusion, "update", lambda own, batch: (sizes.append(len(batch)), update(own, batch))
    )
    return sizes


def panel_of(*batches, metrics=NAMES, output=None):
    """A collection that was given these batches."""
    panel = MetricCollection(metrics, output=output or Category(4))
    for batch in batches:
        panel.update(**batch)
    return panel


def test_small_batches_are_counted_together(counted):
    """The first batch of a kind is counted at once, those that follow when somebody reads."""
    panel = panel_of(*cut(draw(Category(4), 80), [8] * 10))
    assert counted == [8]
    panel.compute()
    assert counted == [8, 72]


@pytest.mark.parametrize(("threads", "sizes"), [(1, [2500] * 7), (2, [1500] * 12)])
def test_what_is_held_is_bounded(threads, sizes, counted, monkeypatch):
    """Gathered rows are counted before they exceed 2^18 bytes, or the elements torch gives one thread."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    batch = draw(Category(20), 500)
    batch["logits"] = batch["logits"].half()
    panel = panel_of(*[batch] * 40, output=Category(20))
    assert counted == [500, *sizes]
    assert panel.rows == 20000


def test_a_batch_too_large_to_gather_is_counted_at_a_glance(counted, monkeypatch):
    """One of half to all that may be gathered is counted in its update, behind what was gathered before."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    few, many = draw(Category(4), 10), draw(Category(4), 10000)
    panel, looks = panel_of(few, few), []
    monkeypatch.setattr(panel, "_validate_and_add", looks.append)
    panel.update(**many)
    assert (counted, looks, panel.rows) == ([10, 10, 10000], [], 10020)


def test_batches_may_come_from_inference_mode_and_not():
    """What is held was made in neither: it can be written to from both."""
    panel, batches = panel_of(), cut(draw(Category(4), 50, 0.5), [10] * 5)
    for place, batch in enumerate(batches):
        with torch.inference_mode(place in (1, 3)):
            panel.update(**batch)
    values, expected = panel.compute(), panel_of(*batches).compute()
    assert torch.allclose(torch.stack([*values.values()]), torch.stack([*expected.values()]), rtol=1e-12)


def test_a_very_large_batch_is_counted_in_blocks(counted):
    """Blocks of 2^17 elements stay in the cache."""
    panel_of(draw(Category(4), 100_000))
    assert counted == [32768, 32768, 32768, 1696]


@pytest.mark.parametrize("output", [Category(4), Set(3)], ids=lambda output: output.type)
def test_the_values_are_those_of_one_batch(output):
    """Joined, cut or whole: the same counts, and sums that differ by rounding only."""
    names = ("accuracy", "f1_macro", "roc_auc", "average_precision", "log_loss")
    batch = draw(output, 60_000, 0.5)
    whole = panel_of(batch, metrics=names, output=output).compute()
    sizes = [7] * 100 + [50_000] + [30] * 300
    parts = panel_of(*cut(batch, [*sizes, 60_000 - sum(sizes)]), metrics=names, output=output).compute()
    for name in whole:
        assert parts[name].item() == pytest.approx(whole[name].item(), rel=1e-12)


READERS = {
    "compute": lambda panel: panel,
    "a member": lambda panel: panel,
    "pickle": lambda panel: pickle.loads(pickle.dumps(panel)),
    "deepcopy": copy.deepcopy,
    "to": lambda panel: panel.to("cpu"),
    "state_dict": lambda panel: _loaded(panel),
    "merge": lambda panel: _merged(panel),
}


def _loaded(panel):
    loaded = panel.fresh()
    loaded.load_state_dict(panel.state_dict())
    return loaded


def _merged(panel):
    merged = panel.fresh()
    merged.merge(panel)
    return merged


@pytest.mark.parametrize("how", READERS)
def test_whoever_reads_sees_every_row(how):
    """Gathered rows are counted before a copy, a move, a merge, a state, or a look at one member."""
    batches = cut(draw(Category(4), 50, 0.5), [10] * 5)
    expected = panel_of(*batches).compute()
    panel = READERS[how](panel_of(*batches))
    if how == "a member":
        assert panel["accuracy"].compute() == expected["accuracy"]
    assert {k: v.item() for k, v in panel.compute().items()} == pytest.approx(
        {k: v.item() for k, v in expected.items()}, rel=1e-12
    )


def test_a_reset_forgets_what_is_gathered():
    """Rows that were never counted are gone as well."""
    first, *rest = cut(draw(Category(4), 50, 0.9), [10] * 5)
    panel = panel_of(first, *rest)
    panel.reset()
    panel.update(**first)
    assert panel.compute() == panel_of(first).compute()
    assert panel.rows == 10


@pytest.mark.parametrize("read", [False, True], ids=["unread", "read"])
def test_after_a_reset_batches_like_the_last_are_known(read, monkeypatch):
    """They are looked at, not validated in full; those that are not like it are."""
    few, other = draw(Category(4), 10), draw(Category(5), 10)
    panel, full = panel_of(few, output=Category()), []
    if read:
        panel.compute()
    panel.reset()
    validate = panel._validate_and_add
    monkeypatch.setattr(panel, "_validate_and_add", lambda batch: (full.append(len(batch)), validate(batch)))
    panel.update(**few)
    assert panel.compute() == panel_of(few, output=Category()).compute() and not full
    panel.reset()
    panel.update(**other)
    assert panel.compute() == panel_of(other, output=Category()).compute() and full == [10]


SPOILED = {
    "nan": (
        lambda b: b["logits"].__setitem__((3, 1), torch.nan),
        NonFiniteError,
        "hold 1 values that are nan",
    ),
    "a label": (lambda b: b["target"].__setitem__(2, 4), MetricInputError, r"be in 0\.\.3, got values from"),
    "a row less": (lambda b: b.update(target=b["target"][1:]), MetricInputError, "shapes never broadcast"),
}


@pytest.mark.parametrize("what", SPOILED)
@pytest.mark.parametrize("alone", [True, False])
def test_a_small_batch_is_refused_at_once(what, alone):
    """Values are looked at before a batch is gathered; a refused one leaves no trace."""
    spoil, error, message = SPOILED[what]
    good = cut(draw(Category(4), 50, 0.5), [10] * 5)
    bad = {name: tensor.clone() for name, tensor in good[3].items()}
    spoil(bad)
    measure = get_metric("accuracy", Category(4)) if alone else MetricCollection(["accuracy"], Category(4))
    for batch in good[:3]:
        measure.update(**batch)
    with pytest.raises(error, match=message):
        measure.update(**bad)
    for batch in good[3:]:
        measure.update(**batch)
    value = measure.compute() if alone else measure.compute()["accuracy"]
    assert value == panel_of(*good, metrics=["accuracy"]).compute()["accuracy"]


def test_what_is_gathered_is_a_copy():
    """The caller may write to its buffers and ask for gradients."""
    metric, buffer = get_metric("log_loss", Category(4)), torch.empty(8, 4, requires_grad=True)
    batches = cut(draw(Category(4), 40, 0.5), [8] * 5)
    for batch in batches:
        with torch.no_grad():
            buffer.copy_(batch["logits"])
        metric.update(logits=buffer, target=batch["target"])
    assert metric.compute().item() == pytest.approx(
        panel_of(*batches, metrics=["log_loss"]).compute()["log_loss"].item(), rel=1e-6
    )


class Asked(MeanMetric):
    """Notes how many rows it is asked for at a time."""

    direction = MINIMIZE
    inputs = PREDICTIONS

    def __init__(self):
        super().__init__()
        self.sizes = []

    def get_current_value(self, preds, target):
        self.sizes.append(len(preds))
        return (preds - target).abs()


class AskedTogether(Asked):
    """The same, of which rows may be regrouped."""

    regroups = True


@pytest.mark.parametrize(("cls", "sizes"), [(Asked, [4, 4, 4]), (AskedTogether, [4, 8])])
def test_a_mean_says_whether_its_rows_may_be_regrouped(cls, sizes):
    """By default a metric of one's own sees the batches that it was given."""
    metric = cls()
    for row in torch.arange(12.0).view(3, 4):
        metric.update(row, torch.zeros(4))
    assert metric.compute() == 5.5
    assert metric.sizes == sizes


class Measured(MeanMetric):
    """Gives what it is told to, or refuses."""

    direction = MINIMIZE
    inputs = PREDICTIONS
    how = staticmethod(lambda preds, target: (preds - target).abs())

    def get_current_value(self, preds, target):
        return self.how(preds, target)


def _refuse(preds, target):
    if preds.amax() > 100:
        raise MetricInputError(f"at most 100, got {preds.amax():g}")
    return (preds - target).abs()


FORMS = {
    "a value per row": (lambda p, t: (p - t).abs(), 6.0),
    "several per row": (lambda p, t: torch.stack([p, p + 2], 1), 7.0),
    "one for the batch": (lambda p, t: p.mean(), 6.0),
    "a plain number": (lambda p, t: 2.5, 2.5),
    "whole numbers": (lambda p, t: p.long(), 5.5),
    "with a mask": (lambda p, t: (p, p > 5), 8.5),
    "with a weight": (lambda p, t: (p.mean(), 3.0), 5.0),
    "none of some": (lambda p, t: None if p[0] < 6 else p, 10.0),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_mean_of_small_batches_takes_every_form(form, monkeypatch):
    """The rows are 0.5 to 11.5, in batches of 2, then of 4; no form is lost on the short way."""
    how, expected = FORMS[form]
    monkeypatch.setattr(Measured, "how", staticmethod(how))
    metric = Measured()
    for rows in torch.arange(0.5, 12.0).split([2, 2, 4, 4]):
        metric.update(rows, torch.zeros(len(rows)))
    assert metric.compute().item() == expected


def test_a_mean_like_the_one_before_needs_no_outputs(monkeypatch):
    """After the first batch `get_current_value` is asked straight away."""
    metric, rows = Measured(), torch.arange(8.0).view(4, 2)
    metric.update(rows[0], torch.zeros(2))
    monkeypatch.setattr("hpometrics.metrics.metric.Outputs", None)
    for row in rows[1:]:
        metric.update(row.requires_grad_(), torch.zeros(2))
    assert metric.compute() == 3.5 and metric.update_count == 4


def test_a_mean_refuses_in_the_update_that_carried_the_value(monkeypatch):
    """Also on the short way; what was measured before stays, and what follows counts."""
    monkeypatch.setattr(Measured, "how", staticmethod(_refuse))
    metric = Measured()
    for value in (1.0, 2.0, 101.0, 3.0):
        row = torch.tensor([value, value])
        if value > 100:
            with pytest.raises(MetricInputError, match="at most 100, got 101"):
                metric.update(row, torch.zeros(2))
        else:
            metric.update(row, torch.zeros(2))
    assert metric.compute() == 2.0 and metric.update_count == 3


@pytest.mark.parametrize("peek", ["compute", "state_dict", "alone", "__getstate__"])
def test_to_look_at_a_mean_changes_nothing(peek):
    """The sums are the same to the last bit, whoever reads them in between."""
    rows = torch.rand(300, 3, generator=torch.Generator().manual_seed(0))
    seen, unseen = Measured(), Measured()
    for row in rows:
        seen.update(row, torch.zeros(3))
        unseen.update(row, torch.zeros(3))
        getattr(seen, peek)()
    assert seen.compute() == unseen.compute()
    merged = copy.deepcopy(seen)
    merged.merge(unseen)
    assert merged.compute().item() == pytest.approx(rows.double().mean().item(), rel=1e-14)


def test_batches_of_another_kind_are_not_joined(counted):
    """Weights, another precision, other outputs: what was gathered is counted first."""
    small, weighted = draw(Category(4), 8), {**draw(Category(4), 8), "sample_weight": torch.ones(8)}
    halves = {**small, "logits": small["logits"].half()}
    panel_of(small, small, weighted, weighted, halves, small)
    assert counted == [8, 8, 8, 8, 8, 8]


MEMORIES = {
    "bfloat16": lambda logits: logits.bfloat16(),
    "float16": lambda logits: logits.half(),
    "with a gradient": lambda logits: logits.clone().requires_grad_(),
    "every second column": lambda logits: logits.repeat_interleave(2, 1)[:, ::2],
    "a negated view": lambda logits: torch.complex(logits, -logits).conj().imag,
    "too large to be squared": lambda logits: logits * 1e30,
}


@pytest.mark.parametrize("rows", [5, 3000])
@pytest.mark.parametrize("form", MEMORIES)
def test_whatever_its_memory_looks_like_a_batch_is_gathered_as_it_is(form, rows):
    """Arrays share the memory of a small batch where NumPy has its type; what is counted is the same."""
    batches = cut(draw(Category(4), 4 * rows), [rows] * 4)
    for batch in batches:
        batch["logits"] = MEMORIES[form](batch["logits"])
    plain = [{**batch, "logits": batch["logits"].detach().clone()} for batch in batches]
    values = panel_of(*batches).compute()
    each = [panel_of(batch, metrics=["accuracy"]).compute()["accuracy"] for batch in plain]
    assert values["accuracy"].item() == pytest.approx(torch.stack(each).mean().item(), rel=1e-12)
    assert {n: v.item() for n, v in values.items()} == {
        n: v.item() for n, v in panel_of(*plain).compute().items()
    }


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("rows", [5, 2500])
def test_one_value_that_is_not_finite_is_found_at_a_glance(rows, value):
    """Of few numbers by a product with themselves, of many by their sum; what was gathered stays."""
    first, second = cut(draw(Category(4), 2 * rows), [rows] * 2)
    panel = panel_of(first, first)
    second["logits"][rows // 2, 1] = value
    with pytest.raises(NonFiniteError, match="logits"):
        panel.update(**second)
    assert panel.rows == 2 * rows


@pytest.mark.parametrize("before", [0, 2])
def test_a_sparse_output_is_refused_with_what_to_do(before):
    """Be it the first batch or a later one."""
    batch = draw(Category(4), 6)
    metric = get_metric("accuracy", Category(4))
    for _ in range(before):
        metric.update(**batch)
    with pytest.raises(MetricInputError, match=r"logits= .* dense tensor, got a sparse_coo one; pass x.to_d"):
        metric.update(**{**batch, "logits": batch["logits"].to_sparse()})
    assert metric.update_count == before
