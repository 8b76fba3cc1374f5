"""The reference catalogue: every torchmetrics class is reached by a name, or listed with the reason."""

from __future__ import annotations

import importlib
import inspect
import itertools
import math
import pickle
import pkgutil
import re

import pytest
import torch
import torchmetrics
from matrix import SLOW, covering

from hpometrics.exceptions import MetricInputError, MissingExtraError
from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.catalogue import torchmetrics as reference
from hpometrics.metrics.catalogue.torchmetrics import ROWS, Reference
from hpometrics.metrics.catalogue.torchmetrics._data import draw_of
from hpometrics.metrics.catalogue.torchmetrics._row import MetricInputs
from hpometrics.metrics.catalogue.torchmetrics.images import check_range
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import FEATURES, Image, Mask
from hpometrics.metrics.registry import index
from hpometrics.metrics.registry.register import get_metric
from hpometrics.metrics.statistics.statistic import Kept
from hpometrics.testing import OUTPUTS, draw, subjects_of
from hpometrics.testing.exemptions import UNTRIED
from hpometrics.testing.peers import EVERY_ROW, PEERS
from hpometrics.testing.subjects import is_here

pytestmark = pytest.mark.usefixtures("streams")

OWN = [entry for entry in index.all_entries() if entry.path.startswith(f"{reference.__name__}:")]

_CURVE = "a curve has no order, hence no direction; {} returns its points"
_FACADE = "it creates one of its binary, multiclass and multilabel variants, which are listed"
_AGGREGATES = "its direction is that of the values it aggregates; a run averages its own values"
_WRAPS = "it has the direction of the wrapped metric; wrap that one"

FACADES = (
    "AUROC Accuracy AveragePrecision CalibrationError CohenKappa ConfusionMatrix EER ExactMatch F1Score "
    "FBetaScore HammingDistance HingeLoss JaccardIndex LogAUC MatthewsCorrCoef NegativePredictiveValue "
    "Precision PrecisionAtFixedRecall PrecisionRecallCurve ROC Recall RecallAtFixedPrecision "
    "SensitivityAtSpecificity Specificity SpecificityAtSensitivity StatScores"
).split()

_VARIANTS = ("Binary", "Multiclass", "Multilabel")
_SHAPES = {
    "ConfusionMatrix": "a table has no order, hence no direction; confusion_matrix returns it",
    "PrecisionRecallCurve": _CURVE.format("precision_recall_curve"),
    "ROC": _CURVE.format("roc_curve"),
    "StatScores": "counts have no order, hence no direction; stat_scores returns them",
}

UNLISTED: dict[str, str] = {
    **{f"classification.{name}": _FACADE for name in FACADES},
    **{f"classification.{prefix}{name}": reason for name, reason in _SHAPES.items() for prefix in _VARIANTS},
    "classification.BinaryGroupStatRates": "rates of each group have no order, hence no direction",
    "retrieval.RetrievalMetric": "the abstract base of the others",
    "retrieval.RetrievalPrecisionRecallCurve": "a curve has no order, hence no direction",
    "image.PerceptualPathLength": "it reads a generator, not its output; lower is better",
    "multimodal.LipVertexError": "it needs a list of vertices, which a name cannot hold; lower is better",
    **{
        f"aggregation.{name}": _AGGREGATES
        for name in "CatMetric MaxMetric MeanMetric MinMetric RunningMean RunningSum SumMetric".split()
    },
    "aggregation.BaseAggregator": "the abstract base of the others",
    **{
        f"wrappers.{name}": _WRAPS
        for name in (
            "BinaryTargetTransformer BootStrapper ClasswiseWrapper FeatureShare LambdaInputTransformer "
            "MetricInputTransformer MetricTracker MinMaxMetric MultioutputWrapper MultitaskWrapper Running"
        ).split()
    },
    "wrappers.WrapperMetric": "the abstract base of the others",
}
"""Class, as `module.Class` -> why it has no name."""

OTHER_BASES = {"metric.Metric", "metric.CompositionalMetric"}
"""What makes metrics, and is none."""


def public_classes() -> set[str]:
    """Every public metric class of the installed torchmetrics, as `module.Class`."""
    found = set()
    for module in pkgutil.walk_packages(torchmetrics.__path__, "torchmetrics."):
        family = module.name.split(".")[1]
        if family in ("functional", "utilities"):
            continue
        for name, cls in vars(importlib.import_module(module.name)).items():
            public = inspect.isclass(cls) and not any(
                p.startswith("_") for p in (*module.name.split("."), name)
            )
            if public and cls.__module__ == module.name and issubclass(cls, torchmetrics.Metric):
                found.add(f"{family}.{name}")
    return found | {"wrappers.FeatureShare", "wrappers.MetricTracker"}


