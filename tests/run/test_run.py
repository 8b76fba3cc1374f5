from __future__ import annotations

import math
import re

import optuna
import pytest
import torch

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import (
    DirectionError,
    MetricInputError,
    NoFiniteValueError,
    RunError,
)
from hpometrics.metrics.additive import AverageMetric
from hpometrics.metrics.catalogue.classification.confusion_matrix import ConfusionMatrix
from hpometrics.metrics.features import Binary, Category
from hpometrics.metrics.registry.register import get_metric
from hpometrics.records.epoch_log import read_epochs
from hpometrics.records.trial_record import TrialState
from hpometrics.run import Reported, Run, RunSpec, trial as conditions
from hpometrics.run.reporter import ListReporter
from hpometrics.run.trial import run_trial

NAN = math.nan
LOSS = Reported("loss", MINIMIZE)
RIGHT, WRONG = torch.tensor([1, 0, 1, 0]), torch.tensor([0, 1, 0, 1])


def run_of(values: list[float], **facts) -> tuple[Run, ListReporter]:
    """A finished run that logged these losses."""
    reporter = ListReporter()
    run = Run(reporter, **{"metric": LOSS, **facts})
    for epoch in run.epochs(len(values)):
        run.log(loss=values[epoch])
    return run, reporter


def shares(run: Run, hits: list[int]) -> None:
    """Train epochs whose accuracy is hits/4."""
    for epoch in run.epochs(len(hits)):
        run.update(predictions=torch.cat([RIGHT[: hits[epoch]], WRONG[hits[epoch] :]]), target=RIGHT)


def test_every_epoch_is_reported_once_with_its_current_value_and_the_picked_one():
    """0.3, 0.1, 0.2 to minimize: each as it is, and beside it the best so far."""
    run, reporter = run_of([0.3, 0.1, 0.2])
    assert [(r.epoch, r.value, r.picked, r.final) for r in reporter.reports] == [
        (0, 0.3, 0.3, False),
        (1, 0.1, 0.1, False),
        (2, 0.2, 0.1, True),
    ]
    assert (run.value, run.best_epoch, run.values) == (0.1, 1, {"loss": 0.1})


def test_the_last_epoch_counts_where_the_user_says_so():
    """`at="last"` picks 0.2, and the report says so."""
    run, reporter = run_of([0.3, 0.1, 0.2], at="last")
    assert (run.value, run.best_epoch, reporter.reports[-1].picked) == (0.2, 2, 0.2)


def test_metrics_are_measured_over_the_whole_epoch():
    """Batches of 3 and 1 rows: accuracy 3/4, not the mean of the batches' means; tracked ones come along."""
    reporter = ListReporter()
    run = Run(reporter, metric="accuracy", output=Binary(), track=["balanced_accuracy"], defaults=False)
    for _ in run.epochs(1):
        run.update(predictions=torch.tensor([1, 0, 1]), target=torch.tensor([1, 0, 1]))
        run.update(predictions=torch.tensor([1]), target=torch.tensor([0]))
    assert run.value == 0.75
    assert set(reporter.reports[0].values) == {"accuracy", "balanced_accuracy"}


def test_what_has_several_numbers_is_recorded_as_lists(tmp_path):
    """A matrix and a number per class, on disk too; a host gets the values that are one number."""
    reporter, names = ListReporter(), ["confusion_matrix", "recall(average=none)"]
    facts = {"metric": "accuracy", "track": names, "output": Category(2), "defaults": False}
    with Run(reporter, directory=tmp_path, **facts) as run:
        shares(run, [3])
    assert run.values == {
        "accuracy": 0.75,
        "confusion_matrix": [[1.0, 1.0], [0.0, 2.0]],
        "recall(average=none)": [0.5, 1.0],
    }
    assert read_epochs(tmp_path)[0].values == run.values
    assert reporter.reports[0].values == {"accuracy": 0.75}


def test_a_matrix_is_never_optimized():
    """A metric of one's own that gives one has no value, and the reason says why."""
    matrix = type("Matrix", (ConfusionMatrix,), {"direction": MAXIMIZE, "name": "matrix"})
    run = Run(metric=matrix(), output=Category(2))
    shares(run, [3])
    with pytest.raises(NoFiniteValueError, match=r"a search optimizes one number, but this is 2 x 2"):
        run.value  # noqa: B018


def test_epochs_do_not_leak_into_each_other():
    """Each epoch starts from nothing."""
    run = Run(metric="accuracy", output=Binary())
    shares(run, [1, 4, 2])
    assert [epoch.values["accuracy"] for epoch in run.history] == [0.25, 1.0, 0.5]
    assert (run.value, run.best_epoch) == (1.0, 1)


