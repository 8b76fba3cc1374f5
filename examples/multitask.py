"""The engine of `configs/multitask.yaml`: one model that writes two kinds of English, a task each.

`topics` are the help topics that ship with Python, `datasets` the descriptions that come with scikit-learn's
data sets, much shorter. The model foretells each letter of a line from those before it. Each task has its own
values and all have a common one, so that a search can be for `datasets/perplexity`, for `perplexity` (the
tasks alike) or for `perplexity(tasks=micro)` (the letters alike).

    python -m examples.multitask                  # one run: the table of its best epoch
    hpometrics run configs/multitask.yaml         # a sweep
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pydoc_data.topics import topics
from typing import Any

import torch
from sklearn import datasets
from torch import Tensor, nn

from hpometrics import AverageMetric, Run, Sequence, Teacher, engine, nice_report

LETTERS, LINE, VOWELS = " abcdefghijklmnopqrstuvwxyz", 60, "aeiou"
STEPS, ROWS = 40, 32
OUTPUT = Sequence(len(LETTERS))


@cache
def texts() -> dict[str, Tensor]:
    """Return the lines of each task as numbers of letters, (N, 60); the last fifth is to validate."""
    loaders = ("breast_cancer", "diabetes", "digits", "iris", "linnerud", "wine")
    found = {
        "topics": " ".join(topics.values()),
        "datasets": " ".join(getattr(datasets, f"load_{name}")().DESCR for name in loaders),
    }
    return {task: lines_of(text) for task, text in found.items()}


def lines_of(text: str, most: int = 1000) -> Tensor:
    """Cut the letters and spaces of a text into lines."""
    letters = " ".join(re.findall("[a-z]+", text.lower()))[: most * LINE]
    numbers = torch.tensor([LETTERS.index(letter) for letter in letters])
    return numbers[: len(numbers) // LINE * LINE].view(-1, LINE)


def written(numbers: Tensor) -> str:
    """Write a line out."""
    return "".join(LETTERS[number] for number in numbers.tolist())


def split(lines: Tensor) -> tuple[Tensor, Tensor]:
    """Return the lines to train on and those to validate."""
    return lines[: len(lines) * 4 // 5], lines[len(lines) * 4 // 5 :]


class Writer(nn.Module):
    """Foretells the next letter at each place of a line from the letters within reach before it."""

    def __init__(self, width: int, reach: int = 8) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), width)
        self.layers = nn.Sequential(
            nn.ZeroPad1d((reach - 1, 0)), nn.Conv1d(width, 2 * width, reach), nn.ReLU(),
            nn.Conv1d(2 * width, len(LETTERS), 1),
        )  # fmt: skip

    def forward(self, lines: Tensor) -> Tensor:
        """Return logits (N, T, 27)."""
        return self.layers(self.embedding(lines).transpose(1, 2)).transpose(1, 2)

    def go_on(self, lines: Tensor, letters: int) -> Tensor:
        """Write on, with the likeliest letter each time."""
        for _ in range(letters):
            lines = torch.cat([lines, self(lines)[:, -1:].argmax(-1)], dim=1)
        return lines


class Spelling(Teacher):
    """The share of the words that the model writes which are words of the text."""

    def __init__(self, lines: Tensor) -> None:
        self.known = set(written(lines.flatten()).split())

    def custom_evaluation(self, teacher_action, labels, model_response):
        """Count the words of an answer, and those that are known."""
        words = model_response["text"].split()
        self.metrics.add("real_words", AverageMetric(sum(word in self.known for word in words), len(words)))


@engine(output=OUTPUT)
def train(params: Mapping[str, Any], run: Run) -> None:
    """Train on batches of either task, `share` of them of the shorter text; measure each task."""
    parts = {task: split(lines) for task, lines in texts().items()}
    model = Writer(params["width"])
    optimizer = torch.optim.Adam(model.parameters(), lr=params["lr"])
    run.restore(model=model, optimizer=optimizer)
    run.watch(model, optimizer)
    for task, lines in texts().items():
        run.teach(Spelling(lines), task=task)
    for _ in run.epochs():
        for _ in range(STEPS):
            lines = parts["datasets" if torch.rand(()) < params["share"] else "topics"][0]
            batch = lines[torch.randint(len(lines), (ROWS,))]
            loss = nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            for task, (_, lines) in parts.items():
                measure(run, task, model, lines)
        run.checkpoint(model=model, optimizer=optimizer)


def measure(run: Run, task: str, model: Writer, lines: Tensor) -> None:
    """Measure a task: what was asked for, a value per line of our own, and what its teacher makes of it."""
    logits, target = model(lines[:, :-1]), lines[:, 1:]
    run.update(task=task, logits=logits, target=target)
    is_vowel = torch.isin(target, torch.tensor([LETTERS.index(vowel) for vowel in VOWELS]))
    run.record_local("vowel_accuracy", AverageMetric.from_mask(logits.argmax(-1) == target, is_vowel))
    begun = lines[:8, :20]
    for line, answer in zip(begun, model.go_on(begun, 40), strict=True):
        run.evaluate_response({"text": written(line)}, None, {"text": written(answer[20:])}, task=task)


def main() -> None:
    """Train once; print the table of the best epoch, a row per task. A second call has nothing left to do."""
    facts: dict[str, Any] = {"metric": "datasets/perplexity", "output": OUTPUT, "epochs": 4}
    tracked = ["perplexity(tasks=micro)", "token_accuracy(tasks=micro)"]
    with Run(**facts, track=tracked, directory="runs/multitask_alone", loggers=["tensorboard"]) as run:
        train({"lr": 0.003, "width": 64, "share": 0.4}, run)
    print(nice_report(run.values))


if __name__ == "__main__":
    main()
