"""Every shipped sweep file runs as it is, but for fewer trials and epochs."""

from __future__ import annotations

import pytest
import yaml
from forked import hpometrics
from matrix import EXHAUSTIVE
from shipped import CONFIGS, EARLIER, ROOT, changed, check_best, earlier, length, output_of, placed, run_here

from hpometrics.results.run_directory import RunDirectory

ELSEWHERE = ("engine_params", "multitask", "small_digits", "quickstart")
"""Files that the short suite runs in `test_backend_swap`, on both backends, and in `test_readme`."""


POPULATION = ROOT / "configs" / "quickstart_pbt.yaml"
POPULATIONS = (POPULATION.stem, "quickstart_pb2", "quickstart_replay")
"""Files whose trials change their params while they train: after three epochs."""

ON_RAY = [path for path in CONFIGS if "backend: ray" in path.read_text(encoding="utf8")]


def _on_optuna() -> list[object]:
    paths = [path for path in CONFIGS if path not in ON_RAY]
    return [pytest.param(p, id=p.stem, marks=EXHAUSTIVE if p.stem in ELSEWHERE else ()) for p in paths]


def check_run(path, home, trials, printed):
    """It has printed the optimal engine params, of so many, and left them in `best.yaml`."""
    assert f"# engine params evaluated: {trials}" in printed
    check_best(yaml.safe_load(path.read_text(encoding="utf8")), home)


@pytest.mark.parametrize("path", _on_optuna())
def test_a_shipped_sweep_runs(path, tmp_path, monkeypatch):
    """It ends well, prints the optimal engine params and leaves them in `best.yaml`."""
    monkeypatch.chdir(ROOT)
    fewer = ("budget.trials=2", length(path, 1), *placed(path, tmp_path / "run"))
    ran = run_here(path, *fewer, *earlier(path, tmp_path))
    assert ran.exit_code == 0, ran.stderr
    check_run(path, tmp_path / "run", 2, ran.stdout)
    assert ("warm start  2 of 2 trials" in ran.stderr) == (path.stem in EARLIER)


@EXHAUSTIVE
@pytest.mark.ray
@pytest.mark.parametrize("path", ON_RAY, ids=lambda path: path.stem)
def test_a_shipped_sweep_on_ray_runs_in_a_process_of_its_own(path, ray_launcher, tmp_path, monkeypatch):
    """It starts a Ray cluster of its own, the population with whole workers; those of the others are forks.

    `test_backend_swap` runs all files on the cluster of the tests.
    """
    monkeypatch.chdir(ROOT)
    trials, reports = (4, 4) if path.stem in POPULATIONS else (2, 2)
    python = None if path.stem in POPULATIONS else ray_launcher

    def run(path, home, *settings):
        fewer = f"budget.trials={trials}", length(path, reports), *placed(path, home)
        ran = hpometrics("run", path, *changed(*fewer, *settings), folder=ROOT, python=python).result()
        assert ran.returncode == 0, ran.stderr
        check_run(path, home, trials, ran.stdout)
        return RunDirectory(home).records()

    settings = earlier(path, tmp_path)
    if path.stem == "quickstart_replay":
        run(POPULATION, tmp_path / "pbt")
        settings = [f"search.pruner={{pbt_replay: {{run: {tmp_path / 'pbt'}}}}}"]
    records = run(path, tmp_path / "run", *settings)
    if path.stem == "quickstart_replay":
        assert len({tuple(record.given.items()) for record in records}) == 1
    elif path.stem in POPULATIONS:
        assert any(record.exploits for record in records)


def test_every_feature_type_has_a_sweep():
    """There is a shipped sweep for each kind of output that a training loop gives a batch at a time."""
    outputs = [output_of(yaml.safe_load(path.read_text(encoding="utf8"))["engine"]) for path in CONFIGS]
    kinds = {"binary", "category", "set", "number", "vector", "timeseries", "sequence", "text", "ranking"}
    assert {output.type for output in outputs} == kinds


@pytest.mark.parametrize("name", ["quickstart", "recommender"])
def test_the_backends_differ_in_two_words(name):
    """A sweep goes to Ray by `backend` and `pruner` alone."""
    optuna, ray = (
        yaml.safe_load((ROOT / "configs" / f"{stem}.yaml").read_text(encoding="utf8"))
        for stem in (name, f"{name}_ray")
    )
    optuna["backend"], optuna["search"]["pruner"] = ray["backend"], ray["search"]["pruner"]
    assert optuna == ray


def test_a_metric_at_k_keeps_its_name(tmp_path, monkeypatch):
    """`ndcg@10` is optimized and written as it is: in the table, in the results, in the record."""
    monkeypatch.chdir(ROOT)
    recommender = ROOT / "configs" / "recommender.yaml"
    ran = run_here(recommender, "budget.trials=1", "budget.epochs=1", f"results.dir={tmp_path}")
    assert "ndcg@10 ^" in ran.stdout and "  ndcg@10: 0." in ran.stdout, ran.stderr
    best = yaml.safe_load((tmp_path / "best.yaml").read_text(encoding="utf8"))
    assert (best["metric"], best["values"]["ndcg@10"]) == ("ndcg@10", best["value"])
    assert "values.ndcg@10,values.recall@20" in (tmp_path / "trials.csv").read_text(encoding="utf8")
    assert '"ndcg@10":' in (tmp_path / "trials" / "0000" / "epochs.jsonl").read_text(encoding="utf8")
