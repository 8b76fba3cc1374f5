"""The laws that every metric keeps, each written once: for our own registry and for authors of metrics.

    class TestMyMetric(MetricLaws):
        metric = "my_metric"

A law draws its own data and raises `LawBroken` with what was expected and what came.
"""

from ..metrics.draws import OUTPUTS, Batch, Draw, cut, draw, rows_of, size_of
from .contract import MetricLaws
from .laws import (
    LAWS,
    LawBroken,
    check_buffer,
    check_company,
    check_device,
    check_direction,
    check_empty,
    check_forms,
    check_forward,
    check_half,
    check_ignored,
    check_inference_mode,
    check_inputs,
    check_labels,
    check_merge,
    check_partition,
    check_pickle,
    check_policy,
    check_refusal,
    check_repetition,
    check_reset,
    check_row_order,
    check_shapes,
    check_single,
    check_soft_labels,
    check_state_dict,
    check_streams,
    check_sync_free,
    check_weight_scale,
    check_weightless,
    check_weights,
)
from .ordinary import ORDINARY, ordinary
from .subjects import Subject, all_subjects, subjects_of
from .symmetry import exchanged, is_kept, renamed
from .waits import away, waits_of

__all__ = [
    "LAWS",
    "ORDINARY",
    "OUTPUTS",
    "Batch",
    "Draw",
    "LawBroken",
    "MetricLaws",
    "Subject",
    "all_subjects",
    "away",
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
    "cut",
    "draw",
    "exchanged",
    "is_kept",
    "ordinary",
    "renamed",
    "rows_of",
    "size_of",
    "subjects_of",
    "waits_of",
]
