"""The engine of `configs/digit_stream.yaml`: digits from an endless stream, which has no epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from hpometrics import Category, Run, engine

from .digits import digits


@engine(output=Category(10))
def train(params: Mapping[str, Any], run: Run) -> None:
    """Train a network of one hidden layer on images that are drawn anew; validate when a report is due."""
    x, y, x_valid, y_valid = digits()
    model = nn.Sequential(nn.Linear(64, params["width"]), nn.ReLU(), nn.Linear(params["width"], 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=params["lr"])
    run.restore(model=model, optimizer=optimizer)
    batch = params["batch"]
    for _ in run.steps(size=batch):
        rows = torch.randint(len(x), (batch,))
        images = x[rows] + params["noise"] * torch.randn(batch, 64)
        loss = nn.functional.cross_entropy(model(images), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.due:
            with torch.no_grad():
                run.update(logits=model(x_valid), target=y_valid)
            run.checkpoint(model=model, optimizer=optimizer)
