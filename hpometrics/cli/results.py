"""The commands that read the results of a sweep, or replay a trial."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import click

from .._formatting import json_text, terminal_width, wrapped_lines
from ..backends.registry import backends_of
from ..runner.signals import check_posix
from .console import NOTHING_FINITE, show
from .options import AS_JSON, FILE, INTERVAL, METRIC, RUN_DIRECTORY, Command, output_format

Printer = Callable[[str], object]
FactsPrinter = Callable[[dict[str, Any]], object]
TAGS = click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only runs with this tag.")
STATES = ("waiting", "running", "complete", "pruned", "failed", "infeasible", "interrupted")


@click.command(
    cls=Command,
    examples=(
        "best runs/digits",
        "best runs/digits -k 3 --metric mcc",
        "best runs/digits -f args",
    ),
)
@click.argument("directory", type=RUN_DIRECTORY)
@click.option(
    "-k", "count", type=click.IntRange(min=1), metavar="N", help="The N best trials, feasible first."
)
@click.option(
    "-f",
    "--format",
    "form",
    type=click.Choice(["text", "yaml", "json", "args"]),
    help="text prints everything; args prints only the params, as in --lr 0.014 --width 128.  [text]",
)
@AS_JSON
@click.option(
    "--metric", metavar="NAME", type=METRIC, help="Pick by this metric instead of the optimized one."
)
@click.option(
    "--at", type=click.Choice(["best", "last"]), help="The epoch whose value counts.  [as in the sweep]"
)
@INTERVAL
@click.option(
    "--pick",
    metavar="RULE|TRIAL",
    help="best, one_se or cheapest_within_se; for several objectives, knee or a trial of the front.",
)
def best(
    directory: Path,
    count: int | None,
    form: str | None,
    as_json: bool,
    metric: str | None,
    at: str | None,
    level: float | None,
    pick: str | None,
) -> None:
    """Print the optimal engine params of a run directory.

    The command reads the record of the sweep. Epochs count from 0. With several objectives it lists the
    Pareto front, unless --pick names a trial or the knee. The knee is the trial farthest from the line, or
    plane, through the extremes of the front.

    --metric accepts any metric that can be computed from the stored statistics of every epoch, even one that
    the sweep did not track. A confusion matrix gives mcc, cohen_kappa or f1(average=weighted). With
    results: {statistics: all} every metric of the rows is available, at any threshold: f1(threshold=0.3).

    -f args prints a command line, as in python train.py $(hpometrics best runs/x -f args). Paste it if a
    value has spaces. Texts are printed as they are, other values as JSON. With -k it prints a line for each
    feasible trial.

    Exit code 3: no trial is complete, or none is feasible. In the second case --json names the trial that
    breaks the constraints least, with "feasible": false and its violations.
    """
    form = output_format(form, as_json)
    _check_alone(count, form, level, pick)
    from ..results.best import NoneFeasible, best_text
    from ..selection.rules import read_pick

    rule = None if pick is None else read_pick(pick)
    try:
        text = best_text(directory, form, metric, at, level, rule, count)
        is_prose = form == "text" and count is None
        show(wrapped_lines(text, terminal_width()) if is_prose else text)
    except NoneFeasible as err:
        if form in ("yaml", "json"):
            show(err.format_facts(form, listed=count is not None))
        raise


def _check_alone(count: int | None, form: str, level: float | None, pick: str | None) -> None:
    """Raise if an option for the one pick is used with several trials, or with params alone."""
    if count is not None and pick is not None:
        raise click.UsageError("-k selects several trials and --pick one; use one of them")
    if level is not None and (count is not None or form == "args"):
        option = "-f args" if count is None else "-k"
        raise click.UsageError(
            f"--interval compares the winner and the runner-up, which {option} does not name"
        )


@click.command(cls=Command, examples=("replay runs/digits", "replay runs/digits --trial 3 --seeds 5"))
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.argument("evaluation", metavar="[MODULE:EVALUATION]", required=False)
@click.option("--trial", type=click.IntRange(min=0), help="Repeat this trial of a sweep.  [the best one]")
@click.option(
    "--confirm", "fresh_run", type=click.IntRange(min=1), help="Repeat this training of the confirmation."
)
@click.option("--seeds", type=click.IntRange(min=1), help="Train it with this many seeds.  [1]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, and progress to stderr.")
def replay(
    path: Path,
    evaluation: str | None,
    trial: int | None,
    fresh_run: int | None,
    seeds: int | None,
    as_json: bool,
) -> None:
    """Rerun a recorded trial or evaluation and compare its score.

    PATH is the best.json of an evaluation, or the best.yaml or the directory of a sweep. The command
    evaluates the engine params of a best.json, or trains the best trial of a sweep, with the recorded seed.

    Exit code 0: the score equals the recorded one to the last digit; 1: it does not.
    """
    from .._imports import aside
    from ..engines.command import BestReplay, best_file

    file = best_file(path)
    if evaluation is not None if file is None else any((trial is not None, fresh_run, seeds)):
        raise click.UsageError(
            "MODULE:EVALUATION is for a best.json; --trial, --confirm and --seeds are for a sweep"
        )
    if fresh_run and seeds:
        raise click.UsageError("--confirm repeats one training with its own seed; leave out --seeds")
    with aside() as stdout:
        printers = _printers(stdout, as_json)
        if file is None:
            from ..runner.trial_replay import replay_trial  # with torch

            sys.exit(replay_trial(path, trial, seeds or 1, *printers, fresh_run=fresh_run))
        best = BestReplay.read(file)
        if evaluation is None and best.sweep_description is not None:
            from ..runner.staged_engine import rebuild_evaluation  # with torch

            sys.exit(best.run(*rebuild_evaluation(best.sweep_description), *printers))
        sys.exit(best.run(*best.load_evaluation(evaluation), *printers))


@click.command(cls=Command, examples=("verify runs/digits", "verify runs/digits --trials 8 --workers 4"))
@click.argument("directory", type=RUN_DIRECTORY)
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    default=4,
    metavar="N",
    help="The number of trials on each backend.  [4]",
)
@click.option(
    "--backend",
    type=click.Choice(backends_of("median")),
    help="The backend of the second search.  [the other one]",
)
@click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="The workers of the second search.  [2, or 1]"
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the differences as JSON, and progress to stderr."
)
def verify(directory: Path, trials: int, backend: str | None, workers: int | None, as_json: bool) -> None:
    """Rerun trials here and on another backend; list differences.

    The command first trains a sample of the complete trials here, one after another, the best first. Then it
    trains the first trials of the search on another backend, with another number of workers and no pruner. It
    compares each value of each epoch to the last digit, and writes nothing into the directory. The points of
    a sampler that learns are drawn again from the recorded results, without training.

    Exit code 1: something differs.
    """
    check_posix("hpometrics verify")
    from .._imports import aside
    from ..runner.trial_replay import verify_sweep  # with torch

    with aside() as stdout:
        sys.exit(verify_sweep(directory, trials, backend, workers, *_printers(stdout, as_json)))


def _printers(stdout: TextIO, as_json: bool) -> tuple[Printer, FactsPrinter | None]:
    """Return the printer of a replay's lines, and of its facts if stdout is for JSON alone."""
    if not as_json:
        return partial(show, file=stdout), None

    def print_facts(facts: dict[str, Any]) -> None:
        show(json_text(facts), file=stdout)

    return partial(show, err=True), print_facts


