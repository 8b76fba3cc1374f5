"""What makes the host wait for a device is told with its line of code, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from hpometrics import Category, MetricCollection
from hpometrics.metrics._device import number, runs_ahead, send_to
from hpometrics.metrics.statistics.statistic import tally
from hpometrics.testing import away, waits_of

SCORES = torch.rand(5, 4, device="meta")
PLACES = torch.zeros(5, dtype=torch.long, device="meta")
MASK = SCORES > 0
BEST = SCORES.max()

WAITS = {
    "item": lambda: SCORES.max().item(),
    "if": lambda: bool(SCORES.max() > 0),
    "a list": SCORES.tolist,
    "to the host": SCORES.cpu,
    "an array": SCORES.numpy,
    "rows of a mask": lambda: SCORES[MASK],
    "places of a mask": lambda: torch.where(MASK),
    "values put in the places of a mask": lambda: SCORES.clone().index_put_((MASK,), SCORES.view(-1)),
    "distinct numbers": PLACES.unique,
    "counts": PLACES.bincount,
    "repeated": lambda: SCORES.repeat_interleave(PLACES, 0),
    "members": lambda: torch.isin(PLACES, PLACES),
    "an inverse": lambda: torch.linalg.inv(SCORES[:4]),
    "eigenvalues": lambda: torch.linalg.eigh(SCORES[:4]),
    "numbers made there": lambda: torch.tensor([1.0], device="meta"),
    "numbers made like others": lambda: SCORES.new_tensor([1.0]),
    "an array sent": lambda: torch.as_tensor(np.ones(3), device="meta"),
    "a tensor of the host": lambda: torch.ones(3).to("meta"),
    "an index of the host": lambda: SCORES[torch.tensor([0, 1])],
    "a list as index": lambda: SCORES[:, [0, 1]],
    "an array as index": lambda: SCORES.clone().__setitem__(np.array([0, 1]), SCORES[:2]),
    "a range as index": lambda: SCORES[range(2)],
    "a tuple as one of the indices": lambda: SCORES[(0, 1),],
    "made by keyword": lambda: torch.tensor(data=[1.0], device="meta"),
    "made by keyword like others": lambda: SCORES.new_tensor(data=[1.0]),
    "an array by keyword": lambda: torch.asarray(obj=[1.0], device="meta"),
    "a number put in one place": lambda: SCORES.clone().__setitem__((0, 0), 1.0),
    "a number put in places of an index": lambda: SCORES.clone().__setitem__(PLACES, 1.0),
    "a number of the device put in the places of a mask": lambda: SCORES.clone().__setitem__(MASK, BEST),
    "a number put in the places of a mask and an index": lambda: SCORES.clone().__setitem__(
        (MASK[:, 0], PLACES), 0.0
    ),
    "a mask filled with a number of the device": lambda: SCORES.masked_fill(MASK, BEST),
    "an index filled with one": lambda: SCORES.index_fill(0, PLACES, BEST),
    "a choice between a number of the host and others": lambda: torch.where(MASK, torch.tensor(0.0), SCORES),
    "a range between numbers of the device": lambda: torch.linspace(BEST, BEST, 3),
    "an order that is checked": lambda: torch.searchsorted(SCORES[0], SCORES[0], sorter=PLACES[:4]),
    "bins without ends": lambda: torch.histc(SCORES),
    "draws by chances": lambda: torch.multinomial(SCORES, 2),
    "a matrix exponential": lambda: torch.linalg.matrix_exp(SCORES[:4]),
    "a pseudoinverse": lambda: torch.linalg.pinv(SCORES),
    "equal": lambda: torch.equal(SCORES, SCORES),
    "shown": lambda: repr(SCORES),
    "printed": lambda: f"the best is {BEST:.3f}",
    "entries that are added up": lambda: torch.sparse_coo_tensor(
        PLACES.expand(2, 5), SCORES[:, 0]
    ).coalesce(),
}

FREE = {
    "the best": lambda: SCORES.topk(2, dim=1),
    "an index of the device": lambda: SCORES[PLACES],
    "a slice": lambda: SCORES[1:3, 0],
    "one number in the places of a mask": lambda: SCORES.clone().masked_fill_(MASK, 0.0),
    "the same by index": lambda: SCORES.clone().__setitem__(MASK, 0.0),
    "the same by an index of columns": lambda: SCORES.clone().__setitem__((slice(None), MASK[0]), 0.0),
    "a number of the host by index": lambda: SCORES.clone().__setitem__(MASK, torch.tensor(0.0)),
    "a number put in a row": lambda: SCORES.clone().__setitem__(0, 1.0),
    "a number of the device put in places of an index": lambda: SCORES.clone().__setitem__(PLACES, BEST),
    "a tensor filled with a number of the host": lambda: SCORES.clone().fill_(torch.tensor(1.0)),
    "one number made there": lambda: torch.scalar_tensor(3.0, device="meta"),
    "the shape of one of the host": lambda: torch.zeros_like(torch.ones(3), device="meta"),
    "a copy that is sent": lambda: SCORES.clone().copy_(torch.rand(5, 4), non_blocking=True),
    "members of one": lambda: torch.isin(PLACES, 3),
    "bins with ends": lambda: torch.histc(SCORES, 4, 0, 1),
    "parameters": lambda: torch.nn.Parameter(SCORES) + 1,
    "written into a tensor": lambda: torch.add(SCORES, SCORES, out=torch.empty_like(SCORES)),
    "counts by index": lambda: tally(PLACES, None, 9),
    "a number filled in": lambda: number(3, SCORES, torch.float64) + SCORES,
    "a number of the host": lambda: SCORES + torch.tensor(1.0),
    "what is sent": lambda: send_to(torch.ones(3), "meta"),
    "work on the host": lambda: torch.ones(3).unique().tolist(),
}


@pytest.mark.parametrize("what", WAITS)
def test_a_wait_is_told(what):
    """Whatever reads a value, is sized by one, or copies between the two."""
    (told,) = waits_of(WAITS[what])
    assert f", at {Path(__file__)}:" in told


@pytest.mark.parametrize("what", FREE)
def test_nothing_else_is(what):
    """What the device can do later, and what stays on the host."""
    assert waits_of(FREE[what]) == []


def test_every_wait_is_told():
    """Copies do not end a step; a value that is read does."""
    assert len(waits_of(lambda: (WAITS["an array sent"](), WAITS["a list as index"](), WAITS["item"]()))) == 3


def _swallowing():
    try:
        return BEST.item()
    except NotImplementedError:
        return SCORES


def _translating():
    try:
        return BEST.item()
    except NotImplementedError:
        raise ValueError("it has no value") from None


@pytest.mark.parametrize("step", [_swallowing, _translating])
def test_a_value_that_is_read_is_told_whatever_becomes_of_the_error(step):
    """On an accelerator there is none, and the host waits."""
    (told,) = waits_of(step)
    assert told.startswith("a value is read: ")


@pytest.mark.parametrize("weight", [[1.0, 0.0, 2.0], torch.ones(3)])
def test_weights_may_stay_on_the_host(weight):
    """A list, or what a loader leaves there, is sent to where the outputs are."""
    metrics = MetricCollection(["accuracy", "log_loss", "roc_auc"], Category(4))
    given = away({"logits": torch.rand(3, 4), "target": torch.tensor([0, 3, 1])})
    assert waits_of(lambda: metrics.update(**given, sample_weight=weight)) == []


def test_another_error_is_raised():
    """A mistake is no wait: neither the step's own, nor a device that is mixed with another."""
    with pytest.raises(ZeroDivisionError):
        waits_of(lambda: 1 / 0)
    with pytest.raises(RuntimeError, match="not on the expected device"):
        waits_of(lambda: SCORES + torch.ones(4))


