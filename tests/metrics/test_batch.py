from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch

from hpometrics.exceptions import MetricInputError
from hpometrics.metrics import _derive
from hpometrics.metrics._derive import derivable, widen
from hpometrics.metrics.batch import Outputs, as_tensor
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import (
    LOGITS,
    PREDICTIONS,
    PROBABILITIES,
    Binary,
    Category,
    InputType,
    Mask,
    Number,
    Ranking,
    Sequence,
    Set,
    Text,
    Vector,
)

CLASSES = [Category(3), Sequence(3), Text(3)]
YES_NO = [Binary(), Set(3)]
SHAPES = {"binary": (4,), "set": (4, 3), "category": (4, 3), "sequence": (4, 2, 3), "text": (4, 2, 3)}


def batch(feature, dtype=torch.float64, seed=0) -> Outputs:
    """Random logits of the feature's shape; the target does not matter here."""
    logits = torch.randn(SHAPES[feature.type], generator=torch.Generator().manual_seed(seed)).to(dtype)
    return Outputs(feature, logits=3 * logits, target=torch.zeros(SHAPES[feature.type][:-1] or (4,)))


@pytest.mark.parametrize("feature", CLASSES, ids=str)
@pytest.mark.parametrize("rows", [4, 400])
def test_classes_are_softmaxed(feature, rows):
    """Probabilities, their logarithm and the chosen class agree with torch, for few rows and for many."""
    logits = torch.randn(rows, *SHAPES[feature.type][1:], dtype=torch.float64)
    outputs = Outputs(feature, logits=logits, target=torch.zeros(logits.shape[:-1]))
    torch.testing.assert_close(outputs.probabilities, logits.softmax(-1))
    torch.testing.assert_close(outputs.log_probabilities, logits.log_softmax(-1))
    assert torch.equal(outputs.predictions, logits.argmax(-1))
    assert outputs.scores is outputs.logits


@pytest.mark.parametrize("feature", YES_NO, ids=str)
def test_yes_or_no_is_a_sigmoid(feature):
    """Probabilities are sigmoids, predictions those above one half."""
    outputs = batch(feature)
    assert torch.equal(outputs.probabilities, outputs.logits.sigmoid())
    assert torch.equal(outputs.predictions, (outputs.logits > 0).long())


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("feature", [Binary, Set])
def test_the_threshold_decides_the_same_for_logits_and_probabilities(feature, threshold):
    """A probability exactly at the threshold is no; large logits do not saturate."""
    logits = torch.tensor([[-40.0, 0.0, 40.0], [-2.0, 1.0, 3.0]], dtype=torch.float64)
    logits = logits if feature is Set else logits.reshape(-1)
    outputs = feature(threshold=threshold)
    target = torch.zeros_like(logits)
    from_logits = Outputs(outputs, logits=logits, target=target)
    from_probabilities = Outputs(outputs, probabilities=logits.sigmoid(), target=target)
    assert torch.equal(from_logits.predictions, from_probabilities.predictions)
    at = Outputs(Binary(threshold=threshold), probabilities=torch.tensor([threshold]), target=torch.zeros(1))
    assert at.predictions.tolist() == [0]


@pytest.mark.parametrize("feature", [*CLASSES, *YES_NO], ids=str)
def test_each_form_is_derived_once(feature):
    """The same tensor is handed out every time, whoever asks."""
    outputs = batch(feature)
    for kind in InputType:
        assert outputs[kind] is outputs[kind]
    assert outputs.block("mine", lambda own: own.probabilities.sum()) is outputs.block("mine", None)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_half_precision_is_widened(dtype, kind):
    """Everything that follows from half inputs is float32, and equals what float32 inputs give."""
    values = torch.tensor([[0.25, 0.25, 0.5], [0.5, 0.125, 0.375]]).to(dtype)
    target = torch.tensor([0, 1])
    narrow = Outputs(Category(3), target=target, **{kind: values})
    wide = Outputs(Category(3), target=target, **{kind: values.float()})
    assert narrow.probabilities.dtype == narrow.log_probabilities.dtype == torch.float32
    assert torch.equal(narrow.probabilities, wide.probabilities)
    assert torch.equal(narrow.log_probabilities, wide.log_probabilities)


