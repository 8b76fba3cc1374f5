from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner
from forked import hpometrics
from matrix import EXHAUSTIVE
from sample_sweeps import SWEEP, changed

from hpometrics.cli.main import main
from hpometrics.config.document import read_document
from hpometrics.evaluation import EngineParams
from hpometrics.records.trial_record import TrialState
from hpometrics.results.run_directory import RunDirectory

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


BARE = """\
from hpometrics import Engine
from hpometrics.engines import Fold


class Numbers:
    def __init__(self, params):
        pass

    def read_eval(self):
        return [Fold(None, 0, [("q", 6.0)])]


class Constant(Numbers):
    def train(self, prepared):
        return 4.0

    def predict(self, model, queries):
        return [model] * len(queries)


class Bare(Engine):
    data_sources = {"": Numbers}
    algorithms = {"once": Constant, "twice": Constant}
"""


def records(folder):
    """The trials of the sweep in this folder."""
    return RunDirectory(folder / "runs" / "sweep").records()


def expected(params):
    """The mean distance to 2, 4 and 12 of what is guessed."""
    guess = params.get("algorithms.once.guess", 2 * params.get("algorithms.twice.guess", 0.0))
    return sum(abs(guess - answer) for answer in (2.0, 4.0, 12.0)) / 3


def test_a_sweep_over_engine_params(swept, folder):
    """Paths are params, registered metrics and metrics of tuples are recorded, the data are read once."""
    result = swept(STAGED)
    assert result.exit_code == 0, result.output
    found = records(folder)
    assert [{k: v for k, v in r.params.items() if k != "data_source.scale"} for r in found] == POINTS
    for record in found:
        assert record.value == pytest.approx(expected(record.params))
        assert record.picked_values["Distance"] == record.value
        assert {"mae(folds=mean)", "rmse", "rmse(folds=deviation)"} <= record.picked_values.keys()
    assert (folder / "reads").read_text() == "read\n"
    assert "Stages: 12 of 20 stages run (data_source 1/5, preparator 1/5, " in result.stderr
    assert "  mae: 3.33333       (minimize)\n" in result.stdout
    assert "  algorithms.once.guess: 4.0\n" in result.stdout
    assert result.stdout.endswith("saved best.yaml, best.json, trials.csv, study.db in runs/sweep\n")


def test_the_base_class_may_come_from_any_public_module(sweep, folder):
    """An engine of stages is one, even if its module never imports `hpometrics.evaluation`."""
    (folder / "bare_stages.py").write_text(BARE)
    text = changed("toy_stages:Guesser", "bare_stages:Bare", STAGED)
    command = [sys.executable, "-m", "hpometrics", "run", "sweep.yaml"]
    (folder / "sweep.yaml").write_text(changed(", track: [toy_stages:Distance, rmse]", "", text))
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert [record.value for record in records(folder)] == pytest.approx([2.0] * 5)


def test_both_files_hold_the_best(swept, folder):
    """`best.yaml` the params by their paths, `best.json` the engine params that they make."""
    swept(STAGED)
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
    assert optimal(result.stdout) == optimal(grid.replace("runs/grid", "runs/sweep"))


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
            "toy_stages:Guesser is a class, not a metric; toy_stages has Near, Distance, near_",
        ),
        (
            "mae",
            "{metric: toy_stages:Near, direction: minimize}",
            "metrics: toy_stages:Near must be maximized, but direction minimizes it",
        ),
        (
            "optimize: mae, track: [toy_stages:Distance, rmse]",
            "at: last",
            "engine.target: is an engine without an evaluation; name the metric in the sweep file",
        ),
        (
            "output: number, ",
            "",
            "metrics: 'mae' comes from the registry, which must know what the engine",
        ),
        (
            "Guesser,",
            "based,",
            "metrics: states its own metrics and output; leave them out of the sweep file",
        ),
    ],
)
def test_what_cannot_be_searched_is_refused_before_the_first_trial(sweep, folder, old, new, message):
    """With the place in the file; nothing is evaluated."""
    result = sweep(changed(old, new, STAGED))
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (folder / "runs").exists() and not (folder / "reads").exists()


