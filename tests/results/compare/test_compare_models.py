"""Models compared row by row: arrays, files of predictions and trials, in Python and by the command."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import ir_measures
import numpy as np
import pytest
import scipy.stats
import torch
from click.testing import CliRunner, Result
from ranx.statistical_tests import paired_student_t_test
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hpometrics
from hpometrics import Category, PerUser, compare
from hpometrics.cli.main import main
from hpometrics.exceptions import ConfigError
from hpometrics.metrics.retrieval.comparison import Comparison
from hpometrics.scoring import measure
from hpometrics.scoring.files import open_table

ROWS = 300
RNG = np.random.default_rng(0)
TARGET = RNG.integers(0, 2, ROWS)
CLOSE, FAR = (np.clip(TARGET * gap + RNG.normal(0.3, 0.25, ROWS), 0.01, 0.99) for gap in (0.45, 0.2))


def write(path: Path, scores, rows=range(ROWS), **columns) -> Path:
    """Write a file of predictions: some rows of the target and a model's scores, with further columns."""
    values = {"target": TARGET, "prediction": (scores > 0.5).astype(int), "probability": scores, **columns}
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(values)
        writer.writerows([column[row] for column in values.values()] for row in rows)
    return path


def command(*arguments: object) -> Result:
    """Call `hpometrics compare ...` in this process."""
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two models on the same rows, the second in another order and without the last three."""
    monkeypatch.chdir(tmp_path)
    ids = [f"row {row}" for row in range(ROWS)]
    write(tmp_path / "close.csv", CLOSE, id=ids, user=[row // 6 for row in range(ROWS)])
    order = RNG.permutation(ROWS - 3)
    write(tmp_path / "far.csv", FAR, order, id=ids, user=[row // 6 for row in range(ROWS)])
    return tmp_path


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor, list], ids=["numpy", "torch", "list"])
def test_arrays_are_what_the_metric_reads(kind):
    """Probabilities for an area, predictions for a share of hits; the values are scikit-learn's."""
    areas = compare(kind(CLOSE), kind(FAR), metric="roc_auc", output="binary", target=kind(TARGET))
    hits = compare(kind(CLOSE > 0.5), kind(FAR > 0.5), metric="accuracy", output="binary", target=TARGET)
    for name, scores in (("a", CLOSE), ("b", FAR)):
        assert areas.values[name].value == pytest.approx(roc_auc_score(TARGET, scores))
        assert hits.values[name].value == pytest.approx(((scores > 0.5) == TARGET).mean())
    alone = hits.pair.alone
    assert hits.p_value == pytest.approx(scipy.stats.binomtest(alone[0], sum(alone)).pvalue)
    assert areas.verdict == "a is better" and areas.pair.test == "DeLong"


def test_another_keyword_is_named():
    """Nothing is guessed from the values: logits are said to be logits."""
    logits = [np.log(scores / (1 - scores)) for scores in (CLOSE, FAR)]
    found = compare(*logits, metric="brier", output="binary", target=TARGET, inputs="logits")
    same = compare(CLOSE, FAR, metric="brier", output="binary", target=TARGET)
    both = compare(
        {"probabilities": CLOSE, "predictions": CLOSE > 0.5},
        {"probabilities": FAR, "predictions": FAR > 0.5},
        metric="brier",
        output="binary",
        target=TARGET,
    )
    assert found.difference.value == pytest.approx(same.difference.value)
    assert both.difference == same.difference
    with pytest.raises(hpometrics.MetricInputError, match="probabilit"):
        compare(*logits, metric="brier", output="binary", target=TARGET)


def test_a_function_of_the_whole_matrix():
    """F1 is no mean over rows: its difference is that of the values, its spread that of fresh samples."""
    found = compare(CLOSE > 0.5, FAR > 0.5, metric="f1", output="binary", target=TARGET)
    values = [f1_score(TARGET, scores > 0.5) for scores in (CLOSE, FAR)]
    assert found.difference.value == pytest.approx(values[0] - values[1])
    draws = RNG.integers(0, ROWS, (400, ROWS))
    gaps = [f1_score(TARGET[at], CLOSE[at] > 0.5) - f1_score(TARGET[at], FAR[at] > 0.5) for at in draws]
    spread = (found.difference.high - found.difference.low) / 2 / scipy.stats.norm.ppf(0.975)
    assert spread == pytest.approx(np.std(gaps), rel=0.15)


