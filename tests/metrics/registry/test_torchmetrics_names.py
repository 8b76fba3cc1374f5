"""torchmetrics' class names: each is read as the metric that gives the value of the class."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest
import torch
import torchmetrics
from matrix import EXHAUSTIVE

from hpometrics.exceptions import MetricNameError, UnknownMetricError
from hpometrics.metrics._validation import batch_of
from hpometrics.metrics.catalogue.torchmetrics._row import MetricInputs, Row, pair
from hpometrics.metrics.catalogue.torchmetrics._wrapper import read_inputs
from hpometrics.metrics.catalogue.torchmetrics.texts import single
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import LOGITS, Binary, Category, parse_feature
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.names import MetricName
from hpometrics.metrics.registry.register import get_metric
from hpometrics.metrics.registry.torchmetrics_names import CLASS_NAMES
from hpometrics.metrics.sample_data import OUTPUTS, draw_of
from hpometrics.testing.peers import EVERY_ROW, target_first

MODULES = "audio classification clustering image nominal regression retrieval segmentation shape text"
WRITTEN = {
    "beta": ("beta", 0.5),
    "min_recall": ("recall", 0.5),
    "min_precision": ("precision", 0.5),
    "min_specificity": ("specificity", 0.5),
    "min_sensitivity": ("sensitivity", 0.5),
    "threshold": ("threshold", 0.5),
    "data_range": ("data_range", 1.0),
}
"""Arguments that a class needs: what the parameter is called here, and a value."""
FITTED = {
    "DiceScore": {"input_format": "index"},
    "MeanIoU": {"input_format": "index"},
    "Perplexity": {"ignore_index": -100},
}
"""Arguments by which a class reads the batches of the laws."""
NEEDS_K = {"RetrievalFallOut", "RetrievalHitRate", "RetrievalPrecision", "RetrievalRecall"}
BY_COLUMN = {
    "ConcordanceCorrCoef", "KendallRankCorrCoef", "LogCoshError", "PearsonCorrCoef", "RelativeSquaredError",
    "SpearmanCorrCoef",
}  # fmt: skip
"""Classes that refuse several columns unless they are told how many."""
LOOSE = {"AdjustedMutualInfoScore": 1e-5, "StructuralSimilarityIndexMeasure": 1e-5}
"""Classes that compute in float32."""
CASES = [(kind, name) for kind, names in CLASS_NAMES.items() for name in names]


def class_named(name: str) -> type[torchmetrics.Metric]:
    """Import a class of torchmetrics."""
    modules = [importlib.import_module(f"torchmetrics.{module}") for module in MODULES.split()]
    return next(getattr(module, name) for module in modules if hasattr(module, name))


def row_of(kind: str, name: str) -> Row | None:
    """What the reference catalogue says of a class, as how it is fed."""
    return next(
        (
            row
            for row in EVERY_ROW
            if row.source.endswith(f".{name}") or (kind in row.features and row.class_name(kind) == name)
        ),
        None,
    )


def numbered(given: MetricInputs) -> MetricInputs:
    """Clusters by small numbers: some classes make a table of their largest."""
    both = torch.stack([given.preds, given.target]).unique(return_inverse=True)[1]
    return MetricInputs(both[0], both[1], given.extras)


def theirs_of(kind: str, name: str, given: MetricInputs, output: Any, k: int | None) -> torch.Tensor:
    """The value of the class, made with what it needs and nothing else."""
    cls, row = class_named(name), row_of(kind, name)
    parameters = inspect.signature(cls).parameters
    needed = [
        key
        for key, one in parameters.items()
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    facts = {key: WRITTEN[key][1] for key in needed if key in WRITTEN}
    width = (
        getattr(output, "num_classes", None)
        or getattr(output, "num_labels", None)
        or getattr(output, "size", None)
    )
    if kind == "clusters":
        width = 10
    facts |= {key: width for key in ("num_classes", "num_labels") if key in parameters and width}
    columns = given.preds.shape[1:] if isinstance(given.preds, torch.Tensor) else ()
    facts |= {"num_outputs": columns[0]} if columns and name in BY_COLUMN else {}
    facts |= FITTED.get(name, {}) | ({} if k is None else {"top_k": k})
    made = cls(**facts).set_dtype(torch.float64)
    feed = pair if row is None or row.feed is target_first else row.feed
    given = numbered(given) if kind == "clusters" and "data" not in given.extras else given
    if feed is single:
        given = MetricInputs(
            list(given.preds), [right if isinstance(right, str) else right[0] for right in given.target], {}
        )
        feed = pair
    feed(made, given)
    found = made.compute()
    value = torch.as_tensor(found[0] if isinstance(found, tuple) else found).double()
    return value.mean() if kind in ("vector", "timeseries") else value


def asked_of(name: str) -> MetricName:
    """The class with the arguments that it needs."""
    parameters = inspect.signature(class_named(name)).parameters
    written = [WRITTEN[key] for key, one in parameters.items() if key in WRITTEN and one.default is one.empty]
    return MetricName(name, tuple(written), 3 if name in NEEDS_K else None)


def drawn(kind: str, name: str, rows: int) -> dict[str, Any]:
    """A batch of the metric's own, as torchmetrics can read it."""
    batch = draw_of(find_metric(asked_of(name), kind).entries[0].load())(output_of(kind), rows, 0.6, rows)
    if kind == "ranking":  # torchmetrics does not retrieve what scores 0
        batch["logits"] = batch["logits"] + 1
    if isinstance(batch["target"], list) and (row := row_of(kind, name)) and row.feed is single:
        batch["target"] = [right if isinstance(right, str) else right[0] for right in batch["target"]]
    return batch


