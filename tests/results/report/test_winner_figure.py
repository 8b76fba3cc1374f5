"""The figure of a confirmed winner: what each mark is, and that nothing of the verdict is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpometrics.direction import Direction
from hpometrics.results.report.winner_figure import winner_figure
from hpometrics.selection.confirm_settings import ConfirmSettings
from hpometrics.selection.confirmation import (
    ConfirmationPlan,
    ConfirmationRecord,
    ConfirmationState,
    Contender,
    FreshRun,
)
from hpometrics.selection.confirmation_plan import plan_for
from hpometrics.selection.intervals import Interval

SETTINGS = ConfirmSettings(top=3, repeats=6, equivalence=0.001)
VALUES = {
    4: (0.90, 0.92, 0.91, 0.92, 0.90, 0.91),
    2: (0.89, 0.92, 0.90, 0.91, 0.91, 0.89),
    7: (0.50, 0.52, 0.51, 0.52, 0.50, 0.51),
}
"""The worst is out at the first look; the others are too near."""


def confirmed(values=VALUES, direction=Direction.MAXIMIZE, settings=SETTINGS):
    """How such fresh runs end."""
    sign = 1 if direction is Direction.MAXIMIZE else -1
    contenders = tuple(Contender(trial, sign * (max(each) + 0.01)) for trial, each in values.items())
    runs = {
        (trial, number): FreshRun(sign * value)
        for trial, each in values.items()
        for number, value in enumerate(each, 1)
    }
    record = ConfirmationRecord("score", direction, [ConfirmationPlan(settings, contenders)], runs)
    return plan_for(record).end


@pytest.fixture(params=list(Direction), ids=lambda direction: direction.value)
def end(request):
    """The same on a metric of each direction."""
    return confirmed(direction=request.param)


def traces(figure, place=0):
    """The traces of a drawing by name."""
    return {trace["name"]: trace for trace in figure.drawings[place]["data"]}


def test_every_fresh_training_is_a_dot_on_the_line_of_its_contender(end):
    """In the order of the standings, the winner on top; the search is a ring."""
    drawn = traces(winner_figure(end))
    axis = winner_figure(end).drawings[0]["layout"]["yaxis"]
    lines = dict(zip(axis["tickvals"], axis["ticktext"], strict=True))
    assert [lines[place] for place in (3, 2, 1, 0)] == ["trial 4", "trial 2", "trial 7", "on new rows"]
    dots = drawn["fresh trainings"]
    for place, one in zip((3, 2, 1), end.standings, strict=True):
        assert [x for x, y in zip(dots["x"], dots["y"], strict=True) if y == place] == [*one.values]
    assert drawn["search"]["x"] == [one.search_value for one in end.standings]


def test_means_are_colored_by_their_fate(end):
    """With the interval of the difference to the leader; the winner has none."""
    drawn = traces(winner_figure(end))
    winner, second, out = end.standings
    assert (drawn["winner"]["x"], drawn["still in"]["x"]) == ([winner.mean], [second.mean])
    assert drawn["out"]["x"] == [out.mean]
    assert "out after 3 (worse than trial 4, p " in drawn["out"]["text"][0]
    assert drawn["still in"]["error_x"]["array"] == [second.pair.half]
    assert drawn["winner"]["error_x"]["array"] == [0.0]


def test_the_band_is_on_the_worse_side(end):
    """As wide as what does not matter."""
    (band,) = winner_figure(end).drawings[0]["layout"]["shapes"]
    worse = end.equivalence if end.direction is Direction.MINIMIZE else -end.equivalence
    assert (band["x0"], band["x1"]) == pytest.approx((end.standing.mean, end.standing.mean + worse))


def test_the_honest_value_has_both_ends_of_its_interval(end):
    """On the lowest line."""
    trace, interval = traces(winner_figure(end))["expected on new rows"], end.honest.interval
    value, sides = trace["x"][0], trace["error_x"]
    assert (value, trace["y"]) == (interval.value, [0])
    ends = value - sides["arrayminus"][0], value + sides["array"][0]
    assert ends == pytest.approx((interval.low, interval.high))
    assert "test split" not in traces(winner_figure(end))
    tested = replace(end, honest=replace(end.honest, held_out=Interval(0.7, 0.6, 0.75)))
    beside = traces(winner_figure(tested))["test split"]
    assert (beside["x"], beside["error_x"]["array"]) == ([0.7], [pytest.approx(0.05)])


def test_each_look_has_what_may_be_lost(end):
    """Beside what does not matter; one look has no line."""
    drawn = traces(winner_figure(end), 1)
    assert drawn["may be lost"]["x"] == [look.seeds for look in end.looks] == [3, 5, 6]
    assert drawn["may be lost"]["y"] == [look.may_lose for look in end.looks]
    assert drawn["may be lost"]["text"][0] == "out: 7"
    one = confirmed(settings=replace(SETTINGS, until="spent"))
    assert len(winner_figure(one).drawings) == 1


def test_each_drawing_has_a_label(end):
    """For those who cannot see it; the words of the verdict stand above it."""
    labels = [one["layout"]["meta"]["label"] for one in winner_figure(end).drawings]
    assert labels == [
        "score of each contender, from the search and from fresh trainings",
        "possible loss by choosing the winner, after each comparison",
    ]


def test_without_a_confirmed_value_there_is_a_reason(end):
    """As where every contender failed."""
    none = replace(end, state=ConfirmationState.UNCONFIRMED, honest=None, reason="each contender failed")
    assert (winner_figure(none).caption, winner_figure(none).drawings) == (
        "Not drawn: each contender failed.",
        (),
    )
