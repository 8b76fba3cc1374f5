from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result
from matrix import EXHAUSTIVE
from sample_evaluations import DOCUMENTED

from hpometrics.cli.main import main
from hpometrics.evaluation import EngineParams, EvaluationInstance


@pytest.fixture
def evaluate(tmp_path, monkeypatch):
    """Call `hpometrics eval` in an empty current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def call(*arguments: str) -> Result:
        targets = [a if a.startswith("-") else f"sample_evaluations:{a}" for a in arguments]
        return CliRunner().invoke(main, ["eval", *targets])

    return call


def test_an_evaluation_prints_predictionios_lines(evaluate, tmp_path):
    """Every engine params with its score, then the best; the files are in runs, under its name."""
    result = evaluate("PrecisionEvaluation", "DOCUMENTED")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Starting evaluation instance ID: ")
    assert lines[1:4] == [
        "Iteration 0",
        f"EngineParams: {DOCUMENTED[0]}",
        "Result: MetricScores(0.8846153846153846,List())",
    ]
    assert "Updating evaluation instance with result: MetricEvaluatorResult:" in lines
    assert "  # engine params evaluated: 3" in lines
    assert "  Precision (label=1.0): 0.8846153846153846" in lines
    home = tmp_path / "runs" / "PrecisionEvaluation"
    saved = "best.json, evaluator_results.txt, evaluator_results.json, evaluator_results.html, instance.json"
    assert lines[-1] == f"saved {saved} in runs/PrecisionEvaluation"
    assert {path.name for path in home.iterdir()} == set(saved.split(", "))


def test_targets_may_be_written_with_dots(tmp_path, monkeypatch):
    """As PredictionIO's command takes them: the files and the record name them as those with a colon."""
    monkeypatch.chdir(tmp_path)
    names = ["sample_evaluations.PrecisionEvaluation", "sample_evaluations.DOCUMENTED"]
    result = CliRunner().invoke(main, ["eval", *names])
    assert (result.exit_code, result.stderr) == (0, "")
    home = tmp_path / "runs" / "PrecisionEvaluation"
    record = EvaluationInstance.read(home)
    assert record.evaluation_class == "sample_evaluations:PrecisionEvaluation"
    assert record.generator_class == "sample_evaluations:DOCUMENTED"
    again = CliRunner().invoke(main, ["replay", str(home), names[0]])
    assert again.exit_code == 0, again.output


def test_the_list_is_reused_unchanged_under_another_evaluation(evaluate):
    """Precision finds lambda 10 best, accuracy lambda 100, of one list."""
    found = []
    for evaluation in ("PrecisionEvaluation", "AccuracyEvaluation"):
        told = json.loads(evaluate(evaluation, "DOCUMENTED", "--json").stdout)
        found.append((told["bestIdx"], [one["_1"] for one in told["engineParamsScores"]]))
    assert [best for best, _ in found] == [0, 1]
    assert found[0][1] == found[1][1] == [params.to_json() for params in DOCUMENTED]


def test_the_record_says_where_all_came_from(evaluate, tmp_path):
    """The targets as they were named, the words for the batch, and the engine's own name."""
    evaluate("PrecisionEvaluation", "DOCUMENTED", "--dir=here", "--batch=nightly", "--seed=7")
    instance = EvaluationInstance.read(tmp_path / "here")
    assert instance.evaluation_class == "sample_evaluations:PrecisionEvaluation"
    assert (instance.generator_class, instance.batch) == ("sample_evaluations:DOCUMENTED", "nightly")
    best = json.loads((tmp_path / "here" / "best.json").read_text())
    assert best["engineFactory"] == "sample_evaluations:CLASSIFICATION"
    assert best["evaluation"]["class"] == "sample_evaluations:PrecisionEvaluation"
    assert best["evaluation"]["scores"] == {"Precision (label=1.0)": 0.8846153846153846}
    assert best["evaluation"]["seed"] == 7
    assert EngineParams.from_json(best) == DOCUMENTED[0]


def test_json_has_the_output_for_itself(evaluate):
    """The lines go to stderr."""
    result = evaluate("AccuracyEvaluation", "--json")
    assert json.loads(result.stdout)["otherMetricHeaders"] == ["Precision (label=1.0)"]
    assert "Iteration 2" in result.stderr


@pytest.mark.parametrize("command", ["eval", "replay"])
def test_what_an_engine_prints_is_no_result(command, evaluate):
    """It goes to stderr."""
    result = evaluate("LoudEvaluation", "--json")
    if command == "replay":
        result = CliRunner().invoke(main, ["replay", "runs/LoudEvaluation", "--json"])
    assert result.exit_code == 0, result.output
    assert "guessing" in result.stderr and json.loads(result.stdout)


