"""The laws: what every metric keeps, each written once. A law draws its own data and raises `LawBroken`."""

from __future__ import annotations

from collections.abc import Callable

from ..subjects import Subject
from .edges import check_ignored, check_labels, check_policy, check_shapes, check_single
from .inputs import (
    check_buffer,
    check_device,
    check_forms,
    check_half,
    check_inputs,
    check_refusal,
    check_sync_free,
)
from .rows import (
    check_direction,
    check_partition,
    check_repetition,
    check_row_order,
    check_soft_labels,
    check_weight_scale,
    check_weightless,
    check_weights,
)
from .state import (
    check_company,
    check_empty,
    check_forward,
    check_inference_mode,
    check_merge,
    check_pickle,
    check_reset,
    check_state_dict,
    check_streams,
)
from .verdict import LawBroken

__all__ = [
    "LAWS",
    "LawBroken",
    "check_buffer",
    "check_company",
    "check_device",
    "check_direction",
    "check_empty",
    "check_forms",
    "check_forward",
    "check_half",
    "check_ignored",
    "check_inference_mode",
    "check_inputs",
    "check_labels",
    "check_merge",
    "check_partition",
    "check_pickle",
    "check_policy",
    "check_refusal",
    "check_repetition",
    "check_reset",
    "check_row_order",
    "check_shapes",
    "check_single",
    "check_soft_labels",
    "check_state_dict",
    "check_streams",
    "check_sync_free",
    "check_weight_scale",
    "check_weightless",
    "check_weights",
]

LAWS: tuple[Callable[[Subject], None], ...] = (
    check_direction,
    check_partition,
    check_merge,
    check_reset,
    check_pickle,
    check_state_dict,
    check_row_order,
    check_repetition,
    check_refusal,
    check_empty,
    check_half,
    check_buffer,
    check_forms,
    check_inputs,
    check_forward,
    check_inference_mode,
    check_streams,
    check_company,
    check_weights,
    check_weight_scale,
    check_weightless,
    check_soft_labels,
    check_single,
    check_labels,
    check_shapes,
    check_ignored,
    check_policy,
    check_sync_free,
    check_device,
)
