from __future__ import annotations

import builtins
import json
import math
import pickle
import threading

import pytest
from sample_evaluations import DOCUMENTED, RMSE, Accuracy, Classification, Guess, Precision, guesses

from hpometrics import MAXIMIZE, MINIMIZE, Category
from hpometrics.evaluation import (
    AverageMetric,
    EngineParams,
    EvaluationInstance,
    MetricEvaluator,
    OptionAverageMetric,
    ZeroMetric,
)
from hpometrics.exceptions import (
    DirectionError,
    EngineError,
    EngineParamsError,
    MetricNameError,
    NoFiniteValueError,
)

DOCUMENT = """\
Iteration 0
EngineParams: {"dataSourceParams":{"":{"appId":19,"evalK":5}},"preparatorParams":{"":{}},\
"algorithmParamsList":[{"naive":{"lambda":10.0}}],"servingParams":{"":{}}}
Result: MetricScores(0.8846153846153846,List())
Iteration 1
EngineParams: {"dataSourceParams":{"":{"appId":19,"evalK":5}},"preparatorParams":{"":{}},\
"algorithmParamsList":[{"naive":{"lambda":100.0}}],"servingParams":{"":{}}}
Result: MetricScores(0.7936507936507936,List())
Iteration 2
EngineParams: {"dataSourceParams":{"":{"appId":19,"evalK":5}},"preparatorParams":{"":{}},\
"algorithmParamsList":[{"naive":{"lambda":1000.0}}],"servingParams":{"":{}}}
Result: MetricScores(0.37593984962406013,List())
Updating evaluation instance with result: MetricEvaluatorResult:
  # engine params evaluated: 3
Optimal Engine Params:
  {
  "dataSourceParams":{
    "":{
      "appId":19,
      "evalK":5
    }
  },
  "preparatorParams":{
    "":{
~~~~~~
    }
  },
  "algorithmParamsList":[
    {
      "naive":{
        "lambda":10.0
      }
    }
  ],
  "servingParams":{
    "":{
~~~~~~
    }
  }
}
Metrics:
  org.template.classification.Precision: 0.8846153846153846
""".replace("~", " ")


class DocumentedPrecision(Precision):
    """Under the name that the documents print."""

    header = "org.template.classification.Precision"


def silent(line):
    """Hear nothing."""


class Guessed(OptionAverageMetric):
    """The guess itself, to be as large as can be; None is a don't-care."""

    direction = MAXIMIZE

    def calculate(self, query, predicted, actual):
        return predicted


def evaluated(metric, params, **facts):
    """The result of a silent evaluation of guesses."""
    return MetricEvaluator(metric, tell=silent, **facts).evaluate(Guess(), params)


def test_the_documents_run_line_by_line(capsys):
    """Precisions 23/26, 50/63 and 50/133 over five folds with don't-cares; lambda 10 is the optimum."""
    result = MetricEvaluator(DocumentedPrecision(1.0)).evaluate(Classification(), DOCUMENTED)
    printed = capsys.readouterr().out.splitlines()
    ours = [
        line for line in printed if not line.startswith(("Starting evaluation instance ID: ", "Stages: "))
    ]
    assert ours == DOCUMENT.splitlines()
    assert len(printed) == len(ours) + 2
    assert [scores.score for _, scores in result.engine_params_scores] == [23 / 26, 50 / 63, 50 / 133]
    assert result.best_engine_params is DOCUMENTED[0] or result.best_engine_params == DOCUMENTED[0]


def test_the_same_with_and_without_the_cache():
    """What is shared is carried out once, and gives the same scores."""
    lines = {True: [], False: []}
    for cache, heard in lines.items():
        MetricEvaluator(Precision(1.0), cache=cache, tell=heard.append).evaluate(Classification(), DOCUMENTED)
    counted = {
        cache: next(line for line in heard if line.startswith("Stages: ")) for cache, heard in lines.items()
    }
    assert "data_source 1/3" in counted[True] and "data_source 3/3" in counted[False]
    results = [[line for line in heard if line.startswith("Result: ")] for heard in lines.values()]
    assert results[0] == results[1]


