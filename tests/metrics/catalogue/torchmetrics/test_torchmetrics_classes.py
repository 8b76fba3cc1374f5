"""The reference catalogue: every torchmetrics class is reached by a name, or listed with the reason."""

from __future__ import annotations

import importlib
import inspect
import itertools
import math
import pickle
import pkgutil
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
import torchmetrics
from matrix import SLOW, covering
from scipy.ndimage import binary_erosion
from scipy.spatial.distance import cdist

from hpometrics.exceptions import MetricInputError, MissingExtraError, StateError
from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.catalogue import torchmetrics as reference
from hpometrics.metrics.catalogue.torchmetrics import FACADES, ROWS, UNLISTED, Reference, class_of
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
from hpometrics.testing.subjects import is_here

pytestmark = pytest.mark.usefixtures("streams")

OWN = [entry for entry in index.all_entries() if entry.path.startswith(f"{reference.__name__}:")]

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


REACHED = {source for row in ROWS for source in row.sources}


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


def test_rows_are_registered_or_have_a_native_metric():
    """By name and feature; what is registered here says so in its path."""
    own = {(entry.name, entry.feature_type) for entry in OWN}
    for row, feature in [(one, kind) for one in ROWS for kind in one.features]:
        named = {*index.index(), *index.index_aliases()}
        assert (row.name, feature) in own or (row.name, feature) in named
    assert len(own) > 50


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


def test_psnr_by_hand():
    """An error of 0.1 everywhere is 20 decibels below a range of 1."""
    metric = get_metric("psnr", "image")
    target = torch.zeros(2, 3, 4, 4)
    metric.update(target + 0.1, target)
    assert metric.compute().item() == pytest.approx(20.0, rel=1e-6)
    assert get_metric("psnr(data_range=255)", "image").data_range == 255.0


def test_clusters_have_no_names():
    """The same groups under other numbers agree in everything."""
    metric = get_metric("normalized_mutual_info_score", "clusters")
    metric.update(torch.tensor([2, 2, 0, 0]), torch.tensor([0, 0, 1, 1]))
    assert metric.compute().item() == pytest.approx(1.0)


def test_data_that_was_clustered_is_an_extra():
    """Without it the metric says what it wants."""
    metric = get_metric("davies_bouldin", "clusters")
    labels = torch.tensor([0, 0, 1, 1])
    with pytest.raises(MetricInputError, match="reads data= beside predictions and target; data= is missing"):
        metric.update(labels, labels)
    metric.update(labels, labels, data=torch.tensor([[0.0], [1.0], [10.0], [11.0]]))
    assert metric.compute().item() == pytest.approx(0.1)  # (0.5 + 0.5) / 10


def test_a_ranking_is_a_matrix_or_has_indexes():
    """Users in rows are what `indexes` say of items one behind another."""
    scores, target = torch.tensor([[0.9, 0.1, 0.5], [0.2, 0.8, 0.3]]), torch.tensor([[0, 1, 0], [0, 1, 0]])
    matrix, flat = get_metric("mrr", "ranking"), get_metric("mrr", "ranking")
    matrix.update(scores, target)
    flat.update(scores.flatten(), target.flatten(), indexes=torch.tensor([4, 4, 4, 7, 7, 7]))
    assert matrix.compute().item() == flat.compute().item() == pytest.approx((1 / 3 + 1) / 2)


def test_a_user_without_relevant_items_is_left_out():
    """Where torchmetrics counts 0 unless told; a ranking without any relevant item is undefined."""
    scores, target = torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([[1, 0], [0, 0]])
    metric = get_metric("map", "ranking")
    metric.update(scores, target)
    assert metric.compute().item() == 1.0
    metric.reset()
    metric.update(scores, torch.zeros(2, 2))
    assert metric.compute().isnan() and metric.undefined_reason == "no user has a relevant item"


def test_a_missing_package_is_named_when_the_metric_is_built(monkeypatch):
    """The entry is listed all the same."""
    monkeypatch.setattr("hpometrics.metrics.catalogue.torchmetrics._row.find_spec", lambda name: None)
    with pytest.raises(
        MissingExtraError,
        match=r"map needs torchvision and faster_coco_eval, .*: pip install 'faster-coco-eval>=",
    ):
        get_metric("map", "boxes")
    assert index.index()["map", "boxes"].requires == "detection"


def test_components_have_names_of_their_own():
    """`map_50` is a component of `map`, and another one is refused."""
    assert index.index_aliases()["map_50", "boxes"] == "map(component=map_50)"
    chosen = {param.name: param.choices for param in index.index()["map", "boxes"].params}
    assert {"map", "map_50", "mar_100"} <= set(chosen["component"])


