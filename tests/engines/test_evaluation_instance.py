from __future__ import annotations

import pytest

from hpometrics import RecordError
from hpometrics.evaluation import EvaluationInstance


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
    with pytest.raises(RecordError, match=r"instance\.json: not the record of an evaluation"):
        EvaluationInstance.read(tmp_path)
