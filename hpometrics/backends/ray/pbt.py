"""Population: Ray's population based training over the trials of a study; params stay in their space."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ray.air.constants import EXPR_RESULT_FILE
from ray.tune.experiment import Trial
from ray.tune.logger import JsonLoggerCallback
from ray.tune.schedulers import PopulationBasedTraining
from ray.tune.utils.util import SafeFallbackEncoder  # type: ignore[attr-defined]

from ...exceptions import ConfigError
from ...run.reporter import derive_seed
from ...space.dimensions import Choice
from ...space.space import Space, draws, mutable
from .session import DONOR, EPOCH, FINAL, GIVEN, NUMBER, PARAMS, SINCE, VALUE


class TrialLog(JsonLoggerCallback):
    """Tune's own log, with each epoch once: a trial that goes on after a loss reports some of them again.

    Tune puts a stored copy in the place of the file whenever a trial goes on, which has not all lines yet;
    here that is done only where the file is gone.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._written: dict[str, set[int]] = {}

    def log_trial_start(self, trial: Trial) -> None:
        """Open the file, and note which epochs it has."""
        super().log_trial_start(trial)
        self._written[trial.trial_id] = _epochs_in(Path(str(trial.local_path), EXPR_RESULT_FILE))

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Write a report, unless its epoch has a line."""
        if trial.trial_id not in self._written:
            self.log_trial_start(trial)
        epoch, written = result.get(EPOCH, 0), self._written[trial.trial_id]
        if epoch not in written:
            super().log_trial_result(iteration, trial, result)
        if epoch > 0:
            written.add(epoch)

    def _restore_from_remote(self, file_name: str, trial: Trial) -> None:
        if not Path(str(trial.local_path), file_name).exists():
            super()._restore_from_remote(file_name, trial)


def _epochs_in(file: Path) -> set[int]:
    """Return the epochs that a log has lines of; a last line that is cut off is none."""
    epochs = set()
    for line in file.read_text(encoding="utf8").splitlines():
        try:
            epochs.add(int(json.loads(line).get(EPOCH, 0)))
        except ValueError:
            continue
    return epochs - {0}


class MemberLog(JsonLoggerCallback):
    """Appends each report of a member to its file, and holds none of them open.

    Tune's own logger puts a stored copy in the place of the file whenever a member goes on, which has not all
    lines yet, and closes no file of a member that is paused.
    """

    def log_trial_start(self, trial: Trial) -> None:
        """Open nothing."""

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Append a report, as a line of JSON."""
        trial.init_local_path()  # type: ignore[no-untyped-call]
        with Path(str(trial.local_path), EXPR_RESULT_FILE).open("a", encoding="utf8") as file:
            file.write(json.dumps(result, cls=SafeFallbackEncoder) + "\n")


