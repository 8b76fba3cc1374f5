from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from hpometrics import MetricInputError
from hpometrics.metrics.retrieval.interactions import Interactions, flagged

scipy_sparse = pytest.importorskip("scipy.sparse")

GRADES = torch.tensor([[0, 2.0, 0, 0, 1], [0, 0, 0, 0, 0], [3, 0, 0, 0.5, 0]])
PACKED = ([0, 2, 2, 4], [1, 4, 0, 3], [2.0, 1, 3, 0.5])
FORMS = {
    "dense": lambda: GRADES,
    "array": lambda: GRADES.numpy(),
    "sparse": lambda: GRADES.to_sparse(),
    "torch csr": lambda: GRADES.to_sparse_csr(),
    "scipy csr": lambda: scipy_sparse.csr_matrix(GRADES.numpy()),
    "scipy coo": lambda: scipy_sparse.coo_matrix(GRADES.numpy()),
    "mappings": lambda: [{1: 2.0, 4: 1}, {}, {0: 3, 3: 0.5}],
    "packed": lambda: tuple(map(torch.tensor, PACKED)),
    "packed lists": lambda: PACKED,
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("form", FORMS)
def test_every_form_means_the_same(form):
    """Offsets, items and grades."""
    found = Interactions.of(FORMS[form](), "target", 5)
    assert (found.offsets.tolist(), found.items.tolist(), found.grades.tolist()) == PACKED


@pytest.mark.parametrize(
    "given",
    [
        GRADES > 0,
        [[1, 4], [], [0, 3]],
        [torch.tensor([1, 4]), torch.tensor([]), np.array([0, 3])],
        [(1, 4), (), (0, 3)],
        PACKED[:2],
    ],
    ids=["flags", "lists", "tensors", "tuples", "packed"],
)
def test_without_grades_each_counts_one(given):
    """Nothing is stored for them."""
    found = Interactions.of(given, "target")
    assert found.grades is None and found.sizes.tolist() == [1] * 4
    assert (found.offsets.tolist(), found.items.tolist()) == PACKED[:2]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({1: 2}, "target is a matrix of rows x items .* got dict"),
        (torch.zeros(3), r"target is a matrix .* got Tensor of shape \(3,\)"),
        ([[1], 2], "got a list with other content:"),
        ([[1], ["a"]], "got a list with other content:"),
        ([[0.5]], "item ids and offsets must be whole numbers, got torch.float32"),
        ([[True]], "item ids and offsets must be whole numbers, got torch.bool"),
        ([[1], [5]], r"item ids must be in 0\.\.4, got values from 1 to 5"),
        ([[-1]], r"item ids must be in 0\.\.4, got values from -1 to -1"),
        ([[1], [3, 2, 3]], "item 3 appears twice in row 1"),
        (([0, 2], [1]), r"offsets must rise from 0 to the number of items, 1; got \[0, 2\]"),
        (([0, 2, 1, 3], [1, 2, 3]), "offsets must rise from 0 to the number of items, 3"),
        (([[0, 1]], [1]), "packed offsets and items must have one dimension each"),
        (([0, 1], [1], [1.0, 2.0]), "1 items have 2 grades"),
        (([0, 1], [1], [1j]), "target: grades must be real numbers, got torch.complex128"),
        (([0, 1], [1], [float("nan")]), "grades must be finite numbers"),
        (torch.tensor([[float("inf"), 0]]), "grades must be finite numbers"),
        ([{1: "a"}], "got a list with other content:"),
        ([{1: None}, [2]], "got a list with other content:"),
        (([0, 1], [1], ["a"]), "target, packed, must be a .* got list with the text 'a'"),
        (([0, 1], [[1], [2, 3]]), "target, packed, must be a .* got list"),
        (([0, 1], None), "target, packed, must be a .* got NoneType"),
    ],
)
def test_what_is_no_interactions(given, text):
    """The message says what is wanted and what came."""
    with pytest.raises(MetricInputError, match=text):
        Interactions.of(given, "target", 5)


def test_a_column_of_lists_is_a_list_of_lists():
    """As `frame.groupby("user").item.apply(list)` of pandas gives it."""
    frame = pd.DataFrame({"user": [0, 0, 2], "item": [4, 1, 3]})
    found = Interactions.of(frame.groupby("user").item.apply(list), "target")
    assert (found.offsets.tolist(), found.items.tolist()) == ([0, 2, 3], [4, 1, 3])


def test_scipy_entries_given_twice_are_added_up():
    """As scipy itself reads them; what was given stays as it was."""
    twice = scipy_sparse.csr_matrix((np.array([1.0, 2.0]), np.array([3, 3]), np.array([0, 2])), (1, 5))
    assert Interactions.of(twice, "seen").grades.tolist() == [3.0] and twice.nnz == 2


@pytest.mark.parametrize("which", [[2, 0], [1], [0, 0, 2], [], [1, 2], [0, 1, 2]])
def test_rows_in_any_order(which):
    """Also more than once, and none."""
    found = Interactions.of(GRADES, "target").rows(torch.tensor(which, dtype=torch.int64))
    wanted = Interactions.of(GRADES[which], "target")
    for name in ("offsets", "items", "grades"):
        assert torch.equal(getattr(found, name), getattr(wanted, name))


def test_parts_and_places():
    """Rows from 1 on, in a flat matrix of five columns; those whose grade is large."""
    part = Interactions.of(GRADES, "target").part(1, 3)
    assert part.counts.tolist() == [0, 2] and part.row_of.tolist() == [1, 1]
    assert part.places(5).tolist() == [5, 8]
    whole = Interactions.of(GRADES, "target")
    assert whole.places_on_host(1, 3, 5).tolist() == [5, 8]
    assert (
        whole.sizes_on_host(1, 3).tolist() == part.sizes.tolist()
        and whole.ungraded().sizes_on_host(1, 3) == 1
    )
    large = part.where(part.sizes > 1)
    assert (large.offsets.tolist(), large.items.tolist()) == ([0, 0, 1], [0])


def test_no_rows_and_no_items():
    """Nothing is refused of nothing."""
    assert len(Interactions.of([], "target")) == 0
    assert Interactions.of([[], []], "target").places(0).tolist() == []


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 1003])
def test_flags_are_found_where_numpy_finds_them(size, share):
    """Of any length and density, and of a matrix."""
    flags = np.random.default_rng(size).random(size) < share
    assert flagged(flags).tolist() == np.flatnonzero(flags).tolist()
    matrix = torch.from_numpy(flags).expand(3, -1).contiguous()
    found = Interactions.of(matrix, "target")
    assert found.offsets.tolist() == [0, *np.cumsum([flags.sum()] * 3)]
    assert found.items.tolist() == 3 * np.flatnonzero(flags).tolist()


def test_flags_of_every_other_column_are_those_of_a_copy():
    """Rows of equal distance flatten to a view of the same steps, which cannot be read eight at a time."""
    wide = torch.from_numpy(np.random.default_rng(0).random((5, 32)) < 0.3)
    for matrix in (wide[:, ::2], wide[:1, ::2], wide.T, wide[:, 3:19]):
        found, copied = Interactions.of(matrix, "target"), Interactions.of(matrix.clone(), "target")
        assert found.offsets.tolist() == copied.offsets.tolist()
        assert found.items.tolist() == copied.items.tolist() == matrix.nonzero()[:, 1].tolist()
