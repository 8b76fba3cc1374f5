"""Exact match and overlap of words: ParlAI's and SQuAD's numbers, references, odd texts."""

from __future__ import annotations

import re
from collections import Counter
from statistics import mean

import pytest
import torch
from drawn_texts import SHAPES, draw_texts, value
from torchmetrics.text import SQuAD

from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Text
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric

PUNCTUATION = re.compile(r"[!\"#$%&()*+,-./:;<=>?@\[\]\\^`{|}~_']")
ARTICLES = re.compile(r"\b(a|an|the)\b")


def written_out(text: str) -> list[str]:
    """ParlAI's normalizer, one rule after the other."""
    return ARTICLES.sub(" ", PUNCTUATION.sub(" ", text.lower())).split()


def precision_recall_f1(text: str, right: str) -> tuple[float, float, float]:
    """The overlap of two bags of words."""
    said, wanted = written_out(text), written_out(right)
    shared = (Counter(said) & Counter(wanted)).total()
    if not shared:
        return 0.0, 0.0, 0.0
    precision, recall = shared / len(said), shared / len(wanted)
    return precision, recall, 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("place, name", [(0, "precision"), (1, "recall"), (2, "f1")])
def test_overlap_by_counters(shape, place, name):
    """The mean over texts of the best reference, each measure with its own."""
    texts, references = draw_texts(*shape)
    rows = zip(texts, references, strict=True)
    expected = mean(max(precision_recall_f1(text, one)[place] for one in right) for text, right in rows)
    assert value(name, texts, references) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_accuracy_by_sets(shape):
    """Equal, after normalization, to any reference."""
    texts, references = draw_texts(*shape)
    rows = zip(texts, references, strict=True)
    expected = mean(written_out(text) in map(written_out, right) for text, right in rows)
    assert value("accuracy", texts, references) == pytest.approx(expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_squad_agrees_with_torchmetrics(shape):
    """SQuAD's own normalizer and its rule for answers that normalize to nothing; shares, not percent."""
    texts, references = draw_texts(*shape)
    other = SQuAD()
    other.update(
        [{"prediction_text": text, "id": str(i)} for i, text in enumerate(texts)],
        [
            {"answers": {"answer_start": [0] * len(r), "text": r}, "id": str(i)}
            for i, r in enumerate(references)
        ],
    )
    expected = other.compute()
    assert value("squad_f1", texts, references) == pytest.approx(expected["f1"].item() / 100, rel=1e-5)
    assert value("squad_em", texts, references) == pytest.approx(
        expected["exact_match"].item() / 100, rel=1e-5
    )


@pytest.mark.parametrize(
    "name, text, right, expected",
    [
        ("accuracy", "a", ["the"], 1),
        ("accuracy", "", [""], 1),
        ("f1", "A", ["A"], 0),
        ("squad_f1", "A", ["the"], 1),
        ("precision", "x x x", ["x"], 1 / 3),
        ("recall", "x x x", ["x"], 1),
        ("precision", "x y", ["x", "x y z w"], 1),
        ("recall", "x y", ["x", "x y z w"], 1),
        ("f1", "x y", ["x", "x y z w"], 2 / 3),
        ("f1", "hello there world", ["hello world"], 0.8),
    ],
)
def test_values_of_parlai(name, text, right, expected):
    """What ParlAI gives, and that each measure takes its own reference."""
    assert value(name, [text], [right]) == pytest.approx(expected)


def test_normalized_to_nothing_is_nothing_in_common():
    """Texts of articles and punctuation match exactly, and still share no word."""
    assert value("accuracy", ["The!"], ["a"]) == 1
    assert value("f1", ["The!"], ["a"]) == 0


def test_texts_are_wanted_where_ids_are_given():
    """Token ids alone are refused with what to do instead."""
    with pytest.raises(MetricInputError, match="expected texts"):
        get_metric("f1", Text()).update(torch.tensor([[1, 2]]), torch.tensor([[1, 2]]))


def test_ids_are_wanted_where_texts_are_given():
    """A metric of tokens cannot be had from texts."""
    with pytest.raises(MetricInputError):
        get_metric("perplexity", Text()).update(predictions=["a"], target=["a"])


def test_a_row_without_a_reference_is_refused():
    """And named."""
    with pytest.raises(MetricInputError, match="in row 1"):
        get_metric("f1", Text()).update(["a", "b"], [["a"], []])


def test_texts_beside_token_ids():
    """A panel of texts and tokens reads both from one update."""
    panel = MetricCollection(["f1", "bleu_4", "token_accuracy", "perplexity"], output=Text())
    logits = torch.eye(3).expand(2, 3, 3) * 30
    ids = torch.tensor([[0, 1, 2], [0, 1, -100]])
    panel.update(logits=logits, target=ids, texts=["x y", "x"], references=["x y", ["z", "x"]])
    values = panel.compute()
    assert values["f1"] == values["token_accuracy"] == 1
    assert values["perplexity"] == pytest.approx(1)


def test_words_are_cut_once_per_batch(monkeypatch):
    """Nine metrics of normalized texts share one normalization of predictions and one of references."""
    from hpometrics.metrics.statistics import text_counts

    calls = []
    original = text_counts.join_texts
    monkeypatch.setattr(text_counts, "join_texts", lambda texts: calls.append(len(texts)) or original(texts))
    names = [
        "accuracy",
        "f1",
        "precision",
        "recall",
        "bleu_1",
        "bleu_4",
        "interdistinct_1",
        "intradistinct_2",
    ]
    panel = MetricCollection(names, output=Text())
    panel.update(predictions=["a b", "c"], target=["b", "c"])
    assert calls == [2, 2]


@pytest.mark.parametrize(
    "name, meaning",
    [
        ("exact_match", "accuracy"),
        ("bleu-4", "bleu_4"),
        ("nlg_bleu", "bleu_4"),
        ("nlg_f1", "f1"),
        ("rouge-1", "rouge_1(measure=r)"),
        ("rouge_2", "rouge_2(measure=r)"),
        ("rouge_L", "rouge_l(measure=r)"),
        ("rouge1", "rouge_1(measure=f)"),
        ("intradistinct-2", "intradistinct_2"),
        ("hits@5", "hits@5"),
        ("ppl", "perplexity"),
        ("token_acc", "token_accuracy"),
        ("token_em", "sequence_accuracy"),
        ("loss", "log_loss"),
        ("fairseq_bleu2", "fairseq_bleu(order=2)"),
        ("word_error_rate", "wer"),
    ],
)
def test_names_of_other_systems(name, meaning):
    """ParlAI's, rouge-score's and Ludwig's spellings."""
    assert str(find_metric(name, "text").name) == meaning


@pytest.mark.parametrize(
    "given", [{"predictions": "abc", "target": ["abc"]}, {"predictions": ["a"], "target": "a"}]
)
def test_one_string_is_no_list(given):
    """A bare string is refused with what to write instead."""
    with pytest.raises(MetricInputError, match=r"got one text; write \['a"):
        get_metric("f1", Text()).update(**given)


def test_texts_given_twice():
    """Predicted strings and `texts=` do not go together."""
    with pytest.raises(MetricInputError, match="were passed twice, as predictions= and as texts="):
        get_metric("f1", Text()).update(predictions=["a"], target=["a"], texts=["b"])
