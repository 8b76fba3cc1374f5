from __future__ import annotations

import pickle
import warnings
import weakref

import pytest
import torch

from hpometrics import get_metric
from hpometrics.exceptions import MetricInputError, NonFiniteError
from hpometrics.metrics import _derive
from hpometrics.metrics._checks import value_checks
from hpometrics.metrics._validation import BatchValidator
from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import (
    Binary,
    Category,
    InputType,
    Number,
    Sequence,
    Set,
    Text,
    Timeseries,
    Vector,
    parse_feature,
)
from hpometrics.testing import OUTPUTS, cut, draw

NAN, INF = torch.nan, torch.inf
FEATURES = ["binary", "category", "set", "number", "vector", "timeseries", "sequence", "text"]


def admit(feature, **batch) -> int:
    """The number of rows of a batch that count."""
    tensors = {name: torch.as_tensor(value) for name, value in batch.items()}
    counting = BatchValidator().validate(Outputs(feature, **tensors))
    return 0 if counting is None else len(counting)


@pytest.mark.parametrize("kind", FEATURES)
@pytest.mark.parametrize("noise", [0.0, 0.9])
def test_what_a_feature_is_comes_in(kind, noise):
    """Every row counts: of logits, of what is derived from them, of batches with one row and with none."""
    feature = OUTPUTS.get(kind) or parse_feature(kind)
    assert admit(parse_feature(kind), **draw(parse_feature(kind), 10, noise)) == 10
    sizes = [29, 1, 0]
    for size, batch in zip(sizes, cut(draw(feature, 30, noise), sizes), strict=True):
        assert admit(feature, **batch) == size
        outputs = Outputs(feature, **batch)
        for form in InputType if "logits" in batch else ():
            assert admit(feature, **{form.value: outputs[form]}, target=batch["target"]) == size


@pytest.mark.parametrize(
    ("feature", "batch", "message"),
    [
        (Binary(), {"logits": [[0.1], [0.2]], "target": [0, 1]}, r"target of shape \(2,\) .* \(2, 1\)"),
        (Binary(), {"logits": [[0.1, 0.2]], "target": [0]}, "use Category.2., or pass the column of"),
        (Binary(), {"logits": [0.1, 0.2], "target": [[0], [1]]}, r"have 1 dimension\(s\),.* \(2, 1\)"),
        (Binary(), {"logits": 0.1, "target": 0}, r"have 1 dimension\(s\), got shape \(\)"),
        (Category(), {"logits": [0.1, 0.2], "target": [0, 1]}, r"have shape \(2, classes\), got \(2,\)"),
        (Category(), {"logits": [[0.1, 0.2]], "target": [[1, 0]]}, r"have 1 dimension\(s\),.* \(1, 2\)"),
        (Category(3), {"logits": [[0.1, 0.2]], "target": [0]}, r"\(num_classes=3\) expects 3 in the last"),
        (Category(), {"logits": [[0.1, 0.2]], "target": [0, 1]}, r"target of shape \(2,\)"),
        (Set(2), {"logits": [[0.1, 0.2, 0.3]], "target": [[0, 1, 0]]}, "expects 2 in the last dimension"),
        (Number(), {"predictions": [[1.0], [2.0]], "target": [1.0, 2.0]}, r"as in x.reshape\(\(2,\)\)"),
        (Number(), {"predictions": [1.0], "target": [1.0, 2.0]}, "shapes never broadcast"),
        (Category(), {"logits": [1.0, 2.0], "target": [0, 1]}, "pass a score for each class, or use Binary"),
        (Vector(3), {"predictions": [[1.0, 2.0]], "target": [[1.0, 2.0]]}, "expects 3 in the last dimension"),
        (Timeseries(), {"predictions": [1.0, 2.0], "target": [1.0, 2.0]}, r"have 2 dim.* got shape \(2,\)"),
        (Sequence(), {"logits": [[0.1, 0.2]], "target": [[0]]}, r"\(1, 1, classes\), got \(1, 2\)"),
        (Text(4), {"logits": [[[0.1, 0.2]]], "target": [[0]]}, "expects 4 in the last dimension"),
    ],
)  # fmt: skip
def test_shapes_never_broadcast(feature, batch, message):
    """Each refusal names the feature, both shapes and, where one is plain, the way out."""
    with pytest.raises(MetricInputError, match=message):
        admit(feature, **batch)


