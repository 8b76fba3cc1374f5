"""Where a metric of ours has the name of a torchmetrics class, the class must give the same number."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from matrix import covering

from hpometrics.metrics.catalogue.torchmetrics import class_of
from hpometrics.metrics.catalogue.torchmetrics._row import Row
from hpometrics.metrics.catalogue.torchmetrics.texts import several
from hpometrics.metrics.registry import index
from hpometrics.testing import Subject, draw, subjects_of
from hpometrics.testing.peers import PEERS

PERCENT = {"bleu": 100.0, "chrf": 100.0, "squad_f1": 0.01, "squad_em": 0.01}
"""Metrics whose number is another share of one than torchmetrics': name -> how many times theirs."""

OURS_ONLY = {"binary": {"average"}, "set": {"samples"}}
"""Parameters or choices that torchmetrics lacks: it has no average of the two classes, nor one by row."""

DEVIATIONS: dict[tuple[str, str], str] = {
    (
        "hinge",
        "binary",
    ): "theirs reads probabilities, so that a margin of 1 is never reached; ours reads logits",
    (
        "hinge",
        "category",
    ): "theirs reads probabilities, so that a margin of 1 is never reached; ours reads logits",
    (
        "concordance",
        "number",
    ): "theirs divides variances by n - 1, which is ddof=1; ours by n, as Lin",
    ("log_auc", "binary"): "theirs sorts the points of a jump of the curve by one coordinate",
    ("log_auc", "category"): "theirs sorts the points of a jump of the curve by one coordinate",
    ("log_auc", "set"): "theirs sorts the points of a jump of the curve by one coordinate",
    ("generalized_dice", "mask"): "theirs weighs a class that an image lacks by other images of the batch",
    (
        "chrf",
        "text",
    ): "theirs averages the F-scores of the orders, eps_smoothing=true; ours is sacrebleu's default",
    ("mer", "text"): "theirs takes hits as words less edits, more than any alignment has; ours counts them",
    ("wil", "text"): "theirs takes hits as words less edits, more than any alignment has; ours counts them",
    ("wip", "text"): "theirs takes hits as words less edits, more than any alignment has; ours counts them",
    ("bleu", "text"): "theirs smooths by adding one, add_k=1; ours by halving, as sacrebleu",
}
"""Name and feature -> why the two numbers differ, by design."""

LOOSE = {"adjusted_mutual_information": 1e-5, "tweedie_deviance": 1e-5}
"""Names whose class computes in float32 inside."""


def pairs() -> list[tuple[Row, Subject]]:
    """Every use of one of our metrics that a row can be built for."""
    found = []
    for row in PEERS:
        for feature in row.features:
            entry = index.index().get((row.name, feature))
            if entry is None:
                continue
            found += [(row, subject) for subject in subjects_of(entry) if fits(row, subject, feature)]
    return found


def params_of(subject: Subject) -> dict[str, Any]:
    """What the name of a use says, its k too."""
    name = subject.name
    return {**dict(name.params), **({} if name.k is None else {"k": name.k})}


def fits(row: Row, subject: Subject, feature: str) -> bool:
    """Whether the row has the parameters of this use, and its packages are there."""
    params = params_of(subject)
    needed = {name for name, value in row.params.items() if isinstance(value, type)}
    lacking = OURS_ONLY.get(feature, set())
    return (
        needed <= params.keys() <= row.params.keys()
        and not lacking & {*params, *params.values()}
        and not row.missing_packages
    )


PAIRS = pairs()
DRAWS = [(80, 0), (16, 3), (80, 1), (23, 2)]
"""Rows and seeds."""


def deviates(row: Row, subject: Subject) -> bool:
    """Whether the two numbers differ by design."""
    return (row.name, subject.output.type) in DEVIATIONS


def batch_for(row: Row, subject: Subject, rows: int, seed: int) -> dict:
    """Draw a batch; for a class that knows one reference, with one each."""
    own = getattr(subject.entry.load(), "draw_batch", None)
    random = torch.Generator().manual_seed(seed)
    batch = own(subject.output, rows, 0.6, random) if own else draw(subject.output, rows, 0.6, seed)
    if row.features == ("ranking",):  # torchmetrics does not retrieve what scores 0
        batch["logits"] = batch["logits"] + 1
    if row.features == ("text",) and isinstance(batch["target"], list) and row.feed is not several:
        batch["target"] = [references[:1] for references in batch["target"]]
    return batch


def difference(row: Row, subject: Subject, batch: dict) -> float:
    """The largest gap between our number and theirs; 0 where both are undefined."""
    theirs = class_of(row)(**params_of(subject))
    theirs.name, theirs.output = row.name, subject.output
    theirs.update(**batch)
    values = torch.stack(
        [subject.measure(batch).double(), PERCENT.get(row.name, 1.0) * theirs.compute().double()]
    )
    gap = (values[0] - values[1]).abs() / values[0].abs().clamp(min=1)
    return gap[~values.isnan().all(0)].nan_to_num(nan=torch.inf).sum().item()


@pytest.mark.parametrize(
    ("row", "subject", "rows", "seed"),
    covering(
        [(*pair, *drawn) for pair in PAIRS if not deviates(*pair) for drawn in DRAWS],
        lambda case: [str(case[1].entry), *case[1].name.params, (case[1].entry.families, case[2])],
        ids=lambda case: f"{case[1]}-{case[2]}-{case[3]}",
    ),
)
def test_our_number_is_theirs(row, subject, rows, seed):
    """On random data, many rows and few, unless the metric deviates by name."""
    assert difference(row, subject, batch_for(row, subject, rows, seed)) < LOOSE.get(row.name, 2e-6)


@pytest.mark.parametrize(
    ("row", "subject"),
    [pair for pair in PAIRS if deviates(*pair)],
    ids=lambda thing: str(thing) if isinstance(thing, Subject) else "",
)
def test_a_deviation_is_one(row, subject):
    """What is excused differs somewhere: an excuse that is not needed any more must go."""
    gaps = (difference(row, subject, batch_for(row, subject, 80, seed)) for seed in range(5))
    assert any(gap > 1e-6 for gap in gaps), DEVIATIONS[row.name, subject.output.type]


def test_every_deviation_is_of_a_pair():
    """An excuse names a metric that is compared."""
    compared = {(row.name, subject.output.type) for row, subject in PAIRS}
    assert DEVIATIONS.keys() <= compared and all(DEVIATIONS.values())
    assert len(compared) > 80
