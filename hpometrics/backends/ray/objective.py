"""An objective for Ray Tune: a trainable, and the tuner whose direction is the metric's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import optuna
import ray
from optuna.trial import TrialState as OptunaState
from ray import tune
from ray.tune.logger import JsonLoggerCallback
from ray.tune.schedulers import TrialScheduler

from ...exceptions import ConfigError, RunError
from ...records.epoch_log import read_trial
from ...records.recovery import MOST_DEATHS, Losses
from ...records.trial_record import TrialRecord
from ...run.checkpoint import Keep
from ...run.spec import Train
from ...selection.rules import At
from ...space.space import Space
from ...space.values import is_whole
from ..live_table import SearchProgress
from ..objective import BaseObjective
from ..optuna.prior import Source, warm_start as learn_from
from ..optuna.pruners import own_pruner
from ..optuna.samplers import make_sampler
from ..optuna.study import check_origin, check_study, study_records, without_notices
from ..optuna.trial_queue import reserve
from ..registry import check_prune_by, check_several, dominance_rule
from .own_tuner import check_restorable, check_unsteered, checkpoint_of
from .pbt import History, MemberLog, Population, TrialLog
from .replay import Replay
from .reporter import earlier_reports
from .schedulers import DominanceScheduler, EndedTrial, Reallocating, Settled, judge_of, make_scheduler
from .searcher import StudySearcher
from .session import (
    CHECKPOINT_SCORE,
    JUDGED,
    NUMBER,
    PICKED,
    VALUE,
    check_resources,
    fitting,
    loggers_on,
    start_ray,
)
from .trainable import Course, MemberCourse, ReallocatedCourse, ReplayCourse, train_shared

_KEPT_BY_TUNE = 4
"""States of a member that Tune keeps: others may continue from one that is not the newest."""

_KEPT = {
    Keep.ALL: tune.CheckpointConfig(),
    Keep.BEST: tune.CheckpointConfig(num_to_keep=1, checkpoint_score_attribute=CHECKPOINT_SCORE),
    Keep.LAST: tune.CheckpointConfig(num_to_keep=1),
    Keep.NONE: tune.CheckpointConfig(),
}
"""The checkpoints that Tune keeps of a trial, always with the latest."""


class ObjectiveTuner(tune.Tuner):
    """The Tuner of a `RayObjective`: a fit restores the environment and the signal handlers at its end.

    Args:
        trainable, tune_config, run_config: see `tune.Tuner`.
        loggers: whether Tune adds its own loggers (JSON, CSV, TensorBoard) to the callbacks.
        live: shows the live line of the search.
    """

    def __init__(
        self,
        trainable: Any,
        tune_config: tune.TuneConfig,
        run_config: tune.RunConfig,
        loggers: bool,
        live: Callable[[], AbstractContextManager[None]],
    ) -> None:
        super().__init__(trainable, tune_config=tune_config, run_config=run_config)
        self._quiet, self._loggers, self._live = run_config.verbose == 0, loggers, live

    def fit(self) -> tune.ResultGrid:
        """Run the search and return the results; see `tune.Tuner.fit`."""
        with fitting(self._quiet, self._loggers), self._live():
            return super().fit()

    @classmethod
    def adopt(cls, restored: tune.Tuner) -> ObjectiveTuner:
        """Return a Tuner of this class for one that `tune.Tuner.restore` returned."""
        tuner = cls.__new__(cls)
        vars(tuner).update(vars(restored))
        tuner._quiet, tuner._loggers, tuner._live = True, True, nullcontext
        return tuner


class RayObjective(BaseObjective):
    """Trains in Ray workers, reports every epoch, and lets a scheduler stop hopeless trials.

    The workers must see its directory; without one, checkpoints go to Tune. See `BaseObjective` for the
    arguments.

    Raises:
        RunError: there are several repeats and no directory: Tune gets the reports of the first alone.
    """

    _search_method = "tuner"

    def __init__(self, train: Train, space: Space | Mapping[str, Any], **settings: Any) -> None:
        super().__init__(train, space, **settings)
        if self.trials.repeats > 1 and self.trials.directory is None:
            raise RunError("repeats on Ray need a record for each trial; set directory=")
        self.study: optuna.Study | None = None

    def tuner(
        self,
        num_samples: int,
        *,
        scheduler: object = None,
        sampler: object = None,
        study: optuna.Study | None = None,
        points: Iterable[Mapping[str, Any]] = (),
        warm_start: Sequence[Source] = (),
        enqueue: int = 1,
        resources: Mapping[str, float] | None = None,
        max_concurrent: int | None = None,
        reuse_actors: bool | None = None,
        take: Callable[[int], bool] | None = None,
        most_deaths: int = MOST_DEATHS,
        stale: int | None = None,
        cost: float | None = None,
        progress: bool | None = None,
        run_config: tune.RunConfig | None = None,
        name: str | None = None,
        **tune_config: Any,
    ) -> tune.Tuner:
        """Create a tuner for one `fit()`; Ray is started unless it runs.

        `get_best_result()` of its results compares the values of the picked epochs, also of stopped trials.
        `best` also considers constraints and how a trial ended. With several objectives, Tune compares
        nothing.

        A trial whose worker is lost continues in another, after its last checkpoint or from its start, and
        the logger `hpometrics` writes a line. This uses none of its `retries`, which are for exceptions.

        Args:
            num_samples: the total of trials, those that `study` already has included.
            scheduler: see `make_scheduler`; by dominance `median` or `percentile`, see `DominanceRule`.
            sampler: see `make_sampler`; default: `tpe`.
            study: the study of the trials, which has a sampler; default: a new one in memory.
            points: params to try first.
            warm_start: earlier searches, see `OptunaObjective.attach`.
            enqueue: the number of the best trials of each whose params are tried after `points`.
            resources: the resources of one trial; default: `{"cpu": 1}`.
            max_concurrent: trials at a time; default: as many as fit.
            reuse_actors: whether a worker trains one trial after another, until one fails in it. Default:
                only if trials request no GPU. Only the end of a process frees all its memory on a GPU.
            take: see `claim`; trials of dead workers are resumed first, and one whose worker is lost stays
                running in the study.
            most_deaths: deaths of its process in a row, without a further epoch in between, that fail a
                trial; with 1 none continues. A lost machine does not count.
            stale: complete trials in a row without a new best after which none starts (`trials_since_best`).
            cost: what the trials cost, in the objective's `cost_unit`, when none starts any more.
            progress: whether to print a line per trial to stderr, as `hpometrics run` does; a terminal and a
                notebook have a live line. Default: only without a `run_config`, by which Tune prints what it
                has.
            run_config: Tune's own; its callbacks and `CheckpointConfig` hold, and Tune adds its own loggers.
                So does a `FailureConfig` that is not Tune's default; then Tune counts exceptions and deaths
                alike, and `most_deaths` does not apply. By default nothing is printed, and reports are
                logged as JSON alone.
            name: the name of the experiment, unless `run_config` has one; default: that of the function.
            tune_config: further arguments of `tune.TuneConfig`, except `metric` and `mode`.

        Raises:
            DirectionError: a scheduler, a study or `mode` has another direction.
            ConfigError: a scheduler, sampler or resource does not exist, there are several objectives and a
                scheduler or sampler supports one alone, or both a study and a sampler are set.
            RunError: the study has all its trials already, `most_deaths` or `stale` is below 1, or `cost` is
                not above 0 or has no directory, whose records have the cost.
        """
        check_unsteered(self.trials.spec, tune_config)
        prune_by = self.trials.spec.prune_by
        check_prune_by(prune_by, scheduler, "scheduler")
        check_several(self.optimized, sampler, None if prune_by else scheduler, "scheduler")
        start_ray()
        per_trial = dict(resources or {"cpu": 1})
        check_resources(per_trial)
        scheduling = self._scheduler(scheduler)
        course = _course_of(scheduling)
        course.check(self.trials, max_concurrent, reuse_actors)
        points = course.first_points(points, warm_start, num_samples)
        study = self._prepared(study, sampler, num_samples, points, warm_start, enqueue)
        if reuse_actors is None:
            reuse_actors = not per_trial.get("gpu") if course.reuses_actors is None else course.reuses_actors
        losses = self._losses(run_config, take, most_deaths)
        if cost is not None and self.trials.directory is None:
            raise RunError("the cost on Ray needs a record for each trial; set directory=")
        progress = run_config is None if progress is None else progress
        following = self._search_progress(progress, study_records(study) if progress else ())
        single = len(self.optimized) == 1
        config = tune.TuneConfig(
            metric=PICKED if single else None,
            mode=self.directions[0].mode if single else None,
            search_alg=self._searcher(study, take, losses, stale, cost, following),
            scheduler=Settled(scheduling, losses, self._ended(study, scheduling)),
            num_samples=_count_open(study, take),
            max_concurrent_trials=max_concurrent,
            reuse_actors=reuse_actors,
            **tune_config,
        )
        trainable = self._trainable(name or _name_of(self.trials.train), course)
        return ObjectiveTuner(
            tune.with_resources(trainable, per_trial),
            config,
            self._run_config(run_config, course.hands_on),
            loggers=run_config is not None,
            live=partial(following.live, num_samples),
        )

    def records(self, of: Any = None) -> list[TrialRecord]:
        """Return the record of every trial of the tuner's study.

        Args:
            of: the results of `fit()`, for their trials alone; None for all trials of the study.

        Raises:
            RunError: no tuner was created.
        """
        if self.study is None:
            raise RunError("this objective has no records yet; call tuner(...).fit() first")
        records = study_records(self.study)
        if of is not None:
            results = {result.config[NUMBER]: result for result in of}
            records = [record for record in records if record.number in results]
            if self.trials.directory is None:
                records = [
                    replace(record, checkpoint=checkpoint_of(results[record.number], record.epoch))
                    for record in records
                ]
        return [self.trials.with_epochs(record) if record.state.finished else record for record in records]

    def restore(
        self,
        path: Path | str,
        *,
        resources: Mapping[str, float] | None = None,
        name: str | None = None,
        **options: Any,
    ) -> tune.Tuner:
        """Create a tuner that resumes the trials of one that was killed, each after its last checkpoint.

        No further trial is drawn, and `best_result` reads the results: the study has ended with its process.
        To resume the whole search, use a `directory`, a stored study and `tuner` instead.

        Args:
            path: the path of the experiment, Tune's `results.experiment_path`.
            resources: as they were passed to `tuner`.
            name: as it was passed to `tuner`.
            options: further arguments of `tune.Tuner.restore`, such as `resume_errored`.

        Raises:
            RecordError: Tune was killed while it wrote the state of the experiment.
        """
        check_restorable(Path(path))
        start_ray()
        trainable = self._trainable(name or _name_of(self.trials.train), Course())
        trainable = tune.with_resources(trainable, dict(resources or {"cpu": 1}))
        return ObjectiveTuner.adopt(tune.Tuner.restore(str(path), trainable, **options))

    def _scheduler(self, spec: object) -> TrialScheduler:
        """Return the scheduler of a tuner, which judges by `prune_by`."""
        judged = self.trials.spec.judged
        if len(judged) > 1:
            return DominanceScheduler(dominance_rule(spec), judged)
        direction, *_ = (*judged.values(), *self.directions)
        key = JUDGED if judged else VALUE
        history = History(self.trials.spec.name, partial(_read_record, self.trials.directory_of))
        return make_scheduler(
            spec, direction, self.trials.spec.most_reports, self.space, self.trials.seed, key, history
        )

    def _ended(self, study: optuna.Study, scheduler: TrialScheduler) -> list[EndedTrial]:
        """Return the trials of earlier fits that a scheduler compares with, as far as they are on disk."""
        if self.trials.directory is None or judge_of(scheduler) is None:
            return []
        (metric, direction), *_ = self.trials.spec.optimized.items()
        judged = self.trials.spec.judged
        records = [self.trials.with_epochs(one) for one in study_records(study) if one.state.finished]
        return [EndedTrial(one, earlier_reports(one, metric, direction, judged)) for one in records]

    def _prepared(
        self,
        study: optuna.Study | None,
        sampler: object,
        total: int,
        points: Iterable[Mapping[str, Any]],
        sources: Sequence[Source],
        enqueue: int,
    ) -> optuna.Study:
        if study is None:
            sampler = "tpe" if sampler is None else sampler
            with without_notices():
                study = optuna.create_study(
                    directions=[direction.value for direction in self.directions],
                    sampler=make_sampler(sampler, self.trials.seed, bool(self.trials.spec.constraints)),
                )
        elif sampler is not None:
            raise ConfigError(
                f"the study {study.study_name!r} has its own sampler; leave sampler out, or create the study "
                "with this one"
            )
        check_several(self.optimized, study.sampler, own_pruner(study))
        check_study(study, self.optimized, self.trials.facts, write=False)
        check_origin(study, list(self.optimized), self.space)
        check_study(study, self.optimized, self.trials.facts)
        first = [self.space.encode(point) for point in points]
        if sources:
            learned = learn_from(study, sources, self.space, self.trials.spec, enqueue)
            first += [dict(point) for point in learned if point not in first]
        reserve(study, total, first)
        self.study = study
        return study

    def _losses(
        self, run_config: tune.RunConfig | None, take: Callable[[int], bool] | None, most_deaths: int
    ) -> Losses | None:
        """Return what decides on trials that have lost their worker; None if Tune or `take` does.

        Raises:
            RunError: `most_deaths` is not a whole number of at least 1.
        """
        if not is_whole(most_deaths) or most_deaths < 1:
            raise RunError(f"most_deaths must be a whole number of at least 1, got {most_deaths!r}")
        own = run_config is not None and run_config.failure_config != tune.FailureConfig()
        return None if own or take is not None else Losses(self.trials.epochs_written, most_deaths)

    def _searcher(
        self,
        study: optuna.Study,
        take: Callable[[int], bool] | None,
        losses: Losses | None,
        stale: int | None,
        cost: float | None,
        following: SearchProgress,
    ) -> StudySearcher:
        spec, directory_of = self.trials.spec, self.trials.directory_of
        return StudySearcher(
            study,
            self.space,
            spec.optimized,
            At(spec.at),
            directory_of,
            take,
            spec.bounds,
            losses,
            spec.unit,
            None if stale is None and cost is None else self.limits(stale, cost),
            following,
            spec.judged,
        )

    def _trainable(self, name: str, course: Course) -> Callable[[dict[str, Any]], None]:
        """Return the function of this name that Tune calls; the metrics get to the workers by Ray's store."""
        shared = (ray.put(self.trials),)  # Tune would bring it again for each trial
        trainable: Callable[[dict[str, Any]], None]
        trainable = tune.with_parameters(train_shared, shared=shared, course=course)
        trainable.__name__ = re.sub(r"[^\w.-]+", "_", name)  # Tune names folders by it
        return trainable

    def _run_config(self, own: tune.RunConfig | None, hands_on: bool) -> tune.RunConfig:
        """Return Tune's settings, with the logger whose files it reads at the end."""
        if own is None:
            path = None if self.trials.directory is None else str(self.trials.directory / "ray")
            settings = tune.RunConfig(storage_path=path, verbose=0, callbacks=[])
            settings.checkpoint_config = _KEPT[Keep(self.trials.spec.checkpoints)]
            if hands_on:
                settings.checkpoint_config = tune.CheckpointConfig(num_to_keep=_KEPT_BY_TUNE)
        else:
            settings = copy(own)
            checkpoints: Any = own.checkpoint_config
            count = checkpoints.num_to_keep
            if hands_on and count is not None and count < _KEPT_BY_TUNE:
                settings.checkpoint_config = replace(checkpoints, num_to_keep=_KEPT_BY_TUNE)
        settings.callbacks = list(settings.callbacks or ())
        if own is None or loggers_on():
            settings.callbacks = _with_logger(settings.callbacks, hands_on)
        return settings


