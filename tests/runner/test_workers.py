"""Several processes on one sweep: every trial once, the values of one process, nothing left behind."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from click.testing import CliRunner
from filelock import FileLock
from forked import hpometrics
from matrix import EXHAUSTIVE
from sample_sweeps import SWEEP, WORKERS, changed, plan_of, problems_of

from hpometrics.backends.optuna.storage import close_storage
from hpometrics.cli.main import main
from hpometrics.records.trial_record import TrialRecord, TrialState
from hpometrics.results.run_directory import RunDirectory
from hpometrics.runner import processes
from hpometrics.runner.context import make_context
from hpometrics.runner.leases import LeasedOwnership

MANY = changed("trials: 4", "trials: 12")
LEARN = changed("toy_engine:train", "toy_engine:learn").replace("epochs: 3", "epochs: 6")


def told(record: TrialRecord) -> tuple[object, ...]:
    """What a trial came to, whoever ran it."""
    return record.number, record.params, record.state, record.seed, [epoch.values for epoch in record.epochs]


def ended(*arguments: str) -> tuple[int, str]:
    """Run the command to its end in a process of its own: exit code and stderr."""
    ran = hpometrics(*arguments).result()
    return ran.returncode, ran.stderr


@pytest.mark.parametrize("workers", WORKERS)
def test_workers_do_what_one_does(sweep, folder, workers):
    """The same twelve trials with the same values, numbered without gaps; each end is told once, here.

    What the engine prints in a worker is no number of a trial.
    """
    text = changed("toy_engine:train", "toy_engine:shout", MANY)
    result = sweep(f"{text}backend: {{optuna: {{workers: {workers}}}}}\n")
    assert result.exit_code == 0, result.output
    lines = [line.split()[0] for line in result.stderr.splitlines() if line.startswith(" #")]
    assert sorted(lines, key=lambda line: int(line[1:])) == [f"#{number}" for number in range(12)]
    shared = RunDirectory(folder / "runs/sweep").records()
    assert sweep(f"name: alone\n{text}").exit_code == 0
    alone = RunDirectory(folder / "runs/alone").records()
    assert [told(record) for record in shared] == [told(record) for record in alone]


def test_the_command_plans_so_many_workers(sweep):
    """As the file would; `check` shows the plan of it."""
    planned = sweep(f"{MANY}backend: optuna\n", "--workers", "3", "--dry-run")
    assert "optuna   storage sqlite, 3 workers" in planned.stdout


@EXHAUSTIVE
def test_the_command_says_how_many_workers(sweep, folder):
    """As the file would; the trials are those of one process."""
    result = sweep(f"{MANY}backend: optuna\n", "--workers", "3")
    assert result.exit_code == 0, result.output
    home = RunDirectory(folder / "runs/sweep")
    assert home.read().config["backend"]["optuna"]["workers"] == 3
    assert [record.number for record in home.records()] == list(range(12))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "backend: {list: [{lr: 0.1}]}\n",
            ("--workers", "2"),
            "--workers 2: backend: a list is tried one point after another; leave --workers out",
        ),
        (
            "",
            ("--workers", "2", "--set", "backend.optuna.workers=3"),
            "--workers and --set backend.optuna.workers are the same setting",
        ),
        ("", ("--workers", "0"), "x>=1"),
        (
            "backend: {optuna: {storage: memory}}\n",
            ("--workers", "2"),
            "workers share a storage, but memory belongs to one process",
        ),
    ],
)
def test_workers_that_cannot_be_are_refused(sweep, folder, text, options, message):
    """Before anything is run."""
    result = sweep(f"{SWEEP}{text}", *options)
    assert result.exit_code == 2 and message in " ".join(result.stderr.split())
    assert not (folder / "runs").exists()


@EXHAUSTIVE
def test_workers_share_a_sweep_that_only_time_or_target_ends(folder):
    """A run and its worker are at a trial each, at the same time; what the engine prints is no trial."""
    os.mkfifo("meeting")
    text = changed("trials: 4", "time: 1h, target: 0.5").replace("toy_engine:train", "toy_engine:meet")
    (folder / "sweep.yaml").write_text(f"{text}backend: {{optuna: {{workers: 2}}}}\n")
    code, err = ended("run", "sweep.yaml")
    assert code == 0, err
    assert {line.split()[0] for line in err.splitlines() if line.startswith(" #")} >= {"#0", "#1"}
    assert "training" in err  # the worker's; stdout is for the numbers
    assert "error" not in err


def test_workers_are_sent_home_by_ctrl_c_while_a_run_waits_for_them(folder, monkeypatch):
    """The run has no trial left, its worker is at one; afterwards the worker is gone."""
    pressed = []

    class Worker(Popen):
        def wait(self, timeout=None):
            if not pressed:
                pressed.append(True)
                raise KeyboardInterrupt
            return super().wait(timeout)

    training = Worker([sys.executable, "-c", "import signal; signal.pause()"], stdout=PIPE, text=True)
    monkeypatch.setattr(processes, "_start_worker", lambda command, environment, sent: training)
    with pytest.raises(KeyboardInterrupt), processes.Workers(make_context(plan_of(SWEEP)), 1, verbose=False):
        pass
    assert training.returncode == -signal.SIGTERM


def test_a_second_ctrl_c_kills_workers_that_do_not_leave(folder, monkeypatch):
    """One that does not listen to SIGTERM would keep the run for ever."""
    pressed = []

    class Worker(Popen):
        def wait(self, timeout=None):
            if len(pressed) < 2:
                pressed.append(True)
                raise KeyboardInterrupt
            return super().wait(timeout)

    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
    training = Worker([sys.executable, "-c", deaf], stdout=PIPE, text=True)
    training.stdout.readline()
    monkeypatch.setattr(processes, "_start_worker", lambda command, environment, sent: training)
    with pytest.raises(KeyboardInterrupt), processes.Workers(make_context(plan_of(SWEEP)), 1, verbose=False):
        pass
    assert training.wait() == -signal.SIGKILL


def test_a_worker_that_was_killed_leaves_its_trial_to_the_next(folder, monkeypatch):
    """Killed in epoch 3 of the second trial; another goes on there, and ends the sweep."""
    (folder / "sweep.yaml").write_text(LEARN)
    monkeypatch.setenv("KILL_AT", "3")
    assert ended("run", "sweep.yaml")[0] == -signal.SIGKILL
    monkeypatch.delenv("KILL_AT")
    code, err = ended("worker", "runs/sweep")
    assert code == 0, err
    assert "joined" in err and "ended 3 trials; none remains. See: hpometrics best runs/sweep" in err
    records = RunDirectory(folder / "runs/sweep").records()
    assert [record.state for record in records] == [TrialState.COMPLETE] * 4
    assert [epoch.attempt for epoch in records[1].epochs] == [1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("lock", ["0003", "confirm/0003-2"])
def test_a_run_starts_over_only_where_nobody_works(sweep, swept, folder, lock):
    """A worker holds the lock of its trial, or of a contender that it trains again."""
    assert swept(SWEEP).exit_code == 0
    (folder / "runs/sweep/.locks/confirm").mkdir(exist_ok=True)
    with FileLock(folder / "runs/sweep/.locks" / lock):
        refused = sweep(SWEEP, "--fresh")
    assert refused.exit_code == 2
    assert "runs/sweep: a worker is running trial 3" in refused.stderr
    assert sweep(SWEEP, "--fresh").exit_code == 0


def test_heartbeats_end_before_the_storage_is_closed(sweep, folder, monkeypatch):
    """One that came later would meet a closed connection."""
    beating = []

    def lease(context):
        return LeasedOwnership(context.directory, context.plan.trials, 0.001)

    def close(storage):
        beating.append([thread.name for thread in threading.enumerate() if "_beat" in thread.name])
        close_storage(storage)

    monkeypatch.setattr(processes, "_make_ownership", lease)
    monkeypatch.setattr("hpometrics.runner.planned_trials.close_storage", close)
    assert sweep(SWEEP).exit_code == 0
    assert beating == [[]]


def test_a_worker_starts_no_trial_once_another_has_reached_the_target(sweep, folder):
    """Whoever reached it: the study says so."""
    target = changed("trials: 4", "trials: 4, target: 0.1")
    assert sweep(target).exit_code == 0
    assert CliRunner().invoke(main, ["worker", "runs/sweep"]).exit_code == 0
    assert len(RunDirectory(folder / "runs/sweep").records()) == 1


def test_a_worker_needs_a_run_directory(folder):
    """What it is given is named."""
    result = CliRunner().invoke(main, ["worker", "."])
    assert result.exit_code == 2 and "is not a run directory" in result.stderr


def test_a_worker_waits_for_the_sweep_to_begin(folder):
    """It starts before the run; the first trial of each waits for one of the other."""
    (folder / "sweep.yaml").write_text(changed("toy_engine:train", "toy_engine:meet_elsewhere", MANY))
    os.mkfifo("meeting")
    worker = hpometrics("worker", "runs/sweep", "--wait", "5m")
    assert worker.lives(0.5)
    run = hpometrics("run", "sweep.yaml")
    assert (worker.ended(), run.ended()) == (0, 0)
    assert {record.state for record in RunDirectory(folder / "runs/sweep").records()} == {TrialState.COMPLETE}


def test_a_worker_waits_no_longer_than_it_is_asked_to(folder):
    """The error is the one of a worker that does not wait; a time has a unit, as in a sweep file."""
    waited, spelled = (
        CliRunner().invoke(main, ["worker", "runs/sweep", "--wait", time]) for time in ("0.1s", "10")
    )
    assert waited.exit_code == 2 and "is not a run directory" in waited.stderr
    assert spelled.exit_code == 2 and "write a number and its unit: 90s, 45m, 2h, 1d" in spelled.stderr


def test_workers_need_a_storage_that_they_share():
    """Memory is one process's own."""
    [found] = problems_of(f"{SWEEP}backend: {{optuna: {{workers: 2, storage: memory}}}}\n")
    assert "backend.optuna.storage: workers share a storage, but memory belongs to one process" in found


