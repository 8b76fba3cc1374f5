from __future__ import annotations

import math
import random
import re
from pathlib import Path

import pandas
import pytest

from hpometrics.loggers.table import cell, nice_report, rows_by_task, split_name, splits_of
from hpometrics.metrics.additive import AverageMetric
from hpometrics.metrics.registry.names import MetricName
from hpometrics.metrics.reports import aggregate_named_reports

TABLES = Path(__file__).with_name("parlai_tables.txt").read_text(encoding="utf8").rstrip("\n").split("\n\n")
"""Tables that ParlAI's tutorial on metrics prints: five of an evaluation, two of two tasks in training."""


def values_of(table: str) -> dict[str, float]:
    """Read the numbers of a printed table, each of the column under whose name it ends."""
    head, *lines = table.splitlines()
    columns = {match.end(): match.group() for match in re.finditer(r"\S+", head)}
    found = {}
    for line in lines:
        task = line.split()[0] if line[3] != " " else "all"
        for match in re.finditer(r"\S+", line):
            if match.end() in columns and match.group() != task:
                name = columns[match.end()]
                found[name if task == "all" else f"{task}/{name}"] = float(match.group())
    return found


@pytest.mark.parametrize("table", TABLES, ids=map(str, range(len(TABLES))))
def test_the_tables_of_the_tutorial_are_printed_to_the_letter(table):
    """Rounded, padded, aligned, blank where a task has no value, and the row of all tasks first."""
    assert nice_report(values_of(table)) == table


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, ".5000"), (1.0, "1"), (0.0, "0"), (-0.32, "-.32"), (0.0001239, ".0001239"),
        (7.5e-06, "7.5e-06"),
        (999.94, "999.9"), (1000.5, "1000"), (14202.4, "14202"), (-14202.6, "-14203"), (339012, "339012"),
        (12, "12"), (5e20, "500000000000000000000"), (math.nan, "nan"), (math.inf, "inf"), (None, ""),
        ([[1.0, 2.0, 3.0]], "1 x 3"),
    ],
)  # fmt: skip
def test_numbers_are_printed_with_four_digits(value, text):
    """Whole numbers as they are, from 1000 on no fraction; an undefined value is seen, and none is blank."""
    assert cell(value) == text


def test_rows_are_tasks_and_another_split_is_a_report_of_its_own():
    """`all` first, then the tasks by name; `all/` is the row that names without a task are in."""
    values = {"b/loss": 2.0, "loss": 1.5, "a/loss": 1.0, "all/f1": 0.5, "test:loss": 3.0, "train:b/loss": 4.0}
    assert list(rows_by_task(values)) == ["all", "a", "b"]
    assert rows_by_task(values)["all"] == {"loss": 1.5, "f1": 0.5}
    assert rows_by_task(values, "train") == {"b": {"loss": 4.0}}
    assert splits_of(values) == ["validation", "train", "test"]
    assert [line for line in nice_report(values).splitlines() if line.endswith(":")] == [
        "validation:", "train:", "test:",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "f1",
        "train:f1",
        "convai2/f1",
        'test:a.b-c/intent.f1(average="x/y:z", beta=2)@10',
        "all/ndcg(gain=exp)@5",
    ],
)
def test_a_place_is_what_the_grammar_says(text):
    """Split and task are those of the parsed name, and the rest is the name without them."""
    name = MetricName.parse(text)
    rest = str(MetricName(name.metric, name.params, name.k, name.feature))
    assert split_name(text) == (name.split or "validation", name.task or "all", rest)


def test_what_is_no_metric_name_has_a_place_too():
    """Values are logged under any name; the last slash ends the task, as in ParlAI."""
    assert split_name("data/dir/task:x/my value") == ("validation", "data/dir/task:x", "my value")


def random_values(draw: random.Random) -> dict[str, float]:
    """Some metrics of some tasks, of all magnitudes."""
    names = [f"{'m' * draw.randint(1, 12)}{i}" for i in range(draw.randint(1, 12))]
    tasks = ["", *(f"task{i}/" for i in range(draw.randint(0, 3)))]
    places = [f"{task}{name}" for task in tasks for name in names if draw.random() < 0.7 or not task]
    return {place: draw.uniform(-1, 1) * 10 ** draw.randint(-6, 6) for place in places}


def drawn_by_pandas(values: dict[str, float], width: int) -> str:
    """The same table by pandas, in which ParlAI draws it."""
    frame = pandas.DataFrame.from_dict(rows_by_task(values), orient="index")
    text = frame[sorted(frame)].to_string(
        na_rep="", line_width=width - 3, float_format=cell, index=len(frame) > 1
    )
    return "\n".join(f"   {line}".rstrip() for line in text.splitlines() if line.strip())


@pytest.mark.parametrize("width", [40, 72, 110, 400])
def test_columns_break_where_pandas_breaks_them(width):
    """Whatever the table; the rows' names are repeated, and the mark says that more columns follow."""
    draw = random.Random(width)
    for _ in range(25):
        values = random_values(draw)
        assert nice_report(values, width) == drawn_by_pandas(values, width)


class Perplexity(AverageMetric):
    """As ParlAI writes it."""

    def value(self):
        return math.exp(super().value())


def test_a_perplexity_too_large_for_a_number_prints_as_infinite():
    """Of an untrained model; also of all tasks together, and beside others that have a number."""
    reports = {"a": {"ppl": Perplexity(800.0, 1)}, "b": {"ppl": Perplexity(2.0, 1)}}
    table = nice_report(aggregate_named_reports(reports))
    assert [line.split() for line in table.splitlines()] == [
        ["ppl"],
        ["all", "inf"],
        ["a", "inf"],
        ["b", "7.389"],
    ]