def output_of(kind: str) -> Any:
    """The output of the laws."""
    return OUTPUTS.get(kind) or parse_feature(kind)


def both_values(kind: str, name: str, batch: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ours, and that of the class with the arguments that it has by default."""
    asked, output = asked_of(name), output_of(kind)
    inputs = find_metric(asked, kind).entries[0].inputs
    shown, row = batch_of(output, **batch), row_of(kind, name)
    extras = [extra for extra in ((*row.extras, *row.optional) if row else ()) if extra in shown.extras]
    given = read_inputs(shown, LOGITS if name == "Perplexity" else inputs, extras)
    theirs = theirs_of(kind, name, given, output, asked.k)
    metric = get_metric(asked, output)
    metric.update(**batch)
    return torch.as_tensor(metric.compute()).double(), theirs


QUIET = pytest.mark.filterwarnings(
    "ignore:Metric `.*` will save all targets", "ignore:Sparse invariant checks"
)


@QUIET
@pytest.mark.parametrize("rows", [40, pytest.param(13, marks=EXHAUSTIVE)])
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_class_name_gives_the_value_of_the_class(kind, name, rows):
    """With the arguments that it has by default, on batches of the metric's own."""
    ours, theirs = both_values(kind, name, drawn(kind, name, rows))
    assert torch.allclose(ours, theirs, rtol=LOOSE.get(name, 2e-6), atol=LOOSE.get(name, 2e-6))


@QUIET
@pytest.mark.filterwarnings("ignore:.* positive samples", "ignore:.* for one or more classes was `nan`")
@pytest.mark.parametrize(
    ("kind", "name"), [case for case in CASES if case[0] in ("category", "set", "ranking")]
)
def test_another_value_without_a_class_is_on_the_page(kind, name):
    """No row has the last class and none is predicted it, or three users have nothing relevant."""
    batch = drawn(kind, name, 40)
    target = batch["target"] = batch["target"].clone()
    if kind == "ranking":
        target[:3] = 0
    else:
        batch["logits"] = batch["logits"].clone()
        batch["logits"][:, -1] = -9
        target[target == 3] = 0
        target[..., -1] = 0
    ours, theirs = both_values(kind, name, batch)
    if not torch.allclose(ours, theirs, rtol=2e-6, atol=2e-6, equal_nan=True):
        assert "torchmetrics" in find_metric(asked_of(name), kind).entries[0].deviates


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rows", [2, 40])
@pytest.mark.parametrize("kind", ["number", "vector", "timeseries"])
@pytest.mark.parametrize("squared", [True, False])
def test_the_argument_that_makes_another_metric_of_a_class(squared, kind, rows, seed):
    """Of several columns the root is that of all of them, as torchmetrics takes it."""
    random = torch.Generator().manual_seed(seed)
    preds, target = torch.randn((2, rows, *([] if kind == "number" else [4])), generator=random).double()
    theirs = torchmetrics.MeanSquaredError(squared=squared)
    theirs.update(preds, target)
    ours = get_metric(f"MeanSquaredError(squared={str(squared).lower()})", kind)
    ours.update(preds, target)
    assert ours.compute().item() == pytest.approx(theirs.compute().item(), rel=1e-6)
    assert ours.name == ("mse" if squared else "rmse(multioutput=pooled)")


def test_a_class_name_prints_as_the_metric_that_it_is():
    """In a collection under its canonical name; a written parameter comes before the default of the class."""
    metrics = MetricCollection(["BinaryAUROC", "BinaryF1Score"], output=Binary())
    assert list(metrics.compute()) == ["roc_auc", "f1"]
    named = {"MulticlassF1Score": "macro", "MulticlassF1Score(average=micro)": "micro"}
    for written, average in named.items():
        assert str(find_metric(written, "category").name) == f"f1(average={average})"
    assert get_metric("MulticlassAccuracy", Category(3)).name == "recall(average=macro)"


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("MulticlassF1Score", "binary", "does not exist for a binary output; it is a metric of category"),
        ("MulticlassLogAUC", "category", "Did you mean 'log_auc'?"),
        ("Accuracy", "category", "Did you mean 'accuracy'?"),
        ("CHRFScore", "text", "Did you mean 'chrf'?"),
    ],
)
def test_a_class_without_an_equal_here_is_refused(name, kind, message):
    """Of another output, of another number by default, or one that makes three others."""
    with pytest.raises(UnknownMetricError) as error:
        find_metric(name, kind)
    assert message in str(error.value)


def test_what_a_class_needs_must_be_written():
    """As the metric says it of itself."""
    with pytest.raises(MetricNameError, match="fbeta of binary needs beta="):
        find_metric("BinaryFBetaScore", "binary")
    assert str(find_metric("BinaryFBetaScore(beta=0.5)", "binary").name) == "fbeta(beta=0.5)"
