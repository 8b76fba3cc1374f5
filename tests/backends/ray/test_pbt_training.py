from __future__ import annotations

import gc
import os
import time
from dataclasses import replace
from logging import getLogger
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any

import pytest
import ray
import torch
from loaded_python import start_cluster
from ray import PlacementGroupID, tune
from ray.tune import PlacementGroupFactory
from ray.tune.schedulers import AsyncHyperBandScheduler, ResourceChangingScheduler
from ray.util.placement_group import PlacementGroup, placement_group_table, remove_placement_group

from hpometrics import RayObjective
from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import HpometricsError, NoFiniteValueError, RunError
from hpometrics.records.trial_record import Exploit, TrialRecord, TrialState, write_trial
from hpometrics.run import Reported
from hpometrics.space.dimensions import Float

pytestmark = pytest.mark.ray
LOSS = Reported("loss", MINIMIZE)
SPACE = {"lr": Float(1e-4, 0.5, log=True)}
POINTS = [{"lr": 1e-4}, {"lr": 0.2}, {"lr": 1e-3}, {"lr": 5e-2}]
LEAVES = 0.01
PBT = {"pbt": {"mutate": ["lr"], "perturbation_interval": 2}}


@pytest.fixture(autouse=True)
def freed(ray_cluster):
    """All of the cluster: Ray now and then keeps what a population waited for, and nothing else fits then.

    A trial that wants both CPUs would wait for good for the one that is kept; the next cluster has both.
    """
    gc.collect()  # an actor ends with its last handle
    for name, told in placement_group_table().items():
        if told["state"] != "REMOVED":
            remove_placement_group(PlacementGroup(PlacementGroupID.from_hex(name)))
    patience = time.monotonic() + 10
    while ray.available_resources().get("CPU") != 2:
        if time.monotonic() > patience:
            ray.shutdown()
            start_cluster()
            break
        time.sleep(0.1)


def make_train(checkpoints: bool = True, dies: Path | None = None, cpus: bool = False) -> Any:
    """A train function that travels to Ray's workers by value, as a user's script does.

    One process dies in its third epoch, and leaves the file `dies`. With `cpus` it logs how many it has.
    """

    def train(params, run):
        """Gradient descent on the square of a weight that begins at 5; at 0.01 it ends after three epochs."""
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.constant_(model.weight, 5.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=params["lr"])
        run.restore(model=model, optimizer=optimizer)
        for epoch in run.epochs():
            if epoch == 3 and params["lr"] == LEAVES:
                break
            if epoch == 2 and dies is not None and not dies.exists():
                dies.touch()
                os._exit(1)
            optimizer.zero_grad()
            model.weight.square().sum().backward()
            optimizer.step()
            if cpus:
                run.log(cpus=tune.get_context().get_trial_resources().required_resources["CPU"])
            run.log(loss=float(model.weight.detach() ** 2), lr=optimizer.param_groups[0]["lr"])
            if checkpoints:
                run.checkpoint(model=model, optimizer=optimizer)

    return train


def descended(params: list[float]) -> float:
    """The loss after one step of each learning rate: the weight shrinks by 1 - 2 lr."""
    weight = 5.0
    for lr in params:
        weight *= 1 - 2 * lr
    return weight**2


@pytest.fixture(scope="module")
def population(ray_started, tmp_path_factory):
    """The objective and the results of four trials over six epochs, and what Tune logged."""
    directory, log = tmp_path_factory.mktemp("population"), BufferingHandler(10_000)
    objective = RayObjective(make_train(), SPACE, metric=LOSS, epochs=6, directory=directory, seed=3)
    tuner = objective.tuner(4, scheduler=PBT, sampler="random", points=POINTS)
    logger = getLogger("ray.tune")
    level = logger.level
    logger.addHandler(log)
    logger.setLevel("WARNING")
    results = tuner.fit()
    logger.setLevel(level)
    logger.removeHandler(log)
    return objective, results, [record.getMessage() for record in log.buffer]


def test_tune_reads_every_epoch_of_a_member_back(population):
    """Also of one that went on in another process; it warns of no files that are missing."""
    objective, results, messages = population
    assert any(record.exploits for record in objective.records(results))
    for result in results:
        assert list(result.metrics_dataframe["epochs"]) == [1, 2, 3, 4, 5, 6]
        assert list(result.metrics_dataframe["loss"])[-1] == result.metrics["loss"]
    assert not [told for told in messages if "Failed to fetch metrics" in told]