def test_other_metrics_stand_beside():
    """They are printed in their order and do not decide."""
    heard = []
    evaluator = MetricEvaluator(Precision(1.0), [Accuracy(), ZeroMetric()], tell=heard.append)
    result = evaluator.evaluate(Classification(), DOCUMENTED)
    assert heard[3] == f"Result: MetricScores({23 / 26},List({110 / 140}, 0.0))"
    assert str(result).splitlines()[-3:] == [
        f"  Precision (label=1.0): {23 / 26}",
        f"  Accuracy: {110 / 140}",
        "  ZeroMetric: 0.0",
    ]
    assert (result.best_index, result.best_scores.other_scores) == (0, (110 / 140, 0.0))


def test_metrics_of_the_registry_by_name():
    """Any name decides or stands beside; labels 0.0 and 1.0 are classes."""
    evaluator = MetricEvaluator(
        "precision(class=1)", ["accuracy", Precision(1.0)], output=Category(2), tell=silent
    )
    result = evaluator.evaluate(Classification(), DOCUMENTED)
    scores = [scores.score for _, scores in result.engine_params_scores]
    assert scores == pytest.approx([23 / 26, 50 / 63, 50 / 133], rel=1e-15)
    assert result.other_metric_headers == ("accuracy", "Precision (label=1.0)")
    assert result.best_scores.other_scores == pytest.approx((110 / 140, 23 / 26), rel=1e-15)


def test_minimizing_picks_the_best_not_the_worst():
    """Of guesses for 1, 2, 3 and 10 the mean, 4, is nearest; scores are not negated."""
    result = evaluated(RMSE(), guesses(0.0, 9.0, 4.0, 2.0))
    assert (result.best_index, result.best_score, result.direction) == (2, math.sqrt(12.5), MINIMIZE)


def test_the_earliest_of_equal_scores_wins():
    """.2, .3, .3, -.2 gives index 1."""
    assert evaluated(Guessed(), guesses(0.2, 0.3, 0.3, -0.2)).best_index == 1
    assert evaluated(ZeroMetric(), guesses(0.2, 0.3)).best_index == 0


@pytest.mark.parametrize("direction", [MAXIMIZE, MINIMIZE])
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, None])
def test_what_is_not_finite_never_wins(direction, odd):
    """Neither nan nor infinity nor a score of don't-cares alone, wherever it stands."""
    metric = type("Either", (Guessed,), {"direction": direction})()
    for params in (guesses(odd, 5.0), guesses(5.0, odd)):
        result = evaluated(metric, params)
        assert result.best_score == 5.0
    assert str(result).splitlines()[1] == "  # engine params evaluated: 2 (1 ok, 1 undefined)"


def test_one_of_five_that_crashes_leaves_four():
    """The exception is kept by type, text and traceback; the best is one of the others."""
    heard = []
    evaluator = MetricEvaluator(Guessed(), [RMSE()], tell=heard.append)
    result = evaluator.evaluate(Guess(), guesses(1.0, "crash", 3.0, 2.0, 0.0))
    scores = [scores for _, scores in result.engine_params_scores]
    assert [one.state for one in scores] == ["ok", "failed", "ok", "ok", "ok"]
    assert (result.best_index, scores[1].failure.type, scores[1].failure.text) == (
        2,
        "ValueError",
        "the guess crashed",
    )
    assert "in train" in scores[1].failure.traceback
    assert "Result: failed: ValueError: the guess crashed" in heard
    assert str(result).splitlines()[1] == "  # engine params evaluated: 5 (4 ok, 1 failed)"


def test_a_metric_that_fails_fails_its_engine_params():
    """A text cannot be squared; the other engine params have their scores."""
    result = evaluated(RMSE(), guesses("a text", 4.0))
    assert (result.best_index, result.engine_params_scores[0][1].failure.type) == (1, "TypeError")


def test_another_metric_that_fails_costs_nobody_a_score():
    """It is undefined with the error as the reason, one of the registry in the same pass too."""
    result = evaluated(Guessed(), guesses(4.0), other_metrics=[Precision(1.0), "rmse"], output="number")
    assert result.best_score == 4.0

    class Broken(AverageMetric):
        direction = None

        def calculate(self, query, predicted, actual):
            raise LookupError("no such key")

    beside = evaluated("rmse", guesses(4.0), other_metrics=[Broken, "loss"], output="number").best_scores
    assert beside.score == math.sqrt(12.5)
    assert beside.others[0].reason == "LookupError: no such key"
    assert "loss" in beside.others[1].reason


