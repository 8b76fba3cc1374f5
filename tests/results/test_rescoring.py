"""`hpometrics best` by another metric and at another epoch, from what a sweep has left."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from click.testing import CliRunner
from sample_records import trial, written
from sample_sweeps import SWEEP, changed, plan_of

from hpometrics.cli.main import main
from hpometrics.exceptions import ConfigError
from hpometrics.records.trial_record import EpochRecord, TrialState
from hpometrics.results.best import best_text, optimized_by, picks_by_metric, repick_epochs
from hpometrics.results.manifest import resolve
from hpometrics.results.rescoring import parse_request, rescore
from hpometrics.results.run_directory import RunDirectory

ACCURACY = changed("optimize: roc_auc, track: [accuracy]", "optimize: accuracy, track: [roc_auc]")
CONSTRAINED = changed("track: [accuracy]", 'track: [accuracy], constraints: ["accuracy <= 0.75"]')


def best(*arguments):
    """`hpometrics best runs/sweep ...`."""
    return CliRunner().invoke(main, ["best", "runs/sweep", *arguments])


@pytest.fixture
def home(tmp_path):
    """Two trials: the first is better at its best epoch, the second at its last."""
    return written(tmp_path, [trial(0, [0.9, 0.5]), trial(1, [0.6, 0.7])])


def test_another_metric_is_asked_after_the_fact(swept, folder):
    """The picked epoch is the best by it, of all epochs of all trials; the optimized one stands beside it."""
    assert swept(ACCURACY).exit_code == 0
    facts = json.loads(best("--metric", "mcc", "-f", "json").stdout)
    assert facts["metric"] == "mcc" and facts["objective"] == "maximize"
    assert facts["value"] == facts["values"]["mcc"]
    records = RunDirectory(folder / "runs" / "sweep").records()
    assert facts["optimized"]["value"] == max(record.value for record in records)
    assert facts["optimized"]["value_here"] == facts["values"]["accuracy"]
    loss = facts["optimized"]["value"] - facts["values"]["accuracy"]
    assert facts["optimized"]["loss"] == pytest.approx(loss) and facts["left_out"] == {}


def test_the_text_says_what_was_optimized(swept):
    """And that a metric of the record is read of it."""
    swept(ACCURACY)
    text = best("--metric", "mcc").stdout
    assert "  mcc: " in text and "The sweep optimized:\n  accuracy at best: " in text


def test_a_metric_that_needs_more_is_refused(swept):
    """With what it needs and how to keep it, and the exit code of a wrong name."""
    swept(ACCURACY)
    result = best("--metric", "brier")
    assert result.exit_code == 2
    assert "brier needs WeightedMean" in result.stderr and "results: {statistics: all}" in result.stderr


def test_a_threshold_is_answered_where_rows_are_kept(sweep):
    """The value at another threshold is called so."""
    sweep(f"{ACCURACY}results: {{statistics: all}}\n")
    facts = json.loads(best("--metric", "f1(threshold=0.3)", "-f", "json").stdout)
    assert facts["metric"] == "f1(threshold=0.3)"
    assert "f1" in facts["values"]


def test_a_trial_that_keeps_nothing_is_left_out_by_name(swept, folder):
    """The others are compared, and the trial is told apart from a bad one."""
    swept(ACCURACY)
    (folder / "runs" / "sweep" / "trials" / "0001" / "statistics.jsonl").unlink()
    assert "left out: trial 1: epoch 0 has no stored statistics" in best("--metric", "mcc").stdout


def test_a_trial_that_has_the_values_needs_no_statistics(tmp_path):
    """Beside one that has neither, which is left out."""
    both = [replace(trial(0, [0.5]), epochs=(EpochRecord(0, {"roc_auc": 0.5, "mcc": 0.4}),)), trial(1, [0.9])]
    facts = json.loads(best_text(written(tmp_path, both), "json", metric="mcc"))
    assert (facts["trial"], facts["value"], list(facts["left_out"])) == (0, 0.4, ["1"])


def test_another_rule_needs_the_record_alone(home):
    """Trial 0 is the best at its best epoch, trial 1 at its last; no statistics are there."""
    facts = json.loads(best_text(home, "json", at="last"))
    assert (facts["trial"], facts["epoch"], facts["value"]) == (1, 1, 0.7)
    assert facts["at"] == "last"
    assert facts["optimized"]["trial"] == 1


def test_a_tracked_metric_needs_the_record_alone(home):
    """Its values are there; that of trial 0 is best in its first epoch."""
    facts = json.loads(best_text(home, "json", metric="accuracy"))
    assert (facts["trial"], facts["epoch"], facts["value"]) == (0, 0, 0.8)


@pytest.mark.parametrize("options", [("--at", "last"), ("--metric", "accuracy")], ids=" ".join)
def test_what_the_record_answers_loads_neither_torch_nor_a_host(home, options):
    """Kept statistics alone are tensors."""
    code = "import sys; from hpometrics.cli.main import main; main(sys.argv[1:], standalone_mode=False); "
    code += "print({'torch', 'optuna', 'ray'} & set(sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-c", code, "best", str(home), *options], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == "set()"


def test_epochs_are_picked_within_the_constraints(tmp_path):
    """An epoch that keeps them comes before a better one that does not."""
    home = written(tmp_path, [trial(0, [0.9, 0.8]), trial(1, [0.6, 0.7])], CONSTRAINED)
    facts = json.loads(best_text(home, "json", at="best"))
    assert (facts["trial"], facts["epoch"]) == (0, 1)


def test_a_checkpoint_is_that_of_its_epoch(tmp_path):
    """Where another epoch is picked, that of the first pick is not the model."""
    record = trial(0, [0.9, 0.5])
    told = optimized_by(resolve(plan_of(SWEEP)), "roc_auc", record_objective(), "best")
    (again,) = repick_epochs([record], told)
    assert again.epoch == 0 and again.checkpoint is None


def record_objective():
    """The direction of `roc_auc`."""
    return resolve(plan_of(SWEEP)).direction


def test_trials_that_did_not_end_do_not_win(tmp_path):
    """A pruned trial is better at its only epoch, and is no candidate."""
    pruned = trial(2, [0.99], TrialState.PRUNED, reason="pruned")
    home = written(tmp_path, [trial(0, [0.5, 0.6]), pruned])
    assert json.loads(best_text(home, "json", at="last"))["trial"] == 0


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("test:accuracy", "only validation values can steer a search"),
        ("acuracy", "Did you mean 'accuracy'"),
        ("confusion_matrix", "has no direction"),
        ("toy_engine:train", "is not registered; decorate"),
        ("f1(threshold=2)", "a threshold is a probability between 0 and 1"),
        ("f1(threshold=half)", "a threshold is a probability between 0 and 1"),
    ],
)
def test_what_cannot_pick_is_refused(metric, message):
    """Before any value is read."""
    with pytest.raises(ConfigError, match=message):
        parse_request(resolve(plan_of(SWEEP)), metric)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("test:accuracy", "only validation values can steer a search; test:accuracy can only be tracked"),
        ("recall(average=none)", "has one value per class, but a search optimizes one number"),
    ],
)
def test_a_tracked_value_that_cannot_pick_is_refused(metric, message, tmp_path):
    """The test value is in the record, and is no ground for a choice of the trial."""
    home = written(tmp_path, [trial(0, [0.5, 0.6]), trial(1, [0.6, 0.7])])
    resolved, records = RunDirectory(home).read(), RunDirectory(home).records()
    tracked = replace(resolved, track={**resolved.track, metric: resolved.direction})
    values = [replace(one, values={**one.values, metric: 0.5}) for one in records[0].epochs]
    with pytest.raises(ConfigError, match=f"--metric {re.escape(metric)}: .*{message}"):
        rescore(RunDirectory(home), tracked, [replace(records[0], epochs=values), *records[1:]], metric)


def test_each_metric_would_have_picked(home):
    """What the optimized metric gives up where another one picks; nothing where it picks itself."""
    directory = RunDirectory(home)
    resolved, records = directory.read(), directory.records()
    told = repick_epochs(records, resolved)
    own, accuracy = picks_by_metric(told, resolved)
    assert (own.metric, own.best.trial, own.loss) == ("roc_auc", 0, 0.0)
    assert (accuracy.metric, accuracy.best.trial, accuracy.best.epoch) == ("accuracy", 0, 0)
    assert accuracy.optimized == 0.9 and accuracy.loss == 0.0
