"""The source of a program's values, `engine.metrics_from`, as `check` reads it."""

from __future__ import annotations

import pytest
import yaml
from sample_sweeps import plan_of, problems_of

from hpometrics.config import engine_section

SWEEP = """\
engine: {command: [python, train.py, "{args}"], metrics_from: SOURCE}
space: {lr: {float: [0.1, 1]}}
metrics: {optimize: accuracy, track: [{metric: loss, direction: minimize}], constraints: [size <= 3]}
backend: {optuna: {workers: 1}}
budget: {trials: 2, epochs: 3}
"""


def sweep(source: str) -> str:
    """A sweep of a program with this source."""
    return SWEEP.replace("SOURCE", source)


@pytest.mark.parametrize(
    "source",
    [
        "stdout",
        "{csv: log.csv}",
        "{csv: '{dir}/log.csv', names: {accuracy: val acc, loss: val loss, size: MB}}",
        "{jsonl: 'runs/{lr}/{seed}.jsonl'}",
        "{tensorboard: '{dir}/events'}",
        "{wandb: '{dir}/logged', names: {accuracy: val.accuracy}}",
        "{regex: 'acc=(?P<acc>.*)', names: {accuracy: acc}}",
        "{regex: ['epoch (?P<epoch>[0-9]+)', 'accuracy: (?P<accuracy>.*)']}",
    ],
)
def test_a_source_is_read_and_written_as_it_is(source):
    """The resolved file reads back; output is what is read without a source."""
    plan = plan_of(sweep(source))
    written = plan.to_config()["engine"].get("metrics_from")
    parsed = yaml.safe_load(source)
    if isinstance(parsed, dict) and isinstance(parsed.get("regex"), str):
        parsed["regex"] = [parsed["regex"]]
    assert written == (None if parsed == "stdout" else parsed)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("stderr", "expected stdout, wandb, tensorboard, or a mapping of one of csv, jsonl, tensorboard, "),
        (
            "{tensorbord: x}",
            "metrics_from needs one of csv, jsonl, tensorboard, wandb, regex; did you mean '",
        ),
        ("{csv: a, jsonl: b}", "metrics_from is one of csv and jsonl, not several"),
        ("{csv: a, name: {accuracy: b}}", "unknown key 'name'; did you mean 'names'?"),
        ("{csv: '{args}'}", "metrics_from.csv: {args} expands to several arguments"),
        ("{csv: '{dri}/log.csv'}", "{dri} is not a param of the sweep or a placeholder; did you mean 'dir'?"),
        ("{regex: 'acc=('}", "is not a regular expression: missing )"),
        ("{regex: 'acc=(.*)'}", "names no value; name a group, as in acc=(?P<accuracy>[0-9.]+)"),
        ("{regex: 'acc=(?P<acuracy>.*)'}", "there is no group named accuracy; did you mean 'acuracy'?"),
        ("{regex: 'acc=(?P<a>.*)', names: {accuracy: b}}", "there is no group named b"),
        ("{csv: a, names: {acuracy: b}}", "acuracy is not a metric of the sweep; did you mean 'accuracy'?"),
    ],
)
def test_a_wrong_source_is_named(source, problem):
    """With its place, and what was probably meant."""
    problems = problems_of(sweep(source))
    assert len(problems) == 1 and problem in problems[0]


def test_events_are_read_from_the_directory_of_the_trial():
    """The short form of the mapping; the program is told the directory by `{dir}`."""
    assert plan_of(sweep("tensorboard")).to_config()["engine"]["metrics_from"] == {"tensorboard": "{dir}"}


def test_wandb_is_read_from_the_directory_of_the_trial(monkeypatch):
    """Where nothing else is said; it has to be installed."""
    assert plan_of(sweep("wandb")).to_config()["engine"]["metrics_from"] == {"wandb": "{dir}"}
    monkeypatch.setattr(engine_section, "find_spec", lambda name: None)
    (problem,) = problems_of(sweep("wandb"))
    assert "reading the files of W&B needs wandb, which is not installed" in problem


def test_programs_at_a_time_write_files_of_their_own():
    """With one worker, one file may serve one trial after another."""
    two = sweep("{csv: log.csv}").replace("workers: 1", "workers: 2")
    (problem,) = problems_of(two)
    assert (
        "several programs would write log.csv at the same time; give each trial its own file, as in "
        "{dir}/log.csv" in problem
    )
    assert problems_of(two.replace("log.csv", "'{dir}/log.csv'")) == []
    fixed = two.replace("log.csv", "'{out}/log.csv'").replace('"{args}"]', '"{args}"], params: {out: logs}')
    (problem,) = problems_of(fixed)
    assert "several programs would write {out}/log.csv at the same time" in problem
    assert problems_of(fixed.replace("{out}/log", "{out}/{seed}")) == []


def test_a_function_has_no_source():
    """It reports by its run."""
    text = sweep("stdout").replace('command: [python, train.py, "{args}"]', "target: a:b")
    assert any("metrics_from applies only to a program" in problem for problem in problems_of(text))


def test_a_missing_package_is_named_with_its_line(monkeypatch):
    """Before the first trial."""
    monkeypatch.setattr("hpometrics.config.engine_section.find_spec", lambda name: None)
    (problem,) = problems_of(sweep("{tensorboard: '{dir}/events'}"))
    assert (
        "reading event files needs tensorboardX, which is not installed: pip install tensorboardX" in problem
    )
