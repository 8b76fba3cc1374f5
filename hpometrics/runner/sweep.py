"""The `run` command: import the engine, open the directory, run the trials, print and stamp the results."""

from __future__ import annotations

import json
import linecache
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace

from .._formatting import plural
from .._imports import aside, code_of, load_path
from .._redaction import excerpt, redacted
from .._text import printable, printable_lines
from ..backends.registry import BACKENDS
from ..backends.storage_url import is_shared, redact_file
from ..config.placeholders import program_path
from ..config.plan import Plan
from ..exceptions import ConfigError, DiskError, NoFiniteValueError, RunError
from ..records._files import is_regular, read_whole, write_text
from ..records._json import digest_of
from ..records.remote_copy import claim_copy, copy_directory, directory_id, identify
from ..records.trial_record import TrialRecord, TrialState
from ..results.annotation_file import recover_annotations
from ..results.best import record_of
from ..results.confirmation import confirmed_facts, stored_confirmation, sweep_best
from ..results.export import best_facts, best_yaml, trials_csv
from ..results.leaderboard import format_evaluated
from ..results.report.content import write_report
from ..results.run_directory import RunDirectory
from ..results.stamp import Stamp, question_of
from ..results.status import Outcome, opening, print_results, status_json, title
from ..results.verdict import conclude, stored_verdict
from ..run.trial import ERROR_FILE
from .command_engine import format_end
from .confirm import check_confirmable, confirm_winner
from .context import SweepContext, make_context, module_files
from .imported_engine import PlainEngine, Train
from .live import Progress, place_of
from .reclaim import recover
from .signals import before_first_trial, end_noticed, exit_code, raising_interrupts, terminated_when
from .study import check_published, study_file
from .warm_start import warm_start

OK, NOT_ON_FRONT, NOTHING_COMPLETE, TOO_MANY_FAILED, DISK = 0, 2, 3, 4, 5
_BY_SIGNAL = 128
"""Exit codes above it are of sweeps that a signal has interrupted."""


@dataclass(frozen=True)
class Options:
    """The flags of `run`.

    `python` is for a sweep that Python runs: no result is printed, and what ends it early is raised.
    `has_title` says that the name of the sweep is printed already: a terminal has it before the imports.
    """

    fresh: bool = False
    extend: bool = False
    quiet: bool = False
    verbose: bool = False
    as_json: bool = False
    python: bool = False
    has_title: bool = False


def run_command(plan: Plan, options: Options, train: Train | None = None) -> int:
    """Run or resume a sweep, print its results and return the exit code.

    Args:
        plan: the plan of the sweep.
        options: the flags of the command.
        train: the engine itself, if no process can import it.

    Raises:
        HpometricsError: something is wrong; it is raised before the first trial.
        RunError, KeyboardInterrupt: the end of a sweep that Python runs, by failures or a signal.
    """
    question = question_of(plan.document, "" if train is None else code_of(train))
    with nullcontext() if options.python else before_first_trial():
        with aside():
            context = make_context(plan, options.extend, train, options.fresh)
        home, storage = context.directory, plan.config.backend.storage
        context.leads, context.gathers = True, is_shared(storage)
        published = check_published(context, options.fresh)
        check_confirmable(context)
        learned = warm_start(context, published)
        copy_to, copied = plan.config.results.copy_to, directory_id(home.path)  # `--fresh` moves it aside
        if copy_to is not None:
            claim_copy(copy_to, plan.name, home.path)
    text = redact_file(plan.document.text, storage)
    with raising_interrupts():
        began = False
        try:
            with (
                home.opened(
                    text,
                    context.resolved,
                    fresh=options.fresh,
                    extend=options.extend,
                    restarts=context.judges_faults and not is_shared(storage),
                ),
                terminated_when(context.listen()),
            ):
                if copy_to is not None:
                    identify(home.path, copied)
                    claim_copy(copy_to, plan.name, home.path)
                began = True
                code = _search(context, options, question, learned)
        except BaseException as err:
            if began:
                _copy(context)
                _run_on_end(context, err)
            raise
        problem = _copy(context)
        _run_on_end(context, code)
        if problem is not None and options.python:
            raise problem
        return DISK if problem is not None and code == OK else code


