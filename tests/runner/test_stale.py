"""A search that has stopped paying ends by itself: `budget.stale`, on every backend."""

from __future__ import annotations

import json
import math
import signal
import sqlite3
from dataclasses import replace

import pytest
from click.testing import CliRunner
from forked import hpometrics
from sample_sweeps import plan_of, problems_of

from hpometrics import Int, ListObjective, OptunaObjective, Reported
from hpometrics.cli.main import main
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import RunError
from hpometrics.records.trial_record import TrialState, write_trial
from hpometrics.results.run_directory import RunDirectory

ENGINE = """\
import os
import signal
import time

from hpometrics import engine


def train(params, run):
    for _ in run.epochs(1):
        if params["x"] == int(os.environ.get("KILL_AT", 0)):
            os.kill(os.getpid(), signal.SIGKILL)
        run.log(score=VALUES[params["x"] - 1], cost=COSTS[params["x"] - 1])


def wait(params, run):
    time.sleep(0.1)
    train(params, run)


@engine(tol=1.0)
def tolerant(params, run):
    train(params, run)


VALUES = [3, 5, 4, 5, 1, 6, 2, 3, 4, 5, 1, 7, 2, 2, 2, 2, 2, 2, 2, 2]
COSTS = [9, 9, 8, 8, 9, 9, 9, 9, 9, 9, 9, 9, 7, 9, 9, 9, 9, 9, 9, 9]
"""
VALUES = [3, 5, 4, 5, 1, 6, 2, 3, 4, 5, 1, 7, 2, 2, 2, 2, 2, 2, 2, 2]
START = ", ".join(f"{{x: {x}}}" for x in range(1, 21))
SWEEP = f"""\
engine: {{target: own_engine:train}}
space: {{x: {{int: [1, 20]}}}}
metrics: {{optimize: {{metric: score, direction: maximize}}}}
backend: {{list: [{START}]}}
budget: {{epochs: 1, stale: 3}}
"""
SEARCH = SWEEP.replace(f"backend: {{list: [{START}]}}", f"search: {{start: [{START}]}}").replace(
    "stale: 3", "trials: 20, stale: 3"
)
SEVERAL = SEARCH.replace(
    "{metric: score, direction: maximize}",
    "[{metric: score, direction: maximize}, {metric: cost, direction: minimize}]",
)


@pytest.fixture
def engine(folder):
    """The engine beside the sweep file; the points are tried in their order."""
    (folder / "own_engine.py").write_text(ENGINE)


def numbers(folder) -> list[int]:
    """The numbers of the trials of the sweep."""
    return [record.number for record in RunDirectory(folder / "runs/sweep").records()]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("text", [SWEEP, SEARCH])
def test_a_sweep_ends_without_a_new_best(sweep, folder, text):
    """Trial 1 has 5, and neither 4, 5 nor 1 is better; it is said at the end, in status and by a new run."""
    first = sweep(text)
    assert first.exit_code == 0, first.output
    assert numbers(folder) == [0, 1, 2, 3, 4]
    words = "no new best in 3 trials; raise budget.stale for more"
    assert f"the search has ended: {words}\nsaved " in first.stdout
    status = CliRunner().invoke(main, ["status", "runs/sweep"]).stdout
    assert f"ended   {words}\n" in status
    CliRunner().invoke(main, ["report", "runs/sweep", "-f", "md"])
    assert words in (folder / "runs/sweep/report.md").read_text()
    again = sweep(text)
    assert again.stdout == first.stdout
    assert again.stderr == f"sweep  runs/sweep  5 trials are done, {words}\n"
    assert numbers(folder) == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("engine")
def test_a_higher_number_goes_on(sweep, folder):
    """With 5, trial 5 is a new best, and trial 10 is the fifth without one; without a limit all are run."""
    sweep(SEARCH)
    assert sweep(SEARCH, "--set", "budget.stale=5").exit_code == 0
    assert numbers(folder) == list(range(11))
    status = CliRunner().invoke(main, ["status", "runs/sweep", "--json"]).stdout
    assert json.loads(status)["since_best"] == 5
    whole = sweep(SEARCH.replace(", stale: 3", ""))
    assert numbers(folder) == list(range(20))
    assert "no new best" not in whole.output


@pytest.mark.usefixtures("engine")
def test_status_counts_while_the_sweep_goes_on(sweep):
    """Two trials have come after the best."""
    sweep(SEARCH, "--set", "budget.trials=4")
    told = CliRunner().invoke(main, ["status", "runs/sweep"]).stdout
    assert "stale   2 of 3 trials without a new best\n" in told


