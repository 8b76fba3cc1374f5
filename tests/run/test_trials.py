from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
import torch

from hpometrics.backends.objective import ListObjective
from hpometrics.backends.optuna.objective import OptunaObjective
from hpometrics.exceptions import RecordError
from hpometrics.metrics.features import Binary
from hpometrics.records.epoch_log import read_trial
from hpometrics.records.trial_record import TrialRecord, TrialState, deviation, mean, write_trial
from hpometrics.run import Reported, RunSpec
from hpometrics.run.reporter import ListReporter
from hpometrics.run.trials import Trials
from hpometrics.space.dimensions import Float
from hpometrics.space.draws import derive_seed

LOSS = Reported("loss", "minimize")
Train = Callable[..., None]


def noisy(params: dict[str, Any], run: Any) -> None:
    """Three epochs whose loss is drawn."""
    for _ in run.epochs(3):
        run.log(loss=params["x"] + torch.rand(()).item())


def troubled(trouble: dict[int, str], calls: list[int] | None = None) -> Train:
    """The same, but the call of a number raises in its second epoch, or is interrupted, or diverges."""
    calls = [] if calls is None else calls

    def train(params: dict[str, Any], run: Any) -> None:
        calls.append(len(calls))
        kind = trouble.get(calls[-1])
        for epoch in run.epochs(3):
            if kind == "fails" and epoch == 1:
                raise ValueError("out of luck")
            if kind == "stops" and epoch == 1:
                raise KeyboardInterrupt
            loss = params["x"] + torch.rand(()).item()
            run.log(loss=float("nan") if kind == "diverges" else loss)

    return train


def one(train: Train, directory: Path | None = None, **facts: Any) -> TrialRecord:
    """The record of a single trial with seed 5."""
    return ListObjective(train, [{"x": 1.0}], metric=LOSS, seed=5, directory=directory, **facts).run()[0]


