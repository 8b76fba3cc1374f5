"""The engines of `configs/vowel_tokens.yaml` and `configs/vowel_texts.yaml`: vowels put back into English.

The texts are the help topics that ship with Python. In each line of 60 letters and spaces the vowels are
hidden; the model says which they were. Measured by the hidden letters it is a sequence output, by the
restored lines a text output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pydoc_data.topics import topics
from typing import Any

import torch
from torch import Tensor, nn

from hpometrics import Run, Sequence, Text, engine

VOWELS, LETTERS, LINE = "aeiou", " abcdefghijklmnopqrstuvwxyz", 60
HIDDEN = len(LETTERS)
IGNORED = -100


@cache
def lines() -> tuple[Tensor, Tensor]:
    """Return 2,000 training and 500 validation lines as numbers of letters, (N, 60)."""
    text = " ".join(re.findall("[a-z]+", " ".join(topics.values()).lower()))[: 2500 * LINE]
    numbers = torch.tensor([LETTERS.index(letter) for letter in text]).view(-1, LINE)
    return numbers[:2000], numbers[2000:]


def hidden(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Hide the vowels of lines: what is left to see, and which vowel was where (-100 for other letters)."""
    vowels = torch.tensor([LETTERS.index(vowel) for vowel in VOWELS])
    is_vowel = torch.isin(numbers, vowels)
    which = torch.searchsorted(vowels, numbers).clamp(max=len(VOWELS) - 1)
    return numbers.where(~is_vowel, HIDDEN), which.where(is_vowel, IGNORED)


def restored(seen: Tensor, which: Tensor) -> list[str]:
    """Write lines out, with these vowels in the hidden places."""
    return [
        "".join(VOWELS[v] if letter == HIDDEN else LETTERS[letter] for letter, v in zip(*line, strict=True))
        for line in zip(seen.tolist(), which.tolist(), strict=True)
    ]


class Restorer(nn.Module):
    """Two convolutions over letters, and a vowel for every place."""

    def __init__(self, width: int, reach: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(HIDDEN + 1, width)
        self.convolutions = nn.Sequential(
            nn.Conv1d(width, width, 2 * reach + 1, padding=reach), nn.ReLU(),
            nn.Conv1d(width, len(VOWELS), 2 * reach + 1, padding=reach),
        )  # fmt: skip

    def forward(self, seen: Tensor) -> Tensor:
        """Return logits (N, 60, 5)."""
        return self.convolutions(self.embedding(seen).transpose(1, 2)).transpose(1, 2)


def fitted(params: Mapping[str, Any], run: Run) -> Iterator[nn.Module]:
    """Train; give the model at the end of each epoch."""
    seen, which = hidden(lines()[0])
    model = Restorer(params["width"], params["reach"])
    optimizer = torch.optim.Adam(model.parameters(), lr=params["lr"])
    run.restore(model=model, optimizer=optimizer)
    for _ in run.epochs():
        for rows in torch.randperm(len(seen)).split(50):
            loss = nn.functional.cross_entropy(
                model(seen[rows]).flatten(0, 1), which[rows].flatten(), ignore_index=IGNORED
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            yield model
        run.checkpoint(model=model, optimizer=optimizer)


@engine(output=Sequence(len(VOWELS), ignore_index=IGNORED))
def train_tokens(params: Mapping[str, Any], run: Run) -> None:
    """Measure each hidden letter."""
    seen, which = hidden(lines()[1])
    for model in fitted(params, run):
        run.update(logits=model(seen), target=which)


@engine(output=Text())
def train_texts(params: Mapping[str, Any], run: Run) -> None:
    """Measure the restored lines."""
    seen, which = hidden(lines()[1])
    for model in fitted(params, run):
        run.update(predictions=restored(seen, model(seen).argmax(-1)), target=restored(seen, which))