@pytest.mark.usefixtures("engine")
def test_a_new_best_is_better_by_more_than_the_tolerance(sweep, folder):
    """With a tolerance of 1 the 6 of trial 5 is no improvement of the 5, and the 7 of trial 11 comes late."""
    text = SEARCH.replace("train", "tolerant").replace("stale: 3", "stale: 6")
    assert sweep(text).exit_code == 0
    assert numbers(folder) == list(range(8))
    assert "ended   no new best in 6" in CliRunner().invoke(main, ["status", "runs/sweep"]).stdout


@pytest.mark.usefixtures("engine")
def test_the_file_sets_the_tolerance(sweep, folder):
    """In place of the engine's own; a change of it needs --extend, as patience ends trials by it."""
    assert sweep(SEARCH.replace("stale: 3", "stale: 6, tol: 1")).exit_code == 0
    assert numbers(folder) == list(range(8))
    refused = sweep(SEARCH.replace("stale: 3", "stale: 6, tol: 0.5"))
    assert refused.exit_code == 2 and "budget.tol: 1.0 -> 0.5" in refused.stderr
    checked = sweep(SEARCH.replace("stale: 3", "stale: 6, tol: 1"), command="check").stdout
    assert "until 6 trials in a row bring no new best, an improvement is more than 1" in checked
    tolerant = SEARCH.replace("train", "tolerant").replace("stale: 3", "stale: 6, tol: 0")
    assert sweep(tolerant, "--fresh").exit_code == 0
    assert numbers(folder) == list(range(18))


def test_a_tolerance_is_of_one_metric():
    """Several objectives have no common unit, and no change is below zero."""
    (problem,) = problems_of(SEVERAL.replace("stale: 3", "stale: 3, tol: 0.1"))
    assert "budget.tol: is in the unit of one metric; leave it out with several objectives" in problem
    assert "budget.tol" in problems_of(SEARCH.replace("stale: 3", "stale: 3, tol: -1"))[0]


@pytest.mark.usefixtures("engine")
def test_of_several_objectives_a_new_best_enters_the_front(sweep, folder):
    """Trials 2 and 3 bring a lower cost, 5 a higher score; an equal or dominated trial brings nothing."""
    result = sweep(SEVERAL)
    assert result.exit_code == 0, result.output
    assert numbers(folder) == list(range(9))
    assert "no new best in 3 trials" in result.stdout


@pytest.mark.usefixtures("engine")
def test_trials_that_are_not_complete_do_not_count(sweep, folder):
    """With a bound on the cost three trials are feasible, so that the other 17 in vain end nothing."""
    text = SEARCH.replace("maximize}}", 'maximize}, constraints: ["cost <= 8"]}')
    result = sweep(text)
    assert result.exit_code == 0, result.output
    states = [record.state for record in RunDirectory(folder / "runs/sweep").records()]
    assert len(states) == 20 and states.count(TrialState.COMPLETE) == 3


@pytest.mark.usefixtures("engine")
def test_confirmations_do_not_count(sweep, folder):
    """Trainings after the search leave it where it was, and the next run does nothing."""
    text = f"{SEARCH}confirm: {{top: 2, repeats: 4}}\n"
    first = sweep(text)
    assert first.exit_code == 0, first.output
    assert "no new best in 3 trials" in first.stdout
    assert sweep(text).stdout == first.stdout
    assert numbers(folder) == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("point", [3, 5])
def test_a_killed_sweep_ends_with_the_same_trials(folder, monkeypatch, point):
    """Killed in its third trial or in its last, it runs that one again and ends where it would have."""
    (folder / "sweep.yaml").write_text(SEARCH)
    monkeypatch.setenv("KILL_AT", str(point))
    assert hpometrics("run", "sweep.yaml").result().returncode == -signal.SIGKILL
    monkeypatch.delenv("KILL_AT")
    ran = hpometrics("run", "sweep.yaml").result()
    assert ran.returncode == 0, ran.stderr
    records = RunDirectory(folder / "runs/sweep").records()
    assert [record.value for record in records] == VALUES[:5]
    assert "no new best in 3 trials" in ran.stdout


