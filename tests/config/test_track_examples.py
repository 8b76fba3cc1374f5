from __future__ import annotations

import pytest
from sample_sweeps import SWEEP, changed, plan_of, problems_of

from hpometrics.config.json_schema import json_schema
from hpometrics.results.run_directory import RunDirectory
from hpometrics.run.artifacts import read_examples
from hpometrics.run.spec import engine
from hpometrics.runner.context import spec_facts
from hpometrics.runner.imported_engine import ImportedEngine

LOSS = changed("optimize: roc_auc", "optimize: log_loss")


class Trained(ImportedEngine):
    """An engine that states facts, without a module to import it from."""

    def __init__(self, **facts: object) -> None:
        self.train = engine(**facts)(lambda params, run: None)


def asking(form: str, text: str = LOSS) -> str:
    """The sample with this form of `track_examples`."""
    return changed("track: [accuracy]", f"track: [accuracy], track_examples: {form}", text)


def test_every_trial_leaves_the_examples_of_its_best_epoch(sweep, folder):
    """Two worst and two best, of the epoch that the record names."""
    result = sweep(asking("2"))
    assert result.exit_code == 0, result.output
    for record in RunDirectory(folder / "runs" / "sweep").records():
        lines = read_examples(
            folder / "runs" / "sweep" / "trials" / f"{record.number:04d}" / "examples.jsonl"
        )
        assert [(line["epoch"], line["rank"]) for line in lines] == [
            (record.epoch, rank) for rank in ("worst", "worst", "best", "best")
        ]
        assert all(line["values"].keys() == {"log_loss", "accuracy"} for line in lines)


def test_a_metric_without_a_value_per_example_is_refused_before_the_first_trial(sweep, folder):
    """And what can rank examples is named."""
    result = sweep(asking("true", SWEEP))
    assert result.exit_code != 0
    assert "by roc_auc, which has no value per example" in result.output
    assert "{metric: log_loss}" in result.output
    assert not (folder / "runs" / "sweep" / "trials").exists()


@pytest.mark.parametrize(
    ("form", "facts"),
    [
        ("true", {}),
        ("3", {"worst": 3, "best": 3}),
        ("{worst: 5}", {"worst": 5}),
        ("{metric: accuracy, best: 0}", {"best": 0, "metric": "accuracy"}),
    ],
)
def test_every_form_reaches_the_run(form, facts):
    """As `RunSpec` takes it."""
    assert spec_facts(plan_of(asking(form)), Trained())["track_examples"] == facts


@pytest.mark.parametrize("text", [LOSS, asking("false")])
def test_nothing_is_asked_for_unless_the_file_does(text):
    """What the engine says of itself then holds."""
    assert "track_examples" not in spec_facts(plan_of(text), Trained())
    assert spec_facts(plan_of(text), Trained(track_examples=4))["track_examples"] == 4


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ("0", "metrics.track_examples: expected true, a number of examples, or a mapping"),
        ("many", "metrics.track_examples: expected true, a number of examples, or a mapping"),
        ("{wrost: 3}", "metrics.track_examples: unknown key 'wrost'; did you mean 'worst'?"),
        ("{worst: -1}", "metrics.track_examples.worst"),
        ("{worst: 0, best: 0}", "metrics.track_examples: 0 worst and 0 best examples keep nothing; leave"),
    ],
)
def test_other_forms_are_problems(form, problem):
    """With their place."""
    (found,) = problems_of(asking(form))
    assert problem in found


def test_the_schema_knows_the_forms():
    """For editors: true, a number from 1, a mapping."""
    told = json_schema()
    shape = str(told["definitions"]["Metrics"]["properties"]["track_examples"])
    assert "boolean" in shape and "ExampleCounts" in shape
    assert set(told["definitions"]["ExampleCounts"]["properties"]) == {"worst", "best", "metric"}
