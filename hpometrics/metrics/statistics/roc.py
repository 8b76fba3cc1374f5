"""Areas under a part of the ROC curve, whose points are joined by lines."""

from __future__ import annotations

import torch
from torch import Tensor

from .ranked import Ranked


def area_up_to(column: Ranked, most: float) -> Tensor:
    """The area from a false positive rate of 0 up to `most`, 0-d."""
    fpr, tpr = column.rates
    inside = fpr <= most
    x = torch.cat([fpr[inside], fpr.new_tensor([most])])
    return torch.trapezoid(torch.cat([tpr[inside], _height(fpr, tpr, most)]), x)


def area_over_log(column: Ranked, least: float, most: float) -> Tensor:
    """The mean height over the logarithm of the false positive rate from `least` to `most`, 0-d."""
    fpr, tpr = column.rates
    inside = (fpr > least) & (fpr < most)
    x = torch.cat([fpr.new_tensor([least]), fpr[inside], fpr.new_tensor([most])]).log10()
    y = torch.cat([_height(fpr, tpr, least), tpr[inside], _height(fpr, tpr, most)])
    return torch.trapezoid(y, x) / (x[-1] - x[0])


def _height(fpr: Tensor, tpr: Tensor, at: float) -> Tensor:
    """The curve's true positive rate at a false positive rate, (1,); at a jump its upper end."""
    right = int(torch.searchsorted(fpr, at, side="right"))
    if right == len(fpr):
        return tpr[-1:]
    share = (at - fpr[right - 1]) / (fpr[right] - fpr[right - 1])
    return (tpr[right - 1] + share * (tpr[right] - tpr[right - 1])).unsqueeze(0)
