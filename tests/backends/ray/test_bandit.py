"""The params that the bandit of `pb2` chooses, beside those of Ray's own PB2; older Rays need GPy for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from warnings import catch_warnings

import numpy as np
import pytest
from ray.tune.experiment import Trial

from hpometrics.backends.ray.pbt import Bandit, History
from hpometrics.exceptions import ConfigError
from hpometrics.records.trial_record import EpochRecord, TrialRecord
from hpometrics.space.dimensions import Choice, Float, Int
from hpometrics.space.space import Space


class Learners:
    """The members of a bandit over a rate and a size, as the scheduler sees them, and what they have written.

    The loss of a member falls the faster, the nearer its rate is to 0.01.
    """

    SPACE = Space({"lr": Float(1e-4, 1.0, log=True), "size": Int(8, 64, step=8), "act": Choice(["a", "b"])})
    RATES = tuple(10 ** (place / 2 - 4) for place in range(9))

    def __init__(self, epochs: int, seed: int | None = 1) -> None:
        self.params = [
            {"lr": rate, "size": 8 * (1 + place * 5 % 8), "act": "a"} for place, rate in enumerate(self.RATES)
        ]
        self.records = {number: self.record(number, epochs) for number in range(len(self.RATES))}
        history = History("loss", lambda number: self.records[number])
        self.scheduler = Bandit(self.SPACE, seed, history=history, mutate=["lr", "size"])
        self.scheduler.set_search_properties("value", "min")
        self.members = [
            Trial("train", stub=True, config={"number": number, "params": params})
            for number, params in enumerate(self.params)
        ]
        for member in self.members:
            self.scheduler._trial_state[member] = cast("Any", SimpleNamespace(last_train_time=epochs))

    def record(self, number: int, epochs: int) -> TrialRecord:
        """What a member has written after so many epochs."""
        slope = 1 - (np.log10(self.RATES[number]) + 2) ** 2 / 8
        values = [EpochRecord(epoch, {"loss": 9 - slope * epoch}) for epoch in range(epochs)]
        return TrialRecord(number, self.params[number], epochs=tuple(values))

    def explored(self, number: int, donor: int) -> dict[str, Any]:
        """The params that a member gets for a copy of another one."""
        member = self.members[number]
        with self.scheduler._seeded(member):
            member.config = self.scheduler._get_new_config(member, self.members[donor])[0]
        params: dict[str, Any] = member.config["params"]
        return params


def by_ray(learners: Learners, chosen: Sequence[Mapping[str, float]], donor: int) -> Mapping[str, float]:
    """What Ray's own PB2 chooses for a copy of a member, from the same observations and random stream."""
    import pandas
    from ray.tune.schedulers import pb2

    columns = ["Trial", "Time", "lr", "size", "Reward"]
    rows = [
        [
            str(number),
            time,
            np.log(params["lr"]),
            float(params["size"]),
            -record.epochs[time - 1].values["loss"],
        ]
        for time in (1, 4, 8)
        for (number, record), params in zip(learners.records.items(), learners.params, strict=True)
    ]
    bounds = {"lr": (np.log(1e-4), np.log(1.0)), "size": (8.0, 64.0)}
    current = np.array([[np.log(one["lr"]), one["size"]] for one in chosen]) if chosen else None
    config = {"lr": 0.0, "size": 0.0}
    data = pandas.DataFrame(rows, columns=columns)
    base, other = (cast("Any", str(number)) for number in (donor, "other"))  # it compares their texts
    with catch_warnings(action="ignore"):
        ray_chosen, _ = pb2._explore(data, bounds, current, base, other, config)
    return ray_chosen


def test_the_bandit_chooses_as_rays_own():
    """The same point for the first and, beside it, for the second; the size on its steps afterwards.

    The search for the best point ends within a thousandth of an axis; where exactly depends on the processor.
    """
    axis = np.log(1.0 / 1e-4)
    learners, chosen = Learners(8), []
    for number in (0, 8):
        before = np.random.get_state()
        with learners.scheduler._seeded(learners.members[number]):
            theirs = by_ray(learners, chosen, donor=4)
        ours = learners.explored(number, donor=4)
        assert np.log(ours["lr"]) == pytest.approx(theirs["lr"], abs=1e-3 * axis)
        assert ours["size"] == learners.SPACE.dimensions["size"].nearest(theirs["size"])
        assert ours["act"] == "a"
        assert all(map(np.array_equal, before, np.random.get_state()))
        learners.SPACE.check(ours)
        chosen.append(ours)
    assert chosen[0] != chosen[1]


def test_the_bandit_learns_from_the_records_alone():
    """One made anew after a kill chooses alike; under another seed, or by other records, not so."""
    first = Learners(8).explored(0, donor=4)
    again = Learners(8)
    assert again.explored(0, donor=4) == first
    other = Learners(8)
    other.records = {n: replace(other.record(n % 3, 8), number=n, params=other.params[n]) for n in range(9)}
    assert other.explored(0, donor=4) != first


def test_without_an_observation_the_bandit_keeps_the_params():
    """Nothing has changed yet after one epoch, so those of the donor go on."""
    learners = Learners(1)
    assert learners.explored(0, donor=4) == learners.params[4]


def test_an_older_ray_is_refused_by_what_it_lacks(monkeypatch):
    """Its PB2 is a model of GPy, which this package does not install."""
    monkeypatch.delattr("ray.tune.schedulers.pb2.select_length")
    with pytest.raises(
        ConfigError, match=r"pb2 of Ray \S+ needs GPy too: pip install GPy, or install a newer"
    ):
        Learners(8)
