"""skorch callback that reports the epochs of `fit` to a run, as a loop over `run.epochs()` does."""

from __future__ import annotations

from typing import Any

from ..direction import MINIMIZE
from ..exceptions import missing_extra
from ..run.checkpoint import Stateful
from ..run.run import Run
from .directions import check_watcher, monitor_of
from .trainer_loop import Read, TrainerLoop, as_reader

try:
    from skorch.callbacks import Callback
except ImportError as err:
    raise missing_extra("hpometrics.integrations.skorch", "skorch", "skorch") from err

__all__ = ["RunCallback"]


class RunCallback(Callback):  # type: ignore[misc]  # its types are not read
    """Measures the validation batches of each epoch: `NeuralNet(callbacks=[RunCallback(run, "logits")])`.

    The values are in `net.history` under the names of the record, where the callbacks after this one find
    them: `EarlyStopping(**callback.monitor())`; of the optimized metric there is `NAME_best` too, as skorch's
    `Checkpoint(monitor=...)` reads it. What skorch records itself (`train_loss`, `valid_loss`, `valid_acc`)
    is recorded with the epoch and can be optimized: `Run(trial, metric=library_metric("valid_acc"))`. The
    backend's stop leaves `fit` as an exception; patience, the target and the spec's `epochs` end it.

    If the run has a directory, every epoch writes a checkpoint of the module and the optimizer. A killed run
    continues after its latest one: `fit` trains the remaining epochs.

    Args:
        run: the run to update.
        read: what the module gives, see `Read`.
    """

    def __init__(self, run: Run, read: Read) -> None:
        self.run, self.read = run, read  # skorch's params: by the names of the arguments

    def monitor(self, name: str | None = None) -> dict[str, Any]:
        """Return `monitor` and `lower_is_better` for a value, by default the optimized one."""
        name, direction = monitor_of(self.run.spec, name)
        return {"monitor": name, "lower_is_better": direction is MINIMIZE}

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Start the run, after the latest checkpoint if there is one.

        Raises:
            DirectionError: another callback of the net watches a value in the other direction.
        """
        for _, other in net.callbacks_:
            check_watcher(self.run.spec, other)
        self.loop_ = TrainerLoop(self.run, "the net has no validation data; set train_split")
        self.loop_.begin(net.max_epochs, _objects(net))
        self.earlier_ = len(net.history)

    def on_epoch_begin(
        self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any
    ) -> None:
        """Start an epoch.

        Raises:
            KeyboardInterrupt: all are done, which is how skorch is stopped. Raised earlier, at the end of the
                last one, it would keep that epoch from the callbacks after this one.
        """
        if self.loop_.over:
            del net.history[-1]  # the row that skorch has made for it
            raise KeyboardInterrupt
        self.loop_.start_epoch()

    def on_batch_end(self, net: Any, batch: Any = None, training: bool | None = None, **kwargs: Any) -> None:
        """Update the run with the outputs of a validation batch."""
        if not training:
            self.loop_.update(as_reader(self.read)(kwargs["y_pred"], batch[1]))

    def on_epoch_end(
        self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any
    ) -> None:
        """Close the epoch.

        Raises:
            BaseException: the backend's stop.
        """
        if not self.run.updated:
            self.loop_.update(None)
        values = {n: one for n, one in net.history[-1].items() if isinstance(one, float) and n != "dur"}
        self.loop_.log(values)
        for name, value in self.loop_.measure().items():
            net.history.record(name, value)
        count = self.loop_.first + len(net.history) - self.earlier_
        self.loop_.end_epoch(count, _objects(net))
        net.history.record(f"{self.run.spec.name}_best", self.run.best_epoch == count - 1)

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """End the loop."""
        self.loop_.leave()


def _objects(net: Any) -> dict[str, Stateful]:
    return {"model": net.module_, "optimizer": net.optimizer_}
