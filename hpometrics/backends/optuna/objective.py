"""A callable for `study.optimize` whose direction is the metric's."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from threading import Lock, get_ident
from typing import Any, Self

import optuna
from optuna.study import MaxTrialsCallback
from optuna.trial import BaseTrial, FrozenTrial, Trial, TrialState as OptunaState

from ...direction import Direction
from ...exceptions import DirectionError, HpometricsError, NoFiniteValueError, RecordError, RunError
from ...records.trial_record import EpochRecord, TrialRecord, TrialState
from ...run.distributed import Ranks
from ...run.reporter import ListReporter
from ...run.spec import Train
from ...selection.limits import Limits
from ...selection.rules import At
from ...space.space import Space
from ..fresh_runs import FreshRuns
from ..live_table import SearchProgress
from ..objective import BaseObjective, check_limits
from ..registry import check_prune_by, check_several
from ._internals import is_stopped, log_without_traceback, optimizing, storage_of, trial_id_of
from .database import cause_of
from .fresh_study import FreshStudy
from .prior import Source, warm_start as learn_from
from .pruners import make_pruner, own_pruner
from .reporter import OptunaReporter, warn_of_last_epochs
from .samplers import make_sampler
from .storage import FRESH_RUNS, storing
from .study import check_origin, check_study, study_records, without_notices, write_panel, write_result
from .trial_queue import Participant, TrialFileLocks, reclaim

_STARTED = tuple(state for state in OptunaState if state is not OptunaState.WAITING)
_FIRST_LOCK = Lock()

_log = logging.getLogger("hpometrics")


class OptunaObjective(BaseObjective):
    """Draws params, trains, reports every epoch and returns the value of the picked one.

    With several objectives, Optuna gets no reports, because it prunes by a single value. A trial then stops
    only if `prune_by` names a rule, and the values of the picked epoch are returned. See `BaseObjective` for
    the arguments.
    """

    _study: optuna.Study | None = None
    _search_method = "optimize"

    def __init__(self, train: Train, space: Space | Mapping[str, Any], **facts: Any) -> None:
        super().__init__(train, space, **facts)
        self._locks: TrialFileLocks | None = None  # until there is a trial to lock
        self._at_work: dict[int, int] = {}  # the trial of each thread
        self._following = SearchProgress()

    def __getstate__(self) -> dict[str, Any]:
        of_no_trial: dict[str, Any] = {"_locks": None, "_at_work": {}, "_following": SearchProgress()}
        return vars(self) | of_no_trial  # a copy works on none

    def create_study(
        self, *, warm_start: Sequence[Source] = (), enqueue: int = 1, **arguments: Any
    ) -> optuna.Study:
        """Create a study in the direction of each metric.

        Args:
            warm_start: earlier searches, see `attach`.
            enqueue: the number of the best trials of each whose params are tried first.
            arguments: those of `optuna.create_study`; `sampler` and `pruner` may be names (see
                `make_sampler` and `make_pruner`). A sampler that is created here has this objective's seed.

        Raises:
            DirectionError: `direction` or `directions` differs from the metrics' own.
            ConfigError: there are several objectives, and a sampler or pruner supports one alone.
        """
        self._check_directions(arguments)
        sampler, pruner = arguments.pop("sampler", None), arguments.pop("pruner", None)
        prune_by = self.trials.spec.prune_by
        check_prune_by(prune_by, pruner)
        check_several(self.optimized, sampler, None if prune_by else pruner)
        sampler = make_sampler(
            "tpe" if sampler is None else sampler, self.trials.seed, bool(self.trials.spec.constraints)
        )
        if pruner is None and len(self.optimized) > 1:
            pruner = "none"
        if pruner is not None:
            pruner = make_pruner(pruner, self.trials.spec.most_reports, prune_by)
        others = {name: value for name, value in arguments.items() if name not in ("direction", "directions")}
        directions: Any = [direction.value for direction in self.directions]
        study = optuna.create_study(**others, directions=directions, sampler=sampler, pruner=pruner)
        self._check(study)
        self._learn(study, warm_start, enqueue)
        return study

    def attach(
        self,
        study: optuna.Study,
        adopt: bool = False,
        *,
        warm_start: Sequence[Source] = (),
        enqueue: int = 1,
    ) -> Self:
        """Check a study against this objective before a trial is drawn, and write its metric and space to it.

        In `study.optimize(objective)` alone the first trial would find out, and fail.

            study.optimize(objective.attach(study, adopt=True), n_trials=50)

        Args:
            study: new or stored.
            adopt: accept finished trials that do not say which metric their values are of.
            warm_start: earlier searches, each a study or the directory of an objective or of a sweep. The
                sampler learns from their trials, which are not added to the study: no pruner compares with
                them, and none is the best. A stored study keeps what was taken, so later calls agree.
            enqueue: the number of the best trials of each whose params a new study tries first.

        Returns:
            The objective.

        Raises:
            DirectionError: the study, or an earlier one, has another direction.
            RecordError: it has trials of another metric or space, or of an unknown metric without `adopt`.
            ConfigError: an earlier search has no values of the metric.
        """
        self._check(study, adopt)
        self._learn(study, warm_start, enqueue)
        if adopt and self.trials.spec.at is At.BEST:
            warn_of_last_epochs(study, self.optimized)
        return self

    def __call__(self, trial: BaseTrial) -> float | tuple[float, ...]:
        """Run one trial and return its value; a run without a finite value returns nan, which Optuna fails.

        For several objectives it returns their values in their order. `attach` checks a study beforehand.

        Raises:
            optuna.TrialPruned: the pruner stopped the trial.
            Exception: what `train` raised, after it is recorded.
        """
        study = getattr(trial, "study", None)
        if study is not None and study is not self._study:
            try:
                self._check(study)
            except HpometricsError as err:
                err.add_note("objective.attach(study) checks this before a trial is drawn")
                log_without_traceback(err)
                raise
        live = isinstance(trial, optuna.trial.Trial)  # a fixed or frozen one is a replay
        if live:
            self._lock(trial.number)
        try:
            params = self.space.suggest(trial)
            reporter = OptunaReporter(trial, keeps_panel=False, following=self._following)
            record, error = self.trials.run(params, reporter, keep=live)
        finally:
            if live and self._locks is not None:
                self._locks.rest(trial.number)
        write_result(trial, record)
        self._following.end(record)
        if record.epoch is not None:
            write_panel(trial, None, EpochRecord(record.epoch, record.picked_values, step=record.step))
        if error is not None and not isinstance(error, NoFiniteValueError):
            raise error
        scores = record.scores(self.optimized)
        whole = scores if error is None else (math.nan,) * len(scores)
        return whole if len(whole) > 1 else whole[0]

    def optimize(
        self,
        study: optuna.Study | None = None,
        n_trials: int | None = None,
        *,
        stale: int | None = None,
        cost: float | None = None,
        progress: bool = False,
        **arguments: Any,
    ) -> None:
        """Run trials until the study has `n_trials` in all, as `hpometrics run` does; a new call continues.

        Trials of earlier processes count, whether a storage or the `directory` has them. With a directory, a
        trial whose process died is resumed first, under its own number and from its last checkpoint.

        In a process group, every rank calls it after the group is initialized. `train` gets the same params
        on all ranks, and a stopped trial ends on all ranks at the same epoch. An error that `train` raises on
        one rank ends the process of that rank, so that no other rank waits for it.

        Args:
            study: the study on the first rank; the others pass none.
            n_trials: the total; several processes that share a storage may each run one more. None runs until
                `timeout`, `stale`, `cost` or `study.stop()`.
            stale: complete trials in a row without a new best, by more than `tol`, after which none starts,
                those of earlier calls included; see `trials_since_best`.
            cost: what the trials cost, in the objective's `cost_unit`, when none starts any more; those of
                earlier calls count.
            progress: whether to print a line per trial to stderr, in place of Optuna's; a terminal and a
                notebook have a live line.
            arguments: further arguments of `study.optimize`; in a process group not `catch` and `n_jobs`.

        Raises:
            RunError: the first rank has no study, `stale` is below 1, `cost` is not above 0, or the ranks
                would diverge by an argument or a retry.
            RankError: another rank has failed.
        """
        check_limits(stale, cost)
        ranks = Ranks()
        if not ranks.alone:
            self._check_alike(arguments)
        if not ranks.leads:
            while (trial := ranks.from_first(_no_trial)) is not None:
                self._follow(*trial)
            return
        if study is None:
            raise RunError("the first rank optimizes a study; create one with objective.create_study()")
        if study is not self._study:
            self._check(study)  # before a trial is asked for

        def begin(trial: optuna.Trial) -> tuple[int, Mapping[str, Any]]:
            self._lock(trial.number)
            return trial.number, self.space.suggest(trial)

        def lead(trial: optuna.Trial) -> float | tuple[float, ...]:
            ranks.from_first(partial(begin, trial))
            try:
                return self(trial)
            except KeyboardInterrupt as err:
                raise _Interrupted from err

        quietly = without_notices if progress else nullcontext
        home = self.trials.directory
        participant = None if home is None else Participant(home / ".locks" / "processes")
        try:
            self._following = self._search_progress(progress, study_records(study) if progress else ())
            with self._following.live(n_trials):
                callbacks = [*(arguments.pop("callbacks", None) or ())]
                take, catch = partial(self._take_orphan, participant), arguments.get("catch", ())
                stopped = False
                while not stopped and (orphan := reclaim(study, take)) is not None:
                    stopped = finish(study, orphan, lead, catch, callbacks)
                if not stopped:
                    left, ends = self._ends(study, n_trials, stale, cost, arguments.get("timeout"))
                    with quietly():
                        study.optimize(lead, n_trials=left, callbacks=[*callbacks, *ends], **arguments)
        except _Interrupted as err:
            raise KeyboardInterrupt from err.__cause__
        finally:
            self._following = SearchProgress()
            self._unlock(*self._at_work)
            if participant is not None:
                participant.leave()
        ranks.from_first(_no_trial)

    def _ends(
        self,
        study: optuna.Study,
        total: int | None,
        stale: int | None,
        cost: float | None,
        timeout: float | None,
    ) -> tuple[int | None, list[Callable[[optuna.Study, FrozenTrial], None]]]:
        """Return how many trials are left to start, and the callbacks that stop the study."""
        left, callbacks = total, list[Callable[[optuna.Study, FrozenTrial], None]]()
        if total is not None:
            started = sum(trial.state in _STARTED for trial in study.get_trials(deepcopy=False))
            callbacks.append(MaxTrialsCallback(max(started + 1, total), states=_STARTED))
            left = max(0, total - started)
        if stale is not None or cost is not None:
            is_open = total is None and timeout is None
            limits, ended = self.limits(stale, cost, is_open), dict[int, TrialRecord]()
            if limits.reached(study_records(study, ended)):
                left = 0
            callbacks.append(partial(_stop_at, limits, ended))
        return left, callbacks

    def _take_orphan(self, participant: Participant | None, number: int) -> bool:
        """Lock a running trial whose process died; return False if it may be alive.

        A process locks a trial just after Optuna has added it. A trial without files may be one that another
        process is about to lock.
        """
        home = self.trials.directory_of(number)
        if home is None or participant is None or not (home.exists() or participant.alone()):
            return False
        return self._take(number)

    def _take(self, number: int) -> bool:
        """Lock a trial for this thread; return False if another process has it, or without a directory.

        The lock stays until the thread starts another trial, since the study gets the result in between.
        """
        if self.trials.directory is None:
            return False
        self._unlock(get_ident())
        with _FIRST_LOCK:  # with one object for each of two threads, one would be lost with its lock
            self._locks = self._locks or TrialFileLocks(self.trials.directory / ".locks")
        if not self._locks.take(number):
            return False
        self._at_work[get_ident()] = number
        return True

    def _lock(self, number: int) -> None:
        """Lock a trial that starts.

        Raises:
            RecordError: another process works on the trial of this number in the directory.
        """
        home = self.trials.directory
        if home is None:
            return
        reclaimed = self._locks is not None and self._locks.is_at_work(number)
        if not (reclaimed and self._at_work.get(get_ident()) == number) and not self._take(number):
            raise RecordError(
                f"another process is running trial {number} in {home}; use a separate directory for each "
                "study, or one storage for all processes"
            )

    def _unlock(self, *threads: int) -> None:
        """Unlock the trials of threads."""
        for thread in threads:
            number = self._at_work.pop(thread, None)
            if number is not None and self._locks is not None:
                self._locks.release(number)

    def _check_alike(self, arguments: Mapping[str, Any]) -> None:
        """Refuse arguments by which the ranks of a group would run other trials than the first.

        Raises:
            RunError: `retries`, `catch` or `n_jobs` is set.
        """
        if self.trials.retries:
            raise RunError("leave out retries=: when one rank fails, all ranks fail")
        for name in {"catch", "n_jobs"} & arguments.keys():
            raise RunError(
                f"leave {name}= out: all ranks run the same trials one after another and fail together"
            )

    def _follow(self, number: int, params: Mapping[str, Any]) -> None:
        """Run a trial of the first rank, which has the study and the directory."""
        record, error = self.trials.run(params, ListReporter(number, params))
        shared = record.state is TrialState.PRUNED or isinstance(error, NoFiniteValueError)
        if error is not None and not shared:
            raise error

    def records(self, of: optuna.Study) -> list[TrialRecord]:
        """Return the record of every trial of a study, with all its epochs where they are on disk.

        Args:
            of: the study.

        Raises:
            RunError: there is none.
        """
        if of is None:
            raise RunError("the trials are in a study; pass it, as in objective.best(study)")
        return [
            self.trials.with_epochs(record) if record.state.finished else record
            for record in study_records(of)
        ]

    def _show_fresh_runs(self, of: optuna.Study, runs: FreshRuns) -> None:
        try:
            with storing():
                FreshStudy(storage_of(of), of.study_name, self.optimized, self.space).show(runs.ended)
        except (HpometricsError, OSError) as err:  # the trainings are worth more
            name = f"{of.study_name}{FRESH_RUNS}"
            _log.warning("the study %r lacks the trainings of the confirmation: %s", name, cause_of(err))

    def _check_directions(self, arguments: Mapping[str, Any]) -> None:
        several, one = arguments.get("directions"), arguments.get("direction")
        if several is None and one is None:
            return
        requested: list[Any] = [one] if several is None else list(several)
        if [Direction.parse(getattr(one, "name", one)) for one in requested] != self.directions:
            goals = ", ".join(f"{name} must be {one.value}d" for name, one in self.optimized.items())
            word = "direction" if several is None else "directions"
            raise DirectionError(f"{goals}, but {word}= is {', '.join(map(str, requested))}")

    def _learn(self, study: optuna.Study, sources: Sequence[Source], enqueue: int) -> None:
        """Show earlier searches to the sampler of a study, and enqueue their best points if it is new."""
        if sources:
            points = learn_from(study, sources, self.space, self.trials.spec, enqueue)
            for point in points if not study.get_trials(deepcopy=False) else ():
                study.enqueue_trial(dict(point))

    def _check(self, study: optuna.Study, adopt: bool = False) -> None:
        prune_by = self.trials.spec.prune_by
        check_prune_by(prune_by, study.pruner)
        check_several(self.optimized, study.sampler, None if prune_by else own_pruner(study))
        check_study(study, self.optimized, self.trials.facts, write=False)
        check_origin(study, list(self.optimized), self.space, adopt=adopt)
        check_study(study, self.optimized, self.trials.facts)
        self._study = study


class _Interrupted(BaseException):
    """Ctrl-C in a trial: Optuna would count a `KeyboardInterrupt` as the trial's failure."""


