"""The objective of every backend, with its trials and the best of them, and that of a list of params."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from .._formatting import html_lines, html_table
from .._redaction import excerpt, mask_secrets
from .._text import did_you_mean
from ..direction import Direction
from ..exceptions import ConfigError, DirectionError, RunError
from ..loggers.registry import LoggerLike
from ..records.epoch_log import Fsync
from ..records.trial_record import TrialRecord
from ..run.reporter import ListReporter
from ..run.spec import RunSpec, Train
from ..run.trials import as_space, make_trials
from ..selection.confirm_settings import ConfirmSettings
from ..selection.confirmation import Confirmation, ConfirmationState, HonestValue, Standing
from ..selection.front_confirmation import FrontConfirmation
from ..selection.limits import Limits
from ..selection.rules import Pick, is_amount
from ..selection.selection import Best, best_by, pareto_front
from ..space.dimensions import describe
from ..space.space import Space
from ..space.values import is_whole
from .fresh_runs import FreshRuns, confirm_together
from .live_table import PrintedProgress, SearchProgress
from .trial_lines import TrialLines

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class Confirmed:
    """The winner of a search whose best trials were trained again, and what decided it.

    Attributes:
        best: the winner; its value is the mean of its fresh runs, with their deviation and number.
        confirmation: the looks, the standing of each contender, and how it ended.
    """

    best: Best
    confirmation: Confirmation

    @property
    def state(self) -> ConfirmationState:
        """Whether the winner is decided, practically tied, or the trainings are spent."""
        return self.confirmation.state

    @property
    def honest(self) -> HonestValue | None:
        """The value to expect of the winner's params, with its interval."""
        return self.confirmation.honest

    @property
    def may_lose(self) -> float | None:
        """With confidence, no other contender is better by more than this."""
        return self.confirmation.may_lose

    @property
    def contenders(self) -> tuple[Standing, ...]:
        """The standing of each contender, the winner first."""
        return self.confirmation.standings

    def __str__(self) -> str:
        return "\n".join(self.confirmation.lines(_params_text(self.best.params)))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_lines(str(self))


