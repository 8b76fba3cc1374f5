from __future__ import annotations

import optuna
import pytest

from hpometrics import AverageMetric
from hpometrics.backends.optuna.pruners import make_pruner
from hpometrics.backends.optuna.study import study_records
from hpometrics.exceptions import RunError
from hpometrics.run import Reported, Run, RunSpec

SCORE = Reported("score", "maximize")


def ran(*numbers: int | None, host: object = None, **facts: object) -> Run:
    """A run whose score is the number of steps that are done, in thousands."""
    with Run(host, spec=RunSpec(SCORE, **facts)) as run:
        for step in run.steps(*numbers[:1], every=numbers[1] if numbers else None):
            if run.due:
                run.log(score=(step + 1) / 1000)
    return run


@pytest.mark.parametrize(
    ("arguments", "facts", "steps"),
    [
        ((6, 2), {}, [2, 4, 6]),
        ((7, 3), {}, [3, 6, 7]),
        ((4, 4), {}, [4]),
        ((), {"steps": 5, "every": 2}, [2, 4, 5]),
        ((100, 50), {"steps": 5, "every": 2}, [2, 4, 5]),
        ((3, None), {"steps": 5, "every": 2}, [2, 3]),
        ((9, 2), {"reports": 2}, [2, 4]),
        ((9, 2), {"patience": 1, "tol": 1.0}, [2, 4]),
        ((9, 2), {"target": 0.006}, [2, 4, 6]),
    ],
)
def test_a_report_follows_every_so_many_steps_and_the_last(arguments, facts, steps):
    """The spec has precedence over the engine; patience counts reports, and the first sets the mark."""
    run = ran(*arguments, **facts)
    assert [report.step for report in run.history] == steps
    assert [report.epoch for report in run.history] == list(range(len(steps)))
    assert (run.value, run.best_epoch) == (steps[-1] / 1000, len(steps) - 1)


@pytest.mark.parametrize(
    ("size", "begins", "due", "reports"),
    [
        (1, list(range(10)), [3, 7, 9], [4, 8, 10]),
        (2, [0, 2, 4, 6, 8], [2, 6, 8], [4, 8, 10]),
        (3, [0, 3, 6, 9], [3, 6, 9], [6, 9, 12]),
        (4, [0, 4, 8], [0, 4, 8], [4, 8, 12]),
    ],
)
def test_a_pass_takes_several_steps(size, begins, due, reports):
    """Rows are counted, whatever the size of a batch; a report follows the pass in which it falls due."""
    run, seen = Run(metric=SCORE), []
    for step in run.steps(10, every=4, size=size):
        seen.append((step, run.due))
        if run.due:
            run.log(score=float(step))
    assert [step for step, _ in seen] == begins
    assert [step for step, is_due in seen if is_due] == due
    assert [report.step for report in run.history] == reports


def test_rows_go_on_after_the_last_report(tmp_path):
    """A restored run begins where the rows of its last report end."""
    with Run(metric=SCORE, directory=tmp_path, reports=2) as run:
        for _ in run.steps(100, every=20, size=8):
            if run.due:
                run.log(score=1.0)
    with Run(metric=SCORE, directory=tmp_path) as again:
        again.resume_record()
        assert list(again.steps(100, every=20, size=8)) == list(range(40, 100, 8))


def test_the_last_step_of_a_report_is_due():
    """Each step is counted once; what is recorded in any of them is in the report of all."""
    run, seen = Run(metric=SCORE), []
    for step in run.steps(5, every=2):
        seen.append((step, run.due))
        run.record_global("steps", AverageMetric(step))
    assert seen == [(0, False), (1, True), (2, False), (3, True), (4, True)]
    assert [report.values["steps"] for report in run.history] == [0.5, 2.5, 4.0]


def test_each_pass_over_epochs_is_due():
    """So a function that serves both loops validates in each epoch; between loops nothing is due."""
    run = Run(metric=SCORE)
    assert [run.due for _ in run.epochs(2)] == [True, True]
    assert not run.due


@pytest.mark.parametrize("last", [0, 2, 3])
def test_a_break_leaves_a_report_at_the_step_that_it_ends(last):
    """The report that is open is closed when the run is; its step is the number of those begun."""
    run = Run(metric=SCORE)
    for step in run.steps(100, every=3):
        run.undefined(**{f"at_{step}": "not due"})
        if step == last:
            run.log(score=1.0)
            break
    run.close()
    assert run.history[-1].step == last + 1