def _no_trial() -> None:
    """Return None, which the first rank sends in the place of a trial after the last one."""


def finish(
    study: optuna.Study,
    trial: Trial,
    objective: Callable[[Trial], float | Sequence[float]],
    catch: type[Exception] | Iterable[type[Exception]],
    callbacks: Iterable[Callable[[optuna.Study, FrozenTrial], None]],
) -> bool:
    """Run a trial that was started before, as `study.optimize` runs one that it asks for.

    Returns:
        Whether the objective or a callback has called `study.stop()`.

    Raises:
        Exception: what the objective raised, after the trial is marked as failed, unless `catch` has it.
    """
    with optimizing(study, trial):
        try:
            values = objective(trial)
        except optuna.TrialPruned:
            study.tell(trial, state=OptunaState.PRUNED)
        except Exception as err:  # whatever the user's code raises fails the trial
            study.tell(trial, state=OptunaState.FAIL)
            if not isinstance(err, tuple(catch) if isinstance(catch, Iterable) else catch):
                raise
        else:
            study.tell(trial, values)
        for callback in callbacks:
            callback(study, deepcopy(storage_of(study).get_trial(trial_id_of(trial))))
    return is_stopped(study)


def _stop_at(limits: Limits, ended: dict[int, TrialRecord], study: optuna.Study, trial: FrozenTrial) -> None:
    """Stop a study whose trials have reached a limit: a callback of `study.optimize`."""
    if limits.reached(study_records(study, ended)):
        study.stop()
