"""What single classes of torchmetrics need, refuse and leave undefined."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.ndimage import binary_erosion
from scipy.spatial.distance import cdist

from hpometrics.exceptions import MetricInputError, MissingExtraError, StateError
from hpometrics.metrics.catalogue.torchmetrics import ROWS, class_of
from hpometrics.metrics.catalogue.torchmetrics._data import draw_of
from hpometrics.metrics.features import FEATURES, Mask
from hpometrics.metrics.registry import index
from hpometrics.metrics.registry.register import get_metric

pytestmark = pytest.mark.usefixtures("streams")


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
    with pytest.raises(MetricInputError, match="needs data= beside predictions and target; data= is missing"):
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


def test_what_torchmetrics_refuses_is_our_error():
    """The message is its own, behind the name of the metric."""
    with pytest.raises(
        MetricInputError, match="ssim rejected the batch: Predictions and targets are expected"
    ):
        get_metric("ssim", "image").update(torch.ones(2, 3, 9, 9), torch.ones(2, 9, 9))
    with pytest.raises(MetricInputError, match="target has 3 rows, but predictions 2"):
        get_metric("si_sdr", "audio").update(torch.ones(2, 50), torch.ones(3, 50))


def test_one_speaker_is_not_taken_for_many():
    """Every sample would be a speaker, and every order of them tried."""
    for name in ("pit", "sa_sdr"):
        with pytest.raises(
            MetricInputError, match=rf"{name} .* needs \(N, speakers, samples\), got \(2, 50\)"
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
        MetricInputError, match="vif needs pictures of at least 41 pixels per side, got 64 x 40; enlarge"
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


def test_two_kinds_do_not_merge():
    """A metric takes in its own kind only."""
    with pytest.raises(
        StateError, match="ssim merges only with the same metric with equal parameters; got uqi"
    ):
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
    wanted = (
        r"fairness needs groups= as whole numbers from 0 to 1, got .*; set fairness\(num_groups=3\) for more"
    )
    with pytest.raises(MetricInputError, match=wanted):
        fairness_of(groups)
