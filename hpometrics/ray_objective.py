"""RayObjective: a trainable for `tune.Tuner`, and the tuner whose direction is the metric's."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState as OptunaState
from ray import tune
from ray.tune.logger import JsonLoggerCallback

from .exceptions import DiskError, ObjectiveError, RunError
from .logs.loggers import LoggerLike
from .objective import Objective
from .redaction import redacted
from .run.spec import Train
from .run.trials import Trials, as_space, make_trials
from .search.epoch_log import Fsync
from .search.one_se import Pick
from .search.optuna_backend import check_study, make_sampler, reserve, study_records
from .search.ray_backend import StudySearcher, TuneReporter, check_resources, make_scheduler, start_ray
from .search.record import TrialRecord
from .search.selection import At, Best, best_of
from .search.space import Space
from .search.study_origin import check_origin


class RayObjective:
    """Trains in Ray workers, reports every epoch, and lets a scheduler stop what is hopeless.

    Args:
        train: `train(params, run)`.
        space: a `Space` or the mapping that makes one.
        directory, seed, fsync, loggers, repeats, retries: see `Trials`; the workers must see the directory.
        facts: see `RunSpec`: `metric`, `output`, `track`, `at`, `epochs`, `patience`, ...

    Raises:
        RunError: there are several repeats and no directory: Tune hears of the first alone.
    """

    def __init__(
        self,
        train: Train,
        space: Space | Mapping[str, Any],
        *,
        directory: Path | str | None = None,
        seed: int | None = None,
        fsync: Fsync = "epoch",
        loggers: Sequence[LoggerLike] = (),
        repeats: int = 1,
        retries: int = 0,
        **facts: Any,
    ) -> None:
        self.space = as_space(space)
        self.trials = make_trials(
            train, directory, seed, fsync, loggers, facts, self.space.params, repeats, retries
        )
        if repeats > 1 and directory is None:
            raise RunError("repeats on Ray are told by the record of a trial; give directory=")
        self.study: optuna.Study | None = None

    @property
    def direction(self) -> Objective:
        """The metric's own."""
        return self.trials.spec.objective

    def tuner(
        self,
        num_samples: int,
        *,
        scheduler: object = None,
        sampler: object = "tpe",
        study: optuna.Study | None = None,
        points: Iterable[Mapping[str, Any]] = (),
        resources: Mapping[str, float] | None = None,
        max_concurrent: int | None = None,
        take: Callable[[int], bool] | None = None,
        run_config: tune.RunConfig | None = None,
        **tune_config: Any,
    ) -> tune.Tuner:
        """Build a tuner for one `fit()`; Ray is started unless it runs.

        Args:
            num_samples: trials in all, those that `study` has already included.
            scheduler: see `make_scheduler`.
            sampler: see `make_sampler`.
            study: keeps the trials; a new one in memory unless given.
            points: params to try first.
            resources: of one trial, `{"cpu": 1}` unless given.
            max_concurrent: trials at a time; as many as fit unless given.
            take: see `claim`; trials of dead workers go on first.
            run_config: Tune's own.
            tune_config: further arguments of `tune.TuneConfig`, but no `metric` and no `mode`.

        Raises:
            ObjectiveError: a scheduler, a study or `mode` says another direction.
            ConfigError: a scheduler, sampler or resource that does not exist.
            RunError: the study has all its trials already.
        """
        for name in {"metric", "mode"} & tune_config.keys():
            raise ObjectiveError(
                f"{self.trials.spec.name} is to {self.direction.value}; leave {name}={tune_config[name]!r} "
                "out: the scheduler is told the current value and the searcher the picked one"
            )
        start_ray()
        wanted = dict(resources or {"cpu": 1})
        check_resources(wanted)
        study = self._prepared(study, sampler, num_samples, points)
        config = tune.TuneConfig(
            search_alg=self._searcher(study, take),
            scheduler=make_scheduler(scheduler, self.direction, self.trials.spec.epochs),
            num_samples=_left(study, take),
            max_concurrent_trials=max_concurrent,
            **{"reuse_actors": False, **tune_config},  # a slow end of one trial would lose the next
        )
        shared = tune.with_parameters(train_one, trials=self.trials, space=self.space)
        trainable = tune.with_resources(shared, wanted)
        return tune.Tuner(trainable, tune_config=config, run_config=run_config or self._run_config())

    def records(self, results: Any = None) -> list[TrialRecord]:
        """Return the record of every trial of the tuner's study.

        Args:
            results: of `fit()`; only its trials, or all of the study if None.

        Raises:
            RunError: there was no tuner.
        """
        if self.study is None:
            raise RunError("records come from a tuner of this objective; call tuner(...).fit() first")
        found = study_records(self.study)
        if results is not None:
            numbers = {result.config["number"] for result in results}
            found = [record for record in found if record.number in numbers]
        return [self.trials.with_epochs(record) if record.state.finished else record for record in found]

    def best(self, results: Any = None, pick: Pick | str = Pick.BEST) -> Best:
        """Return the best trial.

        Args:
            results: see `records`.
            pick: `best`, or `one_se`, the simplest within its error; see `simplest_within_error`.

        Raises:
            NoFiniteValueError: none is complete, or `one_se` finds no repeats.
        """
        return best_of(self.records(results), self.trials.spec.name, self.direction, pick)

    def _prepared(
        self, study: optuna.Study | None, sampler: object, total: int, points: Iterable[Mapping[str, Any]]
    ) -> optuna.Study:
        if study is None:
            study = optuna.create_study(
                direction=self.direction.value, sampler=make_sampler(sampler, self.trials.seed)
            )
        facts = {"constraints": self.trials.spec.bounded}
        check_study(study, self.trials.spec.name, self.direction, facts)
        check_origin(study, [self.trials.spec.name], self.space)
        reserve(study, total, [self.space.encode(point) for point in points])
        self.study = study
        return study

    def _searcher(self, study: optuna.Study, take: Callable[[int], bool] | None) -> StudySearcher:
        spec = self.trials.spec
        return StudySearcher(
            study,
            self.space,
            self.direction,
            At(spec.at),
            self.trials.directory_of,
            take,
            spec.bounds,
            0 if take is None else self.trials.retries,
        )

    def _run_config(self) -> tune.RunConfig:
        logger = JsonLoggerCallback()  # type: ignore[no-untyped-call]
        path = None if self.trials.directory is None else str(self.trials.directory / "ray")
        return tune.RunConfig(storage_path=path, verbose=0, callbacks=[logger])