def test_the_worst_go_on_from_the_best(population):
    """Every epoch has the value that its params and its donor's state give; the record says all of them."""
    objective, results, _ = population
    assert not results.errors
    records = objective.records(results)
    assert [record.state for record in records] == [TrialState.COMPLETE] * 4
    assert [record.given for record in records] == POINTS
    assert records[0].exploits[0].epoch == 2
    assert records[0].exploits[0].donor == 1
    assert {one.epoch for record in records for one in record.exploits} <= {2, 4}
    lineage = {record.number: [record.given["lr"]] * 2 for record in records}
    for boundary in (2, 4):
        before = {number: list(rates) for number, rates in lineage.items()}
        for record in records:
            exploit = next((one for one in record.exploits if one.epoch == boundary), None)
            base = before[record.number if exploit is None else exploit.donor]
            lineage[record.number] = [*base, *[record.params_at(boundary)["lr"]] * 2]
    for record in records:
        assert [epoch.epoch for epoch in record.epochs] == list(range(6))
        assert [epoch.values["lr"] for epoch in record.epochs] == [
            record.params_at(n)["lr"] for n in range(6)
        ]
        assert record.epochs[-1].values["loss"] == pytest.approx(descended(lineage[record.number]), rel=1e-5)
        assert record.params == record.params_at(record.epoch)
    best = objective.best(results)
    assert best.params == records[best.trial].params
    assert best.value == min(record.value for record in records)
    assert [trial.params["lr"] for trial in objective.study.trials] == [point["lr"] for point in POINTS]


def test_the_others_go_on_without_a_trial_that_has_ended(ray_cluster, tmp_path):
    """The last that they wait for ends before they meet; as one trains at a time, it is the last."""
    points = [{"lr": 1e-4}, {"lr": 0.2}, {"lr": LEAVES}]
    objective = RayObjective(make_train(), SPACE, metric=LOSS, epochs=5, directory=tmp_path, seed=3)
    results = objective.tuner(3, scheduler=PBT, sampler="random", points=points, resources={"cpu": 2}).fit()
    assert not results.errors
    assert [len(record.epochs) for record in objective.records(results)] == [5, 5, 3]


def test_a_train_function_without_checkpoints_says_what_to_do(ray_cluster, tmp_path):
    """At the first epoch whose state is to be handed on, instead of a population that never exploits."""
    objective = RayObjective(make_train(False), SPACE, metric=LOSS, epochs=4, directory=tmp_path)
    results = objective.tuner(2, scheduler=PBT).fit()
    assert len(results.errors) == 2
    with pytest.raises(
        NoFiniteValueError, match=r"but epoch 1 saved none: call run\.checkpoint\(model=model"
    ):
        objective.best(results)


@pytest.mark.parametrize(
    ("facts", "arguments", "said"),
    [
        ({}, {}, "pbt passes states between trials and records their origin; set directory="),
        ({"directory": "runs", "repeats": 2}, {}, "which another seed would not repeat;"),
        ({"directory": "runs"}, {"max_concurrent": 2}, "leave max_concurrent out"),
    ],
)
def test_what_keeps_trials_apart_is_refused(facts, arguments, said, ray_cluster, tmp_path, monkeypatch):
    """Before the first trial."""
    monkeypatch.chdir(tmp_path)
    objective = RayObjective(make_train(), SPACE, metric=LOSS, epochs=4, **facts)
    with pytest.raises(RunError, match=said):
        objective.tuner(4, scheduler=PBT, **arguments)


def test_a_bandit_trains_its_members(ray_cluster, tmp_path):
    """On Ray: the params of the worst are chosen from what all members have written, and differ by member."""
    objective = RayObjective(make_train(), SPACE, metric=LOSS, epochs=4, directory=tmp_path, seed=3)
    scheduler = {"pb2": {"mutate": ["lr"], "perturbation_interval": 2, "quantile_fraction": 0.5}}
    results = objective.tuner(4, scheduler=scheduler, sampler="random", points=POINTS).fit()
    assert not results.errors
    records = objective.records(results)
    assert [len(record.epochs) for record in records] == [4] * 4
    chosen = {record.number: record.exploits[0] for record in records if record.exploits}
    assert chosen.keys() == {0, 2}
    assert {one.epoch for one in chosen.values()} == {2}
    rates = {one.params["lr"] for one in chosen.values()}
    assert len(rates) == 2 and not rates & {point["lr"] for point in POINTS}
    for record in records:
        assert [one.values["lr"] for one in record.epochs] == [record.params_at(n)["lr"] for n in range(4)]


def replayed(directory: Path, source: Path, train: Any) -> tuple[Any, Any]:
    """The objective and the tuner of two trials that replay the schedule of the only trial of a search."""
    exploits = (Exploit(1, 0, {"lr": 0.2}), Exploit(3, 0, {"lr": 0.3}))
    record = TrialRecord(0, {"lr": 0.3}, TrialState.COMPLETE, 0.1, 4, first_params={"lr": 0.1})
    write_trial(source / "trials" / "0000", replace(record, exploits=exploits))
    objective = RayObjective(train, SPACE, metric=LOSS, epochs=5, directory=directory, seed=3)
    return objective, objective.tuner(2, scheduler={"pbt_replay": {"run": str(source), "trial": 0}})


