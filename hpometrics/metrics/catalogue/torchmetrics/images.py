"""Rows of image metrics: similarity to the right pictures, and quality without them.

The range of pictures is checked on the target: a network may overshoot the range, which is an error that the
metric measures.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
import torchmetrics
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricInputError
from ..._checks import read
from ..._device import number, on_host
from ...batch import Outputs
from ...features import IMAGE
from ._pictures import decibels, similarities, similarity_by_picture, squared_errors
from ._row import MetricInputs, Row, predictions_only, row_by_row, unit_predictions_only

_OVERSHOT = 1.1  # how far a resampled target may exceed its range
_PREDICTION_LIMIT = 2.0  # how far a prediction may exceed its range, where no target is read
_NONE = torch.zeros((), dtype=torch.int64)  # nobody writes into it


def check_range(row: Row, params: Mapping[str, Any], batch: Outputs) -> Tensor | None:
    """Check that pictures lie in the range that a metric reads, unlike those of 0 to 255 where it is 1.

    Pictures from -1 to 1 have the range 2. Predictions of whole numbers are checked as well.

    Returns:
        On a device, how many kinds of pictures are too wide, still unread; None for a metric that reads any
        range.

    Raises:
        MetricInputError: on the CPU, naming the least and largest value.
    """
    highest = highest_of(row, params)
    if highest is None:
        return None
    flags: list[Tensor] = []
    for name, slack in _pictures_to_check(row, batch):
        low, high = batch.block(f"extremes of {name}", partial(_extremes, name=name))
        most = slack * highest
        too_wide = (high > most) | (low < -most) | (high - low > most)
        if isinstance(too_wide, Tensor):
            flags.append(too_wide)
        elif too_wide:
            raise MetricInputError(_format_excess(row, params, name, batch))
    if flags:
        return torch.stack(flags).sum()
    return _NONE if on_host(batch.target) else number(0, batch.target, torch.int64)


def _extremes(batch: Outputs, name: str) -> tuple[Any, Any]:
    low, high = getattr(batch, name).aminmax()
    return read(low), read(high)


def highest_of(row: Row, params: Mapping[str, Any]) -> float | None:
    """Return the largest value of the pictures that a metric reads; None if it reads any."""
    highest: float | None = params.get("data_range", row.highest)
    return highest


def range_rule(row: Row, params: Mapping[str, Any]) -> str:
    """Return the rule for the range of the pictures that a metric reads."""
    return f"{row.name} needs pictures from 0 to {highest_of(row, params)}"


def _pictures_to_check(row: Row, batch: Outputs) -> list[tuple[str, float]]:
    """Return the pictures whose range is checked, and how many times as wide they may be."""
    without_target = row.feed in (predictions_only, unit_predictions_only)
    pictures = {"predictions": batch.predictions} if without_target else {"target": batch.target}
    if not batch.predictions.is_floating_point():
        pictures["predictions"] = batch.predictions
    slack = _PREDICTION_LIMIT if without_target else _OVERSHOT
    return [
        (name, slack if x.is_floating_point() else 1.0)
        for name, x in pictures.items()
        if x.numel() and x.dtype is not torch.bool
    ]


def _format_excess(row: Row, params: Mapping[str, Any], name: str, batch: Outputs) -> str:
    """Format the range of pictures that exceed the one that a metric reads."""
    low, high = _extremes(batch, name)
    is_real = getattr(batch, name).is_floating_point()
    numbers = f"{name} with values" if is_real else "whole numbers"
    least, hint = f" from {low:.4g}" if low < 0 else "", _hint(row, params, low, high)
    return f"{range_rule(row, params)}, got {numbers}{least} up to {high:.4g}; {hint}"


def _hint(row: Row, params: Mapping[str, Any], low: float, high: float) -> str:
    """Return advice for pictures of another range."""
    scale = "map them to that range" if low < 0 else "divide them by 255"
    if "data_range" not in params:
        return scale
    wide = 2 if -1 <= low < 0 and high <= 1 else 255
    return f"state their range, as in {row.name}(data_range={wide}), or {scale}"


_HIGHER, _ZERO = "higher is better", "0 is best"
_LIKENESS = "float in [-1, 1], no unit, 1 is best"
_DISTANCE = f"float from 0, no unit, {_ZERO}"
_GENERATED = "preds: (N, channels, height, width) float; no target is read."
_COLORED = "preds, target: (N, 3, height, width) float in [0, 1]."
_GENERATED_COLORED = "preds: (N, 3, height, width) float in [0, 1]; no target is read."
_RANGED = "preds, target: (N, channels, height, width) float, the target no wider than `data_range`."
_VISION: dict[str, Any] = {
    "packages": ("torchvision",), "requires": "image", "wide": False, "highest": 1.0,
}  # fmt: skip
_INCEPTION: dict[str, Any] = {
    "packages": ("torch_fidelity",),
    "requires": "image",
    "wide": False,
    "highest": 1.0,
    "fixed": {"normalize": True},
}


def real_and_generated(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with the target as real pictures and the predictions as generated ones.

    Both are clamped to [0, 1], as files would store them: torchmetrics converts them to bytes, which wrap
    around.
    """
    inner.update(inputs.target.clamp(0, 1), real=True)
    inner.update(inputs.preds.clamp(0, 1), real=False)