def test_repeats_have_seeds_of_their_own_and_a_mean(tmp_path):
    """Each is what a run under its seed is; the trial is their mean, kept in its directory and below it."""
    trial = one(noisy, tmp_path, repeats=3)
    seeds = [derive_seed(5, 0, repeat) for repeat in range(3)]
    assert [repeat.seed for repeat in trial.repeats] == seeds
    assert len({repeat.value for repeat in trial.repeats}) == 3
    assert trial.value == pytest.approx(sum(repeat.value for repeat in trial.repeats) / 3, abs=1e-15)
    home = tmp_path / "trials" / "0000"
    assert read_trial(home) == trial
    for number in (1, 2):
        part = read_trial(home / "repeats" / str(number))
        assert part is not None and (part.seed, part.value) == (seeds[number], trial.repeats[number].value)
    assert len((home / "epochs.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize("host", ["list", "optuna"])
def test_an_engine_knows_the_seed_of_its_run(host):
    """That of the record; without a seed of the search there is none, and nothing is seeded."""
    seen: list[int | None] = []

    def train(params: dict[str, Any], run: Any) -> None:
        seen.append(run.seed)
        noisy(params, run)

    for seed in (5, None):
        if host == "list":
            ListObjective(train, [{"x": 1.0}], metric=LOSS, seed=seed, repeats=2).run()
        else:
            objective = OptunaObjective(train, {"x": Float(0, 1)}, metric=LOSS, seed=seed, repeats=2)
            objective.create_study().optimize(objective, n_trials=1)
    assert seen == [derive_seed(5, 0), derive_seed(5, 0, 1), None, None]


def test_repeats_that_agree_have_their_value_as_mean():
    """Three times 0.95 is 0.95 and keeps `>= 0.95`: no rounding takes a trial for infeasible."""
    assert mean([0.95] * 3) == 0.95
    assert deviation([0.6916605436801909] * 3) == deviation([0.1] * 3) == 0.0


def test_the_same_seed_repeats_the_repeats():
    """Also where nothing is saved."""
    assert one(noisy, repeats=3).repeats[0].value == one(noisy).value
    values = [[repeat.value for repeat in one(noisy, repeats=3).repeats] for _ in range(2)]
    assert values[0] == values[1]


def test_a_failed_trial_is_tried_again_under_its_seed(tmp_path):
    """The second attempt has the values that the first would have had; the record knows both."""
    trial = one(troubled({0: "fails"}), tmp_path, retries=1)
    assert (trial.state, trial.value, trial.seed) == (
        TrialState.COMPLETE,
        one(noisy).value,
        derive_seed(5, 0),
    )
    assert trial.failed_attempts == ("ValueError: out of luck",)
    assert [epoch.attempt for epoch in trial.epochs] == [2, 2, 2]
    assert "out of luck" in (tmp_path / "trials" / "0000" / "error.txt").read_text()
    assert read_trial(tmp_path / "trials" / "0000") == trial


@pytest.mark.parametrize("kind", ["fails", "diverges"])
def test_a_trial_has_failed_after_its_last_retry(kind):
    """Three runs for two retries; a run without a finite value is a failure like any other."""
    calls: list[int] = []
    trial = one(troubled(dict.fromkeys(range(9), kind), calls), retries=2)
    assert (trial.state, len(trial.failed_attempts), len(calls)) == (TrialState.FAILED, 2, 3)


def test_a_retry_goes_on_from_its_checkpoint(tmp_path):
    """It fails once in epoch 2, and the second attempt begins there."""
    begun = []

    def train(params, run):
        model = torch.nn.Linear(1, 1)
        begun.append(run.restore(model=model))
        for epoch in run.epochs(4):
            if epoch == 2 and len(begun) == 1:
                raise OSError("the disk was away")
            run.log(loss=params["x"])
            run.checkpoint(model=model)

    trial = one(train, tmp_path, retries=1)
    assert (begun, [epoch.attempt for epoch in trial.epochs]) == ([0, 2], [1, 1, 2, 2])


def test_a_trial_that_goes_on_remembers_its_repeats_and_retries(tmp_path):
    """Interrupted in its second repeat after a retry: the first repeat stands, and no retry is left."""
    calls: list[int] = []
    train = troubled({0: "fails", 2: "stops", 3: "fails"}, calls)
    with pytest.raises(KeyboardInterrupt):
        one(train, tmp_path, repeats=3, retries=1)
    home = tmp_path / "trials" / "0000"
    stopped = read_trial(home)
    assert stopped is not None and stopped.state is TrialState.INTERRUPTED
    assert (len(stopped.repeats), len(stopped.failed_attempts)) == (1, 1)
    again = one(train, tmp_path, repeats=3, retries=1)
    assert len(calls) == 4  # the fourth is the second repeat once more; it fails, and that was the last
    assert (again.state, again.reason) == (
        TrialState.FAILED,
        f"repeat 1 (seed {derive_seed(5, 0, 1)}): ValueError: out of luck",
    )
    assert again.repeats == stopped.repeats


def test_a_trial_that_is_killed_twice_keeps_the_time_before(tmp_path):
    """While it runs, its record has the seconds of the attempts before this one; they count in the end."""
    with pytest.raises(KeyboardInterrupt):
        one(troubled({0: "stops"}), tmp_path)
    home = tmp_path / "trials" / "0000"
    stopped = read_trial(home)
    assert stopped is not None
    write_trial(home, replace(stopped, seconds=100.0))
    seen: list[TrialRecord | None] = []

    def train(params: dict[str, Any], run: Any) -> None:
        seen.append(read_trial(home))
        noisy(params, run)

    assert one(train, tmp_path).seconds > 100.0
    assert [record and (record.state, record.seconds) for record in seen] == [(TrialState.RUNNING, 100.0)]


class Empty:
    """Something to checkpoint that has no state."""

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_epochs_of_a_later_repeat_cost_once(tmp_path, error):
    """The second of two repeats ends in its third epoch and goes on after its second: eight epochs in all."""
    calls: list[int] = []

    def train(params: dict[str, Any], run: Any) -> None:
        run.restore(state=Empty())
        calls.append(len(calls))
        for epoch in run.epochs(4):
            if calls[-1] == 1 and epoch == 2:
                raise error
            run.log(loss=0.5, tokens=10)
            run.checkpoint(state=Empty())

    spec = RunSpec(LOSS, cost_unit={"logged": "tokens"})
    trials = Trials(train, spec, tmp_path, seed=5, repeats=2, retries=1)
    record, _ = trials.run({}, ListReporter(0, {}))
    if error is KeyboardInterrupt:
        assert (record.state, record.cost) == (TrialState.INTERRUPTED, 60)
        record, _ = trials.run({}, ListReporter(0, {}))
    assert (record.state, record.cost) == (TrialState.COMPLETE, 80)


def test_a_trial_with_other_params_does_not_go_on(tmp_path):
    """Its repeats would be of two trials."""
    with pytest.raises(KeyboardInterrupt):
        one(troubled({1: "stops"}), tmp_path, repeats=2)
    other = ListObjective(noisy, [{"x": 2.0}], metric=LOSS, directory=tmp_path, repeats=2)
    with pytest.raises(RecordError, match=r"is the trial with \{'x': 1.0\}, not \{'x': 2.0\}"):
        other.run()


def searched(train: Train, pruner: Any = None, trials: int = 4, **facts: Any) -> list[TrialRecord]:
    """The trials of a study whose points are drawn with seed 5."""
    objective = OptunaObjective(train, {"x": Float(0, 1)}, metric=LOSS, seed=5, epochs=3, **facts)
    study = objective.create_study(sampler="random", pruner=pruner)
    study.optimize(objective, n_trials=trials)
    assert [trial.value for trial in study.trials] == [r.value for r in objective.records(study)]
    assert objective.best(study).value == study.best_value
    return objective.records(study)


def told(record: TrialRecord) -> tuple[Any, ...]:
    """What a trial with repeats came to."""
    runs = [(repeat.seed, repeat.value, repeat.epoch, repeat.values) for repeat in record.repeats]
    return record.state, record.value, record.deviation, record.picked_values, runs


def test_a_study_is_told_the_mean():
    """As a list of the same params has it, with deviation and seeds read back from the study."""
    records = searched(noisy, repeats=2)
    params = [dict(record.params) for record in records]
    listed = ListObjective(noisy, params, metric=LOSS, seed=5, repeats=2).run()
    assert [told(record) for record in records] == [told(record) for record in listed]


def test_a_retry_tells_a_study_each_epoch_once():
    """Optuna warns of an epoch that is told twice, which is an error here; no trial of the budget is lost."""
    records = searched(troubled({1: "fails"}), retries=1)
    assert [record.state for record in records] == [TrialState.COMPLETE] * 4
    assert [len(record.failed_attempts) for record in records] == [0, 1, 0, 0]


def test_a_pruner_judges_the_first_repeat_alone():
    """It sees three epochs of each trial, and one that it stops has no other repeat."""
    calls: list[int] = []

    class Third(optuna.pruners.BasePruner):
        """Stops the third trial after its first epoch."""

        def prune(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> bool:
            assert set(trial.intermediate_values) <= {0, 1}  # the last epoch is told when all is over
            return trial.number == 2

    records = searched(troubled({}, calls), Third(), repeats=2)
    states = [record.state for record in records]
    assert states == [TrialState.COMPLETE, TrialState.COMPLETE, TrialState.PRUNED, TrialState.COMPLETE]
    assert [len(record.repeats) for record in records] == [2, 2, 0, 2]
    assert len(calls) == 7


def test_a_last_epoch_without_a_batch_is_not_reported_as_nan():
    """A host tells it from an epoch whose value is undefined by the missing name, with repeats, too."""

    def train(params: dict[str, Any], run: Any) -> None:
        for epoch in run.epochs(2):
            if not epoch:
                run.update(probabilities=[0.9, 0.2], target=[1, 0])

    spec = RunSpec("accuracy", output=Binary(), defaults=False)
    for repeats in (1, 2):
        host = ListReporter(0, {})
        Trials(train, spec, repeats=repeats).run({}, host)
        assert [one.values.keys() for one in host.reports] == [{"accuracy"}, set()]


def test_the_host_hears_of_the_last_epoch_when_all_repeats_are_over():
    """Until then its trial is not over; the value that it is told there is the mean."""
    heard = []

    class Host(ListReporter):
        def report(self, epoch, value, picked, values, final):
            heard.append((epoch, picked, final, len(calls)))

    calls: list[int] = []
    trials = Trials(troubled({}, calls), RunSpec(LOSS), seed=5, repeats=3)
    trial, _ = trials.run({"x": 1.0}, Host(0, {"x": 1.0}))
    assert [(epoch, final, runs) for epoch, _, final, runs in heard] == [
        (0, False, 1), (1, False, 1), (2, True, 3),
    ]  # fmt: skip
    assert heard[-1][1] == trial.value
