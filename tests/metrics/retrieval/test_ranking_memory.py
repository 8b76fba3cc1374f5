"""Memory: nothing grows with users x items but the scores themselves, in whatever form they come."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import Forked
from matrix import covering

from hpometrics import MetricCollection, Ranking
from hpometrics.metrics.features import RANKING
from hpometrics.metrics.registry.index import all_entries
from hpometrics.metrics.retrieval.lists import Lists
from hpometrics.metrics.retrieval.relevance import DenseRelevance
from hpometrics.testing import subjects_of

OUTPUT = Ranking(num_items=4, user_groups=[0, 0, 1, 1])
USERS, ITEMS = 2000, 20000
CASES = [
    ("factors", "ndcg@10"),
    ("factors", "log_loss"),
    ("factors", "map"),
    ("many relevant", "mrr"),
    ("candidates", "ndcg@10"),
    ("float16", "ndcg@10"),
    ("float64", "ndcg@10"),
]
"""Forms of scores, each with a metric that takes them. A case is about its form, not about the metric."""


def resident(kind: str) -> float:
    """The memory of this process in MiB: VmRSS, what it has now, or VmHWM, the most that it had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(kind)).split()[1]) / 1024


def users_of(form: str) -> Callable[[int], dict[str, Any]]:
    """A batch of the first users, of as many as asked, in some form."""
    width = 16 if form == "factors" else 128
    users, items = torch.randn(USERS, width), torch.randn(ITEMS, width)
    if form.startswith("float"):
        scores = torch.empty(USERS, ITEMS, dtype=getattr(torch, form)).copy_(torch.randn(ITEMS))

    def given(rows: int) -> dict[str, Any]:
        target: Any = [[row, row + 3000] for row in range(rows)]
        if form == "many relevant":
            target = torch.arange(rows + 1) * 100, torch.arange(0, ITEMS, ITEMS // 100).repeat(rows)
        if form.startswith("float"):
            return {"scores": scores[:rows], "target": target}
        own = {"items": torch.arange(200).repeat(rows, 1)} if form == "candidates" else {}
        return {"user_factors": users[:rows], "item_factors": items, **own, "target": target}

    return given


def print_growth(form: str, name: str) -> None:
    """Print by how many MiB one update of all users takes this process beyond what it had before."""
    torch.set_num_threads(1)
    given = users_of(form)
    panel = MetricCollection([name], output=Ranking(ITEMS))
    panel.update(**given(50))
    panel.compute()
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    panel.update(**given(USERS))
    panel.compute()
    print(resident("VmHWM") - before)


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
@pytest.mark.parametrize(
    "case",
    covering(
        range(len(CASES)),
        lambda case: [CASES[case][0].rstrip("0123456789")],
        ids=lambda case: " of ".join(reversed(CASES[case])),
    ),
)
def test_one_update_of_many_users_takes_little_beyond_its_scores(case, tmp_path):
    """A float32 matrix of these users and items would take 153 MiB; lists and tiles take a tenth of it.

    The factors of 200,000 relevant items would take 98 MiB, of which a product makes three; those of 400,000
    candidates twice as much.
    """
    measured = Forked(tmp_path, print_growth, *CASES[case]).result()
    assert float(measured.stdout) < 60, measured.stderr


@pytest.fixture
def held(monkeypatch):
    """Relevance and lists of rows that were made and that somebody holds; no garbage is collected."""
    found = weakref.WeakSet()

    def noted(begin):
        def begun(made, *args, **kwargs):
            begin(made, *args, **kwargs)
            found.add(made)

        return begun

    for kind in (DenseRelevance, Lists):
        monkeypatch.setattr(kind, "__init__", noted(kind.__init__))
    gc.disable()
    yield lambda: [type(made).__name__ for made in found if isinstance(made, DenseRelevance) or len(made)]
    gc.enable()


@pytest.mark.parametrize("entry", [e for e in all_entries(RANKING) if ".torchmetrics" not in e.path], ids=str)
def test_a_batch_is_let_go_after_its_update(entry, held):
    """Its target goes at once: the memory of an accelerator is full long before garbage is collected."""
    subject = subjects_of(entry)[0]
    metric = subject.make()
    metric.update(**subject.draw(20))
    assert "DenseRelevance" not in held()
    metric.compute()
    assert held() == []


def test_lists_that_waited_are_let_go(held):
    """With the batches of a collection, which joins them."""
    metrics = MetricCollection(["ndcg@3", "map", "gini@3", "user_mad_ranking@3"], OUTPUT)
    for form in (torch.eye(4), torch.eye(4) > 0, [[0], [1], [2], [3]]):
        metrics.update(scores=torch.rand(4, 4), target=form, users=torch.arange(4))
        assert "DenseRelevance" not in held()
    metrics.compute()
    assert held() == []
