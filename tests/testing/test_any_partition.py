"""The laws of partition and merging, driven by Hypothesis: any metric, data, cuts and order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st
from matrix import EXHAUSTIVE, entries

from hpometrics.testing import cut, size_of, subjects_of
from hpometrics.testing.subjects import Subject, fed, is_here, require_same, value_of

SUBJECTS = [subject for entry in entries() if is_here(entry) for subject in subjects_of(entry)]
DATA = st.tuples(st.integers(1, 40), st.sampled_from([0.0, 0.3, 1.0]), st.integers(0, 2**16))
CUTS = st.lists(st.integers(0, 40), max_size=6)


def parts_of(batch: dict, cuts: list[int]) -> list[dict]:
    """Cut a batch at some rows, in whatever order; parts may be empty."""
    rows = size_of(batch)
    places = sorted(min(place, rows) for place in cuts)
    ends = [*places, rows]
    return cut(batch, [end - begin for begin, end in zip([0, *places], ends, strict=True)])


@pytest.mark.usefixtures("entries")
@pytest.mark.parametrize("examples", [60, pytest.param(600, marks=EXHAUSTIVE)])
def test_parts_make_the_whole(examples):
    """Updated one after the other, or merged in any order, they give the value of all rows."""

    @settings(derandomize=True, max_examples=min(examples, len(SUBJECTS)))
    @given(subject=st.sampled_from(SUBJECTS), data=DATA, cuts=CUTS, random=st.randoms(use_true_random=False))
    def require_the_whole(subject: Subject, data, cuts, random):
        """Measure some rows at once and in parts."""
        batch = subject.draw(*data)
        whole, parts = subject.measure(batch), parts_of(batch, cuts)
        require_same(subject, whole, subject.measure(*parts), f"cut at {cuts}", tolerance=1e-9)
        metrics = [fed(subject.make(), part) for part in parts]
        random.shuffle(metrics)
        for metric in metrics[1:]:
            metrics[0].merge(metric)
        require_same(subject, whole, value_of(metrics[0]), f"cut at {cuts} and merged", tolerance=1e-9)

    require_the_whole()


def test_parts_are_all_rows():
    """However they are cut."""
    batch = SUBJECTS[0].draw(10)
    assert [size_of(part) for part in parts_of(batch, [12, 3, 3, 0])] == [0, 3, 0, 7, 0]