@pytest.mark.parametrize(
    ("dtype", "wide"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
        (torch.int32, torch.float64),
        (torch.uint8, torch.float64),
        (torch.bool, torch.float64),
    ],
)
def test_widening(dtype, wide):
    """Half to float32, whole numbers to float64, the rest stays."""
    assert widen(torch.ones(2).to(dtype)).dtype == wide


@pytest.mark.parametrize(
    ("feature", "given", "wanted", "message"),
    [
        (
            Category(3),
            "probabilities",
            LOGITS,
            "logits of a category output cannot be derived from probabilities; pass log",
        ),
        (Category(3), "predictions", PROBABILITIES, "from predictions; pass logits= or probabilities="),
        (
            Binary(),
            "predictions",
            LOGITS,
            "logits of a binary output cannot be derived from predictions; pass logits=",
        ),
        (
            Number(),
            "logits",
            PREDICTIONS,
            "predictions of a number output cannot be derived from logits; pass predictions=",
        ),
        (Vector(2), "predictions", PROBABILITIES, "of a vector output cannot be derived from predictions"),
    ],
)
def test_what_cannot_be_derived_says_what_to_pass(feature, given, wanted, message):
    """The error names what is wanted, of which feature, what came and the keyword, and who reads it."""
    outputs = Outputs(feature, target=torch.zeros(2), **{given: torch.zeros(2)})
    assert not derivable(wanted, frozenset(outputs.given), feature)
    with pytest.raises(MetricInputError, match=message):
        outputs[wanted]
    with pytest.raises(MetricInputError, match=f"^my_metric reads {wanted}: .*{message}"):
        outputs.require(wanted, "my_metric")


def test_nothing_but_classes_has_log_probabilities():
    """A sigmoid per row has no distribution over classes."""
    with pytest.raises(MetricInputError, match="not a binary output"):
        _ = batch(Binary()).log_probabilities


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "an update needs one of logits=, probabilities=, predictions="),
        ({"target": torch.zeros(2)}, "an update needs one of logits="),
        (
            {"preds": torch.zeros(2), "target": torch.zeros(2)},
            "predictions=; got no model output but preds=$",
        ),
        ({"logits": torch.zeros(2)}, "an update needs target=; got logits"),
        (
            {"logits": torch.zeros(2), "targets": torch.ones(2)},
            "an update needs target=; got logits, targets",
        ),
    ],
)
def test_a_batch_needs_an_output_and_a_target(given, message):
    """The error says which of the two is missing, and what came."""
    with pytest.raises(MetricInputError, match=message):
        Outputs(Binary(), **given)


@pytest.mark.parametrize("value", ["text", ["a"], [[1], [1, 2]], object(), {"a": 1}])
def test_what_holds_no_numbers_is_refused(value):
    """Text, ragged lists and other objects are named by their type."""
    with pytest.raises(MetricInputError, match=f"a list of numbers, got {type(value).__name__}"):
        as_tensor(value)


@pytest.mark.parametrize(
    ("output", "given", "message"),
    [
        ("category", {"predictions": [0, 1], "target": ["x", "y"]}, "target= .* list .*'x';"),
        (
            "category",
            {"predictions": np.array(["x"], object), "target": [0]},
            "predictions= .* ndarray with the text 'x'; map each text to a whole number",
        ),
        ("number", {"predictions": [0.0, None], "target": [0.0, 1.0]}, "predictions= .* None; leave"),
        (
            "number",
            {"predictions": [0.0], "target": [1.0], "sample_weight": ["a"]},
            "sample_weight= .*'a'",
        ),
        (
            "ranking",
            {"scores": [0.1, 0.2], "target": [0, 1], "queries": ["q1", "q2"]},
            "queries= .* with the text 'q1'; map each text to a whole number, the same in every batch",
        ),
        ("ranking", {"scores": [[0.1, 0.2]], "target": [[0, 1]], "users": ["u"]}, "users= .*'u'"),
        ("text", {"predictions": [None, "a"], "target": ["a", "b"]}, "predictions .* NoneType in row 0"),
        ("text", {"predictions": ["a", "b"], "target": ["a", None]}, "target .* got None in row 1"),
    ],
)
def test_what_is_no_number_is_named(output, given, message):
    """By the argument that holds it, with what to do."""
    with pytest.raises(MetricInputError, match=message):
        MetricCollection(["f1" if output == "text" else "default"], output).update(**given)


