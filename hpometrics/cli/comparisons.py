"""Comparisons: the command that holds sweeps, or two trials of one, against each other."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from .completion import METRIC, RUN_DIRECTORY, RUN_DIRECTORY_OR_URL
from .exit_codes import NOTHING_FINITE, reported
from .options import INTERVAL
from .terminal import show


@click.command()
@click.argument("directory", type=RUN_DIRECTORY)
@click.argument("others", metavar="DIRECTORY...|TRIAL TRIAL", nargs=-1, type=RUN_DIRECTORY_OR_URL)
@click.option(
    "--metric", "names", multiple=True, metavar="NAME", type=METRIC, help="Only this one, such as ndcg@10."
)
@click.option(
    "--by",
    type=click.Choice(["group", "popularity"]),
    help="Compare the users of each group, or of each third by how popular what they like is.",
)
@INTERVAL
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def compare(
    directory: Path,
    others: tuple[str, ...],
    names: tuple[str, ...],
    by: str | None,
    level: float | None,
    as_json: bool,
) -> None:
    """Compare sweeps side by side, or two trials of a run directory user by user.

    `compare runs/tpe runs/random` wants sweeps of the same metric and direction. The best comes first, with
    its trials, the picked params and the values there; --interval says, of what was kept, whether the picks
    of the first two differ or that is a coin toss. Exit code 3: none of them has a best.

    `compare runs/recommender 3 7` compares trials at their picked epochs, which need an output
    that keeps values by user, ranking(per_user=true). The interval of the difference is that of a paired
    bootstrap, p that of Wilcoxon's signed-rank test, after Holm where there are several metrics or strata;
    the effect is the difference in standard deviations of the users' differences.
    """
    with reported():
        trials = _two_trials(others)
        if trials is None:
            _compare_sweeps([directory, *map(Path, others)], names, by, level, as_json)
            return
        if level is not None:
            raise click.UsageError("--interval is of sweeps; that of two trials is of 95%")
        from ..results.compare_trials import compared

        found = compared(directory, *trials, names, by)
        show(json.dumps(found.facts(), indent=1, allow_nan=False) if as_json else found.text())


def _two_trials(others: tuple[str, ...]) -> tuple[int, int] | None:
    """Read the numbers of two trials; None where directories are named."""
    numbers = [text for text in others if text.isascii() and text.isdigit()]
    if not others:
        raise click.UsageError("name two trials of it, or further directories")
    if not numbers:
        return None
    if len(numbers) == len(others) == 2:
        return int(numbers[0]), int(numbers[1])
    raise click.UsageError(
        f"name two trials, as in 3 7; a directory whose name is a number is ./{numbers[0]}"
    )


def _compare_sweeps(
    directories: list[Path], names: tuple[str, ...], by: str | None, level: float | None, as_json: bool
) -> None:
    for option, given in (("--metric", names), ("--by", by)):
        if given:
            raise click.UsageError(f"{option} is of the users of two trials; sweeps are compared as they are")
    from ..results.compare_sweeps import rivals

    found = rivals(directories, level)
    show(json.dumps(found.facts(), indent=1, allow_nan=False) if as_json else found.text())
    if found.undecided:
        sys.exit(NOTHING_FINITE)
