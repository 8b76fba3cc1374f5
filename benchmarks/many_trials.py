"""Whether a trial costs the same when thousands are done: workers on one storage, none lost, none twice.

A trial takes one epoch and trains nothing, so that all of the time is the search's. Printed for each tenth of
the trials: the wall time between the ends of one trial and the next, of all workers together.

    python benchmarks/many_trials.py [--trials 2000] [--workers 2] [--storage URL] [--sampler random]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import optuna

from hpometrics.search.storages import close_storage, open_storage
from hpometrics.sweep.directory import RunDirectory

ENGINE = """\
from hpometrics import Number, engine

@engine(output=Number())
def train(params, run):
    for _ in run.epochs():
        run.log(my_loss=(params["a"] - 0.3) ** 2 + params["b"])
"""
FILE = """\
name: many
engine: nothing_to_train:train
space: {{a: {{float: [0.0, 1.0]}}, b: {{float: [0.0, 1.0]}}}}
metrics: {{optimize: {{metric: my_loss, direction: minimize}}, defaults: false}}
search: {{sampler: {sampler}, seed: 7}}
backend: {{optuna: {{workers: {workers}, storage: {storage}}}}}
budget: {{trials: {trials}, epochs: 1}}
results: {{report: none, checkpoints: none, statistics: none}}
"""
COMMAND = [sys.executable, "-m", "hpometrics"]


def seconds_of(arguments: list[str], folder: Path) -> float:
    """Run a command to its end, and return how long it took."""
    start = time.perf_counter()
    ran = subprocess.run([*COMMAND, *arguments], cwd=folder, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{arguments} ended with {ran.returncode}: {(ran.stdout + ran.stderr)[-2000:]}")
    return time.perf_counter() - start


def ends(storage: str, home: RunDirectory) -> list[float]:
    """When each trial ended, in order.

    Raises:
        SystemExit: a trial is missing, is there twice, or did not complete.
    """
    places = {"sqlite": f"sqlite:///{home.path / 'study.db'}"}
    opened = open_storage(places.get(storage, storage))
    trials = optuna.load_study(study_name="many", storage=opened).get_trials(deepcopy=False)
    close_storage(opened)  # a study that is open elsewhere is looked into again
    numbers = [record.number for record in home.records()]
    states = {trial.state for trial in trials}
    if numbers != list(range(len(trials))) or states != {optuna.trial.TrialState.COMPLETE}:
        raise SystemExit(f"{len(numbers)} records of {len(trials)} trials, in the states {states}")
    return sorted(trial.datetime_complete.timestamp() for trial in trials if trial.datetime_complete)


def main() -> None:
    """Run the sweep, check its trials, and print what they and the readers took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--storage", default="sqlite", help="sqlite, or the URL of an empty database")
    parser.add_argument("--sampler", default="random")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "nothing_to_train.py").write_text(ENGINE)
        facts = {**vars(options), "storage": json.dumps(options.storage)}
        (folder / "many.yaml").write_text(FILE.format(**facts))
        whole = seconds_of(["run", "many.yaml", "--quiet"], folder)
        home = RunDirectory(folder / "runs/many")
        moments = ends(options.storage, home)
        where = f"{options.storage.partition(':')[0]}, {options.sampler}"
        print(f"{options.trials} trials by {options.workers} workers on {where}: {whole:.1f} s")
        print("none lost, none twice; ms from the end of a trial to that of the next, by tenths:")
        size = len(moments) // 10
        parts = [moments[at : at + size + 1] for at in range(0, size * 10, size)]
        print("".join(f"{1000 * (part[-1] - part[0]) / (len(part) - 1):8.1f}" for part in parts))
        for command in ("status", "best", "trials"):
            print(f"{command:8}{seconds_of([command, 'runs/many'], folder):8.2f} s")
        print(
            f"{'run':8}{seconds_of(['run', 'many.yaml', '--quiet'], folder):8.2f} s, with nothing left to do"
        )


if __name__ == "__main__":
    main()
