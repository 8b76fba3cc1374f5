"""The sums of torchmetrics' picture metrics in float64, block by block: PSNR and SSIM.

The classes of torchmetrics copy whole batches, and torch convolves float64 slowly. Here a block fits into the
cache, and the window of SSIM, a product of two Gaussians, is applied as one row of taps after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ....exceptions import MetricInputError
from ._row import MetricInputs

_BLOCK = 1 << 15  # values of a picture in a block; SSIM has five arrays of them
_FEW = 1 << 13  # values up to which NumPy multiplies on one thread


def squared_errors(inputs: MetricInputs, params: Mapping[str, Any]) -> list[float]:
    """Return the sum of the squared errors of all pixels and the number of pixels.

    The plain formula is `(target.double() - preds.double()).square().sum()`.

    Raises:
        MetricInputError: predictions and target differ in shape; torchmetrics would broadcast them.
    """
    preds, target = inputs.preds, inputs.target
    if preds.shape != target.shape:
        raise MetricInputError(
            "psnr needs predictions and target of the same shape, got "
            f"{tuple(preds.shape)} and {tuple(target.shape)}; shapes never broadcast"
        )
    total, count = 0.0, preds.numel()
    right, own = values_of(target), values_of(preds)
    for start in range(0, count, _BLOCK):
        part = slice(start, start + _BLOCK)
        error = np.subtract(right[part], own[part], dtype=np.float64)
        total += float(np.vdot(error, error)) if error.size <= _FEW else _sum_of_squares(error)
    return [total, float(count)]


def _sum_of_squares(error: npt.NDArray[np.float64]) -> float:
    values = torch.from_numpy(error)
    return torch.dot(values, values).item()


def values_of(pictures: Tensor) -> npt.NDArray[Any]:
    """Return all values as a flat array; NumPy has no bfloat16, and does not subtract bools."""
    wide = pictures.float() if pictures.dtype in (torch.bfloat16, torch.bool) else pictures
    values: npt.NDArray[Any] = wide.numpy().reshape(-1)
    return values


def decibels(sums: Tensor, params: Mapping[str, Any]) -> Tensor:
    """Return the peak signal-to-noise ratio from the sums of `squared_errors`."""
    squares, count = sums
    nepers = 2 * torch.log(sums.new_tensor(params["data_range"])) - torch.log(squares / count)
    return nepers * (10 / torch.log(torch.tensor(params["base"])))  # in float32, as in torchmetrics


def similarities(inputs: MetricInputs, params: Mapping[str, Any]) -> list[float] | None:
    """Return the sum of the SSIM of the pictures and the number of pictures.

    Returns:
        None for volumes, pictures smaller than half a window, and what torchmetrics refuses.
    """
    by_picture = similarity_by_picture(inputs, params)
    return None if by_picture is None else [by_picture.sum().item(), float(len(by_picture))]


def similarity_by_picture(inputs: MetricInputs, params: Mapping[str, Any]) -> Tensor | None:
    """Return the SSIM of each picture, (N,) float64; None as for `similarities`."""
    preds, target = inputs.preds, inputs.target
    window = _gaussian(params["sigma"]) if params["sigma"] > 0 else None
    is_odd = params["kernel_size"] > 0 and params["kernel_size"] % 2 == 1
    if preds.ndim != 4 or preds.shape != target.shape or window is None or not is_odd:
        return None
    if not preds.numel() or min(preds.shape[2:]) <= len(window) // 2:
        return None
    first, second = (x.reshape(-1, *x.shape[2:]) for x in (preds, target))
    sums = torch.zeros(len(first), dtype=torch.float64)
    c1, c2 = ((params[k] * params["data_range"]) ** 2 for k in ("k1", "k2"))
    for places, pair in _padded_blocks(first, second, len(window) // 2):
        sums[places] += _similarity(_windowed(pair, window), c1, c2).sum((-2, -1))
    by_picture: Tensor = sums.view(preds.shape[:2]).sum(1) / preds[0].numel()
    return by_picture


def _gaussian(sigma: float) -> list[float]:
    """Return the taps of a Gaussian of 3.5 deviations to both sides, which sum to 1."""
    reach = int(3.5 * sigma + 0.5)
    taps = torch.exp(-((torch.arange(-reach, reach + 1, dtype=torch.float64) / sigma) ** 2) / 2)
    return (taps / taps.sum()).tolist()


def _padded_blocks(preds: Tensor, target: Tensor, reach: int) -> Iterator[tuple[slice, Tensor]]:
    """Yield blocks of planes or of rows of a plane, mirrored at the edges: their place and (2, P, h, w)."""
    planes, height, width = preds.shape
    together = max(1, _BLOCK // (height * width))
    rows = height if together > 1 else max(4 * reach, _BLOCK // width)
    mirrored = [_mirrored(size, reach, preds.device) for size in (height, width)]
    for first in range(0, planes, together):
        places = slice(first, first + together)
        for top in range(0, height, rows):
            lines = mirrored[0][top : top + rows + 2 * reach]
            parts = [
                x[places].index_select(1, lines).double().index_select(2, mirrored[1])
                for x in (preds, target)
            ]
            yield places, torch.stack(parts)


def _mirrored(size: int, reach: int, device: torch.device) -> Tensor:
    """Return the places of a line with its mirrored ends, without the first and last place twice."""
    places = torch.arange(-reach, size + reach, device=device).abs()
    return torch.where(places < size, places, 2 * (size - 1) - places)


def _windowed(pair: Tensor, window: list[float]) -> tuple[Tensor, ...]:
    """Return the weighted means, in the window of each pixel, of both pictures and of their products."""
    preds, target = pair
    maps = torch.stack([preds, target, preds.square().add_(target.square()), preds * target])
    shape, width = maps.shape, maps.shape[-1]
    flat = maps.view(-1)  # neighbors are apart by 1 or by a row; sums that cross an edge are cut off
    for step in (width, 1):
        end = len(flat) - step * (len(window) - 1)
        means = flat[:end] * window[0]
        for place, tap in enumerate(window[1:], 1):
            means.add_(flat[place * step : place * step + end], alpha=tap)
        flat = means
    lost = len(window) - 1
    whole = flat.new_zeros(maps.numel())
    whole[: len(flat)] = flat
    return whole.view(shape)[..., : shape[-2] - lost, : shape[-1] - lost].unbind()


def _similarity(means_in_window: tuple[Tensor, ...], c1: float, c2: float) -> Tensor:
    """Return the SSIM of each pixel from the means in its window."""
    preds, target, squares, product = means_in_window
    means, mean_product = preds.square() + target.square(), preds * target
    covariance, variances = product - mean_product, (squares - means).clamp_(min=0)
    upper = (2 * mean_product + c1).mul_(2 * covariance + c2)
    return upper.div_((means + c1).mul_(variances + c2))