def test_a_test_split_is_measured_and_never_steers():
    """Its values carry the split in their name; the picked epoch is the validation's."""
    run = Run(metric="accuracy", output=Binary(), track=["test:balanced_accuracy"], defaults=False)
    for epoch in run.epochs(2):
        run.update(predictions=[RIGHT, WRONG][epoch], target=RIGHT)
        run.update(split="test", predictions=[WRONG, RIGHT][epoch], target=RIGHT)
        run.update(split="train", predictions=RIGHT, target=RIGHT)
    assert run.best_epoch == 0
    assert run.values == {"accuracy": 1.0, "test:balanced_accuracy": 0.0, "train:accuracy": 1.0}
    with pytest.raises(RunError, match="split must be one of train, validation, test, got 'valid'"):
        Run(metric="accuracy", output=Binary()).update(split="valid", predictions=RIGHT, target=RIGHT)


def test_outputs_that_are_not_finite_void_their_epoch_and_no_other():
    """The reason is recorded, training goes on, and the good epochs keep their values."""
    run = Run(metric="accuracy", output=Category(2))
    for epoch in run.epochs(3):
        logits = torch.tensor([[1.0, 0.0], [NAN if epoch == 1 else 0.0, 1.0]])
        run.update(logits=logits, target=torch.tensor([0, 1]))
        run.update(logits=torch.eye(2), target=torch.tensor([0, 1]))
    assert [math.isnan(epoch.values["accuracy"]) for epoch in run.history] == [False, True, False]
    assert "nan" in run.history[1].reasons["accuracy"].lower()
    assert (run.value, run.best_epoch) == (1.0, 0)


def test_a_loss_that_is_not_finite_voids_its_epoch():
    """The criterion of a training that diverges is what shows it first."""
    run = Run(metric="loss", output=Category(2))
    for epoch in run.epochs(2):
        run.update(logits=torch.eye(2), target=torch.tensor([0, 1]), loss=NAN if epoch else 0.5)
    assert run.history[1].reasons["loss"] == "loss: loss= contains nan or infinite values"
    assert (run.value, run.best_epoch) == (0.5, 0)


def test_a_batch_of_the_wrong_shape_is_an_error():
    """What is a mistake and no divergence is raised as it comes."""
    run = Run(metric="accuracy", output=Binary())
    with pytest.raises(MetricInputError):
        run.update(predictions=torch.tensor([1, 0]), target=torch.tensor([1]))


@pytest.mark.parametrize("odd", [NAN, math.inf, -math.inf])
def test_what_is_not_finite_never_wins(odd):
    """It is recorded as nan with the reason, reported as nan, and the best is another epoch."""
    run, reporter = run_of([0.5, odd, 0.4])
    assert math.isnan(reporter.reports[1].value) and reporter.reports[1].picked == 0.5
    assert run.history[1].reasons["loss"] == f"the value is {odd}"
    assert (run.value, run.best_epoch) == (0.4, 2)


@pytest.mark.parametrize(
    ("values", "at", "text"),
    [
        ([NAN, NAN], "best", "loss: none of 2 epochs has a finite value: the value is nan"),
        ([0.5, math.inf], "last", "loss: not the last of 2 epochs has a finite value: the value is inf"),
    ],
)
def test_a_run_without_a_finite_value_fails_by_name(values, at, text):
    """The metric, the number of epochs and the reason are named."""
    run, _ = run_of(values, at=at)
    with pytest.raises(NoFiniteValueError, match=text):
        _ = run.value
    with pytest.raises(NoFiniteValueError, match="loss: none of 0 epochs has a finite value"):
        _ = Run(metric=LOSS).value


def test_an_epoch_without_the_value_is_nan_with_the_reason():
    """A validation every second epoch leaves gaps, not errors."""
    run = Run(metric=LOSS)
    for epoch in run.epochs(3):
        run.log(**({"loss": 0.5} if epoch == 1 else {"aux": 1.0}))
    assert run.history[0].reasons["loss"] == "was not logged in this epoch"
    assert (run.value, run.best_epoch) == (0.5, 1)


def test_a_value_that_is_undefined_has_the_engines_reason():
    """It is nan and never wins; a number that is logged later in the same epoch stands."""
    run = Run(metric=LOSS)
    for epoch in run.epochs(3):
        run.undefined(loss="there were no rows", aux="never there")
        if epoch == 1:
            run.log(loss=0.5)
    assert (run.value, run.best_epoch) == (0.5, 1)
    assert run.history[0].reasons == {"loss": "there were no rows", "aux": "never there"}
    assert run.history[1].reasons == {"aux": "never there"}
    with pytest.raises(RunError, match=r"undefined\(loss=\.\.\.\) expects the reason as text; got nan"):
        Run(metric=LOSS).undefined(loss=NAN)


