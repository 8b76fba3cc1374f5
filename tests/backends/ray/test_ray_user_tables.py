"""Values by user under Ray: the worker of a trial leaves them beside its record, as any other run does."""

from __future__ import annotations

from typing import Any

import pytest

from hpometrics.backends.ray.objective import RayObjective
from hpometrics.metrics.features import Ranking
from hpometrics.metrics.retrieval.per_user import PerUser
from hpometrics.space.dimensions import Choice


def make_train() -> Any:
    """A train function that travels to Ray's workers by value, as a user's script does."""

    def train(params, run):
        """In one epoch user 3 alone gets the relevant item, in all others nobody does."""
        for epoch in run.epochs():
            scores = [[0.0, 1.0], [1.0, 0.0] if epoch == params["good"] else [0.0, 1.0]]
            run.update(scores=scores, target=[[0], [0]], users=[7, 3])

    return train


@pytest.mark.ray
def test_a_worker_leaves_the_values_by_user(ray_cluster, tmp_path):
    """Those of the picked epoch alone, whose mean is the value that Ray was told."""
    facts = {"metric": "precision@1", "output": Ranking(per_user=True), "epochs": 3, "directory": tmp_path}
    objective = RayObjective(make_train(), {"good": Choice([1])}, **facts)
    (record,) = objective.records(objective.tuner(1).fit())
    assert (record.epoch, record.value) == (1, 0.5)
    home = objective.trials.directory_of(record.number)
    assert [path.name for path in home.glob("per_user*")] == ["per_user.csv"]
    users, values = PerUser.read(home / "per_user.csv")["precision@1"]
    assert (users.tolist(), values.tolist()) == ([3, 7], [1.0, 0.0])
