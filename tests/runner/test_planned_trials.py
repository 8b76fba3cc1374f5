from __future__ import annotations

import json

import pytest
from sample_sweeps import SWEEP, changed, plan_of

from hpometrics.results.run_directory import RunDirectory
from hpometrics.runner.planned_trials import sample

TPE = changed("{sampler: random, seed: 3}", "{sampler: {tpe: {n_startup_trials: 2}}, seed: 3}")


def test_a_param_may_depend_on_the_choice_of_nothing():
    """Null is an option like any other: alone, and in a list."""
    space = "  decay: {choice: [null, cosine, step]}\n  cut: {float: [0, 1], when: {decay: %s}}\nmetrics:"
    for wanted, values in (("null", {None}), ("[null, step]", {None, "step"})):
        text = changed("metrics:", space % wanted)
        drawn = sample(plan_of(text.replace("trials: 4", "trials: 20")), 20).params
        assert {params["decay"] for params in drawn} == {None, "cosine", "step"}
        assert {params["decay"] for params in drawn if "cut" in params} == values


@pytest.mark.parametrize(
    ("search", "count"),
    [
        ("{sampler: random, seed: 3}", 4),
        ("{sampler: {tpe: {n_startup_trials: 3}}, seed: 3}", 3),
        ("{sampler: qmc, seed: 3}", 4),
        ("{sampler: {nsga2: {population_size: 2}}, start: [{lr: 0.02}]}", 2),
    ],
    ids=lambda value: str(value),
)
def test_run_tries_what_was_sampled(sweep, folder, search, count):
    """Trial by trial, to the last digit, up to the first that depends on a value."""
    text = changed("{sampler: random, seed: 3}", search)
    drawn = sample(plan_of(text), 4)
    assert sweep(text).exit_code == 0
    ran = [dict(record.params) for record in RunDirectory(folder / "runs/sweep").records()]
    assert list(drawn.params) == ran[:count]
    assert (drawn.learner is None) == (count == 4)


def test_a_grid_and_a_list_are_sampled_in_their_order():
    """As they are, up to the end of them; nobody draws."""
    grid = changed("{float: [1e-4, 1e-1], log: true}", "{choice: [0.1, 0.2]}")
    points = sample(plan_of(grid.replace("random", "grid")), 9).params
    assert [point["lr"] for point in points] == [0.1, 0.1, 0.2, 0.2]
    listed = "engine: a:b\nmetrics: {optimize: roc_auc}\nbackend: {list: [{lr: 3}, {lr: 1}]}\nbudget: {}\n"
    assert sample(plan_of(listed), 1).params == ({"lr": 3},)


def test_the_budget_ends_the_sample():
    """No trial is shown that no run would have."""
    drawn = sample(plan_of(SWEEP), 10)
    assert (len(drawn.params), drawn.learner) == (4, None)


def test_check_prints_the_sample_and_where_it_depends_on_values(sweep):
    """Each trial on a line, fixed params left out; then who goes on by values."""
    result = sweep(
        TPE.replace("output: binary", "output: binary, params: {batch: 8}"), "--sample", "3", command="check"
    )
    assert result.exit_code == 0
    shown = [line for line in result.stdout.splitlines() if line.startswith("  #")]
    assert len(shown) == 3 and "lr=" in shown[0] and "depth=" in shown[0] and "batch" not in shown[0]
    assert shown[2].split(maxsplit=2) == ["#2", "...", "tpe draws depending on the values of earlier trials"]


def test_check_gives_the_sample_as_json(sweep):
    """The params whole, fixed ones included."""
    told = json.loads(sweep(TPE, "--sample", "3", "--json", command="check").stdout)
    assert [list(params) for params in told["sample"]["params"]] == [["lr", "depth", "width"]] * 2
    assert told["sample"]["learner"] == "tpe"


@pytest.mark.parametrize(
    ("text", "sampler"),
    [
        (changed("sampler: random", "sampler: tpe, from: runs/before"), "sampler tpe"),
        (
            changed("sampler: random", "pruner: {pbt_replay: {run: runs/before}}") + "backend: ray\n",
            "search ",
        ),
    ],
    ids=["warm start", "replay"],
)
def test_check_draws_nothing_where_an_earlier_sweep_comes_first(sweep, text, sampler):
    """`check` reads no earlier sweep, and says if it is missing."""
    shown = sweep(text, "--sample", "2", command="check").stdout
    assert "runs/before does not exist: run that sweep first" in shown
    assert "runs/before: run reads their params at the start\n" in shown
    assert sampler in shown and ("sampler" in shown) == ("sampler" in sampler)
    facts = json.loads(sweep(text, "--sample", "2", "--json", command="check").stdout)
    assert facts["sample"] == {"params": [], "learner": None, "earlier": ["runs/before"]}
    assert facts["lacks"][-1] == "runs/before does not exist: run that sweep first"


def test_a_search_that_was_not_a_population_is_not_replayed(sweep):
    """It has no schedule: each trial would train the params of the best one; no trial begins."""
    assert sweep(changed("trials: 4", "trials: 1")).exit_code == 0
    text = changed("sampler: random", "pruner: {pbt_replay: {run: runs/sweep}}")
    refused = sweep(f"{text}backend: ray\nname: replayed\n")
    assert refused.exit_code == 2
    assert (
        "search.pruner: pbt_replay: runs/sweep was a search with pruner: none, in which no" in refused.stderr
    )
    assert "name the directory of a search with pbt or pb2" in refused.stderr
