"""The engine of `configs/forecast.yaml`: the next year of monthly series, a timeseries output."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from hpometrics import Run, Timeseries, engine

YEAR, HISTORY, SERIES = 12, 48, 600


@cache
def series() -> tuple[Tensor, Tensor]:
    """Draw 400 training and 200 validation series of five years.

    A series is a level in [5, 20], a slope of up to 0.1 a month, a yearly wave of amplitude up to 3 with its
    own phase, and noise that keeps 0.7 of last month's: e(t) = 0.7 e(t - 1) + N(0, 0.3).
    """
    random = torch.Generator().manual_seed(0)
    level, slope, height, phase = torch.rand(4, SERIES, 1, generator=random)
    month = torch.arange(HISTORY + YEAR)
    wave = 3 * height * torch.sin(2 * math.pi * (month / YEAR + phase))
    noise = 0.3 * torch.randn(SERIES, HISTORY + YEAR, generator=random)
    for t in range(1, HISTORY + YEAR):
        noise[:, t] += 0.7 * noise[:, t - 1]
    values = 5 + 15 * level + 0.1 * (2 * slope - 1) * month + wave + noise
    return values[:400], values[400:]


@engine(output=Timeseries(YEAR))
def train(params: Mapping[str, Any], run: Run) -> None:
    """Train a network on series shifted to end at 0; report each epoch."""
    values, valid = series()
    hidden = params["width"]
    model = nn.Sequential(nn.Linear(HISTORY, hidden), nn.ReLU(), nn.Linear(hidden, YEAR))
    optimizer = torch.optim.Adam(model.parameters(), lr=params["lr"], weight_decay=params["weight_decay"])
    run.restore(model=model, optimizer=optimizer)
    for _ in run.epochs():
        for rows in torch.randperm(len(values)).split(50):
            past, future = values[rows, :HISTORY], values[rows, HISTORY:]
            loss = nn.functional.l1_loss(model(past - past[:, -1:]) + past[:, -1:], future)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        past, future = valid[:, :HISTORY], valid[:, HISTORY:]
        with torch.no_grad():
            run.update(predictions=model(past - past[:, -1:]) + past[:, -1:], target=future, history=past)
        run.checkpoint(model=model, optimizer=optimizer)