def from_41_pixels(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with pictures that are large enough for the smallest of the four scales."""
    height, width = inputs.preds.shape[-2:]
    if min(height, width) < 41:
        raise MetricInputError(
            f"vif needs pictures of at least 41 pixels per side, got {height} x {width}; enlarge both, or "
            "choose a metric for small pictures, such as ssim"
        )
    inner.update(inputs.preds, inputs.target)


def pansharpening(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with a pansharpened picture, and with the two that it was made from."""
    inner.update(inputs.preds, dict(inputs.extras))


_PAN: dict[str, Any] = {
    "feed": pansharpening, "keeps": "rows", "extras": ("ms", "pan", "pan_lr"),
    "shape": "preds, `pan=`: (N, channels, height, width) float. `ms=`, `pan_lr=`: the same, smaller. No "
    "target is read.",
}  # fmt: skip

ROWS = [
    Row(
        name="psnr", features=(IMAGE,), source="image.PeakSignalNoiseRatio", direction=MAXIMIZE,
        aliases=("peak_signal_noise_ratio", "peak_signal_to_noise_ratio"),
        params={"data_range": 1.0, "base": 10.0}, sums=squared_errors,
        of_sums=decibels,
        shape=_RANGED,
        summary="Peak signal-to-noise ratio: largest signal power over mean squared error of all pixels.",
        value=f"float in (-inf, inf], in decibels, {_HIGHER}, infinite when every pixel is right",
        formula="10 log10(data_range^2 / mse)",
        paper="Huynh-Thu & Ghanbari 2008, Electronics Letters 44(13).",
    ),
    Row(
        name="psnrb", features=(IMAGE,), source="image.PeakSignalNoiseRatioWithBlockedEffect",
        direction=MAXIMIZE, aliases=("peak_signal_noise_ratio_with_blocked_effect",), keeps="rows",
        params={"data_range": 1.0, "block_size": 8},
        summary="PSNR of gray pictures that also counts the edges of compression blocks as error.",
        shape="preds, target: (N, 1, height, width) float, the target no wider than `data_range`.",
        value=f"float in (-inf, inf], in decibels, {_HIGHER}",
        formula="10 log10(data_range^2 / (mse + blocking effect))",
        paper="Yim & Bovik 2011, IEEE Transactions on Image Processing 20(1).",
    ),
    Row(
        name="ssim", features=(IMAGE,), source="image.StructuralSimilarityIndexMeasure", direction=MAXIMIZE,
        aliases=("structural_similarity", "structural_similarity_index_measure"),
        params={"data_range": 1.0, "sigma": 1.5, "kernel_size": 11, "k1": 0.01, "k2": 0.03},
        shape=_RANGED, sums=similarities, by_row=similarity_by_picture,
        summary="Similarity of brightness, contrast and structure in small windows, averaged over pictures.",
        value=_LIKENESS,
        formula="mean of (2 mx my + c1)(2 sxy + c2) / ((mx^2 + my^2 + c1)(sx^2 + sy^2 + c2))",
        paper="Wang, Bovik, Sheikh & Simoncelli 2004, IEEE Transactions on Image Processing 13(4).",
        deviates="torchmetrics takes the range of each batch if no data_range is given.",
    ),
    Row(
        name="ms_ssim", features=(IMAGE,), source="image.MultiScaleStructuralSimilarityIndexMeasure",
        direction=MAXIMIZE, aliases=("multi_scale_structural_similarity_index_measure",),
        params={"data_range": 1.0, "sigma": 1.5, "kernel_size": 11, "k1": 0.01, "k2": 0.03},
        fixed={"normalize": "relu"},
        summary="SSIM over five scales, for pictures of more than 160 pixels a side (with a kernel of 11).",
        shape=f"{_RANGED[:-1]}; height and width above 160.",
        value="float in [0, 1], no unit, 1 is best", formula="product over scales of contrast and structure",
        paper="Wang, Simoncelli & Bovik 2003, Asilomar Conference.",
        deviates="torchmetrics takes the range of each batch if no data_range is given.",
    ),
    Row(
        name="uqi", features=(IMAGE,), source="image.UniversalImageQualityIndex", direction=MAXIMIZE,
        aliases=("universal_image_quality_index",),
        summary="SSIM without its constants: correlation, brightness and contrast in small windows.",
        value=_LIKENESS, formula="mean of 4 sxy mx my / ((sx^2 + sy^2)(mx^2 + my^2))",
        paper="Wang & Bovik 2002, IEEE Signal Processing Letters 9(3).",
    ),
    Row(
        name="vif", features=(IMAGE,), source="image.VisualInformationFidelity", direction=MAXIMIZE,
        aliases=("visual_information_fidelity",), params={"sigma_n_sq": 2.0}, feed=from_41_pixels,
        summary="Share of the target's information that the prediction preserves, from 41 pixels a side.",
        shape="preds, target: (N, channels, height, width) float, height and width from 41.",
        value="float from 0, no unit, 1 for equal pictures, above 1 with more contrast",
        formula="information in the prediction / information in the target, in the pixel domain",
        paper="Sheikh & Bovik 2006, IEEE Transactions on Image Processing 15(2).",
    ),
    Row(
        name="scc", features=(IMAGE,), source="image.SpatialCorrelationCoefficient", direction=MAXIMIZE,
        aliases=("spatial_correlation_coefficient",), params={"window_size": 8}, feed=row_by_row,
        summary="Correlation of the edges of both pictures, in small windows.",
        value=_LIKENESS, formula="mean of the correlation of both pictures after a Laplacian",
        paper="Zhou, Civco & Silander 1998, International Journal of Remote Sensing 19(4).",
    ),
    Row(
        name="sam", features=(IMAGE,), source="image.SpectralAngleMapper", direction=MINIMIZE,
        aliases=("spectral_angle_mapper",),
        summary="Angle between the spectra (the values over channels) of each pixel, averaged.",
        shape="preds, target: (N, channels, height, width) float, of at least 2 channels.",
        value=f"float from 0, in radians, {_ZERO}, pi is worst", formula="mean of arccos(<p, t> / (|p| |t|))",
        paper="Yuhas, Goetz & Boardman 1992, JPL Airborne Geoscience Workshop.",
    ),
    Row(
        name="ergas", features=(IMAGE,), source="image.ErrorRelativeGlobalDimensionlessSynthesis",
        direction=MINIMIZE, aliases=("error_relative_global_dimensionless_synthesis",), keeps="rows",
        params={"ratio": 4.0},
        summary="Relative error of all channels, scaled by the ratio of resolutions, averaged over pictures.",
        value=_DISTANCE, formula="100 / ratio * sqrt(mean over channels of mse / mean(target)^2)",
        paper="Wald 2000, Fusion of Earth Data conference.",
    ),
    Row(
        name="rase", features=(IMAGE,), source="image.RelativeAverageSpectralError", direction=MINIMIZE,
        aliases=("relative_average_spectral_error",), keeps="rows", params={"window_size": 8},
        summary="Error in sliding windows relative to the mean of the target, over all pictures.",
        value=_DISTANCE, formula="100 / mean(target) * sqrt(mean over channels of rmse^2)",
        paper="Gonzalez-Audicana, Saleta, Catalan & Garcia 2004, IEEE TGRS 42(6).",
    ),
    Row(
        name="rmse_sw", features=(IMAGE,), source="image.RootMeanSquaredErrorUsingSlidingWindow",
        direction=MINIMIZE, aliases=("root_mean_squared_error_using_sliding_window",), keeps="rows",
        params={"window_size": 8},
        summary="Root mean squared error in sliding windows, averaged.",
        value=f"float from 0, in the target's unit, {_ZERO}", formula="mean over windows of sqrt(mse)",
        paper="torchmetrics; the error inside RASE.",
    ),
    Row(
        name="spectral_distortion", features=(IMAGE,), source="image.SpectralDistortionIndex",
        direction=MINIMIZE, aliases=("spectral_distortion_index", "d_lambda"), keeps="rows", params={"p": 1},
        summary="Difference of the relations between channels from those of the target.",
        shape="preds, target: (N, channels, height, width) float, of at least 2 channels.",
        value=f"float in [0, 2], no unit, {_ZERO}",
        formula="mean over pairs of channels of |uqi(preds) - uqi(target)|^p, ^(1 / p)",
        paper="Alparone et al. 2008, Photogrammetric Engineering & Remote Sensing 74(2).",
        deviates="torchmetrics says that higher is better; lower is.",
    ),
    Row(
        name="spatial_distortion", features=(IMAGE,), source="image.SpatialDistortionIndex",
        direction=MINIMIZE, aliases=("spatial_distortion_index", "d_s"),
        params={"norm_order": 1, "window_size": 7},
        summary="Change of the relation to `pan=` from that of `ms=` to `pan_lr=`; no target is read.",
        value=f"float in [0, 1], no unit, {_ZERO}",
        formula="mean over channels of |uqi(ms, pan_lr) - uqi(preds, pan)|^q, ^(1 / q)",
        paper="Alparone et al. 2008, Photogrammetric Engineering & Remote Sensing 74(2).", **_PAN,
    ),
    Row(
        name="qnr", features=(IMAGE,), source="image.QualityWithNoReference", direction=MAXIMIZE,
        aliases=("quality_with_no_reference",),
        params={"alpha": 1.0, "beta": 1.0, "norm_order": 1, "window_size": 7},
        summary="Quality of a picture sharpened from `ms=` by `pan=`, by two distortions; no target is read.",
        value="float in [0, 1], no unit, 1 is best",
        formula="(1 - spectral_distortion)^alpha * (1 - spatial_distortion)^beta",
        paper="Alparone et al. 2008, Photogrammetric Engineering & Remote Sensing 74(2).", **_PAN,
    ),
    Row(
        name="total_variation", features=(IMAGE,), source="image.TotalVariation", direction=MINIMIZE,
        aliases=("tv",), fixed={"reduction": "mean"}, feed=predictions_only,
        summary="Sum of the steps between neighboring pixels, averaged over pictures; no target is read.",
        shape=_GENERATED,
        value="float from 0, in the prediction's unit, 0 is a picture of one color",
        formula="mean over pictures of sum |step down| + sum |step right|",
        paper="Rudin, Osher & Fatemi 1992, Physica D 60.",
        deviates="the mean over pictures; torchmetrics' default is the sum, which grows with their number.",
    ),
    Row(
        name="lpips", features=(IMAGE,), source="image.LearnedPerceptualImagePatchSimilarity",
        direction=MINIMIZE, aliases=("learned_perceptual_image_patch_similarity",),
        params={"net_type": ("alex", "vgg", "squeeze")}, fixed={"normalize": True},
        summary="Distance of the features of both pictures in a trained network, for values in [0, 1].",
        shape=_COLORED,
        value=_DISTANCE, formula="sum over layers of weighted squared distance of unit features",
        paper="Zhang, Isola, Efros, Shechtman & Wang 2018, CVPR.", **_VISION,
    ),
    Row(
        name="dists", features=(IMAGE,), source="image.DeepImageStructureAndTextureSimilarity",
        direction=MINIMIZE, aliases=("deep_image_structure_and_texture_similarity",),
        summary="Distance of structure and texture in the features of a trained network.",
        shape=_COLORED,
        value=_DISTANCE, formula="1 - weighted sum over layers of texture and structure likeness",
        paper="Ding, Ma, Wang & Simoncelli 2020, IEEE TPAMI 44(5).", **_VISION,
    ),
    Row(
        name="arniqa", features=(IMAGE,), source="image.arniqa.ARNIQA", direction=MAXIMIZE,
        feed=predictions_only,
        params={"regressor_dataset": ("koniq10k", "kadid10k")},
        summary="Quality of a picture by a trained network, for values in [0, 1]; no target is read.",
        shape=_GENERATED_COLORED,
        value="float in [0, 1], no unit, 1 is best", formula="mean over pictures of the network's score",
        paper="Agnolucci, Galteri, Bertini & Del Bimbo 2024, WACV.", **_VISION,
    ),
    Row(
        name="fid", features=(IMAGE,), source="image.FrechetInceptionDistance", direction=MINIMIZE,
        aliases=("frechet_inception_distance",), params={"feature": (2048, 64, 192, 768)},
        feed=real_and_generated,
        summary="Distance of the feature distributions of real (the target) and generated pictures.",
        shape=_COLORED,
        value=_DISTANCE, formula="|m1 - m2|^2 + tr(c1 + c2 - 2 sqrt(c1 c2))",
        paper="Heusel, Ramsauer, Unterthiner, Nessler & Hochreiter 2017, NeurIPS.", **_INCEPTION,
    ),
    Row(
        name="kid", features=(IMAGE,), source="image.KernelInceptionDistance", direction=MINIMIZE,
        aliases=("kernel_inception_distance",), feed=real_and_generated, component=(0,),
        params={"feature": (2048, 64, 192, 768), "subsets": 100, "subset_size": 1000},
        summary="Squared kernel distance of the features of real (the target) and generated pictures.",
        shape=_COLORED,
        value=f"float in (-inf, inf), no unit, {_ZERO}, unbiased and hence sometimes below 0",
        formula="mean over random subsets of the squared maximum mean discrepancy",
        paper="Binkowski, Sutherland, Arbel & Gretton 2018, ICLR.", **_INCEPTION,
    ),
    Row(
        name="mifid", features=(IMAGE,), source="image.mifid.MemorizationInformedFrechetInceptionDistance",
        direction=MINIMIZE, aliases=("memorization_informed_frechet_inception_distance",),
        feed=real_and_generated,
        params={"feature": (2048, 64, 192, 768), "cosine_distance_eps": 0.1},
        summary="FID with a penalty for generated pictures that copy the real ones.",
        shape=_COLORED,
        value=_DISTANCE, formula="fid / memorization penalty", paper="Bai, Lin, Raffel & Kan 2021, KDD.",
        **_INCEPTION,
    ),
    Row(
        name="inception_score", features=(IMAGE,), source="image.InceptionScore", direction=MAXIMIZE,
        feed=unit_predictions_only, component=(0,), params={"splits": 10},
        summary="Confidence of a network in each generated picture, and their diversity; no target is read.",
        shape=_GENERATED_COLORED,
        value=f"float from 1, no unit, {_HIGHER}", formula="exp(mean KL(p(class | picture) || p(class)))",
        paper="Salimans et al. 2016, NeurIPS.", **_INCEPTION,
    ),
    Row(
        name="clip_iqa", features=(IMAGE,), source="multimodal.CLIPImageQualityAssessment",
        direction=MAXIMIZE, aliases=("clip_image_quality_assessment",), feed=predictions_only,
        params={"data_range": 1.0}, component=("mean",), packages=("transformers", "piq"),
        requires="multimodal", wide=False,
        summary="Probability that a picture is a good rather than a bad photo, by CLIP; no target is read.",
        shape="preds: (N, 3, height, width) float from 0 to `data_range`; no target is read.",
        value="float in [0, 1], no unit, 1 is best",
        formula="mean over pictures of softmax of the likeness to two prompts",
        paper="Wang, Chan & Loy 2023, AAAI.",
    ),
    Row(
        name="vmaf", features=(IMAGE,), source="video.VideoMultiMethodAssessmentFusion", direction=MAXIMIZE,
        aliases=("video_multi_method_assessment_fusion",), component=("mean",),
        packages=("vmaf_torch", "einops"), requires="video", wide=False,
        summary="Quality of videos (N, 3, frames, height, width) from several measures, mean over frames.",
        shape="preds, target: (N, 3, frames, height, width) float.",
        value="float in [0, 100], no unit, 100 is best",
        formula="mean over frames of a regression on features",
        paper="Li, Aaron, Katsavounidis, Moorthy & Manohara 2016, Netflix.",
    ),
]  # fmt: skip