def test_a_second_value_of_an_epoch_is_refused():
    """The first one would be lost; what the message says instead averages them by their rows."""
    run = Run(metric=LOSS)
    for _ in run.epochs(2):
        run.log(loss=0.5)
        with pytest.raises(RunError, match=r"already logged in this epoch, as 0\.5 .*now as 0\.25") as err:
            run.log(aux=1.0, loss=0.25)
        with pytest.raises(RunError, match="loss was already logged in this epoch"):
            run.undefined(loss="the last batch had no rows")
    assert [record.values["loss"] for record in run.history] == [0.5, 0.5]
    hint = re.search(r"call (run\.record_global\(.*\)) for each", str(err.value))
    run = Run(metric=LOSS)
    for value, rows in [(0.5, 3), (0.1, 1)]:
        eval(hint[1], {"run": run, "AverageMetric": AverageMetric, "value": value, "rows": rows})
    assert run.value == pytest.approx(0.4)


def test_no_pruner_judges_an_epoch_in_which_nothing_was_measured():
    """Optuna takes nan for the worst value there is, and is told nothing of a gap between validations."""
    study = optuna.create_study(pruner=optuna.pruners.MedianPruner(0, 0))
    for _ in range(2):
        trial = study.ask()
        run = Run(trial, metric=LOSS)
        for epoch in run.epochs(4):
            run.log(**({"loss": 1.0 / epoch} if epoch % 2 else {"aux": 1.0}))
        study.tell(trial, run.value)
    assert [list(trial.intermediate_values) for trial in study.trials] == [[1, 3], [1, 3]]
    assert [record.reasons for record in run.history] == [{"loss": "was not logged in this epoch"}, {}] * 2


def test_no_pruner_judges_an_epoch_without_a_batch():
    """A metric of the panel, which the run records as nan with its reason, is no other case."""
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.ThresholdPruner(lower=0.0))
    for _ in range(2):
        trial = study.ask()
        run = Run(trial, metric="accuracy", output=Binary(), checkpoints="none")
        for epoch in run.epochs(4):
            if epoch % 2:
                run.update(logits=torch.tensor([1.0, -1.0]), target=torch.tensor([1, 1]))
        study.tell(trial, run.value)
    assert [trial.intermediate_values for trial in study.trials] == [{1: 0.5, 3: 0.5}] * 2
    assert run.history[0].reasons == {"accuracy": "nothing was measured"}


def test_patience_counts_epochs_without_an_improvement():
    """Two epochs without a gain of more than 0.05 (a nan is none) end the loop; the end is told as final."""
    run, reporter = run_of([0.5, 0.47, NAN, 0.1, 0.1], patience=2, tol=0.05)
    assert [r.epoch for r in reporter.reports] == [0, 1, 2]
    assert [r.final for r in reporter.reports] == [False, False, True]
    assert run.value == 0.47  # the best value is the best value, also where it gained too little


def test_a_target_ends_the_run():
    """The first epoch that is at least as good as the target is the last."""
    run, reporter = run_of([0.5, 0.2, 0.1], target=0.2)
    assert (len(reporter.reports), reporter.reports[-1].final, run.value) == (2, True, 0.2)


def test_the_cap_holds_whatever_the_loop_asks_for():
    """`run.epochs(100)` under a budget of 2 gives 2; without any limit it is an error at once."""
    reporter = ListReporter()
    run = Run(reporter, metric=LOSS, epochs=2)
    for _ in run.epochs(100):
        run.log(loss=1.0)
    assert [r.final for r in reporter.reports] == [False, True]
    with pytest.raises(RunError, match="the number of epochs is missing"):
        Run(metric=LOSS).epochs()


def test_a_break_still_reports_the_epoch_it_leaves():
    """`value` after the loop closes what was updated; an epoch without updates is none."""
    reporter = ListReporter()
    run = Run(reporter, metric=LOSS)
    for epoch in run.epochs(10):
        if epoch == 2:
            break
        run.log(loss=1.0 / (epoch + 1))
        assert run.value <= 1.0 if epoch else True
        if epoch == 1:
            break
    assert (run.value, [r.final for r in reporter.reports]) == (0.5, [False, True])


