"""The cost of watching a run: a training step with and without, CPU milliseconds.

With: `run.watch`, and one `run.update` per step that is told its tokens. Without: the same `run.update` bare.
Both take the same steps in turn, in one process and on one thread. The floor is to read each gradient once;
that and all else a watch does is the same whatever the batch, so that its share falls as steps grow.

    python benchmarks/diagnostics.py [--turns 10] [--batch 64]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from hpometrics import Category, Run
from hpometrics.run.monitor import total_norm

CLASSES, WORDS = 64, 24
IN_TURN = 10  # steps of each in turn, between which neither is set up anew


class OverWords(nn.Module):
    """A small transformer over vectors of words, which reads the mean of its positions."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(160, 4, 480, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4)
        self.head = nn.Linear(160, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of each row."""
        return self.head(self.encoder(x).mean(dim=1))


class Training:
    """A model in training under one run after another, each of them watched or bare."""

    def __init__(self, model: nn.Module, x: Tensor) -> None:
        self.model, self.x = model, x
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
        self.target = torch.arange(len(x)) % CLASSES
        whole = torch.full((len(x),), WORDS)
        self.tokens = {"context_tokens": whole, "context_truncated": whole % 3, "label_tokens": whole // 4}

    def steps(self, watched: int | None) -> Iterator[float]:
        """Train on the batch, tell the run, and give the seconds of each step; warmed up by three.

        Args:
            watched: at which steps gradients are read; None watches nothing.
        """
        run = Run(metric="accuracy", output=Category(CLASSES))
        said = {} if watched is None else self.tokens
        for _ in run.epochs(1):
            if watched is not None:
                run.watch(self.model, self.optimizer, every=watched)
            for _ in range(3):
                self.step(run, said)
            for _ in range(IN_TURN):
                yield seconds(lambda: self.step(run, said))
        run.close()  # nobody watches the next one's steps

    def step(self, run: Run, said: Mapping[str, Tensor]) -> None:
        """One step and one update."""
        self.optimizer.zero_grad()
        logits = self.model(self.x)
        nn.functional.cross_entropy(logits, self.target).backward()
        self.optimizer.step()
        run.update(split="train", logits=logits.detach(), target=self.target, **said)


def models(batch: int) -> dict[str, tuple[Callable[[], nn.Module], Tensor]]:
    """The two models of a million parameters, and a batch for each."""
    return {
        "transformer": (OverWords, torch.randn(batch, WORDS, 160)),
        "three layers": (three_layers, torch.randn(batch, 512)),
    }


def three_layers() -> nn.Module:
    """A million parameters in few operations, so that a step is short."""
    return nn.Sequential(
        nn.Linear(512, 768), nn.Tanh(), nn.Linear(768, 768), nn.Tanh(), nn.Linear(768, CLASSES)
    )


def seconds(work: Callable[[], Any]) -> float:
    """CPU seconds."""
    start = time.process_time()
    work()
    return time.process_time() - start


def compare(make: Callable[[], nn.Module], x: Tensor, turns: int, every: int) -> list[float]:
    """Medians: milliseconds of a bare step, of reading its gradients, of their norm; watched over bare.

    Two models of one kind differ by some per cent, by where their weights lie in memory. Hence each is
    watched in every other turn, and the ratio is that of the geometric means of both roles.
    """
    trainings = Training(make(), x), Training(make(), x)
    plain, floors, norms = [], [], []
    ratios: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(2 * turns):
        swapped = turn % 2 == 1
        bare, watched = trainings[::-1] if swapped else trainings
        pairs = list(zip(bare.steps(None), watched.steps(every), strict=True))
        plain += [1e3 * without for without, _ in pairs]
        ratios[swapped] += [with_it / without for without, with_it in pairs]
        grads = [p.grad for p in watched.model.parameters() if p.grad is not None]
        floors.append(1e3 * seconds(lambda grads=grads: [grad.sum() for grad in grads]))
        norms.append(1e3 * seconds(lambda grads=grads: total_norm(grads)))
    both = [statistics.median(ratios[swapped]) for swapped in (False, True)]
    return [
        *(statistics.median(column) for column in (plain, floors, norms)),
        statistics.geometric_mean(both),
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(7)
    pairs = 2 * IN_TURN * asked.turns
    print(f"a step of {asked.batch} rows, CPU milliseconds, medians of {pairs} pairs in turn\n")
    print(f"{'model':16}{'parameters':>12}{'every':>7}{'step':>9}{'floor':>8}{'norm':>8}{'x bare':>9}")
    for name, (make, x) in models(asked.batch).items():
        size = sum(p.numel() for p in make().parameters())
        for every in (1, 8):
            step, floor, norm, ratio = compare(make, x, asked.turns, every)
            print(f"{name:16}{size:12,}{every:7}{step:9.2f}{floor:8.3f}{norm:8.3f}{ratio:9.4f}")


if __name__ == "__main__":
    main()
