from __future__ import annotations

import random
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import RandomSampler
from sample_searchers import NearBestSearcher, OwnOrder, PlainSearcher

from hpometrics.backends.optuna.samplers import SeededSampler, make_sampler
from hpometrics.backends.ray import searcher_sampler
from hpometrics.backends.ray.searcher_sampler import SearcherSampler
from hpometrics.backends.registry import check_several, is_searcher, learns, searches_for_one
from hpometrics.exceptions import ConfigError

DIMENSIONS = [
    FloatDistribution(0.0, 1.0),
    FloatDistribution(1e-4, 1.0, log=True),
    FloatDistribution(0.1, 0.7, step=0.2),
    IntDistribution(1, 9),
    IntDistribution(1, 64, log=True),
    IntDistribution(16, 256, step=16),
    CategoricalDistribution([None, 0.5, "adam", True]),
]
SPACE = {f"p{number}": one for number, one in enumerate(DIMENSIONS)}


class Noting(NearBestSearcher):
    """A searcher that keeps the newest of its kind."""

    newest: Any = None

    def __init__(self, points_to_evaluate: Any = None, spread: float = 0.2) -> None:
        super().__init__(points_to_evaluate, spread)
        Noting.newest = self


def searched(sampler: Any, trials: int = 12, direction: str = "minimize", seed: int = 7) -> optuna.Study:
    """A study of a sampler; trials report three times, and every fourth is pruned after two."""
    study = optuna.create_study(sampler=make_sampler(sampler, seed), direction=direction)

    def objective(trial: optuna.Trial) -> float:
        params = {name: trial.suggest_float(name, 0, 1) for name in "xy"}
        value = (params["x"] - 0.3) ** 2 + params["y"]
        for step in range(3):
            trial.report(value + 1 - step / 2, step)
            if step == 1 and trial.number % 4 == 3:
                raise optuna.TrialPruned
        return value

    study.optimize(objective, trials)
    return study


@pytest.mark.parametrize("distribution", DIMENSIONS, ids=str)
def test_any_value_survives_the_domains_of_tune(distribution):
    """There and back, and what Tune draws is a value of the space."""
    study = optuna.create_study(sampler=RandomSampler(seed=3))
    for _ in range(20):
        value = study.ask({"p": distribution}).params["p"]
        point = searcher_sampler._to_searcher(value, distribution)
        again = searcher_sampler._from_searcher(point, distribution)
        assert again == pytest.approx(value) if isinstance(value, float) else again is value or again == value
        drawn = searcher_sampler._from_searcher(searcher_sampler._domain(distribution).sample(), distribution)
        assert distribution._contains(distribution.to_internal_repr(drawn)) and type(drawn) is type(drawn)


def test_a_searcher_draws_every_kind_of_dimension():
    """By suggestions of its own, within the space."""
    study = optuna.create_study(sampler=make_sampler(NearBestSearcher, 7))
    for number in range(8):
        trial = study.ask(SPACE)
        study.tell(trial, number)
    assert all(set(trial.params) == set(SPACE) for trial in study.trials)


def test_it_learns_each_finished_trial_again():
    """Complete ones in full, pruned ones by their last report; so it goes near the best."""
    study = searched(Noting)
    learner = Noting.newest
    assert len(learner.results) == 11 and len(learner.suggested) == 12
    for trial, (value, point, result) in zip(study.trials, learner.results, strict=False):
        pruned = trial.state.name == "PRUNED"
        assert point == trial.params
        assert value == pytest.approx(trial.intermediate_values[1] if pruned else trial.value)
        assert result["training_iteration"] == result["hyperband_info"]["budget"] == (2 if pruned else 3)
    assert study.best_value < min(trial.value for trial in study.trials[:3])


def test_it_learns_the_trials_of_all_brackets():
    """Optuna's hyperband shows a sampler those of one bracket; BOHB models all of them."""
    pruner = optuna.pruners.HyperbandPruner(min_resource=1, max_resource=9)
    study = optuna.create_study(sampler=make_sampler(Noting, 7), pruner=pruner)
    for number in range(9):
        trial = study.ask({"x": FloatDistribution(0, 1)})
        trial.report(1.0, 1)
        trial.should_prune()
        study.tell(trial, float(number))
    assert len(Noting.newest.results) == 8


def test_it_learns_in_the_direction_of_the_study():
    """A searcher that maximizes goes the other way."""
    study = searched(NearBestSearcher, direction="maximize")
    assert study.best_value > max(trial.value for trial in study.trials[:3])