def test_a_host_that_has_the_final_epoch_gets_no_other():
    """It would never stop the run, nor know its last value; without a host a longer loop goes on."""
    study = optuna.create_study(direction="minimize")
    for host in (None, study.ask()):
        run = Run(host, metric=LOSS)
        for _ in run.epochs(2):
            run.log(loss=1.0)
        assert list(run.epochs(2)) == []
        if host is None:
            assert next(run.epochs(3)) == 2
        else:
            with pytest.raises(RunError, match="reported as final, so none of 3 can follow it; loop once"):
                next(run.epochs(3))


def test_an_iterator_that_outlives_a_break_keeps_its_epoch_open():
    """Its frame looks as in the body of the loop; the error names the call that ends the run."""
    run = Run(metric=LOSS)
    epochs = run.epochs(10)
    for _ in epochs:
        run.log(loss=1.0)
        break
    with pytest.raises(NoFiniteValueError, match=r"none of 0 epochs .* after a break, call run\.close\(\)"):
        run.value  # noqa: B018
    run.close()
    assert run.value == 1.0


@pytest.mark.parametrize("n", [2.5, 0, -1, True, "3"])
def test_the_number_of_epochs_is_a_whole_number(n):
    """At the call, not at the first epoch."""
    with pytest.raises(RunError, match=r"run\.epochs\(n\) must be a whole number of at least 1, got"):
        Run(metric=LOSS).epochs(n)


def test_updates_behind_the_loop_are_refused():
    """They would open an epoch beyond the cap; what a break left open still takes them."""
    run = Run(metric="accuracy", output=Binary(), epochs=2)
    shares(run, [1, 4])
    with pytest.raises(RunError, match=r"run\.update\(\.\.\.\) comes after the last epoch.*into the loop"):
        run.update(split="test", predictions=RIGHT, target=RIGHT)
    with pytest.raises(RunError, match=r"run\.log\(\.\.\.\) comes after the last epoch"):
        run.log(seconds=1.0)
    assert len(run.history) == 2
    run = Run(metric=LOSS)
    for _ in run.epochs(3):
        run.log(loss=1.0)
        break
    run.log(seconds=2.0)
    assert (run.value, run.values) == (1.0, {"loss": 1.0, "seconds": 2.0})


def test_a_run_that_was_stopped_does_not_go_on():
    """Who swallows the stop gets it again from the next loop and the next close; nothing is reported."""
    study = optuna.create_study(pruner=optuna.pruners.ThresholdPruner(upper=0.1))
    run = Run(study.ask(), metric=LOSS)
    for _ in range(2):
        with pytest.raises(optuna.TrialPruned, match="after epoch 0 at 1"):
            for _ in run.epochs(5):
                run.log(loss=1.0)
    run.log(loss=1.0)
    with pytest.raises(optuna.TrialPruned, match="after epoch 0 at 1"):
        run.close()
    assert len(run.history) == len(study.trials[0].intermediate_values) == 1


def test_a_run_on_a_trial_knows_what_the_trial_has_drawn():
    """In an objective of one's own the params come from the trial, also those drawn after the run began."""
    trial = optuna.create_study().ask()
    run = Run(trial, metric=LOSS)
    assert run.params == {}
    assert run.params | {"k": trial.suggest_int("k", 1, 9)} == run.params


def test_seeded_trials_that_overlap_are_warned_of_once():
    """They draw from the same streams, so their seeds say nothing."""
    conditions._warn_shared.cache_clear()  # another test of this process may have been warned
    spec = RunSpec(LOSS)

    def inner(params, run):
        run.log(loss=0.0)

    def outer(params, run):
        run_trial(inner, {}, spec, ListReporter(), seed=1)
        run_trial(inner, {}, spec, ListReporter(), seed=2)
        run.log(loss=0.0)

    with pytest.warns(RuntimeWarning, match="share its random streams") as caught:
        run_trial(outer, {}, spec, ListReporter(), seed=0)
    assert len(caught) == 1


def test_a_run_without_a_loop_is_one_epoch():
    """A user's own objective may update once and return the value."""
    reporter = ListReporter()
    with Run(reporter, metric="accuracy", output=Binary()) as run:
        run.update(predictions=RIGHT, target=RIGHT)
    assert (run.value, len(reporter.reports), reporter.reports[0].final) == (1.0, 1, True)


def test_values_are_natural_numbers_of_the_metric():
    """A tensor with a gradient, a numpy scalar and an int are one number each; text and vectors are none."""
    run = Run(metric=LOSS)
    run.log(loss=torch.tensor([0.1 + 0.2], dtype=torch.float64, requires_grad=True), a=torch.tensor(2), b=7)
    run.log(c=torch.tensor(0.5).numpy()[()])
    run.close()
    assert run.values == {"loss": 0.1 + 0.2, "a": 2.0, "b": 7.0, "c": 0.5}
    for value in ("0.5", None, torch.zeros(2), [0.5]):
        with pytest.raises(RunError, match=r"log\(loss=\.\.\.\) expects one number"):
            Run(metric=LOSS).log(loss=value)


