"""The commands that write, check and run a sweep file, join a sweep, or run an evaluation."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._formatting import json_text
from .._redaction import redacted
from ..backends.registry import BACKENDS, DEFAULT, backends_of
from ..exceptions import ConfigError
from ..runner.signals import before_first_trial, check_posix
from ..selection.confirm_settings import LUCK, ConfirmSettings
from ..selection.confirmation import Confirmation, ConfirmationState
from .console import CONFIG_ERROR, show, without_garbage_collection
from .options import FILE, METRIC, RUN_DIRECTORY, RUN_DIRECTORY_OR_URL, Command, parse_duration

if TYPE_CHECKING:
    from ..results.run_directory import RunDirectory

SET = click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Change a key, as in budget.trials=5."
)


@click.command(
    cls=Command, examples=("init", "init digits --metric f1 --backend ray", "init --from wandb.yaml")
)
@click.argument("directory", type=RUN_DIRECTORY, default=Path())
@click.option("--metric", metavar="NAME", type=METRIC, help="The metric to optimize.  [roc_auc]")
@click.option("--backend", type=click.Choice(backends_of("median")), help=f"The backend.  [{DEFAULT}]")
@click.option("--from", "source", type=FILE, metavar="FILE", help="Convert this sweep of another tool.")
def init(directory: Path, metric: str | None, backend: str | None, source: Path | None) -> None:
    """Write a starter sweep file, its engine and its JSON Schema.

    --metric must be a metric of a binary output, which the starter engine predicts.

    --from converts a sweep of W&B, Ludwig, Hydra with Optuna's sweeper, Ray Tune, WarpRec (YAML),
    KerasTuner (oracle.json) or RecBole (hyper.test). It lists the settings that it could not convert, with
    their lines, on stdout and at the head of the new file.
    """
    from ..interop.first_files import write_imported, write_starter

    if source is not None:
        if metric is not None or backend is not None:
            raise click.UsageError(
                "--from uses the metric and the backend of the file; leave out --metric and --backend"
            )
        show(write_imported(source, directory))
    else:
        show(write_starter(directory, metric or "roc_auc", backend or DEFAULT))


@click.command(
    cls=Command,
    examples=("run sweep.yaml", "run sweep.yaml --workers 4", "run sweep.yaml --set budget.trials=50"),
)
@click.argument("file", type=FILE)
@SET
@click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="Number of parallel trials. [as in FILE]"
)
@click.option("--fresh", is_flag=True, help="Move the results of earlier runs aside and start over.")
@click.option("--extend", is_flag=True, help="Resume although the space or the engine has changed.")
@click.option("--dry-run", is_flag=True, help="Print the plan without running it, as check does.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON, as status does.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the results.")
@click.option("-v", "--verbose", is_flag=True, help="Show the log of the backend, and tracebacks.")
def run(
    file: Path,
    assignments: tuple[str, ...],
    workers: int | None,
    fresh: bool,
    extend: bool,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Run a sweep up to the trials of its budget, or resume it.

    The command prints the results to stdout and keeps them in results.dir, by default runs/NAME below the
    current directory. --workers 4 sets backend.optuna.workers=4, or that of ray if the file names ray. When
    the sweep ends, the program of on_end starts; its failure does not change the exit code.
    """
    _check_once(workers, assignments)
    if dry_run:
        _check(file, assignments, as_json, workers=workers)
        return
    check_posix("hpometrics run")
    with before_first_trial():
        from ..config.overrides import read_with_overrides
        from ..results.stamp import print_finished

        document = read_with_overrides(file, assignments, workers)
        if not (fresh or extend) and print_finished(document, quiet, as_json):
            return
        from ..config.metric_section import anything
        from ..config.plan import make_plan

        plan = make_plan(document, registers=anything)
        has_title = not quiet and sys.stderr.isatty()
        if has_title:
            from ..results.run_directory import RunDirectory
            from ..results.status import title

            show(title(plan.name, RunDirectory(plan.directory.absolute(), plan.directory)), err=True)
        from ..runner.sweep import Options, run_command  # with torch, once the file is right
    options = Options(fresh, extend, quiet, verbose, as_json, has_title=has_title)
    sys.exit(run_command(plan, options))


def _check_once(workers: int | None, assignments: tuple[str, ...]) -> None:
    keys = {f"backend.{name}.workers" for name, entry in BACKENDS.items() if entry.has_workers}
    for key in (text.partition("=")[0] for text in assignments):
        if workers is not None and key in keys:
            raise click.UsageError(f"--workers and --set {key} are the same setting; use one of them")


@click.command(cls=Command, examples=("check sweep.yaml", "check sweep.yaml --sample 3 --probe"))
@click.argument("file", type=FILE)
@SET
@click.option(
    "--sample", type=click.IntRange(min=1), metavar="N", help="Print the params of the first N trials."
)
@click.option("--probe", is_flag=True, help="Train trial 0 for one epoch; keep nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan, or the problems, as JSON.")
def check(file: Path, assignments: tuple[str, ...], sample: int | None, probe: bool, as_json: bool) -> None:
    """Check a sweep file and print what it would do.

    Without --probe it imports and runs nothing.

    Exit code 2: something is wrong, or the epoch of --probe lacks a value that the file names.
    """
    _check(file, assignments, as_json, sample or 0, probe)


