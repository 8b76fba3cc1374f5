from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from sample_evaluations import Guess, guesses

from hpometrics import MAXIMIZE, EngineParams
from hpometrics.engines.result import differences
from hpometrics.evaluation import AverageMetric, MetricEvaluator

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Guessed(AverageMetric):
    """The guess itself."""

    direction = MAXIMIZE
    title = "Guess <b> & more"

    def calculate(self, query, predicted, actual):
        return predicted


class Actual(AverageMetric):
    """The mean of the answers, which differs by fold."""

    direction = None

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
    assert undefined["measured"][0]["reason"] == "calculate returned nan for 4 of 4 tuples"
    assert (failed["state"], failed["failure"]["text"]) == ("failed", "the guess crashed")


def test_folds_stand_beside_the_pooled_score(result):
    """The folds' means are 2 and 10: the pooled mean is 4, that of the folds 6, their deviation sqrt(32)."""
    measured = result.to_json()["bestScore"]["measured"][1]
    assert (measured["value"], measured["folds"], measured["foldMean"]) == (4.0, [2.0, 10.0], 6.0)
    assert measured["foldDeviation"] == pytest.approx(math.sqrt(32))


def test_a_page_shows_the_table(result):
    """Four decimals, a star at the best, the spread over folds, the reason where there is no score."""
    page = Page(result.to_html())
    assert page.cells[:5] == ["Index", "Best", "Guess <b> & more", "Actual", "Engine params"]
    assert page.cells[10:14] == ["1", "*", "2.00002.0000 ± 0.0000", "4.00006.0000 ± 5.6569"]
    assert page.cells[17] == "undefinedcalculate returned nan for 4 of 4 tuples"
    assert page.cells[20:23] == ["3", "", "failed: ValueError: the guess crashed"]


def test_what_differs_is_said_and_a_click_shows_the_rest(result):
    """A line of what is not the same in all engine params, opened without a script."""
    page = Page(result.to_html())
    assert page.tags.count("details") == page.tags.count("summary") == 4
    assert page.cells[14].startswith('algorithms(guess=2.0){\n  "dataSourceParams":{')
    assert '"guess":2.0' in page.cells[14]


def test_a_page_needs_nothing_and_escapes_everything(result):
    """It loads nothing from elsewhere, and a name of the user's is never a tag."""
    page = Page(result.to_html())
    assert page.loaded == [] and not {"script", "b", "i", "img"} & set(page.tags)
    assert page.cells[-1].startswith('<i>(guess="crash"){') and '"<i>":{' in page.cells[-1]
    assert "ValueError: the guess crashed" in page.cells[-1]


PROBE = """
<iframe id="page" src="page.html" width="390" height="800"></iframe>
<script>
document.getElementById("page").onload = ({target}) => {
  const page = target.contentDocument, rows = [...page.querySelectorAll("tbody tr")];
  rows[1].querySelector("summary").click();
  document.body.textContent = JSON.stringify({
    rows: rows.length,
    wider: page.documentElement.scrollWidth > page.documentElement.clientWidth,
    colors: new Set(rows.map(row => getComputedStyle(row.cells[0]).backgroundColor)).size,
    best: rows[1].querySelector("pre").checkVisibility(),
    other: rows[0].querySelector("pre").checkVisibility(),
    loaded: target.contentWindow.performance.getEntriesByType("resource").length,
  });
};
</script>
"""


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
def test_a_browser_shows_the_page_on_a_phone(result, tmp_path):
    """No wider than the phone, the best row in a color of its own, params at a click, nothing loaded."""
    (tmp_path / "page.html").write_text(result.to_html())
    (tmp_path / "probe.html").write_text(PROBE)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    url = (tmp_path / "probe.html").as_uri()
    ran = subprocess.run(
        [
            CHROMIUM,
            *flags,
            f"--user-data-dir={tmp_path}/profile",
            "--virtual-time-budget=5000",
            "--dump-dom",
            url,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    told = json.loads(re.search(r"\{.*\}", ran.stdout)[0])
    assert told == {"rows": 4, "wider": False, "colors": 2, "best": True, "other": False, "loaded": 0}


def test_only_what_differs_is_said():
    """Stages by their names; several algorithms joined."""
    found = differences(
        [
            EngineParams({"folds": 3}, ("words", {"n": 1}), [("a", {"x": 0.1})]),
            EngineParams({"folds": 3}, ("words", {"n": 2}), [("a", {"x": 0.1}), ("b", {})]),
        ]
    )
    assert found == ["words(n=1), a(x=0.1)", "words(n=2), a(x=0.1) + b()"]


def test_where_nothing_differs_all_is_said():
    """Stages without params and name say nothing."""
    assert (
        differences([EngineParams({"folds": 3}, algorithms=("a", {}))] * 2)
        == ["data_source(folds=3), a()"] * 2
    )
    assert differences([EngineParams()]) == [""]


def test_any_value_is_said():
    """As JSON where it has one."""
    params = [EngineParams(algorithms={"of": value}) for value in ([1, "é"], {"k": None}, int)]
    assert differences(params) == [
        'algorithms(of=[1, "é"])',
        'algorithms(of={"k": null})',
        "algorithms(of=\"<class 'int'>\")",
    ]
