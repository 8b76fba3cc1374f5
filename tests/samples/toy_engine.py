"""Engines of a few milliseconds, best at `lr` 0.01; some fail, one dies on request."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
from torch import nn

from hpometrics import Binary, Category, Ranking, Sequence, engine


@engine(output=Binary())
def train(params, run):
    """A score that grows with the epochs and shrinks with the distance of `lr` from 0.01."""
    target = torch.arange(64) % 2
    for epoch in run.epochs():
        noise = torch.randn(64) * (0.5 + abs(params["lr"] - 0.01) * 20 + 1 / (epoch + 1))
        run.update(logits=target * 2.0 - 1.0 + noise, target=target)


@engine(output=Binary())
def learn(params, run):
    """A model with an optimizer, by epochs or by steps; kills its own process where the environment says."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=params["lr"])
    run.restore(model=model, optimizer=optimizer)
    rows = torch.linspace(-1, 1, 256).reshape(64, 4)
    target = (rows.sum(1) > 0).long()
    every = run.spec.every
    for count in run.epochs() if every is None else run.steps():
        noisy = rows + 0.1 * torch.randn_like(rows)
        loss = nn.functional.binary_cross_entropy_with_logits(model(noisy)[:, 0], target.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.due:
            _die_if_told(params, count // (every or 1))
            run.update(logits=model(rows)[:, 0].detach(), target=target)
            run.log(loss=loss.item())
            run.checkpoint(model=model, optimizer=optimizer)


@engine(output=Binary())
def stride(params, run):
    """Steps, however long the sweep wants them."""
    for _ in run.steps(8, every=4):
        if run.due:
            run.update(logits=torch.ones(2), target=torch.tensor([0, 1]))


@engine(output=Binary())
def tell_much(params, run):
    """Its score, and three thousand values beside it."""
    for _ in run.epochs():
        run.update(logits=torch.tensor([params["lr"], -1.0]), target=torch.tensor([1, 0]))
        run.log(**{f"value_{number}_of_the_engine": number + 1 / 3 for number in range(3000)})


@engine(output=Binary())
def see_gpus(params, run):
    """Trains as `train`; each trial is a line in `gpus.txt`: its process and the GPUs that it sees.

    Where there is a pipe `meeting`, the first trials of two workers wait for each other.
    """
    if Path("meeting").exists() and not Path("met").exists():
        with Path("meeting").open("w" if "--hired" in sys.argv else "r"):
            Path("met").touch()
    with Path("gpus.txt").open("a") as file:
        file.write(f"{os.getpid()} {os.environ['CUDA_VISIBLE_DEVICES']}\n")
    train(params, run)


def seen():
    """An output whose side data have been read; each call is a line in the file `calls`."""
    with Path("calls").open("a") as file:
        file.write("called\n")
    popularity = [float(count) for count in Path("popularity").read_text().split()]
    return Ranking(4, seen=([0, 1, 2], [3, 0]), item_popularity=popularity)


@engine(output=seen)
def recommend(params, run):
    """Two users; the item each has seen scores best and is left out."""
    for _ in run.epochs():
        scores = torch.tensor([[0.0, 0.3, 0.2, 0.9], [0.9, params["lr"], 0.5, 0.1]])
        run.update(scores=scores, target=[[1], [2]], users=torch.arange(2))


def rank(params, run):
    """Forty users; the larger `lr`, the more often the right item is first; `first` moves their numbers."""
    random = torch.Generator().manual_seed(0)
    noise = torch.randn(40, 8, generator=random)
    target = nn.functional.one_hot(torch.arange(40) % 8)
    users = torch.arange(40) + params.get("first", 0)
    for _ in run.epochs():
        run.update(scores=noise + params["lr"] * target, target=target, users=users)


def rank_widest_in_the_middle(params, run):
    """The same users; in the second of three epochs no item is more popular than the others."""
    noise = torch.randn(40, 8, generator=torch.Generator().manual_seed(0))
    target = nn.functional.one_hot(torch.arange(40) % 8)
    for epoch in run.epochs():
        popular = torch.arange(8.0) * abs(epoch - 1)
        run.update(scores=noise + params["lr"] * target + popular, target=target, users=torch.arange(40))


def known_users() -> Ranking:
    """Users of group 0 and 1, number 38 of group 2, of others none is known; item 0 is the least popular."""
    groups = torch.arange(39) % 2
    groups[38] = 2
    return Ranking(per_user=True, user_groups=groups, item_popularity=torch.arange(8.0))


@engine(output=known_users)
def rank_known(params, run):
    """The same, with side data."""
    rank(params, run)


@engine(output={"intent": lambda: Category(3), "reply": Sequence(9)})
def talk(params, run):
    """Two outputs of two tasks, `b` the harder one; the larger `lr`, the surer of the target."""
    for epoch in run.epochs():
        run.log(**{"b/hello_avg": params["lr"]})
        for task, rows, split in (("a", 6, "validation"), ("b", 9, "validation"), ("a", 6, "test")):
            target = torch.arange(rows) % 3
            logits = nn.functional.one_hot(target, 3) * (params["lr"] + epoch) + torch.randn(rows, 3)
            facts = {"split": split, "task": task}
            run.update(feature="intent", logits=logits, target=target, **facts)
            words = torch.arange(rows)[:, None] % 9
            shown = nn.functional.one_hot(words, 9) * params["lr"] + torch.randn(rows, 1, 9)
            run.update(feature="reply", logits=shown, target=words, **facts)


@engine(output={"intent": Category(3), "reply": Sequence(9)}, defaults=False)
def talk_quietly(params, run):
    """The same, and only what is asked for."""
    talk(params, run)


@engine(output={"intent": Category(3), "items": seen})
def lost(params, run):
    """An output of the two needs data."""


def fail(params, run):
    """Fail for half of the params."""
    if params["lr"] > 0.003:
        raise ValueError("this is\ntoo hot")
    train(params, run)


def always_fail(params, run):
    """Fail."""
    raise ValueError("never works")


def stumble(params, run):
    """Fail in the first attempt at each params."""
    if _is_first("stumbled", params):
        raise OSError("the disk was away")
    train(params, run)


def vanish_once(params, run):
    """Die without a word in the first attempt at each params."""
    if _is_first("vanished", params):
        os._exit(1)
    train(params, run)


def vanish(params, run):
    """Die without a word for half of the params."""
    if params["lr"] > 0.003:
        os._exit(1)
    train(params, run)


def report(params, run):
    """Report a value that no registry knows."""
    for epoch in run.epochs(2):
        run.log(latency_ms=params["lr"] * 1000 + epoch)


@engine(output=Binary())
def shout(params, run):
    """Print what is of no use to a program that reads the results."""
    print("training")
    train(params, run)


@engine(output=Binary())
def meet(params, run):
    """Print, and wait in the first trials for each other: this process and the worker that it hired."""
    print("training")
    if not Path("met").exists():
        with Path("meeting").open("w" if "--hired" in sys.argv else "r"):
            Path("met").touch()
    train(params, run)


@engine(output=Binary())
def meet_elsewhere(params, run):
    """Wait, in the first trial of a run, until a worker elsewhere trains too; then learn."""
    if not Path("met").exists():
        if "run" in sys.argv:
            Path("ready").write_text("")
        with Path("meeting").open("r" if "run" in sys.argv else "w"):
            Path("met").touch()
    learn(params, run)


@engine(output=Binary())
def learn_beside(params, run):
    """Learn; where the environment does not say to linger, once the pipe `begun` has a writer."""
    if "LINGER_AT" not in os.environ:
        Path("begun").open().close()
    learn(params, run)


@engine(output=Binary())
def meet_late(params, run):
    """Wait, in the first trial on any other machine, until one on the machine that is late has begun."""
    if not Path("met").exists():
        late = "LATE" in os.environ
        if not late:
            Path("waits").touch()
        with Path("meeting").open("w" if late else "r"):
            Path("met").touch()
    train(params, run)


@engine(output=Binary())
def place(params, run):
    """Write in which process and where it is, and which GPU is its own."""
    with Path("places").open("a") as file:
        file.write(f"{os.getpid()} {Path.cwd()} {os.environ.get('CUDA_VISIBLE_DEVICES')}\n")
    train(params, run)


def away():
    """An output; making it leaves the current folder for `away`."""
    Path("away").mkdir(exist_ok=True)
    os.chdir("away")
    return Binary()


@engine(output=away)
def wander(params, run):
    """Leave the current folder before the first epoch, and the folder left for before each further one."""
    away()
    for _ in run.epochs():
        run.update(logits=torch.tensor([0.1, 0.9, params["lr"]]), target=torch.tensor([0, 1, 1]))
        away()


def interrupt(params, run):
    """Press Ctrl-C in the second epoch of the third trial, once."""
    for epoch in run.epochs():
        if epoch == 1 and Path("runs/sweep/trials/0002").exists() and not Path("pressed").exists():
            Path("pressed").touch()
            os.kill(os.getpid(), signal.SIGINT)
        run.update(logits=torch.tensor([0.1, 0.9, params["lr"]]), target=torch.tensor([0, 1, 1]))


def _die_if_told(params, epoch):
    """Kill or stop this process, or wait for ever, at the epoch that the environment names.

    A process is killed or stopped in the second trial only.
    """
    for name, number in (("KILL_AT", signal.SIGKILL), ("STOP_AT", signal.SIGSTOP)):
        if os.environ.get(name) == str(epoch) and len(list(Path("runs/sweep/trials").iterdir())) == 2:
            os.kill(os.getpid(), number)
    _linger_if_told(epoch)


def _linger_if_told(at):
    """Wait at the epoch, or the import, that the environment names: for the pipe `released`, or for ever."""
    if os.environ.get("LINGER_AT") == str(at):
        with Path("lingering").open("a") as file:
            file.write(f"{os.getpid()}\n")
        if Path("released").exists():
            Path("released").read_text()
        else:
            signal.pause()


_linger_if_told("import")


def _is_first(what, params):
    """Say whether these params are new, and leave a file that says they are not."""
    mark = Path(f"{what}-{params['lr']}")
    new = not mark.exists()
    mark.touch()
    return new


not_a_function = 3


@engine(output=Binary())
def trade(params, run):
    """The larger `size`, the surer of the target and the dearer; the second epoch is the better one."""
    target = torch.arange(64) % 2
    for epoch in run.epochs():
        noise = torch.linspace(-4, 4, 64)[torch.randperm(64, generator=torch.Generator().manual_seed(1))]
        run.update(logits=(target * 2.0 - 1.0) * params["size"] * (epoch + 1) / 4 + noise, target=target)
        run.log(cost=params["size"] ** 2 + epoch)