def test_a_worker_cannot_join_a_study_in_memory(sweep):
    """It would have a study of its own, and the same trials once more."""
    assert sweep(f"{SWEEP}backend: {{optuna: {{storage: memory}}}}\n").exit_code == 0
    result = CliRunner().invoke(main, ["worker", "runs/sweep"])
    assert result.exit_code == 2
    assert "runs/sweep: storage: memory belongs to one process" in result.stderr


@pytest.mark.parametrize(
    ("trials", "gpus"), [(4, []), (5, []), (6, ["1"]), (7, ["1", "2"]), (9, ["1", "2", "3"])]
)
def test_no_more_processes_start_than_trials_remain(sweep, swept, monkeypatch, trials, gpus):
    """Four trials are finished: of four processes one is the run itself, and each keeps its own GPU."""
    assert swept(SWEEP).exit_code == 0
    started = []

    def start(command, environment, sent):
        started.append(environment["CUDA_VISIBLE_DEVICES"])
        return Popen([sys.executable, "-c", ""], stdout=PIPE, text=True)

    monkeypatch.setattr(processes, "_start_worker", start)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    result = sweep(changed("trials: 4", f"trials: {trials}"), "--workers", "4", "--extend")
    assert result.exit_code == 0, result.output
    assert started == gpus
    assert len(RunDirectory(Path("runs/sweep")).records()) == trials


def test_all_workers_start_where_only_time_ends_the_sweep(sweep, monkeypatch):
    """The number of trials that remain is unknown; once the target is reached, none remains."""
    started = []

    def start(command, environment, sent):
        started.append(command)
        return Popen([sys.executable, "-c", ""], stdout=PIPE, text=True)

    monkeypatch.setattr(processes, "_start_worker", start)
    text = changed("trials: 4", "time: 1h, target: 0.1")
    assert sweep(text, "--workers", "3").exit_code == 0
    assert len(started) == 2
    assert sweep(text, "--workers", "3", "--extend").exit_code == 0
    assert len(started) == 2


@pytest.mark.parametrize("workers", [1, 4])
def test_check_says_how_many_work(sweep, workers):
    """One worker, four workers."""
    result = sweep(f"{SWEEP}backend: {{optuna: {{workers: {workers}}}}}\n", command="check")
    assert f"storage sqlite, {workers} worker{'s' if workers > 1 else ''}\n" in result.output