def make_trainable(trials: Trials, space: Space) -> Callable[[dict[str, Any]], None]:
    """Return a function trainable: of our searcher's config, or of one that `space.to_ray()` made.

    Once Tune has stopped a trial it ends as Tune expects, whatever `train` made of the stop.
    """

    def trainable(config: dict[str, Any]) -> None:
        train_one(config, trials, space)

    return trainable


def train_one(config: dict[str, Any], trials: Trials, space: Space) -> None:
    """Run the trial of a config; what all trials share reaches a worker by Ray's object store."""
    number = config.get("number")
    params = config["params"] if number is not None else space.decode(config)
    reporter = TuneReporter(number, params)
    try:
        _, error = trials.run(params, reporter)
    except DiskError as err:  # its record could not be written
        error = err
    if isinstance(error, DiskError):
        reporter.give_up(redacted(str(error)))
    if reporter.stopped:
        raise SystemExit(0)
    if error is not None:
        raise _without_secrets(error)


def _without_secrets(error: BaseException) -> BaseException:
    """Give the error as Ray may write it to its files."""
    text = "".join(traceback.format_exception(error))  # with its causes, which Ray writes too
    return error if redacted(text) == text else RunError(redacted(f"{type(error).__name__}: {error}"))


def _left(study: optuna.Study, take: Callable[[int], bool] | None) -> int:
    states = [OptunaState.WAITING] if take is None else [OptunaState.WAITING, OptunaState.RUNNING]
    count = len(study.get_trials(deepcopy=False, states=tuple(states)))
    if count == 0:
        raise RunError(
            f"the study {study.study_name!r} has all its trials already; give a larger num_samples"
        )
    return count
