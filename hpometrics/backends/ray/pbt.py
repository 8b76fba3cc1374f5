"""Population based training and its bandit by Ray over the trials of a study, and the logs of reports."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from ray.air.constants import EXPR_RESULT_FILE
from ray.tune.experiment import Trial
from ray.tune.logger import JsonLoggerCallback
from ray.tune.schedulers import PopulationBasedTraining

from ...direction import Direction
from ...exceptions import ConfigError
from ...records.trial_record import TrialRecord
from ...space.dimensions import Choice
from ...space.draws import derive_seed, mutations
from ...space.space import Space, mutable
from ._internals import (
    bandit_point,
    bandit_problem,
    json_line,
    members_of,
    metric_and_mode,
    next_perturbation,
    perturbation_interval,
    postpone,
    state_of,
)
from .session import DONOR, EPOCHS, FINAL, GIVEN, NUMBER, PARAMS, SINCE, VALUE

MOST_OBSERVATIONS = 1000
"""The latest observations that a model is fitted to, as in Ray's PB2."""


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
        epoch, written = result.get(EPOCHS, 0), self._written[trial.trial_id]
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
            epochs.add(int(json.loads(line).get(EPOCHS, 0)))
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

    kind = "pbt"

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
            raise ConfigError(f"perturbation_interval must be at least 1 epoch, got {perturbation_interval}")
        self._changing = mutable(space, mutate)
        self._seed = seed
        self._reporting: set[Trial] = set()
        self._inactive: set[Trial] = set()
        super().__init__(
            time_attr=EPOCHS,
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
            state.last_perturbation_time = (result[EPOCHS] - 1) // self.interval * self.interval
            postpone(self, state.last_perturbation_time + self.interval)
        epoch = result[EPOCHS]
        if result.get(FINAL) or epoch % self.interval or epoch < next_perturbation(self):
            return self.CONTINUE  # one that is resumed behind the others meets them where they wait
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
        params, operations = self._explored(trial, trial_to_clone)
        own = trial.config
        return {
            NUMBER: own[NUMBER],
            PARAMS: params,
            GIVEN: own.get(GIVEN, own[PARAMS]),
            DONOR: trial_to_clone.config[NUMBER],
            SINCE: self._epochs_of(trial),
        }, operations

    def _explored(self, trial: Trial, donor: Trial) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the params of the donor, changed, and the text on each change for Ray's log."""
        config, operations = super()._get_new_config(trial, donor)
        return config[PARAMS], operations

    def _epochs_of(self, trial: Trial) -> int:
        """Return how many epochs a member had when the members waited for each other."""
        return int(state_of(self, trial).last_train_time)

    def _fit_into_space(self, config: dict[str, Any]) -> dict[str, Any]:
        for name, dimension in self._changing.items():
            if not isinstance(dimension, Choice):
                config[PARAMS][name] = dimension.nearest(config[PARAMS][name])
        return config

    @contextmanager
    def _seeded(self, trial: Trial) -> Iterator[None]:
        """Seed the random streams that Ray draws from by trial and epoch; restore them afterwards."""
        if self._seed is None:
            yield
            return
        before, numpy_before = random.getstate(), np.random.get_state()
        place = f"{VALUE} after epoch {state_of(self, trial).last_train_time}"
        seed = derive_seed(self._seed, trial.config[NUMBER], name=place)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(before)
            np.random.set_state(numpy_before)


@dataclass(frozen=True)
class History:
    """The records of the members of a population, and the metric by which they are compared.

    Args:
        metric: its name in the epochs of a record.
        record_of: returns the record of a trial by its number; None if there is none.
    """

    metric: str
    record_of: Callable[[int], TrialRecord | None]


@dataclass(frozen=True)
class Observation:
    """The change of a member's value between two exploits.

    Args:
        number: of the member.
        epoch: how many epochs it had at the end.
        before: the value before, the larger the better; after an exploit that of the donor.
        change: of the value per epoch.
        params: in force meanwhile.
    """

    number: int
    epoch: int
    before: float
    change: float
    params: Mapping[str, Any]


def observations(
    records: Iterable[TrialRecord], metric: str, direction: Direction, interval: int, epochs: int
) -> list[Observation]:
    """Return the observations in records, by epoch and number.

    The first observation of a member begins after its first epoch, as no value is known before. Where a value
    is missing or not finite there is none.

    Args:
        records: of the members.
        metric: the name of the value.
        direction: of the metric.
        interval: the epochs between two exploits.
        epochs: later ones do not count.
    """
    members = sorted(records, key=lambda record: record.number)
    courses = {
        record.number: {one.epoch + 1: direction.sign * one.number(metric) for one in record.epochs}
        for record in members
    }
    result = []
    for end in range(interval, epochs + 1, interval):
        start = end - interval
        for record in members:
            donors = [one.donor for one in record.exploits if one.epoch == start > 0]
            origin = courses.get(donors[-1] if donors else record.number, {})
            begin = max(start, 1)
            before, after = origin.get(begin, math.nan), courses[record.number].get(end, math.nan)
            if end > begin and math.isfinite(before) and math.isfinite(after):
                change = (after - before) / (end - begin)
                result.append(Observation(record.number, end, before, change, record.params_at(end - 1)))
    return result


class Bandit(Population):
    """A population whose changed params are chosen by a model of what improves its members.

    It is a `Population` in all else. Ray's Gaussian process over epoch, value and params predicts the
    improvement per epoch, and the params with its greatest upper confidence bound are chosen. It is fitted to
    the records of the members, so a search that was killed goes on with the same observations. If there is
    none of the donor, as at a first exploit after one epoch, the params are the donor's.
    Source: Parker-Holder et al., Provably Efficient Online Hyperparameter Optimization with Population-Based
    Bandits, 2020.

    Args:
        space, seed: see `Population`.
        history: has the records.
        mutate: the numbers that may change. Those that shape the model may not: its state would not fit.
        perturbation_interval, quantile_fraction: see `Population`.

    Raises:
        ConfigError: a param cannot change, or is a choice, or Ray's model lacks a package.
    """

    kind = "pb2"

    def __init__(
        self,
        space: Space,
        seed: int | None = None,
        *,
        history: History,
        mutate: Sequence[str],
        perturbation_interval: int = 4,
        quantile_fraction: float = 0.25,
    ) -> None:
        mutable(space, mutate, numbers_only=True)
        if problem := bandit_problem():
            raise ConfigError(problem)
        super().__init__(
            space,
            seed,
            mutate=mutate,
            perturbation_interval=perturbation_interval,
            quantile_fraction=quantile_fraction,
        )
        self._history = history
        self._scales = {name: _Scale(dimension) for name, dimension in self._changing.items()}

    def _explored(self, trial: Trial, donor: Trial) -> tuple[dict[str, Any], dict[str, Any]]:
        params, epoch = dict(donor.config[PARAMS]), self._epochs_of(trial)
        observed = self._observed(epoch)[-MOST_OBSERVATIONS:]
        of_donor = [one for one in observed if one.number == donor.config[NUMBER]]
        if not of_donor:
            return params, {}
        point = bandit_point(
            [[one.epoch, one.before, *self._scaled(one.params)] for one in observed],
            [one.change for one in observed],
            [self._scaled(chosen) for chosen in self._chosen_at(epoch)],
            [of_donor[-1].epoch, of_donor[-1].before],
            {name: scale.bounds for name, scale in self._scales.items()},
        )
        for (name, scale), place in zip(self._scales.items(), point or (), strict=False):
            params[name] = scale.value_at(place)
        return params, {}

    def _observed(self, epochs: int) -> list[Observation]:
        numbers = sorted(trial.config[NUMBER] for trial in members_of(self))
        records = [record for number in numbers if (record := self._history.record_of(number)) is not None]
        direction = Direction.parse(metric_and_mode(self)[1])
        return observations(records, self._history.metric, direction, self.interval, epochs)

    def _chosen_at(self, epoch: int) -> list[Mapping[str, Any]]:
        """Return the params that other members were given at this exploit, by their numbers."""
        configs = sorted((trial.config for trial in members_of(self)), key=itemgetter(NUMBER))
        return [config[PARAMS] for config in configs if config.get(SINCE) == epoch]

    def _scaled(self, params: Mapping[str, Any]) -> list[float]:
        return [scale.place_of(params[name]) for name, scale in self._scales.items()]


class _Scale:
    """The scale on which a number is modeled: its logarithm if the dimension is logarithmic."""

    def __init__(self, dimension: Any) -> None:
        self._dimension = dimension
        is_log = dimension.log or getattr(dimension, "power", None) is not None
        self._is_log = is_log and dimension.low > 0

    @property
    def bounds(self) -> tuple[float, float]:
        return self.place_of(self._dimension.low), self.place_of(self._dimension.high)

    def place_of(self, value: float) -> float:
        return math.log(value) if self._is_log else float(value)

    def value_at(self, place: float) -> float:
        value: float = self._dimension.nearest(math.exp(place) if self._is_log else place)
        return value
