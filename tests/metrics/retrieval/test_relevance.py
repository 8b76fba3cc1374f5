from __future__ import annotations

import numpy as np
import pytest
import torch

from hpometrics.metrics.retrieval import relevance
from hpometrics.metrics.retrieval.interactions import Interactions
from hpometrics.metrics.retrieval.relevance import DenseRelevance, SparseRelevance
from hpometrics.metrics.retrieval.row_areas import count_flags

torch.manual_seed(0)
GRADES = torch.randint(0, 4, (30, 25)).float() * (torch.rand(30, 25) < 0.4)
GRADES[3] = 0
COLUMNS = torch.stack([torch.randperm(25)[:7] for _ in range(30)])
COLUMNS[:, 5:] = -1


def sparse(grades):
    """The same entries, sparse."""
    entries = Interactions.of(grades, "target")
    return SparseRelevance(entries, grades.shape[1], entries.counts)


@pytest.mark.parametrize("width", [0, 1, 255, 256, 600, 5000])
@pytest.mark.parametrize("share", [0.3, 1.0])
def test_flags_are_counted_whatever_the_width(width, share):
    """Bytes count up to 255 at a time, so that none wraps around; a view is counted as it is."""
    flags = torch.rand(7, width) < share
    for part in (flags, flags[:, ::2], flags.t().contiguous().t()):
        counts = DenseRelevance(part, 0.0).counts
        assert counts.dtype is torch.int64 and torch.equal(counts, part.sum(1))


@pytest.mark.parametrize("size", [1, 60, 1 << 20])
def test_dense_and_sparse_say_the_same(monkeypatch, size):
    """Counts, grades of lists, ideal lists and rows, however large the buffer is."""
    monkeypatch.setattr(relevance, "_BUFFER", size)
    for own in (DenseRelevance(GRADES, 0.0), sparse(GRADES)):
        assert torch.equal(own.counts, (GRADES > 0).sum(1))
        wanted = GRADES.gather(1, COLUMNS.clamp(min=0)).masked_fill(COLUMNS < 0, 0)
        assert torch.equal(own.at(COLUMNS), wanted)
        assert torch.equal(own.at(COLUMNS), wanted)  # the buffer is clean again
        assert torch.equal(own.ideal(6), GRADES.sort(dim=1, descending=True).values[:, :6])
        assert torch.equal(own.dense(2, 9), GRADES[2:9])
        assert torch.equal(own.only(torch.tensor([9, 2])).dense(0, 2), GRADES[[9, 2]])


def test_flags_are_looked_up_as_ones():
    """Without grades each relevant item has grade 1."""
    own = sparse(GRADES > 0)
    assert torch.equal(own.at(COLUMNS), sparse(GRADES).at(COLUMNS).clamp(max=1))
    assert torch.equal(own.ideal(30), (torch.arange(30) < own.counts.unsqueeze(1)).float())


def test_what_is_not_above_the_threshold_is_not_relevant():
    """In a matrix; sparse entries are read through it before."""
    own = DenseRelevance(GRADES, 1.0)
    high = GRADES * (GRADES > 1)
    assert torch.equal(own.counts, (high > 0).sum(1)) and torch.equal(own.dense(0, 30), high)
    assert torch.equal(own.entries.sizes, high[high > 0]) and torch.equal(own.ideal(25)[:, 0], high.amax(1))
    assert torch.equal(own.at(COLUMNS), high.gather(1, COLUMNS.clamp(min=0)).masked_fill(COLUMNS < 0, 0))


@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.float32, torch.float64, torch.bfloat16, torch.int64], ids=str
)
def test_relevant_items_are_counted_whatever_the_type(dtype, threshold):
    """Those above the threshold; flags are not above 1."""
    grades = GRADES.to(dtype)
    assert torch.equal(DenseRelevance(grades, threshold).counts, (grades.float() > threshold).sum(1))


@pytest.mark.parametrize(
    ("grades", "threshold", "graded"),
    [
        ([[0.0, 1.0], [1.0, 0.0]], 0.0, False),
        ([[0.0, 0.0], [0.0, 0.0]], 0.0, False),
        ([[0.3, 1.0], [-1.0, 1.0]], 0.5, False),  # what is not relevant counts 0
        ([[0.0, 1.0], [0.0, 0.9]], 0.0, True),
        ([[0.0, 1.0], [0.0, 2.0]], 0.0, True),
        ([[0.0, 1.0], [0.0, 2.0]], 1.0, True),
    ],
)
def test_a_matrix_has_grades_where_one_of_them_is_not_1(grades, threshold, graded):
    """By what is relevant alone."""
    assert DenseRelevance(torch.tensor(grades), threshold).graded is graded


def test_relevant_items_without_a_column_are_in_the_ideal_list():
    """Two are relevant, one of them, of grade 3, is a candidate: the other counts 1."""
    own = SparseRelevance(Interactions.of([{0: 3.0}], "target"), 2, torch.tensor([2]))
    assert own.ideal(3).tolist() == [[3.0, 1.0, 0.0]]
    assert own.at(torch.tensor([[1, 0, -1]])).tolist() == [[0.0, 3.0, 0.0]]


@pytest.mark.parametrize("shape", [(0, 4), (4, 0)])
def test_no_rows_or_columns(shape):
    """Nothing is relevant."""
    columns = torch.full((shape[0], 2), -1)
    for own in (DenseRelevance(torch.zeros(shape), 0.0), sparse(torch.zeros(shape))):
        assert own.counts.sum() == 0 and own.ideal(2).shape == (shape[0], 2)
        assert own.at(columns).tolist() == [[0.0, 0.0]] * shape[0]


@pytest.mark.parametrize(("grade", "threshold"), [(1e-60, 0.0), (0.1 + 0.2, 0.3)])
def test_grades_in_float64_are_counted_as_they_are_looked_up(grade, threshold):
    """A grade that exceeds the threshold in float64 alone is not relevant, neither counted nor found."""
    own = DenseRelevance(torch.tensor([[grade, 0.0, 1.0]], dtype=torch.float64), threshold)
    assert own.at(torch.tensor([[0, 1, 2]])).tolist() == [[0.0, 0.0, 1.0]]
    assert own.counts.tolist() == [1] and own.entries.items.tolist() == [2]


@pytest.mark.parametrize("width", [1, 3, 4, 100, 101, 1020, 1024, 5000])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_flags_of_a_row_are_counted_by_words(width, share):
    """Four in a word, in bytes or one by one: the same counts, also of columns of a wider matrix."""
    flags = np.random.default_rng(width).random((7, width + 4)) < share
    for part in (flags[:, :width], np.ascontiguousarray(flags[:, :width])):
        assert count_flags(part).tolist() == part.sum(1).tolist()
