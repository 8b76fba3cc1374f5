"""Language models: losses over a large vocabulary beside the cross-entropy of 64 positions at a time."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from hpometrics import MetricCollection, Sequence, get_metric

from .row import Measure, Size, row

VOCABULARY = 50_000
POSITIONS = 64
LOSSES = "perplexity log_loss next_token_perplexity next_token_log_loss token_accuracy bits_per_token"


def draw(size: Size, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Make logits of 8 x 512 positions, and the right tokens, a tenth of them without one."""
    generator = torch.Generator().manual_seed(7)
    shape = (8, size(512))
    logits = torch.randn(*shape, size(VOCABULARY), generator=generator).to(dtype)
    target = torch.randint(logits.shape[-1], shape, generator=generator)
    target[torch.rand(shape, generator=generator) < 0.1] = -100
    return logits, target


def ours(names: list[str], logits: Tensor, target: Tensor, shown: int | None = None) -> Measure:
    """Measure metrics with this package, and return the first values."""

    def measure() -> list[float]:
        metrics = MetricCollection(names, output=Sequence(logits.shape[-1]))
        metrics.update(logits=logits, target=target)
        values = metrics.compute()
        return [values[name].item() for name in names[:shown]]

    return measure


def loss_by_hand(logits: Tensor, target: Tensor) -> tuple[float, int]:
    """Return the sum of the losses in float64 and how many tokens count, a few positions at a time."""
    rows, tokens = logits.flatten(0, 1), target.flatten()
    total = 0.0
    for part, right in zip(rows.split(POSITIONS), tokens.split(POSITIONS), strict=True):
        losses = F.cross_entropy(part.float(), right, reduction="none", ignore_index=-100)
        total += losses.double().sum().item()
    return total, int((tokens != -100).sum())


def add_losses() -> None:
    """Add a row for each dtype and loss."""
    for dtype in (torch.float32, torch.bfloat16):
        for name in ("perplexity", "log_loss"):

            def make(size: Size, dtype: torch.dtype = dtype, name: str = name) -> tuple[Measure, Measure]:
                logits, target = draw(size, dtype)

                def theirs() -> list[float]:
                    total, count = loss_by_hand(logits, target)
                    mean = torch.tensor(total / count, dtype=torch.float64)
                    return [mean.exp().item() if name == "perplexity" else mean.item()]

                return ours([name], logits, target), theirs

            kind = str(dtype).removeprefix("torch.")
            row(
                f"{name}, {kind}",
                f"8 x 512 x 50,000, {kind}",
                peer="cross-entropy",
                wanted=1.2,
                memory=50,
                metrics=name,
                turns=3,
                tolerance=1e-5,
            )(make)


add_losses()


@row(
    "language model panel",
    "six metrics beside one, 8 x 512 x 50,000",
    peer="perplexity alone",
    wanted=1.1,
    metrics=LOSSES,
    turns=3,
)
def panel(size: Size) -> tuple[Measure, Measure]:
    """The time that further metrics of the same logits add."""
    logits, target = draw(size, torch.float32)
    return ours(LOSSES.split(), logits, target, 1), ours(["perplexity"], logits, target)


@row(
    "token_accuracy, bfloat16",
    "8 x 512 x 50,000, bfloat16",
    peer="argmax",
    wanted=1.2,
    memory=50,
    metrics="token_accuracy",
    turns=3,
)
def token_accuracy(size: Size) -> tuple[Measure, Measure]:
    """Argmax of torch does not widen the batch."""
    logits, target = draw(size, torch.bfloat16)
    counted = target != -100

    def measure() -> float:
        metric = get_metric("token_accuracy", Sequence(logits.shape[-1]))
        metric.update(logits=logits, target=target)
        return metric.compute().item()

    return measure, lambda: (logits.argmax(-1) == target)[counted].double().mean().item()