class BaseObjective:
    """The trials of a search, their records and the best of them.

    Args:
        train: `train(params, run)`.
        space: a `Space` or the mapping of one.
        directory, seed, fsync, loggers, repeats, retries: see `Trials`.
        facts: see `RunSpec`: `metric`, `output`, `track`, `at`, `epochs`, `patience`, ...

    Raises:
        TypeError: there is no such argument.
    """

    _search_method = "run"  # the method that takes `progress`

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
        self._check_names(facts)
        self.trials = make_trials(
            train, directory, seed, fsync, loggers, facts, self._values(), repeats, retries
        )

    def __repr__(self) -> str:
        params = excerpt(", ".join(self.space.dimensions) or "a list", 200)
        return f"{type(self).__name__}({self.trials.spec.goal}, over {params})"

    def _repr_html_(self) -> str:
        title = self.trials.spec.goal
        rows = []
        for name, dimension in self.space.dimensions.items():
            facts = describe(dimension)
            kind = facts.pop("kind")
            rows.append((name, kind, ", ".join(f"{k} {v}" for k, v in facts.items() if v is not False)))
        return html_table([("param", "kind", ""), *rows], title)

    @property
    def optimized(self) -> Mapping[str, Direction]:
        """The direction of each metric that is optimized, by name."""
        return self.trials.spec.optimized

    @property
    def directions(self) -> list[Direction]:
        """The direction of each metric that is optimized, in their order."""
        return list(self.optimized.values())

    @property
    def direction(self) -> Direction:
        """The direction of the metric, as the backends take it.

        Raises:
            DirectionError: there are several metrics; `directions` has theirs.
        """
        if len(self.optimized) > 1:
            goals = ", ".join(f"{name} must be {one.value}d" for name, one in self.optimized.items())
            raise DirectionError(f"several objectives have no single direction: {goals}; use directions")
        return self.directions[0]

    def records(self, of: Any) -> list[TrialRecord]:
        """Return the record of every trial.

        Args:
            of: the study or the results that have the trials.
        """
        raise NotImplementedError(f"{type(self).__name__} must define where the records of {of!r} are")

    def best(self, of: Any = None, pick: Pick | str = "best") -> Best:
        """Return the best trial.

        Args:
            of: see `records`.
            pick: `best`, or the simplest or the cheapest within its error, `one_se` or `cheapest_within_se`;
                see `simplest_within_error`. For several objectives `knee`, or the number of a trial of the
                front; see `knee_of`.

        Raises:
            NoFiniteValueError: no trial is complete, or the rule needs repeats and the trials have none.
            ConfigError: there are several objectives and `pick` is `best`, or there is no such way to pick.
        """
        return best_by(self.records(of), self.optimized, pick, self.trials.spec.unit)

    def confirm(
        self,
        of: Any = None,
        *,
        top: int = 5,
        repeats: int = 8,
        equivalence: float | Literal["luck"] = "luck",
        until: Literal["decided", "spent"] = "decided",
        level: float = 0.05,
    ) -> Confirmed:
        """Train the best trials again, under fresh seeds that they share, until one of them is decided.

        With a directory, trainings that exist are used again, and an interrupted call resumes. In a process
        group every rank calls it, and all return what the first one has decided.

        Args:
            of: see `records`; the first rank counts.
            top: the number of contenders.
            repeats: the most fresh seeds of each.
            equivalence: a difference that does not matter, in the metric's unit, or `luck`.
            until: `decided`, or `spent` to train all seeds.
            level: the share of such verdicts that may be wrong.

        Returns:
            The winner with what decided it; printed, it says so in words.

        Raises:
            ConfigError: a setting is out of range, or there are several objectives, see `confirm_front`.
            NoFiniteValueError: fewer than two trials are complete.
        """
        if len(self.optimized) > 1:
            raise ConfigError(
                f"confirm decides by one metric, but {' and '.join(self.optimized)} are optimized; use "
                "confirm_front to retrain the trials of their front"
            )
        settings = ConfirmSettings(top, repeats, equivalence, until, level)
        return self._train_again(of, settings, lambda runs, end: Confirmed(runs.best(end), end))

    def confirm_front(
        self, of: Any = None, *, top: int = 5, repeats: int = 8, level: float = 0.05
    ) -> FrontConfirmation:
        """Train the trials of a front again, under seeds that they share, and compute it from their means.

        With a directory, trainings that exist are used again, and an interrupted call resumes.

        Args:
            of: see `records`.
            top: the most trials: the best in each objective, then those that are farthest from each other.
            repeats: the fresh seeds of each.
            level: how often an interval misses the true mean.

        Returns:
            The new front; printed, it says so in words.

        Raises:
            ConfigError: a setting is out of range, or there is one objective, see `confirm`.
            NoFiniteValueError: the front has fewer than two trials.
        """
        if len(self.optimized) < 2:
            raise ConfigError(
                f"{' and '.join(self.optimized)} alone has no front; use confirm to decide its winner"
            )
        settings = ConfirmSettings(top, repeats, until="spent", level=level)
        end: FrontConfirmation = self._train_again(of, settings, lambda _, end: end)
        return end

    def _train_again(self, of: Any, settings: ConfirmSettings, conclude: Callable[[FreshRuns, Any], T]) -> T:
        """Train contenders again, and return the conclusion from their runs and how these ended."""

        def course() -> Generator[Any, Any, T]:
            runs = FreshRuns(self.trials, self.records(of), settings)
            end = yield from runs.course()
            self._show_fresh_runs(of, runs)
            return conclude(runs, end)

        return confirm_together(self.trials, course())

    def _show_fresh_runs(self, of: Any, runs: FreshRuns) -> None:
        """Show the runs of a confirmation where the backend shows its trials, if it does."""

    def front(self, of: Any = None) -> list[Best]:
        """Return the feasible trials that no other one dominates, best first by the first objective.

        Args:
            of: see `records`.

        Raises:
            NoFiniteValueError: no trial is complete.
        """
        return [Best.of(record, self.optimized) for record in pareto_front(self.records(of), self.optimized)]

    def limits(self, stale: int | None = None, cost: float | None = None, is_open: bool = False) -> Limits:
        """Return the limits of a search by what its trials bring and cost.

        Args:
            stale: complete trials in a row without a new best; None is never reached.
            cost: what the trials that have ended may cost, in the search's `cost_unit`; None is never
                reached.
            is_open: whether nothing else ends the search, see `Limits`.

        Raises:
            RunError: see `check_limits`.
        """
        check_limits(stale, cost)
        spec = self.trials.spec
        return Limits(self.optimized, spec.tol, spec.unit, stale, cost, is_open)

    def _search_progress(self, progress: bool, earlier: Iterable[TrialRecord] = ()) -> SearchProgress:
        """Return what prints the trials of a search to stderr, as `hpometrics run` does.

        Args:
            progress: whether it prints anything.
            earlier: the trials before, among which the best one may be.
        """
        if not progress:
            return SearchProgress()
        spec = self.trials.spec
        beside = {one.name: one.direction for one in spec.requested if one.name != spec.name}
        finished = [record for record in earlier if record.state.finished]
        lines = TrialLines(self.optimized, beside, finished, retries=self.trials.retries)
        most, unit = (spec.epochs, "ep") if spec.steps is None else (spec.steps, "steps")
        return PrintedProgress(lines, finished, most, unit)

    def _check_names(self, facts: Iterable[str]) -> None:
        """Check that each fact is one of `RunSpec`."""
        names = [field.name for field in fields(RunSpec) if field.init]
        for name in facts:
            if name in names:
                continue
            hint = did_you_mean(name, names)
            if name == "progress":
                hint = f"; pass it to {self._search_method}(progress=...)"
            raise TypeError(f"{type(self).__name__} has no argument {name!r}{hint}")

    def _values(self) -> Mapping[str, Sequence[Any]]:
        """Return each param that a trial may have, with the values that it can take."""
        return self.space.params


