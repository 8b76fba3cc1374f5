"""The `hpometrics` command: one sweep file in, a directory of results out.

What a command needs is imported when it runs: only `run` loads a search host; `run`,
`measure` and `compare` load torch.
"""

from __future__ import annotations

import json
import shutil
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from . import __version__
from .exceptions import ConfigError, HpometricsError, NoFiniteValueError
from .sections import Sections

CONFIG_ERROR, NOTHING_FINITE, INTERRUPTED = 2, 3, 130
_SECTIONS = {
    "Sweeps": ("init", "check", "run", "worker", "eval"),
    "Results": ("status", "best", "trials", "epochs", "compare", "report", "dashboard", "replay"),
    "Metrics": ("metrics", "measure"),
    "Editors": ("schema",),
}
_STATES = ("waiting", "running", "complete", "pruned", "failed", "infeasible", "interrupted")
_FILE = click.Path(path_type=Path)
_SET = click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Change a key, as in budget.trials=5."
)


@contextmanager
def _reported(verbose: bool = False) -> Iterator[None]:
    """Print an error of ours as it is and leave with the code for it."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except HpometricsError as err:
        click.echo(traceback.format_exc() if verbose else str(err), err=True)
        sys.exit(NOTHING_FINITE if isinstance(err, NoFiniteValueError) else CONFIG_ERROR)
    except BrokenPipeError:
        raise  # click ends quietly when nobody reads on
    except OSError as err:
        place = "" if err.filename is None else f"{err.filename}: "
        told = f"error: {place}{err.strerror or err}"
        click.echo(traceback.format_exc() if verbose else told, err=True)
        sys.exit(CONFIG_ERROR)


@click.group(cls=Sections, sections=_SECTIONS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hpometrics")
def main() -> None:
    """Name any metric; search in the right direction; keep the optimal engine params.

    Exit codes: 0 all is well; 2 a file, a name or a setting is wrong and nothing was run; 3 no trial is
    complete, no score is finite; 130 interrupted, a sweep that is run again goes on.
    """


@main.command()
@click.argument("directory", type=_FILE, default=Path())
def init(directory: Path) -> None:
    """Write a sweep file to start from, its engine and the schema for editors; check and run take them."""
    with _reported():
        from .sweep.init import write_starter

        click.echo(write_starter(directory))


@main.command()
@click.argument("file", type=_FILE)
@_SET
@click.option("--fresh", is_flag=True, help="Put the results of earlier runs aside and start over.")
@click.option("--extend", is_flag=True, help="Go on although the space or the engine has changed.")
@click.option("--dry-run", is_flag=True, help="Say what would run, as check does.")
@click.option("-q", "--quiet", is_flag=True, help="Print the results only.")
@click.option("-v", "--verbose", is_flag=True, help="Show the host's own log, and tracebacks.")
def run(
    file: Path,
    assignments: tuple[str, ...],
    fresh: bool,
    extend: bool,
    dry_run: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Run a sweep, or go on with it, up to the trials of its budget.

    Results are printed to stdout and kept in results.dir (runs/NAME, seen from the current directory).
    """
    with _reported(verbose):
        if dry_run:
            _check(file, assignments, as_json=False)
            return
        from .sweep.plan import read_plan

        plan = read_plan(file, assignments)
        from .sweep.command import Options, run_command  # with torch, once the file is right

        sys.exit(run_command(plan, Options(fresh, extend, quiet, verbose)))


@main.command()
@click.argument("file", type=_FILE)
@_SET
@click.option("--json", "as_json", is_flag=True, help="Print the plan, or the problems, as JSON.")
def check(file: Path, assignments: tuple[str, ...], as_json: bool) -> None:
    """Check a sweep file and print what it would do; nothing is imported or run."""
    with _reported():
        _check(file, assignments, as_json)


def _check(file: Path, assignments: tuple[str, ...], as_json: bool) -> None:
    from .sweep.overview import check_facts, check_text

    if not as_json:
        click.echo(check_text(file, assignments))
        return
    facts = check_facts(file, assignments)
    click.echo(json.dumps(facts, indent=1))
    if not facts["ok"]:
        sys.exit(CONFIG_ERROR)


@main.command("eval")
@click.argument("evaluation", metavar="MODULE:EVALUATION|FILE")
@click.argument("engine_params", metavar="[MODULE:LIST]", required=False)
@click.option("--dir", "directory", type=_FILE, help="Where the results go.  [runs/NAME]")
@click.option("--batch", default="", metavar="TEXT", help="Your own words for the record.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, its progress to stderr.")
@click.option("-q", "--quiet", is_flag=True, help="Print the result only.")
@click.option("--no-cache", is_flag=True, help="Carry out every stage for every engine params.")
@click.option("--workers", type=click.IntRange(min=1), help="Engine params at the same time.  [1]")
@click.option("--seed", type=int, help="Of what the stages draw.  [0]")
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
    verbose: bool,
) -> None:
    """Evaluate a list of engine params and print which is the best.

    The list may be left out where the evaluation has its own. A sweep file over an engine of stages is
    evaluated if its candidates are a list or a grid; the results go to results.dir with -eval at its end.
    """
    with _reported(verbose):
        from .evaluation.command import Options, eval_command

        cache = False if no_cache else None
        options = Options(directory, batch, as_json, quiet, cache, workers, seed)
        if not (Path(evaluation).is_file() or Path(evaluation).suffix in {".yaml", ".yml"}):
            eval_command(evaluation, engine_params, options)
            return
        if engine_params is not None:
            raise ConfigError(f"{evaluation} has its own list; leave {engine_params} out")
        from .sweep.evaluating import eval_file

        eval_file(Path(evaluation), options)


