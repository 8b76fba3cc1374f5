from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from ray.tune.experiment import Trial

from hpometrics.backends.optuna.trial_queue import claim, reserve
from hpometrics.backends.ray._internals import next_perturbation
from hpometrics.backends.ray.pbt import Population, observations
from hpometrics.backends.ray.schedulers import make_scheduler
from hpometrics.backends.ray.searcher import StudySearcher
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import ConfigError, MissingExtraError
from hpometrics.records.trial_record import EpochRecord, Exploit, TrialRecord, TrialState, write_trial
from hpometrics.space.dimensions import Choice, Float, Int
from hpometrics.space.draws import mutations
from hpometrics.space.space import Space, mutable

SPACE = Space(
    {
        "lr": Float(1e-3, 1e-1, log=True),
        "batch": Int(8, 64, step=8),
        "augment": Choice(["none", "flip", "crop"]),
        "optimizer": Choice(["sgd", "adam"]),
        "momentum": Float(0.0, 0.9, when={"optimizer": "sgd"}),
        "model": Choice({"small": {"depth": 2}, "large": {"depth": 6}}),
        "epochs": 5,
    }
)
NAMES = ["lr", "batch", "augment"]


class Member:
    """What a scheduler looks at in a trial of Ray."""

    def __init__(self, number: int, params: dict[str, Any]) -> None:
        self.config = {"number": number, "params": params}
        self.last_train_time = 3


class Members:
    """A population of trials as its scheduler sees them, each after its third epoch."""

    def __init__(self, seed: int | None, **options: Any) -> None:
        self.scheduler = Population(SPACE, seed, mutate=NAMES, **options)
        self.trials: list[Any] = []
        for number, lr in enumerate([0.1, 0.001]):
            params = {"lr": lr, "batch": 64, "augment": "flip", "optimizer": "adam", "depth": 2, "epochs": 5}
            self.trials.append(Member(number, params))
            self.scheduler._trial_state[self.trials[number]] = self.trials[number]

    def explored(self) -> dict[str, Any]:
        """The config that the second gets from the first."""
        with self.scheduler._seeded(self.trials[1]):
            return self.scheduler._get_new_config(self.trials[1], self.trials[0])[0]


def test_what_is_explored_stays_in_the_space():
    """Whatever is drawn, the changed params are params of the space, and the others are the donor's."""
    seen = set()
    for seed in range(60):
        config = Members(seed, perturbation_factors=(0.3, 4.0)).explored()
        SPACE.check(config["params"])
        seen.add((config["params"]["lr"], config["params"]["batch"], config["params"]["augment"]))
        assert {name: config["params"][name] for name in ("optimizer", "depth", "epochs")} == {
            "optimizer": "adam",
            "depth": 2,
            "epochs": 5,
        }
    assert len(seen) > 20


def test_a_trial_keeps_its_number_and_what_it_was_given():
    """Ray gives the donor's whole config; number and first params stay the trial's own, a second time too."""
    members = Members(1)
    own = dict(members.trials[1].config["params"])
    config = members.explored()
    assert {key: config[key] for key in ("number", "given", "donor", "since")} == {
        "number": 1,
        "given": own,
        "donor": 0,
        "since": 3,
    }
    members.trials[1].config = config
    assert members.explored()["given"] == own


def test_a_seed_fixes_what_is_explored_and_leaves_the_stream_alone():
    """Two searches of one seed change alike; python's own stream goes on where it was."""
    random.seed(0)
    first = random.random()
    random.seed(0)
    assert Members(7).explored() == Members(7).explored()
    assert random.random() == first
    assert {str(Members(seed).explored()["params"]) for seed in range(9)} != {
        str(Members(7).explored()["params"])
    }


