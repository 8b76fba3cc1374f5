"""Rows of audio metrics: signal-to-noise ratios, and quality and intelligibility of speech."""

from __future__ import annotations

from typing import Any

import torchmetrics
from torchmetrics.functional import audio

from ....direction import MAXIMIZE
from ...features import AUDIO
from ._row import MetricInputs, Row, predictions_only, row_by_row

_DB = "float in (-inf, inf), in decibels, higher is better"
_SPEAKERS = "preds, target: (N, speakers, samples) float."
_SPEECH_SHAPE = "preds: (N, samples) float; no target is read."
_SPEECH: dict[str, Any] = {"wide": False, "requires": "audio"}
_PERMUTED = {
    "si_sdr": "scale_invariant_signal_distortion_ratio",
    "si_snr": "scale_invariant_signal_noise_ratio",
    "snr": "signal_noise_ratio",
}


def construct_permutation_invariant(cls: type, arguments: dict[str, Any]) -> torchmetrics.Metric:
    """Call the constructor with the function that measures one speaker."""
    function = getattr(audio, _PERMUTED[arguments.pop("measure")])
    metric: torchmetrics.Metric = cls(function, eval_func="max", **arguments)
    return metric


def by_speaker(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with sounds of several speakers.

    Raises:
        ValueError: they are of one speaker, whose samples would be mistaken for speakers.
    """
    if inputs.target.ndim != 3:
        raise ValueError(
            f"it needs (N, speakers, samples), got {tuple(inputs.target.shape)}; for one speaker, use si_sdr"
        )
    inner.update(inputs.preds, inputs.target)


ROWS = [
    Row(
        name="snr", features=(AUDIO,), source="audio.SignalNoiseRatio", direction=MAXIMIZE,
        aliases=("signal_noise_ratio",), params={"zero_mean": False},
        summary="Power of the signal over the power of the error.", value=_DB,
        formula="10 log10(|t|^2 / |t - p|^2), mean over rows", paper="Le Roux et al. 2019, ICASSP.",
    ),
    Row(
        name="si_snr", features=(AUDIO,), source="audio.ScaleInvariantSignalNoiseRatio", direction=MAXIMIZE,
        aliases=("scale_invariant_signal_noise_ratio",),
        summary="Power of the signal over the power of the error, invariant to loudness and offset.",
        value=_DB,
        formula="10 log10(|s|^2 / |p - s|^2), s = <p, t> t / |t|^2, both centered",
        paper="Luo & Mesgarani 2018, ICASSP.",
    ),
    Row(
        name="si_sdr", features=(AUDIO,), source="audio.ScaleInvariantSignalDistortionRatio",
        direction=MAXIMIZE, aliases=("scale_invariant_signal_distortion_ratio",), params={"zero_mean": False},
        summary="Power of the signal over the power of the error, invariant to loudness.", value=_DB,
        formula="10 log10(|s|^2 / |s - p|^2), s = <p, t> t / |t|^2", paper="Le Roux et al. 2019, ICASSP.",
    ),
    Row(
        name="sdr", features=(AUDIO,), source="audio.SignalDistortionRatio", direction=MAXIMIZE,
        aliases=("signal_distortion_ratio",), params={"filter_length": 512, "zero_mean": False},
        summary="Power of the signal over the power of the error, invariant to a short filter.", value=_DB,
        formula="10 log10(|s|^2 / |p - s|^2), s the best filtering of t",
        paper="Vincent, Gribonval & Fevotte 2006, IEEE TASLP 14(4); Scheibler 2022, ICASSP.",
    ),
    Row(
        name="sa_sdr", features=(AUDIO,), source="audio.SourceAggregatedSignalDistortionRatio",
        direction=MAXIMIZE, aliases=("source_aggregated_signal_distortion_ratio",),
        params={"scale_invariant": True, "zero_mean": False}, feed=by_speaker,
        summary="Power of all speakers (N, speakers, samples) over the power of all errors.",
        shape=_SPEAKERS,
        value=_DB,
        formula="10 log10(sum |s|^2 / sum |s - p|^2), over speakers",
        paper="von Neumann, Kinoshita, Boeddeker, Delcroix & Haeb-Umbach 2022, ICASSP.",
    ),
    Row(
        name="c_si_snr", features=(AUDIO,), source="audio.ComplexScaleInvariantSignalNoiseRatio",
        direction=MAXIMIZE, aliases=("complex_scale_invariant_signal_noise_ratio",),
        params={"zero_mean": False},
        summary="SI-SNR of spectra (N, frequencies, times, 2), real and imaginary parts.",
        shape="preds, target: (N, frequencies, times, 2) float, real and imaginary parts.",
        value=_DB,
        formula="si_snr of real and imaginary parts as one signal",
        paper="Defossez et al. 2020, Interspeech.",
    ),
    Row(
        name="pit", features=(AUDIO,), source="audio.PermutationInvariantTraining", direction=MAXIMIZE,
        aliases=("permutation_invariant_training",), params={"measure": ("si_sdr", "si_snr", "snr")},
        make=construct_permutation_invariant, feed=by_speaker,
        summary="Signal-to-noise ratio of several speakers (N, speakers, samples) in their best order.",
        shape=_SPEAKERS,
        value=_DB,
        formula="mean over rows of max over orders of mean over speakers of the measure",
        paper="Yu, Kolbaek, Tan & Jensen 2017, ICASSP.",
    ),
    Row(
        name="pesq", features=(AUDIO,), source="audio.PerceptualEvaluationSpeechQuality", direction=MAXIMIZE,
        aliases=("perceptual_evaluation_speech_quality",), params={"fs": 16000, "mode": ("wb", "nb")},
        packages=("pesq",), requires="audio", feed=row_by_row,
        summary="Quality of speech as listeners would rate it, by ITU-T P.862.",
        value="float in [-1, 5], a mean opinion from -0.5 to 4.64, higher is better",
        formula="P.862 of each row, mean over rows", paper="Rix, Beerends, Hollier & Hekstra 2001, ICASSP.",
    ),
    Row(
        name="stoi", features=(AUDIO,), source="audio.ShortTimeObjectiveIntelligibility", direction=MAXIMIZE,
        aliases=("short_time_objective_intelligibility",), params={"fs": 16000, "extended": False},
        packages=("pystoi",), requires="audio", feed=row_by_row,
        summary="Intelligibility of speech: correlation of short-time spectra.",
        value="float in [-1, 1], no unit, 1 is best", formula="mean correlation of short-time envelopes",
        paper="Taal, Hendriks, Heusdens & Jensen 2011, IEEE TASLP 19(7).",
    ),
    Row(
        name="dnsmos", features=(AUDIO,), source="audio.DeepNoiseSuppressionMeanOpinionScore",
        direction=MAXIMIZE, aliases=("deep_noise_suppression_mean_opinion_score",), feed=predictions_only,
        params={"fs": 16000, "personalized": False, "component": ("ovr", "p808", "sig", "bak")},
        entries={"p808": 0, "sig": 1, "bak": 2, "ovr": 3}, packages=("librosa", "onnxruntime", "requests"),
        **_SPEECH,
        summary="Mean opinion of denoised speech that a network predicts; no target is read.",
        shape=_SPEECH_SHAPE,
        value="float in [0, 5], a mean opinion, 5 is best", formula="mean over rows of the network's score",
        paper="Reddy, Gopal & Cutler 2021, ICASSP.",
    ),
    Row(
        name="nisqa", features=(AUDIO,), source="audio.NonIntrusiveSpeechQualityAssessment",
        direction=MAXIMIZE, aliases=("non_intrusive_speech_quality_assessment",), feed=predictions_only,
        params={
            "fs": 16000,
            "component": ("overall", "noisiness", "discontinuity", "coloration", "loudness"),
        },
        entries={"overall": 0, "noisiness": 1, "discontinuity": 2, "coloration": 3, "loudness": 4},
        packages=("librosa", "requests"), **_SPEECH,
        summary="Mean opinion of speech that a network predicts; no target is read.",
        shape=_SPEECH_SHAPE,
        value="float in [0, 5], a mean opinion, 5 is best", formula="mean over rows of the network's score",
        paper="Mittag, Naderi, Chehadi & Moeller 2021, Interspeech.",
    ),
    Row(
        name="srmr", features=(AUDIO,), source="audio.SpeechReverberationModulationEnergyRatio",
        direction=MAXIMIZE, aliases=("speech_reverberation_modulation_energy_ratio",), feed=predictions_only,
        params={"fs": 16000}, packages=("gammatone", "torchaudio"), **_SPEECH,
        summary="Energy of slow over fast modulations, high for little reverberation; no target is read.",
        shape=_SPEECH_SHAPE,
        value="float from 0, no unit, higher is better",
        formula="slow / fast modulation energy, mean over rows",
        paper="Falk, Zheng & Chan 2010, IEEE TASLP 18(7).",
    ),
]  # fmt: skip