@main.command()
@click.argument("directory", type=_FILE)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
@click.option("-v", "--verbose", is_flag=True, help="Show the host's own log, and tracebacks.")
@click.option("--hired", is_flag=True, hidden=True)
@click.option("--since", type=float, hidden=True)
def worker(directory: Path, quiet: bool, verbose: bool, hired: bool, since: float | None) -> None:
    """Join a sweep from another process, or another machine that sees its directory.

    Works on its trials beside all others until none is left; what a worker that died has left is taken up.
    `run` starts workers itself where the file says backend: {optuna: {workers: 4}}.
    """
    with _reported(verbose):
        from .sweep.worker import WorkerOptions, worker_command

        sys.exit(worker_command(directory, WorkerOptions(quiet, verbose, hired, since)))


@main.command()
@click.argument("directory", type=_FILE)
@click.option("-f", "--format", "form", type=click.Choice(["text", "yaml", "json"]), default="text")
@click.option("--metric", metavar="NAME", help="Pick by this one instead of the optimized one.")
@click.option("--at", type=click.Choice(["best", "last"]), help="Which epoch counts.  [as the sweep says]")
def best(directory: Path, form: str, metric: str | None, at: str | None) -> None:
    """Print the optimal engine params of a run directory, from its record; epochs count from 0.

    --metric takes any metric that follows from the statistics kept of every epoch, trained or not for it:
    mcc, cohen_kappa or f1(average=weighted) from a confusion matrix. With results: {statistics: all} that is
    any metric of the rows, and any threshold: f1(threshold=0.3).
    """
    with _reported():
        from .sweep.best import best_text

        click.echo(best_text(directory, form, metric, at))


@main.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.argument("evaluation", metavar="[MODULE:EVALUATION]", required=False)
@click.option("--trial", type=click.IntRange(min=0), help="This trial of a sweep.  [the best one]")
@click.option("--seeds", type=click.IntRange(min=1), help="Train it under so many seeds.  [1]")
def replay(path: Path, evaluation: str | None, trial: int | None, seeds: int | None) -> None:
    """Do again what a best.json, or a best.yaml or directory of a sweep, is the record of.

    The engine params of a best.json are evaluated, the best trial of a sweep is trained, each under the
    recorded seed. Exit code 0: the recorded score came out, to the last digit; 1: it did not.
    """
    with _reported():
        from .evaluation.replay import best_file, replay_best

        file = best_file(path)
        if evaluation is not None if file is None else (trial, seeds) != (None, None):
            raise click.UsageError("MODULE:EVALUATION is for a best.json, --trial and --seeds for a sweep")
        if file is None:
            from .sweep.replay import replay_trial  # with torch

            sys.exit(replay_trial(path, trial, seeds or 1, click.echo))
        sys.exit(replay_best(file, evaluation, click.echo))


@main.command()
@click.argument("directory", type=_FILE)
def status(directory: Path) -> None:
    """Say how far a sweep is, what is best so far and what its open trials do.

    Exit code 3: no trial is complete yet.
    """
    with _reported():
        from .sweep.status import status_text

        told, complete = status_text(directory)
        click.echo(told)
        if not complete:
            sys.exit(NOTHING_FINITE)


@main.command()
@click.argument("directory", type=_FILE)
@click.option("--sort", default="trial", show_default=True, metavar="COLUMN", help="A metric: best first.")
@click.option("--state", "states", multiple=True, type=click.Choice(_STATES), help="Only these.")
@click.option("-f", "--format", "form", type=click.Choice(["table", "json", "csv"]), default="table")
def trials(directory: Path, sort: str, states: tuple[str, ...], form: str) -> None:
    """List the trials of a run directory with the values of their picked epochs."""
    with _reported():
        from .sweep.listing import trials_text

        click.echo(trials_text(directory, form, sort, states))


@main.command()
@click.argument("directory", type=_FILE)
@click.option("-o", "--output", type=_FILE, help="Write to this file.  [report.html in DIRECTORY]")
@click.option("-f", "--format", "form", type=click.Choice(["html", "md"]), default="html")
def report(directory: Path, output: Path | None, form: str) -> None:
    """Write a run directory's report: one page, offline, or one text; from its record."""
    with _reported():
        from .sweep.report.writing import write_report

        click.echo(f"saved {write_report(directory, form, output)}")


