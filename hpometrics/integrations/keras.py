"""Keras callback that reports the epochs of `fit` to a run, as a loop over `run.epochs()` does."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from ..exceptions import RunError, missing_extra
from ..run.run import Run
from .directions import monitor_and_mode
from .trainer_loop import Read, TrainerLoop, as_reader

if find_spec("tensorflow") is None:  # Keras' own default
    os.environ.setdefault("KERAS_BACKEND", "torch")
try:
    import keras
except ImportError as err:
    raise missing_extra("hpometrics.integrations.keras", "keras", "keras") from err

__all__ = ["RunCallback"]


class RunCallback(keras.callbacks.Callback):  # type: ignore[misc]  # its types are not read
    """Measures validation data after each epoch: `model.fit(callbacks=[RunCallback(run, (x, y), "logits")])`.

    It works with each backend of Keras; without `KERAS_BACKEND` and without TensorFlow it chooses torch.

    The values are in the logs of the epoch under the names of the record, where the callbacks after this one
    find them: `EarlyStopping(**callback.monitor(), patience=3)`. What Keras logs itself (`loss`, `val_loss`)
    is recorded with the epoch and can be optimized: `Run(trial, metric=library_metric("val_loss"))`. A
    training value with the name of a measured one is recorded as `train_accuracy`. The backend's stop leaves
    `fit` as an exception; patience, the target and the spec's `epochs` end it.

    If the run has a directory, every epoch writes a checkpoint of the model and the optimizer. A killed run
    continues after its latest one: `fit` trains the remaining epochs, which Keras counts from 0.

    Args:
        run: the run to update.
        valid: the data to measure, `(x, y)` or batches of these; None if the run records what Keras logs.
        read: what the model gives, see `Read`. If it is a name, a model of a single unit may return a column
            where the target has none, as for Keras' own losses.
    """

    def __init__(
        self,
        run: Run,
        valid: tuple[Any, Any] | Iterable[tuple[Any, Any]] | None = None,
        read: Read | None = None,
    ) -> None:
        super().__init__()
        if valid is not None and read is None:
            raise RunError(
                "the run needs to know what the model returns; pass read='logits', 'probabilities' or "
                "'predictions'"
            )
        self.run, self._read, self._is_named = run, as_reader(read or ""), isinstance(read, str)
        self._batches = [valid] if isinstance(valid, tuple) else valid or ()
        self._loop = TrainerLoop(run, "valid is missing, or is an iterator that can be read only once")
        self._count = 0

    def monitor(self, name: str | None = None) -> dict[str, str]:
        """Return `monitor` and `mode` of Keras' own callbacks for a value, by default the optimized one."""
        return monitor_and_mode(self.run.spec, name)

    def on_train_begin(self, logs: Any = None) -> None:
        """Start the run, after the latest checkpoint if there is one."""
        self._loop.begin(self.params.get("epochs"), self._objects())
        self._count = 0
        self._stop_after_the_last()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Start an epoch."""
        self._count += 1
        self._loop.start_epoch()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Measure the validation data and close the epoch.

        Raises:
            BaseException: the backend's stop.
        """
        logs = {} if logs is None else logs
        for x, y in self._batches:
            outputs, target = self.model.predict(x, verbose=0), keras.ops.convert_to_numpy(y)
            if self._is_named and np.shape(outputs) == (*target.shape, 1):
                outputs = outputs[..., 0]
            self._loop.update(self._read(outputs, target))
        if not self.run.updated:
            self._loop.update(None)
        values = self._loop.measure()
        self._loop.log({f"train_{name}" if name in values else name: one for name, one in logs.items()})
        logs.update(values)
        self._loop.end_epoch(self._loop.first + self._count, self._objects())
        self._stop_after_the_last()

    def on_train_end(self, logs: Any = None) -> None:
        """End the loop, and undo the step that Keras takes before it checks whether it must stop."""
        self._loop.put_back(self._objects())
        self._loop.leave()

    def _stop_after_the_last(self) -> None:
        if self._loop.over:
            self.model.stop_training = True

    def _objects(self) -> dict[str, _Variables]:
        return {
            "model": _Variables(self.model.variables),
            "optimizer": _Variables(self.model.optimizer.variables),
        }


class _Variables:
    """The variables of a model or an optimizer as an object with a state."""

    def __init__(self, variables: Sequence[Any]) -> None:
        self._variables = variables

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {str(i): torch.from_numpy(np.array(one.numpy())) for i, one in enumerate(self._variables)}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        for i, variable in enumerate(self._variables):
            variable.assign(state[str(i)].numpy())
