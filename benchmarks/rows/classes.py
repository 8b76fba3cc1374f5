"""Many classes, masks and pictures."""

from __future__ import annotations

import numpy as np
import torch

from hpometrics import Category, Image, Mask, get_metric

from .row import Measure, Size, row


def add_many_classes() -> None:
    """Add a row for accuracy and one for macro F1 of 100,000 classes."""
    for name in ("accuracy", "f1_macro"):

        def make(size: Size, name: str = name) -> tuple[Measure, Measure]:
            generator = torch.Generator().manual_seed(7)
            classes = size(100_000)
            target = torch.randint(classes, (2_048,), generator=generator)
            logits = torch.randn(2_048, classes, generator=generator)
            logits[torch.arange(0, 2_048, 2), target[::2]] += 20
            right = (logits.argmax(-1) == target).double().mean().item()

            def measure() -> float:
                metric = get_metric(name, Category(classes))
                for part, labels in zip(logits.split(64), target.split(64), strict=True):
                    metric.update(logits=part, target=labels)
                return metric.compute().item()

            value = right if name == "accuracy" else _macro_f1(logits, target)

            def theirs() -> float:
                for part in logits.split(64):
                    part.numpy().argmax(-1)
                return value

            return measure, theirs

        row(
            f"{name}, 100k classes",
            "2,048 rows x 100,000 classes, batches of 64",
            peer="argmax",
            wanted=2.0,
            metrics=name.removesuffix("_macro"),
            turns=3,
        )(make)


def _macro_f1(logits: torch.Tensor, target: torch.Tensor) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(target.numpy(), logits.argmax(-1).numpy(), average="macro", zero_division=0))


add_many_classes()


def add_masks() -> None:
    """Add a row for each metric of a mask."""
    for name in ("iou_macro", "dice_macro", "pixel_accuracy"):

        def make(size: Size, name: str = name) -> tuple[Measure, Measure]:
            generator = torch.Generator().manual_seed(7)
            shape = (64, size(512), 512)
            target = torch.randint(4, shape, generator=generator)
            preds = torch.where(torch.rand(shape, generator=generator) < 0.7, target, (target + 1) % 4)

            def measure() -> float:
                metric = get_metric(name, Mask(4))
                for part, labels in zip(preds.split(8), target.split(8), strict=True):
                    metric.update(part, labels)
                return metric.compute().item()

            def theirs() -> float:
                table = np.zeros(16, dtype=np.int64)
                for part, labels in zip(preds.split(8), target.split(8), strict=True):
                    table += np.bincount((labels * 4 + part).numpy().ravel(), minlength=16)
                matrix = table.reshape(4, 4)
                hits, truth, guess = matrix.diagonal(), matrix.sum(1), matrix.sum(0)
                if name == "pixel_accuracy":
                    return float(hits.sum() / matrix.sum())
                shares = hits / (truth + guess - hits) if name == "iou_macro" else 2 * hits / (truth + guess)
                return float(shares.mean())

            return measure, theirs

        row(
            name,
            "64 x 512 x 512 labels",
            peer="bincount",
            wanted=2.0,
            metrics=name.removesuffix("_macro"),
            turns=3,
        )(make)


add_masks()


def add_pictures() -> None:
    """Add a row for each metric and size of a picture."""
    import torchmetrics.image as peers

    shapes = {
        "8 x 3 x 96 x 96": (1, 8, 96),
        "200 x 2 x 3 x 32 x 32": (200, 2, 32),
        "24 x 3 x 512 x 512": (3, 8, 512),
    }
    classes = {"ssim": "StructuralSimilarityIndexMeasure", "psnr": "PeakSignalNoiseRatio"}
    for name, theirs_name in classes.items():
        for work, (updates, batch, side) in shapes.items():
            if (name, side) == ("ssim", 512):
                continue

            def make(
                size: Size,
                name: str = name,
                theirs_name: str = theirs_name,
                facts: tuple = (updates, batch, side),
            ) -> tuple[Measure, Measure]:
                updates, batch, side = facts
                generator = torch.Generator().manual_seed(7)
                target = torch.rand(size(updates), batch, 3, side, side, generator=generator)
                preds = (target + 0.1 * torch.randn(target.shape, generator=generator)).clamp(0, 1)

                def measure() -> float:
                    metric = get_metric(name, Image())
                    for a, b in zip(preds, target, strict=True):
                        metric.update(a, b)
                    return metric.compute().item()

                def theirs() -> float:
                    metric = getattr(peers, theirs_name)(data_range=1.0)
                    for a, b in zip(preds, target, strict=True):
                        metric.update(a, b)
                    return metric.compute().item()

                return measure, theirs

            row(
                f"{name}, {side}",
                work,
                peer="torchmetrics",
                wanted=1.1,
                metrics=name.removesuffix("_macro"),
                tolerance=1e-5,
                turns=3,
            )(make)


add_pictures()
