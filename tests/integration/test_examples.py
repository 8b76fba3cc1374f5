"""Every example runs as its docstring says, in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from forked import hpometrics, program
from matrix import EXHAUSTIVE

from examples import recommender

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTS = {
    "any_engine.py": r"a plain function: f1\(average=macro\) (0\.\d+)",
    "custom_metric.py": r"maximize padded_token_accuracy: (0\.\d+)",
    "define_by_run.py": r"roc_auc (0\.\d+)",
    "optuna_study.py": r"maximize f1\(average=macro\): (0\.\d+)",
    "with_ignite.py": r"f1\(average=macro\) (0\.\d+)",
    "with_lightning.py": r"f1\(average=macro\) (0\.\d+)",
    "with_sklearn.py": r"f1\(average=macro\) (0\.\d+)",
    "with_transformers.py": r"f1\(average=macro\) (0\.\d+)",
}
PRINTS_ON_RAY = {
    "ray_own_tuner.py": r"f1\(average=macro\) (0\.\d+)",
    "ray_tuner.py": r"maximize f1\(average=macro\): (0\.\d+)",
}
FEWER = {"with_transformers.py": (1,), "ray_tuner.py": (2, 2)}
"""Trials and epochs of `main` with which the short suite runs what takes many seconds as it is."""
FRESH = ("optuna_study.py", "with_ignite.py", "with_lightning.py", "with_sklearn.py")
"""One example of each host, which the exhaustive suite runs in a new interpreter."""

A_WORKING_SEARCH = 0.85  # what each of them passes by far; a broken one stays near 0.5 or 0.1
ENGINES = {
    "breast_cancer.py", "diabetes.py", "digit_halves.py", "digit_stream.py", "digit_traits.py", "digits.py",
    "forecast.py", "multitask.py", "recommender.py", "small_digits.py", "vowels.py",
}  # fmt: skip
"""Run by the sweeps of `configs/`."""
EVALUATED = {"engine_params.py"}
"""Run by `hpometrics eval`."""
A_GUESS = 0.5  # what the worst of their engine params passes by far


def assert_optimum(ran, pattern):
    """It ended well and has printed an optimum that a working search finds."""
    assert ran.returncode == 0 and "Warning" not in ran.stderr, ran.stderr
    printed = re.search(pattern, ran.stdout)
    assert printed and float(printed[1]) > A_WORKING_SEARCH, ran.stdout


@pytest.mark.parametrize("name", [pytest.param(n, marks=EXHAUSTIVE if n in FEWER else ()) for n in PRINTS])
def test_an_example_runs(name, tmp_path, monkeypatch):
    """It finds an optimum."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert_optimum(program(EXAMPLES / name, folder=tmp_path).result(), PRINTS[name])


