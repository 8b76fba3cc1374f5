"""The family of ratios: one class per output, shared counts, and no work that grows with the metrics."""

from __future__ import annotations

import pickle

import pytest
import torch
from matrix import covering
from torch.utils._python_dispatch import TorchDispatchMode

from hpometrics.metrics.catalogue.classification._base import BinaryRatio, Ratio, SetRatio
from hpometrics.metrics.catalogue.classification.ratios import F1
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Category, Sequence, Set
from hpometrics.metrics.registry.index import all_entries
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric
from hpometrics.metrics.statistics.confusion import ClassTotals
from hpometrics.testing import LAWS, OUTPUTS, Subject, check_company, check_device

FILES = tuple(f"hpometrics.metrics.catalogue.classification.{name}:" for name in ("ratios", "agreement"))
RATIOS = [e for e in all_entries() if e.path.startswith(FILES) and any(p.name == "class" for p in e.params)]

PANEL = [
    "accuracy", "zero_one_loss", "balanced_accuracy", "geometric_mean", "mcc", "cohen_kappa",
    "cohen_kappa(weights=linear)", "cohen_kappa(weights=quadratic)", "hamming",
    "f1_macro", "precision_macro", "recall_macro", "jaccard_macro", "specificity_macro", "npv(average=macro)",
    "fpr(average=macro)",
    "f1(average=weighted)", "recall(average=none)", "fdr(average=micro)", "f1(class=3)",
]  # fmt: skip


class CountsBigResults(TorchDispatchMode):
    """Counts the tensors of at least so many elements that are made."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.found = size, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        outs = made if isinstance(made, tuple) else (made,)
        self.found += sum(isinstance(x, torch.Tensor) and x.numel() >= self.size for x in outs)
        return made


def big_results(names: list[str]) -> int:
    """How many matrix-sized tensors the computation of a panel makes, views included."""
    panel = MetricCollection(names, Category(200))
    target, preds = torch.randint(200, (2, 500), generator=torch.Generator().manual_seed(0))
    panel.update(predictions=preds, target=target)
    with CountsBigResults(200 * 199) as seen:
        panel.compute()
    return seen.found


def test_twenty_metrics_go_over_the_matrix_once():
    """However many metrics read the counts, the work that grows with the square of the classes is one."""
    few = big_results(["accuracy", "cohen_kappa(weights=linear)"])
    assert len(PANEL) == 20
    assert big_results(PANEL) == few


@pytest.mark.parametrize(
    "entry",
    covering(
        RATIOS,
        lambda entry: [(entry.feature_type, kind) for kind in (entry.families, len(entry.params))],
        str,
    ),
)
def test_the_value_of_one_class_keeps_every_law(entry):
    """`class=1` is a metric like any other."""
    name = f"{entry.name}({'beta=0.5, ' if entry.name == 'fbeta' else ''}class=1)"
    output = get_metric(name, OUTPUTS.get(entry.feature_type) or entry.feature_type).output
    subject = Subject(entry, find_metric(name, entry.feature_type).name, output)
    for law in LAWS:
        if law not in (check_company, check_device):
            law(subject)


def test_the_classes_of_a_ratio_stand_for_themselves():
    """They pickle, they are found by path, and they know their name and what they serve."""
    for cls, base, name in ((F1.Binary, BinaryRatio, "f1"), (F1.Set, SetRatio, "f1(average=samples)")):
        metric = cls() if cls is F1.Binary else cls(average="samples")
        assert issubclass(cls, base) and issubclass(cls, Ratio)
        assert type(pickle.loads(pickle.dumps(metric))) is cls
        assert metric.name == name
    assert {entry.load() for entry in all_entries() if entry.name == "f1" and "ratios" in entry.path} == {
        F1, F1.Binary, F1.Set,
    }  # fmt: skip


def test_samples_share_the_counts_of_the_rows():
    """Five averages over rows count labels once per batch."""
    names = [f"{name}(average=samples)" for name in ("f1", "precision", "recall", "jaccard", "specificity")]
    panel = MetricCollection(names, Set(3))
    panel.update(predictions=torch.eye(3, dtype=torch.int64), target=torch.ones(3, 3, dtype=torch.int64))
    values = {name.partition("(")[0]: value.item() for name, value in panel.compute().items()}
    assert values == pytest.approx(
        {"f1": 0.5, "precision": 1.0, "recall": 1 / 3, "jaccard": 1 / 3, "specificity": 0.0}
    )


def test_tokens_of_a_large_vocabulary_need_no_matrix():
    """Three numbers per token type, where a matrix would have as many as the square of them."""
    metric = get_metric("token_f1(average=macro)", Sequence(50_000))
    tokens = torch.randint(50_000, (4, 30), generator=torch.Generator().manual_seed(0))
    metric.update(tokens, tokens)
    assert metric.compute() == 1.0
    assert metric.statistic(ClassTotals).state()["totals"].shape == (3, 50_000)