@pytest.mark.parametrize(
    ("metric", "output", "inputs"),
    [("f1(average=macro)", Category(3), "predictions"), ("log_loss", "category", "probabilities")],
)
def test_categories(metric, output, inputs):
    """The mean of each model's row values is the metric."""
    target = RNG.integers(0, 3, 200)
    chances = [RNG.dirichlet(np.ones(3), 200) + gap * np.eye(3)[target] for gap in (1.0, 0.2)]
    chances = [one / one.sum(1, keepdims=True) for one in chances]
    sides = [one.argmax(1) if inputs == "predictions" else one for one in chances]
    found = compare(*sides, metric=metric, output=output, target=target)
    assert found.verdict == "a is better"
    metric_alone = hpometrics.get_metric(metric, output)
    metric_alone.update(torch.as_tensor(sides[0]), torch.as_tensor(target))
    assert found.values["a"].value == pytest.approx(float(metric_alone.compute()))


def test_texts_and_numbers():
    """Lists of texts, and a metric to minimize."""
    answers = ["the cat sat", "a dog ran far", "it is so", "we go home"]
    first = compare(
        answers, [text[:3] for text in answers], metric="wer", output="text", target=answers, level=0.1
    )
    assert first.values["a"].value == 0 and first.difference.value < 0
    numbers = compare([1.0, 2, 3, 4], [2.0, 4, 3, 6], metric="mae", output="number", target=[1, 2, 3, 4])
    assert (numbers.values["a"].value, numbers.values["b"].value) == (0, 1.25)


def test_rows_that_do_not_count_are_left_out():
    """The ignored label is in no model's rows, and in no cluster."""
    target = np.where(np.arange(ROWS) < 30, -1, TARGET)
    output = "binary(ignore_index=-1)"
    users = np.arange(ROWS) // 6
    found = compare(CLOSE > 0.5, FAR > 0.5, metric="accuracy", output=output, target=target, by=users)
    rest = compare(
        CLOSE[30:] > 0.5,
        FAR[30:] > 0.5,
        metric="accuracy",
        output="binary",
        target=TARGET[30:],
        by=users[30:],
    )
    assert found.difference == rest.difference and found.clusters == rest.clusters == 45
    assert found.rows == rest.rows == ROWS - 30


def test_weights_count():
    """A row of weight 0 could as well be missing."""
    weight = (np.arange(ROWS) >= 30).astype(float)
    found = compare(CLOSE, FAR, metric="brier", output="binary", target=TARGET, sample_weight=weight)
    rest = compare(CLOSE[30:], FAR[30:], metric="brier", output="binary", target=TARGET[30:])
    assert found.difference.value == pytest.approx(rest.difference.value)


def test_several_trainings_of_a_model():
    """A tuple: seeds and rows are both in the interval."""
    noisy = [tuple(np.clip(one + RNG.normal(0, 0.05, ROWS), 0, 1) for _ in range(4)) for one in (CLOSE, FAR)]
    found = compare(*noisy, metric="brier", output="binary", target=TARGET)
    assert found.seeds == 4 and found.pair.test == "t of seeds and rows" and found.verdict == "a is better"
    assert "300 rows, 4 trainings each" in str(found)


def test_row_values_from_elsewhere():
    """Scores of answers need no metric, only their direction."""
    found = compare(CLOSE, FAR, direction="maximize")
    expected = scipy.stats.ttest_rel(CLOSE, FAR)
    assert found.p_value == pytest.approx(expected.pvalue, abs=1e-3)
    with pytest.raises(ConfigError, match="name a metric, or set the direction of row values"):
        compare(CLOSE, FAR)


def test_one_metric_is_compared_by_one_method():
    """The root of equal squares is a mean over rows by chance; the other model has no such rows."""
    target = np.arange(10.0)
    found = compare(
        target, target + np.tile([1, -1, 2, -2, 0.5], 2), metric="rmse", output="number", target=target
    )
    assert found.pair.paired and not found.notes and found.pair.test == "paired t"