def _search(context: SweepContext, options: Options, question: str, learned: Sequence[str]) -> int:
    """Run the trials of an opened sweep, print its results and return the exit code."""
    home, config = context.directory, context.plan.config
    recover_annotations(home)  # before any trial, as far as it is damaged
    repairs, earlier = recover(context)
    progress = Progress(
        context.resolved, earlier, options.quiet, home, context.faults if context.judges_faults else None
    )
    context.tell, context.say = progress.tell, progress.say
    context.count(earlier)
    head = opening(home, context.resolved, earlier)
    if options.has_title:
        head = head.removeprefix(title(context.resolved.name, home)).strip()
    if lines := [*repairs, *([head] if head else []), *learned]:
        progress.say("\n".join(lines))
    try:
        with progress.live(), aside(), _end_noticed(context, options):
            load_path(BACKENDS[config.backend.name].start)(context, options.verbose)
            fails = context.broken or context.fails(context.failed)
            if config.confirm is not None and not fails:
                _confirm_if_possible(context, options.verbose)
    except KeyboardInterrupt as interrupt:
        records = home.records()
        _conclude(context, records, progress)
        progress.say(_format_interrupted(context, records, options))
        if options.python:
            raise
        return exit_code(interrupt)
    records = home.records()
    code = _conclude(context, records, progress, options)
    if context.broken:
        first = next(record for record in records if record.number == context.faults.first)
        return _end_by_failures(_format_fault(context, first, options), progress.complain, options)
    failed = [record for record in records if record.state is TrialState.FAILED]
    if context.fails(len(failed)):
        return _end_by_failures(_format_failures(failed), progress.say, options)
    if code == OK and _is_finished(context, records):
        with suppress(OSError):  # its files change meanwhile
            Stamp.of(home, question, module_files(context.engine)).write(home)
    return code


def _copy(context: SweepContext) -> DiskError | None:
    """Copy the run directory to the URL of `results.copy_to`; return the error, which is printed, if any."""
    url, home = context.plan.config.results.copy_to, context.directory
    if url is None:
        return None
    try:
        copied = copy_directory(home.path, url, context.plan.name, leave=(home.ray.name,))
    except DiskError as err:
        home.stamp.unlink(missing_ok=True)  # another run has something to do
        text = f"results.copy_to: {err}; {home.label} is complete, and the next run copies it"
        print(printable_lines(redacted(text)), file=sys.stderr, flush=True)
        return err
    context.say(f"copied {plural(copied, 'file')} to {redacted(url)}")
    return None


def _run_on_end(context: SweepContext, end: int | BaseException) -> None:
    """Run the program of `on_end`, unless an earlier run has run it after the same trials.

    Args:
        context: the context of the sweep, whose directory is free for the program.
        end: the exit code, or the error that ends the run.
    """
    command, home = context.plan.config.on_end, context.directory
    if command is None:
        return
    state, best = "error", None
    has_results = isinstance(end, (int, KeyboardInterrupt, RunError, BrokenPipeError))
    if has_results:
        outcome = Outcome.of(home, context.resolved, home.records())
        state, best = _state(context, outcome.records, end), outcome.best
        if not _record_end(outcome, state, home):
            return
    facts = {
        "PATH": program_path(),
        "HPOMETRICS_DIR": str(home.path),
        "HPOMETRICS_NAME": context.plan.name,
        "HPOMETRICS_STATE": state,
        "HPOMETRICS_METRIC": context.resolved.metric,
        "HPOMETRICS_TRIAL": "" if best is None else str(best.trial),
        "HPOMETRICS_VALUE": "" if best is None else str(best.value),
    }
    try:
        code = subprocess.run(
            command,
            cwd=context.plan.file.resolve().parent,
            env=os.environ | facts,
            stdin=subprocess.DEVNULL,
            stdout=2,  # stdout is for the results
        ).returncode
        problem = format_end(code) if code else ""
    except OSError as err:
        problem = f"cannot be run: {err.strerror}"
    except KeyboardInterrupt:
        problem = "was interrupted"
    if problem:
        text = redacted(f"on_end: {command[0]} {problem}; the sweep and its results are unchanged")
        print(printable_lines(text), file=sys.stderr, flush=True)


