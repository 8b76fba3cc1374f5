"""Callback for fastai that reports the epochs of `fit` to a run, as a loop over `run.epochs()` does."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from ..direction import MAXIMIZE
from ..exceptions import RunError, missing_extra
from ..run.run import Run
from .directions import check_watcher, monitor_of
from .trainer_loop import Objects, Read, SavedModel, TrainerLoop, as_reader

try:
    from fastai import basics as fastai
except ImportError as err:
    raise missing_extra("hpometrics.integrations.fastai", "fastai", extra=None) from err

__all__ = ["RunCallback"]


class RunCallback(fastai.Callback):  # type: ignore[misc]  # its types are not read
    """Measures the validation of each epoch: `learn.fit(9, cbs=RunCallback(run, "logits"))`.

    The values are in fastai's table and recorder under the names of the record, where its callbacks find
    them: `SaveModelCallback(**callback.monitor())`. What fastai records itself (`valid_loss`, `metrics`) is
    recorded with the epoch and can be optimized: `Run(trial, metric=library_metric("valid_loss"))`. The
    backend's stop leaves `fit` as an exception, after all other callbacks have ended; patience, the target
    and the spec's `epochs` end it. Passes outside of `fit` do not count.

    If the run has a directory, every epoch writes a checkpoint of the model and the optimizer. A killed run
    continues after its latest one: `fit` skips the epochs that are done, so that a schedule goes on.

    Args:
        run: the run to update. The attribute `run` of a callback is fastai's own.
        read: what the model gives, see `Read`.
        epochs: the epochs of all fits, where there are several, as in `fine_tune`; by default those of one.
    """

    order, run_train, remove_on_fetch, _only_train_loop = 40.0, False, True, True  # before the recorder
    name = "hpometrics"  # in the learner

    def __init__(self, run: Run, read: Read, epochs: int | None = None) -> None:
        self._reported, self._read, self._total, self._count = run, as_reader(read), epochs, 0
        self._loop = TrainerLoop(run, "the learner has no validation data")
        self._skips = False  # an epoch that was done before
        self._stop: BaseException | None = None
        self._values: dict[str, float] = {}  # of the latest validation
        self._late: dict[str, Any] = {}  # the state of the optimizer, which `fine_tune` clears between fits
        logged = {one.name for one in run.spec.requested if one.reported}
        names = [name for name in run.spec.directions if name not in logged]
        self._metrics = [_Measured(partial(self._values.get, name), name) for name in names]

    def monitor(self, name: str | None = None) -> dict[str, Any]:
        """Return `monitor` and `comp` of fastai's callbacks for a value, by default the optimized one."""
        name, direction = monitor_of(self._reported.spec, name)
        return {"monitor": name, "comp": np.greater if direction is MAXIMIZE else np.less}

    def __call__(self, event_name: str) -> None:
        """Handle an event. An error leaves as it is; fastai's own method would rewrite its message."""
        if self.run and event_name in vars(RunCallback):
            getattr(self, event_name)()
        self.run |= event_name == "after_fit"

    def before_fit(self) -> None:
        """Add the measured values to the metrics of the learner; a wrong `comp` raises a DirectionError."""
        self.run = not hasattr(self.learn, "lr_finder") and not hasattr(self.learn, "gather_preds")
        for other in self.learn.cbs:
            check_watcher(self._reported.spec, other)
        self._set_metrics(self._metrics if self.run else [])

    def before_train(self) -> None:
        """Start an epoch; the first one starts the run, after the latest checkpoint if there is one."""
        self._values.clear()
        if not self._loop.begun:
            self._loop.begin(self._total or self.learn.n_epoch, self._objects())
        elif self._total is None and self.learn.epoch == 0:
            raise RunError("the run has ended with an earlier fit; pass the epochs of all fits as epochs=")
        self._count += 1
        self._skips = self._count <= self._loop.first
        if self._skips or self._loop.over:
            raise fastai.CancelEpochException if self._skips else fastai.CancelFitException
        if self._late:
            self._restore_optimizer()
        self._loop.start_epoch()

    def after_pred(self) -> None:
        """Update the run with the outputs of a validation batch."""
        if not self.learn.training and len(self.learn.yb):
            outputs, *target = map(_plain, (self.learn.pred, *self.learn.yb))
            self._loop.update(self._read(outputs, target[0] if len(target) == 1 else target))

    def after_validate(self) -> None:
        """Publish the values of the pass."""
        self._values |= self._loop.measure()

    def after_epoch(self) -> None:
        """Close the epoch; of one that is skipped, publish the recorded values."""
        names, log = self.learn.recorder.metric_names, self.learn.recorder.log
        if self._skips:
            values = self._reported.history[self._count - 1].values
            log.extend(values.get(name, np.nan) for name in names[1:] if name != "time")
        self._skips = False
        if self._loop.open:
            if not self._reported.updated:
                self._loop.update(None)
            own = {name: one for name, one in zip(names, log, strict=False) if one is not None}
            self._loop.log({name: own[name] for name in own.keys() - {"epoch", *self._values}})
            try:
                self._loop.end_epoch(self._count, self._objects())
            except self._reported.stops as stop:
                self._stop, self.order = stop, np.inf  # raised when the others have ended

    def after_fit(self) -> None:
        """End the loop, unless other fits may follow; raise the backend's stop."""
        self._set_metrics([])
        if self._total is None:
            self._loop.leave()
        if self._stop is not None:
            raise self._stop

    def _set_metrics(self, own: list[_Measured]) -> None:
        self.learn.metrics = [*(one for one in self.learn.metrics if not isinstance(one, _Measured)), *own]

    def _objects(self) -> Objects:
        options, state = ("hypers", "param_groups"), self.learn.opt.state_dict()  # `fit` sets the options
        saved = {name: _plain(one) for name, one in state.items() if name not in options}
        optimizer = SavedModel(lambda: saved, self._late.update)
        return {"model": fastai.get_model(self.learn.model), "optimizer": optimizer}

    def _restore_optimizer(self) -> None:
        opt, state = self.learn.opt, dict(self._late)
        if not isinstance(opt, fastai.OptimWrapper):
            state = fastai.to_device(state, opt.param_lists[0][0].device)
        opt.load_state_dict({**opt.state_dict(), **state})
        self._late.clear()


class _Measured(fastai.ValueMetric):  # type: ignore[misc]
    """A value of the run as a metric of fastai."""


def _plain(value: Any) -> Any:
    """Return a value of fastai with the tensors of torch and the lists of Python."""
    if isinstance(value, fastai.L):
        return [_plain(one) for one in value]
    return value.as_subclass(Tensor) if isinstance(value, Tensor) else value