def test_rankings_are_compared_as_by_ranx():
    """By user: the values of ir_measures, and the p-values of ranx's paired test on them."""
    random = np.random.default_rng(0)
    target = (random.random((60, 12)) < 0.3).astype(np.int64)
    target[:, 0] = 1  # of a user without a relevant item each has an opinion of its own
    models = [target * 0.2 + random.random((60, 12)) for _ in range(2)]
    qrels = {
        str(user): {str(item): int(one) for item, one in enumerate(row)} for user, row in enumerate(target)
    }
    values = []
    for scores in models:
        run = {
            str(u): {str(item): float(one) for item, one in enumerate(row)} for u, row in enumerate(scores)
        }
        by_user = ir_measures.iter_calc([ir_measures.nDCG @ 5], qrels, run)
        values.append(np.array([one.value for one in sorted(by_user, key=lambda one: int(one.query_id))]))
    found = compare(*models, metric="ndcg@5", output="ranking", target=target)
    plain = compare(*values, direction="maximize")
    p_value, _ = paired_student_t_test(*values)
    assert [one.value for one in found.values.values()] == pytest.approx([one.mean() for one in values])
    assert found.p_value == pytest.approx(p_value, rel=1e-6) == plain.p_value
    assert found.difference.high == pytest.approx(plain.difference.high)


def test_users_are_compared_as_before():
    """Two tables of values by user have their own comparison."""
    users = torch.arange(4)
    a = PerUser({"ndcg@10": (users, torch.tensor([0.5, 0.75, 1.0, 0.75]))})
    b = PerUser({"ndcg@10": (users, torch.tensor([0.5, 0.5, 0.75, 0.25]))})
    found = compare(a, b, "ndcg@10")
    assert isinstance(found, Comparison) and (found.users, found.difference, found.p_value) == (4, 0.25, 0.25)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"target": TARGET}, "output, such as output='binary'"),
        ({"output": "binary"}, "target, the right answers"),
        ({"output": "binary", "target": TARGET[1:]}, "probabilities 300, target 299"),
        ({"output": "binary", "target": TARGET, "by": [1, 2]}, "target 300, by 2"),
        ({"output": "binary", "target": TARGET, "metric": "confusion_matrix"}, "has no direction"),
        (
            {"output": "binary", "target": TARGET, "direction": "maximize"},
            "direction applies to row values",
        ),
        ({"output": "binary", "target": 0 * TARGET}, "roc_auc is undefined"),
        (
            {"output": "binary", "target": TARGET, "names": ["one"]},
            "each model needs a name, got 1 names for 2 models",
        ),
        ({"output": "binary", "target": TARGET, "by": [None] * ROWS}, "got None in row 1"),
        ({"output": "binary", "target": TARGET, "by": np.ones((ROWS, 2))}, "got "),
        ({"output": "binary", "target": TARGET, "by": 3}, "by must contain the cluster of each row, got 3"),
        (
            {"output": "binary", "target": TARGET, "level": "0.05"},
            "level must be between 0 and 1, got '0.05'",
        ),
        ({"metric": None, "direction": "maximize", "target": TARGET}, "target needs a metric"),
        ({"output": "binary", "target": TARGET, "weights": "w"}, "weights names a column of files"),
        (
            {"output": "binary", "target": TARGET, "tragte": TARGET},
            "compare has no option 'tragte'; it has out",
        ),
        (
            {"output": "binary", "target": TARGET, "metric": "average_precision", "by": TARGET},
            "rows cannot be clustered",
        ),
    ],
)
def test_what_is_missing_is_said(options, problem):
    """With what to do."""
    with pytest.raises(ConfigError, match=problem):
        compare(CLOSE, FAR, **{"metric": "roc_auc", **options})


@pytest.mark.parametrize(
    ("models", "problem"),
    [
        ((1, 2), "need one value per row, got 1"),
        (([], []), "there are no rows to compare"),
        (((), (CLOSE,)), "got an empty one"),
    ],
    ids=["numbers", "empty", "no training"],
)
def test_what_is_no_model_is_refused(models, problem):
    """In words, whatever was passed."""
    with pytest.raises(ConfigError, match=problem):
        compare(*models, metric="accuracy", output="binary", target=[])


@pytest.mark.parametrize("values", [(["a"], ["b"]), ([1e200, 0], [0, 1]), ([1.0, np.nan], [0, 1])], ids=str)
def test_row_values_are_numbers(values):
    """Of which a mean and a variance can be taken."""
    with pytest.raises(ConfigError, match="row values must be"):
        compare(*values, direction="maximize")


