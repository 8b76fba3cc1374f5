"""Directions: which way a foreign name of a metric says is better, as far as the registry knows it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..direction import Objective
from ..metrics.registry.index import alias_meaning, entries_of

_WORD = re.compile(r"[a-z0-9]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MINUS = re.compile(r"\s*(?:1\s*)?-")
_CUT = re.compile(r"@[0-9]+\Z")
_AROUND = frozenset(
    "avg average best cv dev epoch eval evaluation final fold holdout last mean metric oof score step test "
    "total train training val valid validation".split()
)
"""Words that say where or when a metric was measured."""
_TURNED = frozenset("neg negative minus inverse inv one improvement drop gap ratio".split())
"""Words that may turn a direction round; what holds one is not judged."""
_SHORT = {
    "acc": "accuracy",
    "ap": "average_precision",
    "auprc": "average_precision",
    "ce": "log_loss",
    "corr": "pearson",
    "error": "loss",
    "losses": "loss",
    "mean_ap": "map",
    "miou": "iou",
    "prec": "precision",
    "qwk": "cohen_kappa",
    "rec": "recall",
}
_OTHERS = frozenset({"err", "gain", "rate"})
"""Names of metrics that elsewhere mean something else: `err` is an error more often than a rank."""


def known_direction(name: str) -> tuple[str, Objective] | None:
    """Find the metric that a name ends with, and its direction; None where it is nobody's or not clear.

    >>> known_direction("val/acc"), known_direction("eval_f1@5"), known_direction("trainLoss")
    (('accuracy', <Objective.MAXIMIZE: 'maximize'>), ('f1', <Objective.MAXIMIZE: 'maximize'>), \
('loss', <Objective.MINIMIZE: 'minimize'>))
    >>> known_direction("neg_mean_squared_error"), known_direction("reward")
    (None, None)
    """
    for text in _readings(name):
        metric = _SHORT.get(text, text)
        if not entries_of(metric, None):
            metric = (alias_meaning(metric, None) or metric).partition("(")[0].partition("@")[0]
        found = {entry.objective for entry in entries_of(metric, None)}
        if metric not in _OTHERS and len(found) == 1 and (objective := found.pop()) is not None:
            return metric, objective
    return None


def _readings(name: str) -> Iterator[str]:
    """Give the whole name, then less and less of its front, in the registry's spelling."""
    last = re.split(r"[/:.]", _CUT.sub("", name))[-1]
    words = _WORD.findall(_HUMP.sub("_", last).lower())
    humped = [word for word in _WORD.findall(last.lower()) if word not in words]  # as IoU is, one word
    if _TURNED & set(words) or _MINUS.match(last):
        return
    yield "_".join(words)
    while words and words[-1] in _AROUND:
        words.pop()
    for start in range(len(words)):
        yield "_".join(words[start:])
    yield from humped[-1:]
