from __future__ import annotations

import pickle
from threading import Thread

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.samplers import CmaEsSampler, RandomSampler, TPESampler

from hpometrics.backends.optuna.samplers import SeededSampler, is_plain, make_sampler, restart

SPACE = {name: FloatDistribution(0.0, 1.0) for name in ("a", "b")}


def optimized(sampler: optuna.samplers.BaseSampler, trials: int = 14) -> optuna.Study:
    """A study whose trials have ended, so that a sampler has something to go by."""
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: sum(trial.suggest_float(name, 0.0, 1.0) for name in SPACE), trials)
    return study


@pytest.mark.parametrize("make", [RandomSampler, TPESampler])
def test_a_restarted_sampler_draws_as_a_new_one(make):
    """By itself and with others, whatever it has drawn before; also before there is anything to go by."""
    used = make(seed=1)
    for study in (optimized(used, 2), optimized(used)):
        trial = study.trials[-1]
        for seed in (7, 8, 7):
            assert restart(used, seed)
            new = make(seed=seed)
            drawn = [one.sample_independent(study, trial, "a", SPACE["a"]) for one in (used, new)]
            drawn_again = [one.sample_independent(study, trial, "a", SPACE["a"]) for one in (used, new)]
            assert drawn[0] == drawn[1] and drawn_again[0] == drawn_again[1]


def test_a_sampler_whose_streams_are_not_known_is_left_as_it_is():
    """Of another class, of a user's own, and of a version of Optuna that keeps them elsewhere."""

    class Own(RandomSampler):
        pass

    moved = RandomSampler(seed=7)
    del moved._rng
    assert not any(restart(sampler, 7) for sampler in (CmaEsSampler(seed=7), Own(seed=7), moved))


def made(name: str, seeds: list[int]) -> SeededSampler:
    """A seeded sampler that notes each seed for which one is made."""

    def make(seed: int) -> optuna.samplers.BaseSampler:
        seeds.append(seed)
        return {"random": RandomSampler, "tpe": TPESampler}[name](seed=seed)

    return SeededSampler(make, 7)


@pytest.mark.parametrize(("name", "most"), [("random", 1), ("tpe", 15)])
def test_few_samplers_are_made(name, most):
    """One for all draws; TPE has one for each trial besides."""
    seeds: list[int] = []
    optimized(made(name, seeds))
    assert 1 <= len(seeds) <= most


@pytest.mark.parametrize("name", ["random", "tpe"])
def test_threads_draw_what_one_alone_draws(name):
    """No thread restarts the stream that another one draws from."""
    study, trials = optimized(RandomSampler(seed=7)), 40
    shared, found = make_sampler(name, 7), {}

    def draw(part: int) -> None:
        for trial in study.trials[part::4] * (trials // 14):
            found[trial.number] = shared.sample_independent(study, trial, "a", SPACE["a"])

    threads = [Thread(target=draw, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = make_sampler(name, 7)
    assert found == {t.number: alone.sample_independent(study, t, "a", SPACE["a"]) for t in study.trials}


@pytest.mark.parametrize("name", ["random", "tpe", "nsga2"])
def test_a_seeded_sampler_survives_a_pickle(name):
    """After it has drawn; what it draws then is the same."""
    study = optimized(make_sampler(name, 7))
    again = pickle.loads(pickle.dumps(study.sampler))
    trial = study.trials[3]
    drawn = [one.sample_independent(study, trial, "a", SPACE["a"]) for one in (study.sampler, again)]
    assert drawn[0] == drawn[1]


def test_only_optunas_own_samplers_are_plain():
    """Those that are seeded here too; what a user wrote may look at anything."""

    class Own(RandomSampler):
        pass

    assert is_plain(TPESampler(seed=7)) and is_plain(make_sampler("tpe", 7))
    assert not is_plain(Own(seed=7)) and not is_plain(SeededSampler(lambda seed: Own(seed=seed), 7))
