"""An estimator, a training function, a plain function, each as an engine: python examples/any_engine.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_wine
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hpometrics import Category, Engine, EngineParams, MetricEvaluator
from hpometrics.evaluation import as_engine

WINES = load_wine(return_X_y=True)  # 178 wines, 13 measurements of each, three growers
Rows = tuple[np.ndarray, np.ndarray]


def neighbors(k: int) -> Any:
    """An estimator of scikit-learn."""
    return make_pipeline(StandardScaler(), KNeighborsClassifier(k))


def fit(training: Rows, params: Mapping[str, Any]) -> Any:
    """A training function of torch: what it returns is called with the queries."""
    x, y = (torch.from_numpy(column) for column in training)
    mean, scale = x.mean(0), x.std(0)
    weights = torch.zeros(x.shape[1] + 1, 3, dtype=x.dtype, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=params["lr"])

    def logits(rows: torch.Tensor) -> torch.Tensor:
        return (rows - mean) / scale @ weights[1:] + weights[0]

    for _ in range(100):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits(x), y).backward()
        optimizer.step()
    return lambda queries: logits(torch.from_numpy(queries)).argmax(1).numpy()


def nearest_mean(training: Rows, queries: np.ndarray, params: Mapping[str, Any]) -> np.ndarray:
    """A plain function, which trains and predicts in one."""
    x, y = training
    scale = x.std(0) ** params["power"]
    means = np.stack([x[y == grower].mean(0) for grower in range(3)])
    distances = np.abs((queries[:, None] - means) / scale).sum(2)
    return distances.argmin(1)


ENGINES: dict[str, tuple[Engine, list[dict[str, Any]]]] = {
    "an estimator": (as_engine(WINES, estimator=neighbors), [{"k": 1}, {"k": 9}]),
    "a training function": (as_engine(WINES, train=fit), [{"lr": 0.001}, {"lr": 0.1}]),
    "a plain function": (as_engine(WINES, function=nearest_mean), [{"power": 0.0}, {"power": 1.0}]),
}


def main() -> None:
    """Judge all of them by one metric, over the same five folds."""
    evaluator = MetricEvaluator("f1(average=macro)", output=Category(3), tell=lambda line: None)
    for name, (engine, candidates) in ENGINES.items():
        result = evaluator.evaluate(engine, [EngineParams(algorithms=params) for params in candidates])
        best = result.best_engine_params.algorithms[0].params
        print(f"{name}: f1(average=macro) {result.best_score:.4f} with {dict(best)}")


if __name__ == "__main__":
    main()
