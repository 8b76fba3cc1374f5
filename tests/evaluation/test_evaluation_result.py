from __future__ import annotations

import json
import math
from html.parser import HTMLParser

import pytest
from sample_evaluations import Guess, guesses

from hpometrics import MAXIMIZE, EngineParams
from hpometrics.evaluation import AverageMetric, MetricEvaluator


class Guessed(AverageMetric):
    """The guess itself."""

    objective = MAXIMIZE
    title = "Guess <b> & more"

    def calculate(self, query, predicted, actual):
        return predicted


class Actual(AverageMetric):
    """The mean of the answers, which differs by fold."""

    objective = None

    def calculate(self, query, predicted, actual):
        return actual


class Page(HTMLParser):
    """The texts of a page by cell, and whatever it would load from elsewhere."""

    def __init__(self, page):
        super().__init__()
        self.cells, self.loaded, self.tags = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loaded += [value for name, value in attrs if name in ("src", "href")]
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data):
        if self.cells:
            self.cells[-1] += data.strip()


@pytest.fixture(scope="module")
def result():
    """Four engine params: a good one, the best, one undefined and one that crashed."""
    params = [*guesses(0.5, 2.0, math.nan), EngineParams(algorithms=[("<i>", {"guess": "crash"})])]
    return MetricEvaluator(Guessed(), [Actual()], tell=lambda line: None).evaluate(Guess(), params)


def test_one_line(result):
    """PredictionIO's words."""
    assert result.one_liner() == "Best Params Index: 1 Score: 2.0"


def test_json_has_predictionios_layout(result):
    """Strict JSON, in which nan is null and says why."""
    told = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert told["bestIdx"] == 1 and told["bestScore"]["score"] == 2.0
    assert (told["metricHeader"], told["otherMetricHeaders"]) == ("Guess <b> & more", ["Actual"])
    assert told["bestEngineParams"] == told["engineParamsScores"][1]["_1"]
    undefined, failed = (one["_2"] for one in told["engineParamsScores"][2:])
    assert undefined["score"] is None
    assert undefined["measured"][0]["reason"] == "calculate gave nan for 4 of 4 tuples"
    assert (failed["state"], failed["failure"]["text"]) == ("failed", "the guess crashed")


def test_folds_stand_beside_the_pooled_score(result):
    """The folds' means are 2 and 10: the pooled mean is 4, that of the folds 6, their deviation sqrt(32)."""
    measured = result.to_json()["bestScore"]["measured"][1]
    assert (measured["value"], measured["folds"], measured["foldMean"]) == (4.0, [2.0, 10.0], 6.0)
    assert measured["foldDeviation"] == pytest.approx(math.sqrt(32))


def test_a_page_shows_the_table(result):
    """Four decimals, a star at the best, the spread over folds, the reason where there is no score."""
    page = Page(result.to_html())
    assert page.cells[:4] == ["Index", "Best", "Guess <b> & more", "Actual"]
    assert page.cells[8][0] == "1" and page.cells[9] == "*"
    assert page.cells[10:12] == ["2.00002.0000 ± 0.0000", "4.00006.0000 ± 5.6569"]
    assert page.cells[14].startswith("undefinedcalculate gave nan for 4 of 4 tuples")
    assert page.cells[-1] == "failed: ValueError: the guess crashed"


def test_a_click_shows_the_params(result):
    """Each index opens on its engine params, without a script."""
    page = Page(result.to_html())
    assert page.tags.count("details") == page.tags.count("summary") == 4
    assert '"guess":2.0' in page.cells[8]


def test_a_page_needs_nothing_and_escapes_everything(result):
    """It loads nothing from elsewhere, and a name of the user's is never a tag."""
    page = Page(result.to_html())
    assert page.loaded == [] and not {"script", "b", "i", "img"} & set(page.tags)
    assert '"<i>":{' in page.cells[-3]