def test_a_schedule_is_replayed(ray_cluster, tmp_path):
    """Each trial trains on from its own state at each change; so does the one whose process dies."""
    rates = [0.1, 0.2, 0.2, 0.3, 0.3]
    train = make_train(dies=tmp_path / "died")
    objective, tuner = replayed(tmp_path / "runs", tmp_path / "source", train)
    results = tuner.fit()
    assert not results.errors
    for record in objective.records(results):
        assert record.given == {"lr": 0.1}
        assert [one.values["lr"] for one in record.epochs] == rates
        assert record.epochs[-1].values["loss"] == pytest.approx(descended(rates), rel=1e-5)
        assert record.exploits == tuple(Exploit(at, record.number, {"lr": rates[at]}) for at in (1, 3))
    assert (tmp_path / "died").exists() and objective.best(results).params == {"lr": 0.3}
    assert [list(result.metrics_dataframe["epochs"]) for result in results] == [[1, 2, 3, 4, 5]] * 2


def test_a_replay_without_checkpoints_says_what_to_do(ray_cluster, tmp_path):
    """At the first change of the params."""
    objective, tuner = replayed(tmp_path / "runs", tmp_path / "source", make_train(False))
    results = tuner.fit()
    with pytest.raises(NoFiniteValueError, match=r"to continue from: call run\.checkpoint"):
        objective.best(results)


@pytest.mark.parametrize(
    ("facts", "options", "arguments", "said"),
    [
        ({}, {"run": "runs"}, {}, "pbt_replay changes params and records the changes; set directory="),
        ({"directory": "x", "repeats": 2}, {"run": "runs"}, {}, "leave repeats out"),
        ({"directory": "x"}, {"run": "runs"}, {"points": POINTS}, "leave points and warm_start out"),
        ({"directory": "x"}, {}, {}, "run of pbt_replay must be the directory of a search"),
        ({"directory": "x"}, {"run": 3}, {}, "run must be the directory of a search, as in runs/pbt, got 3"),
        ({"directory": "x"}, {"run": "runs", "trial": "3"}, {}, "trial must be a trial number, as in 3"),
        ({"directory": "x"}, {"run": "runs"}, {}, "runs has no trials"),
        ({"directory": "x"}, {"runs": "runs"}, {}, "has no argument 'runs'; did you mean 'run'"),
        ({"directory": "x"}, {"run": "runs", "metric": "f1"}, {}, "has no argument 'metric'"),
    ],
)
def test_what_replays_no_schedule_is_refused(
    facts, options, arguments, said, ray_cluster, tmp_path, monkeypatch
):
    """Before the first trial."""
    monkeypatch.chdir(tmp_path)
    objective = RayObjective(make_train(), SPACE, metric=LOSS, epochs=4, **facts)
    with pytest.raises(HpometricsError, match=said):
        objective.tuner(2, scheduler={"pbt_replay": options}, **arguments)


def more_cpus(controller: Any, trial: Any, result: Any, scheduler: Any) -> PlacementGroupFactory | None:
    """Two CPUs after the second epoch, and one again after the third; also after the last, which is none."""
    cpus = {2: 2, 3: 1, 4: 2}.get(result["epochs"])
    return None if cpus is None else PlacementGroupFactory([{"CPU": cpus}])


def test_a_trial_trains_on_with_other_resources(ray_cluster, tmp_path):
    """In a process for each, from its own state: no epoch is trained or reported twice, none is missing."""
    train = make_train(cpus=True)
    objective = RayObjective(train, SPACE, metric=LOSS, epochs=4, directory=tmp_path, seed=3)
    base = AsyncHyperBandScheduler(time_attr="epochs", max_t=4, grace_period=4)  # stops each at its end
    scheduler = ResourceChangingScheduler(base, more_cpus)
    results = objective.tuner(2, scheduler=scheduler, sampler="random", points=POINTS[1:3]).fit()
    assert not results.errors
    for record, lr in zip(objective.records(results), (0.2, 1e-3), strict=True):
        assert (record.state, record.reason) == (TrialState.COMPLETE, None)
        assert [(one.epoch, one.attempt) for one in record.epochs] == [(0, 1), (1, 1), (2, 2), (3, 3)]
        assert [one.values["cpus"] for one in record.epochs] == [1, 1, 2, 1]
        assert record.epochs[-1].values["loss"] == pytest.approx(descended([lr] * 4), rel=1e-5)
    assert [list(result.metrics_dataframe["epochs"]) for result in results] == [[1, 2, 3, 4]] * 2


@pytest.mark.parametrize(
    ("facts", "arguments", "said"),
    [
        ({}, {}, "from their records; set directory="),
        ({"directory": "x", "checkpoints": "none"}, {}, "keep the latest checkpoint"),
        ({"directory": "x", "repeats": 2}, {}, "leave repeats out"),
        ({"directory": "x"}, {"reuse_actors": True}, "leave reuse_actors out"),
    ],
)
def test_trials_that_cannot_be_paused_keep_their_resources(
    facts, arguments, said, ray_cluster, tmp_path, monkeypatch
):
    """The scheduler is refused, with what to do."""
    monkeypatch.chdir(tmp_path)
    objective = RayObjective(make_train(), SPACE, metric=LOSS, epochs=4, **facts)
    with pytest.raises(RunError, match=said):
        objective.tuner(2, scheduler=ResourceChangingScheduler(), **arguments)
