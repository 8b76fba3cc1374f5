"""Earlier searches as prior knowledge in Python: seen by the sampler alone, on Optuna and on Ray."""

from __future__ import annotations

from dataclasses import replace

import optuna
import pytest

from hpometrics import Choice, Float, Normal, OptunaObjective, Reported, Space
from hpometrics.backends.optuna.prior import PRIOR, Prior, PriorSampler, gather
from hpometrics.backends.optuna.samplers import is_plain, make_sampler
from hpometrics.backends.optuna.study import get_attribute
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import ConfigError, DirectionError, RecordError
from hpometrics.records.epoch_log import EpochLog
from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState, write_trial

SPACE = {"x": Float(0.0, 10.0), "kind": Choice(["a", "b"])}
SCORE = Reported("score", "maximize")


def train(params, run):
    """Peak at x = 3."""
    for _ in run.epochs(1):
        run.log(score=-((params["x"] - 3.0) ** 2) - (params["kind"] == "b"))


def objective(**facts) -> OptunaObjective:
    """An objective of this search."""
    return OptunaObjective(train, SPACE, metric=SCORE, seed=1, **facts)


def trial(number: int, state: TrialState = TrialState.COMPLETE, **params) -> TrialRecord:
    """A trial of one epoch, whose score is its number."""
    value = float(number) if state is not TrialState.FAILED else None
    epochs = (EpochRecord(0, {"score": float(number)}),)
    return TrialRecord(number, params, state, value=value, epoch=0, epochs=epochs)


@pytest.fixture(scope="module")
def earlier() -> optuna.Study:
    """A study of twelve trials."""
    own = objective()
    study = own.create_study()
    own.optimize(study, 12)
    return study


def test_a_study_learns_and_stays_its_own(earlier):
    """The first trial has the best params of the earlier study, the others are no random start."""
    own = objective()
    study = own.create_study(warm_start=[earlier])
    cold = own.create_study()
    for one in (study, cold):
        own.optimize(one, 5)
    assert study.trials[0].params == earlier.best_params
    assert [one.number for one in study.trials] == list(range(5))
    assert study.trials[1].params != cold.trials[1].params
    assert len(own.records(study)) == 5


def test_a_stored_study_keeps_what_it_learned(earlier, tmp_path):
    """What is attached later draws what an uninterrupted search draws, with other sources or grown ones."""
    own, drawn = objective(), []
    for name, parts in (("whole", [6]), ("parts", [3, 6])):
        storage = f"sqlite:///{tmp_path}/{name}.db"
        for total in parts:
            source = earlier if total != 6 or name == "whole" else objective().create_study()
            study = own.create_study(
                storage=storage, study_name=name, load_if_exists=True, warm_start=[source], enqueue=2
            )
            own.optimize(study, total)
        drawn.append([one.params for one in study.trials])
    assert drawn[0] == drawn[1]
    assert drawn[0][0] == earlier.best_params


def test_a_directory_is_a_source(tmp_path):
    """It has each value of each epoch, so that another metric may judge its trials."""
    own = objective(directory=tmp_path / "old")
    own.optimize(own.create_study(), 3)
    study = objective().create_study(warm_start=[tmp_path / "old"])
    assert isinstance(study.sampler, PriorSampler)
    other = OptunaObjective(train, SPACE, metric=Reported("gap", "minimize"))
    with pytest.raises(ConfigError, match="has no trial with values for gap"):
        other.create_study(warm_start=[tmp_path / "old"])


def test_trials_of_a_directory_are_in_the_order_of_their_numbers(tmp_path):
    """Beyond 9999 a number has a digit more; a sampler learns from the latest trials."""
    for number in (10000, 9999):
        write_trial(tmp_path / f"trials/{number}", replace(trial(number, x=1.0, kind="a"), epochs=()))
        log = EpochLog(tmp_path / f"trials/{number}")
        log.append(EpochRecord(0, {"score": float(number)}))
        log.close()
    study = objective().create_study(warm_start=[tmp_path])
    [prior] = get_attribute(study.user_attrs, PRIOR)
    assert [[*one["values"]] for one in prior["trials"]] == [[9999.0], [10000.0]]


def test_other_studies_are_refused(earlier):
    """Their direction and their metric must be those of the objective."""
    other = OptunaObjective(train, SPACE, metric=Reported("gap", "maximize"))
    with pytest.raises(ConfigError, match="its values are those of score, not of gap"):
        other.create_study(warm_start=[earlier])
    wrong = OptunaObjective(train, SPACE, metric=Reported("score", "minimize"))
    with pytest.raises(DirectionError, match="score must be minimized"):
        wrong.create_study(warm_start=[earlier])


def test_attached_to_a_study_of_ones_own(earlier):
    """A sampler object learns like a named one; attached again, it is wrapped once."""
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    own = objective()
    for _ in range(2):
        own.attach(study, warm_start=[earlier])
    assert isinstance(study.sampler, PriorSampler) and not isinstance(study.sampler.example, PriorSampler)
    assert is_plain(study.sampler)
    study.optimize(own, n_trials=2)
    assert study.trials[0].params == earlier.best_params


