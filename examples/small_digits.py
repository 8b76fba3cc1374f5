"""The engine of `configs/small_digits.yaml`: a network on handwritten digits that tells its own size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from examples.digits import digits
from hpometrics import Category, Run, engine


def network(params: Mapping[str, Any]) -> nn.Sequential:
    """Return hidden layers of one width between 64 pixels and 10 digits."""
    width = params["width"]
    inner = [layer for _ in range(params["layers"] - 1) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), *inner, nn.Linear(width, 10))


@engine(output=Category(10))
def train(params: Mapping[str, Any], run: Run) -> None:
    """Train it; report each epoch and, in thousands, how many weights it has."""
    x, y, x_valid, y_valid = digits()
    model = network(params)
    optimizer = torch.optim.Adam(model.parameters(), lr=params["lr"])
    run.restore(model=model, optimizer=optimizer)
    for _ in run.epochs():
        for rows in torch.randperm(len(x)).split(64):
            loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            run.update(logits=model(x_valid), target=y_valid)
        run.log(params_k=sum(weights.numel() for weights in model.parameters()) / 1000)
        run.checkpoint(model=model, optimizer=optimizer)
