"""A name that will go: it works for two minor versions, and its first use in a process says what to do."""

from __future__ import annotations

import warnings

import pytest

import hpometrics
from hpometrics import _imports
from hpometrics._imports import DEPRECATED, Deprecated, warn_deprecated


@pytest.fixture
def old_name(monkeypatch):
    """`hpometrics.Run` as a name that will go, which nobody has used yet."""
    monkeypatch.setitem(DEPRECATED, "hpometrics.Run", Deprecated("0.2", "hpometrics.NewRun"))
    monkeypatch.setattr(_imports, "_warned", set())
    hpometrics.__dict__.pop("Run", None)
    yield
    hpometrics.__dict__.pop("Run", None)


def test_a_public_name_warns_once_at_the_line_that_uses_it(old_name):
    """With what to use instead and the version without it; the name works all the same."""
    with pytest.warns(DeprecationWarning) as caught:
        from hpometrics import Run
    text = (
        "hpometrics.Run is deprecated since hpometrics 0.2 and will be removed in 0.4; use hpometrics.NewRun"
    )
    assert [str(one.message) for one in caught] == [text]
    assert caught[0].filename == __file__
    hpometrics.__dict__.pop("Run")
    with warnings.catch_warnings(action="error"):
        assert hpometrics.Run is Run


def test_any_other_name_warns_by_a_call(monkeypatch):
    """A key of a file or an argument, once too."""
    monkeypatch.setitem(DEPRECATED, "budget.steps", Deprecated("1.9", "budget.epochs"))
    monkeypatch.setattr(_imports, "_warned", set())
    with pytest.warns(
        DeprecationWarning, match=r"^budget.steps is .* will be removed in 1.11; use budget.epochs$"
    ):
        warn_deprecated("budget.steps")
    warn_deprecated("budget.steps")


def test_no_name_outlives_its_version():
    """A release without the names that its predecessors promised to drop."""
    here = tuple(map(int, hpometrics.__version__.split(".")[:2]))
    late = {name for name, one in DEPRECATED.items() if tuple(map(int, one.removed_in.split("."))) <= here}
    assert not late, f"delete them and their entries in hpometrics/_imports.py: {late}"