def test_files_are_joined_by_id(files):
    """Whatever their order; rows of one alone are left out, and that is said."""
    result = command("close.csv", "far.csv", "--metric", "roc_auc", "--output", "binary", "--json")
    (found,) = json.loads(result.stdout)
    rest = slice(0, ROWS - 3)
    expected = compare(CLOSE[rest], FAR[rest], metric="roc_auc", output="binary", target=TARGET[rest])
    assert found["pairs"][0]["p_value"] == pytest.approx(expected.p_value)
    assert found["values"]["far.csv"]["value"] == pytest.approx(expected.values["b"].value)
    assert found["notes"] == ["left out: 3 rows of close.csv, because their ids are not in all files"]


def test_files_of_scikit_learn_models_are_compared_as_by_scipy(tmp_path):
    """McNemar's test is the binomial one of the rows that differ; of Brier scores it is the paired t."""
    x, y = load_breast_cancer(return_X_y=True)
    fitted = [make_pipeline(StandardScaler(), LogisticRegression()).fit(x[:380], y[:380])]
    fitted.append(GaussianNB().fit(x[:380], y[:380]))
    scores = [model.predict_proba(x[380:])[:, 1] for model in fitted]
    for name, score in zip("ab", scores, strict=True):
        columns = {"target": y[380:], "prediction": (score > 0.5).astype(int), "probability": score}
        np.savez(tmp_path / f"{name}.npz", **columns)
    asked = ["--metric", "accuracy", "--metric", "brier", "--output", "binary", "--raw", "--json"]
    found = json.loads(command(tmp_path / "a.npz", tmp_path / "b.npz", *asked).stdout)
    right = [(score > 0.5) == y[380:] for score in scores]
    alone = int((right[0] & ~right[1]).sum()), int((right[1] & ~right[0]).sum())
    accuracy, brier = ({**one, **one["pairs"][0]} for one in found)
    assert accuracy["alone"] == list(alone) and sum(alone) > 0 and accuracy["rows"] == len(y) - 380 < 200
    assert accuracy["p_value"] == pytest.approx(scipy.stats.binomtest(alone[0], sum(alone)).pvalue)
    expected = scipy.stats.ttest_rel(*((score - y[380:]) ** 2 for score in scores))
    low, high = expected.confidence_interval()
    assert brier["p_value"] == pytest.approx(expected.pvalue) and brier["test"] == "paired t"
    assert (brier["difference"]["low"], brier["difference"]["high"]) == pytest.approx((low, high))


def test_several_metrics_are_corrected_together(files):
    """Holm over all that are asked for in one call."""
    names = ("--metric", "accuracy", "--metric", "f1", "--metric", "brier")
    found = json.loads(command("close.csv", "far.csv", "--output", "binary", *names, "--json").stdout)
    raw = {one["metric"]: one["pairs"][0]["raw_p_value"] for one in found}
    expected = hpometrics.metrics.p_values.holm(raw)
    assert {one["metric"]: one["pairs"][0]["p_value"] for one in found} == expected


def test_clusters_and_row_values_are_columns(files):
    """Rows of one user are not independent; a column of numbers needs no metric."""
    by_user = command(
        "close.csv", "far.csv", "--metric", "accuracy", "--output", "binary", "--by", "user"
    ).stdout
    assert "297 rows in 50 clusters" in by_user and "t of clusters p" in by_user
    values = command("close.csv", "far.csv", "--values", "probability", "--direction", "maximize")
    assert values.exit_code == 0 and "probability ^ on the same 297 rows" in values.stdout