@main.command()
@click.argument("directory", type=_FILE)
@click.option("--port", type=click.IntRange(1, 65535), default=8080, show_default=True)
def dashboard(directory: Path, port: int) -> None:
    """Show the study of a run directory in optuna-dashboard, on this machine only."""
    with _reported():
        from .sweep.dashboard import serve_dashboard

        serve_dashboard(directory, port, click.echo)


@main.command()
@click.argument("directory", type=_FILE)
@click.argument("trial", type=click.IntRange(min=0))
@click.option("--epoch", type=click.IntRange(min=0), help="This epoch, counted from 0.  [the picked one]")
@click.option("--all", "every", is_flag=True, help="All epochs.")
@click.option("--split", type=click.Choice(["train", "validation", "test"]), help="Only this one.")
def epochs(directory: Path, trial: int, epoch: int | None, every: bool, split: str | None) -> None:
    """Print what a trial of a run directory has measured, a row per task, from its record."""
    with _reported():
        from .sweep.epochs import epochs_text

        click.echo(epochs_text(directory, trial, epoch, every=every, split=split, width=_width()))


@main.command()
@click.argument("directory", type=_FILE)
@click.argument("first", metavar="TRIAL", type=click.IntRange(min=0))
@click.argument("second", metavar="TRIAL", type=click.IntRange(min=0))
@click.option("--metric", "names", multiple=True, metavar="NAME", help="Only this one, such as ndcg@10.")
@click.option(
    "--by",
    type=click.Choice(["group", "popularity"]),
    help="Compare the users of each group, or of each third by how popular what they like is.",
)
def compare(directory: Path, first: int, second: int, names: tuple[str, ...], by: str | None) -> None:
    """Compare two trials of a run directory user by user, each at its picked epoch.

    Needs trials whose output keeps values by user, ranking(per_user=true). The interval of the difference is
    that of a paired bootstrap, p that of Wilcoxon's signed-rank test, after Holm where there are several
    metrics or strata; the effect is the difference in standard deviations of the users' differences.
    """
    with _reported():
        from .sweep.comparing import compare_text

        click.echo(compare_text(directory, first, second, names, by))


@main.command()
@click.argument("file", type=_FILE)
@click.option(
    "--output", metavar="TYPE", help="What the model predicts, such as category or binary(threshold=0.3)."
)
@click.option(
    "--metrics",
    "names",
    default="default",
    show_default=True,
    metavar="NAMES",
    help="Metrics and groups, with commas.",
)
@click.option(
    "--by", metavar="COLUMN", help="A line of values for each task in this column.  [task, if there]"
)
@click.option("--weights", metavar="COLUMN", help="How much each row counts.  [sample_weight, if there]")
@click.option("-f", "--format", "form", type=click.Choice(["text", "json", "csv"]), default="text")
def measure(
    file: Path, output: str | None, names: str, by: str | None, weights: str | None, form: str
) -> None:
    """Measure predictions that were saved to a file: CSV, TSV, JSON lines, Parquet or npz.

    Its columns: target and prediction; probability or probability_0 ..., or named by label; logit likewise;
    target_LABEL for a set; reference or reference_0 ... for texts; sample_weight; task.
    """
    with _reported():
        from .measure import Request, measure_file, report
        from .metrics.names import split_names

        request = Request(file, output, tuple(split_names(names)), weights, by)
        click.echo(report(measure_file(request), form))


@main.group()
def metrics() -> None:
    """What can be measured."""


@metrics.command("list")
@click.option("--feature", metavar="TYPE", help="Only for this output feature, such as binary or category.")
@click.option("--inputs", type=click.Choice(["predictions", "probabilities", "logits"]))
@click.option("--objective", type=click.Choice(["minimize", "maximize", "none"]))
@click.option("--family", metavar="NAME", help="Only those of a family, such as calibration.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def list_metrics(
    feature: str | None, inputs: str | None, objective: str | None, family: str | None, as_json: bool
) -> None:
    """List the registered metrics: name, which way is better, what each reads and means."""
    with _reported():
        from .guide.diagnostics import diagnostics_table
        from .guide.listing import Filter, metrics_json, metrics_table

        asked = Filter(feature, inputs, objective, family)
        click.echo(metrics_json(asked) if as_json else metrics_table(asked, _width()))
        if asked == Filter() and not as_json:
            click.echo(f"\n{diagnostics_table(_width())}")


@metrics.command("show")
@click.argument("name")
@click.option("--feature", metavar="TYPE", help="As a metric of this output feature only.")
def show_metric(name: str, feature: str | None) -> None:
    """Say all that is known of a metric: definition, direction and how it was tried, parameters, use."""
    with _reported():
        from .guide.page import metric_text

        click.echo(metric_text(name, feature, _width()))


def _width() -> int | None:
    """Give the width of the terminal; None where the output goes elsewhere, which is not wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


@main.command()
@click.option("-o", "--output", type=_FILE, help="Write to this file.")
def schema(output: Path | None) -> None:
    """Print the JSON Schema of sweep files, for editors."""
    from .sweep.schema import json_schema

    text = json.dumps(json_schema(), indent=1) + "\n"
    with _reported():
        if output is None:
            click.echo(text, nl=False)
        else:
            output.write_text(text, encoding="utf8")