@pytest.mark.parametrize("pruner", ["hyperband", "median"])
@pytest.mark.parametrize("sampler", ["tpe", {"tpe": {"multivariate": True}}, "gp"])
def test_each_learning_sampler_sees_them(earlier, sampler, pruner):
    """Its draws are other ones than in a cold start, with a pruner that shows it a part of the study too."""
    own = objective(epochs=3)
    warm = own.create_study(sampler=sampler, pruner=pruner, warm_start=[earlier], enqueue=0)
    cold = own.create_study(sampler=sampler, pruner=pruner)
    for one in (warm, cold):
        own.optimize(one, 3)
    assert [one.params for one in warm.trials] != [one.params for one in cold.trials]


def test_what_a_sampler_sees():
    """Pruned trials have their reports, earlier ones come first, and their numbers are below 0."""
    space = Space(SPACE)
    records = [trial(0, x=1.0, kind="a"), trial(1, TrialState.PRUNED, x=2.0, kind="b")]
    prior = gather("old", records, space, {"score": MAXIMIZE})
    seen = [one.frozen(number, space) for number, one in enumerate(prior.trials, -2)]
    assert [(one.number, one.state.name, one.values) for one in seen] == [
        (-2, "COMPLETE", [0.0]),
        (-1, "PRUNED", None),
    ]
    assert seen[1].intermediate_values == {0: 1.0}
    assert Prior.from_json(prior.to_json()) == prior
    with pytest.raises(RecordError, match="cannot read the trials of an earlier search"):
        Prior.from_json({"line": "", "first": []})


def test_which_trials_enter():
    """Each that tells nothing is counted with its reason; a point that lacks a param may still be tried."""
    space = Space(SPACE)
    records = [
        trial(0, x=11.0, kind="a"),
        trial(1, TrialState.FAILED, x=1.0, kind="a"),
        trial(2, x=2.0),
        trial(3, x=1.0, kind="a", gone=1),
        trial(4, x=1.0, kind="c"),
        trial(5, TrialState.RUNNING, x=1.0, kind="a"),
        trial(6, x=1.5, kind="b"),
    ]
    prior = gather("old", records, space, {"score": MAXIMIZE}, enqueue=3)
    assert prior.line.startswith(
        "3 of 6 trials of old, 1 left out: x must lie in [0.0, 10.0], 1 left out: failed"
    )
    assert prior.line.endswith(
        "learns from 1; 2 do not have the params of this space; tried first: trial 6, trial 3, trial 2"
    )
    assert list(prior.first) == [{"x": 1.5, "kind": "b"}, {"x": 1.0, "kind": "a"}, {"x": 2.0}]
    fixed = gather("old", records, space, {"score": MAXIMIZE}, fixed=("gone",))
    assert "learns from 2" in fixed.line


def test_several_objectives_and_drawn_dimensions():
    """The front is tried first, pruned trials tell nothing; a normal dimension is stored as its draw."""
    space = Space({"x": Normal(0.0, 1.0)})
    optimized = {"score": MAXIMIZE, "cost": MINIMIZE}
    records = [
        TrialRecord(n, {"x": x}, TrialState.COMPLETE, s, 0, (EpochRecord(0, {"score": s, "cost": c}),))
        for n, (x, s, c) in enumerate([(0.1, 1.0, 1.0), (0.2, 0.5, 2.0), (0.3, 2.0, 3.0)])
    ]
    prior = gather("old", [*records, trial(3, TrialState.PRUNED, x=0.0)], space, optimized, enqueue=5)
    assert [one.values for one in prior.trials] == [(1.0, 1.0), (0.5, 2.0), (2.0, 3.0)]
    assert prior.line.endswith("1 left out: pruned; the sampler learns from 3; tried first: trial 2, trial 0")
    assert space.decode(prior.first[0]) == {"x": pytest.approx(0.3)}


def test_a_sampler_that_learns_nothing(earlier):
    """Random draws stay as they are, and the best params are tried first all the same."""
    study = objective().create_study(sampler="random", warm_start=[earlier])
    assert type(study.sampler) is type(make_sampler("random", 1))
    assert study.trials[0].system_attrs["fixed_params"] == earlier.best_params


@pytest.mark.ray
def test_a_tuner_learns_the_same(earlier, ray_cluster, tmp_path):
    """The study of a tuner draws what that of Optuna draws."""
    from hpometrics import RayObjective

    def train_there(params, run):  # Ray's workers do not find this file
        for _ in run.epochs(1):
            run.log(score=-((params["x"] - 3.0) ** 2) - (params["kind"] == "b"))

    own = objective()
    study = own.create_study(warm_start=[earlier])
    own.optimize(study, 4)
    rays = RayObjective(train_there, SPACE, metric=SCORE, seed=1, directory=tmp_path)
    results = rays.tuner(4, warm_start=[earlier], max_concurrent=1).fit()
    assert not results.errors
    assert [one.params for one in rays.study.trials] == [one.params for one in study.trials]
