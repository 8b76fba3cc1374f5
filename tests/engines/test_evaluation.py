from __future__ import annotations

import pytest
from sample_evaluations import (
    DOCUMENTED,
    Accuracy,
    AccuracyEvaluation,
    Classification,
    Guess,
    PrecisionEvaluation,
)

from hpometrics import EngineError, RecordError
from hpometrics.evaluation import Evaluation, EvaluationInstance, MetricEvaluator, Origins


def silent(line):
    """Hear nothing."""


def test_a_list_is_reused_unchanged_under_another_evaluation():
    """Precision finds lambda 10 best, accuracy lambda 100."""
    judged = [PrecisionEvaluation(), Evaluation(Classification(), Accuracy())]
    assert [e.evaluate(DOCUMENTED, tell=silent).best_index for e in judged] == [0, 1]


def test_an_evaluation_may_have_its_own_list():
    """Then none need be given; other metrics are measured too."""
    result = AccuracyEvaluation().evaluate(tell=silent)
    assert (result.best_index, result.other_metric_headers) == (1, ("Precision (label=1.0)",))
    with pytest.raises(EngineError, match="PrecisionEvaluation has no engine_params_list; pass the list"):
        PrecisionEvaluation().evaluate()


def test_an_evaluator_may_be_given_whole():
    """It is used as it is, and stays as it was."""
    evaluator = MetricEvaluator(Accuracy(), tell=silent)
    evaluation = type("Whole", (Evaluation,), {"engine_evaluator": (Classification(), evaluator)})()
    assert evaluation.evaluate(DOCUMENTED).best_index == 1
    assert evaluation.evaluator is evaluator


def test_the_record_names_the_evaluation(tmp_path):
    """And the list, and the words for the batch; nothing of the environment."""
    PrecisionEvaluation().evaluate(
        DOCUMENTED,
        directory=tmp_path,
        tell=silent,
        origins=Origins(engine="sample:ENGINE", engine_params="sample:DOCUMENTED"),
        batch="nightly",
    )
    instance = EvaluationInstance.read(tmp_path)
    assert instance.evaluation_class == "sample_evaluations:PrecisionEvaluation"
    assert (instance.generator_class, instance.batch) == ("sample:DOCUMENTED", "nightly")
    best = (tmp_path / "best.json").read_text()
    assert '"id": "PrecisionEvaluation 2' in best and '"engineFactory": "sample:ENGINE"' in best


def test_an_evaluation_is_taken_as_it_is_found():
    """As a class or as an object, nothing else."""
    assert isinstance(Evaluation.of(PrecisionEvaluation), PrecisionEvaluation)
    made = PrecisionEvaluation()
    assert Evaluation.of(made) is made
    with pytest.raises(EngineError, match="an evaluation must be Evaluation"):
        Evaluation.of(Classification)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Evaluation(), "in no way; state both in one"),
        (lambda: Evaluation(Guess), "in Evaluation.engine, metric.; state both"),
        (lambda: PrecisionEvaluation(Guess(), Accuracy()), "in engine_metric and Evaluation"),
        (lambda: Evaluation("sample:Guess", Accuracy()), "needs an Engine or its class, got 'sample:Guess'"),
    ],
)
def test_engine_and_metric_are_stated_once(make, message):
    """Neither not at all, nor by half, nor twice."""
    with pytest.raises(EngineError, match=message):
        make()


def test_an_instance_goes_from_init_to_its_end():
    """The id and the start stay, each state is a record of its own."""
    first = EvaluationInstance("m:E", "m:L", "nightly")
    last = first.started().completed({"oneLiner": "Best Params Index: 0 Score: 1.0"})
    assert [one.status for one in (first, first.started(), last)] == ["INIT", "EVALUATING", "EVALCOMPLETED"]
    assert (last.id, last.start) == (first.id, first.start) and last.end >= last.start
    assert len(first.id) == 22 and first.id != EvaluationInstance().id


def test_an_instance_is_written_and_read(tmp_path):
    """Under PredictionIO's names, whole or not at all; a failure has its reason."""
    failed = EvaluationInstance("m:E").started().failed("ValueError: x", {"engineParamsScores": []})
    failed.write(tmp_path / "made")
    assert EvaluationInstance.read(tmp_path / "made") == failed
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["instance.json"]
    assert set(failed.to_json()) == {
        "id", "status", "startTime", "endTime", "evaluationClass", "engineParamsGeneratorClass", "batch",
        "reason", "evaluatorResults",
    }  # fmt: skip


@pytest.mark.parametrize("text", [None, "", "[]", '{"id": 3}', '{"status": "EVALDONE"}'])
def test_what_is_no_record_is_refused(tmp_path, text):
    """With the file's name."""
    if text is not None:
        (tmp_path / "instance.json").write_text(text)
    with pytest.raises(RecordError, match=r"instance\.json: not an evaluation"):
        EvaluationInstance.read(tmp_path)
