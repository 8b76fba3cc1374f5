"""Runs of three processes: the first has the host and the files, all end at the same epoch alike."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
import torch
from forked import Forked
from ranks import join, on_ranks

from hpometrics import Float, OptunaObjective, RankError, Reported, Run, SumMetric, Teacher
from hpometrics.exceptions import LoggerError, RunError
from hpometrics.metrics.features import Binary
from hpometrics.records.epoch_log import read_epochs
from hpometrics.run.checkpoint import load_checkpoint, random_of_ranks
from hpometrics.run.reporter import ListReporter

RANKS = (0, 1, 2)
LOSS = Reported("loss", "minimize")
FALLING = [3.0, 2.0, 1.0, 1.0, 1.0, 1.0]


class Weight(torch.nn.Linear):
    """A model of one weight, which every rank fills with its own number."""

    def __init__(self, value: float) -> None:
        super().__init__(1, 1, bias=False)
        torch.nn.init.constant_(self.weight, value)


class Odd(Exception):
    """A stop that does not survive pickling: it wants two arguments and remembers one."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(one)


class OddHost(ListReporter):
    """A host that stops in the second epoch."""

    def report(self, epoch, *told) -> None:
        super().report(epoch, *told)
        if epoch == 1:
            raise Odd("enough", "really")


class Broken:
    """A logger whose disk is full in the second epoch."""

    def begin(self, run) -> None:
        """Do nothing."""

    def epoch(self, run) -> None:
        """Fail."""
        if len(run.history) == 2:
            raise OSError("no space left")

    def end(self, run) -> None:
        """Do nothing."""


def trained(run: Run, epochs: int = 6, losses: list[float] = FALLING) -> dict[str, Any]:
    """Log these losses; how many epochs there were, and how it ended."""
    ended = ""
    try:
        with run:
            for epoch in run.epochs(epochs):
                run.log(loss=losses[epoch])
    except Exception as err:
        ended = f"{type(err).__name__}: {err}"
    return {"epochs": len(run.history), "ended": ended, "best": run.best_epoch, "final": run.ended}


def pruned(rank: int, folder: Path) -> dict[str, Any]:
    """The first rank has the trial; its pruner stops below 1.5."""
    study = optuna.create_study(pruner=optuna.pruners.ThresholdPruner(lower=1.5))
    trial = study.ask() if rank == 0 else None
    run = Run(trial, metric=LOSS, directory=folder / "pruned", loggers=["table"])
    found = trained(run)
    reported = sorted(study.trials[0].intermediate_values) if rank == 0 else None
    return {**found, "reported": reported, "stopped": type(run.stopped).__name__}


def own_counts(rank: int, folder: Path) -> dict[str, Any]:
    """Each rank would go on for another number of epochs."""
    return trained(Run(metric=LOSS), epochs=(3, 5, 2)[rank])


def own_values(rank: int, folder: Path) -> dict[str, Any]:
    """Ranks whose own values would reach the target at other epochs."""
    return trained(Run(metric=LOSS, target=1.5), losses=[each + rank for each in FALLING])


def logger_fails(rank: int, folder: Path) -> dict[str, Any]:
    """The first rank alone has the logger."""
    return trained(Run(metric=LOSS, loggers=[Broken()] if rank == 0 else ()))


def odd_stop(rank: int, folder: Path) -> dict[str, Any]:
    """A stop that cannot be sent."""
    return trained(Run(OddHost(stops=(Odd,)) if rank == 0 else None, metric=LOSS))


def one_cannot_close(rank: int, folder: Path) -> dict[str, Any]:
    """One rank's data set has a task and its teacher none."""
    run, teacher = Run(metric=LOSS), Teacher()
    run.teach(teacher)
    if rank == 1:
        teacher.metrics.add("n", SumMetric(1))
        run.record_local("n", [SumMetric(1)], task="a")
    return trained(run)


def watched(rank: int, folder: Path) -> dict[str, Any]:
    """Gradients 1 and 3 on one rank, 6 on another, none on the third; the rates are those of the ranks."""
    run, model = Run(metric=LOSS), Weight(0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25 + rank)
    with run:
        run.watch(model, optimizer, max_norm=4.0)
        for _ in run.epochs(2):
            for gradient in ((1.0, 3.0), (6.0,), ())[rank]:
                model.weight.grad = torch.full_like(model.weight, gradient)
                optimizer.step()
            run.log(loss=1.0)
    return {"values": dict(run.history[1].values)}


