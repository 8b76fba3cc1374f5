from __future__ import annotations

from pathlib import Path

import pytest
from ray import tune

from hpometrics import Choice, ListObjective, RayObjective
from hpometrics.evaluation import AverageMetric, Engine, EngineParams, Evaluation, Fold

GUESSES = [{"algorithms.guess": guess} for guess in (0.0, 3.0, "crash", 5.0)]
BASE = EngineParams(algorithms={"guess": 0.0})


def make_evaluation(reads: Path) -> Evaluation:
    """Guesses judged by their distance; each reading of the data is a line with the process in the file."""

    class Guess(Engine):
        def read_eval(self, params):
            import os

            with reads.open("a") as file:
                file.write(f"{os.getpid()}\n")
            return [Fold(None, 0, [("a", 1.0), ("b", 2.0)]), Fold(None, 1, [("c", 6.0)])]

        def train(self, prepared, name, params):
            return params["guess"] + 0.0

        def predict(self, model, queries):
            return [model for _ in queries]

    class Distance(AverageMetric):
        direction = "minimize"

        def calculate(self, query, predicted, actual):
            return abs(predicted - actual)

    return Evaluation(Guess(), Distance())


@pytest.mark.ray
def test_ray_finds_what_a_list_finds(ray_cluster, tmp_path):
    """The same values, folds, failures and best; a process reads the data once for all its trials."""
    reads = tmp_path / "reads"
    listing = ListObjective(make_evaluation(tmp_path / "here").vary(BASE), GUESSES)
    listed = listing.run()
    space = {"algorithms.guess": Choice([0.0, 3.0, "crash", 5.0])}
    objective = RayObjective(make_evaluation(reads).vary(BASE), space, directory=tmp_path / "run")
    tuner = objective.tuner(
        len(GUESSES), points=GUESSES, max_concurrent=1, reuse_actors=True,
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    )  # fmt: skip
    results = tuner.fit()
    for want, got in zip(listed, objective.records(results), strict=True):
        assert (got.params, got.state, got.value) == (want.params, want.state, want.value)
        assert got.picked_values == want.picked_values
        assert got.reason == want.reason
    assert objective.best(results) == listing.best(listed)
    processes = reads.read_text().split()
    assert len(processes) == len(set(processes)) < len(GUESSES)
