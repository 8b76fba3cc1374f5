from __future__ import annotations

import math

import pytest

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import NoFiniteValueError
from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState
from hpometrics.selection.rules import At
from hpometrics.selection.selection import Best, Picker, best_by, median_record, pick_trial, ranked

NAN, INF = math.nan, math.inf


def trial(number: int, value: float | None, state: TrialState = TrialState.COMPLETE, **facts) -> TrialRecord:
    """A finished trial."""
    return TrialRecord(number, {"n": number}, state, value, 0, **facts)


def picks(picker: Picker, values: list[float]) -> list[int | None]:
    """The picked epoch after each value."""
    indices = []
    for value in values:
        picker.add(value)
        indices.append(picker.index)
    return indices


@pytest.mark.parametrize(
    ("values", "direction", "at", "epoch"),
    [
        ([0.1, 0.9, 0.2], MAXIMIZE, At.BEST, 1),
        ([0.1, 0.9, 0.2], MINIMIZE, At.BEST, 0),
        ([0.1, 0.9, 0.2], MAXIMIZE, At.LAST, 2),
        ([0.5, 0.7, 0.7], MAXIMIZE, At.BEST, 1),
        ([NAN, 0.3, NAN], MAXIMIZE, At.BEST, 1),
        ([INF, 0.3, 0.2], MAXIMIZE, At.BEST, 1),
        ([-INF, 0.3, 0.2], MINIMIZE, At.BEST, 2),
    ],
)
def test_the_epoch_that_counts(values, direction, at, epoch):
    """Best or last; the earliest of equals; nan and infinity never win."""
    assert picks(Picker(direction, at), values)[-1] == epoch


def test_a_gain_within_tol_is_none():
    """0.705 is no more than 0.01 better than 0.7, so the earlier epoch stays."""
    assert picks(Picker(MAXIMIZE, tol=0.01), [0.7, 0.705, 0.72]) == [0, 0, 2]


@pytest.mark.parametrize(("values", "at"), [([], At.BEST), ([NAN, INF], At.BEST), ([0.9, NAN], At.LAST)])
def test_no_finite_value_is_nan(values, at):
    """Nothing to pick has the value nan, also when only the last epoch is nan and the last counts."""
    picker = Picker(MAXIMIZE, at)
    picks(picker, values)
    assert math.isnan(picker.value)


def test_the_picked_epoch_at_each_moment():
    """None before a finite value, then the earliest of the best so far; nan and infinity change nothing."""
    values = [NAN, 0.2, 0.1, INF, 0.4, 0.4, NAN, 0.9, -INF]
    assert picks(Picker(MAXIMIZE), values) == [None, 1, 1, 1, 4, 4, 4, 7, 7]


def test_the_best_trial_is_complete_and_the_earliest_of_equals():
    """A pruned trial with a better value does not win, nor does a later equal one, whatever the order."""
    records = [trial(3, 0.8), trial(0, 0.99, TrialState.PRUNED), trial(1, 0.5), trial(2, 0.8), trial(4, NAN)]
    assert pick_trial(records, MAXIMIZE).number == 2
    assert pick_trial(records, MINIMIZE).number == 1


def test_no_complete_trial_says_what_there_was():
    """The error counts the states and quotes the last reason."""
    records = [
        trial(0, 0.1, TrialState.PRUNED),
        trial(1, None, TrialState.FAILED, reason="RuntimeError: shape"),
    ]
    with pytest.raises(NoFiniteValueError, match=r"1 pruned, 1 failed \(trial 1: RuntimeError: shape\)"):
        pick_trial(records, MAXIMIZE)
    with pytest.raises(NoFiniteValueError, match="none has started"):
        pick_trial([], MAXIMIZE)


def test_the_ranking_puts_what_is_not_complete_last():
    """Complete trials by value, then the others by number."""
    records = [
        trial(0, 0.9, TrialState.PRUNED),
        trial(1, 0.1),
        trial(2, 0.7),
        trial(3, None, TrialState.FAILED),
    ]
    assert [r.number for r in ranked(records, MAXIMIZE)] == [2, 1, 0, 3]


def test_the_median_of_fresh_trainings_is_that_of_their_values():
    """Some of them break a constraint that their mean keeps; they count as the others."""
    broken = {"state": TrialState.INFEASIBLE, "constraints": {"ms <= 1": 0.1}}
    records = [trial(1, 0.9, **broken), trial(2, 0.6), trial(3, 0.8, **broken), trial(4, 0.5), trial(5, 0.7)]
    assert median_record(records, MAXIMIZE).value == 0.7
    assert median_record(records[:4], MAXIMIZE).value == 0.6  # of 0.8 and 0.6 the worse
    assert median_record(records[:4], MINIMIZE).value == 0.8


def test_best_has_all_values_of_its_epoch():
    """The values beside the metric are those of the picked epoch, not of the last."""
    epochs = (EpochRecord(0, {"f1": 0.9, "loss": 0.3}), EpochRecord(1, {"f1": 0.2, "loss": 0.1}))
    best = best_by([trial(5, 0.9, epochs=epochs)], {"f1": MAXIMIZE})
    assert (best.trial, best.value, best.epoch, best.params) == (5, 0.9, 0, {"n": 5})
    assert best.values == {"f1": 0.9, "loss": 0.3}


def test_the_best_is_a_table_in_a_notebook():
    """Values with their direction, then the params; a secret stays one."""
    record = TrialRecord(3, {"lr": 0.1, "key": {"secret": "TOKEN"}}, TrialState.COMPLETE, 0.5, 1)
    page = Best.of(record, {"loss": MINIMIZE})._repr_html_()
    assert page.startswith("<table><caption>trial 3, epoch 1</caption><tr><th>metric</th><th>value</th></tr>")
    assert "<td>loss v</td><td>0.5</td>" in page
    assert page.endswith("<td>lr</td><td>0.1</td></tr><tr><td>key</td><td>***</td></tr></table>")
