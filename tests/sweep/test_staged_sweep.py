from __future__ import annotations

import json
import sys

import pytest
from sample_sweeps import changed, hpometrics

from hpometrics.evaluation import EngineParams
from hpometrics.search.record import TrialState
from hpometrics.sweep.directory import RunDirectory
from hpometrics.sweep.loader import read_document

STAGED = """\
engine: {target: toy_stages:Guesser, output: number, params: {data_source.scale: 2.0}}
space:
  algorithms: {choice: [once, twice]}
  algorithms.once.guess: {float: [0.0, 8.0], step: 4.0, when: {algorithms: once}}
  algorithms.twice.guess: {choice: [1.0, 2.0], when: {algorithms: twice}}
metrics: {optimize: mae, track: [toy_stages:Distance, rmse]}
search: {sampler: grid}
budget: {trials: 5}
"""
POINTS = [
    {"algorithms": "once", "algorithms.once.guess": 0.0},
    {"algorithms": "once", "algorithms.once.guess": 4.0},
    {"algorithms": "once", "algorithms.once.guess": 8.0},
    {"algorithms": "twice", "algorithms.twice.guess": 1.0},
    {"algorithms": "twice", "algorithms.twice.guess": 2.0},
]
OWN = """\
engine: toy_stages:GuessEvaluation
space: {algorithms.once.guess: {choice: [1.0, 2.5, 7.0]}}
search: {sampler: grid}
budget: {trials: 3}
"""


def records(folder):
    """The trials of the sweep in this folder."""
    return RunDirectory(folder / "runs" / "sweep").records()


def expected(params):
    """The mean distance to 2, 4 and 12 of what is guessed."""
    guess = params.get("algorithms.once.guess", 2 * params.get("algorithms.twice.guess", 0.0))
    return sum(abs(guess - answer) for answer in (2.0, 4.0, 12.0)) / 3


def test_a_sweep_over_engine_params(sweep, folder):
    """Paths are params, registered metrics and metrics of tuples are recorded, the data are read once."""
    result = sweep(STAGED)
    assert result.exit_code == 0, result.output
    found = records(folder)
    assert [{k: v for k, v in r.params.items() if k != "data_source.scale"} for r in found] == POINTS
    for record in found:
        assert record.value == pytest.approx(expected(record.params))
        assert record.picked_values["Distance"] == record.value
        assert {"mae(folds=mean)", "rmse", "rmse(folds=deviation)"} <= record.picked_values.keys()
    assert (folder / "reads").read_text() == "read\n"
    assert "Stages: 12 of 20 stages carried out (data_source 1/5, preparator 1/5, " in result.stderr
    assert "  mae: 3.33333       (minimize)\n" in result.stdout
    assert "  algorithms.once.guess: 4.0\n" in result.stdout
    assert result.stdout.endswith("saved best.yaml, best.json, trials.csv, study.db in runs/sweep\n")


def test_both_files_hold_the_best(sweep, folder):
    """`best.yaml` the params by their paths, `best.json` the engine params that they make."""
    sweep(STAGED)
    home = folder / "runs" / "sweep"
    told = read_document(home / "best.yaml").data
    assert told["params"] == {
        "algorithms": "once", "algorithms.once.guess": 4.0, "data_source.scale": 2.0,
    }  # fmt: skip
    assert told["engine"] == "toy_stages:Guesser"
    written = (home / "best.json").read_text()
    assert '"engineFactory": "toy_stages:Guesser"' in written
    scores = {"mae": told["value"], "Distance": told["value"], "rmse": told["values"]["rmse"]}
    assert json.loads(written)["evaluation"]["scores"] == scores
    assert EngineParams.from_json(written) == EngineParams.of_values(told["params"])


def test_the_list_finds_what_the_grid_finds(sweep, folder):
    """The same points, the same values to the last digit, the same best."""
    grid = sweep(STAGED, "--set", "results.dir=runs/grid").stdout
    head, _, tail = STAGED.partition("space:")
    metrics = tail[tail.index("metrics:") : tail.index("search:")]
    result = sweep(f"{head}{metrics}backend: {{list: {POINTS}}}\nbudget: {{}}\n")
    assert result.exit_code == 0, result.output
    wanted = RunDirectory(folder / "runs" / "grid").records()
    assert [dict(r.picked_values) for r in records(folder)] == [dict(r.picked_values) for r in wanted]
    assert optimal(result.stdout) == optimal(grid)


def optimal(printed):
    """The lines of the optimal engine params."""
    block = printed[printed.index("Optimal Engine Params") : printed.index("saved ")]
    return sorted(" ".join(line.split()) for line in block.splitlines())


def test_an_evaluation_has_its_own_metrics(sweep, folder):
    """Where the file names none; the direction is theirs."""
    result = sweep(OWN)
    assert result.exit_code == 0, result.output
    assert [r.value for r in records(folder)] == [2.0, pytest.approx(11 / 6), 4.0]
    assert {"Distance: 1.83333 (minimize)", "Near(within=2.0): 0.666667 (maximize)"} <= {
        *optimal(result.stdout)
    }
    resolved = read_document(folder / "runs" / "sweep" / "sweep.resolved.yaml").data
    assert (resolved["metric"], resolved["objective_from"]) == ("Distance", "engine")
    written = json.loads((folder / "runs" / "sweep" / "best.json").read_text())
    assert written["evaluation"]["class"] == "toy_stages:GuessEvaluation"


