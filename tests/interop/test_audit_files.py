from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hpometrics.cli.main import main
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.interop import terms
from hpometrics.interop.terms import known_direction

FILES = Path(__file__).with_name("files")


def audit(path: Path, *arguments: str) -> Result:
    """Call `hpometrics audit` in this process."""
    return CliRunner().invoke(main, ["audit", str(path), *arguments])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("wandb_accuracy", {"direction": "12:1", "exponents": "16:8"}),
        ("wandb_bayes", {"no-end": "1:1"}),
        ("wandb_grid", {}),
        ("ludwig_category", {}),
        ("ludwig_defaults", {"direction": "5:1", "split": "8:3", "inert": "14:14", "unknown-key": "14:58"}),
    ],
)
def test_files_are_audited_by_what_is_wrong_in_them(name, expected, tmp_path):
    """With the line of each; what merely cannot be carried over is no finding."""
    file = FILES / f"{name}.yaml"
    result = audit(file, "--json")
    (told,) = json.loads(result.stdout)
    assert {one["code"]: one["place"] for one in told["findings"]} == {
        code: f"{file}:{place}" for code, place in expected.items()
    }
    assert result.exit_code == bool(expected)
    assert all(one["remedy"] for one in told["findings"])


def test_findings_can_be_ignored():
    """By their codes, and then the exit code is 0."""
    result = audit(FILES / "wandb_bayes.yaml", "--ignore", "no-end")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "0 findings")


@pytest.mark.parametrize(
    "options", [("--study", "x"), ("--metric", "f1"), ("--direction", "minimize"), ("--budget", "3")]
)
def test_options_for_results_are_refused_for_a_file(options):
    """They would change nothing."""
    result = audit(FILES / "wandb_bayes.yaml", *options)
    assert result.exit_code == 2 and f"so {options[0]} has no effect; remove it" in result.stderr


def test_another_metric_for_the_weights_than_for_the_score(tmp_path):
    """Ludwig then leaves the model of another epoch than the one whose score it shows."""
    (tmp_path / "l.yaml").write_text(
        "output_features: [{name: a, type: binary}]\ntrainer: {validation_metric: accuracy}\n"
        "hyperopt:\n  goal: minimize\n  output_feature: a\n"
        "  parameters: {x: {space: uniform, lower: 0, upper: 1}}\n"
    )
    result = audit(tmp_path / "l.yaml")
    assert "epoch: " in result.stdout and "picks the weights by accuracy and scores by loss" in result.stdout


@pytest.mark.parametrize(
    ("name", "metric", "direction"),
    [
        ("val/acc", "accuracy", MAXIMIZE),
        ("valid_loss", "loss", MINIMIZE),
        ("eval/ndcg@10", "ndcg", MAXIMIZE),
        ("Test Accuracy", "accuracy", MAXIMIZE),
        ("best_val_auroc_mean", "roc_auc", MAXIMIZE),
        ("validation.mean_squared_error", "mse", MINIMIZE),
        ("perplexity", "perplexity", MINIMIZE),
        ("val/mIoU", "iou", MAXIMIZE),
        ("IoU", "iou", MAXIMIZE),
    ],
)
def test_directions_of_foreign_names(name, metric, direction):
    """By the registry, whatever split or average the name begins or ends with."""
    assert known_direction(name) == (metric, direction)


@pytest.mark.parametrize(
    "name", ["neg_mean_squared_error", "1-acc", "reward", "err", "accuracy_drop", "", "x/"]
)
def test_names_that_say_no_direction(name):
    """Turned round, unknown, or of another meaning elsewhere."""
    assert known_direction(name) is None


def test_short_names_are_metrics():
    """Each of them leads to one that the registry has, with a direction."""
    assert all(known_direction(name) is not None for name in terms._SHORT)
