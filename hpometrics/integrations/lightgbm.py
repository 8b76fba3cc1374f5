"""LightGBM callback that reports each boosting round to a run as an epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..direction import MAXIMIZE, MINIMIZE
from ..exceptions import DirectionError, RunError, missing_extra
from ..metrics.registry.scope import direction_problem
from ..run.run import Run
from .trainer_loop import Read, SavedModel, TrainerLoop, default_reader

try:
    from lightgbm import Booster
    from lightgbm.callback import EarlyStopException
except ImportError as err:
    raise missing_extra("hpometrics.integrations.lightgbm", "lightgbm", "boosting") from err

__all__ = ["RunCallback"]


class RunCallback:
    """Reports the rounds of `lightgbm.train`, `cv` or a scikit-learn model: `callbacks=[callback]`.

    Pass `feval=callback.feval`, or `eval_metric=callback.feval` to a scikit-learn model. The run then
    measures its metrics on each round's predictions, and LightGBM has their values and directions. What it
    evaluates itself is recorded beside them as `valid_0-auc`, and can be optimized: `Run(trial,
    metric=library_metric("valid_0-auc"))`. The backend's stop leaves the training as an exception; patience,
    the target and the spec's `epochs` end it. `booster.best_iteration` is the picked round.

    If the run has a directory, every round writes a checkpoint of the model. With
    `init_model=callback.init_model`, a killed run continues after its latest one. `cv` keeps none.

    Args:
        run: the run to update.
        rounds: the number of boosting rounds, unless the spec has `epochs`.
        valid: the `Dataset` to measure, if there are several; the others are measured beside the run.
        read: see `Read`; by default a classifier gives probabilities, other models predictions.
    """

    def __init__(
        self, run: Run, rounds: int | None = None, valid: Any = None, read: Read | None = None
    ) -> None:
        self.order, self.before_iteration = 25, False  # after what records a round, before early stopping
        self.run, self._rounds, self._valid, self._read = run, rounds, valid, default_reader(run, read)
        self._loop = TrainerLoop(run, "feval=callback.feval is missing")
        self._measured: dict[str, float] = {}  # in this round
        self._done: int | None = None  # rounds; None before the loop begins
        self._model: Any = None
        self._best_results: Any = []

    @property
    def init_model(self) -> Any:
        """The model of the latest checkpoint, to continue with; None if there is none."""
        self._begin()
        return self._model

    @property
    def feval(self) -> Callable[[Any, Any], list[tuple[str, float, bool]]]:
        """The function that measures a round: it returns the name, value and direction of each metric.

        `lightgbm.train` calls it with predictions and a `Dataset`, a scikit-learn model with target and
        predictions.
        """
        return lambda first, second: self._measure(first, second)  # LightGBM copies a method with its object

    def _measure(self, first: Any, second: Any) -> list[tuple[str, float, bool]]:
        is_dataset = hasattr(second, "get_label")
        outputs = self._read(*((first, second.get_label()) if is_dataset else (second, first)))
        if self._valid is not None and second is not self._valid:
            beside = TrainerLoop(self.run)  # has no epoch that could count
            beside.update(outputs)
            return self._directed(beside.measure())
        if self._measured:
            raise RunError(
                "a run measures one data set, but LightGBM evaluates several; pass the Dataset to measure "
                "as valid=, or a single eval_set"
            )
        self._begin()
        self._loop.update(outputs)
        self._measured = self._loop.measure()
        return self._directed(self._measured)

    def __call__(self, env: Any) -> None:
        """Close the epoch after a round.

        Raises:
            DirectionError: LightGBM optimizes its metric in another direction than the run.
            RunError: the run goes on after its latest checkpoint, and the training does not.
            EarlyStopException: the epoch was the last.
            BaseException: the backend's stop.
        """
        self._begin()
        if env.iteration == env.begin_iteration < (self._done or 0):
            raise RunError(
                f"the run continues after round {self._done}, but the training starts from scratch; pass "
                "init_model=callback.init_model"
            )
        self._model, results = env.model, env.evaluation_result_list or []
        for data, metric, value, greater, *_ in results:
            name = f"{data}-{metric}"
            stated = MAXIMIZE if greater else MINIMIZE
            if problem := direction_problem(name, self.run.spec.optimized.get(name), stated, "LightGBM"):
                raise DirectionError(problem)
            if metric not in self._measured:
                self._loop.log({name: value})
        if not self._measured:
            self._loop.update(None)
        count = self._done = (self._done or 0) + 1
        if not self._loop.over:
            self._loop.end_epoch(count, self._objects())
        if self.run.best_epoch == count - 1:
            self._best_results = results
        self._measured = {}
        if self._loop.over:
            earlier = env.iteration + 1 - count  # of a model that the training continues
            raise EarlyStopException(earlier + (self.run.best_epoch or 0), self._best_results)
        self._loop.start_epoch()

    def _begin(self) -> None:
        if self._done is None:
            self._done = self._loop.begin(self._rounds, self._objects())
            self._loop.start_epoch()

    def _objects(self) -> dict[str, SavedModel]:
        def load(text: str) -> None:
            self._model = Booster(model_str=text)

        if self._model is not None and not isinstance(self._model, Booster):  # the folds of `cv`
            return {}
        return {"model": SavedModel(lambda: self._model.model_to_string(num_iteration=-1), load)}

    def _directed(self, values: Mapping[str, float]) -> list[tuple[str, float, bool]]:
        directions = self.run.spec.directions
        return [
            (name, value, directions[name] is MAXIMIZE)
            for name, value in values.items()
            if name in directions
        ]