REACHED = {f"{row.family}.{row.class_name(feature)}" for row in EVERY_ROW for feature in row.features}


def test_every_class_is_in_exactly_one_list():
    """A class that a new torchmetrics brings fails here, as does one that it drops."""
    assert public_classes() - OTHER_BASES == REACHED | UNLISTED.keys()
    assert not REACHED & UNLISTED.keys()


def test_what_is_not_listed_has_a_reason():
    """The facades make classes that are listed themselves; the others say what they lack."""
    assert all(UNLISTED.values())
    for facade in FACADES:
        three = {f"classification.{kind}{facade}" for kind in ("Binary", "Multiclass", "Multilabel")}
        assert three & (REACHED | UNLISTED.keys())


def test_rows_are_registered_or_have_a_metric_of_ours():
    """By name and feature; what is registered here says so in its path."""
    own = {(entry.name, entry.feature_type) for entry in OWN}
    named = {*index.index(), *index.index_aliases()} - own
    assert own == {(row.name, feature) for row in ROWS for feature in row.features} and len(own) > 50
    assert named >= {(row.name, feature) for row in PEERS for feature in row.features}


@pytest.mark.parametrize("entry", OWN, ids=str)
def test_an_entry_is_complete(entry):
    """It has an objective, a range, a formula and a source, and its class is found by its path."""
    assert entry.direction and entry.value and entry.formula and entry.source and entry.summary.endswith(".")
    module, _, attribute = entry.path.partition(":")
    assert getattr(importlib.import_module(module), attribute) is entry.load()


def made(name: str, feature: str) -> Reference:
    """Build a metric of the reference catalogue for the output that the laws use."""
    entry = index.index()[name, feature]
    metric = get_metric(entry.example, OUTPUTS.get(feature) or FEATURES[feature]())
    assert isinstance(metric, Reference)
    return metric


def drawn(metric: Reference, rows: int = 20, noise: float = 0.3, seed: int = 0) -> dict:
    """Draw a batch for it."""
    own = draw_of(metric.row)
    random = torch.Generator().manual_seed(seed)
    return own(metric.output, rows, noise, random) if own else draw(metric.output, rows, noise, seed)


HERE = [entry for entry in OWN if is_here(entry)]
QUICK_FIRST = sorted(HERE, key=lambda entry: entry.name in SLOW)


def kinds_of(entry) -> list:
    """What a class stands for where the wrapper is looked at: how its batches come."""
    return [entry.feature_type, ("extras", bool(entry.extras)), ("draws", draw_of(entry.load().row))]


@pytest.mark.parametrize("entry", covering(QUICK_FIRST, kinds_of, ids=str))
def test_the_direction_is_as_stated(entry):
    """By experiment: right answers beat good ones, good ones beat bad ones, by our direction."""
    values = []
    for noise in (0.0, 0.3, 0.9):
        metric = made(entry.name, entry.feature_type)
        metric.update(**drawn(metric, 100, noise))
        values.append(float(metric.compute()))
    assert all(entry.direction.better(good, bad) for good, bad in itertools.pairwise(values)), values


@pytest.mark.parametrize("entry", [entry for entry in OWN if not entry.requires], ids=str)
def test_the_shape_is_that_of_a_batch(entry):
    """As many dimensions as what the laws draw for it."""
    batch = drawn(made(entry.name, entry.feature_type))
    stated = re.search(r"preds[^(]*\(([^)]*)\)", entry.shape)
    if isinstance(batch.get("predictions"), torch.Tensor):
        assert batch["predictions"].ndim == len([one for one in stated[1].split(",") if one])
    else:
        assert (
            "logits" in batch or "probabilities" in batch or entry.shape.startswith("predictions: N texts.")
        )


def test_what_could_not_be_tried_is_known():
    """Without a network or a package the direction is the definition's; nothing else is exempt."""
    exempt = {str(entry) for entry in OWN} - {str(entry) for entry in HERE}
    packages = {str(entry) for entry in OWN if entry.load().row.missing_packages}
    assert exempt == {str(entry) for entry in OWN if entry.name in UNTRIED} | packages