def test_a_batch_goes_away():
    """Tensors do; texts and lists stay."""
    batch = away({"target": torch.ones(2), "texts": ["a"]})
    assert batch["target"].device.type == "meta" and batch["texts"] == ["a"]


@pytest.fixture
def copies(monkeypatch):
    """Copies that would be made: from which tensor, to which kind of device, and how."""
    made = []

    def to(tensor, device, **how):
        made.append((tensor, torch.device(device).type, how.get("non_blocking", False)))
        return tensor

    monkeypatch.setattr(torch.Tensor, "to", to)
    return made


def test_what_is_sent_starts_in_pinned_memory(monkeypatch, copies):
    """From pageable memory a copy is waited for; memory of its own, as the caller may write into a tensor."""
    own = torch.empty(2)
    monkeypatch.setattr(torch, "empty_like", lambda tensor, pin_memory: own if pin_memory else None)
    send_to(torch.ones(2), "cuda")
    ((start, kind, at_once),) = copies
    assert start is own and own.tolist() == [1, 1] and kind == "cuda" and at_once


@pytest.mark.parametrize(("tensor", "device"), [(torch.ones(2), "cpu"), (SCORES, "cuda"), (SCORES, "meta")])
def test_what_is_there_is_not_sent(tensor, device, copies):
    """A copy on the host is done at once, and one between devices is theirs."""
    send_to(tensor, device)
    ((start, _, at_once),) = copies
    assert start is tensor and not at_once


def test_a_device_that_reads_the_host_later_is_waited_for(copies):
    """MPS would read memory that is free by then, and its numbers would be others."""
    ones = torch.ones(2)
    send_to(ones, "mps")
    assert copies == [(ones, "mps", False)] and not runs_ahead("mps") and runs_ahead("cuda")