def test_the_spec_ends_a_trainer_that_reports_where_it_likes():
    """The steps that a trainer sends are those of its reports, until as many as the spec has are done."""
    run = Run(spec=RunSpec(SCORE, steps=100, every=50))
    steps = run.steps()
    next(steps)
    for done, follows in ((40, 40), (90, 90)):
        run.log(score=done / 100)
        assert steps.send(done) == follows
    run.log(score=1.0)
    with pytest.raises(StopIteration):
        steps.send(130)
    assert [report.step for report in run.history] == [40, 90, 130]
    assert run.ended


@pytest.mark.parametrize(
    ("call", "facts", "error"),
    [
        (
            lambda run: run.steps(10),
            {},
            r"the number of steps between reports is missing; set run\.steps\(n, every",
        ),
        (
            lambda run: run.steps(every=5),
            {},
            r"the number of steps is missing; set run\.steps\(n, every=\.\.\.\), or steps=",
        ),
        (
            lambda run: run.steps(10, every=0),
            {},
            "every= of run.steps must be a whole number of at least 1, got 0",
        ),
        (lambda run: run.steps(10, every=-2), {}, "whole number of at least 1, got -2"),
        (lambda run: run.steps(10, every="30s"), {}, "whole number of at least 1, got '30s'"),
        (lambda run: run.steps(2.5, every=1), {}, "whole number of at least 1, got 2.5"),
        (
            lambda run: run.steps(10, every=5, size=6),
            {},
            "size=6 is more than every=5, but a pass has one report",
        ),
        (
            lambda run: run.steps(10, every=5, size=0),
            {},
            "size= of run.steps must be a whole number of at least 1",
        ),
        (lambda run: run.steps(10, every=11), {}, "every=11 is more than the 10 steps of the run"),
        (
            lambda run: run.steps(10, every=5),
            {"epochs": 3},
            r"counts epochs \(epochs 3\), but the engine calls",
        ),
        (
            lambda run: run.epochs(3),
            {"steps": 10, "every": 5},
            r"counts steps \(steps 10, every 5\), but the",
        ),
    ],
)
def test_a_loop_that_does_not_fit_is_refused(call, facts, error):
    """With what the engine calls, what the spec counts, and what to write."""
    with pytest.raises(RunError, match=error):
        call(Run(spec=RunSpec(SCORE, **facts)))


@pytest.mark.parametrize(
    ("facts", "error"),
    [
        ({"steps": 10}, "steps and every belong together: steps is 10; set every too"),
        ({"every": 10}, "steps and every belong together: every is 10; set steps too"),
        ({"steps": 10, "every": 20}, "every=20 is more than the 10 steps of the run"),
        ({"steps": 10, "every": 0}, "every must be a whole number of at least 1, got 0"),
        (
            {"steps": 10, "every": 5, "epochs": 2},
            "a run counts either epochs or steps, got epochs=2 and steps=10",
        ),
    ],
)
def test_a_spec_counts_epochs_or_steps(facts, error):
    """Not both, and no steps without the number of those from one report to the next."""
    with pytest.raises(RunError, match=error):
        RunSpec(SCORE, **facts)


def test_a_record_of_epochs_does_not_go_on_by_steps(tmp_path):
    """Nobody knows how many steps were done."""
    with Run(metric=SCORE, directory=tmp_path) as run:
        for _ in run.epochs(1):
            run.log(score=1.0)
    with Run(metric=SCORE, directory=tmp_path) as again:
        again.resume_record()
        with pytest.raises(RunError, match="this run has completed epochs"):
            next(again.steps(10, every=5))


def test_optuna_counts_the_reports_and_its_trials_know_the_step():
    """A warm-up of one report spares the one at step 10; messages and attributes name steps."""
    study = optuna.create_study(
        direction="maximize", pruner=make_pruner({"threshold": {"lower": 0.025, "warmup": 1}})
    )
    with pytest.raises(optuna.TrialPruned, match=r"stopped trial 0 after step 20 at 0\.02"):
        ran(30, 10, host=study.ask())
    trial = study.trials[0]
    assert trial.intermediate_values == {0: 0.01, 1: 0.02}
    assert (trial.user_attrs["picked_epoch"], trial.user_attrs["picked_step"]) == (1, 20)
    assert study_records(study)[0].step == 20