def test_arrays_and_lists_are_copied_in_their_own_precision():
    """A float64 array stays float64, and writing to it later changes nothing."""
    array = np.array([1.0, 2.0])
    tensor = as_tensor(array)
    array[:] = 0
    assert (tensor.dtype, tensor.tolist()) == (torch.float64, [1.0, 2.0])
    assert as_tensor([1, 2]).dtype == torch.int64


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64", ">i4", "<u2"])
def test_labels_of_every_width_and_byte_order_are_read(dtype):
    """Masks come as 16 bits without sign, files of other machines with their bytes the other way round."""
    labels = np.array([0, 2, 1], dtype=dtype)
    panel = MetricCollection(["accuracy"], output=Category(3))
    panel.update(predictions=labels, target=[0, 2, 2])
    panel.update(predictions=as_tensor(labels), target=torch.tensor([0, 2, 2]))
    assert panel.compute()["accuracy"].item() == pytest.approx(2 / 3)


@pytest.mark.parametrize("large", [2**63, 2**64 - 1])
@pytest.mark.parametrize("read", [torch.tensor, np.array], ids=["tensor", "array"])
def test_an_unsigned_number_that_would_wrap_is_refused(read, large):
    """2**63 is -2**63 in int64: neither a label nor a number may turn into another one."""
    kept = {"dtype": torch.uint64 if read is torch.tensor else np.uint64}
    with pytest.raises(
        MetricInputError, match=rf"target= must hold whole numbers below 2\*\*63, got {large}; "
    ):
        Outputs(Number(), predictions=torch.zeros(2), target=read([1, large], **kept))
    assert Outputs(Number(), predictions=[0.0], target=read([2**63 - 1], **kept)).target.item() == 2**63 - 1


def test_unsigned_tensors_are_labels():
    """Torch has them and compares none: they are read as int64."""
    panel = MetricCollection(["accuracy"], output=Category(3))
    panel.update(predictions=torch.tensor([0, 1], dtype=torch.uint16), target=[0, 2])
    assert panel.compute()["accuracy"].item() == 0.5


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz])
@pytest.mark.parametrize(
    ("output", "names", "shape", "target"),
    [
        (Binary(), ["accuracy", "roc_auc", "log_loss", "ece"], (4,), [0, 1, 1, 0]),
        (Category(3), ["accuracy", "f1_macro", "log_loss"], (4, 3), [0, 1, 2, 0]),
        (Number(), ["mae", "r2", "pearson"], (4,), [0.5, 1.0, 2.0, -1.0]),
        (Ranking(), ["ndcg@2", "auc"], (2, 4), [[1], [2, 3]]),
    ],
    ids=str,
)
def test_floats_of_eight_bits_are_measured_as_the_numbers_they_are(dtype, output, names, shape, target):
    """Torch adds and compares none of them: they are widened as they come in, as halves are later."""
    given = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    name = "predictions" if output.type == "number" else "logits"
    values = []
    for batch in (given, given.float()):
        panel = MetricCollection(names, output)
        for _ in range(2):
            panel.update(**{name: batch}, target=target)
        values.append({name: value.item() for name, value in panel.compute().items()})
    assert values[0] == values[1] and all(map(math.isfinite, values[0].values()))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (torch.zeros(2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2), "type float4_e2m1fn_x2, .* float32"),
        (torch.zeros(2, dtype=torch.uint8).view(torch.bits8), "type bits8, which are not supported"),
        (torch.nested.nested_tensor([torch.zeros(2)], layout=torch.jagged), "got a nested one; pad its rows"),
    ],
)
def test_numbers_that_torch_cannot_compute_with_are_refused(value, told):
    """By name, with the type and what to pass."""
    with pytest.raises(MetricInputError, match=f"target= .*{told}"):
        Outputs(Number(), predictions=torch.zeros(2), target=value)


