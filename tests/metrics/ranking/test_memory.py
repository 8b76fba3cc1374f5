"""Memory: nothing grows with users x items but the scores themselves, in whatever form they come."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from pathlib import Path

import torch

from hpometrics import MetricCollection, Ranking

USERS, ITEMS, FORM, NAME = 2000, 20000, sys.argv[1], sys.argv[2]


def resident(kind):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(kind)).split()[1]) / 1024


def given(rows):
    target = [[row, row + 3000] for row in range(rows)]
    if FORM == "many relevant":
        target = torch.arange(rows + 1) * 100, torch.arange(0, ITEMS, ITEMS // 100).repeat(rows)
    if FORM == "candidates":
        own = {"items": torch.arange(200).repeat(rows, 1), "target": target}
        return {"user_factors": users[:rows], "item_factors": items, **own}
    if FORM in ("factors", "many relevant"):
        return {"user_factors": users[:rows], "item_factors": items, "target": target}
    return {"scores": scores[:rows], "target": target}


torch.set_num_threads(1)
width = 16 if FORM == "factors" else 128
users, items = torch.randn(USERS, width), torch.randn(ITEMS, width)
if FORM.startswith("float"):
    scores = torch.empty(USERS, ITEMS, dtype=getattr(torch, FORM)).copy_(torch.randn(ITEMS))
panel = MetricCollection([NAME], output=Ranking(ITEMS))
panel.update(**given(50))
panel.compute()
before = resident("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
panel.update(**given(USERS))
panel.compute()
print(resident("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("factors", "ndcg@10"),
        ("factors", "log_loss"),
        ("factors", "map"),
        ("many relevant", "mrr"),
        ("candidates", "ndcg@10"),
        ("float16", "ndcg@10"),
        ("float64", "ndcg@10"),
    ],
)
def test_one_update_of_many_users_takes_little_beyond_its_scores(form, name):
    """A float32 matrix of these users and items would take 153 MiB; lists and tiles take a tenth of it.

    The factors of 200,000 relevant items would take 98 MiB, of which a product makes three; those of 400,000
    candidates twice as much.
    """
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, form, name], check=True, capture_output=True, text=True
    )
    assert float(found.stdout) < 60
