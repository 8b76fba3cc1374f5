"""The engine of `configs/digit_halves.yaml`: a digit's lower half from its upper half, a vector output."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from hpometrics import Run, Vector, engine

HALF = 32


@cache
def halves() -> tuple[Tensor, Tensor]:
    """Return 1,437 training and 360 validation images of 8 x 8 pixels in [0, 1], row by row."""
    images, digit = load_digits(return_X_y=True)
    parts = train_test_split(images / 16.0, test_size=0.2, random_state=0, stratify=digit)
    train, valid = (torch.tensor(part, dtype=torch.float32) for part in parts)
    return train, valid


@engine(output=Vector(HALF))
def train(params: Mapping[str, Any], run: Run) -> None:
    """Train a network from 32 pixels to 32 pixels; report each epoch."""
    images, valid = halves()
    model = nn.Sequential(nn.Linear(HALF, params["width"]), nn.ReLU(), nn.Linear(params["width"], HALF))
    optimizer = torch.optim.Adam(model.parameters(), lr=params["lr"])
    run.restore(model=model, optimizer=optimizer)
    for _ in run.epochs():
        for rows in torch.randperm(len(images)).split(64):
            loss = nn.functional.mse_loss(model(images[rows, :HALF]), images[rows, HALF:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            run.update(predictions=model(valid[:, :HALF]), target=valid[:, HALF:])
        run.checkpoint(model=model, optimizer=optimizer)
