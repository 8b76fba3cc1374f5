from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from typing import Literal

import pytest
import yaml
from matrix import failures

from hpometrics.cli.metric_list import format_evidence, format_extra_inputs, format_name, group_entries
from hpometrics.cli.metric_pages import metric_json, metric_text, usage
from hpometrics.exceptions import MetricNameError, UnknownMetricError, pip_line
from hpometrics.metrics.features import NUMBER, PREDICTIONS
from hpometrics.metrics.metric import MeanMetric
from hpometrics.metrics.registry.index import all_entries, registry
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric, register_metric


@pytest.fixture
def told(monkeypatch):
    """A metric with something to say in every part of its page; taken back afterwards."""
    monkeypatch.setattr(registry, "own", registry.own.copy())

    @register_metric("told", [NUMBER], aliases=["said", "distance"])
    class Told(MeanMetric):
        """Mean of what is told.

        It is told twice.

        Shape: preds, target: (N,).
        Value: float from 0, 0 is best; nan before the first row.
        Raises: MetricInputError: never.
        Formula: sum(x) / n
        Deviates: elsewhere it is half of that.
        Source: Somebody 1999.
        """

        direction = "minimize"
        inputs = PREDICTIONS
        requires = "audio"
        one_of = ("average", "class")
        reads_soft = True

        def __init__(
            self, *, average: Literal["a", "b"] | None = None, class_: int | None = None, k: int = 3
        ):
            super().__init__()

        def get_current_value(self, preds, target, lengths, mask=None):
            return preds

    return Told


def test_a_page_says_all_there_is(told):
    """Every fact of the entry has a line of its own."""
    lines = metric_text("told").splitlines()
    assert lines[0] == "told(average=...)"
    for line in (
        "  meaning    Mean of what is told.",
        "             It is told twice.",
        "  formula    sum(x) / n",
        "  value      float from 0, 0 is best; nan before the first row.",
        "  direction  minimize; by experiment: not tested; it is not built in",
        "  reads      predictions",
        "  features   number",
        "  shape      preds, target: (N,).",
        "  also takes lengths= (needed), mask=, target_probabilities= (soft labels)",
        "  aliases    distance, said",
        "  raises     MetricInputError: never.",
        "  deviates   elsewhere it is half of that.",
        "  source     Somebody 1999.",
        f"  needs      {pip_line('audio')}",
        "  param      average: one of a, b; required: this or class",
        "  param      class: a whole number; required: this or average",
        "  param      k: a whole number; 3 by default",
        "  in YAML    metrics: {optimize: told(average=a)}",
        '  in Python  metric = get_metric("told(average=a)", "number")',
        "             metric.update(predictions=..., target=..., lengths=...)",
    ):
        assert line in lines


def test_the_direction_has_its_experiment():
    """The values of a perfect and of two noisy models stand beside it."""
    text = metric_text("roc_auc", "binary")
    assert "  direction  maximize; by experiment: 1 (perfect), 0.8" in text
    assert "(30 % noise), 0." in text
    assert "(90 % noise)" in text


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("accuracy", "over tasks the mean of the tasks' values (tasks=micro: the value of all their rows)"),
        ("roc_auc", "over tasks the value of all their rows (tasks=macro: the mean of the tasks' values)"),
        ("confusion_matrix", "over tasks the value of all their rows"),
        ("exs", "over tasks the sum of the tasks"),
        ("clen", "over tasks the mean of the tasks' values"),
        ("gnorm", "over ranks the mean of the ranks"),
    ],
)
def test_a_page_says_how_tasks_and_ranks_make_one_value(name, line):
    """As `OverTasks` and the ranks of a process group do it."""
    assert f"  {line}" in metric_text(name).splitlines()


def test_an_alias_says_what_it_means():
    """The page is that of the metric."""
    text = metric_text("f1_macro", "category")
    assert text.startswith("f1(average=...)\n  asked      f1_macro is f1(average=macro)\n")
    assert metric_text("cross_entropy").startswith("log_loss\n  meaning")


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("val_accuracy", "val_accuracy is accuracy, unless a sweep file states its direction"),
        ("eval_hits@5", "eval_hits@5 is hits@5, unless a sweep file states its direction"),
        ("val_f1_macro", "val_f1_macro is f1_macro, unless a sweep file states its direction; f1_macro is"),
    ],
)
def test_a_name_that_a_trainer_logs_is_that_of_its_metric(name, asked):
    """As in a sweep file; only the line on the name differs from the page of the metric."""
    plain = name.partition("_")[2]
    lines = metric_text(name, "category").splitlines()
    assert lines[1].startswith(f"  asked      {asked}")
    rest = [line for line in metric_text(plain, "category").splitlines() if "  asked " not in line]
    assert [lines[0], *lines[2:]] == rest
    (facts,) = json.loads(metric_json(name, "category"))
    assert facts["meant"] == str(find_metric(plain, "category").name)


def test_a_name_that_is_logged_of_other_data_is_answered():
    """With the name that has a page, which is that of the metric."""
    with pytest.raises(UnknownMetricError, match=r"Did you mean 'test:f1'\? It can be tracked"):
        metric_text("test_f1")
    assert metric_text("test:f1", "category").startswith("f1(average=...)\n")


