"""Trainers that evaluate after a number of steps: a report of the run at each evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import optuna
import pytest
import torch
from small_fits import Fit, Killed, hugging_face, lightning, plain_steps

from hpometrics.backends.optuna.reporter import OptunaReporter
from hpometrics.exceptions import RunError
from hpometrics.metrics.features import Category
from hpometrics.records.trial_record import TrialState
from hpometrics.run import Run, RunSpec
from hpometrics.run.reporter import ListReporter
from hpometrics.run.trial import run_trial

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.* is deprecated:FutureWarning"),  # torch's, of Lightning
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),  # Lightning's advice for larger data
]
TRAINERS = ["lightning", "transformers"]
FACTS: dict[str, Any] = {"metric": "f1(average=macro)", "output": Category(3), "track": ["accuracy", "ece"]}
EPOCHS = 4
"""Of four steps each."""


def by_steps(trainer: str, every: int, directory: Any) -> Fit:
    """Train by a trainer that evaluates after so many steps."""
    if trainer == "lightning":
        return partial(lightning, epochs=EPOCHS, val_check_interval=every)
    return partial(hugging_face, epochs=EPOCHS, directory=directory, eval_strategy="steps", eval_steps=every)


def course(run: Run) -> list[tuple[int | None, Mapping[str, Any]]]:
    """The steps of the reports with the values that were measured."""
    names = (FACTS["metric"], *FACTS["track"])
    return [(one.step, {name: one.values[name] for name in names}) for one in run.history]


@pytest.mark.parametrize("trainer", TRAINERS)
def test_an_evaluation_after_so_many_steps_is_a_report(trainer, tmp_path):
    """The values and the model are those of a loop over `run.steps`; the last report is final."""
    want, got, reporter = Run(**FACTS), None, ListReporter()
    right = plain_steps(want, EPOCHS, 2)
    got = Run(reporter, **FACTS)
    model = by_steps(trainer, 2, tmp_path)(got)
    assert course(got) == course(want)
    assert [one.step for one in got.history] == list(range(2, 17, 2))
    assert [report.final for report in reporter.reports] == [False] * 7 + [True]
    assert all(map(torch.equal, right.state_dict().values(), model.state_dict().values()))


@pytest.mark.parametrize(
    ("trainer", "settings", "steps"),
    [
        ("lightning", {"val_check_interval": 3}, [3, 7, 11, 15]),
        ("lightning", {"val_check_interval": 0.5, "accumulate_grad_batches": 2}, list(range(2, 17, 2))),
        ("lightning", {"val_check_interval": 3, "check_val_every_n_epoch": None}, [3, 6, 9, 12, 15]),
        ("lightning", {"check_val_every_n_epoch": 2}, [8, 16]),
        ("lightning", {"val_check_interval": 3, "max_steps": 6}, [3]),
        ("transformers", {"eval_strategy": "steps", "eval_steps": 3}, [3, 6, 9, 12, 15, 16]),
        ("transformers", {"eval_strategy": "steps", "eval_steps": 3, "max_steps": 7}, [3, 6, 7]),
    ],
    ids=str,
)
def test_reports_come_where_the_trainer_evaluates(trainer, settings, steps, tmp_path):
    """In Lightning a step is a batch, in Transformers an update; neither need divide an epoch."""
    run = Run(**FACTS)
    if trainer == "lightning":
        lightning(run, EPOCHS, **settings)
    else:
        hugging_face(run, EPOCHS, tmp_path, **settings)
    assert [one.step for one in run.history] == steps


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_steps_of_the_spec_end_training(trainer, tmp_path):
    """Six steps of sixteen, with the weights of a loop that ends there."""
    want, got = (Run(spec=RunSpec(**FACTS, steps=6, every=2)) for _ in range(2))
    right = plain_steps(want, EPOCHS, 2)
    model = by_steps(trainer, 2, tmp_path)(got)
    assert course(got) == course(want) and len(got.history) == 3
    assert got.ended
    assert all(map(torch.equal, right.state_dict().values(), model.state_dict().values()))


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_run_of_steps_that_was_killed_goes_on(trainer, tmp_path):
    """After its latest report: the same values as without, and no report twice."""
    want, home = Run(**FACTS), tmp_path / "run"
    plain_steps(want, EPOCHS, 2)
    fit = by_steps(trainer, 2, tmp_path / "trainer")
    with pytest.raises(KeyError, match="killed"), Run(Killed(), directory=home, **FACTS) as run:
        fit(run)
    with Run(directory=home, **FACTS) as run:
        fit(run)
    assert course(run) == course(want)
    assert [one.attempt for one in run.history] == [1, 1, *[2] * 6]


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_hosts_stop_ends_training_within_an_epoch(trainer, tmp_path):
    """The pruner judges the second report, in the midst of the first epoch of the trainer."""
    study = optuna.create_study(
        direction="maximize", pruner=optuna.pruners.ThresholdPruner(lower=2.0, n_warmup_steps=1)
    )
    fit = by_steps(trainer, 1, tmp_path)
    record = run_trial(lambda params, run: fit(run), {}, RunSpec(**FACTS), OptunaReporter(study.ask()))
    assert (record.state, len(record.epochs)) == (TrialState.PRUNED, 2)
    assert "stopped trial 0 after step 2" in record.reason


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"steps": 12, "every": 3}, "due after every 3 steps, but the trainer evaluates after 2;"),
        ({"epochs": 2}, r"counts epochs \(epochs 2\), but the engine calls run.steps"),
    ],
)
@pytest.mark.parametrize("trainer", TRAINERS)
def test_another_rhythm_than_the_spec_has_is_refused(trainer, facts, text, tmp_path):
    """Trials are compared at the same steps."""
    with pytest.raises(RunError, match=text):
        by_steps(trainer, 2, tmp_path)(Run(spec=RunSpec(**FACTS, **facts)))
