"""The laws as a class of tests: `mae` is held to it here as an author's metric would be."""

from __future__ import annotations

import pytest
from sample_metrics import Gap

from hpometrics import NUMBER
from hpometrics.exceptions import MetricNameError
from hpometrics.testing import LAWS, LawBroken, MetricLaws


class TestMeanAbsoluteError(MetricLaws):
    """Every law is a test of its own."""

    metric = "mae"
    feature_type = NUMBER


class TestAdjustedR2(MetricLaws):
    """What it breaks by nature is named, with the reason."""

    metric = "adjusted_r2"
    feature_type = NUMBER
    exempt = dict.fromkeys(("check_repetition", "check_weight_scale"), "it counts degrees of freedom")


class FirstRow(Gap):
    """Only the first row of a batch counts."""

    def get_current_value(self, preds, target):
        return (preds - target).abs()[0]


def contract(**facts) -> MetricLaws:
    """A class of tests of a metric `gap` of numbers."""
    return type("TestGap", (MetricLaws,), {"metric": "gap_here", "feature_type": NUMBER, **facts})()


def test_every_law_is_a_test():
    """None is left out, and each says what it is about."""
    tests = {name for name in vars(MetricLaws) if name.startswith("test_")}
    assert tests == {law.__name__.replace("check_", "test_") for law in LAWS}
    assert all(vars(MetricLaws)[name].__doc__ for name in tests)


def test_what_is_misspelled_is_said():
    """An exemption from no law, a metric that is no name: neither lets anything pass."""
    with pytest.raises(LawBroken, match="there is no law chek_pickle; did you mean 'check_pickle'"):
        contract(metric="mae", exempt={"chek_pickle": "a typo"}).test_reset()
    with pytest.raises(
        MetricNameError, match=r"TestGap\.metric must be the name of a registered metric, got None"
    ):
        contract(metric=None).test_reset()


def test_a_broken_law_fails_its_test(registry):
    """And an exemption that is not needed fails too."""
    registry.register_metric("gap_here", [NUMBER])(FirstRow)
    with pytest.raises(LawBroken, match="gap_here-number: rows in another order"):
        contract().test_row_order()
    contract(exempt={"check_row_order": "the first row counts"}).test_row_order()
    with pytest.raises(LawBroken, match="is exempt from check_pickle but satisfies it; remove the exemption"):
        contract(exempt={"check_pickle": "no reason"}).test_pickle()
