"""What trials cost: the unit, the budget on every backend, the cheapest pick."""

from __future__ import annotations

import csv
import json
import math
import re
import signal

import pytest
import torch
from click.testing import CliRunner
from forked import hpometrics
from sample_sweeps import plan_of, problems_of

from hpometrics import Int, ListObjective, OptunaObjective, Reported, SweepResult
from hpometrics.cli.main import main
from hpometrics.direction import MAXIMIZE
from hpometrics.exceptions import RunError
from hpometrics.records.trial_record import TrialState
from hpometrics.results.run_directory import RunDirectory
from hpometrics.selection.rules import CostUnit

ENGINE = """\
import os
import signal
import time

from hpometrics import engine


def train(params, run):
    for epoch in run.epochs(2):
        if (params["x"], epoch) == (int(os.environ.get("KILL_AT", 0)), 1):
            os.kill(os.getpid(), signal.SIGKILL)
        run.log(score=VALUES[params["x"] - 1], dollars=params["x"])


def wait(params, run):
    time.sleep(0.1)
    train(params, run)


def seeded(params, run):
    for _ in run.epochs(1):
        run.log(score=VALUES[params["x"] - 1] + run.seed % 2, dollars=10 - params["x"])


@engine(cost_unit={"logged": "dollars"})
def priced(params, run):
    train(params, run)


def silent(params, run):
    for _ in run.epochs(1):
        run.log(score=1.0)


VALUES = [3, 5, 4, 5, 1, 6, 2, 3]
"""
VALUES = [3, 5, 4, 5, 1, 6, 2, 3]
START = ", ".join(f"{{x: {x}}}" for x in range(1, 9))
LIST = f"""\
engine: {{target: own_engine:train}}
space: {{x: {{int: [1, 8]}}}}
metrics: {{optimize: {{metric: score, direction: maximize}}}}
backend: {{list: [{START}]}}
budget: {{epochs: 2, cost: 20, cost_unit: {{logged: dollars}}}}
"""
SEARCH = LIST.replace(f"backend: {{list: [{START}]}}", f"search: {{start: [{START}]}}").replace(
    "epochs: 2", "epochs: 2, trials: 8"
)
WORDS = "its trials cost 20 of 20 dollars; raise budget.cost for more"


@pytest.fixture
def engine(folder):
    """The engine beside the sweep file: two epochs of trial n cost n + 1 each, so four trials cost 20."""
    (folder / "own_engine.py").write_text(ENGINE)


def home(folder) -> RunDirectory:
    """The run directory of the sweep."""
    return RunDirectory(folder / "runs/sweep")


def costs(folder) -> list[float | None]:
    """What each trial has logged, by number."""
    return [record.cost for record in home(folder).records()]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("text", [LIST, SEARCH])
def test_a_sweep_ends_at_its_cost(sweep, folder, text):
    """The run says so at its end, and so do status and a further run, which starts nothing."""
    first = sweep(text)
    assert first.exit_code == 0, first.output
    assert costs(folder) == [2, 4, 6, 8]
    assert f"the search has ended: {WORDS}\nsaved " in first.stdout
    assert f"ended   {WORDS}\n" in CliRunner().invoke(main, ["status", "runs/sweep"]).stdout
    again = sweep(text)
    assert (again.stdout, again.stderr) == (first.stdout, f"sweep  runs/sweep  4 trials are done, {WORDS}\n")
    assert costs(folder) == [2, 4, 6, 8]


@pytest.mark.usefixtures("engine")
def test_an_engine_may_state_its_unit(sweep, folder):
    """The file then has the limit alone."""
    text = SEARCH.replace("own_engine:train", "own_engine:priced").replace(
        ", cost_unit: {logged: dollars}", ""
    )
    result = sweep(text)
    assert result.exit_code == 0 and f"the search has ended: {WORDS}\n" in result.stdout, result.output
    assert costs(folder) == [2, 4, 6, 8]


@pytest.mark.usefixtures("engine")
def test_a_higher_cost_goes_on(sweep, folder):
    """What was spent counts: ten more are the fifth trial alone."""
    sweep(SEARCH)
    assert sweep(SEARCH, "--set", "budget.cost=30").exit_code == 0
    assert costs(folder) == [2, 4, 6, 8, 10]
    other = sweep(SEARCH.replace("dollars", "euros"))
    assert other.exit_code == 2 and "budget.cost_unit.logged: dollars -> euros" in other.stderr


