"""Random batches for the laws, of the outputs and extras that torchmetrics' metrics read."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...features import AUDIO, BOXES, IMAGE, MASK, TEXT, OutputFeature
from .._batches import Batch, Recipe, draw_answers, uniform
from ..text.words import draw_texts
from ._row import Row

_GRAIN = 0.01  # keeps a right picture or sound from an error of 0, whose ratio would be infinite


def draw_of(row: Row) -> Recipe | None:
    """Return the draw that a row needs; None if the usual one of its feature serves."""
    return _BY_NAME.get(row.name) or _BY_FEATURE.get(row.features[0])


def mixed(target: Tensor, noise: float, random: torch.Generator) -> Tensor:
    """Return the target mixed with a share of noise and a little grain."""
    share = noise + _GRAIN
    return (1 - share) * target + share * uniform(tuple(target.shape), random)


def _at_most(most: int, draw: Recipe) -> Recipe:
    """Limit the rows of a draw that takes long to measure."""

    def limited(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        return draw(output, min(rows, most), noise, random)

    return limited


def _noisy(draw_target: Callable[[int, torch.Generator], Tensor]) -> Recipe:
    """Recipe targets, and predictions that are nearly the same."""

    def draw(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        target = draw_target(rows, random)
        return {"predictions": mixed(target, noise, random), "target": target}

    return draw


def _pictures(side: int, channels: int = 3) -> Recipe:
    return _noisy(lambda rows, random: uniform((rows, channels, side, side), random))


def _spectra(rows: int, random: torch.Generator) -> Tensor:
    """Recipe pictures whose channels are nearly the same, which noise makes different."""
    return uniform((rows, 1, 12, 12), random) + 0.1 * uniform((rows, 2, 12, 12), random)


def _sounds(*shape: int) -> Recipe:
    def draw(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        target = 2 * uniform((rows, *shape), random) - 1
        wrong = 2 * uniform((rows, *shape), random) - 1
        share = noise + _GRAIN
        return {"predictions": (1 - share) * target + share * wrong, "target": target}

    return draw


def _pansharpened(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    fine = torch.nn.functional.interpolate(
        uniform((rows, 2, 4, 4), random), scale_factor=8.0, mode="bilinear"
    )
    pan = fine.mean(1, keepdim=True).expand_as(fine)
    coarse, pan_lr = (
        torch.nn.functional.interpolate(x, scale_factor=0.5, mode="bilinear") for x in (fine, pan)
    )
    predictions = mixed(fine, noise, random)
    return {"predictions": predictions, "target": fine, "ms": coarse, "pan": pan, "pan_lr": pan_lr}


def _clustered(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    target, predictions = draw_answers(4, (rows,), noise, random)
    centers = 10 * torch.eye(4, dtype=torch.float64)
    return {
        "predictions": predictions,
        "target": target,
        "data": centers[target] + uniform((rows, 4), random),
    }


def _masks(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    classes = getattr(output, "num_classes", None) or 4
    target, predictions = draw_answers(classes, (rows, 8, 8), noise, random)
    return {"logits": _confident_logits(predictions, classes), "target": target}


def _confident_logits(labels: Tensor, classes: int) -> Tensor:
    """Return logits of a model that is confident of these classes."""
    return 8.0 * torch.nn.functional.one_hot(labels, classes).movedim(-1, 1).double().contiguous()


def _panoptic(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    blocks = torch.arange(8) // 2
    instances = (4 * blocks[:, None] + blocks[None]).expand(rows, 8, 8)
    coarse, _ = draw_answers(4, (rows, 4, 4), 0.0, random)
    target = coarse.repeat_interleave(2, 1).repeat_interleave(2, 2)
    guess = torch.randint(4, (rows, 8, 8), generator=random)
    predictions = torch.where(uniform((rows, 8, 8), random) < noise, guess, target)
    objects = {"instances": instances.clone(), "target_instances": instances.clone()}
    return {"logits": _confident_logits(predictions, 4), "target": target, **objects}


def _boxes(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    predictions, target = [], []
    for _ in range(rows):
        count = int(torch.randint(1, 4, (), generator=random))
        corner = 100 * uniform((count, 2), random)
        boxes = torch.cat([corner, corner + 20 + 100 * uniform((count, 2), random)], 1)  # of all sizes
        labels = torch.randperm(4, generator=random)[:count]
        moved = boxes + noise * 60 * (uniform((count, 1), random) + 0.05)
        predictions.append({"boxes": moved, "scores": uniform((count,), random), "labels": labels})
        target.append({"boxes": boxes, "labels": labels})
    return {"predictions": predictions, "target": target}


def _grouped(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    groups = torch.arange(rows) % 2
    target = (torch.arange(rows) // 2) % 2
    missed = (uniform((rows,), random) < noise) & (groups == 1)
    probabilities = torch.where(missed, 0.1, torch.where(target == 1, 0.9, 0.1))
    return {"probabilities": probabilities.double(), "target": target, "groups": groups}


_BY_FEATURE: dict[str, Recipe] = {
    IMAGE: _at_most(40, _pictures(16)), AUDIO: _sounds(64), MASK: _masks, BOXES: _boxes,
    TEXT: draw_texts,
}  # fmt: skip

_BY_NAME: dict[str, Recipe] = {
    "psnr": _pictures(8),
    "sam": _pictures(8),
    "ergas": _pictures(8),
    "psnrb": _pictures(16, 1),
    "ms_ssim": _at_most(2, _pictures(176, 1)),
    "vif": _at_most(12, _pictures(41, 1)),
    "spectral_distortion": _at_most(12, _noisy(_spectra)),
    "qnr": _at_most(6, _pansharpened),
    "spatial_distortion": _at_most(6, _pansharpened),
    "total_variation": _noisy(lambda rows, _: torch.full((rows, 3, 8, 8), 0.5, dtype=torch.float64)),
    "procrustes": _noisy(lambda rows, random: uniform((rows, 6, 3), random)),
    "sdr": _at_most(12, _sounds(600)),
    "sa_sdr": _sounds(2, 32),
    "pit": _sounds(2, 32),
    "c_si_snr": _sounds(4, 8, 2),
    "pesq": _at_most(4, _sounds(8000)),
    "stoi": _at_most(4, _sounds(8000)),
    "calinski_harabasz": _clustered,
    "davies_bouldin": _clustered,
    "dunn": _clustered,
    "hausdorff": _at_most(12, _masks),
    "panoptic_quality": _at_most(30, _panoptic),
    "modified_panoptic_quality": _at_most(30, _panoptic),
    "fairness": _grouped,
}