def test_a_logged_name_does_not_hide_a_metric():
    """`accuracy` is measured; the user's own has another name."""
    run = Run(metric="accuracy", output=Binary())
    with pytest.raises(RunError, match="this run"):
        run.log(accuracy=0.5)
    with pytest.raises(RunError, match="measures no metric"):
        Run(metric=LOSS).update(predictions=RIGHT, target=RIGHT)


def test_watch_records_gradient_norm_learning_rate_and_speed():
    """One weight with gradient 3 in each of two updates: norm 3, and the rate of the optimizer."""
    model = torch.nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    run = Run(metric=LOSS)
    run.watch(model, optimizer)
    for _ in run.epochs(1):
        for _ in range(2):
            optimizer.zero_grad()
            (3 * model.weight).sum().backward()
            optimizer.step()
        run.log(loss=1.0)
    assert run.values["gnorm"] == pytest.approx(3.0) and run.values["lr"] == 0.25
    assert run.values["ups"] > 0


def test_one_metric_object_serves_many_runs():
    """A spec holds a prototype; each run measures on its own copy."""
    spec = RunSpec(get_metric("accuracy", Binary()))
    for hits in (1, 3):
        run = Run(spec=spec)
        shares(run, [hits])
        assert run.value == hits / 4


def test_a_trial_of_the_other_direction_is_refused():
    """A study set to minimize cannot search for the highest accuracy."""
    trial = optuna.create_study(study_name="digits").ask()
    with pytest.raises(
        DirectionError, match="accuracy must be maximized, but the study 'digits' is set to minimize"
    ):
        Run(trial, metric="accuracy", output=Binary())


def test_define_by_run_users_keep_their_own_objective():
    """`Run(trial, ...)` in an objective of one's own: every epoch is reported, the picked value returned."""

    def objective(trial: optuna.Trial) -> float:
        hits = trial.suggest_int("hits", 1, 4)
        run = Run(trial, metric="accuracy", output=Binary())
        shares(run, [hits, 0])
        return run.value

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(0))
    study.optimize(objective, n_trials=3)
    for trial in study.trials:
        assert trial.value == trial.params["hits"] / 4
        assert trial.intermediate_values == {0: trial.value, 1: 0.0}


def test_a_stop_that_a_framework_swallowed_is_still_a_stop():
    """Training loops of others catch what they like; the trial is pruned all the same."""
    study = optuna.create_study(pruner=optuna.pruners.ThresholdPruner(upper=0.1))

    def train(params, run):
        try:
            for _ in run.epochs(5):
                run.log(loss=1.0)
        except optuna.TrialPruned:
            pass

    from hpometrics.backends.optuna.reporter import OptunaReporter

    record = run_trial(train, {}, RunSpec(LOSS), OptunaReporter(study.ask()))
    assert record.state is TrialState.PRUNED
    assert len(record.epochs) == 1 and "stopped trial 0 after epoch 0" in record.reason


def test_an_update_by_position_is_refused():
    """Which output a tensor is, is said by its keyword."""
    run = Run(ListReporter(), metric="accuracy", output=Binary(), epochs=1)
    for _ in run.epochs():
        with pytest.raises(
            MetricInputError, match=r"as in run.update\(logits=..., target=...\); got 2 without"
        ):
            run.update(RIGHT, RIGHT)
        run.update(predictions=RIGHT, target=RIGHT)
    assert run.value == 1


def test_a_run_is_a_table_in_a_notebook():
    """A row per epoch or report, the picked one with a star, and each metric with its direction."""
    run, _ = run_of([0.5, 0.25, NAN])
    head, *rows = re.findall("<tr>(.*?)</tr>", run._repr_html_())
    assert head == "<th>epoch</th><th>loss v</th>"
    assert rows == [f"<td>{e}</td><td>{v}</td>" for e, v in (("0", "0.5"), ("1 *", "0.25"), ("2", "-"))]
    assert "<caption>Run(minimize loss, 3 epochs, 0.25 at epoch 1)</caption>" in run._repr_html_()
    by_steps = Run(metric=LOSS)
    for step in by_steps.steps(4, every=2):
        if step % 2:
            by_steps.log(loss=step)
    assert "<th>step</th>" in by_steps._repr_html_()
    assert Run(metric=LOSS)._repr_html_().count("<tr>") == 1  # before its first epoch
