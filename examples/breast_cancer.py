"""The engines of `configs/breast_cancer.yaml` and `engines.yaml`: a linear model and boosted trees."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from hpometrics import Binary, Run, engine


@cache
def tumours() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return 426 training and 143 validation rows of 30 measures, scaled: x, y, x_valid, y_valid."""
    x, y = load_breast_cancer(return_X_y=True)
    x, x_valid, y, y_valid = (torch.tensor(p) for p in train_test_split(x, y, random_state=0, stratify=y))
    mean, deviation = x.mean(0), x.std(0)
    return ((x - mean) / deviation).float(), y, ((x_valid - mean) / deviation).float(), y_valid


@engine(output=Binary())
def train(params: Mapping[str, Any], run: Run) -> None:
    """Fit a weight per measure; report each epoch."""
    x, y, x_valid, y_valid = tumours()
    model = nn.Linear(30, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=params["lr"], weight_decay=params["weight_decay"])
    run.restore(model=model, optimizer=optimizer)
    for _ in run.epochs():
        for rows in torch.randperm(len(x)).split(params["batch_size"]):
            loss = nn.functional.binary_cross_entropy_with_logits(model(x[rows]).squeeze(1), y[rows].float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            run.update(logits=model(x_valid).squeeze(1), target=y_valid)
        run.checkpoint(model=model, optimizer=optimizer)


@engine(output=Binary())
def boost(params: Mapping[str, Any], run: Run) -> None:
    """Boost trees, ten more in each epoch; report each epoch."""
    x, y, x_valid, y_valid = tumours()
    settings = {"max_depth": params["depth"], "learning_rate": params["rate"], "random_state": run.seed}
    model = GradientBoostingClassifier(**settings, subsample=0.5, warm_start=True)
    for epoch in run.epochs():
        model.set_params(n_estimators=10 * (epoch + 1)).fit(x, y)
        run.update(probabilities=model.predict_proba(x_valid)[:, 1], target=y_valid)
