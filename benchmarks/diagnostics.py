"""What it costs to watch a run: a training step with and without, CPU milliseconds.

With: `run.watch`, and one `run.update` per step that is told its tokens. Without: the same `run.update` bare.
Both take the same steps in turn, in one process and on one thread. The floor is to read each gradient once;
that and all else a watch does is the same whatever the batch, so that its share falls as steps grow.

    python benchmarks/diagnostics.py [--pairs 100] [--batch 64]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from hpometrics import Category, Run
from hpometrics.run.gradients import total_norm

CLASSES, WORDS = 64, 24


class OverWords(nn.Module):
    """A small transformer over vectors of words, which reads the mean of its positions."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(160, 4, 480, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4)
        self.head = nn.Linear(160, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Give the logits of each row."""
        return self.head(self.encoder(x).mean(dim=1))


class Training:
    """A model in training, watched or not."""

    def __init__(self, model: nn.Module, x: Tensor, watched: bool) -> None:
        self.model, self.x, self.watched = model, x, watched
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
        self.run = Run(metric="accuracy", output=Category(CLASSES))
        self.target = torch.arange(len(x)) % CLASSES
        self.said: dict[str, Any] = {}
        if watched:
            self.run.watch(model, self.optimizer)
            whole = torch.full((len(x),), WORDS)
            self.said = {"context_tokens": whole, "context_truncated": whole % 3, "label_tokens": whole // 4}

    def step(self) -> None:
        """Train on the batch and tell the run."""
        self.optimizer.zero_grad()
        logits = self.model(self.x)
        nn.functional.cross_entropy(logits, self.target).backward()
        self.optimizer.step()
        self.run.update(split="train", logits=logits.detach(), target=self.target, **self.said)


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


def compare(make: Callable[[], nn.Module], x: Tensor, pairs: int) -> list[float]:
    """Medians: milliseconds of a bare step, of reading its gradients, of their norm; watched over bare."""
    bare, watched = Training(make(), x, watched=False), Training(make(), x, watched=True)
    watched.model.load_state_dict(bare.model.state_dict())
    for _ in range(5):
        bare.step()
        watched.step()
    plain, ratios, floors, norms = [], [], [], []
    for turn in range(pairs):
        order = (bare, watched) if turn % 2 else (watched, bare)
        took = {one.watched: seconds(one.step) for one in order}
        grads = [p.grad for p in watched.model.parameters() if p.grad is not None]
        plain.append(took[False] * 1e3)
        ratios.append(took[True] / took[False])
        floors.append(seconds(lambda grads=grads: [grad.sum() for grad in grads]) * 1e3)
        norms.append(seconds(lambda grads=grads: total_norm(grads)) * 1e3)
    return [statistics.median(column) for column in (plain, floors, norms, ratios)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(7)
    print(f"a step of {asked.batch} rows, CPU milliseconds, medians of {asked.pairs} pairs in turn\n")
    print(f"{'model':16}{'parameters':>12}{'step':>9}{'floor':>8}{'norm':>8}{'watched / bare':>16}")
    for name, (make, x) in models(asked.batch).items():
        size = sum(p.numel() for p in make().parameters())
        step, floor, norm, ratio = compare(make, x, asked.pairs)
        print(f"{name:16}{size:12,}{step:9.2f}{floor:8.3f}{norm:8.3f}{ratio:16.4f}")


if __name__ == "__main__":
    main()
