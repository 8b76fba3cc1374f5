"""XGBoost callback that reports each boosting round to a run as an epoch."""

from __future__ import annotations

from typing import Any

from ..direction import MAXIMIZE
from ..exceptions import missing_extra
from ..run.run import Run
from .directions import monitor_of
from .trainer_loop import Read, SavedModel, TrainerLoop, default_reader

try:
    from xgboost import Booster
    from xgboost.callback import TrainingCallback
except ImportError as err:
    raise missing_extra("hpometrics.integrations.xgboost", "xgboost", "boosting") from err

__all__ = ["RunCallback"]

_MEASURED = "run"
"""The data that XGBoost's history has the measured values under."""


class RunCallback(TrainingCallback):  # type: ignore[misc]  # its types are not read
    """Reports the rounds of `xgboost.train`, `cv` or a scikit-learn model: `callbacks=[RunCallback(...)]`.

    With `valid` the metrics of the run are measured each round, and stand in XGBoost's history under the data
    `run`. What XGBoost evaluates itself is recorded beside them as `validation-logloss`, and can be
    optimized: `Run(trial, metric=library_metric("validation-logloss"))`. The backend's stop leaves the
    training as an exception; patience, the target and the spec's `epochs` end it. `model.best_iteration` is
    the picked round.

    If the run has a directory, every round writes a checkpoint of the model. A killed run continues after its
    latest one; XGBoost then samples other rows. `cv` keeps none.

    Args:
        run: the run to update.
        rounds: the number of boosting rounds, unless the spec has `epochs`.
        valid: a `DMatrix` with the rows and labels to measure.
        read: see `Read`; by default a classifier gives probabilities, other models predictions.
    """

    def __init__(
        self, run: Run, rounds: int | None = None, valid: Any = None, read: Read | None = None
    ) -> None:
        super().__init__()
        self.run, self._rounds, self._valid, self._read = run, rounds, valid, default_reader(run, read)
        self._loop = TrainerLoop(run, "valid is missing")
        self._earlier = 0

    def monitor(self, name: str | None = None) -> dict[str, Any]:
        """Return the arguments of XGBoost's `EarlyStopping` for a value, by default the optimized one.

        In the list of callbacks it stands after this one.
        """
        name, direction = monitor_of(self.run.spec, name)
        data, _, metric = name.rpartition("-")
        return {"data_name": data or _MEASURED, "metric_name": metric, "maximize": direction is MAXIMIZE}

    def before_training(self, model: Any) -> Any:
        """Start the run, after the latest checkpoint if there is one."""
        self._earlier = model.num_boosted_rounds()
        self._loop.begin(self._rounds, self._objects(model))
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Start an epoch; return whether all are done."""
        self._loop.start_epoch()
        return self._loop.over

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Close the epoch; return whether it was the last one of `cv`, which then cuts its result.

        Any other training ends before the next round, as this answer would keep the last one from the
        callbacks after this one.

        Raises:
            BaseException: the backend's stop.
        """
        for data in [name for name in evals_log if name != _MEASURED]:
            last = {f"{data}-{metric}": values[-1] for metric, values in evals_log[data].items()}
            self._loop.log({name: one[0] if isinstance(one, tuple) else one for name, one in last.items()})
        if self._valid is None:
            self._loop.update(None)
        else:
            self._loop.update(self._read(model.predict(self._valid), self._valid.get_label()))
            history = evals_log.setdefault(_MEASURED, {})
            for name, value in self._loop.measure().items():
                history.setdefault(name, []).append(value)
        self._loop.end_epoch(self._loop.first + epoch + 1, self._objects(model))
        is_last_of_cv = self._loop.over and not isinstance(model, Booster)
        if is_last_of_cv:  # after the best
            self._mark_picked(model)
        return is_last_of_cv

    def after_training(self, model: Any) -> Any:
        """End the loop, and mark the picked round."""
        self._loop.leave()
        self._mark_picked(model)
        return model

    def _mark_picked(self, model: Any) -> None:
        run = self.run
        if run.best_epoch is not None:
            best = self._earlier + run.best_epoch
            model.set_attr(best_iteration=str(best), best_score=str(run.values[run.spec.name]))

    def _objects(self, model: Any) -> dict[str, SavedModel]:
        if not isinstance(model, Booster):  # the folds of `cv`
            return {}
        saved = SavedModel(lambda: bytes(model.save_raw()), lambda raw: model.load_model(bytearray(raw)))
        return {"model": saved}
