from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest
from forked import hpometrics
from matrix import EXHAUSTIVE
from sample_sweeps import SWEEP, changed, plan_of

from hpometrics._formatting import spread
from hpometrics.backends.optuna.study import study_records
from hpometrics.backends.optuna.trial_queue import claim
from hpometrics.records.epoch_log import read_trial
from hpometrics.records.recovery import MOST_DEATHS
from hpometrics.records.trial_record import TrialRecord, TrialState, write_trial
from hpometrics.results.run_directory import RunDirectory
from hpometrics.runner.context import make_context
from hpometrics.runner.study import opened_study, reserve_slots

pytestmark = pytest.mark.ray

DIED = "its process died 3 times in epoch 0; did it have enough memory?"
LEARN = changed("toy_engine:train", "toy_engine:learn")


def ended(*arguments: str) -> tuple[int, str, str]:
    """Run the command to its end: exit code, stdout, stderr."""
    ran = hpometrics(*arguments).result()
    return ran.returncode, ran.stdout, ran.stderr


def test_ray_and_optuna_agree(folder, on_ray):
    """The same file but for the backend: the same params, seeds, values, logs; again, it does nothing."""
    text = f"{LEARN}results: {{loggers: [csv]}}\n"
    (folder / "sweep.yaml").write_text(text)
    (folder / "on_ray.yaml").write_text(text + on_ray(workers=1))
    assert ended("run", "sweep.yaml")[0] == 0
    code, out, err = ended("run", "on_ray.yaml")
    assert code == 0, err
    assert len(err.splitlines()) == 5, err
    mine, rays = (RunDirectory(folder / "runs" / name).records() for name in ("sweep", "on_ray"))
    assert [(r.params, r.value, r.epoch, r.seed) for r in mine] == [
        (r.params, r.value, r.epoch, r.seed) for r in rays
    ]
    assert {r.state for r in rays} == {TrialState.COMPLETE}
    tables = [(folder / f"runs/{name}/trials/0003/epochs.csv").read_text() for name in ("sweep", "on_ray")]
    assert [len(table.splitlines()) for table in tables] == [4, 4]
    assert out.splitlines()[-1] == "saved best.yaml, trials.csv, study.db in runs/on_ray"
    again = ended("run", "on_ray.yaml")
    assert again[:2] == (0, out)
    (experiment,) = (folder / "runs/on_ray/ray").iterdir()
    assert experiment.name.startswith("on_ray_")
    assert "all 4 trials are done" in again[2]
    with sqlite3.connect(folder / "runs" / "on_ray" / "study.db") as study:
        assert study.execute("SELECT DISTINCT state FROM trials").fetchall() == [("COMPLETE",)]


def test_an_engine_on_ray_that_changes_the_current_folder_takes_no_file_along(folder, on_ray):
    """What it trains is kept in the run directory, and the study knows of it."""
    text = changed("toy_engine:train, output: binary", "toy_engine:wander").replace("[accuracy]", "[]")
    (folder / "sweep.yaml").write_text(text.replace("trials: 4", "trials: 2") + on_ray(workers=1))
    code, out, err = ended("run", "sweep.yaml")
    assert code == 0, err
    assert out.endswith(" in runs/sweep\n")
    home = RunDirectory(folder / "runs" / "sweep")
    assert [len(record.epochs) for record in home.records()] == [3, 3]
    assert [path for path in folder.rglob("away/**/*") if path.name != "away"] == []


def test_a_failing_trial_is_a_line_and_a_record(folder, on_ray):
    """Ray's own log stays silent; the traceback lies beside the record, and the sweep goes on."""
    points = "start: [{lr: 0.01, size: small}, {lr: 0.001, size: small}]"
    text = changed("toy_engine:train", "toy_engine:fail").replace("seed: 3", points) + on_ray()
    (folder / "sweep.yaml").write_text(text.replace("trials: 4", "trials: 2"))
    code, out, err = ended("run", "sweep.yaml")
    assert code == 0, err
    assert sorted(line.split()[:2] for line in err.splitlines()[1:]) == [["#0", "failed"], ["#1", "ok"]]
    assert "# engine params evaluated: 2  (ok 1, failed 1)" in out
    home = RunDirectory(folder / "runs" / "sweep")
    assert home.records()[0].reason == "ValueError: this is\ntoo hot"
    assert 'raise ValueError("this is\\ntoo hot")' in (home.trial(0) / "error.txt").read_text()


@EXHAUSTIVE
def test_a_worker_that_dies_three_times_is_a_failed_trial(folder, on_ray):
    """Every trial of the budget ends: its record has a reason, the study is told, and there is a line.

    Ray's notice of the death stands nowhere.
    """
    points = "start: [{lr: 0.01, size: small}, {lr: 0.001, size: small}]"
    text = changed("toy_engine:train", "toy_engine:vanish").replace("seed: 3", points) + on_ray()
    (folder / "sweep.yaml").write_text(text.replace("trials: 4", "trials: 2"))
    code, out, err = ended("run", "sweep.yaml")
    assert code == 0, err
    told = [line for line in err.splitlines()[1:] if "raylet" not in line]  # Ray says that a worker died
    fails = "in epoch 0; the trial continues in another process and fails after 3 deaths"
    lost = [f"trial 0: its process died {often} {fails}" for often in ("once", "2 times")]
    assert [line for line in told if line.startswith("trial")] == lost and len(lost) == MOST_DEATHS - 1
    ends = [line.split()[:2] for line in told if not line.startswith("trial")]
    assert sorted(ends) == [["#0", "failed"], ["#1", "ok"]]
    assert "raylet" not in out
    assert "# engine params evaluated: 2  (ok 1, failed 1)" in out
    home = RunDirectory(folder / "runs" / "sweep")
    assert home.records()[0].reason == DIED
    table = ended("trials", "runs/sweep")[1]
    for text in (err, out, table, home.trial(0).joinpath("trial.json").read_text()):
        assert "actor" not in text
    with sqlite3.connect(folder / "runs" / "sweep" / "study.db") as study:
        assert study.execute("SELECT state FROM trials").fetchall() == [("FAIL",), ("COMPLETE",)]