def test_quiet_prints_the_result_only(evaluate):
    """For scripts."""
    result = evaluate("AccuracyEvaluation", "-q")
    assert result.stdout.startswith("MetricEvaluatorResult:\n  # engine params evaluated: 3\n")
    assert result.stderr == ""


def test_how_it_is_carried_out_changes_no_score(evaluate):
    """Without the cache every stage is carried out; workers change the time."""
    plain, bare, many = (
        evaluate("AccuracyEvaluation", *how).stdout.splitlines()
        for how in ([], ["--no-cache"], ["--workers=3"])
    )
    (shared,) = (line for line in plain if line.startswith("Stages: "))
    (each,) = (line for line in bare if line.startswith("Stages: "))
    assert shared.startswith("Stages: 8 of 12 ") and each.startswith("Stages: 12 of 12 ")
    assert many[1:] == plain[1:]
    assert [line for line in bare[1:] if line != each] == [line for line in plain[1:] if line != shared]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["PrecisionEvaluatoin"], "has no 'PrecisionEvaluatoin'; did you mean 'PrecisionEvaluation'?"),
        (
            ["Xyz"],
            "has no 'Xyz'; sample_evaluations has PrecisionEvaluation, AccuracyEvaluation, Guess",
        ),
        (["CLASSIFICATION"], "is a Classification, not an evaluation; sample_evaluations has Precision"),
        (["PrecisionEvaluation"], "PrecisionEvaluation has no engine_params_list; pass the list"),
        (
            ["PrecisionEvaluation", "POSITIVES"],
            "is an int, not a list of engine params; sample_evaluations has ",
        ),
        (
            ["PrecisionEvaluation", "PREDICTED_POSITIVE"],
            "is a dict, not a list of engine params; sample_evaluations has ",
        ),
        (
            ["PrecisionEvaluation", "Accuracy"],
            "is a class, not a list of engine params; sample_evaluations has ",
        ),
        (["AccuracyEvaluation", "--batch"], "Option '--batch' requires an argument"),
    ],
)
def test_what_is_named_wrong_is_refused_with_the_names_there_are(arguments, message, evaluate, tmp_path):
    """On stderr with exit code 2; nothing is written."""
    result = evaluate(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert not (tmp_path / "runs").exists()


def test_a_target_is_no_bare_name(tmp_path, monkeypatch):
    """The module comes first."""
    result = CliRunner().invoke(main, ["eval", "PrecisionEvaluation"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'PrecisionEvaluation' is not a target; write package.module:Name" in result.stderr


def test_nothing_finite_is_exit_code_3(evaluate, tmp_path):
    """With every reason; the record says that it failed."""
    result = evaluate("GuessEvaluation", "HOPELESS", "-q")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "no engine params has a finite score to minimize" in result.stderr
    assert "ValueError: the guess crashed (engine params 1)" in result.stderr
    assert EvaluationInstance.read(tmp_path / "runs" / "GuessEvaluation").status == "EVALFAILED"


PROBE = """
import sys
from click.testing import CliRunner
from hpometrics.cli.main import main
result = CliRunner().invoke(main, ["eval", f"sample_evaluations:{sys.argv[1]}", "-q"])
print(result.exit_code, "torch" in sys.modules, "ray" in sys.modules, "optuna" in sys.modules)
"""


@pytest.mark.parametrize(
    ("name", "torch"),
    [("AccuracyEvaluation", False), pytest.param("GuessEvaluation", True, marks=EXHAUSTIVE)],
)
def test_torch_is_loaded_for_a_metric_of_the_registry_alone(name, torch, tmp_path):
    """A host never is."""
    code = f"import sys; sys.path[:0] = {sys.path!r}\n{PROBE}"
    ran = subprocess.run(
        [sys.executable, "-c", code, name], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"0 {torch} False False\n"


def test_an_interrupted_evaluation_is_recorded(evaluate, tmp_path):
    """With what was done until then, and exit code 130."""
    result = evaluate("GuessEvaluation", "STOPPED", "--dir=.")
    assert result.exit_code == 130
    instance = EvaluationInstance.read(tmp_path)
    assert instance.reason == "KeyboardInterrupt; 1 engine params were evaluated"


def test_a_sweep_file_that_is_missing_is_no_target():
    """The message is that of `run`."""
    result = CliRunner().invoke(main, ["eval", "missing.yaml"])
    assert (
        result.exit_code == 2 and "missing.yaml" in result.stderr and "is not a target" not in result.stderr
    )