@pytest.mark.usefixtures("engine")
def test_workers_end_together(folder):
    """What was at work when the third trial in vain ended comes to its end, and nothing else."""
    text = SEARCH.replace("train", "wait") + "backend: {optuna: {workers: 2}}\n"
    (folder / "sweep.yaml").write_text(text)
    ran = hpometrics("run", "sweep.yaml").result()
    assert ran.returncode == 0, ran.stderr
    home = RunDirectory(folder / "runs/sweep")
    records = sorted(home.records(), key=lambda record: record.ended)
    assert all(record.state is TrialState.COMPLETE for record in records)
    values = [record.value for record in records]
    assert home.read().limits.reached(records) == "stale"
    since = len(values) - 1 - values.index(max(values))
    assert since in (3, 4)
    assert "no new best in 3 trials" in ran.stdout


@pytest.mark.ray
@pytest.mark.usefixtures("engine")
def test_a_sweep_on_ray_ends_and_goes_on(folder, on_ray, monkeypatch):
    """One worker runs the trials that Optuna runs, killed or not; two let what is at work end."""
    (folder / "sweep.yaml").write_text(SEARCH + on_ray(workers=1))
    for more, last in (((), 4), ((), 4), (("--set", "budget.stale=5"), 10)):
        ran = hpometrics("run", "sweep.yaml", *more).result()
        assert ran.returncode == 0, ran.stderr
        assert numbers(folder) == list(range(last + 1))
        assert "the search has ended: no new best in" in ran.stdout
    (folder / "sweep.yaml").write_text(SEARCH.replace("train", "wait") + on_ray(workers=2))
    ran = hpometrics("run", "sweep.yaml", "--fresh").result()
    assert ran.returncode == 0, ran.stderr
    home = RunDirectory(folder / "runs/sweep")
    assert home.read().limits.reached(home.records()) == "stale" and len(home.records()) < 20
    assert {record.state for record in home.records()} == {TrialState.COMPLETE}


@pytest.mark.ray
@pytest.mark.usefixtures("engine")
def test_a_killed_sweep_on_ray_ends_with_the_same_trials(folder, on_ray):
    """Killed while a trial is at work, it runs that one again and ends where it would, by its tolerance."""
    text = SEARCH.replace("train", "wait").replace("stale: 3", "stale: 6, tol: 1")
    (folder / "sweep.yaml").write_text(text + on_ray(workers=1))
    run = hpometrics("run", "sweep.yaml")
    home = RunDirectory(folder / "runs/sweep")
    assert run.waits_for(lambda: len(home.numbers()) >= 3)
    assert run.killed() == -signal.SIGKILL
    ran = hpometrics("run", "sweep.yaml").result()
    assert ran.returncode == 0, ran.stderr
    assert [(record.number, record.value) for record in home.records()] == [*enumerate(VALUES[:8])]
    assert "no new best in 6 trials" in ran.stdout


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("lost", [False, True])
def test_a_trial_of_a_dead_process_resumes_after_the_end(sweep, folder, lost):
    """It had begun before the search ended, and brings a new best, so that the search goes on.

    So it does where the study was lost, and the trial waits in the one that is made from the records.
    """
    sweep(SEARCH, "--set", "budget.trials=6", "--set", "budget.stale=9")
    home = RunDirectory(folder / "runs/sweep")
    last = home.record(5)
    write_trial(home.trial(5), replace(last, state=TrialState.RUNNING, value=None, epoch=None, epochs=()))
    (home.trial(5) / "epochs.jsonl").unlink()
    with sqlite3.connect(home.study) as study:
        study.execute("UPDATE trials SET state = 'RUNNING' WHERE number = 5")
        for table in ("trial_values", "trial_intermediate_values", "trial_user_attributes"):
            study.execute(f"DELETE FROM {table} WHERE trial_id = 6")
    if lost:
        home.study.write_bytes(b"damaged")
    assert home.read().since_best(home.records()) == 3
    result = sweep(SEARCH)
    assert result.exit_code == 0, result.output
    assert [record.value for record in home.records()] == VALUES[:9]
    assert "no new best in 3 trials" in result.stdout


def test_check_says_when_the_search_ends(sweep):
    """It is a limit as good as a number of trials; 0 would end before the first."""
    plan = plan_of(SEARCH.replace("trials: 20, ", ""))
    assert (plan.trials, plan.config.budget.stale) == (None, 3)
    assert "until 3 trials in a row bring no new best" in sweep(SEARCH, command="check").stdout
    [problem] = problems_of(SEARCH.replace("stale: 3", "stale: 0"))
    assert "budget.stale" in problem


def log(params, run):
    """The value of a point, and its cost, in one epoch."""
    for _ in run.epochs(1):
        run.log(score=VALUES[params["x"] - 1], cost=params["x"] % 3)