@pytest.mark.usefixtures("engine")
def test_each_trial_has_its_cost(sweep, folder):
    """In `trials.csv`, in the block and the file of the best, in status and the list of trials."""
    told = sweep(SEARCH, "--set", "budget.trials=3").stdout
    assert "Cost: 4 dollars\n" in told and "has ended" not in told
    with home(folder).table.open() as file:
        assert [row["cost"] for row in csv.DictReader(file)] == ["2.0", "4.0", "6.0"]
    assert "cost    12 of 20 dollars\n" in CliRunner().invoke(main, ["status", "runs/sweep"]).stdout
    facts = json.loads(CliRunner().invoke(main, ["status", "runs/sweep", "--json"]).stdout)
    assert (facts["cost"], facts["best"]["cost"]) == (12, 4)
    listed = CliRunner().invoke(main, ["trials", "runs/sweep", "--json", "--sort", "cost"]).stdout
    assert [row["cost"] for row in json.loads(listed)] == [2, 4, 6]
    figure = SweepResult.read(home(folder).path).plot.cost()
    line = next(trace for trace in figure.data if trace.name == "best at this cost or less")
    assert (list(line.x), list(line.y)) == ([2, 4, 6], [3, 5, 5])
    assert figure.layout.xaxis.title.text == "cost (dollars)"


@pytest.mark.usefixtures("engine")
def test_confirming_trainings_cost_nothing_of_the_budget(sweep, folder):
    """They leave the search where it was, and the next run does nothing."""
    text = f"{SEARCH}confirm: {{top: 2, repeats: 4}}\n"
    first = sweep(text, "--set", "budget.cost=100", "--set", "budget.trials=4")
    assert first.exit_code == 0 and "has ended" not in first.stdout, first.output
    facts = json.loads(CliRunner().invoke(main, ["status", "runs/sweep", "--json"]).stdout)
    assert facts["cost"] == 20 and facts["best"]["confirmed"]
    assert sweep(text).exit_code == 0
    assert costs(folder) == [2, 4, 6, 8]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("point", [3, 4])
def test_a_killed_sweep_ends_with_the_same_trials(folder, monkeypatch, point):
    """Killed in its third trial or in its last, it trains that one again and ends where it would have."""
    (folder / "sweep.yaml").write_text(SEARCH)
    monkeypatch.setenv("KILL_AT", str(point))
    assert hpometrics("run", "sweep.yaml").result().returncode == -signal.SIGKILL
    monkeypatch.delenv("KILL_AT")
    ran = hpometrics("run", "sweep.yaml").result()
    assert ran.returncode == 0, ran.stderr
    assert costs(folder) == [2, 4, 6, 8]
    assert WORDS in ran.stdout


@pytest.mark.usefixtures("engine")
def test_workers_end_together(folder):
    """What is at work when the budget is spent ends, and nothing else starts."""
    (folder / "sweep.yaml").write_text(SEARCH.replace("train", "wait") + "backend: {optuna: {workers: 2}}\n")
    ran = hpometrics("run", "sweep.yaml").result()
    assert ran.returncode == 0, ran.stderr
    assert costs(folder) in ([2, 4, 6, 8], [2, 4, 6, 8, 10])
    assert {record.state for record in home(folder).records()} == {TrialState.COMPLETE}
    assert "of 20 dollars; raise budget.cost for more" in ran.stdout


@pytest.mark.ray
@pytest.mark.usefixtures("engine")
def test_a_sweep_on_ray_ends_and_goes_on(folder, on_ray):
    """One worker runs the trials that Optuna runs, killed or not."""
    text = SEARCH + on_ray(workers=1)
    (folder / "sweep.yaml").write_text(text.replace("train", "wait"))
    run = hpometrics("run", "sweep.yaml")
    assert run.waits_for(lambda: len(home(folder).numbers()) >= 2)
    assert run.killed() == -signal.SIGKILL
    for more, ended in (
        ((), [2, 4, 6, 8]),
        ((), [2, 4, 6, 8]),
        (("--set", "budget.cost=30"), [2, 4, 6, 8, 10]),
    ):
        ran = hpometrics("run", "sweep.yaml", *more).result()
        assert ran.returncode == 0, ran.stderr
        assert costs(folder) == ended
        assert "the search has ended: its trials cost" in ran.stdout
    assert {record.gpus for record in home(folder).records()} == {0.0}