class ListObjective(BaseObjective):
    """Trains each params of a list; a failure is recorded and the list continues.

    Args:
        train: `train(params, run)`.
        params: one mapping per trial.
        space: checks the params and adds its constants; None takes them as they are.
        settings: see `BaseObjective`, its facts included: `metric`, `output`, `directory`, `seed`, ...

    Raises:
        ConfigError: the settings have `prune_by`; no trial of a list is stopped.
    """

    def __init__(
        self,
        train: Train,
        params: Iterable[Mapping[str, Any]],
        *,
        space: Space | Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        if settings.get("prune_by") is not None:
            raise ConfigError("a list is trained without pruning; leave prune_by out")
        own = None if space is None else as_space(space)
        self.params = [dict(p) if own is None else own.decode(own.encode(p)) for p in params]
        super().__init__(train, own or {}, **settings)

    def run(
        self, *, stale: int | None = None, cost: float | None = None, progress: bool = False
    ) -> list[TrialRecord]:
        """Train all of them, or until they bring no new best or cost enough, and return their records.

        Args:
            stale: complete trials in a row without a new best, by more than `tol`, after which none starts;
                see `trials_since_best`.
            cost: what the trials cost, in the list's `cost_unit`, when none starts any more.
            progress: whether to print a line per trial to stderr; a terminal and a notebook have a live line.

        Raises:
            KeyboardInterrupt: after the trial that it struck is recorded as interrupted.
            RunError: `stale` is not a whole number of at least 1, or `cost` is not above 0.
        """
        limits = self.limits(stale, cost)
        following, records = self._search_progress(progress), list[TrialRecord]()
        with following.live(len(self.params)):
            for number, params in enumerate(self.params):
                if limits.reached(records):
                    break
                record, error = self.trials.run(params, _FollowedReporter(number, params, following))
                if error is not None and not record.state.finished:
                    raise error
                records.append(record)
                following.end(record)
        return records

    def records(self, of: Sequence[TrialRecord]) -> list[TrialRecord]:
        """Return the records as a list of their own.

        Args:
            of: what `run` returned.

        Raises:
            RunError: there are none.
        """
        if of is None:
            raise RunError("the trials are the records that run() returned; pass them, as in best(records)")
        return list(of)

    def _values(self) -> dict[str, tuple[Any, ...]]:
        values: dict[str, tuple[Any, ...]] = {}
        for one in self.params:
            for name, value in one.items():
                values[name] = (*values.get(name, ()), value)
        return values


class _FollowedReporter(ListReporter):
    """A reporter whose reports are followed as well."""

    def __init__(self, number: int, params: Mapping[str, Any], following: SearchProgress) -> None:
        super().__init__(number, params)
        self._following = following
        self._step: int | None = None
        following.reach(number)

    def at_epoch(self, epoch: int, step: int | None, picked: int | None) -> None:
        """Store the steps that are done."""
        self._step = step

    def report(
        self, epoch: int, value: float, picked: float, values: Mapping[str, float], final: bool
    ) -> None:
        """Keep the report of an epoch."""
        super().report(epoch, value, picked, values, final)
        if self.number is not None:
            self._following.reach(self.number, self._step or epoch + 1, value)


def check_limits(stale: object, cost: object) -> None:
    """Check the number of trials without a new best, and the cost, after which a search ends.

    Raises:
        RunError: `stale` is not a whole number of at least 1, or `cost` is not above 0; both may be None.
    """
    if stale is not None and (not is_whole(stale) or stale < 1):
        raise RunError(f"stale must be a whole number of at least 1, got {stale!r}")
    if cost is not None and not is_amount(cost):
        raise RunError(f"cost must be a number above 0, in the unit of cost_unit, got {cost!r}")


def _params_text(params: Mapping[str, Any]) -> str:
    shown = mask_secrets(dict(params))
    texts = {
        name: f"{value:.3g}" if isinstance(value, float) else str(value) for name, value in shown.items()
    }
    return " ".join(f"{name}={text}" for name, text in texts.items())
