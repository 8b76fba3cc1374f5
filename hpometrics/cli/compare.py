"""The command that compares models, trials and sweeps."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from .._formatting import json_text
from .console import NOTHING_FINITE, show
from .options import FEATURE, METRIC, RUN_DIRECTORY_OR_URL, Command

if TYPE_CHECKING:
    from ..selection.model_comparison import Correction

_STRATA = ("group", "popularity")
_CORRECTION = "holm"


class _Printable(Protocol):
    """A comparison."""

    def text(self) -> str:
        """Return it in words."""

    def facts(self) -> dict[str, Any]:
        """Return it as plain JSON."""


@dataclass(frozen=True)
class _Request:
    """The options of a comparison of models; None or False is not given."""

    metrics: tuple[str, ...]
    output: str | None
    values: str | None
    direction: str | None
    test_share: float | None
    by: str | None
    row_id: str | None
    weights: str | None
    level: float | None
    equivalence: float
    every: bool
    correction: Correction
    memory: float

    @property
    def is_of_rows(self) -> bool:
        """Whether an option asks for a comparison row by row."""
        return bool(self.metrics) or self.by not in (None, *_STRATA) or self.is_of_rows_alone

    @property
    def is_of_rows_alone(self) -> bool:
        """Whether one asks for what nothing else has."""
        of_files = (self.output, self.values, self.direction, self.test_share, self.row_id, self.weights)
        return any((*of_files, self.equivalence, self.every, self.correction != _CORRECTION))


@click.command(
    cls=Command,
    examples=(
        "compare a.csv b.csv --metric accuracy --output binary",
        "compare runs/tpe runs/random",
        "compare runs/recommender 3 7",
    ),
)
@click.argument("models", metavar="MODEL MODEL...", nargs=-1, required=True, type=RUN_DIRECTORY_OR_URL)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    type=METRIC,
    help="Compare by this metric; may be repeated.  [for run directories, the optimized one]",
)
@click.option("--output", metavar="TYPE", type=FEATURE, help="What the models of files predict.")
@click.option("--values", metavar="COLUMN", help="Compare the mean of this column, in place of a metric.")
@click.option(
    "--direction",
    type=click.Choice(["minimize", "maximize"]),
    help="The direction of --values.",
)
@click.option(
    "--test-share",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SHARE",
    help="If --values holds one value per fold, the number of test rows per training row.",
)
@click.option(
    "--by",
    metavar="COLUMN",
    help="The column of clusters, such as users, whose rows depend on each other. For two trials: group, or "
    "popularity, which splits the users into thirds by the popularity of their items.",
)
@click.option(
    "--id", "row_id", metavar="COLUMN", help="The column that joins the rows of files.  [id, if present]"
)
@click.option("--weights", metavar="COLUMN", help="The column of row weights.  [sample_weight, if present]")
@click.option(
    "--interval",
    "level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="LEVEL",
    help="The level of intervals and tests.  [0.95]  For sweeps, draw intervals of this level.",
)
@click.option(
    "--equivalence",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="GAP",
    help="Ignore differences up to this size, in the metric's unit.",
)
@click.option(
    "--all", "every", is_flag=True, help="Compare every pair of models, not only each with the first."
)
@click.option(
    "--holm",
    "correction",
    flag_value=_CORRECTION,
    default=_CORRECTION,
    help="Correct p-values by Holm.  [default]",
)
@click.option("--bh", "correction", flag_value="bh", help="Correct p-values by Benjamini and Hochberg.")
@click.option("--raw", "correction", flag_value="raw", help="Do not correct p-values.")
@click.option("--fail-if-worse", is_flag=True, help="Exit with 1 if the first model is worse than another.")
@click.option(
    "--memory",
    type=click.FloatRange(min=0, min_open=True),
    default=4.0,
    metavar="GIB",
    help="The memory limit for the columns read at once, in GiB.  [4]",
)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def compare(models: tuple[str, ...], fail_if_worse: bool, as_json: bool, **options: Any) -> None:
    """Compare models row by row, sweeps, or two trials user by user.

    `compare a.csv b.csv --metric accuracy --output binary` compares files of predictions, as `measure` reads
    them. The column id joins their rows; without it the files must have one order. A model is a file, a run
    directory (its pick), or runs/x:34 (a trial of it). Several files with commas are trainings of one model.
    With --fail-if-worse the exit code is 1 if the first is worse than another by more than --equivalence.
    This is a gate for CI.

    `compare runs/tpe runs/random` shows sweeps of the same metric and direction side by side, the best first.
    --interval tests whether the picks of the first two differ, using the stored statistics. Exit code 3: none
    of the sweeps has a best.

    `compare runs/recommender 3 7` compares two trials at their picked epochs. It compares them user by user
    if the output keeps values by user: ranking(per_user=true). The interval comes from a paired bootstrap,
    and p from Wilcoxon's signed-rank test. Several metrics or strata are corrected by Holm.
    """
    request = _Request(**options)
    trials = _two_trials(models)
    directories = [Path(model) for model in models if Path(model).is_dir()]
    if trials is not None:
        if not _compare_users(Path(models[0]), trials, request, fail_if_worse, as_json):
            pair = [f"{models[0]}:{trial}" for trial in trials]
            _compare_models(pair, request, fail_if_worse, as_json)
    elif len(directories) < len(models) or request.is_of_rows or fail_if_worse:
        _compare_models(models, request, fail_if_worse, as_json)
    else:
        _compare_sweeps(directories, request, as_json)


def _two_trials(models: tuple[str, ...]) -> tuple[int, int] | None:
    """Return the numbers of two trials that follow a directory; None if all arguments are models."""
    others = models[1:]
    numbers = [text for text in others if text.isascii() and text.isdigit()]
    if not others:
        raise click.UsageError("compare needs two trials of a directory, or more files or directories")
    if not numbers:
        return None
    if len(numbers) == len(others) == 2:
        return int(numbers[0]), int(numbers[1])
    raise click.UsageError(
        f"compare needs two trials, as in 3 7; write a directory named by a number as ./{numbers[0]}"
    )


def _compare_users(
    directory: Path, trials: tuple[int, int], request: _Request, gate: bool, as_json: bool
) -> bool:
    """Compare two trials user by user; return False if their output has no users."""
    from ..results.compare.users import compare_trials, has_users

    if not has_users(directory, trials):
        return False
    if request.level is not None:
        raise click.UsageError("--interval works for models and sweeps; two trials are compared at 95%")
    if gate or request.is_of_rows_alone:
        raise click.UsageError(
            "trials of a ranking are compared user by user, which supports only --metric and --by"
        )
    if request.by not in (None, *_STRATA):
        raise click.UsageError(f"--by must be {' or '.join(_STRATA)} for two trials, got {request.by}")
    _print(compare_trials(directory, *trials, request.metrics, request.by), as_json)
    return True


def _compare_sweeps(directories: list[Path], request: _Request, as_json: bool) -> None:
    if request.by is not None:
        raise click.UsageError("--by groups the users of two trials; remove it to compare sweeps")
    from ..results.compare.sweeps import compare_sweeps

    comparison = compare_sweeps(directories, request.level)
    _print(comparison, as_json)
    if comparison.undecided:
        sys.exit(NOTHING_FINITE)


def _compare_models(models: Sequence[str], request: _Request, gate: bool, as_json: bool) -> None:
    from ..results.compare.models import compare_predictions

    comparisons = compare_predictions(
        [tuple(model.split(",")) if "," in model and not Path(model).exists() else model for model in models],
        request.metrics,
        output=request.output,
        values=request.values,
        test_share=request.test_share,
        direction=request.direction,
        by=request.by,
        row_id=request.row_id,
        weights=request.weights,
        level=0.05 if request.level is None else 1 - request.level,
        equivalence=request.equivalence,
        every=request.every,
        correction=request.correction,
        memory=request.memory,
    )
    if as_json:
        show(json_text([one.to_json() for one in comparisons]))
    else:
        show("\n\n".join(map(str, comparisons)))
    if gate and any(one.worse for one in comparisons):
        sys.exit(1)


def _print(comparison: _Printable, as_json: bool) -> None:
    show(json_text(comparison.facts()) if as_json else comparison.text())