def test_ids_are_the_same_in_every_kind_of_file(tmp_path):
    """1, 1.0 and the text 1 name one row, as CSV has texts and JSON numbers."""
    ids = range(40)
    write(tmp_path / "a.csv", CLOSE, ids, id=[*ids])
    write(tmp_path / "b.csv", FAR, ids, id=[f"{row}.0" for row in ids])
    lines = [
        json.dumps({"id": row, "target": int(TARGET[row]), "prediction": int(FAR[row] > 0.5)}) for row in ids
    ]
    (tmp_path / "b.jsonl").write_text("\n".join(lines))
    np.savez(
        tmp_path / "b.npz", id=np.arange(40), target=TARGET[:40], prediction=(FAR[:40] > 0.5).astype(int)
    )
    found = [
        compare(tmp_path / "a.csv", tmp_path / name, metric="accuracy", output="binary")
        for name in ("b.csv", "b.jsonl", "b.npz")
    ]
    assert [one.rows for one in found] == [40] * 3
    assert len({one.difference.value for one in found}) == 1
    (tmp_path / "b.jsonl").write_text("\n".join([*lines[:-1], lines[-1].replace('"id": 39', '"id": [39]')]))
    with pytest.raises(ValueError, match=r"b.jsonl:40: column 'id' holds \[39\]"):
        compare(tmp_path / "a.csv", tmp_path / "b.jsonl", metric="accuracy", output="binary")


def test_companions_of_rows_are_the_same_in_each_file(files, tmp_path):
    """Weights and clusters, as targets: the rows are the same."""
    ones, twos = [1] * ROWS, [2] * ROWS
    base = ("--metric", "accuracy", "--output", "binary")
    write(tmp_path / "w.csv", CLOSE, sample_weight=ones, user=ones)
    write(tmp_path / "v.csv", FAR, sample_weight=twos, user=ones)
    write(tmp_path / "u.csv", FAR, sample_weight=ones, user=twos)
    write(tmp_path / "none.csv", FAR)
    assert "w.csv and v.csv have different weights, first in row 1" in command("w.csv", "v.csv", *base).stderr
    assert "w.csv has weights, but none.csv has none" in command("w.csv", "none.csv", *base).stderr
    assert "have different clusters" in command("w.csv", "u.csv", *base, "--by", "user").stderr
    assert "a file is named twice" in command("w.csv,w.csv", "u.csv,v.csv", *base).stderr


def test_a_gate_fails_if_the_first_is_worse(files):
    """Exit code 1; by no more than the equivalence it passes, and so does the better one."""
    base = ("--metric", "roc_auc", "--output", "binary", "--fail-if-worse")
    assert command("far.csv", "close.csv", *base).exit_code == 1
    assert command("close.csv", "far.csv", *base).exit_code == 0
    assert command("far.csv", "close.csv", *base, "--equivalence", "0.5").exit_code == 0


def test_files_are_read_once_for_all_metrics(files, monkeypatch):
    """Ten metrics take no more reading than one."""
    opened = []
    monkeypatch.setattr(measure, "open_table", lambda *given: opened.append(given) or open_table(*given))
    names = [word for name in ("accuracy", "f1", "brier", "roc_auc") for word in ("--metric", name)]
    assert command("close.csv", "far.csv", "--output", "binary", *names).exit_code == 0
    assert len(opened) == 2


def test_labels_in_words_have_one_number(tmp_path):
    """A class that one model never predicts is a class all the same; other target labels are refused."""
    head = "target,prediction\n"
    (tmp_path / "a.csv").write_text(head + "cat,cat\ndog,dog\neel,eel\ncat,dog\n" * 8)
    (tmp_path / "b.csv").write_text(head + "cat,dog\ndog,dog\neel,dog\ncat,newt\n" * 8)
    paths = (tmp_path / "a.csv", tmp_path / "b.csv")
    found = compare(*paths, metric="accuracy", output="category")
    assert [one.value for one in found.values.values()] == [0.75, 0.25]
    (tmp_path / "b.csv").write_text(head + "cat,dog\ndog,dog\neel,dog\ndog,newt\n" * 8)
    with pytest.raises(
        ConfigError, match=r"have different targets in rows with the same position.*first in row 4"
    ):
        compare(*paths, metric="accuracy", output="category")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("far.csv",), "needs two trials of a directory, or more files or directories"),
        (("close.csv", "far.csv"), "a comparison of prediction files needs a metric; name one"),
        (("close.csv", "far.csv", "--metric", "f1"), "set --output"),
        (("close.csv", "far.csv", "--metric", "f2x", "--output", "binary"), "no metric 'f2x'"),
        (("close.csv", "far.csv", "--values", "score", "--direction", "maximize"), "no column 'score'"),
        (("close.csv", "none.csv", "--metric", "f1"), "is neither a file of predictions nor a run directory"),
        (
            ("close.csv", "far.csv", "--metric", "f1", "--output", "binary", "--id", "user"),
            "ids used by more than one row: '0'",
        ),
        (("close.csv", "far.csv", "--metric", "f1", "--values", "target"), "in place of a metric"),
    ],
)
def test_a_wrong_request_is_said(files, arguments, problem):
    """In one line, with exit code 2."""
    result = command(*arguments)
    assert result.exit_code == 2 and problem in " ".join(result.stderr.split())