@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("kind", FEATURES)
def test_no_output_with_nan_or_infinity_comes_in(kind, value):
    """The error counts them and says where the first is; it is the one that voids an epoch in a run."""
    batch = draw(OUTPUTS.get(kind) or parse_feature(kind), 10)
    given = next(iter(batch))
    batch[given].view(-1)[7] = value
    with pytest.raises(
        NonFiniteError, match=f"{given} hold 1 values that are nan or infinite, .* position 7"
    ):
        admit(parse_feature(kind), **batch)


@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("kind", FEATURES)
def test_no_target_with_nan_or_infinity_comes_in(kind, value):
    """A target that is no number is as bad as such an output, whatever the feature and the form given."""
    feature = OUTPUTS.get(kind) or parse_feature(kind)
    batch = draw(feature, 10)
    target = batch["target"].double()
    target.view(-1)[7] = value
    predictions = Outputs(feature, **batch).predictions
    for given in ({**batch, "target": target}, {"predictions": predictions, "target": target}):
        with pytest.raises(MetricInputError, match=r"target .*(nan|inf)"):
            admit(parse_feature(kind), **given)


def test_large_values_are_finite():
    """A sum that overflows is no proof of infinity."""
    large = torch.full((4,), 1e308, dtype=torch.float64)
    assert admit(Number(), predictions=large, target=-large) == 4
    assert admit(Number(), predictions=torch.full((4,), 65000.0).half(), target=torch.zeros(4)) == 4


@pytest.mark.parametrize(
    ("feature", "probabilities", "message"),
    [
        (Binary(), [0.5, 1 + 2**-20], r"got values from 0.5 to 1.00000095367"),
        (Binary(), [0.5, 1.5], r"lie in \[0, 1\], got values from 0.5 to 1.5; .* pass them as logits="),
        (Binary(), [-0.1, 0.5], "got values from -0.1 to 0.5"),
        (Set(), [[0.5, 2.0]], r"set probabilities lie in \[0, 1\]"),
        (Category(), [[0.5, 0.4]], "each row of category probabilities must sum to 1, one is off by 0.1"),
        (Category(), [[2.0, -1.0]], r"category probabilities lie in \[0, 1\], got values from -1 to 2"),
        (Sequence(), [[[0.9, 0.0]]], "each row of sequence probabilities must sum to 1"),
        (Binary(), [0, 1], "probabilities must be real numbers, got torch.int64"),
    ],
)  # fmt: skip
def test_probabilities_are_probabilities(feature, probabilities, message):
    """Logits passed as probabilities are told by their range or their row sums, never converted by guess."""
    given = torch.tensor(probabilities)
    target = torch.zeros(
        given.shape[: -1 if feature.type in ("category", "sequence") else None], dtype=torch.long
    )
    with pytest.raises(MetricInputError, match=message):
        admit(feature, probabilities=given, target=target)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_a_real_softmax_passes_in_any_precision(dtype, classes):
    """Row sums are off by rounding only; that is no reason to refuse them."""
    logits = torch.randn(50, classes, generator=torch.Generator().manual_seed(0))
    target = torch.zeros(50, dtype=torch.long)
    assert admit(Category(), probabilities=logits.softmax(1).to(dtype), target=target) == 50


@pytest.mark.parametrize(
    ("feature", "batch", "message"),
    [
        (Category(), {"logits": [[0.1, 0.2]], "target": [2]}, "target of a category output must be in 0..1"),
        (Category(), {"logits": [[0.1, 0.2]], "target": [-1]}, "got values from -1 to -1"),
        (Category(3), {"predictions": [3], "target": [0]}, "of a category output must be in 0..2"),
        (Category(), {"predictions": [0], "target": [-1]}, "target of a category output must be in 0.., got"),
        (Category(), {"predictions": [0.5], "target": [0]}, "whole numbers, got torch.float32 with frac"),
        (Binary(), {"logits": [0.5], "target": [2]}, "target of a binary output must be in 0..1"),
        (Binary(), {"predictions": [0.7], "target": [1]}, "pass scores as logits= or probabilities="),
        (Binary(), {"logits": [0.5], "target": [-1]}, "must be in 0..1, got values from -1"),
        (Set(), {"logits": [[0.5, 1.0]], "target": [[0, 3]]}, "target of a set output must be in 0..1"),
        (Sequence(), {"logits": [[[0.1, 0.2]]], "target": [[2]]}, "of a sequence output must be in 0..1"),
        (Sequence(), {"logits": [[[0.1, 0.2]]], "target": [[-1]]}, "of a sequence output must be in 0..1"),
        (Text(2), {"predictions": [[5]], "target": [[1]]}, "predictions of a text output must be in 0..1"),
    ],
)  # fmt: skip
def test_labels_are_labels(feature, batch, message):
    """A class out of range, a label beside 0 and 1 or a fraction is named with its range, never counted."""
    with pytest.raises(MetricInputError, match=message):
        admit(feature, **batch)


