"""The laws on data that Hypothesis chooses: any metric, any law, any draw."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st
from matrix import EXHAUSTIVE, entries

from hpometrics.testing import LAWS, check_device, subjects_of
from hpometrics.testing.exemptions import EXEMPT
from hpometrics.testing.subjects import Subject, is_here

SUBJECTS = [subject for entry in entries() if is_here(entry) for subject in subjects_of(entry)]
ANY_LAW = st.sampled_from([law for law in LAWS if law is not check_device])


def drawn_elsewhere(subject: Subject, seed: int) -> Subject:
    """The same use of the same metric, on other data than its laws draw by themselves."""
    return replace(
        subject,
        source=lambda output, rows, noise, own: subject.source(output, rows, noise, own + seed),
    )


@pytest.mark.usefixtures("entries")
@pytest.mark.parametrize("examples", [80, pytest.param(800, marks=EXHAUSTIVE)])
def test_any_law_holds_on_any_data(examples):
    """What is exempt from a law is so whatever the data."""

    @settings(derandomize=True, max_examples=min(examples, len(SUBJECTS)))
    @given(subject=st.sampled_from(SUBJECTS), law=ANY_LAW, seed=st.integers(1, 2**16))
    def require_a_law(subject: Subject, law, seed):
        """Hold a use of a metric to a law, unless it is exempt."""
        if {subject.entry.name, str(subject.entry)}.isdisjoint(EXEMPT.get(law.__name__, {})):
            law(drawn_elsewhere(subject, seed))

    require_a_law()
