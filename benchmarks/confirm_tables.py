"""Tables of small networks trained under many seeds, from which `confirm.py` draws its searches.

All networks of a configuration are trained at once, by a batched product over the seeds. A seed decides the
first weights, the order of the rows and what is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits

EPOCHS, KEPT = 10, 8


class Config(NamedTuple):
    """The params of a network."""

    lr: float
    width: int
    dropout: float
    decay: float
    adam: bool
    batch: int


@dataclass(frozen=True)
class Table:
    """The values of all rows of a pool, by configuration, seed and epoch; larger is better."""

    name: str
    rows: np.ndarray
    """(configurations, seeds, epochs, rows) float32, the row values of the metric."""
    scale: str
    """Of the metric: `logit` for a share, `log` for a loss."""
    sign: float = 1.0
    """-1 for a loss, whose row values are stored negated."""


def draw_configs(count: int) -> list[Config]:
    """Draw the params of some networks."""
    random = np.random.default_rng(1)
    configs = []
    for _ in range(count):
        adam = bool(random.random() < 0.5)
        lr = 10 ** random.uniform(-3.3, -0.7) / (10 if adam else 1)
        width, dropout = int(random.integers(8, 97)), float(random.uniform(0, 0.5))
        decay, batch = 10 ** random.uniform(-6, -2), int(random.choice([16, 32, 64]))
        configs.append(Config(lr, width, dropout, decay, adam, batch))
    return configs


def digits(configs: int = 100, seeds: int = 30) -> Table:
    """Whether each of 1,200 digits is right, by networks trained on 400 others."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:1600]
    x, y = torch.tensor(x[order] / 16, dtype=torch.float32), torch.tensor(y[order])
    rows = []
    for number, config in enumerate(draw_configs(configs)):
        logits = _trained(config, number, seeds, x[:400], y[:400], x[400:], 10)
        rows.append((logits.argmax(-1) == y[400:]).float().numpy())
    return Table("digits, accuracy", np.stack(rows), "logit")


def breast_cancer(configs: int = 60, seeds: int = 24) -> list[Table]:
    """Accuracy, Brier score and log loss of 419 patients, by networks trained on 150 others."""
    x, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    x = (x - x[order[:150]].mean(0)) / x[order[:150]].std(0)
    x, y = torch.tensor(x[order], dtype=torch.float32), torch.tensor(y[order])
    truth = y[150:].float()
    rows: dict[str, list[np.ndarray]] = {"accuracy": [], "Brier": [], "log loss": []}
    for number, config in enumerate(draw_configs(configs)):
        logits = _trained(config, number, seeds, x[:150], y[:150], x[150:], 2)
        margin = (logits[..., 1] - logits[..., 0]).double()
        chance = margin.sigmoid()
        rows["accuracy"].append(((margin > 0) == (truth > 0)).float().numpy())
        rows["Brier"].append(-(chance - truth).square().float().numpy())
        loss = torch.nn.functional.softplus(torch.where(truth > 0, -margin, margin))
        rows["log loss"].append(-loss.float().numpy())
    return [
        Table(f"breast cancer, {name}", np.stack(each), "logit" if name != "log loss" else "log", sign)
        for (name, each), sign in zip(rows.items(), (1.0, -1.0, -1.0), strict=True)
    ]


def _trained(
    config: Config,
    number: int,
    seeds: int,
    x: torch.Tensor,
    y: torch.Tensor,
    pool: torch.Tensor,
    classes: int,
) -> torch.Tensor:
    """Train a configuration under every seed; return (seeds, kept epochs, pool, classes) logits."""
    random = torch.Generator().manual_seed(1000 + number)
    shapes = [(seeds, x.shape[1], config.width), (seeds, 1, config.width)]
    shapes += [(seeds, config.width, classes), (seeds, 1, classes)]
    params = []
    for shape, inputs in zip(shapes, (x.shape[1], x.shape[1], config.width, config.width), strict=True):
        bound = inputs**-0.5
        params.append((torch.rand(shape, generator=random) * 2 * bound - bound).requires_grad_())
    optimizer: torch.optim.Optimizer = (
        torch.optim.Adam(params, lr=config.lr, weight_decay=config.decay)
        if config.adam
        else torch.optim.SGD(params, lr=config.lr, weight_decay=config.decay, momentum=0.9)
    )
    kept = []
    for epoch in range(EPOCHS):
        order = torch.rand((seeds, len(x)), generator=random).argsort(dim=1)
        for start in range(0, len(x), config.batch):
            at = order[:, start : start + config.batch]
            hidden = torch.relu(torch.baddbmm(params[1], x[at], params[0]))
            keep = torch.rand(hidden.shape, generator=random) >= config.dropout
            logits = torch.baddbmm(params[3], hidden * keep / (1 - config.dropout), params[2])
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y[at].flatten(), reduction="sum")
            optimizer.zero_grad()
            torch.autograd.backward(
                loss / at.shape[1]
            )  # the mean of each network; networks share no parameter
            optimizer.step()
        if epoch >= EPOCHS - KEPT:
            with torch.no_grad():
                hidden = torch.relu(pool @ params[0] + params[1])
                kept.append(hidden @ params[2] + params[3])
    return torch.stack(kept, dim=1).detach()