SWEEP = """\
engine: {target: row_engine:train, output: binary}
space: {noise: {float: [0.1, 1.0]}}
metrics: {optimize: roc_auc}
search: {seed: 1}
budget: {trials: 3, epochs: 2}
results: {statistics: KEPT}
"""
ENGINE = """\
import torch


def train(params, run):
    target = torch.arange(200) % 2
    for epoch in run.epochs():
        noise = torch.rand(200, generator=torch.Generator().manual_seed(epoch))
        run.update(probabilities=(target + params["noise"] * (noise - 0.5) * 4).sigmoid(), target=target)
"""


@pytest.mark.parametrize("kept", ["rows", "all"])
def test_trials_are_compared_by_their_kept_rows(sweep, folder, kept):
    """By the optimized metric where its row values are kept, by any where all scores are."""
    (folder / "row_engine.py").write_text(ENGINE)
    assert sweep(SWEEP.replace("KEPT", kept)).exit_code == 0
    result = command("runs/sweep", 0, 1)
    assert result.exit_code == 0 and "roc_auc ^ on the same 200 rows" in result.stdout, result.output
    assert "runs/sweep:0" in result.stdout and "DeLong p" in result.stdout
    pick = json.loads(command("runs/sweep", "runs/sweep:2", "--metric", "roc_auc", "--json").stdout)
    best = json.loads(CliRunner().invoke(main, ["best", "runs/sweep", "--json"]).stdout)
    assert pick[0]["values"]["runs/sweep"]["value"] == pytest.approx(best["value"])
    assert all(0 <= one["low"] <= one["high"] <= 1 for one in pick[0]["values"].values())
    weighed = command("runs/sweep:0", "runs/sweep:1", "--weights", "w")
    assert weighed.exit_code == 2 and "weights names a column of files" in weighed.stderr
    write(folder / "close.csv", CLOSE)
    beside = command("runs/sweep:0", "close.csv")
    assert beside.exit_code == 2
    assert ("numbers of rows differ" if kept == "all" else "has no stored scores, which") in beside.stderr
    other = command("runs/sweep:0", "runs/sweep:1", "--metric", "brier")
    if kept == "all":
        assert other.exit_code == 0 and "brier v on the same 200 rows" in other.stdout
    else:
        assert other.exit_code == 2 and "brier cannot be computed from a confusion matrix" in other.stderr


def test_contenders_are_compared_by_their_fresh_trainings(sweep, folder):
    """Under shared seeds, over seeds and rows as in the confirmation; a line says which were compared."""
    (folder / "row_engine.py").write_text(
        ENGINE.replace("manual_seed(epoch)", "manual_seed(run.seed + epoch)")
    )
    text = f"{SWEEP.replace('KEPT', 'rows')}confirm: {{top: 2, repeats: 3, equivalence: 0}}\n"
    assert sweep(text).exit_code == 0
    end = json.loads((folder / "runs/sweep/confirm.json").read_text())["end"]
    (look,) = end["looks"]
    (pair,) = look["pairs"]
    sides = [f"runs/sweep:{pair[name]}" for name in ("leader", "trial")]
    (found,) = json.loads(command(*sides, "--json").stdout)
    assert found["seeds"] == 3
    assert found["pairs"][0]["difference"]["value"] == pytest.approx(pair["difference"])
    assert found["pairs"][0]["p_value"] == pytest.approx(pair["p_value"], rel=1e-6)
    assert found["notes"] == ["compared by 3 fresh trainings of each, under the same seeds"]
    (other,) = {0, 1, 2} - {one["trial"] for one in end["standings"]}
    single = command(sides[0], f"runs/sweep:{other}")
    assert single.exit_code == 0, single.output
    said = f"with its luck, because runs/sweep:{other} was not trained again"
    assert said in single.stdout and "trainings each" not in single.stdout
