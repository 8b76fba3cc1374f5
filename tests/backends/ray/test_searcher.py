"""The searcher tells the study each end of a trial, whatever Tune and its workers do."""

from __future__ import annotations

import math
from typing import Any

import optuna
import pytest
import torch
from optuna.trial import TrialState as OptunaState
from ray import tune
from ray.tune.utils.util import flatten_dict

from hpometrics.backends.optuna.study import study_records
from hpometrics.backends.optuna.trial_queue import claim, reserve
from hpometrics.backends.ray.reporter import TuneReporter
from hpometrics.backends.ray.searcher import StudySearcher
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.records.epoch_log import read_trial
from hpometrics.records.trial_record import TrialRecord, TrialState, write_trial
from hpometrics.run import Reported, Run
from hpometrics.space.dimensions import Int
from hpometrics.space.space import Space

LOSS = Reported("loss", MINIMIZE)


def searcher(total: int = 3, **facts: Any) -> StudySearcher:
    """A searcher over a study with waiting slots."""
    study = optuna.create_study()
    reserve(study, total)
    return StudySearcher(study, Space({"x": Int(1, 3)}), {"loss": MINIMIZE}, **facts)


def told(epoch: int, value: float, picked: float, **facts: Any) -> dict[str, Any]:
    """A report as Tune hands it on, flattened."""
    return {"epochs": epoch, "value": value, "picked": picked, "loss": value, **facts}


def test_the_searcher_tells_each_end_of_a_trial():
    """Stopped is pruned, ended is complete with the picked value, an error failed; strangers are ignored."""
    search = searcher()
    for name in "abc":
        assert search.suggest(name)["params"]["x"] in (1, 2, 3)
    search.on_trial_result("a", told(1, 0.5, 0.5))
    search.on_trial_complete("a", told(2, 0.7, 0.5))
    search.on_trial_result("b", told(1, 0.5, 0.5))
    search.on_trial_complete("b", told(2, 0.7, 0.5, final=True))
    search.on_trial_complete("c", None, error=True)
    search.on_trial_complete("stranger", told(1, 0.5, 0.5))
    trials = search.study.trials
    assert [t.state for t in trials] == [OptunaState.PRUNED, OptunaState.COMPLETE, OptunaState.FAIL]
    assert trials[0].intermediate_values == {0: 0.5, 1: 0.7}
    assert trials[1].value == 0.5
    assert "see the error file" in trials[2].user_attrs["hpometrics:reason"]
    assert search.suggest("d") == StudySearcher.FINISHED


@pytest.mark.parametrize(
    ("judged", "why"),
    [((), "at 0.7"), (("cost",), "by cost at 36"), (("loss", "cost"), "by dominance at loss 0.7, cost 36")],
)
def test_a_worker_that_tune_ended_too_soon_has_its_reason(judged, why):
    """The words that it would have written itself, which name what the scheduler judged."""
    search = searcher(1, judged=judged)
    search.suggest("a")
    search.on_trial_complete("a", told(1, 0.7, 0.7, cost=36.0))
    reason = search.study.trials[0].user_attrs["hpometrics:reason"]
    assert reason == f"Tune stopped trial 0 after epoch 0 {why}"


def test_a_trial_that_ends_between_epochs_is_complete():
    """Tune tells the last report again as done: no second epoch, and a sign that nobody stopped the trial."""
    search = searcher(1)
    search.suggest("a")
    search.on_trial_result("a", told(1, 0.5, 0.5))
    search.on_trial_complete("a", told(1, 0.5, 0.5, done=True))
    assert search.study.trials[0].state is OptunaState.COMPLETE
    assert search.study.trials[0].intermediate_values == {0: 0.5}


@pytest.mark.parametrize(("first", "picked"), [(2, 3), (1, 2)], ids=["odd", "even"])
def test_epochs_without_a_measurement_are_not_reported(first, picked):
    """Validation every second epoch: the best of the measured epochs counts, under its own number."""
    search = searcher(1)
    search.suggest("a")
    search.on_trial_result("a", told(first, 0.5, 0.5))
    search.on_trial_result("a", told(first + 2, 0.2, 0.2))
    search.on_trial_complete("a", told(first + 4, 0.3, 0.2, final=True))
    [record] = study_records(search.study)
    assert (record.state, record.value, record.epoch) == (TrialState.COMPLETE, 0.2, picked)
    assert search.study.trials[0].intermediate_values == {
        first - 1: 0.5,
        first + 1: 0.2,
        first + 3: 0.3,
    }


def test_a_trial_that_tune_stops_after_such_an_epoch_is_pruned():
    """Its last report is a new one, whatever was not measured before."""
    search = searcher(1)
    search.suggest("a")
    search.on_trial_result("a", told(1, 0.5, 0.5))
    search.on_trial_complete("a", told(3, 0.7, 0.5))
    assert search.study.trials[0].state is OptunaState.PRUNED
    reason = search.study.trials[0].user_attrs["hpometrics:reason"]
    assert reason == "Tune stopped trial 0 after epoch 2 at 0.7"