@pytest.mark.ray
@pytest.mark.usefixtures("engine")
def test_pruned_trials_on_ray_count(folder, on_ray):
    """Each trial is worse than those before it, so that the scheduler stops all but the first."""
    worse = ", ".join(f"{{x: {x}}}" for x in (6, 3, 1, 7, 5))
    text = SEARCH.replace(START, worse).replace("search: {", "search: {pruner: asha, ")
    (folder / "sweep.yaml").write_text(text + on_ray(workers=1))
    ran = hpometrics("run", "sweep.yaml").result()
    assert ran.returncode == 0, ran.stderr
    states = [record.state.value for record in home(folder).records()]
    assert states == ["complete", "pruned", "pruned", "pruned"]
    assert costs(folder) == [12, 3, 1, 7]


@pytest.mark.usefixtures("engine")
def test_the_cheapest_within_the_error_is_picked(sweep, folder):
    """Of equal values within the error; the unit may be stated later, as seconds are always known."""
    text = SEARCH.replace("train", "seeded").replace("epochs: 2", "epochs: 1, repeats: 4")
    text = text.replace("maximize}", "maximize}, pick: cheapest_within_se").replace("cost: 20, ", "")
    ran = sweep(text)
    assert ran.exit_code == 0, ran.output
    records = home(folder).records()
    best = max(records, key=lambda record: record.value)
    error = best.deviation / math.sqrt(4)
    within = [record for record in records if record.value >= best.value - error]
    picked = min(within, key=lambda record: record.cost)
    assert f"trial {picked.number}, epoch 0 from the first of 4 repeats, by cheapest_within_se" in ran.stdout
    assert picked.cost == 4 * (9 - picked.number)
    for rule in ("cheapest_within_se", "one_se"):
        told = CliRunner().invoke(main, ["best", "runs/sweep", "--pick", rule])
        assert told.exit_code == 0 and f"by {rule}" in told.stdout
    assert "the cheapest one\n" in sweep(text, command="check").stdout


@pytest.mark.usefixtures("engine")
def test_a_trial_that_logs_no_cost_fails(sweep, folder):
    """It would cost nothing, and no budget would end the sweep."""
    told = sweep(LIST.replace("train", "silent"), "--set", "budget.failures=1")
    assert told.exit_code == 4
    reason = (
        "its cost is the logged value dollars, which no epoch has; call run.log(dollars=...) in each epoch"
    )
    assert reason in home(folder).record(0).reason


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("backend", ["", "backend: {optuna: {workers: 2}}\n"])
def test_an_engine_that_never_logs_the_cost_ends_its_sweep(sweep, folder, backend):
    """The first two trials fail alike, in whatever epochs; no trial follows but those at work."""
    told = sweep(SEARCH.replace("logged: dollars", "logged: nope") + backend)
    assert told.exit_code == 4, told.output
    assert "The first trials failed with the same error, so no other trial was started:" in told.stderr
    assert "its cost is the logged value nope, which no epoch has" in told.stderr
    assert len(home(folder).records()) in ((2, 3) if backend else (2,))


@pytest.mark.usefixtures("engine")
def test_a_trial_that_logs_a_negative_cost_fails(sweep, folder):
    """It would pay for others; what it logs does not count."""
    own = folder / "own_engine.py"
    own.write_text(own.read_text().replace("dollars=", "dollars=-"))
    assert sweep(LIST, "--set", "budget.failures=1").exit_code == 4
    failed = home(folder).record(0)
    assert (
        "the logged value dollars, which must be at least 0 in each epoch; got -" in failed.reason
        and failed.cost == 0
    )


@pytest.mark.usefixtures("engine")
def test_gpu_seconds_are_those_of_the_gpus_of_a_trial(sweep, folder, monkeypatch):
    """Without a GPU the first trial says so; with two, each second counts twice."""
    text = re.sub(r"cost: 20, cost_unit: .*", "cost_unit: gpu_seconds}", SEARCH)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert "the process of the trial has no GPU; choose seconds" in sweep(text).output
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    ran = sweep(text, "--fresh")
    assert ran.exit_code == 0, ran.output
    unit = home(folder).read().unit
    for record in home(folder).records():
        assert unit.cost_of(record) == 2 * record.seconds > 0


