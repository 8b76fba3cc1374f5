from __future__ import annotations

import numpy as np
import pytest
import torch

from hpometrics.backends.objective import ListObjective
from hpometrics.metrics.features import Binary, Category
from hpometrics.run import Run
from hpometrics.run.epoch import TargetDigest, digest_of
from hpometrics.testing.waits import waits_of

TARGETS = {
    "classes": torch.tensor([0, 2, 1, 1, 0]),
    "numbers": torch.tensor([0.5, -0.0, float("nan"), 3.0, 1e-30], dtype=torch.float64),
    "labels": torch.tensor([[1, 0], [0, 1], [1, 1], [0, 0], [1, 0]]),
    "pictures": torch.arange(5 * 2 * 3 * 3).reshape(5, 2, 3, 3).float(),
    "texts": ["a cat", "a dog", "a cat", "", "\ud800"],
    "references": [["a", "b"], ["c"], ["b", "a"], ["d"], ["a"]],
}


def digest(*batches) -> str | None:
    """The digest of a pass over batches."""
    own = TargetDigest()
    for batch in batches:
        own.add(batch)
    return digest_of([own.sums()])


def rows(target, places: list[int]):
    """Some rows of a target."""
    return target[places] if isinstance(target, torch.Tensor) else [target[place] for place in places]


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_the_same_rows_have_the_same_digest(target):
    """In any order, in any batches, over any number of processes; as a list and an array too."""
    whole = digest(target)
    assert whole.startswith("5 rows ")
    assert digest(rows(target, [4, 2, 0]), rows(target, [1]), rows(target, [3])) == whole
    first, second = TargetDigest(), TargetDigest()
    first.add(rows(target, [1, 3]))
    second.add(rows(target, [0, 2, 4]))
    assert digest_of([first.sums(), second.sums()]) == whole
    if isinstance(target, torch.Tensor) and target.ndim < 3:
        assert digest(target.tolist()) == digest(target.numpy()) == digest(target.to(target.dtype)) == whole


@pytest.mark.parametrize("kind", ["bool", "uint8", "int32", "float16", "float64"])
def test_an_array_that_is_read_only_is_read_without_a_warning(kind):
    """As an array from a memory map or from JAX is; in any of its types, backwards too."""
    array = np.array([0, 1, 1, 0, 1], dtype=kind)
    array.flags.writeable = False
    assert digest(array) == digest(array[::-1]) == digest(torch.tensor(array.tolist()))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_other_rows_have_another_digest(target):
    """One row left out, doubled, or exchanged for another."""
    found = {digest(rows(target, places)) for places in ([0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 0, 1, 2, 3, 4])}
    found |= {digest(rows(target, [0, 1, 1, 3, 4]))}
    assert len(found) == 4


def test_what_cannot_be_read_has_none():
    """Mappings, ragged lists, objects; an empty pass."""
    for target in (
        [{"boxes": 1}],
        [[1], [1, 2]],
        np.array([object()]),
        None,
        torch.tensor(1),
        torch.zeros(0),
    ):
        assert digest(target) is None
    assert digest(torch.tensor([1]), [{"boxes": 1}]) is None


def test_a_run_tells_the_rows_of_its_first_pass():
    """Of the validation split; later passes over other rows change nothing."""
    run = Run(metric="accuracy", output=Category(3))
    for epoch in run.epochs(2):
        run.update(predictions=[0, 1, 2], target=[0, 1, epoch])
        run.update(predictions=[0], target=[1], split="train")
    assert run.targets == digest([0, 1, 0])


def test_trials_on_other_rows_are_warned_of_once():
    """With both trials and what to do; what a search on the same rows shuffles is no difference."""

    def train(params, run):
        places = torch.randperm(4, generator=torch.Generator().manual_seed(params["seed"]))
        target = torch.tensor([0, 1, 1, params["last"]])[places]
        for _ in run.epochs(1):
            run.update(probabilities=[0.5] * 4, target=target)

    points = [{"seed": seed, "last": int(seed == 2)} for seed in range(4)]
    searched = ListObjective(train, points, metric="accuracy", output=Binary())
    with pytest.warns(
        UserWarning, match="trial 2 was measured on other validation rows than trial 0"
    ) as told:
        records = searched.run()
    assert len(told) == 1 and "use the same rows in every trial" in str(told[0].message)
    assert len({record.targets for record in records}) == 2


@pytest.mark.parametrize(
    "target",
    [
        torch.arange(6),
        torch.rand(6),
        torch.rand(6, 3, dtype=torch.float16),
        torch.rand(6, 2) > 0.5,
        torch.zeros(0, dtype=torch.int64),
    ],
    ids=["labels", "numbers", "half", "sets", "nothing"],
)
def test_no_batch_on_a_device_is_waited_for(target):
    """The sum stays there; it is read once, at the end of the first pass."""
    sums, batch = TargetDigest(), target.to("meta")

    def pass_over() -> None:
        for output in (None, "a", "a"):
            sums.add(batch, output)

    assert waits_of(pass_over) == []
    assert len(waits_of(sums.sums)) == 1