def _course_of(scheduler: TrialScheduler) -> Course:
    """Return how a process trains the trials of a scheduler."""
    if isinstance(scheduler, Population):
        return MemberCourse(scheduler.kind, scheduler.interval)
    if isinstance(scheduler, Replay):
        return ReplayCourse(scheduler.read)
    return ReallocatedCourse() if isinstance(scheduler, Reallocating) else Course()


def _read_record(directory_of: Callable[[int], Path | None], number: int) -> TrialRecord | None:
    """Return what a trial has written on disk."""
    home = directory_of(number)
    return None if home is None else read_trial(home)


def _name_of(train: Train) -> str:
    """Return the name of a function, or that of the class of an object that is called."""
    function = train.func if isinstance(train, partial) else train
    return getattr(function, "__name__", type(function).__name__).strip("<>")


def _with_logger(callbacks: Iterable[tune.Callback], members: bool) -> list[tune.Callback]:
    """Return callbacks with a logger whose files Tune reads; ours replaces Tune's own.

    Args:
        callbacks: the user's.
        members: whether the trials are the members of a population (`MemberLog`) or not (`TrialLog`).
    """
    others = [one for one in callbacks if type(one) is not JsonLoggerCallback]
    if not any(isinstance(one, JsonLoggerCallback) for one in others):
        others.append(MemberLog() if members else TrialLog())  # type: ignore[no-untyped-call]
    return others


def _count_open(study: optuna.Study, take: Callable[[int], bool] | None) -> int:
    """Return how many trials of a study are still to be run.

    Raises:
        RunError: none are.
    """
    states = [OptunaState.WAITING] if take is None else [OptunaState.WAITING, OptunaState.RUNNING]
    count = len(study.get_trials(deepcopy=False, states=tuple(states)))
    if count == 0:
        raise RunError(f"the study {study.study_name!r} already has all its trials; set a larger num_samples")
    return count
