"""The laws on data that Hypothesis chooses: any metric, any law, any draw."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings, strategies as st

from hpometrics.metrics.registry import all_entries
from hpometrics.testing import LAWS, check_device, subjects_of
from hpometrics.testing.exemptions import EXEMPT
from hpometrics.testing.subjects import Subject, is_here

SUBJECTS = [subject for entry in all_entries() if is_here(entry) for subject in subjects_of(entry)]
ANY_LAW = st.sampled_from([law for law in LAWS if law is not check_device])
BOUNDED = settings(derandomize=True, max_examples=800)


def drawn_elsewhere(subject: Subject, seed: int) -> Subject:
    """The same use of the same metric, on other data than its laws draw by themselves."""
    return replace(
        subject,
        source=lambda output, rows, noise, own: subject.source(output, rows, noise, own + seed),
    )


@BOUNDED
@given(subject=st.sampled_from(SUBJECTS), law=ANY_LAW, seed=st.integers(1, 2**16))
def test_any_law_holds_on_any_data(subject: Subject, law, seed):
    """What is exempt from a law is so whatever the data."""
    if {subject.entry.name, str(subject.entry)}.isdisjoint(EXEMPT.get(law.__name__, {})):
        law(drawn_elsewhere(subject, seed))
