"""Constraints of a sweep file: checked, carried out, printed, and the exit code where none is kept."""

from __future__ import annotations

import json

import pytest
import yaml
from click.testing import CliRunner
from sample_sweeps import SWEEP, changed, plan_of, problems_of

from hpometrics.cli.main import main
from hpometrics.results.run_directory import RunDirectory


def bounded(*constraints: str) -> str:
    """The sweep file with constraints."""
    return changed("track: [accuracy]", f"track: [accuracy], constraints: {list(constraints)}")


def test_a_constraint_is_read_under_its_canonical_name():
    """What it bounds is measured beside the tracked metrics, once."""
    plan = plan_of(bounded("accuracy >= 0.5", "neg_log_loss <= 0.7", "log_loss >= 0", "megabytes <= 20"))
    told = [str(bound.constraint) for bound in plan.bounds]
    assert told == ["accuracy >= 0.5", "log_loss <= 0.7", "log_loss >= 0", "megabytes <= 20"]
    assert [measure.name for measure in plan.track] == ["accuracy", "log_loss", "megabytes"]
    assert [measure.reported for measure in plan.track] == [False, False, True]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("accuracy < 0.5", "as in 'ece <= 0.05'; got 'accuracy < 0.5'"),
        ("test:accuracy >= 0.5", "only validation values can steer a search"),
        ("default >= 0.5", "default is a group of metrics; use a single metric in a constraint"),
        ("ndcg@10 >= 0.5", "ndcg"),
        ("f1(average=none) >= 0.5", "one value per class"),
    ],
)
def test_a_wrong_constraint_is_a_problem_with_its_place(text, told):
    """Nothing is run."""
    [found] = problems_of(bounded("accuracy >= 0", text))
    assert "metrics.constraints[1]" in found and told in found


def test_check_says_what_a_constraint_reads(sweep):
    """Of a metric its input; of any other name that the engine reports it."""
    result = sweep(bounded("accuracy >= 0.5", "megabytes <= 20"), command="check")
    assert result.exit_code == 0, result.output
    assert "constraint  accuracy >= 0.5   reads predictions" in result.output
    assert "constraint  megabytes <= 20   reads what the engine reports" in result.output


def test_check_asks_whether_a_metric_was_meant(sweep):
    """A typo would make every trial infeasible, since nobody reports such a value."""
    told = sweep(bounded("acuracy >= 0.5"), command="check").output
    assert "reads what the engine reports, as no metric has that name. Did you mean 'accuracy'?" in told


def test_what_the_file_names_is_nearer_than_what_it_does_not(sweep):
    """`eer` is as near to `eec` as `ece` is, but of `ece` the file speaks."""
    text = bounded("eec <= 0.5").replace("track: [accuracy]", "track: [accuracy, ece]")
    assert "as no metric has that name. Did you mean 'ece'?" in sweep(text, command="check").output
    probed = sweep(text, "--probe", command="check")
    assert "eec is not recorded; the recorded values are roc_auc, accuracy, ece" in probed.output
    assert "Did you mean 'ece'? Report it in the engine, or" in probed.output


def test_a_value_that_no_trial_reports_is_told_after_the_first(sweep):
    """Once, with what there is instead: nothing else would say why no trial is feasible."""
    text = bounded("eec <= 0.5", "accuracy >= 0.1").replace("track: [accuracy]", "track: [accuracy, ece]")
    result = sweep(text)
    assert result.exit_code == 3
    lines = result.stderr.splitlines()
    [told] = [line for line in lines if line.startswith("warning: ")]
    assert " #0 " in lines[lines.index(told) - 1]
    assert told.startswith(
        "warning: the constraint eec <= 0.5 has no value: trial 0 is infeasible, and so will be each trial "
        "that does not report eec; there are roc_auc, accuracy, ece"
    )
    assert told.endswith(
        ". Did you mean 'ece'? Report it in the engine, or change the constraint; hpometrics check --probe "
        "finds this before a run"
    )
    assert "warning" not in sweep(text, "--fresh", "--quiet").stderr


