"""Rows of text metrics: predictions with their references, or with pictures."""

from __future__ import annotations

from typing import Any

import torchmetrics

from ....direction import MAXIMIZE, MINIMIZE
from ...features import TEXT
from ._row import MetricInputs, Row

_MODEL: dict[str, Any] = {"packages": ("transformers",), "requires": "transformers", "wide": False}
_INFORMATION = (
    "fisher_rao_distance", "l1_distance", "l2_distance", "l_infinity_distance",
)  # fmt: skip


def several(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with texts and all their references."""
    inner.update(list(inputs.preds), [list(references) for references in inputs.target])


def single(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with texts and their first reference."""
    inner.update(list(inputs.preds), [references[0] for references in inputs.target])


def captions(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with pictures and the texts that were generated from them."""
    inner.update(list(inputs.extras["images"]), list(inputs.preds))


def _text(name: str, source: str, summary: str, value: str, formula: str, paper: str, **more: Any) -> Row:
    facts: dict[str, Any] = {"direction": MAXIMIZE, "feed": several, **more}
    return Row(
        name=name, features=(TEXT,), source=f"text.{source}", summary=summary, value=value, formula=formula,
        paper=paper, optional=("texts", "references"), **facts,
    )  # fmt: skip


ROWS = [
    _text(
        "bleu_score", "BLEUScore",
        "BLEU of the corpus in [0, 1]: n-gram precision of words separated by blanks.",
        "float in [0, 1], no unit, 1 is best", "brevity penalty * geometric mean of the n-gram precisions",
        "Papineni et al. 2002, ACL.",
        params={"n_gram": 4, "smooth": False},
    ),
    _text(
        "bert_score", "BERTScore", "Similarity of best matching words in the embeddings of a language model.",
        "float in [-1, 1], no unit, 1 is best", "f1 of the mean best cosine of each word, mean over texts",
        "Zhang, Kishore, Wu, Weinberger & Artzi 2020, ICLR.", keeps="rows", aliases=("bertscore",),
        params={"component": ("f1", "precision", "recall"), "lang": "en"}, component=("mean",), **_MODEL,
    ),
    _text(
        "infolm", "InfoLM", "Distance of the words that a language model would fill into both texts.",
        "float from 0, no unit, 0 is best", "distance of the two mixed distributions, mean over texts",
        "Colombo, Clavel & Piantanida 2022, AAAI.", direction=MINIMIZE, keeps="rows", feed=single,
        params={"information_measure": _INFORMATION}, fixed={"verbose": False}, **_MODEL,
        shape="predictions: N texts. target: N texts; of several references the first counts.",
        deviates="measures where lower is better; torchmetrics' default, KL divergence, is negated there.",
    ),
    Row(
        name="clip_score", features=(TEXT,), source="multimodal.CLIPScore", direction=MAXIMIZE, feed=captions,
        extras=("images",), optional=("texts", "references"),
        shape="predictions: N texts. `images=`: N pictures (3, height, width); no target is read.",
        summary="Similarity of captions and their pictures, `images=`, by CLIP; no target is read.",
        value="float in [0, 100], no unit, 100 is best", formula="mean of max(100 cos(picture, caption), 0)",
        paper="Hessel, Holtzman, Forbes, Le Bras & Choi 2021, EMNLP.", **_MODEL,
    ),
]  # fmt: skip