@pytest.mark.parametrize(
    ("name", "heads", "asked"),
    [
        ("auc", ["auc", "roc_auc"], "auc is roc_auc"),
        ("fall_out", ["fall_out@k", "false_positive_rate"], "fall_out is false_positive_rate"),
        ("iou", ["iou", "jaccard"], "iou is jaccard"),
    ],
)
def test_a_page_shows_what_a_name_means_for_each_output(name, heads, asked):
    """Also where it is the name of one metric and an alias of another."""
    pages = metric_text(name).split("\n\n")
    assert {page.splitlines()[0].partition("(")[0] for page in pages} == set(heads)
    said = [page.splitlines()[0].partition("(")[0] for page in pages if f"  asked      {asked}" in page]
    assert set(said) == {heads[1]}
    means = {told["name"]: told["meant"] for told in json.loads(metric_json(name))}
    assert means == {heads[0].partition("@")[0]: None, heads[1]: heads[1]}


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "nDCG@10",
            "ndcg(gain=warprec), as in WarpRec; what ir_measures calls nDCG is ndcg(gain=linear) here",
        ),
        ("MAP", "map(norm=min), as in RecBole and WarpRec; what ir_measures calls MAP is map(norm=n) here"),
        ("map", "what ranx calls map is map(norm=n) here"),
        ("ndcg", "ndcg(gain=linear), as in ranx"),
    ],
)
def test_a_page_says_whose_the_name_of_a_ranking_is(name, line):
    """What the libraries disagree on is in full, a default too."""
    assert f"  elsewhere  {line}" in metric_text(name, "ranking").splitlines()
    assert "  elsewhere" not in metric_text("f1", "category")


def test_a_capital_that_only_a_ranking_has_is_pointed_out():
    """`Recall` is WarpRec's name; who has a category in mind is told the name of that."""
    line = "  asked      Recall is a metric of ranking; that of binary, category, set, text is recall"
    assert line in metric_text("Recall").splitlines()
    assert "  asked" not in metric_text("Recall", "ranking") + metric_text("recall")


def test_a_page_is_wrapped_for_a_terminal():
    """No line is longer, but for a word that is."""
    assert max(map(len, metric_text("roc_auc", width=80).splitlines())) <= 80


def test_a_page_says_what_ordinary_data_it_refuses():
    """So that nobody looks for it in the group `all`."""
    line = "             of number, timeseries, vector: not in `all`; rmsle and msle need"
    assert line in metric_text("rmsle")
    assert "not in `all`; ctc: a target contains the blank" in metric_text("ctc", "text")
    assert "not in `all`" not in metric_text("mae")


def test_an_unknown_name_suggests():
    """As everywhere."""
    with pytest.raises(UnknownMetricError, match="Did you mean 'f1_macro'"):
        metric_text("f1_marco")


def test_every_example_can_be_used(entries):
    """The YAML reads, the Python parses, and the name in them is the metric."""

    def check(entry):
        sweep, code = usage(entry)
        section = yaml.safe_load(sweep)["metrics"]
        name = section["optimize"] if entry.direction else section["track"][0]
        assert entry in find_metric(name, entry.feature_type).entries
        assert ast.parse(code)

    assert failures(entries, check) == []


def test_every_example_can_be_built(entries):
    """By the name that the page shows, for the output that it shows."""

    def check(entry):
        assert get_metric(entry.example, entry.feature_type).output.type == entry.feature_type

    assert failures((entry for entry in entries if not entry.requires), check) == []


def test_every_entry_has_a_page(entries):
    """With its evidence, its form, its output, and the shape of what it reads."""

    def check(entry):
        text = metric_text(entry.name, entry.feature_type)
        assert entry.shape and f"  shape      {entry.shape}\n" in text
        assert text.startswith(format_name(entry))
        assert next(format_evidence([entry])) in text
        assert all(f"{extra}=" in format_extra_inputs([entry]) for extra in entry.extras)

    assert failures(entries, check) == []


def test_entries_that_differ_in_the_output_only_stand_together():
    """Each once, whatever their number."""
    groups = group_entries(all_entries())
    assert sorted(str(entry) for group in groups for entry in group) == sorted(map(str, all_entries()))
    assert all(len({(e.name, e.path, e.summary) for e in group}) == 1 for group in groups)


def test_a_parameter_that_is_none_is_refused():
    """A page is not shown for a name that could not be built."""
    with pytest.raises(
        MetricNameError, match=r"average must be one of binary, micro, macro, weighted, got 'bad'"
    ):
        metric_text("f1(average=bad)", "binary")


@pytest.mark.parametrize("name", ["roc_auc", "f1", "f1(class=3)"])
def test_a_metric_of_the_name_comes_first(name):
    """`gauc` of a ranking and `dice` of a mask go by these names too, and are told after them."""
    word = name.partition("(")[0]
    heads = [re.split(r"[(@]", page.splitlines()[0])[0] for page in metric_text(name).split("\n\n")]
    own = [head == word for head in heads]
    assert own[0] and not own[-1] and own == sorted(own, reverse=True)
    assert [told["name"] == word for told in json.loads(metric_json(name))] == own


def test_an_installed_package_groups_entries_alike():
    """Its index lacks the texts that stand in the class, and by no such text alone do entries differ."""
    entries = [entry for entry in all_entries() if entry.is_built_in]
    bare = dict.fromkeys(("docs", "raises", "deviates", "source", "shape", "formula"), "")
    groups, lean = (
        [[*map(str, group)] for group in group_entries(some)]
        for some in (entries, [replace(entry, **bare) for entry in entries])
    )
    assert lean == groups