def test_columns_of_objects_are_read_as_what_they_hold():
    """A column of pandas that has once held something else keeps numbers as objects; so do nullable ones."""
    frame = pd.DataFrame(
        {"a": pd.Series([1, 2], dtype=object), "b": pd.array([True, False], dtype="boolean")}
    )
    assert as_tensor(frame.a).tolist() == as_tensor(np.array([1, 2], dtype=object)).tolist() == [1, 2]
    assert as_tensor(frame.b).tolist() == [True, False] and as_tensor(frame.b).dtype is torch.bool
    assert as_tensor(np.array([1.5, 2], dtype=object)).dtype is torch.float64


def test_a_list_of_tensors_is_stacked():
    """As a loop gathers them, with their gradients; on the device where they are."""
    losses = [torch.tensor(1.0, requires_grad=True), torch.tensor(2.0, requires_grad=True)]
    assert as_tensor(losses).tolist() == [1.0, 2.0] and not as_tensor(losses).requires_grad
    assert as_tensor([torch.zeros(2, device="meta")] * 3).shape == (3, 2)
    with pytest.raises(
        MetricInputError, match=r"logits= must be a list of tensors of one shape, got \(2,\) and \(3,\)"
    ):
        as_tensor([torch.zeros(2), torch.zeros(3)], "logits=")
    with pytest.raises(MetricInputError, match="must be a list of tensors of one device, got cpu and meta"):
        as_tensor((torch.zeros(2), torch.zeros(2, device="meta")))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (pd.Series(["a", "b"]), "Series with the text 'a'; map each text to a whole number"),
        (
            pd.Series(["a", "b"], dtype="category"),
            "Series with the text 'a'; map each text to a whole number",
        ),
        (pd.array([True, None], dtype="boolean"), "BooleanArray with <NA>; leave out missing values"),
        (np.array([0, None], dtype=object), "ndarray with None; leave out missing values"),
        (pd.Series(pd.to_datetime(["2020-01-01"])), r"Series of datetime64\[.s\]; pass times as numbers"),
        (np.array(["2020"], dtype="M8[D]"), r"ndarray of datetime64\[D\]; pass times as numbers"),
        ([1, Decimal("1.5")], "list with 1.5, a Decimal; use a float instead"),
        (iter([1.0]), "list_iterator; pass it as a list or an array"),
        ({1.0, 2.0}, "set; pass it as a list or an array"),
        ([[1, 2], [1]], "list whose rows differ in length; pad the shorter ones"),
    ],
)
def test_what_holds_no_numbers_says_what_it_holds(value, told):
    """In the words of the user, and what to do about it; never in torch's of `numpy.object_`."""
    with pytest.raises(MetricInputError, match=f"target= must be a .*got {told}"):
        as_tensor(value, "target=")


@pytest.mark.parametrize(
    ("output", "target", "todo"),
    [
        (Category(2), torch.eye(2), r"got shape \(2, 2\); for one-hot rows, pass x\.argmax\(1\)"),
        (Category(2), torch.zeros(2, 1), r"got shape \(2, 1\); pass x.squeeze\(1\)"),
        (Binary(), torch.zeros(2, 1), r"got shape \(2, 1\); pass x.squeeze\(1\)"),
        (Number(), torch.zeros(2, 2), r"got shape \(2, 2\)$"),
    ],
)
def test_a_target_of_other_dimensions_says_what_to_do(output, target, todo):
    """Where it is plain what it is."""
    name = "mae" if output.type == "number" else "accuracy"
    with pytest.raises(MetricInputError, match=todo):
        MetricCollection([name], output=output).update(predictions=target, target=target)


def test_a_single_row_is_told_to_be_a_batch():
    """A number is no batch; what makes one of it is said."""
    with pytest.raises(
        MetricInputError, match=r"have 1 dimension\(s\), got shape \(\); pass a single row as a batch of"
    ):
        MetricCollection(["mae"], output=Number()).update(predictions=1.0, target=2.0)


def test_an_array_may_be_read_backwards():
    """A view of an array has steps of its own, negative ones too."""
    assert torch.equal(as_tensor(np.arange(6.0)[::-2]), torch.tensor([5.0, 3.0, 1.0], dtype=torch.float64))
    assert as_tensor(np.float64(3.0)).shape == ()


