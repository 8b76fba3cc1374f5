"""Whether a trial costs the same when thousands are done: workers on one storage, none lost, none twice.

A trial takes one epoch and trains nothing, so that all of the time is the search's. Printed for each tenth of
the trials: the wall time between the ends of one trial and the next, of all workers together.

    python benchmarks/many_trials.py [--trials 2000] [--workers 2] [--storage postgresql] [--sampler random]

With `--made`, two trials run and the others are written as these are, in records and study.db. Printed is the
CPU time of each command that reads or resumes so many.

    python benchmarks/many_trials.py --made --trials 100000
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from unittest.mock import patch

import optuna

from hpometrics.backends.optuna.storage import close_storage, open_storage
from hpometrics.backends.optuna.study import RESULT, write_result
from hpometrics.records.epoch_log import EpochLog
from hpometrics.records.trial_record import EpochRecord, TrialRecord, write_trial
from hpometrics.results.run_directory import RunDirectory

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from servers import SERVERS

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


@contextmanager
def storage_of(name: str) -> Iterator[str]:
    """The URL of an empty database on a server of its own, if a kind of server is named."""
    if name not in SERVERS:
        yield name
        return
    if missing := SERVERS[name].missing():
        raise SystemExit(f"--storage {name} needs {missing}")
    server = SERVERS[name]()
    try:
        yield server.new_database()
    finally:
        server.end()


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


def used() -> float:
    """Return the CPU seconds of all commands so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def made_records(first: TrialRecord, total: int) -> Iterator[TrialRecord]:
    """Return records as the first one, with params of their own, up to a total."""
    random = Random(7)
    for number in range(first.number + 1, total):
        params = {"a": random.random(), "b": random.random()}
        loss = (params["a"] - 0.3) ** 2 + params["b"]
        epochs = (EpochRecord(0, {"my_loss": loss}, seconds=0.001),)
        yield replace(first, number=number, params=params, value=loss, epochs=epochs, seed=number)


def write_made(home: RunDirectory, total: int) -> None:
    """Write what a sweep of so many trials leaves, by its own writers, without waiting for the disk."""
    last = home.records()[-1]
    statistics = (home.trial(last.number) / ".trainstats").read_bytes()
    with patch("os.fsync"), closing(sqlite3.connect(home.study)) as study, study:
        for record in made_records(last, total):
            directory = home.trial(record.number)
            log = EpochLog(directory, fsync="trial")
            for epoch in record.epochs:
                log.append(epoch)
            log.close()
            write_trial(directory, record)
            (directory / ".trainstats").write_bytes(statistics)
            (home.locks / directory.name).touch()
            add_to_study(study, record)


def add_to_study(study: sqlite3.Connection, record: TrialRecord) -> None:
    """Add a complete trial to the tables of Optuna, where the trial of number 0 has id 1."""
    frozen = optuna.trial.create_trial(value=record.value)
    write_result(frozen, record)
    key = record.number + 1
    facts = "study_id, state, datetime_start, datetime_complete"
    study.execute(
        f"INSERT INTO trials (trial_id, number, {facts}) SELECT ?, ?, {facts} FROM trials WHERE trial_id = 1",
        (key, record.number),
    )
    study.executemany(
        "INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json) "
        "SELECT ?, param_name, ?, distribution_json FROM trial_params WHERE trial_id = 1 AND param_name = ?",
        [(key, value, name) for name, value in record.params.items()],
    )
    study.execute(
        "INSERT INTO trial_user_attributes (trial_id, key, value_json) VALUES (?, ?, ?)",
        (key, RESULT, json.dumps(frozen.user_attrs[RESULT])),
    )
    study.execute(
        "INSERT INTO trial_values (trial_id, objective, value, value_type) VALUES (?, 0, ?, 'FINITE')",
        (key, record.value),
    )
    study.execute(
        "INSERT INTO trial_intermediate_values (trial_id, step, intermediate_value, intermediate_value_type) "
        "VALUES (?, 0, ?, 'FINITE')",
        (key, record.value),
    )


def print_readers(folder: Path, sweep: str, trials: int) -> None:
    """Print the CPU time of the commands on a sweep whose trials are made."""
    file = folder / "many.yaml"
    file.write_text(sweep.replace(f"trials: {trials}", "trials: 2"))
    seconds_of(["run", "many.yaml", "--quiet"], folder)
    start = time.perf_counter()
    write_made(RunDirectory(folder / "runs/many"), trials)
    print(f"{trials} trials, made in {time.perf_counter() - start:.0f} s", flush=True)
    file.write_text(sweep)
    more = ["run", "many.yaml", "--quiet", "--set", f"budget.trials={trials + 3}"]
    for what, arguments in {
        "run, all done": ["run", "many.yaml", "--quiet"],
        "run again": ["run", "many.yaml", "--quiet"],
        "run, 3 more": more,
        "status": ["status", "runs/many"],
        "best": ["best", "runs/many"],
        "trials": ["trials", "runs/many"],
        "report, html": ["report", "runs/many"],
        "report, md": ["report", "runs/many", "--format", "md"],
    }.items():
        before = used()
        seconds_of(arguments, folder)
        seconds = used() - before
        print(f"{what:14}{seconds:8.2f} s{1e6 * seconds / trials:10.1f} ms per 1,000 trials", flush=True)
    page = os.path.getsize(folder / "runs/many/report.html") / 2**20
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**10
    print(f"report.html has {page:.1f} MiB; the largest process had {most:.0f} MiB")


def main() -> None:
    """Run the sweep, check its trials, and print what they and the readers took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--storage",
        default="sqlite",
        help="sqlite, postgresql or mysql on a server of its own, or the URL of an empty database",
    )
    parser.add_argument("--sampler", default="random")
    parser.add_argument("--made", action="store_true", help="write the trials instead of running them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, storage_of(options.storage) as options.storage:
        folder = Path(name)
        (folder / "nothing_to_train.py").write_text(ENGINE)
        facts = {**vars(options), "storage": json.dumps(options.storage)}
        if options.made:
            return print_readers(folder, FILE.format(**{**facts, "workers": 1}), options.trials)
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