def test_a_file_may_judge_an_evaluation_by_other_metrics(sweep, folder):
    """By an instance in its module, with the evaluation's output."""
    text = OWN + "metrics: {optimize: toy_stages:near_by_two, track: [mae]}\n"
    result = sweep(text)
    assert result.exit_code == 0, result.output
    assert [r.value for r in records(folder)] == [pytest.approx(2 / 3)] * 2 + [pytest.approx(1 / 3)]


def test_a_target_may_have_a_base(sweep, folder):
    """What `vary` gave is an engine that knows the values there are."""
    text = changed("toy_stages:GuessEvaluation", "toy_stages:based", OWN)
    assert sweep(text).exit_code == 0
    result = sweep(changed("once.guess", "once.gess", text))
    assert result.exit_code == 2
    assert (
        "sweep.yaml:2:9: space.algorithms.once.gess: there is no 'gess' in {'guess': 1.0}; the values are at"
        in result.stderr
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "  algorithms.twice.guess",
            "  algorithm.twice.guess",
            "sweep.yaml:5:3: space.algorithm.twice.guess: engine params have no stage 'algorithm'; did you",
        ),
        (
            "[once, twice]",
            "[once, twice, thrice]",
            "sweep.yaml:2:1: space: Guesser.algorithms has no 'thrice'; there are 'once', 'twice'",
        ),
        ("data_source.scale", "data.scale", "engine.params.data.scale: engine params have no stage 'data'"),
        ("mae", "toy_stages:Nearest", "metrics: toy_stages has no 'Nearest'; did you mean 'Near'?"),
        (
            "mae",
            "toy_stages:Guesser",
            "toy_stages:Guesser is a class, no metric; it has Near, Distance, near_",
        ),
        (
            "mae",
            "{metric: toy_stages:Near, direction: minimize}",
            "metrics: toy_stages:Near is to maximize, but direction says minimize",
        ),
        (
            "optimize: mae, track: [toy_stages:Distance, rmse]",
            "at: last",
            "engine.target: is an engine without an evaluation, so the file says what is optimised",
        ),
        (
            "output: number, ",
            "",
            "metrics: 'mae' is measured by the registry, which must know what the engine",
        ),
        (
            "Guesser,",
            "based,",
            "metrics: states its own metrics, output and seed; leave those of the file out",
        ),
    ],
)
def test_what_cannot_be_searched_is_refused_before_the_first_trial(sweep, folder, old, new, message):
    """With the place in the file; nothing is evaluated."""
    result = sweep(changed(old, new, STAGED))
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (folder / "runs").exists() and not (folder / "reads").exists()


def test_a_function_does_not_say_what_is_optimised(sweep):
    """A file that names no metric is right only for an evaluation, which `run` finds out."""
    text = "engine: toy_engine:train\nspace: {lr: {float: [0, 1]}}\nbudget: {trials: 1}\n"
    assert sweep(text, command="check").exit_code == 0
    result = sweep(text)
    assert result.exit_code == 2
    assert "metrics: does not say what is optimised; say it as in optimize: accuracy" in result.stderr


def test_check_imports_no_stage(sweep, monkeypatch):
    """It leaves to `run` what only the engine knows."""
    result = sweep(OWN, command="check")
    assert result.exit_code == 0, result.output
    assert "as the engine says   direction <- settled by run" in result.stdout
    assert "toy_stages" not in sys.modules


def test_a_candidate_that_fails_is_a_record_with_its_reason(sweep, folder):
    """The others go on; where all fail there is no best."""
    result = sweep(changed("[1.0, 2.5, 7.0]", "[1.0, crash]", OWN))
    assert result.exit_code == 0, result.output
    assert [r.state for r in records(folder)] == [TrialState.COMPLETE, TrialState.FAILED]
    assert records(folder)[1].reason.startswith("TypeError: can only concatenate str")
    assert (folder / "runs" / "sweep" / "best.json").exists()
    result = sweep(changed("[1.0, 2.5, 7.0]", "[crash]", OWN), "--fresh")
    assert result.exit_code == 3
    assert not (folder / "runs" / "sweep" / "best.json").exists()


def test_running_twice_evaluates_nothing_the_second_time(sweep, folder):
    """The record is the same, and so is what is printed."""
    first, second = sweep(STAGED), sweep(STAGED)
    assert first.stdout == second.stdout
    assert (folder / "reads").read_text() == "read\n"


@pytest.mark.ray
def test_ray_evaluates_the_same(folder):
    """A worker imports the engine, and its metrics by name and by path."""
    (folder / "sweep.yaml").write_text(f"{STAGED}backend: {{ray: {{workers: 1}}}}\n")
    process = hpometrics("run", "sweep.yaml")
    printed, told = process.communicate(timeout=300)
    assert process.returncode == 0, told
    assert [r.value for r in records(folder)] == [pytest.approx(expected(r.params)) for r in records(folder)]
    assert len(records(folder)) == 5
    assert "  algorithms.once.guess: 4.0\n" in printed
    assert (folder / "runs" / "sweep" / "best.json").exists()