def test_a_function_does_not_say_what_is_optimized(sweep):
    """A file that names no metric is right only for an evaluation, which `run` finds out."""
    text = "engine: toy_engine:train\nspace: {lr: {float: [0, 1]}}\nbudget: {trials: 1}\n"
    assert sweep(text, command="check").exit_code == 0
    result = sweep(text)
    assert result.exit_code == 2
    assert "metrics: does not name the metric to optimize; write it as in optimize: accuracy" in result.stderr


def test_check_imports_no_stage(sweep, monkeypatch):
    """It leaves to `run` what only the engine knows."""
    result = sweep(OWN, command="check")
    assert result.exit_code == 0, result.output
    assert "as the engine states   direction <- settled by run" in result.stdout
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


def test_constraints_are_about_scores(sweep, folder):
    """Of a registered metric that they bring along, or of the evaluation's own; no others."""
    result = sweep(changed("track:", "constraints: ['mape <= 0.8'], track:", STAGED))
    assert result.exit_code == 0, result.output
    assert "  mape: 0.555556" in result.stdout
    assert "(ok 3, infeas. 2)" in result.stdout
    own = sweep(f"{OWN}metrics: {{constraints: ['Distance <= 2']}}\n", "--fresh")
    assert "(ok 2, infeas. 1)" in own.stdout
    wrong = sweep(f"{OWN}metrics: {{constraints: ['rmse <= 2']}}\n", "--fresh")
    assert wrong.exit_code == 2
    assert (
        "metrics.constraints: rmse <= 2: the evaluation does not measure rmse; it measures Distance, "
        in wrong.stderr
    )


@pytest.mark.parametrize("form", ["md", "html"])
def test_a_sweep_by_a_metric_of_the_engine_has_a_report(swept, folder, form):
    """It says whose the direction is."""
    assert swept(OWN).exit_code == 0
    told = CliRunner().invoke(main, ["report", "runs/sweep", "-f", form])
    assert told.exit_code == 0, told.output
    assert "metric of the engine states" in (folder / f"runs/sweep/report.{form}").read_text()


def replayed(*arguments: str):
    """What `hpometrics replay` gives."""
    return CliRunner().invoke(main, ["replay", *arguments])


JUDGED = OWN + "metrics: {optimize: toy_stages:near_by_two, track: [mae]}\n"
BASED = changed("toy_stages:GuessEvaluation", "toy_stages:based", OWN)


@pytest.mark.parametrize("text", [OWN, STAGED, JUDGED, BASED])
def test_a_sweep_over_engine_params_is_replayed(sweep, folder, text):
    """To the last digit: its best trial, and each `best.json` by what it says itself, without the file."""
    assert sweep(text).exit_code == 0
    assert sweep(text, command="eval").exit_code == 0
    (folder / "sweep.yaml").write_text("changed since\n")
    for what in ("runs/sweep", "runs/sweep/best.json", "runs/sweep-eval"):
        result = replayed(what)
        assert result.exit_code == 0, result.output
        assert result.stdout.endswith("matches the record, to the last digit\n")


def test_a_best_json_says_what_its_file_stated(swept, folder):
    """Another evaluation may be named; what is not what a sweep file says is refused."""
    swept(STAGED, command="eval")
    path = folder / "runs" / "sweep-eval" / "best.json"
    shown = replayed(str(path)).stdout.splitlines()
    assert shown[0] == f"replaying {path}: toy_stages:Guesser as {folder / 'sweep.yaml'} states, seed 0"
    other = replayed(str(path), "toy_stages:GuessEvaluation")
    assert "has scores of mae, Distance, rmse" not in other.output
    assert other.stdout.splitlines()[1].endswith("as recorded")
    told = json.loads(path.read_text())
    told["evaluation"]["stated"] = {"target": "toy_stages:Guesser", "optimise": "mae"}
    path.write_text(json.dumps(told))
    broken = replayed(str(path))
    assert (broken.exit_code, "evaluation.stated is not a sweep file" in broken.stderr) == (
        2,
        True,
    )