class Population(PopulationBasedTraining):
    """Exploits and explores at the same epochs in all trials, whatever order they run in.

    After every `perturbation_interval` epochs all trials wait for each other. Then each of the worst
    `quantile_fraction` goes on from the state of one of the best, under its params, changed: a param is drawn
    anew with `resample_probability`, else multiplied by one of the factors (of a choice, moved to a
    neighbor), and kept within its dimension.
    Source: Jaderberg et al., Population Based Training of Neural Networks, 2017.

    Args:
        space: what the trials draw.
        seed: of the donors and the changes; None draws them at random.
        mutate: the params that may change. Those that shape the model may not: its state would not fit.
        perturbation_interval: in epochs.
        quantile_fraction: of the population, at most 0.5.
        resample_probability: of a param.
        perturbation_factors: of a number.

    Raises:
        ConfigError: a param cannot change.
    """

    def __init__(
        self,
        space: Space,
        seed: int | None = None,
        *,
        mutate: Sequence[str],
        perturbation_interval: int = 4,
        quantile_fraction: float = 0.25,
        resample_probability: float = 0.25,
        perturbation_factors: Sequence[float] = (0.8, 1.2),
    ) -> None:
        if perturbation_interval < 1:
            raise ConfigError(f"perturbation_interval is in epochs, at least 1, got {perturbation_interval}")
        self._changing = mutable(space, mutate)
        self._seed = seed
        self._heard: set[Trial] = set()
        self._left: set[Trial] = set()
        super().__init__(
            time_attr=EPOCH,
            perturbation_interval=perturbation_interval,
            hyperparam_mutations={PARAMS: {name: draws(one) for name, one in self._changing.items()}},
            quantile_fraction=quantile_fraction,
            resample_probability=resample_probability,
            perturbation_factors=(perturbation_factors[0], perturbation_factors[-1]),
            custom_explore_fn=self._within,
            log_config=False,  # the trials' own records tell
            synch=True,
        )

    @property
    def interval(self) -> int:
        """Epochs between exploits."""
        return int(self._perturbation_interval)

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Take a trial in, although a searcher drew it: ours is told which params a value is of."""
        unsearched: Any = SimpleNamespace(search_alg=None)  # Ray would refuse a searcher
        super().on_trial_add(unsearched, trial)

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Decide after an epoch; after its last a trial is done, and goes on from nobody."""
        state = self._trial_state[trial]
        if trial not in self._heard:  # one that goes on after a restart meets the others where it would have
            self._heard.add(trial)
            state.last_perturbation_time = (result[EPOCH] - 1) // self.interval * self.interval
        if result.get(FINAL):
            return self.CONTINUE
        return super().on_trial_result(tune_controller, trial, result)

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """Let the others go on without a trial that has come to its end."""
        self._leave(tune_controller, trial)

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """Let the others go on without a trial that has failed."""
        self._leave(tune_controller, trial)

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        """Let the others go on without a trial that is taken away."""
        self._leave(tune_controller, trial)

    def _leave(self, tune_controller: Any, trial: Trial) -> None:
        """Take a trial out of the population; Ray would have the others wait for it for ever."""
        state, sync = self._trial_state[trial], int(self._next_perturbation_sync)
        state.last_train_time, state.last_score = max(state.last_train_time, sync), None
        self._left.add(trial)
        others = [other for other in tune_controller.get_live_trials() if other not in self._left]
        if others and all(self._trial_state[other].last_train_time >= sync for other in others):
            last_heard = self._trial_state[others[0]].last_result
            super().on_trial_result(tune_controller, others[0], last_heard or {})

    def _checkpoint_or_exploit(self, trial: Trial, *arguments: Any) -> None:
        with self._seeded(trial):
            super()._checkpoint_or_exploit(trial, *arguments)

    def _get_new_config(self, trial: Trial, trial_to_clone: Trial) -> tuple[dict[str, Any], dict[str, Any]]:
        """Give a trial the changed params of its donor; all else stays its own."""
        config, operations = super()._get_new_config(trial, trial_to_clone)
        own = trial.config
        return {
            NUMBER: own[NUMBER],
            PARAMS: config[PARAMS],
            GIVEN: own.get(GIVEN, own[PARAMS]),
            DONOR: trial_to_clone.config[NUMBER],
            SINCE: int(self._trial_state[trial].last_train_time),
        }, operations

    def _within(self, config: dict[str, Any]) -> dict[str, Any]:
        for name, dimension in self._changing.items():
            if not isinstance(dimension, Choice):
                config[PARAMS][name] = dimension.nearest(config[PARAMS][name])
        return config

    @contextmanager
    def _seeded(self, trial: Trial) -> Iterator[None]:
        """Let Ray draw from a stream of the trial and the epoch; it has none but python's own."""
        if self._seed is None:
            yield
            return
        before = random.getstate()
        epoch = self._trial_state[trial].last_train_time
        random.seed(derive_seed(self._seed, trial.config[NUMBER], name=f"{VALUE} after epoch {epoch}"))
        try:
            yield
        finally:
            random.setstate(before)