def test_a_sentinel_is_undefined():
    """-1 stands for nothing to find: it must not win a search for the least, nor enter a mean."""
    row = next(row for row in ROWS if row.name == "psnr")
    batch = draw_of(row)(FEATURES["image"](), 2, 0.3, torch.Generator().manual_seed(0))
    values = []
    for sentinel in (None, "the value that was just seen"):
        metric = class_of(replace(row, sentinel=sentinel and (values[0], sentinel)))()
        metric.output = FEATURES["image"]()
        metric.update(**batch)
        values.append(metric.compute().item())
    assert math.isnan(values[1]) and metric.undefined_reason == "the value that was just seen"


def test_rows_of_another_shape_are_refused():
    """Rows that are kept are of one shape; what was kept before stays."""
    metric = get_metric("ergas", "image")
    batch = drawn(metric, 4)
    metric.update(**batch)
    with pytest.raises(MetricInputError, match=r"the batches before had \(3, 8, 8\)"):
        metric.update(torch.ones(2, 3, 9, 9), torch.ones(2, 3, 9, 9))
    assert metric.compute().isfinite()


def test_what_torchmetrics_refuses_is_our_error():
    """The message is its own, behind the name of the metric."""
    with pytest.raises(
        MetricInputError, match="ssim refused the batch: Predictions and targets are expected"
    ):
        get_metric("ssim", "image").update(torch.ones(2, 3, 9, 9), torch.ones(2, 9, 9))
    with pytest.raises(MetricInputError, match="the target has 3 rows, predictions 2"):
        get_metric("si_sdr", "audio").update(torch.ones(2, 50), torch.ones(3, 50))


def test_one_speaker_is_not_taken_for_many():
    """Every sample would be a speaker, and every order of them tried."""
    for name in ("pit", "sa_sdr"):
        with pytest.raises(
            MetricInputError, match=rf"{name} .* reads \(N, speakers, samples\), got \(2, 50\)"
        ):
            get_metric(name, "audio").update(torch.ones(2, 50), torch.ones(2, 50))


def hausdorff_by_scipy(preds: np.ndarray, target: np.ndarray, classes: range) -> float:
    """Mean over the classes of the largest distance of an edge to the nearest one of the other picture."""
    cross = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]])
    found = []
    for one in classes:
        masks = [np.pad(labels == one, 1) for labels in (preds, target)]
        edges = [np.argwhere(mask ^ binary_erosion(mask, cross)) for mask in masks]
        apart = cdist(*edges)
        found.append(max(apart.min(0).max(), apart.min(1).max()))
    return float(np.mean(found))


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("shape", [(7, 7), (6, 11), (11, 6)])
def test_the_form_of_a_picture_does_not_matter_to_hausdorff(shape, background):
    """By scipy it is the same, of wide and of tall ones."""
    random = np.random.default_rng(3)
    target = random.integers(0, 3, shape)
    preds = np.where(random.random(shape) < 0.2, random.integers(0, 3, shape), target)
    metric = get_metric(f"hausdorff(include_background={str(background).lower()})", Mask(3))
    metric.update(preds[None], target[None])
    expected = hausdorff_by_scipy(preds, target, range(0 if background else 1, 3))
    assert metric.compute().item() == pytest.approx(expected, rel=1e-6)


def test_a_class_that_no_picture_shows_is_no_matter_to_hausdorff():
    """The others are measured; pictures of background alone have no distance."""
    preds, target = torch.zeros(2, 1, 5, 6).long()
    preds[0, 1:3, 1:3] = target[0, 1:3, 1:4] = 1
    metric = get_metric("hausdorff", Mask(3))
    metric.update(preds, target)
    assert metric.compute().item() == 1.0
    metric.reset()
    metric.update(preds * 0, target * 0)
    assert metric.compute().isnan() and metric.undefined_reason


@pytest.mark.parametrize("name", ["bleu_score", "eed", "ter"])
def test_texts_may_stand_beside_token_ids(name):
    """As for any metric of texts."""
    texts, references = ["the cat sat there now", "a b c d"], ["the cat sat here now", "a b c d"]
    plain, beside = get_metric(name, "text"), get_metric(name, "text")
    plain.update(texts, references)
    tokens = torch.zeros(2, 3).long()
    beside.update(predictions=tokens, target=tokens, texts=texts, references=references)
    assert beside.compute() == plain.compute()


def test_small_pictures_have_no_vif():
    """Its smallest scale needs 41 pixels a side; the error says which side is shorter."""
    metric, pictures = get_metric("vif", "image"), torch.rand(2, 3, 64, 41, generator=torch.Generator())
    small = pictures[..., :40]
    with pytest.raises(
        MetricInputError, match="vif reads pictures from 41 pixels a side, got 64 x 40; enlarge"
    ):
        metric.update(small, small)
    enough = pictures[..., :41, :]
    metric.update(enough, enough)
    assert metric.compute().item() == pytest.approx(1, abs=1e-3)


