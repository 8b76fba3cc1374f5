from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
import torch

from hpometrics.exceptions import RecordError
from hpometrics.metrics.features import Ranking
from hpometrics.metrics.retrieval.per_user import PerUser
from hpometrics.run import Run, RunSpec, artifacts as tables
from hpometrics.run.artifacts import PickedFile, UserTables, read_user_table
from hpometrics.run.reporter import ListReporter
from hpometrics.run.trial import run_trial

USERS = torch.arange(3)
SPEC = RunSpec("precision@1", output=Ranking(per_user=True), epochs=4)
HITS = ([0, 0, 1], [1, 1, 0], [0, 1, 1], [0, 0, 0])
"""Of each epoch, which users get their item; epoch 1 is the best, epoch 2 as good."""

RECORD = {"epochs.jsonl", "statistics.jsonl", "trial.json"}


class Counter:
    """What is checkpointed."""

    def state_dict(self):
        """Nothing."""
        return {}

    def load_state_dict(self, state_dict):
        """Nothing."""


def epoch_of(run, epoch, **more):
    """Feed an epoch of three users, each of whom one item of two is relevant to."""
    scores = torch.tensor([[1.0, 0.0] if hit else [0.0, 1.0] for hit in HITS[epoch]])
    run.update(scores=scores, target=[[0], [0], [0]], users=USERS, **more)


def values(table, name="precision@1"):
    """The values of the users, who are all there."""
    users, found = table[name]
    assert users.tolist() == [0, 1, 2]
    return found.tolist()


def table(*found):
    """A table of one metric."""
    return PerUser({"m": (torch.arange(len(found)), torch.tensor(found))})


@pytest.mark.parametrize(("at", "hits"), [("best", HITS[1]), ("last", HITS[3])])
def test_a_run_keeps_the_values_of_the_picked_epoch(at, hits, tmp_path):
    """Whichever epoch that is; on disk there is one table at any time."""
    spec = RunSpec("precision@1", output=Ranking(per_user=True), at=at)
    with Run(spec=spec, directory=tmp_path) as run:
        for epoch in run.epochs(4):
            epoch_of(run, epoch)
            assert len(list(tmp_path.glob("per_user*"))) == min(epoch, 1)
    assert values(run.per_user) == list(hits)
    assert values(read_user_table(tmp_path, run.best_epoch)) == list(hits)


def test_every_split_has_columns():
    """The test split under its own name."""
    run = Run(spec=SPEC)
    for epoch in run.epochs():
        epoch_of(run, epoch)
        epoch_of(run, 3 - epoch, split="test")
    assert values(run.per_user) == list(HITS[1])
    assert values(run.per_user, "test:precision@1") == list(HITS[2])


def test_each_split_has_strata_of_its_own():
    """What is relevant differs; the group of a user does not."""
    output = Ranking(per_user=True, user_groups=[0, 1, 1], item_popularity=[1.0, 5.0])
    run = Run(spec=RunSpec("precision@1", output=output, epochs=1))
    for _ in run.epochs():
        scores = torch.zeros(3, 2)
        run.update(scores=scores, target=[[0], [0], [1]], users=USERS)
        run.update(scores=scores, target=[[1], [0], [0]], users=USERS, split="test")
    table = run.per_user
    assert list(table.strata) == ["group", "popularity", "test:group", "test:popularity"]
    groups = {0: [0], 1: [1, 2]}
    for name, popular in (("precision@1", 2), ("test:precision@1", 0)):
        found = {stratum: users.tolist() for stratum, users in table.strata_of(name, "group").items()}
        assert found == groups
        assert table.strata_of(name, "popularity")[2].tolist() == [popular]


def test_nothing_is_kept_unless_the_output_says_so(tmp_path):
    """No table, no file."""
    spec = RunSpec("precision@1", output=Ranking(), epochs=4)

    def train(params, run):
        for epoch in run.epochs():
            epoch_of(run, epoch)
        assert run.per_user is None

    record = run_trial(train, {}, spec, ListReporter(), directory=tmp_path)
    assert (record.state, record.epoch) == ("complete", 1)
    assert {path.name for path in tmp_path.iterdir()} == {".trainstats", *RECORD}