@pytest.mark.parametrize(
    "entry", covering([entry for entry in QUICK_FIRST if entry.name != "ms_ssim"], kinds_of, ids=str)
)
def test_batches_shards_and_copies_give_one_value(entry):
    """Two batches, two merged metrics, an unpickled one and a saved state all give the value of all rows."""
    metric, second = made(entry.name, entry.feature_type), made(entry.name, entry.feature_type)
    first, rest = drawn(metric, 8, seed=1), drawn(metric, 8, seed=2)
    metric.update(**first)
    twin, saved = pickle.loads(pickle.dumps(metric)), made(entry.name, entry.feature_type)
    saved.load_state_dict(metric.state_dict())
    second.update(**rest)
    metric.merge(second)
    for other in (twin, saved):
        other.update(**rest)
        assert float(other.compute()) == pytest.approx(float(metric.compute()), rel=1e-6)
    metric.reset()
    assert metric.compute().isnan() and metric.undefined_reason == "nothing was measured"


def test_rows_of_another_shape_are_refused():
    """Rows that are kept are of one shape; what was kept before stays."""
    metric = get_metric("ergas", "image")
    batch = drawn(metric, 4)
    metric.update(**batch)
    with pytest.raises(MetricInputError, match=r"earlier batches had \(3, 8, 8\)"):
        metric.update(torch.ones(2, 3, 9, 9), torch.ones(2, 3, 9, 9))
    assert metric.compute().isfinite()


def test_rows_are_kept_once_for_all():
    """Metrics of a collection that keep their rows share them."""
    panel = MetricCollection(["ergas", "rase", "rmse_sw", "ssim"], output="image")
    kept = [statistic for statistic in panel.statistics if str(statistic).endswith("'rows of predictions')")]
    assert len(kept) == 1
    panel.update(**drawn(get_metric("rase", "image"), 4))
    assert all(value.isfinite() for value in panel.compute().values())


def whole_signals(feature, channels=3, width=48):
    """Draw two whole-number signals of a kind that files hold: pictures of 8 bits, sounds of 16."""
    generator = torch.Generator().manual_seed(0)
    shape, top, dtype = {
        "image": ((2, channels, width, width), 255, torch.uint8), "audio": ((2, 2, 1000), 30000, torch.int16),
    }[feature]  # fmt: skip
    target = torch.rand(shape, generator=generator) * top
    preds = (target + torch.randn(shape, generator=generator) * top / 20).clamp(1, top)
    return preds.to(dtype), target.clamp(min=1).to(dtype)


SIGNALS = [
    entry for entry in QUICK_FIRST
    if entry.feature_type in ("image", "audio") and not entry.extras
    and entry.name not in ("procrustes", "c_si_snr")
]  # fmt: skip


@pytest.mark.parametrize("entry", covering(SIGNALS, kinds_of, ids=str))
def test_whole_numbers_are_measured_as_numbers(entry):
    """Differences of 8 bits wrap around: torchmetrics' PSNR-B and total variation have other values."""
    ranged = any(param.name == "data_range" for param in entry.params)
    name = f"{entry.name}(data_range=255)" if ranged else entry.name
    width = 176 if entry.name == "ms_ssim" else 48  # its smallest scale is a sixteenth, of 11 pixels
    signals = whole_signals(entry.feature_type, channels=1 if entry.name == "psnrb" else 3, width=width)
    values = []
    for preds, target in (signals, [signal.double() for signal in signals]):
        metric = get_metric(name, entry.feature_type)
        metric.update(preds, target)
        values.append(metric.compute().item())
    assert math.isfinite(values[0]) and values[0] == values[1]


@pytest.mark.parametrize("name", ["psnr", "ssim", "psnr(data_range=100)"])
def test_pictures_of_whole_numbers_beyond_the_range_are_refused(name):
    """They would have a PSNR of -40 decibels; no number up to 1 is one of 8 bits."""
    with pytest.raises(
        MetricInputError, match=r"needs pictures from 0 to .*, got whole numbers up to 25\d; .*=255"
    ):
        get_metric(name, "image").update(*whole_signals("image"))


def test_a_network_that_reads_shares_refuses_whole_numbers():
    """It would see white pictures; what they are to be divided by is said."""
    (row,) = [row for row in ROWS if row.name == "lpips"]
    with pytest.raises(
        MetricInputError, match=r"lpips needs pictures from 0 to 1.0, got .*; divide them by 255"
    ):
        check_range(row, {}, pictures_of(*whole_signals("image")))


def pictures_of(preds, target):
    """A batch of pictures."""
    return Outputs(Image(), predictions=preds, target=target)


RANGED = [row for row in ROWS if row.features == ("image",) and (row.highest or "data_range" in row.params)]


@pytest.mark.parametrize("row", RANGED, ids=lambda row: row.name)
def test_pictures_of_another_range_are_refused(row):
    """Floats of 0 to 255 had a PSNR of -40 decibels, whatever the model; so with each metric of a range."""
    signals = [signal.float() for signal in whole_signals("image")]
    refusal = rf"{row.name} needs pictures from 0 to 1.0, got .* up to 25\d"
    with pytest.raises(MetricInputError, match=refusal):
        check_range(row, row.params, pictures_of(*signals))
    assert not check_range(row, row.params, pictures_of(*[signal / 255 for signal in signals]))
    if "data_range" in row.params:
        assert not check_range(row, {"data_range": 255.0}, pictures_of(*signals))