def resumed(rank: int, folder: Path) -> dict[str, Any]:
    """Two epochs, the end of the process, and on from the state of the first rank."""
    torch.manual_seed(rank)
    with Run(metric=LOSS, directory=folder / "resumed") as run:
        model = Weight(rank + 0.5)
        for epoch in run.epochs(2):
            run.log(loss=FALLING[epoch])
            run.checkpoint(model=model)
    drawn = torch.rand(3).tolist()
    torch.manual_seed(99)
    host = ListReporter()
    with Run(host, metric=LOSS, directory=folder / "resumed") as run:
        other = Weight(-1.0)
        done = run.restore(model=other)
        again = torch.rand(3).tolist()
        for epoch in run.epochs(4):
            run.log(loss=FALLING[epoch])
    return {
        "done": done, "epochs": len(run.history), "weight": other.weight.item(), "same": drawn == again,
        "reports": len(host.reports), "drawn": drawn,
    }  # fmt: skip


def searched(rank: int, folder: Path) -> dict[str, Any]:
    """A study of the first rank, whose trials all ranks carry out; one has no finite value."""
    seen = []

    def train(params, run):
        seen.append(params["lr"])
        nan = len(seen) == 2
        for epoch in run.epochs(1 if nan else 4):
            run.log(loss=float("nan") if nan else params["lr"] * FALLING[epoch])

    objective = OptunaObjective(train, {"lr": Float(0.1, 1.0)}, metric=LOSS, directory=folder / "s", seed=3)
    study = None
    if rank == 0:
        study = objective.create_study(pruner=optuna.pruners.ThresholdPruner(lower=0.6))
    objective.optimize(study, **({"n_trials": 4} if rank == 0 else {}))
    states = [trial.state.name for trial in study.trials] if study is not None else None
    return {"seen": seen, "states": states}


def timed(rank: int, folder: Path) -> dict[str, Any]:
    """The time of the first rank is up in its first epoch, that of the others never."""
    return trained(Run(metric=LOSS, trial_time=1e9 if rank else 1e-9))


def repeated(rank: int, folder: Path) -> dict[str, Any]:
    """A study whose trials have two repeats, carried out by all ranks; with retries it is refused."""
    drawn = []

    def train(params, run):
        drawn.append(torch.rand(()).item())
        for _ in run.epochs(2):
            run.log(loss=drawn[-1])

    space = {"lr": Float(0.1, 1.0)}
    objective = OptunaObjective(train, space, metric=LOSS, directory=folder / "r", seed=3, repeats=2)
    study = objective.create_study() if rank == 0 else None
    objective.optimize(study, **({"n_trials": 2} if rank == 0 else {}))
    values = [trial.value for trial in study.trials] if study is not None else None
    refused = ""
    try:
        OptunaObjective(train, space, metric=LOSS, retries=1).optimize(study)
    except RunError as err:
        refused = str(err)
    return {"drawn": drawn, "values": values, "refused": refused}


def early(rank: int, folder: Path) -> dict[str, Any]:
    """A run that was made before its group."""
    torch.distributed.destroy_process_group()
    run = Run(metric=LOSS)
    join(rank, len(RANKS), folder / "store")
    run.log(loss=1.0)
    try:
        run.close()
    except RunError as err:
        return {"refused": str(err)}
    return {}


CASES: dict[str, Callable[[int, Path], dict[str, Any]]] = {
    case.__name__: case
    for case in (
        pruned, own_counts, own_values, logger_fails, odd_stop, one_cannot_close, watched, resumed, searched,
        timed, repeated, early,
    )
}  # fmt: skip


def on_rank(rank: int, folder: Path) -> dict[str, dict[str, Any]]:
    """What one process does: every case in turn."""
    optuna.logging.disable_default_handler()
    return {name: case(rank, folder) for name, case in CASES.items()}


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """The folder that three processes write into."""
    return tmp_path_factory.mktemp("group")


@pytest.fixture(scope="module")
def ranked(home) -> dict[str, list[dict[str, Any]]]:
    """What each of three processes found, by case; one that fails or hangs is an error."""
    ranks = on_ranks(len(RANKS), on_rank, home)
    return {case: [found[case] for found in ranks] for case in CASES}


def test_a_pruner_stops_all_ranks_at_one_epoch(ranked):
    """The third loss is below 1.5: every rank raises Optuna's own exception after three epochs."""
    for each in ranked["pruned"]:
        assert (each["epochs"], each["stopped"], each["final"]) == (3, "TrialPruned", False)
        assert each["ended"] == "TrialPruned: the pruner stopped trial 0 after epoch 2 at 1"
    assert ranked["pruned"][0]["reported"] == [0, 1, 2]


def test_the_first_rank_alone_writes(ranked, home):
    """Every epoch is there once, in the record and in the table."""
    directory = home / "pruned"
    assert [record.epoch for record in read_epochs(directory)] == [0, 1, 2]
    assert len((directory / "epochs.jsonl").read_text().splitlines()) == 3
    assert (directory / "report.txt").read_text().count("epoch:") == 3


def test_the_first_rank_says_how_many_epochs_there_are(ranked):
    """Ranks that would go on for 3, 5 and 2 epochs all go on for 3."""
    assert [(each["epochs"], each["final"], each["ended"]) for each in ranked["own_counts"]] == [
        (3, True, "")
    ] * 3


