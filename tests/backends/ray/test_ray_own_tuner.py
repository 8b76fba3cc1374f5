"""A Tuner of one's own on Ray: its checkpoints, its directions, and the pick of its results."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas
import pytest
from foreign_files import tune_state_since
from forked import Forked
from matrix import EXHAUSTIVE
from ray import tune
from ray.tune.schedulers import AsyncHyperBandScheduler, MedianStoppingRule, ResourceChangingScheduler
from ray.tune.search import ConcurrencyLimiter, Searcher

from hpometrics.backends.ray.objective import RayObjective
from hpometrics.backends.ray.own_tuner import best_result, tune_config
from hpometrics.backends.ray.reporter import TuneReporter
from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import DirectionError, RecordError, RunError
from hpometrics.run import Reported, Run
from hpometrics.run.checkpoint import load_checkpoint
from hpometrics.space.dimensions import Choice

LOSS = Reported("loss", MINIMIZE)
LOSSES = (0.5, 0.2, 0.2, 0.3)
EPOCHS = len(LOSSES)


def make_train() -> Any:
    """A train function that travels to Ray's workers by value, as a user's script does."""

    class Steps:
        """What the trainable has learned: how many epochs it has trained."""

        def __init__(self) -> None:
            self.done = 0

        def state_dict(self):
            return {"done": self.done}

        def load_state_dict(self, state):
            self.done = state["done"]

    def train(config: dict[str, Any], run: Any) -> None:
        """Note each epoch, and hang or fail in the third while the file `hold` or `fail` is there."""
        folder, steps = Path(config["folder"]), Steps()
        run.restore(steps=steps)
        for epoch in run.epochs():
            with (folder / "ledger").open("a") as ledger:
                ledger.write(json.dumps([config["level"], epoch]) + "\n")
            while epoch == 2 and (folder / "hold").exists():
                signal.pause()
            if epoch == 2 and (folder / "fail").exists():
                (folder / "fail").unlink()
                raise RuntimeError("out of luck")
            run.log(loss=config["level"] + LOSSES[steps.done])
            steps.done += 1
            if config["kept"]:
                run.checkpoint(steps=steps)

    return train


def make_trainable() -> Any:
    """A trainable as a user writes it."""
    train = make_train()

    def trainable(config: dict[str, Any]) -> None:
        """Train; the reports go to Tune."""
        train(config, Run(TuneReporter(), metric=Reported("loss", MINIMIZE), epochs=EPOCHS))

    return trainable


def make_objective(folder: Path, **facts: Any) -> RayObjective:
    """The same search as an objective without a directory."""
    space = {"level": Choice([0, 1]), "folder": str(folder), "kept": True}
    return RayObjective(make_train(), space, metric=LOSS, epochs=EPOCHS, **facts)


def fit_objective(folder: Path, objective: RayObjective | None = None, **settings: Any) -> tune.ResultGrid:
    """Fit the same trials."""
    tuner = (objective or make_objective(folder)).tuner(
        2,
        points=[{"level": 0}, {"level": 1}],
        max_concurrent=1,
        run_config=tune.RunConfig(name="own", storage_path=str(folder), verbose=0, **settings),
    )
    return tuner.fit()


def make_tuner(folder: Path, kept: bool = True, config: tune.TuneConfig | None = None) -> tune.Tuner:
    """A Tuner as a user writes it."""
    usual = tune.TuneConfig(metric="loss", mode="min", max_concurrent_trials=1)
    return tune.Tuner(
        make_trainable(),
        param_space={"level": tune.grid_search([0, 1]), "folder": str(folder), "kept": kept},
        tune_config=config or usual,
        run_config=tune.RunConfig(name="own", storage_path=str(folder), verbose=0),
    )


def fit(address: str, folder: str, kind: str) -> None:
    """Fit in a process of its own."""
    import ray

    os.environ["TUNE_GLOBAL_CHECKPOINT_S"] = "0"  # Tune writes its state at once, not every ten seconds
    ray.init(address, log_to_driver=False)
    fit_objective(Path(folder)) if kind == "objective" else make_tuner(Path(folder)).fit()


def ledger(folder: Path) -> list[tuple[int, int]]:
    """The epochs that were trained: level, epoch."""
    path = folder / "ledger"
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def test_the_picked_epoch_has_its_own_number_and_values():
    """Of a run that validates every second epoch, whose other epochs are not in its reports."""
    reports = pandas.DataFrame([{"epochs": 2, "loss": 0.5}, {"epochs": 4, "loss": 0.2}])
    result = SimpleNamespace(metrics_dataframe=reports, config={}, error=None, best_checkpoints=None)
    best = best_result([result], LOSS)
    assert (best.value, best.epoch, best.values) == (0.2, 3, {"loss": 0.2})


@pytest.mark.ray
@pytest.mark.parametrize("kind", ["tuner", "objective"])
def test_a_killed_tuner_is_restored_at_its_epoch(ray_cluster, tmp_path, kind):
    """No epoch that has a checkpoint is trained again; the epoch in which the driver was killed is."""
    (tmp_path / "hold").touch()
    driver = Forked(tmp_path, fit, ray_cluster, str(tmp_path), kind, prints=tmp_path)
    assert driver.waits_for(lambda: (0, 2) in ledger(tmp_path)), (tmp_path / "err").read_text()
    assert driver.killed_when(lambda: tune_state_since(tmp_path / "ledger", tmp_path / "own"))
    (tmp_path / "hold").unlink()
    if kind == "objective":
        restored = make_objective(tmp_path).restore(tmp_path / "own")
    else:
        restored = tune.Tuner.restore(str(tmp_path / "own"), make_trainable(), resume_unfinished=True)
    results = restored.fit()
    assert [result.error for result in results] == [None] * len(results)
    begun = 1 if kind == "objective" else 2  # the params of the next trial were in the study of the driver
    first = [(0, epoch) for epoch in (0, 1, 2, 2, 3)]
    assert ledger(tmp_path) == [*first, *((1, epoch) for epoch in range(EPOCHS))][: 5 + EPOCHS * (begun - 1)]
    assert [result.metrics["picked"] for result in results] == [0.2, 1.2][:begun]
    assert [result.metrics["training_iteration"] for result in results] == [EPOCHS, EPOCHS][:begun]
    best = best_result(results, LOSS)
    assert (best.value, best.epoch, best.params["level"]) == (0.2, 1, 0)
    assert load_checkpoint(best.checkpoint)["states"]["steps"] == {"done": 2}


def test_a_state_that_was_cut_off_is_not_restored(tmp_path):
    """Tune would begin again with no trial, and say so in its log alone."""
    newest = tmp_path / "experiment_state-2026-11-30_12-56-07.json"
    newest.touch()
    with pytest.raises(RecordError, match=f"{newest}: Tune was killed while it wrote .*; start the search"):
        make_objective(tmp_path).restore(tmp_path)
    (tmp_path / "experiment_state-2026-11-30_12-00-00.json").write_text("{}")
    with pytest.raises(RecordError, match="; remove it to restore the state before it"):
        make_objective(tmp_path).restore(tmp_path)


@pytest.mark.ray
def test_a_failed_trial_of_an_objective_goes_on_at_its_epoch(ray_cluster, tmp_path):
    """Tune tries it again, after its last checkpoint; the study has each epoch once, the best its state."""
    (tmp_path / "fail").touch()
    objective = make_objective(tmp_path)
    results = fit_objective(tmp_path, objective, failure_config=tune.FailureConfig(max_failures=1))
    assert ledger(tmp_path)[:5] == [(0, epoch) for epoch in (0, 1, 2, 2, 3)]
    assert [list(trial.intermediate_values.values()) for trial in objective.study.trials] == [
        list(LOSSES),
        [1 + loss for loss in LOSSES],
    ]
    best = objective.best(results)
    assert (best.trial, best.value, best.epoch) == (0, 0.2, 1)
    assert load_checkpoint(best.checkpoint)["states"]["steps"] == {"done": 2}


@pytest.mark.ray
@pytest.mark.parametrize(
    ("keep", "kept"),
    [("best", [1, 3]), pytest.param("last", [3], marks=EXHAUSTIVE), ("all", [0, 1, 2, 3]), ("none", [])],
)
def test_tune_keeps_the_checkpoints_of_an_objective_that_are_to_be_kept(ray_cluster, tmp_path, keep, kept):
    """The picked one is the earliest of equal ones."""
    objective = make_objective(tmp_path, checkpoints=keep)
    config = objective._run_config(None, None).checkpoint_config
    for result in fit_objective(tmp_path, objective, checkpoint_config=config):
        names = sorted(path.name for path in Path(result.path).rglob("epoch-*.pt"))
        assert names == [f"epoch-{epoch:04d}.pt" for epoch in kept]


@pytest.mark.ray
@pytest.mark.parametrize("kept", [True, False])
def test_the_results_have_the_checkpoint_of_each_epoch(ray_cluster, tmp_path, kept):
    """The picked epoch has the state at its end; where train gives no state, there is no checkpoint."""
    for result in make_tuner(tmp_path, kept).fit():
        if not kept:
            assert result.checkpoint is None
            continue
        best = result.get_best_checkpoint("loss", "min")
        with best.as_directory() as folder:
            assert load_checkpoint(Path(folder) / "epoch-0001.pt")["states"]["steps"] == {"done": 2}
        assert sorted(os.listdir(result.checkpoint.path)) == ["epoch-0003.pt", "epochs.jsonl"]


def make_searcher(**direction: str) -> Searcher:
    """A searcher that travels by value."""

    class Constant(Searcher):
        def suggest(self, trial_id):
            return {"level": 0, "folder": ".", "kept": False}

        def on_trial_complete(self, trial_id, result=None, error=False):
            """Learn nothing."""

        def save(self, checkpoint_path):
            """Keep nothing."""

        def restore(self, checkpoint_path):
            """Read nothing."""

    return Constant(**direction)


WRONG = {"metric": "loss", "mode": "max"}


@pytest.mark.ray
@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        (WRONG, "TuneConfig"),
        pytest.param(
            {**WRONG, "scheduler": AsyncHyperBandScheduler(max_t=4)}, "TuneConfig", marks=EXHAUSTIVE
        ),
        ({"scheduler": AsyncHyperBandScheduler(**WRONG)}, "AsyncHyperBandScheduler"),
        pytest.param({"scheduler": MedianStoppingRule(**WRONG)}, "MedianStoppingRule", marks=EXHAUSTIVE),
        pytest.param({"metric": "picked", "mode": "max"}, "TuneConfig", marks=EXHAUSTIVE),
        pytest.param({"search_alg": make_searcher(**WRONG)}, "Constant", marks=EXHAUSTIVE),
        ({"search_alg": ConcurrencyLimiter(make_searcher(**WRONG), 1)}, "Constant"),
        (
            {"scheduler": ResourceChangingScheduler(AsyncHyperBandScheduler(**WRONG))},
            "AsyncHyperBandScheduler",
        ),
    ],
    ids=[
        *("settings", "settings and scheduler", "asha", "median", "picked", "searcher", "limited searcher"),
        "wrapped asha",
    ],
)
def test_a_tuner_of_your_own_with_the_wrong_mode_is_refused(ray_cluster, tmp_path, settings, wrong):
    """Before the first epoch, with both facts: what is wrong, and the direction of the metric."""
    space = {} if "search_alg" in settings else {"level": 0, "folder": str(tmp_path), "kept": False}
    run_config = tune.RunConfig(name="own", storage_path=str(tmp_path), verbose=0)
    config = tune.TuneConfig(**settings)
    (result,) = tune.Tuner(
        make_trainable(), param_space=space, tune_config=config, run_config=run_config
    ).fit()
    assert f"loss must be minimized, but the {wrong} has mode='max'" in str(result.error)
    assert ledger(tmp_path) == []


def make_measuring() -> Any:
    """A trainable that measures more than it optimizes."""

    def trainable(config: dict[str, Any]) -> None:
        """Measure one epoch; the reports go to Tune."""
        facts = {"metric": "roc_auc", "output": "binary", "track": ["brier", "ece"]}
        run = Run(TuneReporter(), epochs=1, constraints=["mcc >= -1"], **facts)
        for _ in run.epochs():
            batch = {"probabilities": [0.2, 0.8, 0.3], "target": [0, 1, 1]}
            run.update(**batch, task=config["task"])

    return trainable


@pytest.mark.ray
@pytest.mark.parametrize(
    ("key", "wrong", "word"),
    [
        ("brier", "max", "minimized"),
        pytest.param("log_loss", "max", "minimized", marks=EXHAUSTIVE),
        pytest.param("mcc", "min", "maximized", marks=EXHAUSTIVE),
        ("a/ece", "max", "minimized"),
    ],
    ids=["tracked", "default", "bounded", "of a task"],
)
def test_a_tuner_by_a_tracked_metric_with_the_wrong_mode_is_refused(ray_cluster, tmp_path, key, wrong, word):
    """A value that is not optimized has a direction too; with the other mode the trial runs."""
    for mode in ("min", "max"):
        (result,) = tune.Tuner(
            make_measuring(),
            param_space={"task": "a" if "/" in key else None},
            tune_config=tune.TuneConfig(metric=key, mode=mode),
            run_config=tune.RunConfig(name=mode, storage_path=str(tmp_path), verbose=0),
        ).fit()
        name = key.removeprefix("a/")
        said = f"{name} must be {word}, but the TuneConfig has mode='{mode}' for '{key}'"
        assert said in str(result.error) if mode == wrong else result.error is None


@pytest.mark.ray
def test_the_best_of_your_own_tuner_is_its_best_epoch(ray_cluster, tmp_path, monkeypatch):
    """Settings from the metric; the pick has the value, params and checkpoint of the best epoch."""
    monkeypatch.delenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", raising=False)  # as in a process of its own
    loss = Reported("loss", MINIMIZE)
    config = tune_config(loss, scheduler="median", epochs=EPOCHS, max_concurrent_trials=1)
    results = make_tuner(tmp_path, config=config).fit()
    best = best_result(results, loss)
    assert (best.trial, best.value, best.epoch, best.params["level"]) == (0, 0.2, 1, 0)
    assert load_checkpoint(best.checkpoint)["states"]["steps"] == {"done": 2}
    assert results.get_best_result().config["level"] == 0
    assert best_result(results, loss, at="last").value == LOSSES[-1]
    table = results.get_dataframe().sort_values("config/level")
    assert list(table["picked_epoch"]) == [1, 1] and list(table["epoch"]) == [EPOCHS - 1] * 2
    assert table["loss"].iloc[0] == LOSSES[-1]
    with pytest.raises(
        RunError, match="the trials did not report los; they reported loss; did you mean 'loss'"
    ):
        best_result(results, Reported("los", MINIMIZE))


def make_striding() -> Any:
    """A trainable that counts steps."""

    def trainable(config: dict[str, Any]) -> None:
        """Make a report after every second of nine steps, and after the last."""
        run = Run(TuneReporter(), metric=Reported("loss", MINIMIZE), steps=9, every=2)
        for step in run.steps():
            if run.due:
                run.log(loss=config["level"] + abs(step - 5))

    return trainable


@pytest.mark.ray
def test_a_scheduler_of_your_own_may_count_steps(ray_cluster, tmp_path, monkeypatch):
    """The worse trial is stopped at the rung of step 4, the better one goes to its end."""
    monkeypatch.delenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", raising=False)  # as in a process of its own
    halving = AsyncHyperBandScheduler(time_attr="step", max_t=9, grace_period=4, reduction_factor=2)
    results = tune.Tuner(
        make_striding(),
        param_space={"level": tune.grid_search([0, 1])},
        tune_config=tune_config(LOSS, scheduler=halving, max_concurrent_trials=1),
        run_config=tune.RunConfig(name="own", storage_path=str(tmp_path), verbose=0),
    ).fit()
    assert [result.metrics["step"] for result in results] == [9, 4]
    best = best_result(results, LOSS)
    assert (best.value, best.epoch, best.step) == (0, 2, 6)


def test_settings_that_contradict_the_metric_are_refused():
    """A mode beside the metric's, and several metrics, which a Tuner cannot have."""
    loss = Reported("loss", MINIMIZE)
    with pytest.raises(DirectionError, match="loss must be minimized; leave mode='max' out"):
        tune_config(loss, mode="max")
    with pytest.raises(DirectionError, match="but the AsyncHyperBandScheduler has mode='max'"):
        tune_config(loss, scheduler=AsyncHyperBandScheduler(mode="max"))
    with pytest.raises(DirectionError, match="a Tuner needs exactly one metric, got loss, size"):
        tune_config([loss, Reported("size", MINIMIZE)])