@EXHAUSTIVE
@pytest.mark.parametrize("name", FRESH)
def test_an_example_imports_what_it_uses(name, tmp_path):
    """It runs in a new interpreter; a fork could lean on what its parent has imported."""
    command = [sys.executable, str(EXAMPLES / name)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert_optimum(ran, PRINTS[name])


@EXHAUSTIVE
@pytest.mark.ray
@pytest.mark.parametrize("name", PRINTS_ON_RAY)
def test_an_example_on_ray_runs(name, ray_cluster, tmp_path, monkeypatch):
    """The same in a new interpreter, on the cluster of the tests unless it wants one of its own."""
    monkeypatch.setenv("RAY_ADDRESS", ray_cluster)
    monkeypatch.delenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", raising=False)  # as in a shell
    command = [sys.executable, str(EXAMPLES / name)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert_optimum(ran, PRINTS_ON_RAY[name])


OF_FEWER = """
import runpy, sys
sys.argv[0], sys.path[0] = {file!r}, {folder!r}  # Ray's workers look for its modules there too
runpy.run_path({file!r})["main"](*{numbers})
"""


def of_fewer(name, folder):
    """What an example prints of fewer trials and epochs."""
    script = folder / "fewer.py"
    text = OF_FEWER.format(file=str(EXAMPLES / name), folder=str(EXAMPLES), numbers=FEWER[name])
    script.write_text(text, encoding="utf8")
    return program(script, folder=folder).result()


def test_a_long_example_runs_with_fewer_trials(tmp_path, monkeypatch):
    """It finds an optimum at once."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    name = "with_transformers.py"
    assert_optimum(of_fewer(name, tmp_path), PRINTS[name])


@pytest.mark.ray
def test_an_example_on_ray_runs_with_fewer_trials(ray_cluster, tmp_path, monkeypatch):
    """The same, on the cluster of the tests; a reporter in a trainable is in `test_ray_objective`."""
    monkeypatch.setenv("RAY_ADDRESS", ray_cluster)
    monkeypatch.delenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", raising=False)  # as in a shell
    name = "ray_tuner.py"
    assert_optimum(of_fewer(name, tmp_path), PRINTS_ON_RAY[name])


def test_no_example_is_forgotten():
    """Each file is run here or is an engine of a shipped sweep."""
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        *PRINTS,
        *PRINTS_ON_RAY,
        *ENGINES,
        *EVALUATED,
        "__init__.py",
    }


def evaluated(name, count, home, *arguments):
    """What `hpometrics eval` prints of an example, all of whose engine params have a good score."""
    targets = [f"examples.engine_params:{target}" for target in (name, *arguments)]
    ran = hpometrics("eval", *targets, "--dir", home, folder=EXAMPLES.parent).result()
    assert ran.returncode == 0, ran.stderr
    assert f"\n  # engine params evaluated: {count}\n" in ran.stdout
    told = json.loads((home / "evaluator_results.json").read_text())
    scores = [one["_2"]["score"] for one in told["engineParamsScores"]]
    assert len(scores) == count and all(A_GUESS < score < 1 for score in scores)
    return ran.stdout


@pytest.mark.parametrize(
    ("name", "generator"), [("PrecisionEvaluation", None), ("AccuracyEvaluation", "LAMBDAS")]
)
def test_the_documents_run_on_real_digits(name, generator, tmp_path):
    """Naive Bayes by lambda, judged by two evaluations of one list; `best.json` holds the optimum."""
    printed = evaluated(name, 3, tmp_path, *([generator] if generator else []))
    best = json.loads((tmp_path / "best.json").read_text())
    assert best["algorithms"][0]["params"]["lambda"] in (10.0, 100.0, 1000.0)
    assert "Stages: 8 of 12 stages run (data_source 1/3, preparator 1/3" in printed


@EXHAUSTIVE
def test_a_grid_of_texts_shares_its_stages(tmp_path):
    """Texts are read once, vectorized twice, six classifiers trained; the votes cost no training."""
    printed = evaluated("TextEvaluation", 8, tmp_path)
    stages = "data_source 1/8, preparator 2/8, algorithms 6/12, serving 8/8"
    assert f"Stages: 17 of 36 stages run ({stages})" in printed


RATINGS = [(7, 30, 4, 20), (9, 10, 1, 50), (7, 10, 5, 30), (7, 20, 3, 10), (8, 30, 2, 5), (9, 30, 5, 40)]
FORMS = {
    "u.data": ("", "\t"),
    "ratings.dat": ("", "::"),
    "ratings.csv": ("userId,movieId,rating,timestamp\n", ","),
}  # fmt: skip


OTHER_FORMS = {
    "reordered": "timestamp,rating,movieId,userId\n"
    + "".join(f"{t},{r},{i},{u}\n" for u, i, r, t in RATINGS),
    "quoted": '"userId","movieId","rating","timestamp"\n'
    + "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in RATINGS),
}


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_the_columns_of_ratings_are_found_by_their_names(form, tmp_path):
    """Wherever they stand, in quotes or not."""
    (tmp_path / "ratings.csv").write_text(OTHER_FORMS[form])
    user, item = recommender.read(tmp_path / "ratings.csv")
    assert user.tolist() == [0, 0, 0, 1, 2, 2]
    assert item.tolist() == [1, 2, 0, 2, 2, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "u: holds no rating"),
        ("userId,movieId,rating,timestamp\n", "u: holds no rating"),
        (
            "user,item,rating,time\n7,30,4,20\n",
            "u:1: userId, movieId, timestamp are .* first line may name; got 'user,item",
        ),
        ("userId,movieId,rating,timestamp\n7,30,4,20\n7,x,4,20\n", "u:3: .*; got '7,x,4,20'"),
        ("7\t30\t4\t20\n\n7\t30\t4\n", "u:3: .*; got '7,30,4'"),
    ],
    ids=["empty", "head", "names", "word", "short"],
)
def test_a_file_that_holds_no_ratings_is_refused_by_its_line(text, message, tmp_path):
    """In one sentence, before anything is trained."""
    (tmp_path / "u").write_text(text)
    with pytest.raises(ValueError, match=message):
        recommender.read(tmp_path / "u")


@pytest.mark.parametrize("name", FORMS)
def test_a_file_of_movielens_is_feedback(name, tmp_path, monkeypatch):
    """In each of its three forms: users in order, their items by time, the last of several held out."""
    first, separator = FORMS[name]
    lines = [separator.join(map(str, rating)) for rating in RATINGS]
    (tmp_path / name).write_text(first + "\n".join(lines) + "\n")
    monkeypatch.setenv("RATINGS", str(tmp_path / name))
    seen, held_out, num_items = recommender.feedback.__wrapped__()
    assert num_items == 3
    assert [part.tolist() for part in seen] == [[0, 2, 3, 4], [1, 2, 2, 2]]
    assert [part.tolist() for part in held_out] == [[0, 1, 1, 2], [0, 0]]


def test_the_drawn_feedback_has_a_long_tail():
    """A fifth of the items has most of the feedback; active users have many times what others have."""
    (offsets, items), held_out, num_items = recommender.feedback()
    popularity = torch.bincount(items, minlength=num_items).sort(descending=True).values
    assert popularity[: num_items // 5].sum() > 0.6 * popularity.sum()
    assert popularity[0] > 10 * popularity[num_items // 2] > 0
    counts = offsets.diff()
    assert counts.max() > 5 * counts.median()
    assert (held_out[0].diff() >= 1).all()