def test_check_says_when_the_search_ends(sweep):
    """It is a limit as good as a number of trials; a unit that does not exist is refused."""
    plan = plan_of(SEARCH.replace("trials: 8, ", ""))
    assert (plan.trials, plan.config.budget.cost) == (None, 20)
    assert "until the trials cost 20 dollars" in sweep(SEARCH, command="check").stdout
    paid = SEARCH.replace("{logged: dollars}", "{rate: 2.5}")
    assert "until the trials cost 20 (2.5 an hour)" in sweep(paid, command="check").stdout
    for wrong in ("hours", "{rate: 0}", "{logged: ''}", "{rate: 1, logged: x}"):
        [problem] = problems_of(SEARCH.replace("{logged: dollars}", wrong))
        assert "budget.cost_unit: the unit of a cost must be seconds, gpu_seconds, {rate: 2.5}" in problem
    [problem] = problems_of(SEARCH.replace("cost: 20", "cost: 0"))
    assert "budget.cost: must be above 0" in problem


def log(params, run):
    """The value of a point, and its cost, in two epochs."""
    for _ in run.epochs(2):
        run.log(score=VALUES[params["x"] - 1], dollars=params["x"])


POINTS = [{"x": x} for x in range(1, 9)]
SCORE = Reported("score", MAXIMIZE)
DOLLARS = {"logged": "dollars"}


def test_a_list_in_python_ends():
    """As the sweep does; repeats cost as often."""
    objective = ListObjective(log, POINTS, metric=SCORE, cost_unit=DOLLARS)
    assert [record.cost for record in objective.run(cost=20)] == [2, 4, 6, 8]
    objective = ListObjective(log, POINTS, metric=SCORE, cost_unit=DOLLARS, repeats=2)
    records = objective.run(cost=20)
    assert [record.cost for record in records] == [4, 8, 12]
    assert objective.best(records, "cheapest_within_se").trial == 1


def test_a_study_in_python_ends_and_goes_on():
    """A second call with the same cost starts nothing, one with a higher cost goes on."""
    objective = OptunaObjective(log, {"x": Int(1, 8)}, metric=SCORE, cost_unit=DOLLARS)
    study = objective.create_study(sampler="random")
    for point in POINTS:
        study.enqueue_trial(point)
    for cost, count in ((20, 4), (20, 4), (30, 5)):
        objective.optimize(study, 8, cost=cost)
        assert sum(trial.state.is_finished() for trial in study.get_trials()) == count


@pytest.mark.parametrize("cost", [0, True, -1.5, "3", math.inf])
def test_a_cost_that_ends_nothing_is_refused(cost):
    """Before the first trial."""
    objective = OptunaObjective(log, {"x": Int(1, 8)}, metric=SCORE)
    with pytest.raises(RunError, match="cost must be a number above 0, in the unit of cost_unit, got"):
        objective.optimize(objective.create_study(), 3, cost=cost)


def test_a_rate_is_the_money_of_an_hour():
    """Half an hour of 2.5 is 1.25, of whatever trials have ended."""
    [record] = ListObjective(log, POINTS[:1], metric=SCORE).run()
    unit = CostUnit.parse({"rate": 3600})
    assert unit.cost_of(record) == pytest.approx(record.seconds)
    assert unit.spent([record, record]) == pytest.approx(2 * record.seconds)


@pytest.mark.ray
def test_a_tuner_in_python_ends(ray_cluster, tmp_path):
    """One trial at a time as the list; the records of a directory tell the cost."""
    from hpometrics import RayObjective

    def train(params, run):  # Ray's workers do not import this module
        for _ in run.epochs(2):
            run.log(score=VALUES[params["x"] - 1], dollars=params["x"])

    with pytest.raises(RunError, match="the cost on Ray needs a record for each trial; set directory="):
        RayObjective(train, {"x": Int(1, 8)}, metric=SCORE).tuner(8, cost=20)
    objective = RayObjective(
        train, {"x": Int(1, 8)}, metric=SCORE, cost_unit=DOLLARS, directory=tmp_path / "run"
    )
    objective.tuner(8, points=POINTS, cost=20, max_concurrent=1).fit()
    done = [record for record in objective.records() if record.state.finished]
    assert [record.cost for record in done] == [2, 4, 6, 8]