@pytest.mark.parametrize("target", [[True, False], [1.0, 0.0]])
def test_labels_may_be_bool_or_whole_floats(target):
    """What says 0 or 1 exactly is a label."""
    assert admit(Binary(), logits=[0.5, 1.0], target=target) == 2


def test_the_ignored_position_is_no_label():
    """-100 (or what the feature says) passes where -1 does not; predictions may be anything a class is."""
    assert admit(Sequence(), logits=[[[0.1, 0.2]] * 2], target=[[1, -100]]) == 1
    assert admit(Sequence(ignore_index=9), predictions=[[1, 1]], target=[[1, 9]]) == 1
    with pytest.raises(MetricInputError, match=r"0\.\.1"):
        admit(Sequence(ignore_index=9), logits=[[[0.1, 0.2]] * 2], target=[[1, -100]])


@pytest.mark.parametrize(
    ("feature", "batch"),
    [
        (Category(), {"logits": torch.zeros(2, 0), "target": torch.zeros(2, dtype=torch.long)}),
        (Set(), {"logits": torch.zeros(2, 0), "target": torch.zeros(2, 0)}),
        (Sequence(), {"logits": torch.zeros(2, 0, 3), "target": torch.zeros(2, 0)}),
        (Vector(), {"predictions": torch.zeros(2, 0), "target": torch.zeros(2, 0)}),
    ],
)
def test_rows_without_columns_are_no_crash(feature, batch):
    """Two rows of nothing: let in or refused by name, never another exception."""
    try:
        admit(feature, **batch)
    except MetricInputError as err:
        assert feature.type in str(err)


@pytest.mark.parametrize("kind", FEATURES)
def test_a_gathered_batch_is_let_go(kind):
    """On a device flags wait for `compute`; the batch does not, or an epoch of logits would be held."""
    feature, gate = OUTPUTS.get(kind) or parse_feature(kind), BatchValidator()
    for form in InputType:
        given = draw(feature, 10)
        outputs = Outputs(feature, **given)
        if form.value not in given and "logits" not in given:
            continue
        batch = Outputs(feature, **{form.value: outputs[form].clone()}, target=given["target"].clone())
        held = [weakref.ref(batch.given[form]), weakref.ref(batch.target)]
        gate._defer(list(value_checks(batch)), 0)
        del batch, outputs, given
        assert [ref() for ref in held] == [None, None]
    assert gate.verdict() is None


@pytest.mark.parametrize("value", [NAN, 1.5])
def test_gathered_flags_are_pickled_and_name_the_batch(value):
    """What was seen on a device goes to another process; the verdict says which batch and why."""
    gate = BatchValidator()
    for number, score in enumerate((0.5, value, 0.25)):
        batch = Outputs(Binary(), probabilities=torch.tensor([score, 0.5]), target=torch.tensor([0, 1]))
        gate._defer(list(value_checks(batch)), number)
    for judge in (gate, pickle.loads(pickle.dumps(gate))):
        assert judge.verdict() is not None
        assert judge.verdict().startswith("batch 1: ")
        assert ("not nan" if value != value else "lie in [0, 1]") in judge.verdict()


def test_flags_of_many_batches_are_few_tensors():
    """A tensor on a device takes half a kilobyte, however small; the first bad batch is still named."""
    gate = BatchValidator()
    for number in range(2000):
        score = 1.5 if number in (1234, 1400) else 0.5
        batch = Outputs(Binary(), probabilities=torch.tensor([score]), target=torch.tensor([0]))
        gate._defer(list(value_checks(batch)), number)
    assert len(gate._flags) < 600
    assert gate.verdict() == "batch 1234: binary probabilities lie in [0, 1]" and gate._flags == []


def test_a_batch_lies_on_one_device():
    """Outputs on one device and a target on another are refused by name."""
    with pytest.raises(MetricInputError, match=r"logits .*meta.* target .*cpu|target .*cpu.* logits .*meta"):
        admit(Binary(), logits=torch.zeros(2, device="meta"), target=[0, 1])