def test_no_finite_score_fails_by_name(tmp_path):
    """The metric and every reason, with whose it is; what was measured stays recorded."""
    evaluator = MetricEvaluator(Guessed(), tell=silent, directory=tmp_path)
    with pytest.raises(NoFiniteValueError) as caught:
        evaluator.evaluate(Guess(), guesses(None, "crash", None))
    assert str(caught.value) == (
        "Guessed: no engine params has a finite score to maximize, out of 3 (2 undefined, 1 failed): all 4 "
        "tuples are don't-cares (engine params 0, 2); ValueError: the guess crashed (engine params 1)"
    )
    instance = EvaluationInstance.read(tmp_path)
    assert instance.status == "EVALFAILED" and instance.reason.startswith("NoFiniteValueError: Guessed")
    assert len(instance.results["engineParamsScores"]) == 3
    assert not (tmp_path / "best.json").exists()


def test_an_interrupt_passes_on_with_what_is_done_recorded(tmp_path):
    """It is no failure of one candidate: the list does not go on."""
    evaluator = MetricEvaluator(Guessed(), tell=silent, directory=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        evaluator.evaluate(Guess(), guesses(1.0, 2.0, "stop", 3.0))
    instance = EvaluationInstance.read(tmp_path)
    assert (instance.status, instance.reason) == (
        "EVALFAILED",
        "KeyboardInterrupt; 2 engine params were evaluated",
    )
    assert [one["_2"]["score"] for one in instance.results["engineParamsScores"]] == [1.0, 2.0]


def test_best_json_is_an_engine_variant(tmp_path):
    """In PredictionIO's layout, and read back it is the best of the list."""
    heard = []
    evaluator = MetricEvaluator(Precision(1.0), directory=tmp_path / "new", tell=heard.append)
    result = evaluator.evaluate(Classification(), DOCUMENTED)
    told = json.loads((tmp_path / "new" / "best.json").read_text())
    assert list(told) == [
        "id",
        "description",
        "engineFactory",
        "datasource",
        "preparator",
        "algorithms",
        "serving",
        "evaluation",
    ]
    assert told["engineFactory"] == "sample_evaluations:Classification"
    assert told["algorithms"] == [{"name": "naive", "params": {"lambda": 10.0}}]
    assert EngineParams.from_json(told) == result.best_engine_params
    assert heard[-1].endswith("The best variant params are in best.json")


def test_the_directory_holds_the_results_in_every_form(tmp_path):
    """Text, strict JSON, a page, and the record of the evaluation, completed."""
    result = evaluated(Guessed(), guesses(1.0, math.nan), directory=tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    forms = {f"evaluator_results.{form}" for form in ("txt", "json", "html")}
    assert names == {"best.json", "instance.json", *forms}
    assert (tmp_path / "evaluator_results.txt").read_text() == f"{result}\n"
    assert json.loads((tmp_path / "evaluator_results.json").read_text()) == result.to_json()
    assert (tmp_path / "evaluator_results.html").read_text() == f"{result.to_html()}\n"
    instance = EvaluationInstance.read(tmp_path)
    assert (instance.status, instance.evaluation_class) == ("EVALCOMPLETED", "sample_evaluations:Guess")
    assert instance.results["oneLiner"] == "Best Params Index: 0 Score: 1.0"


def test_what_cannot_be_written_is_refused_before_anything_runs(tmp_path):
    """A set has no form in JSON; without a directory it is evaluated."""
    params = [*guesses(1.0), EngineParams(algorithms={"guess": 2.0, "also": {1, 2}})]
    heard = []
    with pytest.raises(EngineParamsError, match=r"engine params 1 cannot be written to best\.json"):
        MetricEvaluator(Guessed(), directory=tmp_path, tell=heard.append).evaluate(Guess(), params)
    assert len(heard) == 1 and EvaluationInstance.read(tmp_path).status == "EVALFAILED"
    assert evaluated(Guessed(), params).best_index == 1


class Undirected(AverageMetric):
    def calculate(self, query, predicted, actual):
        return 1.0


class Aimless(Undirected):
    direction = None


def test_a_direction_is_stated():
    """There is no default; a metric without one may stand beside, if it says so."""
    with pytest.raises(DirectionError, match=r"Undirected states no direction; set direction = MAXIMIZE or"):
        MetricEvaluator(Undirected())
    with pytest.raises(DirectionError, match="Undirected states no direction"):
        MetricEvaluator(Guessed(), [Undirected])
    with pytest.raises(DirectionError, match="Aimless states direction = None"):
        MetricEvaluator(Aimless())
    assert MetricEvaluator(Guessed(), [Aimless]).panel.others == (Aimless(),)
    assert MetricEvaluator(type("Words", (Undirected,), {"direction": "min"})).panel.direction is MINIMIZE


@pytest.mark.parametrize("word", ["direction", "objective"])
def test_a_direction_may_be_stated_as_an_objective(word):
    """By the class or by the object, whose word is the last; two words of one class must agree."""
    cls = type("Stated", (Aimless,), {word: "min"})
    assert MetricEvaluator(cls()).panel.direction is MINIMIZE
    metric = type("Child", (cls,), {"direction": MAXIMIZE, "objective": "max"})()
    assert MetricEvaluator(metric).panel.direction is MAXIMIZE
    setattr(metric, word, MINIMIZE)
    assert MetricEvaluator(metric).panel.direction is MINIMIZE
    torn = type("Torn", (cls,), {"direction": MAXIMIZE, "objective": None})
    with pytest.raises(DirectionError, match="Torn: direction says maximize, but objective says None"):
        MetricEvaluator(torn())
    assert Guessed().objective is Guessed().direction


def test_names_are_told_apart():
    """Two different metrics with one header, and a name without what the engine predicts, are refused."""
    namesake = type("Namesake", (Accuracy,), {"title": "Accuracy"})
    with pytest.raises(MetricNameError, match="two different metrics are named 'Accuracy'"):
        MetricEvaluator(Precision(1.0), [Accuracy(), namesake])
    with pytest.raises(MetricNameError, match=r"'accuracy' comes from the registry.*; set output="):
        MetricEvaluator(Guessed(), ["accuracy"])


def test_the_same_metric_twice_is_one():
    """A group of metrics may hold the one that is optimized."""
    panel = MetricEvaluator("f1(average=macro)", ["default", "accuracy"], output=Category(2)).panel
    headers = [metric.header for metric in panel.all]
    assert headers[:2] == ["f1(average=macro)", "accuracy"] and len(set(headers)) == len(headers)
    assert MetricEvaluator(Precision(1.0), [Precision(1.0)]).panel.others == ()


def test_an_empty_list_is_refused(tmp_path):
    """And recorded as failed."""
    with pytest.raises(EngineParamsError, match="empty"):
        evaluated(Guessed(), [], directory=tmp_path)
    assert EvaluationInstance.read(tmp_path).status == "EVALFAILED"


def test_workers_change_nothing_but_the_time():
    """Lines and results keep the order of the list; what is shared is carried out once all the same."""
    heard = {1: [], 4: []}
    for workers, lines in heard.items():
        evaluator = MetricEvaluator(Precision(1.0), workers=workers, tell=lines.append)
        evaluator.evaluate(Classification, DOCUMENTED * 3)
    assert heard[1][1:] == heard[4][1:]
    with pytest.raises(KeyboardInterrupt):
        MetricEvaluator(Guessed(), workers=2, tell=silent).evaluate(Guess(), guesses(1.0, "stop", 3.0))


def test_workers_evaluate_at_the_same_time():
    """Two engine params that wait for each other both get through."""
    barrier = threading.Barrier(2)

    class Waiting(Guess):
        def train(self, prepared, name, params):
            barrier.wait(timeout=60)
            return params["guess"]

    result = MetricEvaluator(Guessed(), workers=2, tell=silent).evaluate(Waiting(), guesses(1.0, 2.0))
    assert [scores.state for _, scores in result.engine_params_scores] == ["ok", "ok"]


@pytest.mark.parametrize("workers", [0, True, 1.5])
def test_workers_are_counted(workers):
    """At least one, and whole."""
    with pytest.raises(EngineError, match="workers must be the number of"):
        MetricEvaluator(Guessed(), workers=workers)


def test_an_evaluator_is_pickled_where_print_was_replaced(monkeypatch, capsys):
    """A library's own `print`, as Ray sets one, is no attribute of a module by which it could be found."""
    monkeypatch.setattr(builtins, "print", lambda *words, old=print: old("patched", *words))
    evaluator = pickle.loads(pickle.dumps(MetricEvaluator(Accuracy())))
    evaluator.evaluate(Classification(), DOCUMENTED[:1])
    assert "patched Iteration 0" in capsys.readouterr().out