@pytest.mark.parametrize("name", ["target", "file", "given", "optimize", "track", "output", "seed"])
@pytest.mark.parametrize("value", [5, [], [5, 6], {"a": 1}, True])
def test_a_damaged_statement_is_refused(swept, folder, name, value):
    """By one line, whatever stands in its place; only an empty track is one."""
    swept(STAGED, command="eval")
    path = folder / "runs" / "sweep-eval" / "best.json"
    told = json.loads(path.read_text())
    told["evaluation"]["stated"][name] = value
    path.write_text(json.dumps(told))
    result = replayed(str(path))
    harmless = (name, value) in [("track", []), ("seed", 5)]
    assert harmless == (result.exit_code == 0), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_a_copied_project_is_replayed_with_its_own_code(swept, folder, tmp_path_factory, monkeypatch):
    """What lies under the same name in the current folder comes before what was run."""
    swept(STAGED, command="eval")
    copy = tmp_path_factory.mktemp("copy")
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    monkeypatch.chdir(copy)
    assert f"Guesser as {copy / 'sweep.yaml'} states" in replayed("runs/sweep-eval").stdout
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert f"Guesser as {folder / 'sweep.yaml'} states" in replayed(str(copy / "runs/sweep-eval")).stdout


def test_running_twice_evaluates_nothing_the_second_time(sweep, folder):
    """The record is the same, and so is what is printed."""
    first, second = sweep(STAGED), sweep(STAGED)
    assert first.stdout == second.stdout
    assert (folder / "reads").read_text() == "read\n"


def test_a_file_is_evaluated_as_a_list(sweep, swept, folder):
    """By `eval`, with PredictionIO's lines and files, and the same best as the sweep's."""
    result = swept(STAGED, command="eval")
    assert result.exit_code == 0, result.output
    assert "Iteration 4" in result.stdout
    assert "  # engine params evaluated: 5\nOptimal Engine Params:\n  {" in result.stdout
    assert "Metrics:\n  mae: 3.3333333333333335\n  Distance: 3.3333333333333335\n  rmse: " in result.stdout
    home = folder / "runs" / "sweep-eval"
    assert json.loads((home / "instance.json").read_text())["engineParamsGeneratorClass"] == "sweep.yaml"
    sweep(STAGED)
    found = [(path / "best.json").read_text() for path in (home, folder / "runs" / "sweep")]
    assert len({EngineParams.from_json(text) for text in found}) == 1
    assert json.loads(found[0])["evaluation"] == json.loads(found[1])["evaluation"]
    assert sweep(STAGED, "--dir=here", "-q", "--workers=2", command="eval").stdout.startswith(
        "MetricEvaluatorR"
    )


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (
            changed("grid", "tpe", STAGED),
            (),
            "search.sampler: tpe draws points that cannot be listed in advance",
        ),
        (SWEEP, (), "engine.target: is not an engine with stages; train it with hpometrics run sweep.yaml"),
        (STAGED, ("toy_stages:POINTS",), "sweep.yaml has a list of its own; leave toy_stages:POINTS out"),
        (
            changed("track:", "constraints: ['mae <= 9'], track:", STAGED),
            (),
            "list does not support constraints",
        ),
        (
            changed("once.guess", "once.gess.x", OWN),
            (),
            "space.algorithms.once.gess.x: leads into algorithms.once.gess, which is not set",
        ),
    ],
)
def test_what_is_no_list_of_engine_params_is_refused(sweep, folder, text, arguments, message):
    """With the place in the file and what to do; nothing is evaluated."""
    result = sweep(text, *arguments, command="eval")
    assert result.exit_code == 2, result.stdout
    assert message in result.stderr
    assert not (folder / "reads").exists()


@pytest.mark.ray
@EXHAUSTIVE
def test_ray_evaluates_the_same(folder, on_ray):
    """A worker imports the engine, and its metrics by name and by path."""
    (folder / "sweep.yaml").write_text(STAGED + on_ray(workers=1))
    ran = hpometrics("run", "sweep.yaml").result()
    assert ran.returncode == 0, ran.stderr
    assert [r.value for r in records(folder)] == [pytest.approx(expected(r.params)) for r in records(folder)]
    assert len(records(folder)) == 5
    assert "  algorithms.once.guess: 4.0\n" in ran.stdout
    assert (folder / "runs" / "sweep" / "best.json").exists()