def test_a_metric_that_is_never_measured_is_told_after_the_first_trial(sweep):
    """It has a name and a column, but the engine updates nothing that it reads: with the reason, once."""
    text = bounded("ece <= 0.5").replace("toy_engine:train", "toy_engine:report")
    text = text.replace("optimize: roc_auc", "optimize: {metric: latency_ms, direction: minimize}")
    result = sweep(text)
    assert result.exit_code == 3, result.output
    [told] = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert told.startswith(
        "warning: the constraint ece <= 0.5 has no value: trial 0 is infeasible, because ece is undefined "
        "in all of its epochs (nothing was measured); there are "
    )
    assert "Did you mean" not in told


def test_a_value_that_breaks_its_bound_is_no_missing_one(swept):
    """There is nothing to be warned of."""
    assert "warning" not in swept(bounded("accuracy >= 1.5")).stderr


def test_the_best_is_feasible_and_says_so(sweep, folder):
    """Of four trials those with a low accuracy are infeasible, in the table and in the last block."""
    result = sweep(bounded("accuracy >= 0.86"))
    assert result.exit_code == 0, result.output
    states = yaml.safe_load((folder / "runs/sweep/sweep.resolved.yaml").read_text())
    assert states["constraints"] == ["accuracy >= 0.86"]
    assert "accuracy ^ >= 0.86" in result.stdout and "(>= 0.86 ok)" in result.stdout
    assert "infeas." in result.stdout
    best = CliRunner().invoke(main, ["best", "runs/sweep"])
    assert best.exit_code == 0 and "(>= 0.86 ok)" in best.output


def test_where_none_is_feasible_the_command_ends_with_3(swept, folder):
    """It names the least violating, and leaves no best.yaml; `best` says the same."""
    result = swept(bounded("accuracy >= 1.5"))
    assert result.exit_code == 3
    assert "no trial is feasible" in result.stderr and "comes closest (accuracy 0." in result.stderr
    assert not (folder / "runs/sweep/best.yaml").exists()
    best = CliRunner().invoke(main, ["best", "runs/sweep"])
    assert best.exit_code == 3 and "no trial is feasible" in best.stderr


@pytest.mark.parametrize("arguments", [(), ("--metric", "accuracy"), ("--at", "last")], ids=str)
def test_a_script_is_told_which_trial_breaks_the_constraints_least(arguments, swept, folder):
    """By name, with its params and by how much; the code and the message are those of the text."""
    swept(bounded("accuracy >= 1.5", "lr <= 0", "megabytes <= 20", "log_loss >= 0"))
    text = CliRunner().invoke(main, ["best", "runs/sweep", *arguments])
    result = CliRunner().invoke(main, ["best", "runs/sweep", "--json", *arguments])
    assert (result.exit_code, result.stderr, text.stdout) == (3, text.stderr, "")
    told = json.loads(result.stdout)
    assert told["feasible"] is False and f"trial {told['trial']} comes closest" in told["reason"]
    record = RunDirectory(folder / "runs/sweep").records()[told["trial"]]
    assert (told["params"], told["metric"], told["value"]) == (record.params, "roc_auc", record.value)
    accuracy = record.picked_values["accuracy"]
    assert told["violations"] == [
        {"constraint": "accuracy >= 1.5", "value": accuracy, "excess": 1.5 - accuracy},
        {"constraint": "lr <= 0", "value": None, "excess": None},
        {"constraint": "megabytes <= 20", "value": None, "excess": None},
    ]


def test_of_several_objectives_too_a_script_is_told_the_least_violating(sweep):
    """There is no front to be told; YAML has the same facts."""
    sweep(bounded("accuracy >= 1.5").replace("optimize: roc_auc", "optimize: [roc_auc, log_loss]"))
    told = json.loads(CliRunner().invoke(main, ["best", "runs/sweep", "--json"]).stdout)
    assert told["feasible"] is False and list(told["values"]) == ["roc_auc", "log_loss", "accuracy"]
    assert yaml.safe_load(CliRunner().invoke(main, ["best", "runs/sweep", "-f", "yaml"]).stdout) == told


def test_other_constraints_are_another_sweep(sweep):
    """The epochs of earlier trials were picked under other bounds."""
    assert sweep(bounded("accuracy >= 0.1")).exit_code == 0
    again = sweep(SWEEP)
    assert again.exit_code == 2
    assert "constraints: ('accuracy >= 0.1',) -> ()" in again.stderr
