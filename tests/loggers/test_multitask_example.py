"""The shipped sweep over two texts: its objective, table and event file say the same of every task."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
import yaml
from event_files import scalars_of
from forked import hpometrics

from examples.multitask import Writer, split, texts

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def swept(tmp_path_factory) -> Path:
    """The directory of the sweep, with a trial of two epochs."""
    directory = tmp_path_factory.mktemp("multitask")
    fewer = ["budget.trials=1", "budget.epochs=2", f"results.dir={directory}"]
    settings = [part for setting in fewer for part in ("--set", setting)]
    ran = hpometrics("run", "configs/multitask.yaml", *settings, folder=ROOT).result()
    assert ran.returncode == 0, ran.stderr
    assert "datasets/perplexity v" in ran.stdout
    return directory


@pytest.fixture(scope="module")
def best(swept) -> dict:
    """What `best.yaml` says."""
    return yaml.safe_load((swept / "best.yaml").read_text(encoding="utf8"))


def test_the_objective_is_what_the_kept_model_gives(swept, best):
    """Both tasks again from the checkpoint of the picked epoch, by torch alone: each, their mean, pooled."""
    model = Writer(best["params"]["width"])
    model.load_state_dict(torch.load(swept / best["checkpoint"], weights_only=True)["states"]["model"])
    losses = {}
    for task, lines in texts().items():
        _, valid = split(lines)
        with torch.no_grad():
            logits = model(valid[:, :-1]).double()
        losses[task] = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), valid[:, 1:].flatten(), reduction="none"
        )
    each = {f"{task}/perplexity": math.exp(loss.mean()) for task, loss in losses.items()}
    pooled = math.exp(torch.cat(list(losses.values())).mean())
    expected = {**each, "perplexity": sum(each.values()) / 2, "perplexity(tasks=micro)": pooled}
    assert {name: best["values"][name] for name in expected} == pytest.approx(expected, rel=1e-6)
    assert (best["metric"], best["value"]) == ("datasets/perplexity", best["values"]["datasets/perplexity"])


def test_the_table_has_a_row_of_all_and_of_each_task(swept, best):
    """`hpometrics epochs` prints the picked epoch; what an engine and a teacher recorded are columns too."""
    ran = hpometrics("epochs", swept, best["trial"]).result()
    rows = [line.split() for line in ran.stdout.splitlines() if line.strip()]
    assert {"all", "datasets", "topics"} <= {row[0] for row in rows}, ran.stderr
    assert {"perplexity", "perplexity(tasks=micro)", "vowel_accuracy", "real_words"} <= set(
        ran.stdout.split()
    )
    assert f"{best['value']:.4g}" in ran.stdout


def test_tensorboard_has_every_number_of_the_record(swept, best):
    """Each value of each epoch once, in single precision, under its task."""
    trial = swept / "trials" / f"{best['trial']:04}"
    told = scalars_of(trial)
    lines = (trial / "epochs.jsonl").read_text(encoding="utf8").splitlines()
    records = [json.loads(line)["values"] for line in lines]
    for name in (
        "perplexity",
        "topics/token_accuracy",
        "datasets/perplexity",
        "datasets/real_words",
        "gnorm",
    ):
        steps, values = zip(*told[f"{name}/valid"], strict=True)
        assert steps == tuple(range(len(records)))
        assert values == pytest.approx([record[name] for record in records], rel=1e-5)
