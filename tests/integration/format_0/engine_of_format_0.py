"""The engine of these sweeps and evaluations.

It counts in whole numbers and binary fractions, so that its areas and shares are the same on every machine.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import ClassVar

import torch
from torch import nn

from hpometrics import MINIMIZE, Binary, Engine, EngineParams, Evaluation, engine
from hpometrics.evaluation import AverageMetric, Fold


@engine(output=Binary())
def train(params, run):
    """Move a weight at random; kill the process where `KILL_AT` says, at an epoch of the second trial."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=params["lr"], momentum=0.5)
    run.restore(model=model, optimizer=optimizer)
    target = torch.arange(16) % 2
    for epoch in run.epochs():
        if os.environ.get("KILL_AT") == str(epoch) and len(list(Path("runs/killed/trials").iterdir())) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        model.weight.grad = torch.tensor([[random.randrange(-64, 0) / 64]])
        optimizer.step()
        noise = torch.tensor([random.randrange(-64, 64) / 16 for _ in range(16)])
        run.update(logits=model.weight[0].detach() * (2 * target - 1) + noise, target=target)
        run.log(cost=random.randrange(64) / 64)
        run.checkpoint(model=model, optimizer=optimizer)


class Answers:
    """One fold of five queries, whose answers are 0 to 4."""

    def __init__(self, params):
        """Read no params."""

    def read_eval(self):
        """Return the fold."""
        return [Fold(None, 0, [(query, float(query)) for query in range(5)])]


class Constant:
    """The same guess for every query."""

    def __init__(self, params):
        """Read the guess."""
        self.guess = params["guess"]

    def train(self, prepared):
        """Return the guess."""
        return self.guess

    def predict(self, model, queries):
        """Return the guess for each query."""
        return [model for _ in queries]


class Guesser(Engine):
    """An engine that guesses."""

    data_sources: ClassVar = {"": Answers}
    algorithms: ClassVar = {"constant": Constant}


class SquaredError(AverageMetric):
    """The squared distance of the guess from the answer."""

    objective = MINIMIZE

    def calculate(self, query, predicted, actual):
        """Return it for one query."""
        return (predicted - actual) ** 2


class GuessEvaluation(Evaluation):
    """Two guesses and their metric."""

    engine_metric = (Guesser, SquaredError())
    engine_params_list: ClassVar = [
        EngineParams(algorithms=[("constant", {"guess": guess})]) for guess in (1.0, 2.5)
    ]