@pytest.mark.parametrize(
    ("scale", "shift", "data_range", "said"),
    [
        (255, 0, 1, r"got target with values up to 255; .* psnr\(data_range=255\), or divide them by 255"),
        (2, -1, 1, r"got target with values from -1 up to 1; .* as in psnr\(data_range=2\), or map them"),
        (4000, -1000, 255, r"from -1000 up to 3000; "),
        (1.02, 0, 1, None), (2, -1, 2, None), (4000, -1000, 4000, None), (200, 20, 255, None),
    ],
)  # fmt: skip
def test_the_target_shows_the_range_of_pictures(scale, shift, data_range, said):
    """Whole tones of -1 to 1 are as wide as 2; a resampled picture may be a little wider than its range."""
    target = torch.linspace(0, 1, 256).view(1, 1, 16, 16) * scale + shift
    metric = get_metric(f"psnr(data_range={data_range})", "image")
    if said is None:
        metric.update(target, target)
        return
    with pytest.raises(MetricInputError, match=said):
        metric.update(target, target)
    assert metric.update_count == 0


def test_a_network_may_overshoot_the_range():
    """By 1 in each pixel, so that the mean squared error is 1 and PSNR is 0 decibels."""
    metric = get_metric("psnr", "image")
    metric.update(torch.full((1, 1, 4, 4), 1.5), torch.full((1, 1, 4, 4), 0.5))
    assert metric.compute() == 0


def test_a_device_is_not_asked_for_the_range():
    """What is found is counted, and makes the value undefined when it is read: with its reason."""
    away = torch.empty(1, 1, 16, 16, device="meta")
    assert check_range(RANGED[0], RANGED[0].params, pictures_of(away, away)).device.type == "meta"
    metric = get_metric("psnr", "image")
    right = torch.full((1, 1, 4, 4), 0.5)
    metric.update(right / 2, right)
    metric.statistic(Kept, "states").add(**{"sum beyond the range": torch.tensor(1)})  # as a device does
    assert metric.compute().isnan()
    assert metric.undefined_reason.startswith("psnr needs pictures from 0 to 1.0, and some had a wider")


@pytest.mark.parametrize("name", ["fid", "kid", "mifid", "inception_score"])
def test_what_overshoots_is_cut_before_it_becomes_bytes(name):
    """The bytes of 1.02 * 255 would be 4, that is nearly black."""
    (row,) = [row for row in ROWS if row.name == name]
    seen = []

    class Seen(torchmetrics.MeanMetric):
        def update(self, pictures, **kwargs):
            seen.append((pictures * 255).byte())

    bright = torch.full((1, 3, 4, 4), 1.02)
    row.feed(Seen(), MetricInputs(bright, bright, {}))
    assert all((pictures == 255).all() for pictures in seen) and seen


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16])
@pytest.mark.parametrize("name", ["dice_score", "mean_iou", "hausdorff"])
def test_a_mask_may_be_of_bytes(name, dtype):
    """As image files hold it; torchmetrics makes columns of classes from 64 bits only."""
    preds, target = torch.randint(3, (2, 4, 8, 8), generator=torch.Generator().manual_seed(0))
    values = []
    for kind in (dtype, torch.int64):
        metric = get_metric(name, Mask(num_classes=3))
        metric.update(preds.to(kind), target.to(kind))
        values.append(metric.compute().item())
    assert values[0] == values[1]


@pytest.mark.parametrize(
    ("older", "what"),
    [
        (
            lambda block_size=8, **more: torchmetrics.MeanMetric(**more),
            "an argument of PeakSignalNoiseRatioWith",
        ),
        (None, "PeakSignalNoiseRatioWithBlockedEffect, which torchmetrics"),
    ],
    ids=["without the argument", "without the class"],
)
def test_an_older_torchmetrics_is_named(monkeypatch, older, what):
    """As of 1.7, which measures all but a few; the message says what to install."""
    name = "PeakSignalNoiseRatioWithBlockedEffect"
    if older is None:
        monkeypatch.delattr(f"torchmetrics.image.{name}")
    else:
        monkeypatch.setattr(f"torchmetrics.image.{name}", older)
    (subject, *_) = subjects_of("psnrb")
    with pytest.raises(MissingExtraError, match=rf"psnrb.* needs {what}.*: pip install -U torchmetrics"):
        subject.make().update(**subject.draw(4))