@pytest.mark.parametrize(
    ("loss", "rounds", "reason"),
    [
        ("raised", 1, "its worker ended without a result"),
        ("process", MOST_DEATHS, DIED),
        ("not confirmed", MOST_DEATHS, DIED),
        ("machine", 2 * MOST_DEATHS, None),
    ],
)
def test_a_claimed_trial_without_a_record_is_lost(folder, loss, rounds, reason):
    """Its worker died before it wrote a word: the third death is its end, of machines it survives any number.

    The record, the study and the lock all say what it is.
    """
    from hpometrics.records.recovery import Loss
    from hpometrics.runner.ray_sweep import RayOwnership, settle_lost

    job = make_context(plan_of(SWEEP))
    locks = RayOwnership(job)
    job.directory.trials.mkdir(parents=True)
    losses = {0: None} if loss == "raised" else {} if loss == "not confirmed" else {0: Loss(loss)}
    with opened_study(job, locks) as study:
        reserve_slots(study, job)
        claim(study, locks.take)
        for number in range(1, rounds + 1):
            assert settle_lost(study, job, locks, losses) is (number < rounds or reason is None)
            assert locks.numbers == []
            locks.take(0)
        states = [record.state for record in study_records(study)]
    state = TrialState.RUNNING if reason is None else TrialState.FAILED
    assert states == [state, *[TrialState.WAITING] * 3]
    for record in job.directory.records():
        assert (record.state, record.reason) == (state, reason)
        assert set(record.params) == {"lr", "depth", "width"}


def test_the_end_that_a_worker_has_written_stays(tmp_path):
    """It says more than the study, also if it comes while the others are written; another end replaces it."""
    from hpometrics.runner.ray_sweep import _write_end

    told = TrialRecord(0, {"lr": 0.5}, TrialState.COMPLETE, value=0.5, epoch=0)
    write_trial(tmp_path, replace(told, targets="2 rows aa"))
    _write_end(tmp_path, told)
    assert read_trial(tmp_path).targets == "2 rows aa"
    _write_end(tmp_path, replace(told, state=TrialState.PRUNED))
    assert read_trial(tmp_path).state is TrialState.PRUNED


@EXHAUSTIVE
def test_repeats_and_retries_are_the_same_on_ray(folder, on_ray):
    """Under asha, which is told the last epoch of a trial when all its repeats are over."""
    text = changed("epochs: 3", "epochs: 3, repeats: 2, retries: 1").replace(
        "seed: 3", "seed: 3, pruner: asha"
    )
    text = text.replace("toy_engine:train", "toy_engine:stumble")
    (folder / "sweep.yaml").write_text(text)
    (folder / "on_ray.yaml").write_text(text + on_ray(workers=1))
    code, out, err = ended("run", "on_ray.yaml")
    assert code == 0, err
    for mark in folder.glob("stumbled-*"):
        mark.unlink()
    assert ended("run", "sweep.yaml")[0] == 0
    mine, rays = (RunDirectory(folder / "runs" / name).records() for name in ("sweep", "on_ray"))
    complete = [record for record in rays if record.state is TrialState.COMPLETE]
    assert complete and {len(record.repeats) for record in complete} == {2}
    first = complete[0]
    assert spread(first.value, first.deviation, 2) in out
    for record in complete:
        [same] = [other for other in mine if other.params == record.params]
        assert same.state is not TrialState.COMPLETE or same.value == record.value
        assert record.failed_attempts == (f"repeat 0 (seed {record.seed}): OSError: the disk was away",)


def test_a_worker_that_dies_once_costs_nothing(folder, on_ray):
    """Its trial goes on in another process, with no retry allowed, and a line says so."""
    text = changed("toy_engine:train", "toy_engine:vanish_once") + on_ray()
    (folder / "sweep.yaml").write_text(text.replace("trials: 4", "trials: 1"))
    code, out, err = ended("run", "sweep.yaml")
    assert code == 0, err
    assert "# engine params evaluated: 1  (ok 1)" in out
    assert "retry" not in err
    assert err.count("trial 0: its process died once in epoch 0; the trial continues in another process") == 1
    [record] = RunDirectory(folder / "runs" / "sweep").records()
    assert (record.state, record.failed_attempts) == (TrialState.COMPLETE, ())
    assert [epoch.epoch for epoch in record.epochs] == [0, 1, 2]


def test_an_engine_that_fails_in_each_trial_ends_its_sweep(folder, on_ray):
    """On Ray as on Optuna: those at work end, no other starts, and the mended engine starts over."""
    text = changed("toy_engine:train", "toy_engine:always_fail").replace("trials: 4", "trials: 12")
    (folder / "sweep.yaml").write_text(text + on_ray())
    code, _, err = ended("run", "sweep.yaml")
    home = RunDirectory(folder / "runs" / "sweep")
    assert code == 4, err
    assert err.count("ValueError: never works") == 1 and len(home.records()) < 8
    (folder / "sweep.yaml").write_text(changed("trials: 4", "trials: 2") + on_ray())
    code, _, err = ended("run", "sweep.yaml")
    assert code == 0, err
    assert [record.state for record in home.records()] == [TrialState.COMPLETE] * 2