def test_complex_numbers_are_refused():
    """Their imaginary part would be cast away."""
    with pytest.raises(MetricInputError, match="complex"):
        admit(Number(), predictions=torch.tensor([1 + 1j]), target=[0.0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_probabilities_passed_as_logits_are_warned_of(dtype):
    """Of classes, by what to pass; logits that only lie between 0 and 1, or sum to 1, are not.

    Nor is a batch with a single row of other numbers, the first or the last.
    """
    logits = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    target = torch.zeros(20, dtype=torch.int64)
    with pytest.warns(UserWarning, match=r"sums to 1, as probabilities do; pass a softmax output"):
        MetricCollection(["log_loss"], output=Category(4)).update(
            logits=logits.softmax(1).to(dtype), target=target
        )
    one_hot, sums = torch.eye(4)[target], logits.softmax(1)
    mixed = torch.cat([3 * one_hot[:1], sums[1:]]), torch.cat([sums[1:], -one_hot[:1]])
    for sound in (logits, logits.sigmoid(), logits - logits.mean(1, keepdim=True) + 0.25, one_hot, *mixed):
        MetricCollection(["log_loss"], output=Category(4)).update(logits=sound.to(dtype), target=target)


def test_each_line_that_passes_probabilities_as_logits_is_named():
    """Of several outputs or tasks, each update is warned of once, by the user's own line."""
    rows = {"logits": torch.tensor([[0.2, 0.8], [0.6, 0.4]]), "target": torch.tensor([1, 0])}
    first, second = (MetricCollection(["log_loss"], output=Category(2)) for _ in range(2))
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("default")
        for _ in range(2):
            first.update(**rows)
            second.update(**rows)
            first.reset(), second.reset()
    assert [message.filename for message in messages] == [__file__] * 2
    assert messages[1].lineno == messages[0].lineno + 1


@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy"])
def test_scores_passed_as_predictions_are_told_where_they_go(name):
    """The first line that a torchmetrics user writes: `metric.update(logits, target)`."""
    with pytest.raises(
        MetricInputError, match=r"got \(5, 3\); .*; for scores of 3 classes pass logits= or prob"
    ):
        get_metric(name, Category(3)).update(torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1]))


def logits_of_classes(dtype: torch.dtype) -> torch.Tensor:
    """Logits of 7 rows and 50 classes, with equal ones among the largest."""
    logits = (4 * torch.randn(7, 50, generator=torch.Generator().manual_seed(1))).to(dtype)
    logits[2, [3, 7]] = 40.0
    return logits


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("at_once", [1, 120, 10_000])
def test_one_pass_over_logits_is_the_plain_formulas(at_once, dtype, monkeypatch):
    """Whether all are finite, the first largest, and losses, however many rows are read at a time."""
    monkeypatch.setattr(_derive, "_AT_ONCE", at_once)
    logits, labels = logits_of_classes(dtype), torch.randint(50, (7, 2))
    found = _derive.pass_over(logits, labels, largest=True)
    wide = logits.to(torch.promote_types(dtype, torch.float32))
    assert found.finite
    assert torch.equal(found.largest, wide.argmax(1)) and found.largest[2] == 3
    assert torch.equal(found.losses, -wide.log_softmax(1).gather(1, labels))
    for odd in (NAN, INF, -INF):
        logits[5, 11] = odd
        assert not _derive.pass_over(logits, None).finite


@pytest.mark.parametrize(("name", "feature"), [("accuracy", Category(5000)), ("log_loss", Sequence(5000))])
def test_logits_of_many_classes_are_read_once(name, feature, monkeypatch):
    """The pass that checks them derives what the metric reads; what is refused is refused as before."""
    passes = []
    pass_over = _derive.pass_over
    monkeypatch.setattr(_derive, "pass_over", lambda *a, **k: passes.append(1) or pass_over(*a, **k))
    logits = torch.randn(6, 5000, generator=torch.Generator().manual_seed(1))
    target = torch.arange(6)
    if isinstance(feature, Sequence):
        logits, target = logits.view(2, 3, 5000), target.view(2, 3)
    alone, panel = get_metric(name, feature), MetricCollection([name], feature)
    for updated in (alone, panel):
        passes.clear()
        updated.update(logits=logits, target=target)
        assert len(passes) == 1
        for bad in (NAN, -INF):
            with pytest.raises(NonFiniteError, match="logits hold 1 values that are nan or infinite"):
                updated.update(logits=_with(logits, bad), target=target)
        with pytest.raises(MetricInputError, match=r"must be in 0\.\.4999"):
            updated.update(logits=logits, target=target + 5000)
        updated.update(logits=logits * 1e36, target=target)  # finite, though their sum may not be
    monkeypatch.setattr(_derive, "_MANY", 10_000)
    plain = get_metric(name, feature)
    plain.update(logits=logits, target=target)
    plain.update(logits=logits * 1e36, target=target)
    assert plain.compute() == alone.compute() == panel.compute()[name]


def _with(logits: torch.Tensor, bad: float) -> torch.Tensor:
    """A copy with one other number."""
    copy = logits.clone()
    copy.view(-1)[9] = bad
    return copy