def test_a_worker_that_can_write_no_more_reports_no_epoch():
    """Its last report has the number of an epoch, which a search that was resumed may not have seen."""
    search = searcher(1)
    search.suggest("a")
    search.on_trial_result("a", told(3, 1e300, math.nan, void=True, full="no space left"))
    search.on_trial_complete("a", None, error=True)
    assert search.study.trials[0].user_attrs["hpometrics:reason"] == "no space left"
    assert search.study.trials[0].intermediate_values == {}


def test_a_worker_that_tune_ended_too_soon_has_its_end_and_its_checkpoint(tmp_path):
    """Stopped at its last epoch it is complete, though it had no time to write that itself.

    It took the time of its epochs; that of Tune has the start of the process, too.
    """
    run = Run(metric=LOSS, directory=tmp_path)
    for _ in run.epochs(1):
        run.checkpoint(model=torch.nn.Linear(1, 1))
        run.log(loss=0.5)
    run.close()
    study = optuna.create_study()
    reserve(study, 1)
    space = Space({"x": Int(1, 3)})
    search = StudySearcher(study, space, {"loss": MINIMIZE}, directory_of=lambda number: tmp_path)
    params = search.suggest("a")["params"]
    write_trial(tmp_path, TrialRecord(0, params, TrialState.RUNNING, seed=3))
    search.on_trial_complete("a", told(1, 0.5, 0.5, final=True, time_total_s=99.0))
    record = read_trial(tmp_path)
    assert (record.state, record.value, record.seed) == (TrialState.COMPLETE, 0.5, 3)
    assert record.checkpoint == run.best_checkpoint
    assert record.seconds == record.epochs[0].seconds < 99


def test_a_value_that_is_not_finite_has_failed():
    """Optuna would keep it running for ever, or let minus infinity win."""
    search = searcher(1)
    search.suggest("a")
    search.on_trial_complete("a", told(1, math.nan, math.nan, final=True))
    assert search.study.trials[0].state is OptunaState.FAIL


@pytest.mark.parametrize(("direction", "worst"), [(MINIMIZE, 1e300), (MAXIMIZE, -1e300)])
def test_schedulers_get_a_number_for_a_nan(direction, worst, monkeypatch):
    """Under `value` what is worse than all, under the metric's own name the nan; the study gets the nan."""
    reports = []
    monkeypatch.setattr(tune, "report", lambda report, checkpoint: reports.append(report))
    run = Run(TuneReporter(), metric=Reported("loss", direction))
    for epoch in run.epochs(2):
        run.log(loss=[0.5, math.nan][epoch])
    assert [report["value"] for report in reports] == [0.5, worst]
    assert [math.isnan(report["loss"]) for report in reports] == [False, True]
    assert [report.get("void", False) for report in reports] == [False, True]
    search = searcher(1)
    search.suggest("a")
    search.on_trial_complete("a", told(1, worst, math.nan, void=True))
    assert search.study.trials[0].state is OptunaState.PRUNED
    assert math.isnan(search.study.trials[0].intermediate_values[0])


def test_a_report_has_each_value_under_its_own_name(monkeypatch):
    """Epochs count from 0, as in a record; a name that Tune has for itself is kept in `values`."""
    reports = []
    monkeypatch.setattr(tune, "report", lambda report, checkpoint: reports.append(report))
    run = Run(TuneReporter(), metric=LOSS)
    for epoch in run.epochs(2):
        run.log(loss=0.25 + epoch / 4, level=3.0, epoch=7.0, pid=1.0, **{"a/hits@5": 0.5})
    first, last = reports
    same = {"level": 3.0, "a/hits@5": 0.5, "picked": 0.25, "picked_epoch": 0}
    same |= {"values": {"epoch": 7.0, "pid": 1.0}}
    assert first == {**same, "epoch": 0, "epochs": 1, "loss": 0.25, "value": 0.25}
    assert last == {**same, "epoch": 1, "epochs": 2, "loss": 0.5, "value": 0.5, "final": True}
    search = searcher(1)
    search.suggest("a")
    tunes = {"pid": 417, "time_total_s": 2.0, "config/lr": 0.1, "trial_id": "a", "experiment_tag": "0"}
    search.on_trial_result("a", flatten_dict({**first, **tunes}))
    search.on_trial_complete("a", flatten_dict({**last, **tunes}))
    (record,) = study_records(search.study)
    assert record.picked_values == {"loss": 0.25, "level": 3.0, "epoch": 7.0, "pid": 1.0, "a/hits@5": 0.5}


def test_trials_of_dead_workers_go_on_first():
    """With `take`, a running trial that nobody holds is suggested again, with its number and its params."""
    study = optuna.create_study()
    reserve(study, 2)
    space = Space({"x": Int(1, 100)})
    params = space.suggest(claim(study))
    search = StudySearcher(study, space, {"loss": MINIMIZE}, take=lambda number: True)
    assert search.suggest("a") == {"number": 0, "params": params}
    assert search.suggest("b")["number"] == 1  # what runs here is no orphan


def test_the_searcher_is_saved_without_what_belongs_to_its_process(tmp_path):
    """Tune pickles searchers; live trials and locks stay here."""
    search = searcher()
    search.suggest("a")
    search.save(str(tmp_path / "searcher"))
    assert (tmp_path / "searcher").read_text() == '{"a": 0}'
    state = search.__getstate__()
    assert state["_live"] == {} and state["_take"] is None