def _check(
    file: Path,
    assignments: tuple[str, ...],
    as_json: bool,
    sample: int = 0,
    probe: bool = False,
    workers: int | None = None,
) -> None:
    with nullcontext() if probe else without_garbage_collection():
        from .check import Check

        sweep_check = Check(file, assignments, sample, probe, workers)
        if as_json:
            facts = sweep_check.facts()
            show(redacted(json_text(facts)))
            if not facts["ok"]:
                sys.exit(CONFIG_ERROR)
            return
        text, lacking = sweep_check.text()
        show(redacted(text))
        if lacking is not None:
            raise lacking


@click.command(
    "eval",
    cls=Command,
    examples=("eval examples.engine_params:TextEvaluation", "eval configs/engine_params.yaml --workers 2"),
)
@click.argument("evaluation", metavar="MODULE:EVALUATION|FILE")
@click.argument("engine_params", metavar="[MODULE:LIST]", required=False)
@click.option("--dir", "directory", type=FILE, help="Write the results here.  [runs/NAME]")
@click.option("--batch", default="", metavar="TEXT", help="A label of your own for the record.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, its progress to stderr.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the result.")
@click.option("--no-cache", is_flag=True, help="Run every stage for each of the engine params.")
@click.option(
    "--workers", type=click.IntRange(min=1), help="Number of engine params evaluated in parallel.  [1]"
)
@click.option("--seed", type=int, help="The seed of the stages.  [0]")
@click.option("-v", "--verbose", is_flag=True, help="Show tracebacks.")
def evaluate(
    evaluation: str,
    engine_params: str | None,
    directory: Path | None,
    batch: str,
    as_json: bool,
    quiet: bool,
    no_cache: bool,
    workers: int | None,
    seed: int | None,
    verbose: bool,  # for `Command`, which prints the errors
) -> None:
    """Evaluate a list of engine params and print the best.

    Leave the list out if the evaluation has its own. A sweep file with an engine of stages can be evaluated
    if its candidates are a list or a grid. Its results go to results.dir with -eval at its end.
    """
    from ..engines.command import Options, eval_command

    cache = False if no_cache else None
    options = Options(directory, batch, as_json, quiet, cache, workers, seed)
    if not (Path(evaluation).is_file() or Path(evaluation).suffix in {".yaml", ".yml"}):
        eval_command(evaluation, engine_params, options)
        return
    if engine_params is not None:
        raise ConfigError(f"{evaluation} has a list of its own; leave {engine_params} out")
    from .evaluate import eval_file

    eval_file(Path(evaluation), options)


@click.command(
    cls=Command,
    short_help="Train the best trials again until the winner is decided.",
    examples=("confirm runs/digits", "confirm runs/digits --top 3 --repeats 16"),
)
@click.argument("directory", type=RUN_DIRECTORY)
@click.option("--top", type=click.IntRange(min=2), help="Number of contenders.  [5]")
@click.option(
    "--repeats", type=click.IntRange(min=3), help="The maximum number of fresh seeds for each contender.  [8]"
)
@click.option(
    "--equivalence", metavar="luck|NUMBER", help="The largest difference that does not matter.  [luck]"
)
@click.option("--until", type=click.Choice(["decided", "spent"]), help="When to stop.  [decided]")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON, as status does.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the results.")
@click.option("-v", "--verbose", is_flag=True, help="Show the log of the backend, and tracebacks.")
def confirm(directory: Path, as_json: bool, quiet: bool, verbose: bool, **settings: object) -> None:
    """Train the best trials of a sweep again until its winner is decided.

    All contenders train with the same fresh seeds. After a half, three quarters and all of the seeds, the
    command drops contenders that are worse than the leader. Earlier trainings count: run it again with a
    larger --repeats to add seeds.
    """
    check_posix("hpometrics confirm")
    from ..results.run_directory import RunDirectory
    from ..runner.planned_trials import planned_again
    from ..runner.sweep import Options, confirm_command  # with torch

    home = RunDirectory(directory)
    requested = {key: value for key, value in settings.items() if value is not None}
    section = {**home.read().config.get("confirm", {}), **requested}
    equivalence = section.get("equivalence")
    if isinstance(equivalence, str) and equivalence != LUCK:
        section["equivalence"] = _number(equivalence)
    _check_extends(home, section)
    assignments = [f"confirm={json.dumps(section)}", f"results.dir={json.dumps(str(directory))}"]
    plan = planned_again(home, assignments)
    sys.exit(confirm_command(plan, Options(quiet=quiet, verbose=verbose, as_json=as_json)))


