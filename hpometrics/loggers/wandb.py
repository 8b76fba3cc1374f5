"""WandbLogger logs each trial as a W&B run, with its params, its values and the value that counts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ..records.trial_record import numbers_of
from .registry import Standing, place_in_sweep
from .tensorboard import PICKED


class WandbLogger:
    """Logs each epoch as a step, under the names that the record has.

    A run that resumes after a kill is logged anew from its record, as a run of its own in the same group:
    what W&B has cannot be deleted. A value that is not finite is left out of its step.

    Args:
        directory: the trial's own; what is logged is kept in `wandb` below it.
        project: unless given, the name of the folder of the sweep.
        entity: the account; unless given, W&B's own choice.
        mode: `online`, `offline` (`wandb sync` sends it later) or `disabled`; unless given, W&B's own choice.
    """

    def __init__(
        self,
        directory: Path,
        *,
        project: str | None = None,
        entity: str | None = None,
        mode: str | None = None,
    ) -> None:
        self._directory = directory
        self._sweep, self._place = place_in_sweep(directory)
        self._chosen = {"project": project or self._sweep, "entity": entity, "mode": mode}
        self._run: Any = None

    def begin(self, run: Standing) -> None:
        """Begin a run of W&B with the params and the epochs before a restart."""
        import wandb

        self._run = wandb.init(
            **self._chosen,
            dir=str(self._directory),
            group=self._sweep,
            name=f"{self._sweep}/{self._place}",
            config=dict(run.params),
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off"),
        )
        for place in range(len(run.history)):
            self._log(run, place)

    def epoch(self, run: Standing) -> None:
        """Log an epoch."""
        self._log(run, len(run.history) - 1)

    def end(self, run: Standing) -> None:
        """Log how the run ended."""
        if self._run is not None:
            self._run.finish(exit_code=0 if run.complete else 1)
            self._run = None

    def _log(self, run: Standing, place: int) -> None:
        record = run.history[place]
        picked = run.value_at(place)
        values = {
            **numbers_of(record.values),
            f"{run.metric}/{PICKED}": math.nan if picked is None else picked,
        }
        self._run.log({name: v for name, v in values.items() if math.isfinite(v)}, step=record.place)