def test_the_first_rank_says_when_the_target_is_reached(ranked):
    """Its third loss is 1; those that the others logged never come near."""
    assert [(each["epochs"], each["best"]) for each in ranked["own_values"]] == [(3, 2)] * 3


def test_what_fails_on_the_first_rank_is_told_to_all(ranked):
    """The record has the epoch; nobody waits for the next one."""
    first, *others = ranked["logger_fails"]
    assert first["ended"].startswith(f"{LoggerError.__name__}: the logger Broken failed at epoch 1")
    for each in others:
        assert each["ended"].startswith(
            f"{RankError.__name__}: rank 0 failed: LoggerError: the logger Broken"
        )


def test_what_fails_on_another_rank_is_told_to_all(ranked):
    """At the end of the epoch, with its number."""
    one, two, three = (each["ended"] for each in ranked["one_cannot_close"])
    assert two.startswith("RunError: some recorded values name a task and some do not")
    assert one == three == f"RankError: rank 1 failed: {two}"


def test_a_stop_that_cannot_be_sent_stops_all(ranked):
    """As an error with its text, on every rank."""
    for each in ranked["odd_stop"]:
        assert each["epochs"] == 2 and each["ended"].startswith(
            "RankError: Odd: enough (which cannot be sent"
        )


def test_what_ranks_watch_is_put_together_by_its_rule(ranked):
    """Norms (2 + 6) / 2, clipped shares (0 + 1) / 2, two updates an epoch, the rate of the first rank."""
    for each in ranked["watched"]:
        values = each["values"]
        assert (values["gnorm"], values["clip"], values["total_train_updates"], values["lr"]) == (
            4.0,
            0.5,
            4,
            0.25,
        )
        assert values == ranked["watched"][0]["values"]


def test_all_ranks_go_on_from_the_state_of_the_first(ranked, home):
    """With its weight, each with its own random stream; the host of the first alone is told."""
    each = ranked["resumed"]
    assert [(one["done"], one["epochs"], one["weight"], one["same"]) for one in each] == [
        (2, 4, 0.5, True)
    ] * 3
    assert [one["reports"] for one in each] == [4, 0, 0]
    assert len({tuple(one["drawn"]) for one in each}) == 3
    stored = load_checkpoint(home / "resumed" / "checkpoints" / "epoch-0001.pt")
    assert len(random_of_ranks(stored)) == 3


def test_all_ranks_carry_out_the_trials_of_one_study(ranked, home):
    """The same params in the same order, whether trials are complete, pruned or without a value."""
    first, *others = ranked["searched"]
    assert sorted(first["states"]) == ["COMPLETE", "FAIL", "PRUNED", "PRUNED"]
    assert all(each["seen"] == first["seen"] and len(each["seen"]) == 4 for each in others)
    assert len(list((home / "s" / "trials").iterdir())) == 4


def test_the_time_of_the_first_rank_ends_all(ranked):
    """After one epoch, though the clocks of ranks differ."""
    assert [told["epochs"] for told in ranked["timed"]] == [1, 1, 1]


def test_all_ranks_carry_out_all_repeats(ranked):
    """Under the same seeds; the study is told the means of the first rank."""
    first, *others = ranked["repeated"]
    assert len(first["drawn"]) == 4 and all(told["drawn"] == first["drawn"] for told in others)
    a, b, c, d = first["drawn"]
    assert first["values"] == pytest.approx([(a + b) / 2, (c + d) / 2])
    for told in (first, *others):
        assert told["refused"].startswith("leave out retries=: when one rank fails")


def test_a_run_is_made_in_its_group(ranked):
    """One that was made before knows nothing of the other ranks."""
    for each in ranked["early"]:
        assert each["refused"].startswith("the run was created in a group of 1 processes, but now")


def dying(rank: int, folder: Path) -> None:
    """The second of two ranks fails while it trains, in the second epoch."""
    join(rank, 2, folder / "store")
    try:
        with Run(metric="accuracy", output=Binary()) as run:
            for epoch in run.epochs(3):
                if rank == 1 and epoch == 1:
                    raise ValueError("out of memory")
                run.update(predictions=torch.tensor([1]), target=torch.tensor([1]))
    except Exception as err:
        (folder / str(rank)).write_text(f"{type(err).__name__}: {err}")
    os._exit(0)


def test_a_rank_that_is_gone_is_noticed(tmp_path):
    """The other one is told as soon as the process of the first has ended; it does not wait for ever."""
    processes = [Forked(tmp_path, dying, rank, tmp_path) for rank in range(2)]
    assert [process.ended() for process in processes] == [0, 0]
    first, second = ((tmp_path / str(rank)).read_text() for rank in range(2))
    assert second == "ValueError: out of memory"
    assert first.startswith("RankError: rank 0 timed out while waiting for the other ranks")