@click.command(
    cls=Command,
    examples=("audit study.db --metric roc_auc", "audit sqlite:///study.db --study digits --json"),
)
@click.argument("path")
@click.option("--study", metavar="NAME", help="Only this study of a storage.")
@click.option("--metric", metavar="NAME", type=METRIC, help="The optimized metric.  [as in the files]")
@click.option(
    "--direction",
    type=click.Choice(["minimize", "maximize"]),
    help="The direction of the search, if no file states it.",
)
@click.option(
    "--budget", type=click.IntRange(min=1), metavar="TRIALS", help="The number of requested trials."
)
@click.option(
    "--ignore", multiple=True, metavar="CODE", help="Ignore findings of this kind, such as unreported."
)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def audit(
    path: str,
    study: str | None,
    metric: str | None,
    direction: str | None,
    budget: int | None,
    ignore: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check results of Optuna, Ray, W&B or Ludwig for misleading ones.

    PATH is an Optuna storage, a folder of Ray results, a W&B sweep or a Ludwig config. It may be the URL of
    an SQLite file, sqlite:///study.db. The command reports a direction that contradicts the metric, and a
    best value that is not finite or only the last epoch's. It also reports trials that never ended and points
    tried twice. It changes nothing.

    Exit code 1: there are findings.
    """
    from ..interop.audit import (
        Request,
        audit_files,
        audit_json,
        audit_searches,
        audit_text,
        path_of,
        storage_at,
    )

    request = Request(path_of(path), study, metric, direction, budget, ignore)
    storage = storage_at(request.path)
    if storage is None:
        audits = audit_files(request)
    else:
        from ..interop.optuna_storage import find_torn_journal, read_storage

        torn = find_torn_journal(storage, follow=storage == request.path)
        audits = audit_searches(read_storage(storage, study, metric), request, torn)
    show(audit_json(audits) if as_json else wrapped_lines(audit_text(audits), terminal_width()))
    if any(one.findings for one in audits):
        sys.exit(1)


@click.command(cls=Command, examples=("status runs/digits", "status runs/digits --json"))
@click.argument("directory", type=RUN_DIRECTORY)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def status(directory: Path, as_json: bool) -> None:
    """Print the progress of a sweep, its best and its open trials.

    Exit code 3: no trial is complete yet.
    """
    from ..records.trial_record import TrialState
    from ..results.annotation_file import annotated
    from ..results.run_directory import RunDirectory
    from ..results.status import status_json, status_text

    home = RunDirectory(directory)
    resolved, records = annotated(home), home.records()
    facts = (home, resolved, records)
    show(status_json(*facts) if as_json else status_text(*facts, terminal_width()))
    if all(record.state is not TrialState.COMPLETE for record in records):
        sys.exit(NOTHING_FINITE)


@click.command(cls=Command, examples=("ls", "ls runs --tag baseline"))
@click.argument("folder", type=RUN_DIRECTORY, default=Path())
@TAGS
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def ls(folder: Path, tags: tuple[str, ...], as_json: bool) -> None:
    """List the runs below a folder with their state, best and age.

    The age is the time since the last change. An open run has trials left, but no process works on them.
    """
    from ..results.run_list import list_runs, runs_json, runs_text

    lines = list_runs(folder, tags)
    show(runs_json(lines) if as_json else runs_text(lines, folder, tags))


@click.command(
    cls=Command, examples=("trials runs/digits --sort accuracy", "trials runs/digits --state complete -f csv")
)
@click.argument("directory", type=RUN_DIRECTORY)
@click.option(
    "--sort",
    default="trial",
    show_default=True,
    metavar="COLUMN",
    help="A metric (best first), cost, seconds, epochs, state or a param.",
)
@click.option("--state", "states", multiple=True, type=click.Choice(STATES), help="Only these.")
@TAGS
@click.option("-f", "--format", "form", type=click.Choice(["table", "json", "csv"]), help="[table]")
@AS_JSON
def trials(
    directory: Path,
    sort: str,
    states: tuple[str, ...],
    tags: tuple[str, ...],
    form: str | None,
    as_json: bool,
) -> None:
    """List the trials of a sweep with their values."""
    from ..results.leaderboard import trials_text

    form = output_format(form, as_json, "table")
    show(trials_text(directory, form, sort, states, tags, terminal_width()))


@click.command(
    cls=Command,
    examples=("tag runs/digits baseline gpu", 'tag runs/digits good --trial 7 --note "wide, but stable"'),
)
@click.argument("directory", type=RUN_DIRECTORY)
@click.argument("words", nargs=-1, metavar="[TAG]...")
@click.option(
    "--trial",
    "numbers",
    multiple=True,
    type=click.IntRange(min=0),
    help="Tag this trial instead of the sweep.",
)
@click.option("--remove", is_flag=True, help="Remove the tags.")
@click.option("--note", metavar="TEXT", help="Write this note; '' removes it.")
def tag(
    directory: Path, words: tuple[str, ...], numbers: tuple[int, ...], remove: bool, note: str | None
) -> None:
    """Tag a sweep or its trials, or write a note on them.

    ls, status, trials, best, the report and trials.csv show them; ls --tag and trials --tag find them. A
    sweep file can also set tags and a note for the sweep.
    """
    if not words and (remove or note is None):
        raise click.UsageError(
            "give a tag, as in hpometrics tag runs/x good, or a note, as in --note 'a text'"
        )
    from ..results.annotation_file import annotate
    from ..results.run_directory import RunDirectory

    show(annotate(RunDirectory(directory), words, numbers, remove=remove, note=note))


@click.command(cls=Command, examples=("report runs/digits", "report runs/digits -f md -o report.md"))
@click.argument("directory", type=RUN_DIRECTORY)
@click.option("-o", "--output", type=FILE, help="Write to this file.  [report.html in DIRECTORY]")
@click.option("-f", "--format", "form", type=click.Choice(["html", "md"]), default="html")
def report(directory: Path, output: Path | None, form: str) -> None:
    """Write the report of a sweep: one offline page, or Markdown."""
    from ..results.report.content import write_report

    show(f"saved {write_report(directory, form, output)}")


@click.command(cls=Command, examples=("dashboard runs/digits --port 8081",))
@click.argument("directory", type=RUN_DIRECTORY)
@click.option("--port", type=click.IntRange(1, 65535), default=8080, show_default=True)
def dashboard(directory: Path, port: int) -> None:
    """Show the study of a sweep in optuna-dashboard.

    The server listens on this machine only.
    """
    from .dashboard import serve_dashboard

    serve_dashboard(directory, port, show)


@click.command(
    cls=Command, examples=("epochs runs/digits 12", "epochs runs/digits 12 --all --split validation")
)
@click.argument("directory", type=RUN_DIRECTORY)
@click.argument("trial", type=click.IntRange(min=0))
@click.option(
    "--epoch", type=click.IntRange(min=0), help="This epoch or step, counted from 0.  [the picked one]"
)
@click.option("--all", "every", is_flag=True, help="All epochs.")
@click.option("--split", type=click.Choice(["train", "validation", "test"]), help="Only this one.")
def epochs(directory: Path, trial: int, epoch: int | None, every: bool, split: str | None) -> None:
    """Print the recorded values of a trial, a row per task."""
    from ..results.status import epochs_text

    show(epochs_text(directory, trial, epoch, every=every, split=split, width=terminal_width()))
