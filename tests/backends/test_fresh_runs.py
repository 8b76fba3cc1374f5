"""Contenders trained again: shared seeds, resumption, failures, and the same decision wherever they run."""

from __future__ import annotations

import json
import logging
import random
import signal
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import optuna
import pytest
import torch
from forked import Forked
from optuna.storages import InMemoryStorage

from hpometrics import MAXIMIZE, MINIMIZE, Binary, ListObjective, OptunaObjective
from hpometrics.backends.fresh_runs import FreshRuns, read_plans
from hpometrics.backends.optuna.fresh_study import FreshStudy, key_of
from hpometrics.exceptions import ConfigError, NoFiniteValueError, RecordError
from hpometrics.records.epoch_log import read_trial
from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState
from hpometrics.run import Reported
from hpometrics.selection.confirm_settings import ConfirmSettings
from hpometrics.selection.confirmation import (
    CONFIRM,
    CONFIRM_FILE,
    Confirmation,
    ConfirmationPlan,
    ConfirmationRecord,
    Contender,
    FreshRun,
)
from hpometrics.selection.confirmation_plan import plan_for
from hpometrics.selection.intervals import Scale
from hpometrics.space.dimensions import Choice, Float
from hpometrics.space.draws import derive_seed
from hpometrics.space.space import Space

SCORE = Reported("score", MAXIMIZE)
QUALITY = {"a": 0.90, "b": 0.905, "c": 0.91, "d": 0.5}
POINTS = [{"kind": kind} for kind in QUALITY]


def noisy(params, run):
    """A score with the luck of the seed, the same luck for every kind."""
    for _ in run.epochs(3):
        run.log(score=QUALITY[params["kind"]] + random.gauss(0, 0.004 if params["kind"] != "b" else 0.01))


def objective_of(train=noisy, points=POINTS, **facts):
    """A list of four params."""
    return ListObjective(train, points, **{"metric": SCORE, "seed": 3, **facts})


@pytest.mark.parametrize("on_disk", [True, False], ids=["disk", "memory"])
def test_the_contenders_are_trained_under_shared_seeds(tmp_path, on_disk):
    """Three of the four, each under the first seeds of the search's own series."""
    seeds = []

    def train(params, run):
        seeds.append((params["kind"], random.getstate()[1][0], run.seed))
        noisy(params, run)

    objective = objective_of(train, directory=tmp_path if on_disk else None)
    records = objective.run()
    seeds.clear()
    settled = objective.confirm(records, top=3, repeats=6)
    drawn = {kind: [seed for name, seed, _ in seeds if name == kind] for kind in "abc"}
    assert {kind for kind, *_ in seeds} == set("abc")
    assert drawn["a"] == drawn["b"][: len(drawn["a"])]
    assert len(seeds) == settled.confirmation.trainings
    expected = [derive_seed(3, number, 0, "confirm") for number in (1, 2, 3)]
    assert [seed for name, _, seed in seeds if name == "a"][:3] == expected
    if on_disk:
        fresh = [read_trial(tmp_path / "trials" / "0002" / CONFIRM / str(number)) for number in (1, 2, 3)]
        assert [record.seed for record in fresh] == expected


