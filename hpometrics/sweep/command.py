"""The `run` command: read, import, settle, open the directory, carry out, print the results."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ..exceptions import ConfigError, NoFiniteValueError
from ..messages import printable
from ..prints import aside
from ..redaction import redacted
from ..search.picking import best_by
from ..search.record import TrialRecord, TrialState
from .best import record_of
from .directory import RunDirectory
from .engine import PlainEngine
from .exports import best_facts, best_yaml, trials_csv
from .front import front_text
from .interrupts import exit_code, raising_interrupts
from .job import Job, make_job
from .mending import mend
from .plan import Plan
from .progress import Progress
from .publication import check_published
from .report.writing import write_report
from .status import status_facts
from .study_place import storage_of, written
from .table import evaluated, optimal, result_table
from .verdicts import conclude, kept_verdict, verdict_lines
from .writer import write_text

OK, NOT_ON_FRONT, NOTHING_COMPLETE, TOO_MANY_FAILED = 0, 2, 3, 4


@dataclass(frozen=True)
class Options:
    """The flags of `run`."""

    fresh: bool = False
    extend: bool = False
    quiet: bool = False
    verbose: bool = False
    as_json: bool = False


def run_command(plan: Plan, options: Options) -> int:
    """Run a sweep, or go on with it; print its results and return the exit code.

    Raises:
        HpometricsError: something is wrong, found before the first trial.
    """
    with aside():
        job = make_job(plan, options.extend)
    job.leads = job.gathers = True
    check_published(job, options.fresh)
    with (
        raising_interrupts(),
        job.directory.opened(_text(job), job.resolved, fresh=options.fresh, extend=options.extend),
    ):
        mended = list(mend(job))
        earlier = job.directory.records()
        progress = Progress(job.resolved, earlier, options.quiet, job.directory)
        job.tell, job.earlier = progress.tell, sum(record.seconds for record in earlier)
        job.reached = any(job.reaches(record) for record in earlier)
        job.failed = sum(record.state is TrialState.FAILED for record in earlier)
        progress.say("\n".join([*mended, _opening(job, earlier)]))
        try:
            with progress.live(), aside():
                _backend(job, options.verbose)(job)
        except KeyboardInterrupt as interrupt:
            _conclude(job, progress, quiet=True)
            progress.say(_interrupted(job))
            return exit_code(interrupt)
        code = _conclude(job, progress, as_json=options.as_json)
        failed = [record for record in job.directory.records() if record.state is TrialState.FAILED]
        if not job.fails(len(failed)):
            return code
        progress.say(_why_failed(failed))
        return TOO_MANY_FAILED


def _text(job: Job) -> str:
    """Give the sweep file as it is kept: who logs in at a storage is left out."""
    storage = storage_of(job.plan.config.backend)
    return job.plan.document.text.replace(storage, written(storage))


def _backend(job: Job, verbose: bool) -> Callable[[Job], None]:
    """Give what carries the job out, its host's own log silenced unless asked for."""
    if job.plan.config.backend.name == "ray":
        from .on_ray import run_on_ray  # the host that a sweep does not use is not loaded

        return partial(run_on_ray, verbose=verbose)
    settings = job.plan.config.backend.optuna
    if settings is not None and settings.workers > 1:
        from .crew import run_with_crew

        return partial(run_with_crew, workers=settings.workers, verbose=verbose)
    from .in_process import run_in_process

    return partial(run_in_process, verbose=verbose)


def _opening(job: Job, earlier: list[TrialRecord]) -> str:
    done, total = sum(record.state.finished for record in earlier), job.plan.trials
    head = f"{job.plan.name}  {job.directory.path}"
    if total is not None and done > total:
        return f"{head}  {done} trials are done, and budget.trials is {total}; raise it above {done} for more"
    if total is not None and done == total:
        return f"{head}  all {total} trials are done; raise budget.trials for more"
    return f"{head}  going on: {done} of {total or 'any number'} done" if earlier else head


def _conclude(job: Job, progress: Progress, quiet: bool = False, as_json: bool = False) -> int:
    """Write what is left of the sweep, print it, and return the exit code."""
    home, resolved = job.directory, job.resolved
    records = home.records()
    write_text(home.table, trials_csv(records, resolved))
    if (kind := job.plan.config.results.report) != "none" and not quiet:
        write_report(home.path, kind)
    try:
        best = best_by(records, resolved.optimised, resolved.pick)
    except (NoFiniteValueError, ConfigError) as err:  # the latter: metrics.pick is not on the front
        home.best.unlink(missing_ok=True)
        home.engine_params.unlink(missing_ok=True)
        if not quiet:
            progress.say(str(err))
            print(_as_json(home) if as_json else evaluated(records))
        return NOTHING_COMPLETE if isinstance(err, NoFiniteValueError) else NOT_ON_FRONT
    verdict = (kept_verdict if quiet else conclude)(home, records, resolved)
    write_text(home.best, best_yaml(best_facts(best, record_of(best, records), resolved, home.path, verdict)))
    engine = job.engine
    if not isinstance(engine, PlainEngine):
        engine.write_best(best, home.path)
        if engine.stages:
            progress.say(engine.stages)
    if as_json:
        print(_as_json(home), flush=True)
    elif not quiet:
        if resolved.is_picked:
            found = "\n".join([optimal(best, records, resolved), *verdict_lines(verdict)])
        else:
            found = front_text(records, resolved, home.path)
        print(result_table(records, resolved), found, sep="\n\n")
        print(f"saved {_saved(job)} in {home.path}", flush=True)
    return OK


def _why_failed(failed: Sequence[TrialRecord]) -> str:
    """Name the reasons of failed trials, each once."""
    trials: dict[str, list[str]] = {}
    for record in failed:
        reason = printable((record.reason or "").partition("\n")[0])
        trials.setdefault(reason, []).append(str(record.number))
    lines = [f"  {reason} (trial {', '.join(numbers)})" for reason, numbers in trials.items()]
    head = f"{len(failed)} trials have failed, as many as budget.failures allows; raise it to go on:"
    return "\n".join([head, *lines])


def _as_json(home: RunDirectory) -> str:
    return json.dumps(status_facts(home.path), indent=1, allow_nan=False)


def _saved(job: Job) -> str:
    home, report = job.directory, job.plan.config.results.report
    kept = (home.best, home.engine_params, home.table, home.study, home.journal, home.report(report))
    return ", ".join(path.name for path in kept if path.exists())


def _interrupted(job: Job) -> str:
    done, total = sum(record.state.finished for record in job.directory.records()), job.plan.trials
    settings = [part for text in job.plan.document.assignments for part in ("--set", text)]
    again = shlex.join(["hpometrics", "run", str(job.plan.file), *settings])
    told = f"interrupted: {done}{f' of {total}' if total else ''} trials are done. Go on with:\n  {again}"
    return redacted(told)