def _state(context: SweepContext, records: Sequence[TrialRecord], end: int | BaseException) -> str:
    """Return why a sweep has ended: interrupted, failed, target, stale, cost, fruitless, time or complete."""
    total = context.plan.trials
    if isinstance(end, KeyboardInterrupt) or (isinstance(end, int) and end > _BY_SIGNAL):
        return "interrupted"
    if isinstance(end, RunError) or end == TOO_MANY_FAILED:
        return "failed"
    if any(map(context.reaches, records)):
        return "target"
    limit = context.resolved.limits.reached(records)
    if limit is not None:
        return limit
    is_whole = total is not None and len(records) >= total
    return "time" if context.seconds_left == 0 and not is_whole else "complete"


def _record_end(outcome: Outcome, state: str, home: RunDirectory) -> bool:
    """Record the end of a sweep, and return whether no earlier run has recorded the same of its trials."""
    trials = [[one.number, one.state.value, len(one.epochs), one.seconds] for one in outcome.records]
    seeds = [] if outcome.confirmation is None else [one.seeds for one in outcome.confirmation.standings]
    digest = digest_of(json.dumps([state, trials, seeds]))
    if is_regular(home.end) and read_whole(home.end) == digest.encode():
        return False
    with suppress(DiskError):  # the sweep itself has reported it
        write_text(home.end, digest)
    return True


def _end_by_failures(text: str, say: Callable[[str], None], options: Options) -> int:
    """Print why a sweep ended early and return the exit code; in Python raise it."""
    if options.python:
        raise RunError(text)
    say(text)
    return TOO_MANY_FAILED


def _confirm_if_possible(context: SweepContext, verbose: bool) -> None:
    """Confirm the winner; a sweep with fewer than two complete trials has nobody to compare it with."""
    try:
        confirm_winner(context, verbose)
    except NoFiniteValueError as err:
        context.say(str(err))


def confirm_command(plan: Plan, options: Options) -> int:
    """Confirm the winner of a sweep that has ended, print the results and return the exit code.

    Args:
        plan: the plan of the sweep with the settings of the confirmation.
        options: the flags of the command.

    Raises:
        ConfigError: trials are not over, or the engine cannot be confirmed.
        NoFiniteValueError: fewer than two trials are complete.
        HpometricsError: something else is wrong; it is raised before the first training.
    """
    with aside():
        context = make_context(plan, extend=True)
    check_confirmable(context)
    home = context.directory
    records = home.records()
    if is_open := [record.number for record in records if not record.state.finished]:
        raise ConfigError(
            f"{home.path}: trial {is_open[0]} has not ended; finish the search with hpometrics run first"
        )
    text = read_whole(home.sweep_file).decode()
    with (
        raising_interrupts(),
        home.opened(text, context.resolved, fresh=False, extend=True),
        terminated_when(context.listen()),
    ):
        repairs, records = recover(context)
        progress = Progress(context.resolved, records, options.quiet, home)
        context.say = progress.say
        progress.say("\n".join(repairs) or opening(home, context.resolved, records))
        try:
            with aside():
                confirm_winner(context, options.verbose)
        except KeyboardInterrupt as interrupt:
            progress.say(f"interrupted. Resume with:\n  hpometrics confirm {shlex.quote(str(home.label))}")
            return exit_code(interrupt)
        code = _conclude(context, records, progress, options)
    return DISK if _copy(context) is not None and code == OK else code


