from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner, Result
from sample_evaluations import DOCUMENTED, Guess, PrecisionEvaluation

from hpometrics import MAXIMIZE, Evaluation
from hpometrics.cli.main import main
from hpometrics.evaluation import AverageMetric, EngineParams, SumMetric


class Drawn(Guess):
    """Its guess is drawn, and so are the folds before it."""

    def read_eval(self, params):
        np.random.rand(7)
        return super().read_eval(params)

    def train(self, prepared, name, params):
        return params["guess"] + np.random.rand()


class Guessed(AverageMetric):
    """The guess itself."""

    direction = MAXIMIZE

    def calculate(self, query, predicted, actual):
        return predicted


class Drawing(Evaluation):
    """Three candidates that share their folds."""

    engine_metric = (Drawn, Guessed)
    engine_params_list = tuple(EngineParams(algorithms={"guess": guess}) for guess in (0.0, 1.0, 5.0))


@pytest.fixture
def replay(tmp_path, monkeypatch):
    """Call `hpometrics replay` on the `best.json` in an otherwise empty current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def call(*arguments: str, path: str = "best.json") -> Result:
        return CliRunner().invoke(main, ["replay", path, *arguments])

    return call


def written(folder, evaluation=PrecisionEvaluation, params=DOCUMENTED, **changes):
    """The `best.json` of an evaluation, alone in a folder, with changes to what it says of the evaluation."""
    evaluation().evaluate(params, directory=folder / "home", tell=lambda line: None, seed=3)
    told = json.loads((folder / "home" / "best.json").read_text())
    told["evaluation"].update(changes)
    (folder / "best.json").write_text(json.dumps(told))
    return told


def test_the_score_comes_out_to_the_last_digit(replay, tmp_path):
    """The file alone is enough: it names the evaluation and the seed."""
    written(tmp_path)
    result = replay()
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        [
            "replaying best.json: sample_evaluations:PrecisionEvaluation, seed 3",
            "  Precision (label=1.0): 0.8846153846153846  as recorded",
            "Precision (label=1.0) matches the record, to the last digit",
        ],
    )


def test_a_script_is_told_the_scores(replay, tmp_path):
    """As they are in the file and as they came out; the lines go to stderr."""
    written(tmp_path)
    text, result = replay(), replay("--json")
    assert (result.exit_code, result.stderr) == (text.exit_code, text.stdout)
    told = json.loads(result.stdout)
    assert told["file"] == "best.json" and told["reproduced"] is True
    assert all(value["same"] and value["recorded"] == value["again"] for value in told["values"].values())
    assert told["values"]


def test_what_is_drawn_is_drawn_again(replay, tmp_path):
    """Though the candidates before it are not evaluated: each stage starts from the seed."""
    told = written(tmp_path, Drawing, None)
    assert told["algorithms"][0]["params"]["guess"] == 5.0
    assert replay().exit_code == 0
    assert "does not match the record" in _with(tmp_path, replay, seed=4).stdout


def _with(folder, replay, **changes) -> Result:
    """Replay the file with changes to what it says of the evaluation."""
    told = json.loads((folder / "best.json").read_text())
    told["evaluation"].update(changes)
    (folder / "best.json").write_text(json.dumps(told))
    return replay()


def test_a_directory_of_an_evaluation_means_its_file(replay, tmp_path):
    """And nothing in it changes."""
    written(tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "home").iterdir()}
    assert replay(path="home").exit_code == 0
    assert {path: path.read_bytes() for path in (tmp_path / "home").iterdir()} == before


def test_a_score_that_does_not_come_out_names_the_versions(replay, tmp_path):
    """With exit code 1."""
    written(tmp_path, scores={"Precision (label=1.0)": 0.25}, versions={"numpy": "0.9"})
    result = replay()
    assert result.exit_code == 1
    assert "  Precision (label=1.0): 0.8846153846153846  recorded 0.25\n" in result.stdout
    assert f"versions that differ: numpy 0.9 -> {np.__version__}\n" in result.stdout


def test_engine_params_that_fail_are_told(replay, tmp_path):
    """As in the evaluation itself, they are no error of the command."""
    told = written(tmp_path)
    told["algorithms"][0]["params"]["lambda"] = -1.0
    (tmp_path / "best.json").write_text(json.dumps(told))
    result = replay()
    assert result.exit_code == 1
    assert "  failed: ArithmeticError: lambda -1.0 smooths nothing\n" in result.stdout


def test_another_evaluation_may_be_named(replay, tmp_path):
    """It must judge by what is recorded."""
    written(tmp_path, **{"class": "gone:Away"})
    assert replay("sample_evaluations:PrecisionEvaluation").exit_code == 0
    result = replay("sample_evaluations:GuessEvaluation")
    assert result.exit_code == 2
    assert (
        "has scores of Precision (label=1.0), but sample_evaluations:GuessEvaluation optimizes"
        in result.stderr
    )
    assert "importing gone failed" in replay().stderr


def test_a_file_of_predictionio_is_evaluated(replay, tmp_path):
    """It says nothing of scores, so nothing is compared; the evaluation is named."""
    told = written(tmp_path)
    del told["evaluation"]
    (tmp_path / "best.json").write_text(json.dumps(told))
    assert (
        "does not name its evaluation; name the evaluation that wrote it: hpometrics replay"
        in replay().stderr
    )
    result = replay("sample_evaluations:PrecisionEvaluation")
    assert result.exit_code == 0
    assert result.stdout.endswith("there is no record to compare this with\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "best.json: a best.json must be JSON: "),
        ("[]", "best.json: a best.json must be a mapping, got a list"),
        (
            '{"algorithms": [{"params": {}}], "evaluation": {"class": "a:b"}}',
            "does not name what was evaluated",
        ),
        ('{"algorithm": []}', "algorithm: not a stage of engine params"),
    ],
)
def test_what_is_no_best_json_is_refused(text, message, replay, tmp_path):
    """With exit code 2."""
    (tmp_path / "best.json").write_text(text)
    result = replay()
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_options_of_a_sweep_are_refused(replay, tmp_path):
    """A `best.json` is of one engine params."""
    written(tmp_path)
    for options in (("--trial", "0"), ("--confirm", "1"), ("--seeds", "2")):
        result = replay(*options)
        assert result.exit_code == 2 and "--trial, --confirm and --seeds are for a sweep" in result.stderr


class Whole(SumMetric):
    """A whole number."""

    direction = MAXIMIZE

    def calculate(self, query, predicted, actual):
        return 1


def test_a_whole_number_that_a_search_has_kept_as_a_float(replay, tmp_path):
    """Is the same number."""
    written(tmp_path, Drawing, None, **{"class": "test_evaluation_replay:Counting"}, scores={"Whole": 4.0})
    result = replay("test_evaluation_replay:Counting")
    assert "Whole: 4.0  as recorded" in result.stdout, result.output


class Counting(Evaluation):
    """The same engine, whose answers are counted."""

    engine_metric = (Drawn, Whole)


def test_what_has_no_name_wants_one(replay, tmp_path):
    """An evaluation that no other process can import is not named; the remedy is, also for a directory."""
    made = Evaluation(Drawn, Guessed())
    made.evaluate(Drawing.engine_params_list, directory=tmp_path / "home", tell=lambda line: None)
    (tmp_path / "home" / "instance.json").unlink()
    told = json.loads((tmp_path / "home" / "best.json").read_text())
    assert told["evaluation"]["class"] == "" and told["engineFactory"] == "test_evaluation_replay:Drawn"
    assert "does not name its evaluation; name the evaluation that wrote it" in replay(path="home").stderr
    assert replay("test_evaluation_replay:Drawing", path="home").exit_code == 0