def test_the_winner_has_the_mean_of_its_fresh_runs(tmp_path):
    """With their deviation and number; the search's value is beside it."""
    objective = objective_of(directory=tmp_path)
    settled = objective.confirm(objective.run(), top=3, repeats=5)
    winner, *others = settled.contenders
    assert settled.best.trial == winner.trial == settled.confirmation.winner
    assert (settled.best.value, settled.best.deviation, settled.best.repeats) == (
        winner.mean,
        winner.deviation,
        winner.seeds,
    )
    runs = [
        read_trial(tmp_path / f"trials/{winner.trial:04}/{CONFIRM}/{n}") for n in range(1, winner.seeds + 1)
    ]
    (median,) = [run for run in runs if run.value == sorted(winner.values)[(len(runs) - 1) // 2]]
    assert (settled.best.epoch, settled.best.seed) == (median.epoch, median.seed)
    assert settled.best.values == {"score": winner.mean}
    assert settled.honest.mean == pytest.approx(winner.mean)
    assert {one.trial for one in (winner, *others)} == {0, 1, 2}
    words = {"decided": "decided", "tied": "practically tied", "spent": "not decided"}
    assert str(settled).startswith(f"Winner: trial {winner.trial}, {words[settled.state]}")
    assert f"kind={settled.best.params['kind']}" in str(settled)


def test_what_is_trained_is_not_trained_again(tmp_path):
    """Asked again it answers from the directory; with more repeats it goes on."""
    trained = []

    def train(params, run):
        trained.append(params["kind"])
        noisy(params, run)

    objective = objective_of(train, directory=tmp_path)
    records = objective.run()
    settled = objective.confirm(records, top=3, repeats=5, equivalence=0)
    count = len(trained)
    again = objective_of(train, directory=tmp_path).confirm(records, top=3, repeats=5, equivalence=0)
    assert again == settled and len(trained) == count
    more = objective_of(train, directory=tmp_path).confirm(records, top=4, repeats=5, equivalence=0)
    assert trained[count:].count("d") >= 3  # it joins, and catches up
    assert [len(plan.contenders) for plan in read_plans(tmp_path / CONFIRM_FILE)] == [3, 4]
    assert more.confirmation.extended == 1


def test_a_plan_without_a_look_is_replaced(tmp_path):
    """Stopped in its first block, a confirmation is made smaller; what is trained is used."""
    objective = objective_of(directory=tmp_path)
    records = objective.run()
    runs = FreshRuns(objective.trials, records, ConfirmSettings(3, 40))
    runs.begin()
    for number in (1, 2):
        runs.training(2, number).run(objective.trials)
    settled = objective.confirm(records, top=3, repeats=4, equivalence=0)
    assert [plan.settings.repeats for plan in read_plans(tmp_path / CONFIRM_FILE)] == [4]
    fresh = objective_of()
    expected = fresh.confirm(fresh.run(), top=3, repeats=4, equivalence=0)
    assert timeless(settled) == timeless(expected) and settled.confirmation.planned == 12
    FreshRuns(objective.trials, records, ConfirmSettings(3, 40, equivalence=0)).begin()
    more = FreshRuns(objective.trials, records, ConfirmSettings(3, 5, equivalence=0))
    assert more.planned == 15  # a look was made under the first plan, none under the second


def test_a_front_without_a_look_takes_the_smaller_plan(tmp_path):
    """It is trained under as many seeds as the last settings say."""
    facts = {"metric": [SCORE, Reported("ms", MINIMIZE)], "seed": 3}
    objective = objective_of(costly, directory=tmp_path, **facts)
    records = objective.run()
    FreshRuns(objective.trials, records, ConfirmSettings(3, 40)).begin()
    assert objective.confirm_front(records, top=3, repeats=3).trainings == 9


def test_optuna_and_a_list_decide_alike(tmp_path):
    """The same params under the same seeds give the same end."""
    listed = objective_of()
    expected = listed.confirm(listed.run(), top=3, repeats=5)
    objective = OptunaObjective(
        noisy, {"kind": Choice(list(QUALITY))}, metric=SCORE, seed=3, directory=tmp_path
    )
    study = objective.create_study(sampler=optuna.samplers.GridSampler({"kind": list(QUALITY)}, seed=0))
    study.optimize(objective, n_trials=4)
    settled = objective.confirm(study, top=3, repeats=5)
    kinds = {record.number: record.params["kind"] for record in objective.records(study)}
    fates = [(kinds[one.trial], one.mean, one.left_at) for one in settled.contenders]
    assert fates == [(POINTS[one.trial]["kind"], one.mean, one.left_at) for one in expected.contenders]
    assert settled.state == expected.state
    shown = optuna.load_study(study_name=f"{study.study_name}:confirm", storage=study._storage)
    counts = Counter(one.user_attrs["hpometrics:confirms"] for one in shown.trials)
    assert counts == {one.trial: one.seeds for one in settled.contenders}
    assert sum(counts.values()) == settled.confirmation.trainings


def test_a_study_that_cannot_show_the_runs_costs_none_of_them(monkeypatch):
    """That of an earlier search whose study was deleted, in the other direction."""
    notes = []
    monkeypatch.setattr(logging.getLogger("hpometrics"), "handle", lambda one: notes.append(one.getMessage()))
    objective = OptunaObjective(noisy, {"kind": Choice(list(QUALITY))}, metric=SCORE, seed=3)
    study = objective.create_study(study_name="s", storage=InMemoryStorage())
    optuna.create_study(study_name="s:confirm", storage=study._storage, direction="minimize")
    for point in POINTS:
        study.enqueue_trial(point)
    objective.optimize(study, 4)
    settled = objective.confirm(study, top=2, repeats=3)
    assert settled.confirmation.trainings >= 2
    [note] = notes
    assert note.startswith("the study 's:confirm' lacks the trainings of the confirmation: score must be")


def test_a_run_that_is_shown_leaves_those_that_wait():
    """Of a study that other processes train from, whatever waits first."""
    study = FreshStudy(InMemoryStorage(), "lr", {"score": MAXIMIZE}, Space({"lr": Float(0.0, 1.0)}))
    study.offer({(0, 1): {"lr": 0.25}, (0, 2): {"lr": 0.25}})
    record = TrialRecord(1, {"lr": 0.75}, TrialState.COMPLETE, value=0.9, epoch=0)
    study.show({(5, 1): replace(record, epochs=(EpochRecord(0, {"score": 0.9}),))})
    states = {key_of(one): (one.state.name, one.params) for one in study.study.trials}
    assert states == {(0, 1): ("WAITING", {}), (0, 2): ("WAITING", {}), (5, 1): ("COMPLETE", {"lr": 0.75})}


def test_a_failed_run_takes_its_contender_out():
    """After its retries; the others go on."""

    def train(params, run):
        if params["kind"] == "c" and searched and random.random() < 0.6:
            raise OverflowError("diverged")
        noisy(params, run)

    searched = []
    objective = objective_of(train)
    records = objective.run()
    searched.append(True)
    settled = objective.confirm(records, top=3, repeats=8)
    out = next(one for one in settled.contenders if one.trial == 2)
    assert settled.best.trial != 2 and out.reason.endswith("OverflowError: diverged")


def test_a_loss_is_confirmed_too():
    """The winner has the smallest mean."""

    def train(params, run):
        for _ in run.epochs(2):
            run.log(loss=1 - QUALITY[params["kind"]] + random.gauss(0, 0.002))

    objective = objective_of(train, metric=Reported("loss", MINIMIZE))
    settled = objective.confirm(objective.run(), top=4, repeats=4)
    assert settled.best.trial == 2
    assert settled.contenders[-1].trial == 3


def test_constraints_bound_the_means(tmp_path):
    """A contender whose mean breaks a bound leaves, though its run in the search kept it."""

    def train(params, run):
        for _ in run.epochs(1):
            run.log(score=QUALITY[params["kind"]], ms=9.0 if not searched or params["kind"] != "c" else 12.0)

    searched = []
    objective = objective_of(train, constraints=["ms <= 10"], directory=tmp_path)
    records = objective.run()
    searched.append(True)
    settled = objective.confirm(records, top=2, repeats=3)
    assert (settled.best.trial, settled.confirmation.looks[0].failed) == (1, {2: "ms 12 > 10"})


def costly(params, run):
    """A score that more time makes better, each with the luck of the seed."""
    for _ in run.epochs(2):
        ms = {"a": 1, "b": 2, "c": 3, "d": 9}[params["kind"]] + random.gauss(0, 0.01)
        run.log(score=QUALITY[params["kind"]] + random.gauss(0, 0.001), ms=ms)


def test_a_front_is_trained_again(tmp_path):
    """In a list as in Optuna, as often as is asked for; what is trained is used again."""
    facts = {"metric": [SCORE, Reported("ms", MINIMIZE)], "seed": 3}
    in_list = ListObjective(costly, POINTS, directory=tmp_path / "list", **facts)
    front = in_list.confirm_front(in_list.run(), top=3, repeats=3)
    assert front.trainings == 9 and {member.trial for member in front.front} == {0, 1, 2}
    assert str(in_list.confirm_front(in_list.run(), top=3, repeats=3)) == str(front)
    place = tmp_path / "list" / "trials" / "0002" / CONFIRM / "1"
    fewer = read_trial(place)
    assert fewer is not None
    study = optuna.create_study(directions=["maximize", "minimize"])
    for point in POINTS:
        study.enqueue_trial(point)
    objective = OptunaObjective(costly, {"kind": Choice([*QUALITY])}, directory=tmp_path / "optuna", **facts)
    study.optimize(objective, n_trials=4)
    assert objective.confirm_front(study, top=3, repeats=3).members[0].values == front.members[0].values
    more = in_list.confirm_front(in_list.run(), top=3, repeats=4)
    assert more.trainings == 12 and read_trial(place) == fewer


def test_one_objective_has_a_winner_and_several_a_front():
    """Each is confirmed by a method of its own."""
    objective = objective_of(metric=[SCORE, Reported("ms", MINIMIZE)])
    with pytest.raises(ConfigError, match=r"confirm decides by one metric.*confirm_front to retrain"):
        objective.confirm([])
    with pytest.raises(ConfigError, match="score alone has no front; use confirm to decide its winner"):
        objective_of().confirm_front([])


def test_one_trial_is_refused(tmp_path):
    """Nobody is there to compare it with."""
    objective = objective_of(points=POINTS[:1], directory=tmp_path)
    with pytest.raises(NoFiniteValueError, match=r"at least two complete trials.*this search has 1"):
        objective.confirm(objective.run())


@pytest.mark.parametrize("text", ["{", '{"format": 1}', '{"format": 1, "plans": [{"settings": {"top": 1}}]}'])
def test_a_damaged_file_is_refused(tmp_path, text):
    """By its name, and with what to do."""
    objective = objective_of(directory=tmp_path)
    records = objective.run()
    (tmp_path / CONFIRM_FILE).write_text(text)
    with pytest.raises(RecordError, match=f"{CONFIRM_FILE} is damaged.*move it away"):
        objective.confirm(records)


def test_the_file_says_what_was_decided(tmp_path):
    """Strict JSON with the plans and the end."""
    objective = objective_of(directory=tmp_path)
    settled = objective.confirm(objective.run(), top=3, repeats=4)
    content = json.loads((tmp_path / CONFIRM_FILE).read_text())
    assert content["end"]["state"] == settled.state.value
    assert content["end"]["winner"] == settled.best.trial
    assert [trial for trial, _ in content["plans"][0]["contenders"]] == sorted(
        (one.trial for one in settled.contenders),
        key=lambda trial: -next(one.search_value for one in settled.contenders if one.trial == trial),
    )


def count_then_die(home, moment, params, run):
    """Train, unless this is the training that the process does not outlive."""
    with (home / "log").open("a") as file:
        file.write("x")
    if (home / "log").stat().st_size == moment:
        signal.raise_signal(signal.SIGKILL)
    noisy(params, run)


def confirm_on_disk(home, moment):
    """Confirm the search of a directory."""
    objective = objective_of(partial(count_then_die, home, moment), directory=home)
    records = [read_trial(objective.trials.directory_of(number)) for number in range(len(POINTS))]
    return objective.confirm(records, top=3, repeats=6, equivalence=0)


@pytest.mark.parametrize("moment", [2, 7, 11])
def test_a_kill_changes_nothing(tmp_path, moment):
    """Killed in a training and asked again: the same end, and no finished run trained twice."""
    whole = objective_of(directory=tmp_path / "whole")
    expected = whole.confirm(whole.run(), top=3, repeats=6, equivalence=0)
    home = tmp_path / "killed"
    objective_of(directory=home).run()
    assert Forked(tmp_path, confirm_on_disk, home, moment).ended() == -signal.SIGKILL
    settled = confirm_on_disk(home, moment)
    assert timeless(settled) == timeless(expected)
    assert (home / "log").stat().st_size == settled.confirmation.trainings + 1


def timeless(settled):
    """What was decided, without the seconds that it took."""
    end = settled.confirmation
    return replace(end, standings=tuple(replace(one, seconds=0.0) for one in end.standings))


ACCURATE = {"metric": "accuracy", "output": "binary", "statistics": "rows"}
TARGET = torch.arange(400) % 2
ACCURACY = {"a": 0.80, "b": 0.82, "c": 0.84, "d": 0.6}


def labels(params, run):
    """Predictions of 400 rows, right as often as the kind says; each training is right on other rows."""
    generator = torch.Generator().manual_seed(random.getrandbits(32))
    for _ in run.epochs(3):
        right = torch.rand(400, generator=generator) < ACCURACY[params["kind"]]
        run.update(predictions=torch.where(right, TARGET, 1 - TARGET), target=TARGET)


def confirmed_labels(directory, train=labels, **facts):
    """The end of a search of four, and of the confirmation of its best three."""
    objective = objective_of(train, directory=directory, **{**ACCURATE, **facts})
    return objective.confirm(objective.run(), top=3, repeats=5, equivalence=0)


def test_row_values_give_an_honest_value(tmp_path):
    """Picking trial and epoch on these rows has added something; the interval stays below 1."""
    honest = confirmed_labels(tmp_path).honest
    assert honest.limits == () and 0 < honest.bias < 0.03
    assert honest.interval.value == pytest.approx(honest.mean - honest.bias)
    assert honest.interval.low < honest.interval.value < honest.interval.high < 1
    up, down = honest.interval.high - honest.interval.value, honest.interval.value - honest.interval.low
    assert 0 < up < down  # on the scale of log-odds


def test_the_test_split_stands_first(tmp_path):
    """The mean of the fresh runs at the epochs that validation picked, over the rows that picked nothing."""

    def tested(params, run):
        generator = torch.Generator().manual_seed(random.getrandbits(32))
        for _ in run.epochs(3):
            for split in ("validation", "test"):
                right = torch.rand(400, generator=generator) < ACCURACY[params["kind"]]
                run.update(predictions=torch.where(right, TARGET, 1 - TARGET), target=TARGET, split=split)

    settled = confirmed_labels(tmp_path, tested)
    place = tmp_path / "trials" / f"{settled.best.trial:04d}" / CONFIRM
    fresh = [read_trial(place / str(number + 1)) for number in range(settled.best.repeats)]
    tests = [record.picked_values["test:accuracy"] for record in fresh]
    assert (
        settled.honest.held_out.value == pytest.approx(np.mean(tests)) and settled.honest.held_out_rows == 400
    )
    assert "test:accuracy ^, the mean of" in str(settled).splitlines()[1]
    assert (
        Confirmation.from_json(json.loads((tmp_path / CONFIRM_FILE).read_text())["end"])
        == settled.confirmation
    )


def test_a_search_without_row_values_is_confirmed_with_those_of_the_fresh_runs(tmp_path):
    """The luck of the contenders' choice is then left out, and said to be."""
    honest = confirmed_labels(tmp_path, statistics="small").honest
    assert honest.limits == ("this leaves out the luck of choosing the contenders",) and honest.bias > 0


def test_without_a_directory_no_row_values_are_kept():
    """The seeds alone are in the interval."""
    (limit,) = confirmed_labels(None).honest.limits
    assert limit.startswith("picking on these rows")


def test_rows_that_a_seed_draws_are_not_paired(tmp_path):
    """Each training has rows of its own, so that only seeds are compared."""

    def drawn(params, run):
        generator = torch.Generator().manual_seed(random.getrandbits(32))
        target = torch.randint(2, (400,), generator=generator)
        for _ in run.epochs(2):
            right = torch.rand(400, generator=generator) < ACCURACY[params["kind"]]
            run.update(predictions=torch.where(right, target, 1 - target), target=target)

    with pytest.warns(UserWarning, match="other validation rows"):
        settled = confirmed_labels(tmp_path, drawn)
    (limit,) = settled.honest.limits
    assert limit.startswith("picking on these rows") and settled.honest.bias == 0


def test_rows_decide_less_than_seeds_alone(tmp_path):
    """Two kinds whose trainings never vary: the seeds say that they differ, their few rows do not."""

    def steady(params, run):
        right = torch.arange(40) < {"a": 36, "b": 37, "c": 38, "d": 20}[params["kind"]]
        target = torch.arange(40) % 2
        for _ in run.epochs(1):
            run.update(predictions=torch.where(right, target, 1 - target), target=target)

    settled = confirmed_labels(tmp_path, steady)
    assert settled.state == "spent" and len(settled.contenders) == 3


HITS = np.random.default_rng(5).random((4, 9, 3, 60)) < 0.8
"""Whether each of 60 rows is right: of four trials, nine seeds and three epochs, of which many are equal."""


def test_the_product_decides_what_the_pure_core_decides(tmp_path):
    """To the last digit, also where epochs and trials are equal: what is kept of a row has no rounding."""
    numbers = {derive_seed(3, number, 0, "confirm"): number for number in range(1, 9)}

    def train(params, run):
        hits = HITS[params["trial"], numbers.get(run.seed, 0)].astype(int)
        for epoch in run.epochs(3):
            run.update(predictions=hits[epoch], target=np.ones(60, dtype=int))

    points = [{"trial": trial} for trial in range(4)]
    objective = ListObjective(
        train, points, metric="accuracy", output=Binary(), seed=3, directory=tmp_path, statistics="rows"
    )
    settings = ConfirmSettings(top=3)
    ends = [objective.confirm(objective.run(), top=3).confirmation]

    def fresh(trial, number):
        rows = HITS[trial, number].astype(float)
        picked = int(rows.mean(axis=1).argmax())
        return FreshRun(float(rows[picked].mean()), rows, picked, "rows")

    search = {trial: fresh(trial, 0) for trial in range(4)}
    best_first = sorted(search, key=lambda trial: -search[trial].value)
    contenders = [Contender(trial, search[trial].value) for trial in best_first]
    runs: dict = {}
    while len(ends) < 2:
        following = plan_for(
            ConfirmationRecord(
                "accuracy",
                MAXIMIZE,
                [ConfirmationPlan(settings, tuple(contenders[:3]))],
                runs,
                contenders[3:],
                search={trial: run.rows for trial, run in search.items()},
                scale=Scale.LOGIT,
            )
        )
        runs |= {key: fresh(*key) for key in following.missing}
        ends += [following.end] if following.end is not None else []
    one, other = (replace(end, standings=()) for end in ends)
    assert one == other
    assert [(s.trial, s.mean) for s in ends[0].standings] == [(s.trial, s.mean) for s in ends[1].standings]


def test_rows_of_one_user_count_as_one(tmp_path):
    """A hundred copies of 12 rows decide what the 12 would; without the ids they decide as 1,200 rows."""

    def copied(params, run, copies, ids):
        generator = torch.Generator().manual_seed(random.getrandbits(32))
        for _ in run.epochs(2):
            right = torch.rand(12, generator=generator) < ACCURACY[params["kind"]]
            target = torch.arange(12) % 2
            predictions = torch.where(right, target, 1 - target).repeat(copies)
            by = [f"user {row}" for row in range(12)] * copies if ids else None
            run.update(predictions=predictions, target=target.repeat(copies), by=by)

    def settled(name, copies, ids):
        return confirmed_labels(tmp_path / name, partial(copied, copies=copies, ids=ids))

    one, many, naive = settled("one", 1, True), settled("many", 100, True), settled("naive", 100, False)
    assert many.honest.interval.low == pytest.approx(one.honest.interval.low)
    assert many.honest.interval.high == pytest.approx(one.honest.interval.high)
    assert (
        one.honest.limits == many.honest.limits == ("rows of 12 ids: intervals from fewer than 20 are rough",)
    )
    assert naive.honest.interval.low > many.honest.interval.low
    for few, copies in zip(one.confirmation.looks, many.confirmation.looks, strict=True):
        assert [pair.half for pair in few.pairs] == pytest.approx([pair.half for pair in copies.pairs])


def test_no_draw_picks_an_epoch_that_breaks_a_constraint(tmp_path):
    """The last of three epochs has the most right rows, and takes too long."""

    def train(params, run):
        target = np.arange(60) % 2
        for epoch in run.epochs(3):
            right = np.arange(60) < params["right"] + 5 * epoch
            run.update(predictions=np.where(right, target, 1 - target), target=target)
            run.log(ms=epoch)

    points = [{"right": 30}, {"right": 40}]
    facts = {"output": Binary(), "constraints": ["ms <= 1"], "directory": tmp_path, "statistics": "rows"}
    objective = ListObjective(train, points, metric="accuracy", **facts)
    runs = FreshRuns(objective.trials, objective.run(), ConfirmSettings(2, 3))
    runs.training(1, 1).run(objective.trials)
    runs.following()
    record = runs.record()
    assert (record.runs[1, 1].picked, record.runs[1, 1].rows.shape) == (1, (2, 60))
    assert {trial: table.shape for trial, table in record.search.items()} == {0: (2, 60), 1: (2, 60)}
