"""Population based training by Ray over the trials of a study, and the logs of its reports."""

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

from ...exceptions import ConfigError
from ...run.reporter import derive_seed
from ...space.dimensions import Choice
from ...space.draws import mutations
from ...space.space import Space, mutable
from ._internals import json_line, next_perturbation, perturbation_interval, state_of
from .session import DONOR, EPOCH, FINAL, GIVEN, NUMBER, PARAMS, SINCE, VALUE


class TrialLog(JsonLoggerCallback):
    """Tune's own log, with each epoch once: a trial that continues after a loss reports some of them again.

    Tune replaces the file by a stored copy, which lacks some lines, whenever a trial continues; here that is
    done only if the file is missing.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._written: dict[str, set[int]] = {}

    def log_trial_start(self, trial: Trial) -> None:
        """Open the file, and read which epochs it has."""
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
    """Return the epochs that a log has lines of; a last line that is cut off does not count."""
    epochs = set()
    for line in file.read_text(encoding="utf8").splitlines():
        try:
            epochs.add(int(json.loads(line).get(EPOCH, 0)))
        except ValueError:
            continue
    return epochs - {0}


class MemberLog(JsonLoggerCallback):
    """Appends each report of a member to its file, which it closes at once.

    Tune's own logger replaces the file by a stored copy, which lacks some lines, whenever a member continues,
    and leaves the file of a paused member open.
    """

    def log_trial_start(self, trial: Trial) -> None:
        """Open no file."""

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Append a report, as a line of JSON."""
        trial.init_local_path()  # type: ignore[no-untyped-call]
        with Path(str(trial.local_path), EXPR_RESULT_FILE).open("a", encoding="utf8") as file:
            file.write(json_line(result))


class Population(PopulationBasedTraining):
    """Exploits and explores at the same epochs in all trials, whatever order they run in.

    After every `perturbation_interval` epochs all trials wait for each other. Then each of the worst
    `quantile_fraction` continues from the state of one of the best, with its params, changed: a param is
    drawn anew with `resample_probability`, else multiplied by one of the factors (a choice moves to a
    neighbor), and kept within its dimension.
    Source: Jaderberg et al., Population Based Training of Neural Networks, 2017.

    Args:
        space: the space of the trials' params.
        seed: seeds the choice of donors and the changes; None draws them at random.
        mutate: the params that may change. Those that shape the model may not: its state would not fit.
        perturbation_interval: the epochs between two exploits.
        quantile_fraction: the share of the population, at most 0.5.
        resample_probability: the probability that a param is drawn anew.
        perturbation_factors: the factors of a number.

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
        self._reporting: set[Trial] = set()
        self._inactive: set[Trial] = set()
        super().__init__(
            time_attr=EPOCH,
            perturbation_interval=perturbation_interval,
            hyperparam_mutations={PARAMS: {name: mutations(one) for name, one in self._changing.items()}},
            quantile_fraction=quantile_fraction,
            resample_probability=resample_probability,
            perturbation_factors=(perturbation_factors[0], perturbation_factors[-1]),
            custom_explore_fn=self._fit_into_space,
            log_config=False,  # the trials' own records have it
            synch=True,
        )

    @property
    def interval(self) -> int:
        """The epochs between two exploits."""
        return perturbation_interval(self)

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Add a trial although a searcher drew it: our searcher learns which params a value belongs to."""
        unsearched: Any = SimpleNamespace(search_alg=None)  # Ray would refuse a searcher
        super().on_trial_add(unsearched, trial)

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Decide after an epoch; after its last epoch a trial exploits no other."""
        state = state_of(self, trial)
        if trial not in self._reporting:  # after a restart it waits where it would have waited
            self._reporting.add(trial)
            state.last_perturbation_time = (result[EPOCH] - 1) // self.interval * self.interval
        if result.get(FINAL):
            return self.CONTINUE
        return super().on_trial_result(tune_controller, trial, result)

    def on_trial_complete(
        self, tune_controller: Any, trial: Trial, result: dict[str, Any] | None = None
    ) -> None:
        """Continue without a trial that is over; with Ray's own the others would wait for it for ever."""
        state, sync = state_of(self, trial), next_perturbation(self)
        state.last_train_time, state.last_score = max(state.last_train_time, sync), None
        self._inactive.add(trial)
        others = [other for other in tune_controller.get_live_trials() if other not in self._inactive]
        if others and all(state_of(self, other).last_train_time >= sync for other in others):
            last_result = state_of(self, others[0]).last_result
            super().on_trial_result(tune_controller, others[0], last_result or {})

    on_trial_error = on_trial_complete
    on_trial_remove = on_trial_complete

    def _checkpoint_or_exploit(self, trial: Trial, *arguments: Any) -> None:
        with self._seeded(trial):
            super()._checkpoint_or_exploit(trial, *arguments)

    def _get_new_config(self, trial: Trial, trial_to_clone: Trial) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the config of a trial with the changed params of its donor; all else stays its own."""
        config, operations = super()._get_new_config(trial, trial_to_clone)
        own = trial.config
        return {
            NUMBER: own[NUMBER],
            PARAMS: config[PARAMS],
            GIVEN: own.get(GIVEN, own[PARAMS]),
            DONOR: trial_to_clone.config[NUMBER],
            SINCE: int(state_of(self, trial).last_train_time),
        }, operations

    def _fit_into_space(self, config: dict[str, Any]) -> dict[str, Any]:
        for name, dimension in self._changing.items():
            if not isinstance(dimension, Choice):
                config[PARAMS][name] = dimension.nearest(config[PARAMS][name])
        return config

    @contextmanager
    def _seeded(self, trial: Trial) -> Iterator[None]:
        """Seed Python's random stream, which Ray draws from, by trial and epoch; restore it afterwards."""
        if self._seed is None:
            yield
            return
        before = random.getstate()
        epoch = state_of(self, trial).last_train_time
        random.seed(derive_seed(self._seed, trial.config[NUMBER], name=f"{VALUE} after epoch {epoch}"))
        try:
            yield
        finally:
            random.setstate(before)
