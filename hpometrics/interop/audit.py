"""Checks: what misleads in a search, each check a function from the search to what it finds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence

from ..direction import Objective
from ..records.trial_record import TrialState
from ..results.formatting import duration, number
from .search import Finding, Search, Tried

Found = Iterator[Finding]

_HOUR = 3600.0  # of silence, after which nobody is at work
_DAY = 24 * _HOUR
_MANY = 10  # times as long as any trial that ended
_SHOWN = 8  # names of trials in a line
_WINS = {Objective.MINIMIZE: -math.inf, Objective.MAXIMIZE: math.inf}


def direction(search: Search) -> Found:
    """A search that went the other way than its metric says."""
    if search.known is None or search.stated in (None, search.known[1]):
        return
    metric, objective = search.known
    shown = search.metric if search.metric == metric else f"{search.metric}: {metric}"
    told = f"{shown} ({search.metric_from}) is to {objective}, and the search was told to {search.stated}"
    worst, best = _winner(search, search.stated), _winner(search, objective)
    named = tuple(one.name for one in (worst, best) if one is not None)
    if worst is not None and best is not None:
        told += f": its best, trial {worst.name} with {number(worst.value)}, is its worst"
        remedy = (
            f"search again to {objective}; of these trials the best is {best.name} with {number(best.value)}"
        )
    else:
        remedy = f"search again to {objective}"
    yield Finding("direction", told, remedy, named)


def not_finite(search: Search) -> Found:
    """Values that are nan or infinite in trials that count as complete."""
    odd = [one for one in search.complete if not math.isfinite(one.value or 0.0)]
    winning = [one for one in odd if search.stated is not None and one.value == _WINS[search.stated]]
    for one in winning[:1]:
        told = f"trial {one.name} is the best with {one.value}, which no finite value can beat"
        yield Finding(
            "not-finite", told, "let a diverged trial fail: raise where the value is not finite", (one.name,)
        )
    if odd and not winning:
        told = f"{_trials(odd)} complete with a value that is not finite"
        yield Finding("not-finite", told, "let a diverged trial fail, with its reason", _names(odd))


def last_epoch(search: Search) -> Found:
    """A best trial by its last epoch, where an earlier epoch of it or of another is better."""
    objective = search.objective
    ended = [one for one in search.complete if not one.infeasible and one.epochs and _is_last(one)]
    if objective is None or search.several or not ended:
        return
    peaks = [one.peak(objective) for one in ended]
    lost = [one for one, (_, value) in zip(ended, peaks, strict=True) if objective.better(value, one.last)]
    winner = _best(ended, [one.last for one in ended], objective)
    pick = _best(ended, [value for _, value in peaks], objective)
    if winner is None or pick is None or not lost or (pick is winner and pick not in lost):
        return
    epoch, value = peaks[ended.index(pick)]
    who = "it" if pick is winner else f"trial {pick.name}"
    told = (
        f"the best is trial {winner.name} with {number(winner.last)}, the value of its last epoch; {who} had "
        f"{number(value)} at epoch {epoch}, and {len(lost)} of {len(ended)} trials end below their best"
    )
    remedy = "report the value of the best epoch and keep its checkpoint, as a Run does"
    yield Finding("last-epoch", told, remedy, tuple(dict.fromkeys((winner.name, pick.name))))


def unreported(search: Search) -> Found:
    """A search none of whose trials reported an epoch, so that nothing could be stopped early."""
    ended = [one for one in search.trials if one.state.finished]
    if search.several or len(search.complete) < 2 or any(len(one.epochs) > 1 for one in ended):
        return
    told = f"none of {len(ended)} trials reported more than its end, so {search.judge} saw nothing to judge"
    yield Finding("unreported", told, "report every epoch; where training has none, --ignore unreported")


def pruned_unreported(search: Search) -> Found:
    """Trials that were stopped early without a value to judge them by."""
    pruned = [one for one in search.trials if one.state is TrialState.PRUNED and not one.epochs]
    if pruned:
        told = f"{_trials(pruned)} pruned without a reported value: no pruner judged {_them(pruned)}"
        remedy = "look for code that raises TrialPruned for an error; let errors fail the trial"
        yield Finding("pruned-unreported", told, remedy, _names(pruned))


def left_running(search: Search) -> Found:
    """Trials without an end: nobody has heard of them for an hour, or they take far too long.

    The latter shows where others are still at work, and in a copy, whose file is new.
    """
    open_ones = [one for one in search.trials if one.state is TrialState.RUNNING]
    longest = max((one.seconds or 0.0 for one in search.trials if one.state.finished), default=0.0)
    overdue = [one for one in open_ones if longest and (one.seconds or 0.0) > max(_DAY, _MANY * longest)]
    if open_ones and search.silence > _HOUR:
        told = f"{_trials(open_ones)} still running, and nothing was written for {duration(search.silence)}"
    elif open_ones := overdue:
        after = min(one.seconds or 0.0 for one in open_ones)
        told = (
            f"{_trials(open_ones)} still running after {duration(after)}, "
            f"and the longest that ended took {duration(longest)}"
        )
    else:
        return
    remedy = (
        "its process is gone: end it as failed, or samplers that look at running trials keep away from it"
    )
    yield Finding("left-running", told, remedy, _names(open_ones))


def duplicates(search: Search) -> Found:
    """Trials of the same params."""
    groups: dict[str, list[Tried]] = {}
    for one in search.trials:
        if one.state.finished and one.params:
            groups.setdefault(json.dumps(one.params, sort_keys=True, default=repr), []).append(one)
    again = [group for group in groups.values() if len(group) > 1]
    if not again:
        return
    count = sum(map(len, groups.values()))
    shown = [" = ".join(_names(group)) for group in again[:_SHOWN]] + ["..."] * (len(again) > _SHOWN)
    told = f"{len(groups)} points in {count} trials: {', '.join(shown)}{_spread(again)}"
    remedy = "workers of one seed draw the same points: derive the seed of a trial from its number"
    yield Finding("duplicates", told, remedy, tuple(one.name for group in again for one in group))


def repeated_epochs(search: Search) -> Found:
    """Trials whose history has epochs twice: they were tried again without a checkpoint."""
    odd = [one for one in search.trials if one.repeated]
    if odd:
        told = f"{_trials(odd)} in the results with epochs more than once: {_epochs(odd[0])}"
        yield Finding(
            "repeated-epochs", told, "restore a checkpoint on retry; read the later rows", _names(odd)
        )


def failed_best(search: Search) -> Found:
    """A best value that is of a trial that failed."""
    objective = search.stated or search.objective
    failed = [one for one in search.trials if one.state is TrialState.FAILED and one.value is not None]
    if objective is None or not failed or search.several:
        return
    pool = [*search.complete, *failed]
    best = _best(pool, [math.nan if one.value is None else one.value for one in pool], objective)
    if best is not None and best.state is TrialState.FAILED:
        told = f"the best value, {number(best.value)}, is of trial {best.name}, which failed"
        yield Finding("failed-best", told, "leave failed trials out before asking for the best", (best.name,))


def overshot(search: Search, budget: int | None) -> Found:
    """More trials than were asked for."""
    begun = [one for one in search.trials if one.state is not TrialState.WAITING]
    if budget is not None and len(begun) > budget:
        beyond = begun[budget:]
        told = f"{len(begun)} trials where {budget} were asked for"
        remedy = "count the trials of all workers and restarts together, failed ones too"
        yield Finding("overshot", told, remedy, _names(beyond))


CHECKS: tuple[Callable[[Search], Found], ...] = (
    direction,
    not_finite,
    last_epoch,
    failed_best,
    unreported,
    pruned_unreported,
    left_running,
    duplicates,
    repeated_epochs,
)


def findings_of(search: Search, budget: int | None = None) -> list[Finding]:
    """Carry out every check."""
    return [*(one for check in CHECKS for one in check(search)), *overshot(search, budget)]


def _winner(search: Search, objective: Objective) -> Tried | None:
    ended = [] if search.several else [one for one in search.complete if not one.infeasible]
    return _best(ended, [math.nan if one.value is None else one.value for one in ended], objective)


def _best(trials: Sequence[Tried], values: Sequence[float], objective: Objective) -> Tried | None:
    if not any(map(math.isfinite, values)):
        return None
    return trials[objective.best_index(values)]


def _is_last(one: Tried) -> bool:
    return one.value is not None and math.isclose(one.value, one.last, rel_tol=1e-9)


def _names(trials: Sequence[Tried]) -> tuple[str, ...]:
    return tuple(one.name for one in trials)


def _trials(trials: Sequence[Tried]) -> str:
    shown = ", ".join(_names(trials)[:_SHOWN]) + (", ..." if len(trials) > _SHOWN else "")
    return f"trial {shown} is" if len(trials) == 1 else f"trials {shown} are"


def _them(trials: Sequence[Tried]) -> str:
    return "it" if len(trials) == 1 else "them"


def _epochs(one: Tried) -> str:
    return f"epochs {', '.join(map(str, one.repeated[:_SHOWN]))} of {one.name}"


def _spread(groups: Sequence[Sequence[Tried]]) -> str:
    """Say by how much values of the same params differ: what one run's value is worth."""
    spans = []
    for group in groups:
        values = [one.value for one in group if one.value is not None and math.isfinite(one.value)]
        spans += [max(values) - min(values)] if len(values) > 1 else []
    if not spans or not max(spans):
        return ""
    return f"; values of the same params differ by up to {number(max(spans))}"
