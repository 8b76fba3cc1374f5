"""The engine of `configs/digit_traits.yaml`: what is true of a handwritten digit, a set output."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from hpometrics import Run, Set, engine

TRAITS = {
    "even": (0, 2, 4, 6, 8),
    "prime": (2, 3, 5, 7),
    "square": (0, 1, 4, 9),
    "above four": (5, 6, 7, 8, 9),
}


@cache
def traits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return 1,437 training and 360 validation images, with traits of each digit: x, y, x_valid, y_valid."""
    x, digit = load_digits(return_X_y=True)
    parts = train_test_split(x / 16.0, digit, test_size=0.2, random_state=0, stratify=digit)
    x_train, x_valid = (torch.tensor(part, dtype=torch.float32) for part in parts[:2])
    table = torch.tensor([[digit in has for has in TRAITS.values()] for digit in range(10)])
    y_train, y_valid = (table[torch.tensor(part)].long() for part in parts[2:])
    return x_train, y_train, x_valid, y_valid


@engine(output=Set(len(TRAITS)))
def train(params: Mapping[str, Any], run: Run) -> None:
    """Train a network with one yes or no per trait; report each epoch."""
    x, y, x_valid, y_valid = traits()
    model = nn.Sequential(nn.Linear(64, params["width"]), nn.ReLU(), nn.Linear(params["width"], len(TRAITS)))
    optimizer = torch.optim.Adam(model.parameters(), lr=params["lr"])
    run.restore(model=model, optimizer=optimizer)
    for _ in run.epochs():
        for rows in torch.randperm(len(x)).split(64):
            loss = nn.functional.binary_cross_entropy_with_logits(model(x[rows]), y[rows].float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            run.update(logits=model(x_valid), target=y_valid)
        run.checkpoint(model=model, optimizer=optimizer)