def _check_extends(home: RunDirectory, section: Mapping[str, Any]) -> None:
    """Check that changed settings of a confirmation that has ended can change how it ends.

    Raises:
        UsageError: all comparisons were made before.
    """
    from ..results.confirmation import read_confirmation

    before: Mapping[str, Any] = home.read().config.get("confirm") or {}
    end = read_confirmation(home) if before else None
    if not isinstance(end, Confirmation) or not end.looks:
        return
    old, new = ConfirmSettings(**_settings_of(before)), ConfirmSettings(**_settings_of(section))
    changed = [name for name in ("equivalence", "until") if getattr(old, name) != getattr(new, name)]
    if not changed or new.top > old.top:
        return
    if end.state is ConfirmationState.DECIDED:
        raise click.UsageError(
            f"--{changed[0]} has no effect: the winner is decided, and no contender is left"
        )
    made = end.looks[-1].seeds
    if new.repeats <= made:
        raise click.UsageError(
            f"--{changed[0]} takes effect at the next comparison, but all {made} seeds are already "
            f"trained; add --repeats {made + 1} or more"
        )


def _settings_of(section: Mapping[str, Any]) -> dict[str, Any]:
    names = {one.name for one in fields(ConfirmSettings)}
    return {name: value for name, value in section.items() if name in names and value is not None}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise click.UsageError(f"--equivalence must be luck or a number, got {text!r}") from None


@click.command(cls=Command, examples=("pause runs/digits",))
@click.argument("directory", type=RUN_DIRECTORY)
def pause(directory: Path) -> None:
    """Hold back further trials of a sweep; running trials finish.

    This applies to every process that works in the directory, and to those that start later. A complete
    sweep stays as it is.
    """
    _ask("pause", directory)


@click.command(cls=Command, examples=("resume runs/digits",))
@click.argument("directory", type=RUN_DIRECTORY)
def resume(directory: Path) -> None:
    """Release the trials of a paused sweep."""
    _ask("resume", directory)


@click.command(cls=Command, examples=("stop runs/digits",))
@click.argument("directory", type=RUN_DIRECTORY)
def stop(directory: Path) -> None:
    """Stop the run and the workers of a directory, as Ctrl-C does.

    They record the progress of their trials, and hpometrics run resumes them. The command works from every
    machine that sees the directory. The stopped processes end with exit code 143.
    """
    _ask("stop", directory)


def _ask(name: str, directory: Path) -> None:
    from ..results import control
    from ..results.run_directory import RunDirectory

    show(getattr(control, name)(RunDirectory(directory)))


@click.command(cls=Command, examples=("add runs/digits lr=0.01 width=64",))
@click.argument("directory", type=RUN_DIRECTORY)
@click.argument("params", nargs=-1, required=True, metavar="NAME=VALUE...")
def add(directory: Path, params: tuple[str, ...]) -> None:
    """Queue params of your own as the next trial.

    The sampler draws the params that you leave out. The trial counts toward the budget. Values are YAML.
    """
    check_posix("hpometrics add")
    from ..config.document import parse_value
    from ..results.run_directory import RunDirectory
    from ..runner.planned_trials import add_trial, planned_again

    home = RunDirectory(directory)
    values = {}
    for text in params:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"write params as NAME=VALUE, as in lr=0.01; got {text!r}")
        if name in values:
            raise click.UsageError(f"{name} is given twice; leave {text!r} out")
        values[name] = parse_value(value, text)
    number = add_trial(planned_again(home), home, values)
    show(f"{directory}: trial {number} has these params")


@click.command(
    cls=Command,
    examples=("worker runs/digits", "worker 'postgresql://ada:${PGPASSWORD}@db/studies' --wait 10m"),
)
@click.argument("place", type=RUN_DIRECTORY_OR_URL, metavar="DIRECTORY|URL")
@click.option("--study", metavar="NAME", help="The sweep, if the storage at a URL has several.")
@click.option(
    "--dir", "directory", type=FILE, help="The folder that a worker at a URL writes to.  [runs/NAME]"
)
@click.option("--trials", type=click.IntRange(min=1), metavar="N", help="Stop after this many trials.")
@click.option(
    "--wait", type=parse_duration, metavar="TIME", help="How long to wait for the sweep, as in 10m."
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
@click.option("-v", "--verbose", is_flag=True, help="Show the log of the backend, and tracebacks.")
@click.option("--hired", is_flag=True, hidden=True)
@click.option("--confirm", "confirms", is_flag=True, hidden=True)
@click.option("--since", type=float, hidden=True)
def worker(
    place: str,
    study: str | None,
    directory: Path | None,
    trials: int | None,
    wait: float | None,
    quiet: bool,
    verbose: bool,
    hired: bool,
    confirms: bool,
    since: float | None,
) -> None:
    """Join a sweep from another process, or another machine.

    Name the run directory if the machine sees it. Otherwise name the URL of the storage, from a folder with
    the engine's code. '${NAME}' in a URL is read from the environment.

    The worker runs trials beside all others until none is left, and reruns the trials of workers that died.
    In a run directory it then trains contenders of the confirmation. With --wait it can start before the
    run that begins the sweep. A run starts its own workers if its file has backend: {optuna: {workers: 4}}.
    """
    check_posix("hpometrics worker")
    from ..runner.worker import WorkerOptions, worker_command

    options = WorkerOptions(quiet, verbose, hired, since, study, directory, confirms, trials, wait or 0.0)
    sys.exit(worker_command(place, options))
