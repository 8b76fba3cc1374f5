"""The cost of `hpometrics run` beside bare Optuna, and `RayObjective` beside a bare Tuner.

Training is in no figure, so that only the search is left; an epoch of it reads and writes some MiB, so that
neither finds the processor's caches as it left them (`--mib 0` trains nothing). `run` and the study written
by hand have the same sampler, pruner, SQLite file with a write-ahead log, params and reports, and both
force one line of JSON per epoch to the disk before the next epoch begins. The training code of both takes
the time itself, so that what is done once (imports, the study's tables, the results) is in no figure. They
take turns in one process on one thread. CPU and wall time are printed apart: a line on its way to the disk
takes wall time. With `--ray` the workers of both import torchmetrics; both tuners draw from the same
sampler of Optuna, run the same loop in Ray's workers and write Tune's JSON files; what is compared is the
CPU time of the driver, from the making of the tuner to its end. A worker of ours trains one trial after
another; the bare tuner has a process for each trial, as is its default, and then is told to do the same.

    python benchmarks/sweep_overhead.py [--turns 5] [--trials 12] [--epochs 25] [--mib 8] [--ray]
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import io
import itertools
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import optuna
import torch
from bare_searches import (
    PARAMS,
    Moment,
    Moments,
    Search,
    now,
    quiet_in,
    search_with_optuna,
    search_with_tune,
)
from falling_loss import value_at

from hpometrics import MINIMIZE, Float, RayObjective, Reported, Run
from hpometrics.backends.ray.session import start_ray
from hpometrics.config.plan import read_plan
from hpometrics.runner.sweep import Options, run_command

CASES = (("random", "none"), ("random", "median"), ("tpe", "median"))
FILE = """\
engine: {{target: sweep_overhead:train, output: number}}
space: {{a: {{float: [0.0, 1.0]}}, b: {{float: [0.0, 1.0]}}, c: {{float: [0.0, 1.0]}}}}
metrics: {{optimize: {{metric: my_loss, direction: minimize}}}}
search: {{sampler: {search.sampler}, pruner: {search.pruner}, seed: 7}}
budget: {{trials: {search.trials}, epochs: {search.epochs}}}
results: {{dir: {home}/run, report: none}}
"""

moments = Moments()


def train(params: dict[str, float], run: Run) -> None:
    """The training code of `hpometrics run`."""
    moments.trial()
    for epoch in run.epochs():
        moments.epoch()
        run.log(my_loss=value_at(epoch))


def search_with_run(search: Search, home: Path, taken: Moments) -> None:
    """Search with `hpometrics run FILE`."""
    global moments
    moments = taken
    file = home / "sweep.yaml"
    file.write_text(FILE.format(search=search, home=home))
    with contextlib.redirect_stdout(io.StringIO()):
        run_command(read_plan(file), Options(quiet=True))
    lines = sum(len(log.read_text().splitlines()) for log in home.glob("run/trials/*/epochs.jsonl"))
    if lines != search.trials * search.epochs:
        raise SystemExit(f"{search}: the record has {lines} epochs")


def search_with_ray(search: Search, home: Path) -> None:
    """Search with a RayObjective."""
    epochs = search.epochs  # see `search_with_tune`

    def train(params: dict[str, float], run: Run) -> None:
        for epoch in run.epochs(epochs):
            run.log(loss=value_at(epoch))

    space = {name: Float(0.0, 1.0) for name in PARAMS}
    objective = RayObjective(train, space, metric=Reported("loss", MINIMIZE), seed=7)
    objective.tuner(search.trials, sampler=search.sampler, run_config=quiet_in(home)).fit()


def costs(search: Search, method: Callable[[Search, Path, Moments], None], mib: int) -> list[Moment]:
    """Microseconds of a trial without its epochs, of an epoch, and of a trial with them: CPU and wall."""
    taken = Moments(mib)
    with tempfile.TemporaryDirectory() as home:
        method(search, Path(home), taken)
    if len(taken.laps) != search.trials:
        raise SystemExit(f"{search}: {len(taken.laps)} trials have run")
    found = []
    for clock in (0, 1):
        starts = [moment[clock] for moment in taken.starts]
        whole = statistics.median(b - a for a, b in itertools.pairwise(starts))
        laps = [(last[clock] - first[clock]) / (search.epochs - 1) for first, last in taken.laps]
        epoch = statistics.median(laps)
        found.append(tuple(1e6 * part for part in (whole - search.epochs * epoch, epoch, whole)))
    return list(zip(*found, strict=True))


def compare(search: Search, turns: int, mib: int) -> Iterator[str]:
    """Rows of the table, one for a trial, an epoch, and a trial with all its epochs."""
    methods = (search_with_optuna, search_with_run)
    rows = [[costs(search, method, mib) for method in methods] for _ in range(turns)]
    for part, what in enumerate(("a trial alone", "an epoch", f"trial of {search.epochs} epochs")):
        cells = [f"{search.sampler + ' / ' + search.pruner:16}{what:22}"]
        for clock in (0, 1):
            bare, ours = ([row[i][part][clock] for row in rows] for i in (0, 1))
            ratio = statistics.median(b / a for a, b in zip(bare, ours, strict=True))
            cells.append(f"{statistics.median(bare):11.0f}{statistics.median(ours):11.0f}{ratio:7.2f}x")
        yield "".join(cells)


def driver_cost(search: Search, method: Callable[[Search, Path], object]) -> Moment:
    """CPU seconds of the driver, and seconds on the wall."""
    with tempfile.TemporaryDirectory() as home:
        before = now()
        method(search, Path(home))
        after = now()
    return after[0] - before[0], after[1] - before[1]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--mib", type=int, default=8, help="what an epoch of training reads and writes")
    parser.add_argument("--ray", action="store_true", help="compare RayObjective with a bare Tuner instead")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    print(f"{asked.trials} trials x {asked.epochs} epochs, 1 thread, median of {asked.turns} turns\n")
    if asked.ray:
        print_tuners(asked.turns, asked.trials, asked.epochs)
    else:
        print_sweeps(asked.turns, asked.trials, asked.epochs, asked.mib)


def print_sweeps(turns: int, trials: int, epochs: int, mib: int) -> None:
    """Print `run` beside bare Optuna."""
    for clock in ("sampler / pruner", "microseconds of"):
        print(f"{clock:19}", end="")
    print("  bare CPU   run CPU  ratio  bare wall   run wall  ratio")
    for method in (search_with_optuna, search_with_run):
        costs(Search("random", "none", 2, 2), method, mib)  # imports
    for sampler, pruner in CASES:
        for row in compare(Search(sampler, pruner, trials, epochs), turns, mib):
            print(row, flush=True)


def print_tuners(turns: int, trials: int, epochs: int) -> None:
    """Print `RayObjective` beside a bare Tuner."""
    start_ray(num_cpus=2)
    search = Search("random", "none", trials, epochs)
    methods = {
        "RayObjective": search_with_ray,
        "bare": search_with_tune,
        "bare, reuse_actors": functools.partial(search_with_tune, reuse_actors=True),
    }
    for method in methods.values():
        driver_cost(search._replace(trials=2, epochs=2), method)
    rows = []
    for turn in range(turns):
        rows.append([driver_cost(search, method) for method in methods.values()])
        print(f"turn {turn}: CPU " + ", ".join(f"{cpu:.2f}" for cpu, _ in rows[-1]), flush=True)
    print(f"{'':20}driver CPU s  ours / it  wall s")
    for i, name in enumerate(methods):
        cpu, wall = (statistics.median(row[i][clock] for row in rows) for clock in (0, 1))
        ratio = statistics.median(row[0][0] / row[i][0] for row in rows)
        print(f"{name:20}{cpu:12.2f}{ratio:11.2f}{wall:8.1f}")


if __name__ == "__main__":
    importlib.import_module("sweep_overhead").main()  # under the name by which the engine is found
