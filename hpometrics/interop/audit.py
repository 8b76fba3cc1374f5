"""Check the searches of other tools for results that mislead; nothing is written.

Each check is a function from a search to its findings.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .._formatting import duration, json_text, number, plural
from .._redaction import redacted
from .._text import printable
from ..backends.storage_url import STORAGE_FILES
from ..direction import Direction
from ..exceptions import ConfigError
from ..records.trial_record import TrialState
from .first_files import read_foreign
from .ray_results import is_experiment, read_results
from .search import Audited, Finding, ForeignTrial, Search

Findings = Iterator[Finding]
_HOUR = 3600.0  # of silence, after which nobody is at work
_DAY = 24 * _HOUR
_MANY = 10  # times as long as any trial that ended
_SHOWN = 8  # names of trials in a line
_WINS = {Direction.MINIMIZE: -math.inf, Direction.MAXIMIZE: math.inf}
_SQLITE = "sqlite:///"
_YAML = (".yaml", ".yml")
_REMEDIES = {
    "direction": "set the goal to the metric's own direction",
    "no-goal": "set the goal",
    "no-end": "set run_cap",
    "no-metric": "name the metric that the program logs",
    "exponents": "write log_uniform_values, or the logarithms of the bounds",
    "unknown-key": "correct or remove the key",
    "no-such-metric": "name a metric of the output",
    "epoch": "use the same metric for both",
    "split": "set split to validation",
    "inert": "use the ray executor, or your own Optuna study",
}


@dataclass(frozen=True)
class Request:
    """The search to audit, and how.

    Args:
        path: an Optuna storage, a folder of Ray's results, a W&B sweep, a Ludwig config.
        study: name of the only study to read in a storage.
        metric: the optimized metric, where the tool does not store it.
        direction: the direction of the search, where the tool does not store it.
        budget: the requested number of trials.
        ignore: codes of findings to leave out.
    """

    path: Path
    study: str | None = None
    metric: str | None = None
    direction: str | None = None
    budget: int | None = None
    ignore: tuple[str, ...] = ()


def path_of(place: str) -> Path:
    """Return the path for a path or the URL of an SQLite file.

    Raises:
        ConfigError: the URL is that of a server.

    >>> path_of("sqlite:///study.db").name
    'study.db'
    """
    if "://" in place and not place.startswith(_SQLITE):
        raise ConfigError(
            f"{redacted(place)}: audit reads only files; copy the study into a file with optuna.copy_study, "
            "and pass that file"
        )
    return Path(place.removeprefix(_SQLITE))


def storage_at(path: Path) -> Path | None:
    """Return the Optuna storage that a path is or a run directory has; None for files of another tool.

    Raises:
        ConfigError: the path does not exist.
    """
    if path.suffix in _YAML:
        return None
    study = next((path / name for name in STORAGE_FILES.values() if os.path.lexists(path / name)), None)
    if study is None and not path.exists():
        raise ConfigError(f"{path} does not exist")
    return path if study is None and not path.is_dir() else study


def audit_files(request: Request) -> list[Audited]:
    """Audit a sweep file of another tool, or a folder of Ray's results; nothing there is changed.

    Raises:
        ConfigError: the path holds nothing that can be audited, or an option does not go with it.
        RecordError: a file is damaged.
    """
    path = request.path
    if path.suffix in _YAML:
        _refuse(request, ("study", "metric", "direction", "budget"), "the file of a search has no results")
        return [_audited_file(request)]
    if not is_experiment(path):
        studies = " or ".join(STORAGE_FILES.values())
        raise ConfigError(f"{path} contains no {studies}, and no trial folder of Ray with result.json")
    _refuse(request, ("study",), "a folder of Ray has no studies")
    direction = None if request.direction is None else Direction.parse(request.direction)
    return audit_searches(read_results(path, request.metric, direction), request)


def _refuse(request: Request, options: Sequence[str], why: str) -> None:
    """Raise if a request has one of some options, which have no meaning for its path."""
    for option in options:
        if getattr(request, option) is not None:
            raise ConfigError(f"{request.path}: {why}, so --{option} has no effect; remove it")


def audit_searches(
    searches: Sequence[Search], request: Request, torn: Finding | None = None
) -> list[Audited]:
    """Audit searches that were read; `torn` is a finding on the file of all of them."""
    first = [] if torn is None else [torn]
    return [
        Audited(
            one.tool,
            one.path,
            tuple(_about(one)),
            _without_ignored([*first, *findings_of(one, request.budget)], request),
        )
        for one in searches
    ]


def audit_text(audits: Sequence[Audited]) -> str:
    """Return the audits as text: each search, and each finding with its remedy."""
    lines: list[str] = []
    for one in audits:
        lines.append(f"{one.path}  {printable(one.what)}")
        lines += [f"  {text}" for text in one.about]
        for finding in one.findings:
            where = f"{finding.place}: " if finding.place else ""
            lines += [f"{finding.code}: {where}{printable(finding.text)}", f"  -> {finding.remedy}"]
    count = sum(len(one.findings) for one in audits)
    return "\n".join([*lines, f"{count} finding{'' if count == 1 else 's'}"])


def audit_json(audits: Sequence[Audited]) -> str:
    """Return the audits as JSON."""
    documents: list[dict[str, Any]] = [asdict(one) for one in audits]
    return json_text(documents)


def _audited_file(request: Request) -> Audited:
    conversion = read_foreign(request.path)
    findings = [
        Finding(
            note.code,
            ".".join(map(str, note.problem.path)) + f" {note.problem.text}",
            _REMEDIES[note.code],
            place=str(note.problem.mark),
        )
        for note in conversion.notes.sorted()
        if note.code
    ]
    return Audited(f"{conversion.tool} sweep", str(request.path), (), _without_ignored(findings, request))


def _without_ignored(findings: Sequence[Finding], request: Request) -> tuple[Finding, ...]:
    return tuple(one for one in findings if one.code not in request.ignore)


def _about(search: Search) -> Iterator[str]:
    states = Counter(one.state.value for one in search.trials)
    yield f"{len(search.trials)} trials: " + (
        ", ".join(f"{s} {n}" for s, n in sorted(states.items())) or "none"
    )
    if search.metric is None:
        yield "metric unknown; name it with --metric NAME"
    else:
        way = "" if search.search_direction is None else f"; the search {search.search_direction}s it"
        own = "not a registered metric" if search.registered is None else f"must be {search.registered[1]}d"
        yield f"metric {printable(search.metric)} (from {search.metric_from}): {own}{way}"


def findings_of(search: Search, budget: int | None = None) -> list[Finding]:
    """Return the findings of every check."""
    return [*(one for check in CHECKS for one in check(search)), *overshot(search, budget)]


def wrong_direction(search: Search) -> Findings:
    """Check that the search went in the direction of its metric."""
    if search.registered is None or search.search_direction in (None, search.registered[1]):
        return
    metric, direction = search.registered
    label = search.metric if search.metric == metric else f"{search.metric}: {metric}"
    text = (
        f"{label} (from {search.metric_from}) must be {direction}d, "
        f"but the search {search.search_direction}s it"
    )
    worst, best = _winner(search, search.search_direction), _winner(search, direction)
    names = tuple(one.name for one in (worst, best) if one is not None)
    if worst is not None and best is not None:
        text += f": its best trial, {worst.name} with {number(worst.value)}, is really the worst"
        remedy = (
            f"search again with the direction {direction}; the best of these trials is {best.name} with "
            f"{number(best.value)}"
        )
    else:
        remedy = f"search again with the direction {direction}"
    yield Finding("direction", text, remedy, names)


def not_finite(search: Search) -> Findings:
    """Find values that are nan or infinite in trials that count as complete."""
    odd = [one for one in search.complete if not math.isfinite(one.score)]
    winning = [
        one
        for one in odd
        if search.search_direction is not None and one.value == _WINS[search.search_direction]
    ]
    for one in winning[:1]:
        text = f"trial {one.name} is the best with {one.value}, which no finite value can beat"
        remedy = "raise an error if the value is not finite, so that the trial fails"
        yield Finding("not-finite", text, remedy, (one.name,))
    if odd and not winning:
        yield Finding(
            "not-finite",
            f"{_trials(odd)} complete with a value that is not finite",
            "raise an error with the reason, so that a diverged trial fails",
            _names(odd),
        )


def last_epoch(search: Search) -> Findings:
    """Find a best trial by its last epoch, where an earlier epoch of it or of another is better."""
    direction = search.direction
    reporting = [one for one in search.complete if not one.infeasible and one.epochs]
    scored = [one for one in reporting if math.isclose(one.score, one.last, rel_tol=1e-9)]
    if direction is None or search.several or not scored:
        return
    peaks = [one.peak(direction) for one in scored]
    lost = [one for one, (_, value) in zip(scored, peaks, strict=True) if direction.better(value, one.last)]
    winner = _best(scored, [one.last for one in scored], direction)
    pick = _best(scored, [value for _, value in peaks], direction)
    if winner is None or pick is None or not lost or (pick is winner and pick not in lost):
        return
    epoch, value = peaks[scored.index(pick)]
    who = "it" if pick is winner else f"trial {pick.name}"
    text = (
        f"the best is trial {winner.name} with {number(winner.last)}, the value of its last epoch; {who} had "
        f"{number(value)} at epoch {epoch}, and {len(lost)} of {len(scored)} trials ended below their best"
    )
    yield Finding(
        "last-epoch",
        text,
        "report the value of the best epoch, and keep its checkpoint, as a Run does",
        tuple(dict.fromkeys((winner.name, pick.name))),
    )


def unreported(search: Search) -> Findings:
    """Find a search whose trials reported no epochs, so that none could be stopped early."""
    finished = [one for one in search.trials if one.state.finished]
    if search.several or len(search.complete) < 2 or any(len(one.epochs) > 1 for one in finished):
        return
    text = (
        f"none of {len(finished)} trials reported a value before its end, "
        f"so {search.judge} could not stop any"
    )
    yield Finding("unreported", text, "report every epoch; if there are no epochs, pass --ignore unreported")


def pruned_unreported(search: Search) -> Findings:
    """Find trials that were stopped early without a value to judge them by."""
    pruned = [one for one in search.trials if one.state is TrialState.PRUNED and not one.epochs]
    if pruned:
        them = "it" if len(pruned) == 1 else "them"
        text = f"{_trials(pruned)} pruned without a reported value: no pruner judged {them}"
        yield Finding(
            "pruned-unreported",
            text,
            "look for code that raises TrialPruned after an error; an error must fail the trial",
            _names(pruned),
        )


def left_running(search: Search) -> Findings:
    """Find trials that never ended: nothing was written for an hour, or they take far too long.

    The duration is what shows while other trials still run, and in a copy, whose file is new.
    """
    open_ones = [one for one in search.trials if one.state is TrialState.RUNNING]
    longest = max((one.seconds or 0.0 for one in search.trials if one.state.finished), default=0.0)
    overdue = [one for one in open_ones if longest and (one.seconds or 0.0) > max(_DAY, _MANY * longest)]
    if open_ones and search.silence > _HOUR:
        text = f"{_trials(open_ones)} still running, but nothing was written for {duration(search.silence)}"
    elif open_ones := overdue:
        after = min(one.seconds or 0.0 for one in open_ones)
        text = (
            f"{_trials(open_ones)} still running after {duration(after)}, "
            f"but the longest finished trial took {duration(longest)}"
        )
    else:
        return
    yield Finding(
        "left-running",
        text,
        "its process has died: mark the trial as failed, or samplers avoid the params of a running trial",
        _names(open_ones),
    )


def duplicates(search: Search) -> Findings:
    """Find trials with the same params."""
    groups: dict[str, list[ForeignTrial]] = {}
    for one in search.trials:
        if one.state.finished and one.params:
            groups.setdefault(json.dumps(one.params, sort_keys=True, default=repr), []).append(one)
    again = [group for group in groups.values() if len(group) > 1]
    if not again:
        return
    count = sum(map(len, groups.values()))
    groups_text = [" = ".join(_names(group)) for group in again[:_SHOWN]] + ["..."] * (len(again) > _SHOWN)
    points, trials = plural(len(groups), "point"), plural(count, "trial")
    text = f"only {points} in {trials}: {', '.join(groups_text)}{_spread(again)}"
    yield Finding(
        "duplicates",
        text,
        "workers with the same seed draw the same points: derive the seed of a trial from its number",
        tuple(one.name for group in again for one in group),
    )


def repeated_epochs(search: Search) -> Findings:
    """Find trials whose history repeats epochs: they were retried without a checkpoint."""
    odd = [one for one in search.trials if one.repeated]
    if odd:
        epochs = ", ".join(map(str, odd[0].repeated[:_SHOWN]))
        text = f"{_trials(odd)} stored with repeated epochs: epochs {epochs} of {odd[0].name}"
        yield Finding(
            "repeated-epochs", text, "restore a checkpoint on each retry; read the later rows", _names(odd)
        )


def failed_best(search: Search) -> Findings:
    """Find a best value that comes from a failed trial."""
    direction = search.search_direction or search.direction
    failed = [one for one in search.trials if one.state is TrialState.FAILED and one.value is not None]
    if direction is None or not failed or search.several:
        return
    pool = [*search.complete, *failed]
    best = _best(pool, [one.score for one in pool], direction)
    if best is not None and best.state is TrialState.FAILED:
        yield Finding(
            "failed-best",
            f"the best value, {number(best.value)}, comes from trial {best.name}, which failed",
            "exclude failed trials before you pick the best",
            (best.name,),
        )


def overshot(search: Search, budget: int | None) -> Findings:
    """Find trials beyond the requested number."""
    started = [one for one in search.trials if one.state is not TrialState.WAITING]
    if budget is not None and len(started) > budget:
        yield Finding(
            "overshot",
            f"{len(started)} trials were started, but {budget} were requested",
            "count the trials of all workers and restarts together, including failed ones",
            _names(started[budget:]),
        )


CHECKS: tuple[Callable[[Search], Findings], ...] = (
    wrong_direction,
    not_finite,
    last_epoch,
    failed_best,
    unreported,
    pruned_unreported,
    left_running,
    duplicates,
    repeated_epochs,
)


def _winner(search: Search, direction: Direction) -> ForeignTrial | None:
    scored = [] if search.several else [one for one in search.complete if not one.infeasible]
    return _best(scored, [one.score for one in scored], direction)


def _best(
    trials: Sequence[ForeignTrial], values: Sequence[float], direction: Direction
) -> ForeignTrial | None:
    if not any(map(math.isfinite, values)):
        return None
    return trials[direction.best_index(values)]


def _names(trials: Sequence[ForeignTrial]) -> tuple[str, ...]:
    return tuple(one.name for one in trials)


def _trials(trials: Sequence[ForeignTrial]) -> str:
    names = ", ".join(_names(trials)[:_SHOWN]) + (", ..." if len(trials) > _SHOWN else "")
    return f"trial {names} is" if len(trials) == 1 else f"trials {names} are"


def _spread(groups: Sequence[Sequence[ForeignTrial]]) -> str:
    """Return by how much values of the same params differ, which is the noise of one run."""
    spans = []
    for group in groups:
        values = [one.score for one in group if math.isfinite(one.score)]
        spans += [max(values) - min(values)] if len(values) > 1 else []
    if not spans or not max(spans):
        return ""
    return f"; values for the same params differ by up to {number(max(spans))}"