POINTS = [{"x": x} for x in range(1, 21)]
SCORE = Reported("score", MAXIMIZE)


@pytest.mark.parametrize(("stale", "count"), [(None, 20), (3, 5), (5, 11)])
def test_a_list_in_python_ends(stale, count):
    """As the sweep does."""
    objective = ListObjective(log, POINTS, metric=SCORE)
    assert len(objective.run(stale=stale)) == count


def test_a_study_in_python_ends_and_goes_on():
    """A second call with the same number starts nothing, one with a higher number goes on."""
    objective = OptunaObjective(log, {"x": Int(1, 20)}, metric=SCORE)
    study = objective.create_study(sampler="random")
    for point in POINTS:
        study.enqueue_trial(point)
    for stale, count in ((3, 5), (3, 5), (5, 11)):
        objective.optimize(study, 20, stale=stale)
        assert sum(trial.state.is_finished() for trial in study.get_trials()) == count


def test_several_objectives_in_python_end():
    """Trial 2 has the lowest cost already; from trial 6 on nothing enters the front before the 7 does."""
    objective = ListObjective(log, POINTS, metric=[SCORE, Reported("cost", MINIMIZE)])
    assert len(objective.run(stale=3)) == 9


@pytest.mark.parametrize("stale", [0, True, 2.5, "3"])
def test_a_number_that_ends_nothing_is_refused(stale):
    """Before the first trial."""
    with pytest.raises(RunError, match="stale must be a whole number of at least 1, got"):
        ListObjective(log, POINTS, metric=SCORE).run(stale=stale)
    objective = OptunaObjective(log, {"x": Int(1, 20)}, metric=SCORE)
    with pytest.raises(RunError, match="stale must be a whole number of at least 1, got"):
        objective.optimize(objective.create_study(), 3, stale=stale)


@pytest.mark.ray
@pytest.mark.parametrize("concurrent", [1, 2])
def test_a_tuner_in_python_ends(ray_cluster, concurrent):
    """One trial at a time as the list; two at a time some more."""
    from hpometrics import RayObjective

    def train(params, run):  # Ray's workers do not import this module
        for _ in run.epochs(1):
            run.log(score=VALUES[params["x"] - 1])

    objective = RayObjective(train, {"x": Int(1, 20)}, metric=SCORE)
    objective.tuner(20, points=POINTS, stale=3, max_concurrent=concurrent).fit()
    done = [record for record in objective.records() if record.state.finished]
    assert objective.limits(3).reached(done)
    assert len(done) == 5 if concurrent == 1 else len(done) < 20


OPEN = """\
engine: {target: own_engine:train}
space: {x: {int: [1, 20]}}
metrics: {optimize: {metric: score, direction: maximize}, constraints: [CONSTRAINT]}
search: {sampler: random, seed: 1}
budget: {epochs: 1, LIMIT}
"""


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("constraint", "limit", "words"),
    [
        ("score >= 8", "stale: 3", "none of its last 50 trials counts toward budget.stale"),
        ("score >= 0", "cost: 9, cost_unit: {logged: price}", "counts toward budget.cost"),
    ],
    ids=["infeasible", "free"],
)
def test_a_search_that_nothing_else_would_end_gives_up(folder, sweep, constraint, limit, words):
    """After 50 trials of which none can reach its only limit; another limit takes it on."""
    engine = ENGINE.replace("cost=COSTS", "price=0.0, cost=COSTS")
    (folder / "own_engine.py").write_text(engine)
    text = OPEN.replace("CONSTRAINT", constraint).replace("LIMIT", limit)
    ran = sweep(text)
    assert len(numbers(folder)) == 50
    status = CliRunner().invoke(main, ["status", "runs/sweep"])
    assert f"{words}; set budget.trials or time for more" in status.output
    assert ran.exit_code == (3 if constraint == "score >= 8" else 0)
    assert len(numbers(folder)) == 50 and sweep(text, "--set", "budget.trials=52").exit_code == ran.exit_code
    assert len(numbers(folder)) == 52


def test_a_study_that_nothing_else_would_end_gives_up():
    """The same of an objective whose trials all fail."""

    def fail(params, run):
        for _ in run.epochs(1):
            run.log(score=math.nan)

    objective = OptunaObjective(fail, {"x": Int(1, 20)}, metric=Reported("score", MAXIMIZE))
    study = objective.create_study()
    objective.optimize(study, stale=2)
    assert len(study.trials) == 50
