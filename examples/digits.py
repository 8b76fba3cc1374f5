"""The engine of `configs/quickstart.yaml`: a small network on scikit-learn's handwritten digits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from hpometrics import Category, Run, engine


@cache
def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return 1,437 training and 360 validation images of 8 x 8 pixels: x, y, x_valid, y_valid."""
    x, y = load_digits(return_X_y=True)
    parts = train_test_split(x / 16.0, y, test_size=0.2, random_state=0, stratify=y)
    x_train, x_valid = (torch.tensor(part, dtype=torch.float32) for part in parts[:2])
    y_train, y_valid = (torch.tensor(part) for part in parts[2:])
    return x_train, y_train, x_valid, y_valid


@engine(output=Category(10))
def train(params: Mapping[str, Any], run: Run) -> None:
    """Train a network of one hidden layer; report each epoch."""
    x, y, x_valid, y_valid = digits()
    width = params["width"]
    model = nn.Sequential(
        nn.Linear(64, width), nn.ReLU(), nn.Dropout(params["dropout"]), nn.Linear(width, 10)
    )
    optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[params["optimizer"]](
        model.parameters(), lr=params["lr"]
    )
    run.restore(model=model, optimizer=optimizer)
    for _ in run.epochs():
        model.train()
        for rows in torch.randperm(len(x)).split(64):
            loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for images, labels in zip(x_valid.split(128), y_valid.split(128), strict=True):
                run.update(logits=model(images), target=labels)
        run.checkpoint(model=model, optimizer=optimizer)