def test_a_trial_that_goes_on_meets_the_others_at_a_whole_interval():
    """Only there its state is handed on: the eighth epoch is none of them, the ninth is."""
    scheduler = Population(SPACE, mutate=NAMES, perturbation_interval=3)
    scheduler.set_search_properties("value", "min")
    trials = [Trial("train", stub=True, config={"number": n, "params": {}}) for n in range(2)]
    controller = SimpleNamespace(get_live_trials=lambda: trials)
    for trial in trials:
        scheduler.on_trial_add(controller, trial)
    told = [
        scheduler.on_trial_result(controller, trials[0], {"epochs": epoch, "value": 0.5}) for epoch in (8, 9)
    ]
    assert told == [Population.CONTINUE, Population.PAUSE]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("lr", r"mutate must list the params that change during training, as in \[lr\], got 'lr'"),
        ([], "mutate must list the params"),
        (None, "mutate must list the params"),
        (["lrr"], "mutate: there is no param 'lrr'; did you mean 'lr'"),
        (["depth"], "mutate: there is no param 'depth'; there are lr, batch"),
        (["epochs"], "mutate: epochs is a constant, which cannot change"),
        (["model"], "mutate: model is a bundle, which cannot change"),
        (["momentum"], "mutate: momentum depends on a condition"),
        (["optimizer"], "mutate: optimizer depends on a condition, or others depend on it"),
    ],
)
def test_a_param_that_cannot_change_is_refused(names, said):
    """By its name, with the reason."""
    with pytest.raises(ConfigError, match=said):
        mutable(SPACE, names)


@pytest.mark.parametrize("name", ["lr", "batch"])
def test_draws_are_of_the_dimension(name):
    """A number is drawn within its bounds and on its steps."""
    draw = mutations(mutable(SPACE, [name])[name])
    assert callable(draw)
    values = [draw() for _ in range(200)]
    assert [SPACE.dimensions[name].take(value) for value in values] == values
    assert len(set(values)) > 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"mutate": ["lr"], "perturbation_interval": 0},
            "perturbation_interval must be at least 1 epoch, got 0",
        ),
        ({"mutate": ["lr"], "quantile_fraction": 0.7}, "between 0 and"),
        (
            {"mutate": ["lr"], "perturb_interval": 3},
            "has no argument 'perturb_interval'; did you mean 'perturbation_interval'",
        ),
        ({}, "mutate must list the params"),
    ],
)
def test_options_that_make_no_population_are_refused(options, said):
    """Before the first trial, by name."""
    with pytest.raises(ConfigError, match=said):
        make_scheduler({"pbt": options}, MAXIMIZE, 8, SPACE)


def test_a_population_of_rays_own_is_refused():
    """It would change params behind the record's back."""
    from ray.tune.schedulers import PopulationBasedTraining

    theirs = PopulationBasedTraining(hyperparam_mutations={"lr": [0.1, 0.2]})
    with pytest.raises(
        ConfigError, match="your own PopulationBasedTraining would change recorded params; use"
    ):
        make_scheduler(theirs, MAXIMIZE)


def test_a_record_knows_the_params_in_force():
    """Before the first exploit those that were given, then those of each; and reads back what it wrote."""
    exploits = (Exploit(2, 5, {"lr": 0.2}), Exploit(4, 1, {"lr": 0.4}))
    epochs = tuple(EpochRecord(epoch, {"loss": 1.0}) for epoch in range(6))
    record = TrialRecord(3, {"lr": 0.4}, epochs=epochs, first_params={"lr": 0.1}, exploits=exploits)
    told = [record.params_at(epoch)["lr"] for epoch in (0, 1, 2, 3, 4, 5, None)]
    assert told == [0.1, 0.1, 0.2, 0.2, 0.4, 0.4, 0.4]
    assert record.given == {"lr": 0.1}
    assert TrialRecord(3, {"lr": 0.3}).given == {"lr": 0.3}
    assert TrialRecord.from_json(record.to_json(), epochs) == record


def test_a_trial_that_goes_on_is_given_the_params_in_force(tmp_path):
    """Whoever exploits it takes them from its config, with its state; the study has the first ones."""
    space = Space({"lr": Float(0.0, 1.0)})
    study = optuna.create_study(direction="minimize")
    reserve(study, 1, [{"lr": 0.1}])
    space.suggest(claim(study))
    record = TrialRecord(0, {"lr": 0.4}, TrialState.INTERRUPTED, first_params={"lr": 0.1})
    write_trial(tmp_path, replace(record, exploits=(Exploit(2, 5, {"lr": 0.4}),)))
    searcher = StudySearcher(
        study, space, {"loss": MINIMIZE}, directory_of=lambda _: tmp_path, take=lambda _: True
    )
    assert searcher.suggest("a") == {"number": 0, "params": {"lr": 0.4}, "given": {"lr": 0.1}}


