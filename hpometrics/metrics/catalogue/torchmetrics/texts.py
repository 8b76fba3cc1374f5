"""Rows of text metrics: predictions with their references, and tokens of sequences."""

from __future__ import annotations

from typing import Any

import torchmetrics
from torchmetrics.functional.text import translation_edit_rate

from ....direction import MAXIMIZE, MINIMIZE
from ...features import LOGITS, SEQUENCE, TEXT
from ._row import MetricInputs, Row

_SHARE = "float in [0, 1], no unit, 1 is best"
_ERRORS = "float from 0, no unit, 0 is best, above 1 when the predictions are longer"
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


def answers(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with texts as SQuAD's answers, with row numbers as ids."""
    preds = [{"prediction_text": text, "id": str(row)} for row, text in enumerate(inputs.preds)]
    target = [
        {"answers": {"answer_start": [0] * len(texts), "text": list(texts)}, "id": str(row)}
        for row, texts in enumerate(inputs.target)
    ]
    inner.update(preds, target)


def tercom(inner: Any, inputs: MetricInputs) -> None:
    """Add the edits as Tercom counts them: words of the text are shifted, never those of its reference."""
    for text, references in zip(inputs.preds, inputs.target, strict=True):
        inner.total_num_edits += min(_tercom_edits(text, reference) for reference in references)
        inner.total_tgt_len += sum(len(reference.split()) for reference in references) / len(references)


def _tercom_edits(text: str, reference: str) -> int:
    """Return edits and shifts of words; a text without words costs those of the other."""
    length, reference_length = len(text.split()), len(reference.split())
    if not length or not reference_length:
        return max(length, reference_length)
    per_word: Any = translation_edit_rate([reference], [[text]])  # it shifts words of the second argument
    return round(float(per_word) * length)


def captions(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with pictures and the texts that were generated from them."""
    inner.update(list(inputs.extras["images"]), list(inputs.preds))


def _text(name: str, source: str, summary: str, value: str, formula: str, paper: str, **more: Any) -> Row:
    facts: dict[str, Any] = {"direction": MAXIMIZE, "feed": several, **more}
    return Row(
        name=name, features=(TEXT,), source=f"text.{source}", summary=summary, value=value, formula=formula,
        paper=paper, optional=("texts", "references"), **facts,
    )  # fmt: skip


def _errors(name: str, source: str, summary: str, formula: str, **more: Any) -> Row:
    facts: dict[str, Any] = {"value": _ERRORS, "direction": MINIMIZE, "feed": single, **more}
    return _text(
        name, source, summary, formula=formula, paper="Morris, Maier & Green 2004, Interspeech.",
        **facts,
    )  # fmt: skip


def _rouge(name: str, key: str, summary: str, **more: Any) -> Row:
    return _text(
        name, "ROUGEScore", summary, _SHARE, "2 p r / (p + r)", "Lin 2004, ACL workshop.", keeps="rows",
        fixed={"rouge_keys": key, "accumulate": "best"}, component=(f"{key}_fmeasure",), **more,
    )  # fmt: skip


ROWS = [
    _text(
        "bleu_score", "BLEUScore",
        "BLEU of the corpus in [0, 1]: n-gram precision of words separated by blanks.",
        _SHARE, "brevity penalty * geometric mean of the n-gram precisions", "Papineni et al. 2002, ACL.",
        params={"n_gram": 4, "smooth": False},
    ),
    _text(
        "bleu", "SacreBLEUScore", "BLEU of the corpus: n-gram precision of words as mteval separates them.",
        _SHARE, "brevity penalty * geometric mean of the n-gram precisions", "Post 2018, WMT.",
        params={"tokenize": ("13a", "none", "char", "intl", "zh"), "lowercase": False},
        fixed={"smooth": True},
    ),
    _text(
        "chrf", "CHRFScore", "F-score of the character n-grams of a corpus.", _SHARE,
        "(1 + beta^2) p r / (beta^2 p + r), p and r mean over n", "Popovic 2015, WMT.",
        fixed={"n_word_order": 0},
    ),
    _text(
        "ter", "TranslationEditRate",
        "Edits and shifts of words that turn a text into its reference, per word.",
        _ERRORS, "edits / words of the references", "Snover et al. 2006, AMTA; sacrebleu agrees.",
        direction=MINIMIZE, feed=tercom,
        deviates="an empty prediction costs every word of its reference, and words of the prediction are "
        "shifted; torchmetrics counts no edit, and shifts words of the reference.",
    ),
    _text(
        "eed", "ExtendedEditDistance",
        "Character edits and jumps between words that turn a text into its reference.",
        "float in [0, 1], no unit, 0 is best",
        "(edits + alpha jumps + rho revisits) / (length + rho revisits)",
        "Stanchev, Wang & Ney 2019, WMT.", direction=MINIMIZE, aliases=("extended_edit_distance",),
        keeps="rows",
        fixed={"return_sentence_level_score": True}, component=(1, "mean"),
        params={"alpha": 2.0, "rho": 0.3, "deletion": 0.2, "insertion": 1.0},
    ),
    _errors("wer", "WordErrorRate", "Word edits per word of the references.", "edits / words"),
    _errors("cer", "CharErrorRate", "Character edits per character of the references.", "edits / characters"),
    _errors(
        "mer", "MatchErrorRate", "Share of the aligned words that are edits.", "edits / (edits + hits)",
        value="float in [0, 1], no unit, 0 is best",
    ),
    _errors(
        "wil", "WordInfoLost", "1 minus the word information preserved.", "1 - hits^2 / (words * words)",
        value="float in [0, 1], no unit, 0 is best",
    ),
    _errors(
        "wip", "WordInfoPreserved",
        "Share of hits among predicted words, times that among words of the references.",
        "hits^2 / (words * words)", value=_SHARE, direction=MAXIMIZE,
        deviates="torchmetrics says that lower is better; higher is.",
    ),
    _errors(
        "edit_distance", "EditDistance",
        "Mean over texts of the character edits that turn a text into its reference.",
        "mean of edits", value="float from 0, in edits, 0 is best",
    ),
    _rouge("rouge_1", "rouge1", "F-score of words in common with the reference."),
    _rouge("rouge_2", "rouge2", "F-score of pairs of words in common with the reference."),
    _rouge("rouge_l", "rougeL", "F-score of the longest common subsequence of words."),
    _text(
        "squad_f1", "SQuAD", "F-score of words in common with the best answer, as SQuAD normalizes them.",
        "float in [0, 100], in percent, 100 is best", "100 * mean of 2 p r / (p + r)",
        "Rajpurkar, Zhang, Lopyrev & Liang 2016, EMNLP.", feed=answers, component=("f1",),
    ),
    _text(
        "squad_em", "SQuAD", "Share of texts that equal one of their answers, as SQuAD normalizes them.",
        "float in [0, 100], in percent, 100 is best", "100 * equal texts / texts",
        "Rajpurkar, Zhang, Lopyrev & Liang 2016, EMNLP.", feed=answers, component=("exact_match",),
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
    Row(
        name="perplexity", features=(SEQUENCE, TEXT), source="text.Perplexity", direction=MINIMIZE,
        inputs=LOGITS, keeps_ignored=True,
        summary="Exponential of the mean cross entropy of the tokens.",
        value="float from 1, no unit, 1 is best", formula="exp(mean of -log p)", paper="Jelinek 1977.",
    ),
    Row(
        name="sequence_accuracy", features=(SEQUENCE,), source="classification.MulticlassExactMatch",
        direction=MAXIMIZE, keeps_ignored=True,
        summary="Share of sequences that are right in every token.", value=_SHARE,
        formula="sequences without an error / sequences", paper="torchmetrics.",
    ),
]  # fmt: skip
