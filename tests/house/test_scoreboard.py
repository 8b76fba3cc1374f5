"""The benchmarks: every row of the table agrees at a small size; a figure and a bar say what is missed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from confirm_bars import Figure as BarFigure, Output, columns, mean_of, ratio_of
from growth import Growth, works
from rows.references import reference_rows
from rows.row import Figure, Row, figure_of, quiet
from scoreboard import ROWS, chosen_rows, line_of

from hpometrics.metrics.registry.index import all_entries

ELSEWHERE = ("import, first metric", "import, OptunaObjective", "map")
"""Rows of fresh processes, which have no values; faster-coco-eval, which needs torchvision."""


def few(size: int) -> int:
    """A hundredth of an amount, but 64 where there are so many."""
    return max(size // 100, min(size, 64))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for name in ROWS if name not in ELSEWHERE])
def test_ours_and_the_peer_agree(name):
    """What is timed gives the same values."""
    with quiet():
        assert figure_of(ROWS[name], few, turns=1).ours > 0


def work(value: float) -> Row:
    """A row that takes no time and gives two values."""
    return Row(
        "w", "a list", "a peer", 2.0, ("mse",), lambda size: (lambda: [1.0, value], lambda: [1.0, 2.0])
    )


def test_values_that_differ_end_the_row():
    """A time is no figure where the values are apart."""
    assert figure_of(work(2.0), few, turns=1).row.name == "w"
    with pytest.raises(SystemExit, match=r"w: \[1\. 3\.\] here, \[1\. 2\.\] by a peer"):
        figure_of(work(3.0), few, turns=1)


def test_a_figure_beyond_its_bar_is_missed():
    """By its ratio, and by its memory where that is bounded."""
    row = work(2.0)
    assert [Figure(row, 1, 1, value).missed for value in (1.9, 2.1)] == [False, True]
    bounded = replace(row, memory=10)
    assert [Figure(bounded, 1, 1, 1.0, memory).missed for memory in (9.0, 11.0)] == [False, True]
    assert line_of(Figure(row, 0.002, 0.001, 2.1)).endswith("| 2.0 | 1.0 | 2.10 **missed** | 2 |  |")


def test_every_metric_of_a_row_is_in_the_registry():
    """`--metric` finds rows by the registered name."""
    known = {entry.name for entry in all_entries()}
    assert {metric for row in ROWS.values() for metric in row.metrics} <= known
    assert {row.name for row in chosen_rows(None, "kendall")} == {"kendall"}


def test_a_metric_without_a_row_is_timed_beside_its_oracle():
    """By the registered name; one without an oracle has none."""
    rows = chosen_rows(None, "mcc")
    assert [row.name for row in rows] == ["mcc of binary", "mcc of category"]
    with quiet():
        assert figure_of(rows[0], few, turns=1).theirs > 0
    assert reference_rows("no_such_metric") == []
    with pytest.raises(SystemExit, match="no row for 'no_such_metric'"):
        chosen_rows(None, "no_such_metric")


def test_growth_is_an_exponent_beside_a_floor():
    """Of the last decade: ten times as long is linear, a hundred times is not; short times say nothing."""
    linear, square = Growth(10_000, (0.1, 1.0), (1, 10)), Growth(10_000, (0.1, 10.0), (1, 10))
    assert (linear.of_time, square.of_time, linear.of_memory) == pytest.approx((1.0, 2.0, 1.0))
    assert (linear.missed, square.missed) == (False, True)
    sorting = replace(linear, seconds=(0.1, 1.2), floor=(0.01, 0.12))
    assert sorting.of_time == pytest.approx(1.0) and not sorting.missed
    assert replace(linear, seconds=(1e-4, 1e-2)).of_time is None
    assert replace(linear, memory=(1, 99)).missed


def test_each_statistic_is_varied_once_for_an_output():
    """Along rows, and along what a row has many of."""
    (rows, labels) = works("Scores accuracy_max(average=micro) set")
    assert (rows.along, labels.along, rows.sorts) == ("rows", "labels", True)
    assert rows.measure_at(50)() == pytest.approx(rows.measure_at(50)())
    assert labels.measure_at(4)() > 0


def test_a_bar_has_its_figure_with_the_error_and_is_named_if_it_is_missed(tmp_path, capsys):
    """Printed, and in the file, which also holds each table with its errors."""
    worlds = [{"a": {"loss": loss, "trainings": 40.0}} for loss in (0.01, 0.03)]
    output = Output({"worlds": 2}, tmp_path / "output.json")
    found = columns(worlds)
    output.show("digits", found, ("loss", "trainings"))
    output.hold("bar 1, digits: loss", mean_of(found["a"]["loss"], 100), 1.5, " points")
    output.reach("bar 5, power", BarFigure(80.0), 70, " %")
    output.close()
    printed = capsys.readouterr().out
    assert "  MISSED bar 1, digits: loss: 2 +- 1 points (at most 1.5 points)\n" in printed
    assert "  kept   bar 5, power: 80 % (at least 70 %)\n" in printed
    assert printed.endswith("1 of 2 bars missed:\n  bar 1, digits: loss\n")
    content = json.loads((tmp_path / "output.json").read_text())
    assert content["tables"] == {"digits": {"a": {"loss": [2.0, 1.0], "trainings": [40.0, 0.0]}}}
    assert content["settings"] == {"worlds": 2, "whole": True}
    assert [bar["kept"] for bar in content["bars"]] == [False, True]


def test_the_error_of_a_ratio_is_that_of_the_same_worlds():
    """It is 0 where one way is a multiple of the other in each world; else by the delta method."""
    base = np.array([1.0, 2.0, 3.0, 2.0])
    assert ratio_of(2 * base, base) == BarFigure(2.0, 0.0)
    draws = np.random.default_rng(0).normal([1.0, 2.0], 0.3, (400, 50, 2))
    ratios = draws[..., 0].mean(axis=1) / draws[..., 1].mean(axis=1)
    errors = [ratio_of(one[:, 0], one[:, 1]).error for one in draws]
    assert np.mean(errors) == pytest.approx(ratios.std(), rel=0.1)