def test_observations_begin_at_the_value_of_the_donor():
    """After an exploit the change is that of the copied state; before the first epoch no value is known."""
    values = {0: [8.0, 6.0, 5.0, 4.5], 1: [9.0, 9.0, 4.0, float("nan")]}
    records = [
        TrialRecord(
            number,
            {"lr": 0.1 * (number + 1)},
            epochs=tuple(EpochRecord(epoch, {"loss": loss}) for epoch, loss in enumerate(losses)),
            first_params={"lr": 0.2} if number else None,
            exploits=(Exploit(2, 0, {"lr": 0.3}), Exploit(3, 0, {"lr": 0.4})) if number else (),
        )
        for number, losses in values.items()
    ]
    by_two = observations(records[::-1], "loss", MINIMIZE, interval=2, epochs=4)
    assert [(one.number, one.epoch, one.before, one.change, dict(one.params)) for one in by_two] == [
        (0, 2, -8.0, 2.0, {"lr": 0.1}),
        (1, 2, -9.0, 0.0, {"lr": 0.2}),
        (0, 4, -6.0, 0.75, {"lr": 0.1}),
    ]
    by_one = observations(records, "loss", MAXIMIZE, interval=1, epochs=3)
    assert [(one.number, one.epoch, one.before, one.change) for one in by_one] == [
        (0, 2, 8.0, -2.0),
        (1, 2, 9.0, 0.0),
        (0, 3, 6.0, -1.0),
        (1, 3, 6.0, -2.0),
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"mutate": ["lr", "augment"]},
            "pb2 supports only numbers, but augment is a choice; leave it out of mutate",
        ),
        ({"mutate": ["lr"], "resample_probability": 0.5}, "has no argument 'resample_probability'"),
        ({"mutate": ["lr"], "history": None}, "has no argument 'history'"),
        ({}, "mutate must list the params"),
    ],
)
def test_options_that_make_no_bandit_are_refused(options, said):
    """Before the first trial, by name."""
    with pytest.raises(ConfigError, match=said):
        make_scheduler({"pb2": options}, MAXIMIZE, 8, SPACE)


def test_a_bandit_without_scikit_learn_is_refused(monkeypatch):
    """With the line that installs it."""
    monkeypatch.setattr("hpometrics.backends.registry._is_installed", lambda name: False)
    with pytest.raises(MissingExtraError, match="'pb2' needs sklearn, which is not installed: pip install"):
        make_scheduler({"pb2": {"mutate": ["lr"]}}, MAXIMIZE, 8, SPACE)


def test_a_population_that_is_resumed_does_not_wait_for_an_exploit_of_the_past():
    """All members continue after their fifth epoch; after the sixth they wait, and then they go on."""
    scheduler = Population(SPACE, mutate=NAMES, perturbation_interval=2)
    scheduler.set_search_properties("value", "min")
    trials = [Trial("train", stub=True, config={"number": n, "params": {}}) for n in range(2)]
    controller: Any = SimpleNamespace(get_live_trials=lambda: trials, get_trials=lambda: trials)
    controller._schedule_trial_save = lambda trial, result: None  # so that none exploits another
    for trial in trials:
        scheduler.on_trial_add(controller, trial)
    for epoch in (5, 6):
        for trial in trials:
            scheduler.on_trial_result(controller, trial, {"epochs": epoch, "value": 0.5})
    assert scheduler.choose_trial_to_run(controller) in trials


def test_a_member_that_is_resumed_behind_the_others_meets_them_at_a_whole_interval():
    """It has five epochs and the other six; both wait after the eighth, none after the seventh."""
    scheduler = Population(SPACE, mutate=NAMES, perturbation_interval=2)
    scheduler.set_search_properties("value", "min")
    trials = [Trial("train", stub=True, config={"number": n, "params": {}}) for n in range(2)]
    controller: Any = SimpleNamespace(get_live_trials=lambda: trials, get_trials=lambda: trials)
    controller._schedule_trial_save = lambda trial, result: None
    for trial in trials:
        scheduler.on_trial_add(controller, trial)
    decisions = [
        scheduler.on_trial_result(controller, trials[number], {"epochs": epoch, "value": 0.5})
        for number, epoch in ((0, 6), (1, 7), (1, 8), (0, 7), (0, 8))
    ]
    go_on, wait = Population.CONTINUE, Population.PAUSE
    assert decisions == [wait, go_on, wait, go_on, wait]
    assert next_perturbation(scheduler) == 10