def test_a_trial_that_ends_early_by_itself_counts_as_trained_in_full():
    """By patience, for example; else its number of epochs were a budget of its own, too small for a model."""
    study = optuna.create_study(sampler=make_sampler(Noting, 7))
    for epochs in (2, 5, 3, 4):
        trial = study.ask({"x": FloatDistribution(0, 1)})
        for step in range(epochs):
            trial.report(1.0, step)
        study.tell(trial, 1.0)
    assert [result["training_iteration"] for *_, result in Noting.newest.results] == [5, 5, 5]


def test_the_streams_of_the_training_are_left_alone():
    """The searcher draws from the global ones, by the seed of the search and the number of the trial."""
    drawn = []
    for start in (1, 2):
        random.seed(start), np.random.seed(start)
        before = random.getstate(), np.random.get_state()[1].tolist()
        study = searched(NearBestSearcher, 5)
        assert before == (random.getstate(), np.random.get_state()[1].tolist())
        drawn.append([trial.params for trial in study.trials])
    assert drawn[0] == drawn[1]
    assert drawn[0] != [trial.params for trial in searched(NearBestSearcher, 5, seed=8).trials]


def test_a_sampler_object_draws_by_its_own_seed():
    """With arguments of the searcher; each trial has its own stream."""
    drawn = []
    for seed in (3, 3, 4):
        sampler = SearcherSampler(NearBestSearcher, spread=0.5, seed=seed)
        study = searched(sampler, 6)
        assert study.sampler is sampler
        drawn.append([trial.params for trial in study.trials])
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    "spec", [NearBestSearcher, "sample_searchers:NearBestSearcher", {"sample_searchers:NearBestSearcher": {}}]
)
def test_a_class_of_searchers_is_a_sampler(spec):
    """By itself, or by its path with arguments."""
    sampler = make_sampler(spec, 7)
    assert isinstance(sampler, SeededSampler) and sampler.kind == "SearcherSampler"
    assert searches_for_one(sampler) and learns(sampler) and is_searcher(NearBestSearcher)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (
            lambda: make_sampler(NearBestSearcher(), 7),
            r"pass its class, sampler=NearBestSearcher, or .*Sampler\(",
        ),
        (
            lambda: SearcherSampler(NearBestSearcher()),
            "expects a class of ray.tune.search and its arguments, got <",
        ),
        (lambda: SearcherSampler(RandomSampler), "expects a class of ray.tune.search"),
        (lambda: SearcherSampler(NearBestSearcher, spred=1), "no argument 'spred'; did you mean 'spread'"),
        (
            lambda: SearcherSampler(NearBestSearcher, mode="max"),
            "mode of NearBestSearcher is set by the search",
        ),
        (lambda: make_sampler(PlainSearcher, 7), "PlainSearcher has no argument points_to_evaluate"),
        (lambda: searched(OwnOrder), "searcher OwnOrder failed.*|does not begin with its points_to_evaluate"),
        (lambda: check_several(["a", "b"], NearBestSearcher), "SearcherSampler supports one objective"),
        (lambda: make_sampler({"sample_searchers:NearBestSearcher": {"spred": 1}}), "no argument 'spred'"),
    ],
)
def test_what_cannot_be_a_sampler_is_refused(make, problem):
    """With what to write instead."""
    with pytest.raises(ConfigError, match=problem):
        make()


def test_several_objectives_are_refused_at_the_first_trial():
    """Also where a study of the user's own has the sampler."""
    study = optuna.create_study(directions=["minimize"] * 2, sampler=SearcherSampler(NearBestSearcher))
    with pytest.raises(ConfigError, match="supports one objective, but the study has 2; choose tpe"):
        study.ask({"x": FloatDistribution(0, 1)})


def test_the_first_trial_and_params_that_not_all_have_are_drawn_at_random():
    """The searcher knows those that all trials have."""
    study = optuna.create_study(sampler=make_sampler(Noting, 7))
    Noting.newest = None
    for number in range(4):
        trial = study.ask({"x": FloatDistribution(0, 1), "one": IntDistribution(3, 3)})
        if number % 2:
            trial.suggest_float("y", 0, 1)
        study.tell(trial, float(number))
        assert (Noting.newest is None) == (number == 0)
    assert set(Noting.newest.domains) == {"x"}