def test_an_ended_trial_leaves_one_file(tmp_path, monkeypatch):
    """A CSV with a row per user; npz where there are many values, and not both."""

    def train(params, run):
        for epoch in run.epochs():
            epoch_of(run, epoch)

    run_trial(train, {}, SPEC, ListReporter(), directory=tmp_path)
    assert {path.name for path in tmp_path.glob("[!.]*")} == {*RECORD, "per_user.csv"}
    assert (tmp_path / "per_user.csv").read_text().split() == ["user,precision@1", "0,1.0", "1,1.0", "2,0.0"]
    monkeypatch.setattr(tables, "_MOST_CELLS", 2)
    run_trial(train, {}, SPEC, ListReporter(), directory=tmp_path)
    assert {path.name for path in tmp_path.glob("[!.]*")} == {*RECORD, "per_user.npz"}
    assert values(read_user_table(tmp_path, None)) == list(HITS[1])


@pytest.mark.parametrize("died_in", [1, 2, 3])
def test_a_run_that_goes_on_knows_what_it_had_picked(died_in, tmp_path):
    """Left after one checkpoint, at epoch 0 or 1: the table is that of the epoch it has picked there."""
    with suppress(KeyboardInterrupt), Run(spec=SPEC, directory=tmp_path) as first:
        for epoch in first.epochs():
            epoch_of(first, epoch)
            if epoch == died_in // 2:
                first.checkpoint(counter=Counter())
            if epoch == died_in:
                raise KeyboardInterrupt
    with Run(spec=SPEC, directory=tmp_path) as second:
        assert second.restore(counter=Counter()) == died_in // 2 + 1
        assert values(second.per_user) == list(HITS[second.best_epoch])
        for _ in second.epochs():
            epoch_of(second, 3)  # nobody gets anything any more
    assert values(second.per_user) == list(HITS[died_in // 2])
    assert [path.name for path in tmp_path.glob("per_user*")] == [f"per_user-000{died_in // 2}.npz"]


def test_what_was_picked_at_the_checkpoint_stays_until_the_next(tmp_path):
    """Epoch 2 is better than epoch 0, but a killed run would go on behind epoch 1 and know 0 alone."""
    kept = UserTables(tmp_path)
    kept.follow(0, 0, table(0.5))
    kept.mark_checkpoint()
    kept.follow(1, 0, table(0.25))
    kept.follow(2, 2, table(0.75))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["per_user-0000.npz", "per_user-0002.npz"]
    again = UserTables(tmp_path)
    again.restore(0)
    assert values_of(again) == [0.5]
    kept.mark_checkpoint()
    assert [path.name for path in tmp_path.iterdir()] == ["per_user-0002.npz"]


def values_of(kept):
    """The values of the one metric in a table."""
    return kept.table["m"][1].tolist()


def test_an_epoch_without_values_leaves_none():
    """The last epoch counts and has measured nobody."""
    kept = UserTables(None)
    kept.follow(0, 0, table(0.5))
    kept.follow(1, 1, PerUser({}))
    assert kept.table is None


def test_arrays_say_the_same_as_text(tmp_path):
    """Read back to the last digit, users once where two metrics have met the same."""
    same, other = torch.tensor([3, 9]), torch.tensor([9])
    found = PerUser(
        {
            "a": (same, torch.tensor([0.1, torch.nan])),
            "b": (same.clone(), torch.tensor([1 / 3, 1e-8])),
            "c": (other, torch.tensor([0.7])),
        },
        {"group": (same, torch.tensor([300, -1])), "test:popularity": (other, torch.tensor([2]))},
    )
    found.to_npz(tmp_path / "t.npz")
    found.to_csv(tmp_path / "t.csv")
    for path in (tmp_path / "t.npz", tmp_path / "t.csv"):
        back = PerUser.read(path)
        assert list(back) == ["a", "b", "c"]
        for name, (users, numbers) in back.items():
            torch.testing.assert_close((users, numbers), found[name], rtol=0, atol=0, equal_nan=True)
        assert list(back.strata) == ["group", "test:popularity"]
        for by, told in back.strata.items():
            torch.testing.assert_close(told, found.strata[by], rtol=0, atol=0)
    with np.load(tmp_path / "t.npz") as file:
        assert (file["values_3"].dtype, file["values_4"].dtype) == ("int16", "int8")
    assert (tmp_path / "t.csv").read_text().splitlines()[1] == "3,0.1,0.33333334,,300,"


@pytest.mark.parametrize("name", ["per_user.csv", "per_user.npz"])
def test_a_damaged_table_is_said(name, tmp_path):
    """With its path."""
    (tmp_path / name).write_text("user,m\nx,y\n")
    with pytest.raises(RecordError, match=rf"{name}: holds no values by user"):
        read_user_table(tmp_path, 0)


@pytest.mark.parametrize("written", [True, False])
def test_there_may_be_no_file_to_go_on_from(written, tmp_path):
    """Where no epoch is picked yet, or nothing is written."""
    kept = PickedFile(tmp_path if written else None, "users", ".csv")
    assert kept.find(None if written else 3) is None
