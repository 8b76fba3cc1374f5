"""A confirmation whose processes are killed at any moment decides what one that nobody disturbs does."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from forked import Forked, hpometrics
from matrix import EXHAUSTIVE
from toll import Toll

from hpometrics.records.epoch_log import read_trial
from hpometrics.selection.confirmation import CONFIRM_FILE

ENGINE = """\
import os, random, time
from pathlib import Path

def train(params, run):
    for _ in run.epochs():
        time.sleep(random.Random(time.time_ns()).uniform(0, 0.02))  # the seed is the run's: only time differs
        run.log(score=params["quality"] + random.gauss(0, 0.004))
    with Path("trained.txt").open("a") as file:
        file.write(f"{params['quality']} {run.seed}\\n")
"""
SWEEP = """\
engine: lucky:train
space: {quality: {choice: [0.9, 0.903, 0.905, 0.5]}}
metrics: {optimize: {metric: score, direction: maximize}}
search: {%s, seed: 3}
budget: {%sepochs: 3}
confirm: {top: 3, repeats: 10, equivalence: 0}
results: {dir: %s}
backend: %s
"""
LISTED = "{list: [{quality: 0.9}, {quality: 0.903}, {quality: 0.905}, {quality: 0.5}]}"
START = "sampler: random, start: [{quality: 0.9}, {quality: 0.903}, {quality: 0.905}, {quality: 0.5}]"
HOSTS = {
    "list": ("", "", LISTED),
    "optuna": (START, "trials: 4, ", "optuna"),
    "optuna, 2 workers": (START, "trials: 4, ", "{optuna: {workers: 2}}"),
    "optuna, 4 workers": (START, "trials: 4, ", "{optuna: {workers: 4}}"),
    "ray": (START, "trials: 4, ", "{ray: {address: '%s', workers: 2}}"),
}
KILLED, WHOLE = Path("runs/killed"), Path("runs/whole")


def write_sweep(host: str, home: Path, cluster: str) -> None:
    """Write a sweep of four trials whose best three are confirmed."""
    search, trials, backend = HOSTS[host]
    text = SWEEP % (search, trials, home, backend.replace("%s", cluster))
    Path("sweep.yaml").write_text(text.replace("{, ", "{"))


def decision(home: Path) -> dict[str, object]:
    """Read what a confirmation came to, to the last digit, without the seconds that it took."""
    end = json.loads((home / CONFIRM_FILE).read_text())["end"]
    for standing in end["standings"]:
        standing["seconds"] = 0.0
    return end


def trained() -> Counter[tuple[float, int]]:
    """How often a training came to its end, by its params and its seed."""
    file = Path("trained.txt")
    lines = file.read_text().splitlines() if file.exists() else []
    return Counter((float(quality), int(seed)) for quality, seed in map(str.split, lines))


def recorded(home: Path) -> set[tuple[float, int]]:
    """The fresh runs whose record says that they have ended."""
    records = [read_trial(file.parent) for file in home.glob("trials/*/confirm/*/trial.json")]
    return {(one.params["quality"], one.seed) for one in records if one.state.finished}


def goes_on(run: Forked, seconds: float) -> bool:
    """Wait for a further training, and then so long; False if the run ends before."""
    before = trained().total()
    run.waits_for(lambda: (KILLED / CONFIRM_FILE).exists() and trained().total() > before)
    return run.lives(seconds)


STORMS = [
    pytest.param("optuna", 1, id="once-optuna"),
    pytest.param("optuna", 5, id="often-optuna", marks=EXHAUSTIVE),
    pytest.param("list", 1, id="once-list", marks=EXHAUSTIVE),
    pytest.param("list", 5, id="often-list", marks=EXHAUSTIVE),
    pytest.param("optuna, 2 workers", 1, id="once-2 workers", marks=EXHAUSTIVE),
    pytest.param("optuna, 4 workers", 1, id="once-4 workers", marks=[EXHAUSTIVE, pytest.mark.thorough]),
    pytest.param("ray", 5, id="often-ray", marks=[EXHAUSTIVE, pytest.mark.ray]),
]
"""Where it is killed, and how often without `--faults`; a kill of several workers starts them all again."""


@pytest.mark.parametrize(("host", "rounds"), STORMS, indirect=["rounds"])
def test_a_confirmation_killed_at_any_moment_decides_the_same(folder, request, card, rounds, host):
    """The same winner, state and p to the last digit, and what is in the record is not trained again."""
    cluster = request.getfixturevalue("ray_cluster") if host == "ray" else ""
    Path("lucky.py").write_text(ENGINE)
    write_sweep("list", WHOLE, cluster)
    assert hpometrics("run", "sweep.yaml").ended() == 0
    expected = decision(WHOLE)
    Path("trained.txt").unlink()
    write_sweep(host, KILLED, cluster)
    moments, tried, kept = Random(4), 0, dict[tuple[float, int], int]()
    while tried < rounds(20):
        run = hpometrics("run", "sweep.yaml")
        if not goes_on(run, moments.uniform(0, 0.05)):
            break
        run.killed()
        tried += 1
        ended = recorded(KILLED)
        kept = {one: kept.get(one, trained()[one]) for one in ended}
    assert hpometrics("run", "sweep.yaml").ended() == 0
    again = sum(trained()[one] - times for one, times in kept.items())
    survived = decision(KILLED) == expected
    fault = "SIGKILL of a confirmation at any moment"
    card(Toll(fault, f"hpometrics{' on Ray' * (host == 'ray')}", tried, tried * survived, again))