def test_what_cannot_be_measured_is_undefined():
    """One cluster has no neighbors."""
    metric = get_metric("davies_bouldin", "clusters")
    metric.update(torch.zeros(4).long(), torch.zeros(4).long(), data=torch.eye(4, 2))
    assert metric.compute().isnan()
    assert metric.undefined_reason.startswith("torchmetrics cannot measure it: Number of detected clusters")


def test_rows_are_kept_once_for_all():
    """Metrics of a collection that keep their rows share them."""
    panel = MetricCollection(["ergas", "rase", "rmse_sw", "ssim"], output="image")
    kept = [statistic for statistic in panel.statistics if str(statistic).endswith("'rows of predictions')")]
    assert len(kept) == 1
    panel.update(**drawn(get_metric("rase", "image"), 4))
    assert all(value.isfinite() for value in panel.compute().values())


def test_two_kinds_do_not_merge():
    """A metric takes in its own kind only."""
    with pytest.raises(StateError, match="ssim merges only with its own kind"):
        get_metric("ssim", "image").merge(get_metric("uqi", "image"))


def test_a_mask_needs_its_number_of_classes():
    """Logits show it; of predictions alone the output says it."""
    masks = torch.tensor([[[0, 1], [2, 2]]])
    with pytest.raises(
        MetricInputError, match=r"mean_iou needs the number of classes, as in mask\(num_classes=3\)"
    ):
        get_metric("mean_iou", "mask").update(masks, masks)
    metric = get_metric("mean_iou", Mask(3))
    metric.update(masks, masks)
    assert metric.compute().item() == 1.0


def fairness_of(groups, preds=(1, 0, 1, 0), target=(1, 1, 1, 0), **params):
    """The fairness of four rows, and why it has none."""
    metric = get_metric(
        "fairness" if not params else f"fairness({'='.join(map(str, *params.items()))})", "binary"
    )
    metric.update(predictions=torch.tensor(preds), target=torch.tensor(target), groups=torch.tensor(groups))
    return metric.compute().item(), metric.undefined_reason


def test_fairness_by_hand():
    """Half of either group is predicted 1; of rows of class 1, half in the one group and all in the other."""
    assert fairness_of([0, 0, 1, 1]) == (0.5, None)
    assert fairness_of([0.0, 0.0, 1.0, 1.0]) == (0.5, None)
    assert fairness_of([0, 0, 1, 1], task="demographic_parity") == (1.0, None)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ({"groups": [0, 0, 0, 0]}, "group 1 of 2 has no row"),
        ({"groups": [0, 0, 2, 2], "num_groups": 3}, "group 1 of 3 has no row"),
        ({"groups": [0, 0, 0, 1]}, "group 1 of 2 has no row of class 1"),
        ({"groups": [0, 0, 1, 1], "preds": [0, 0, 0, 0]}, "no row is predicted 1"),
        ({"groups": [0, 0, 1, 1], "preds": [0, 0, 0, 1]}, "no row of class 1 is predicted 1"),
    ],
)
def test_fairness_between_rates_that_there_are_not_is_undefined(case, reason):
    """Nothing divided by nothing is 0 in torchmetrics, the worst there is."""
    value, told = fairness_of(**case)
    assert math.isnan(value) and told == reason


@pytest.mark.parametrize("groups", [[0, 0, 1, 2], [0, 0, 1, -1], [0, 0, 1, 0.5]])
def test_a_group_that_there_is_not_is_refused(groups):
    """Not even where torchmetrics would take it for another one, as it does -1."""
    wanted = r"fairness reads groups= from 0 to 1, whole numbers, got .*; fairness\(num_groups=3\) reads more"
    with pytest.raises(MetricInputError, match=wanted):
        fairness_of(groups)


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
        MetricInputError, match=r"reads pictures from 0 to .*, got whole numbers up to 25\d; .*=255"
    ):
        get_metric(name, "image").update(*whole_signals("image"))


def test_a_network_that_reads_shares_refuses_whole_numbers():
    """It would see white pictures; what they are to be divided by is said."""
    (row,) = [row for row in ROWS if row.name == "lpips"]
    with pytest.raises(
        MetricInputError, match=r"lpips reads pictures from 0 to 1.0, got .*; divide them by 255"
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
    refusal = rf"{row.name} reads pictures from 0 to 1.0, got .* up to 25\d"
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
    assert metric.undefined_reason.startswith("psnr reads pictures from 0 to 1.0, and some were of a wider")


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
