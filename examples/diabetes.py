"""The engine of `configs/diabetes.yaml`: boosted trees on the diabetes data, a number as output.

No torch in it: predictions are arrays, an epoch is a block of ten trees.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.model_selection import train_test_split

from hpometrics import Number, Run, engine

TREES_PER_EPOCH = 10


@engine(output=Number())
def train(params: Mapping[str, Any], run: Run) -> None:
    """Add ten trees per epoch; report after each ten."""
    x, y = load_diabetes(return_X_y=True)
    x, x_valid, y, y_valid = train_test_split(x, y, random_state=0)
    model = GradientBoostingRegressor(**params, n_estimators=0, warm_start=True, random_state=run.seed)
    for _ in run.epochs():
        model.n_estimators += TREES_PER_EPOCH
        model.fit(x, y)
        run.update(predictions=model.predict(x_valid), target=y_valid)
