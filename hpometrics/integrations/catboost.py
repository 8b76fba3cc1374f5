"""CatBoost callback that reports each boosting round to a run as an epoch."""

from __future__ import annotations

from typing import Any, Self

from ..exceptions import RunError
from ..run.run import Run
from .trainer_loop import TrainerLoop

__all__ = ["RunCallback"]


class RunCallback:
    """Reports the rounds of a CatBoost model: `with RunCallback(run, 500) as callback: model.fit(...)`.

    What CatBoost evaluates is recorded as `validation-AUC` and `learn-Logloss`, and can be optimized:
    `Run(trial, metric=library_metric("validation-AUC"))`. CatBoost passes neither the model nor predictions,
    so the run measures nothing itself. The backend's stop ends the training, and leaves `with` as an
    exception; patience, the target and the spec's `epochs` end it.

    If the run has a directory, pass `**callback.snapshot` to the model. A killed run that starts again then
    continues after its latest snapshot, and reports no recorded round twice.

    Args:
        run: the run to update.
        rounds: the number of boosting rounds, unless the spec has `epochs`.
    """

    def __init__(self, run: Run, rounds: int | None = None) -> None:
        self.run, self._rounds, self._done = run, rounds, -1  # below 0 before `with`
        self._loop = TrainerLoop(
            run, "CatBoost does not expose predictions; use library_metric('validation-AUC')"
        )
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        self._done = self._loop.begin(self._rounds, None)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._loop.leave()
        if self._error is not None and (error is None or isinstance(error, Exception)):
            raise self._error

    @property
    def snapshot(self) -> dict[str, Any]:
        """The arguments of a model that save a snapshot of each round; none without a directory."""
        if (home := self.run.directory) is None:
            return {}
        files = {"train_dir": str(home / "catboost"), "snapshot_file": str(home / "catboost" / "snapshot")}
        return {**files, "save_snapshot": True, "snapshot_interval": 0}

    def monitor(self) -> dict[str, str]:
        """Return the argument `eval_metric` of a CatBoost model: the metric that the run optimizes."""
        return {"eval_metric": self.run.spec.name.partition("-")[2]}

    def after_iteration(self, info: Any) -> bool:
        """Close the epoch; return whether to go on.

        CatBoost would turn an exception into an error of its own, so `with` raises it.

        Raises:
            RunError: the model is not fitted within `with`.
        """
        if self._done < 0:
            raise RunError(
                "the backend stops a trial at the end of a with statement, but this fit is not in one; "
                "write `with RunCallback(run, rounds) as callback: model.fit(..., callbacks=[callback])`"
            )
        try:
            # a snapshot may be ahead of the record
            while self._done < info.iteration and not self._loop.over:
                self._done += 1
                self._loop.start_epoch()
                self._loop.update(None)
                for data, metrics in info.metrics.items():
                    last = {name: values[: self._done][-1] for name, values in metrics.items()}
                    self._loop.log({f"{data}-{name}": value for name, value in last.items()})
                self._loop.end_epoch(self._done, {})
        except BaseException as err:
            self._error = err
            return False
        return not self._loop.over