def _conclude(
    context: SweepContext, records: Sequence[TrialRecord], progress: Progress, options: Options | None = None
) -> int:
    """Write the results of the sweep, print them unless it was interrupted, and return the exit code.

    Args:
        context: the context of the sweep.
        records: its trials.
        progress: the printer of its progress.
        options: the flags of the command; None if it was interrupted.
    """
    home = context.directory
    resolved = replace(context.resolved, annotations=recover_annotations(home))
    end = stored_confirmation(home, records, resolved)
    write_text(home.table, trials_csv(records, resolved, end))
    try:
        best = sweep_best(home, end, records, resolved)
    except (NoFiniteValueError, ConfigError) as err:  # the latter: metrics.pick is not on the front
        home.best.unlink(missing_ok=True)
        home.engine_params.unlink(missing_ok=True)
        if options is not None:
            _report(context)
            if not context.broken:  # its error follows, whole
                progress.say(str(err))
            if not options.python:
                print(status_json(home, resolved, records) if options.as_json else format_evaluated(records))
        return NOTHING_COMPLETE if isinstance(err, NoFiniteValueError) else NOT_ON_FRONT
    judge = stored_verdict if options is None else conclude
    verdict = None if end is not None else judge(home, records, resolved)
    confirmed = confirmed_facts(home, end)
    facts = best_facts(best, record_of(best, records), resolved, home.path, verdict, confirmed)
    write_text(home.best, best_yaml(facts))
    engine = context.engine
    if not isinstance(engine, PlainEngine):
        engine.write_best(best, home.path)
        if engine.stages:
            progress.say(engine.stages)
    if options is not None:
        _report(context)
        if not options.python:
            print_results(home, resolved, records, options.as_json)
    return OK


def _report(context: SweepContext) -> None:
    """Write the report of the sweep file's kind; it shows the verdict, which must exist already."""
    kind = context.plan.config.results.report
    if kind != "none":
        write_report(context.directory.label, kind)


def _is_finished(context: SweepContext, records: Sequence[TrialRecord]) -> bool:
    """Return whether another run of the same file would have nothing to do."""
    if study_file(context) is None or not all(record.state.finished for record in records):
        return False
    total = context.plan.trials
    ended = any(map(context.reaches, records)) or context.resolved.is_used_up(records)
    return ended or (total is not None and len(records) >= total)


def _format_failures(failed: Sequence[TrialRecord]) -> str:
    """Return the reasons of failed trials, each once."""
    trials: dict[str, list[str]] = {}
    for record in failed:
        reason = printable((record.reason or "").partition("\n")[0])
        trials.setdefault(reason, []).append(str(record.number))
    lines = [f"  {reason} (trial {', '.join(numbers)})" for reason, numbers in trials.items()]
    head = f"{len(failed)} trials have failed, as many as budget.failures allows; raise it to continue:"
    return "\n".join([head, *lines])


def _format_fault(context: SweepContext, record: TrialRecord, options: Options) -> str:
    """Return the error with which an engine fails in each trial, whole, and where it was raised."""
    home = context.directory
    lines = ["The first trials failed with the same error, so no other trial was started:", ""]
    lines += [f"  {line}".rstrip() for line in (record.reason or "").splitlines()]
    place = place_of(record)
    if place is not None:
        source = linecache.getline(place.file, place.line).strip()
        lines.append(f"  {place}{f': {excerpt(source, 200)}' if source else ''}")
    error = home.display_path(home.trial(record.number)) / ERROR_FILE
    if (home.trial(record.number) / ERROR_FILE).is_file():
        lines.append(f"  traceback: {error}")
    lines += ["", "Fix the engine and run it again:", f"  {_again(context, options)}"]
    return "\n".join([*lines, "With budget.failures, a sweep continues until that many trials have failed."])


def _again(context: SweepContext, options: Options) -> str:
    """Return the command that goes on with the sweep."""
    if options.python:
        return "run() of the Sweep"
    settings = [part for text in context.plan.document.assignments for part in ("--set", text)]
    return redacted(shlex.join(["hpometrics", "run", str(context.plan.file), *settings]))


def _end_noticed(context: SweepContext, options: Options) -> AbstractContextManager[None]:
    """Return a context at whose sudden end a command prints how to resume."""
    if options.python:
        return nullcontext()
    return end_noticed(
        printable_lines(
            "the process ended unexpectedly: the engine may have exited or crashed, or memory may have run "
            "out. Resume with:\n"
            f"  {_again(context, options)}"
        )
    )


def _format_interrupted(context: SweepContext, records: Sequence[TrialRecord], options: Options) -> str:
    count, total = sum(record.state.finished for record in records), context.plan.trials
    done = f"{count}{f' of {total}' if total else ''}"
    how = "stopped" if context.stopped else "interrupted"
    return f"{how}: {done} trials are done. Resume with:\n  {_again(context, options)}"