def test_all_that_was_given_is_used_as_given():
    """Probabilities beside logits are not derived again; logits still rank."""
    outputs = Outputs(
        Category(2),
        logits=torch.tensor([[1.0, 0.0]]),
        probabilities=torch.tensor([[0.5, 0.5]]),
        target=torch.tensor([0]),
    )
    assert outputs.probabilities.tolist() == [[0.5, 0.5]]
    assert outputs.scores.tolist() == [[1.0, 0.0]]


def test_probabilities_of_zero_have_a_logarithm():
    """Given ones are clipped at the dtype's epsilon, as scikit-learn does; from logits nothing is."""
    given = Outputs(Category(2), probabilities=torch.tensor([[0.0, 1.0]]), target=torch.tensor([0]))
    assert given.log_probabilities[0, 0].item() == pytest.approx(np.log(np.finfo(np.float32).eps))
    derived = Outputs(Category(2), logits=torch.tensor([[-500.0, 500.0]]), target=torch.tensor([0]))
    assert derived.log_probabilities.tolist() == [[-1000.0, 0.0]]


def test_positions_that_count():
    """A sequence's padding is told by its target."""
    outputs = Outputs(
        Sequence(3, ignore_index=-1), predictions=torch.zeros(1, 3), target=torch.tensor([[2, -1, 0]])
    )
    assert outputs.counted.tolist() == [[True, False, True]]
    assert len(outputs) == 1


@pytest.mark.parametrize("rows", [1, 63, 64, 200])
def test_logits_that_lie_class_by_class_are_decided_and_softmaxed_alike(rows):
    """To the last bit, and the first of equals wins in either."""
    by_row = torch.randint(3, (rows, 10), generator=torch.Generator().manual_seed(0)).float()
    target = torch.zeros(rows, dtype=torch.int64)
    batch, other = (
        Outputs(Category(10), logits=x, target=target) for x in (by_row, by_row.t().contiguous().t())
    )
    assert torch.equal(batch.predictions, other.predictions)
    assert torch.equal(batch.log_probabilities, other.log_probabilities)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("feature", "shape"),
    [(Category(5), (9, 5)), (Sequence(5), (3, 7, 5)), (Sequence(5), (0, 7, 5)), (Mask(5), (3, 5, 4, 2))],
    ids=str,
)
def test_half_precision_decides_as_the_widened_scores(monkeypatch, dtype, feature, shape):
    """A few rows at a time, and a batch that lies otherwise in memory; the first of equals wins."""
    monkeypatch.setattr(_derive, "_WIDENED", 11)
    scores = torch.randint(4, (*shape[:-1], 2 * shape[-1]), generator=torch.Generator().manual_seed(0))
    logits = scores.to(dtype)[..., ::2]
    dim = 1 if feature.type == "mask" else -1
    wide = logits.float().numpy().argmax(dim)
    assert Outputs(feature, logits=logits, target=wide).predictions.tolist() == wide.tolist()


@pytest.mark.parametrize("weight", [None, [1.0, 2.0]])
@pytest.mark.parametrize("layout", [[1, 2, 3], [2, 1, 3]])
def test_without_a_label_to_ignore_every_position_is_decided(weight, layout):
    """The same positions in the same order as those of a label that does not occur."""
    target, preds = torch.arange(48).view(2, 2, 2, 6).permute(0, *layout)
    everyone, others = (
        Outputs(Mask(48, ignore_index=label), predictions=preds, target=target, sample_weight=weight).decided
        for label in (None, 99)
    )
    for whole, part in zip(everyone, others, strict=True):
        assert whole is part is None or torch.equal(whole, part)


def test_what_a_mask_hides_is_not_read():
    """A value that is hidden counted as if it were not; without one, a masked array is an array."""
    hidden = np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False])
    with pytest.raises(MetricInputError, match="predictions= is an array with 1 masked values; leave out"):
        Outputs(Number(), predictions=hidden, target=[1.0, 2.0, 3.0])
    shown = np.ma.masked_array([1.0, 2.0], mask=False)
    assert Outputs(Number(), predictions=shown, target=[1.0, 2.0]).predictions.tolist() == [1.0, 2.0]
