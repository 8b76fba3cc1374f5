"""A small network that tells points inside of a ring from those outside of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from hpometrics import Binary, Run, engine


def points(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw points of the plane and whether each lies inside of the ring. Put your own data here."""
    x = torch.randn(count, 2, generator=torch.Generator().manual_seed(seed))
    return x, (x.norm(dim=1) < 1.2).long()


@engine(output=Binary())
def train(params: Mapping[str, Any], run: Run) -> None:
    """Train with the params of one trial; every epoch is measured and reported."""
    x, y = points(1_000, seed=0)
    x_valid, y_valid = points(500, seed=1)
    model = nn.Sequential(nn.Linear(2, params["width"]), nn.ReLU(), nn.Linear(params["width"], 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=params["lr"])
    run.restore(model=model, optimizer=optimizer)  # does nothing on a fresh run; resumes after a kill
    for _ in run.epochs():  # as many as the sweep file says, fewer if the trial is stopped early
        for rows in torch.randperm(len(x)).split(64):
            loss = nn.functional.binary_cross_entropy_with_logits(model(x[rows])[:, 0], y[rows].float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            run.update(logits=model(x_valid)[:, 0], target=y_valid)  # any number of batches
        run.checkpoint(model=model, optimizer=optimizer)
