"""ROUGE: rouge-score's numbers of every measure, stemmed or not, over several references and lines."""

from __future__ import annotations

from itertools import product
from statistics import mean

import pytest
from drawn_texts import SHAPES, draw_texts, value
from matrix import covering

from hpometrics.exceptions import MetricNameError
from hpometrics.metrics.features import Text
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.names import MetricName
from hpometrics.metrics.registry.register import get_metric

KEYS = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL", "rouge_lsum": "rougeLsum"}


@pytest.mark.parametrize(
    ("name", "shape", "stem"),
    covering(product(KEYS, SHAPES, [False, True]), lambda case: [case[::2], case[1]], ids=str),
)
def test_agrees_with_rouge_score(name, shape, stem):
    """Each measure takes the reference that is best for it; lines are the sentences of rouge_lsum."""
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer([KEYS[name]], use_stemmer=stem)
    texts, references = draw_texts(*shape, rows=60)
    texts = [text.replace(" x", "\n x") for text in texts]
    references = [[one.replace(" w", "\n w") for one in right] for right in references]
    rows = zip(texts, references, strict=True)
    scores = [[scorer.score(one, text)[KEYS[name]] for one in right] for text, right in rows]
    for place, measure in enumerate("prf"):
        expected = mean(max(score[place] for score in row) for row in scores)
        got = value(f"{name}(measure={measure}, stem={str(stem).lower()})", texts, references)
        assert got == pytest.approx(expected, rel=1e-12)


def test_precision_and_recall_have_references_of_their_own():
    """rouge-score's score_multi reports those of the reference with the best F1: 4/6 here, not 1."""
    texts, references = ["a b c d"], [["a", "a b c d e f"]]
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(["rouge1"])
    theirs = scorer.score_multi(references[0], texts[0])["rouge1"]
    assert value("rouge1", texts, references) == pytest.approx(theirs.fmeasure)
    assert value("rouge1_recall", texts, references) == 1 > theirs.recall
    for name in KEYS:
        assert "score_multi and torchmetrics" in find_metric(f"{name}(measure=r)", "text").entries[0].deviates


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("rouge_1", "rouge_1"),
        ("rouge_2", "rouge_2"),
        ("rouge_l", "rouge_L"),
        ("rouge_1(stem=true)", "rouge_1(stem=true)"),
    ],
)
def test_parlais_names_are_its_recall(name, written):
    """The names of its report are taken as they are, and print with the measure that they mean."""
    metric, params = MetricName.parse(name).metric, MetricName.parse(name).params
    assert str(get_metric(written, Text()).name) == str(MetricName(metric, (("measure", "r"), *params)))
    assert value(written, ["a b c"], ["a b d e"]) == value(f"{metric}(measure=r)", ["a b c"], ["a b d e"]) > 0
    assert str(find_metric(f"{metric}(measure=f)", "text").name) == f"{metric}(measure=f)"


def test_what_parlai_does_not_name_must_be_said():
    """Of summaries by lines the field disagrees, and ParlAI has none: the error lists the choices."""
    with pytest.raises(MetricNameError, match=r"needs measure=.*rouge_lsum\(measure=r\)"):
        get_metric("rouge_lsum", Text())


def test_nothing_to_share():
    """Empty texts and texts without an ASCII letter or digit score 0."""
    assert value("rouge_l(measure=f)", ["", "ü", "a"], ["", "ü", ""]) == 0
