from __future__ import annotations

import math
import pickle
import threading
from collections import Counter

import optuna
import pytest
from sample_evaluations import DOCUMENTED, Accuracy, Classification, Guess, Precision, PrecisionAtK, guesses

from hpometrics import MAXIMIZE, MINIMIZE, Category, Choice, Float, Int, ListObjective, OptunaObjective
from hpometrics.engines.registered_metrics import value_names
from hpometrics.evaluation import (
    AverageMetric,
    Engine,
    EngineParams,
    Evaluation,
    Fold,
    MetricEvaluator,
    OptionAverageMetric,
    registered,
)
from hpometrics.exceptions import DirectionError, EngineError, EngineParamsError, MetricNameError, RunError
from hpometrics.records.trial_record import TrialState

LAMBDA = "algorithms.naive.lambda"
BASE = DOCUMENTED[0]
LAMBDAS = [{LAMBDA: value} for value in (10.0, 100.0, 1000.0)]


def silent(line):
    """Hear nothing."""


class Distance(AverageMetric):
    """How far the guess is from the answer; of texts there is none."""

    direction = MINIMIZE

    def calculate(self, query, predicted, actual):
        return abs(predicted - actual)


class Large(OptionAverageMetric):
    """The share of large answers among those that the guess reaches."""

    direction = MAXIMIZE

    def calculate(self, query, predicted, actual):
        return actual > 2 if predicted >= actual else None


def by_list(evaluation, base, params):
    """The records of a list of params and their best."""
    objective = ListObjective(evaluation.vary(base), params)
    records = objective.run()
    return records, objective.best(records)


def by_optuna(evaluation, base, params, space):
    """The same points enqueued in a study."""
    objective = OptunaObjective(evaluation.vary(base), space)
    study = objective.create_study()
    for point in params:
        study.enqueue_trial(point)
    study.optimize(objective, n_trials=len(params))
    return objective.records(study), objective.best(study)


def by_grid(evaluation, base, space):
    """All points of a grid, in its sampler's order."""
    objective = OptunaObjective(evaluation.vary(base), space)
    study = objective.create_study(sampler="random")
    study.sampler = optuna.samplers.GridSampler({name: space[name].options for name in space}, seed=0)
    study.optimize(objective)
    return objective.records(study), objective.best(study)


@pytest.mark.parametrize("cache", [True, False])
def test_evaluator_list_and_optuna_find_the_same(cache):
    """To the last digit: scores of all metrics, their folds, the best; with the cache and without it."""
    evaluator = MetricEvaluator(Precision(1.0), [Accuracy()], tell=silent, cache=cache)

    class Judged(Evaluation):
        engine_evaluator = (Classification(), evaluator)

    result = Judged().evaluate([BASE.with_values(values) for values in LAMBDAS])
    wanted = {params.values[LAMBDA]: scores for params, scores in result.engine_params_scores}
    space = {LAMBDA: Choice([10.0, 100.0, 1000.0])}
    for records, best in (
        by_list(Judged(), BASE, LAMBDAS),
        by_optuna(Judged(), BASE, LAMBDAS, space),
        by_grid(Judged(), BASE, space),
    ):
        for record in records:
            primary, other = wanted[record.params[LAMBDA]].all
            assert record.value == primary.value
            assert dict(record.picked_values) == {
                "Precision(label=1.0)": primary.value,
                "Precision(folds=mean, label=1.0)": primary.mean,
                "Precision(folds=deviation, label=1.0)": primary.deviation,
                "Accuracy": other.value,
                "Accuracy(folds=mean)": other.mean,
                "Accuracy(folds=deviation)": other.deviation,
            }
        assert (best.metric, best.direction, best.value) == ("Precision(label=1.0)", MAXIMIZE, 23 / 26)
        assert BASE.with_values(best.params) == result.best_engine_params


def test_a_minimized_metric_says_so():
    """The study takes the direction from it, and another one is refused."""
    objective = OptunaObjective(
        Evaluation(Guess(), Distance()).vary(guesses(0.0)[0]), {"algorithms.guess": Float(0, 5)}
    )
    assert objective.direction is MINIMIZE
    assert objective.create_study().direction is optuna.study.StudyDirection.MINIMIZE
    with pytest.raises(DirectionError, match="Distance must be minimized, but direction= is maximize"):
        objective.create_study(direction="maximize")


def test_registered_metrics_keep_their_names():
    """And what a name has no form for is printed into it."""
    evaluation = Evaluation(Classification(), "f1(average=macro)", ["accuracy"], output=Category(2))
    names = value_names(evaluation.evaluator.panel.all)
    assert list(map(str, names)) == ["f1(average=macro)", "accuracy"]
    [record], _ = by_list(evaluation, BASE, LAMBDAS[:1])
    assert record.value == record.picked_values["f1(average=macro)"]
    assert "accuracy(folds=mean)" in record.picked_values


class _Hidden(Accuracy):
    def __init__(self, of, scale):
        self.of, self.scale = of, scale


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (PrecisionAtK(k=10), "PrecisionAtK(k=10, threshold=4.0)"),
        (_Hidden(("a", 1), math.inf), "Hidden(of=\"('a', 1)\", scale=inf)"),
        (_Hidden(True, None), "Hidden(of=true, scale=None)"),
        (registered("accuracy", output=Category(2), title="flipped"), "flipped"),
        (registered("f1_macro", output=Category(2), title="a long title"), "f1(average=macro)"),
    ],
)
def test_the_name_of_a_value_prints_as_it_parses(metric, name):
    """Class and parameters, the registry's name, or a title that is a word."""
    assert [str(one) for one in value_names([metric])] == [name]


def test_two_metrics_of_one_name_are_refused():
    """Their values would be one."""
    one, other = (
        registered("accuracy", output=Category(2)),
        registered("accuracy", output=Category(2), target=int, title="of whole labels"),
    )
    with pytest.raises(MetricNameError, match="of whole labels: another metric is also recorded as accuracy"):
        Evaluation(Classification(), one, [other]).vary(BASE)


def test_failed_and_undefined_candidates_have_their_reasons():
    """What a stage raises fails the trial; a score that is not finite has no value; the rest go on."""
    params = [{"algorithms.guess": value} for value in ("crash", 0.0, 1.0, 10.0)]
    records, best = by_list(Evaluation(Guess(), Large(), [Distance()]), guesses(0.0)[0], params)
    assert [record.state for record in records] == [
        TrialState.FAILED, TrialState.FAILED, TrialState.COMPLETE, TrialState.COMPLETE,
    ]  # fmt: skip
    assert records[0].reason == "ValueError: the guess crashed"
    assert "Large: none of 1 epochs has a finite value: all 4 tuples are don't-cares" in records[1].reason
    assert records[1].epochs[0].values["Distance"] == 4.0
    undefined = records[2].epochs[0]
    assert math.isnan(undefined.values["Large(folds=mean)"])
    assert undefined.reasons["Large(folds=mean)"] == "all 1 tuples are don't-cares"
    assert (best.trial, best.value) == (3, 0.5)


def test_constraints_bound_what_is_recorded():
    """Registered names and metrics of tuples, their means and deviations over the folds too."""
    evaluation = Evaluation(Classification(), Accuracy(), [Precision(1.0), "accuracy"], output=Category(2))
    bounds = ["Precision(label=1.0) >= 0.8", "accuracy <= 0.9", "Accuracy(folds=deviation) <= 0.5"]
    objective = ListObjective(evaluation.vary(BASE), LAMBDAS, constraints=bounds)
    records = objective.run()
    infeasible = TrialState.INFEASIBLE
    assert [record.state for record in records] == [TrialState.COMPLETE, infeasible, infeasible]
    assert objective.best(records).params == LAMBDAS[0]


class Counted(Engine):
    """Four stages that count themselves."""

    def __init__(self):
        self.calls = Counter()
        self.lock = threading.Lock()

    def count(self, stage):
        with self.lock:
            self.calls[stage] += 1

    def read_eval(self, params):
        self.count("data_source")
        return [Fold(None, 0, [("a", 1.0), ("b", 3.0)]), Fold(None, 1, [("c", 5.0)])]

    def prepare(self, training, params):
        self.count("preparator")
        return params["scale"]

    def train(self, prepared, name, params):
        self.count("algorithms")
        return prepared * params["guess"]

    def predict(self, model, queries):
        return [model for _ in queries]

    def serve(self, query, predictions, params):
        return predictions[0] + params["shift"]


COUNTED = EngineParams({}, {"scale": 1.0}, {"guess": 1.0}, {"shift": 0.0})
SHIFTS = {"serving.shift": Float(-4, 4), "preparator.scale": Choice([1.0, 2.0])}


@pytest.mark.parametrize("jobs", [1, 3])
def test_shared_stages_are_carried_out_once_in_a_process(jobs):
    """Whatever the trials vary behind them and however many threads ask."""
    engine = Counted()
    objective = OptunaObjective(Evaluation(engine, Distance()).vary(COUNTED), SHIFTS)
    study = objective.create_study(sampler="random")
    study.optimize(objective, n_trials=12, n_jobs=jobs)
    scales = {trial.params["preparator.scale"] for trial in study.trials}
    assert all(trial.state is optuna.trial.TrialState.COMPLETE for trial in study.trials)
    assert engine.calls == {"data_source": 1, "preparator": 2 * len(scales), "algorithms": 2 * len(scales)}


def test_a_cache_changes_no_score():
    """Of a search too."""
    shifts = [{"serving.shift": shift, "preparator.scale": 2.0} for shift in (0.5, -1.0, 2.0)]
    values = []
    for cache in (True, False):
        engine = Counted()
        evaluator = MetricEvaluator(Distance(), cache=cache)

        class Judged(Evaluation):
            engine_evaluator = (engine, evaluator)

        records, _ = by_list(Judged(), COUNTED, shifts)
        values.append([dict(record.picked_values) for record in records])
        assert engine.calls["data_source"] == (1 if cache else 3)
    assert values[0] == values[1]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"algorithms.naive.lamda": Float(1, 2)}, r"no 'lamda' in .*; the values are at data_source.appId, "),
        ({"algorithm.naive.lambda": Float(1, 2)}, "no stage 'algorithm'; did you mean 'algorithms'"),
        ({"algorithms.tree.depth": Int(1, 2)}, r"there is no 'tree' in .*; the values are at"),
        ({"algorithms": Float(0, 1)}, "the name of a stage, use a choice of names"),
        ({"algorithms": Choice([1, 2])}, "a stage must be named by text"),
        ({"model": Choice({"a": {"algorithms.x": 1}, "b": {"algorithms.y": 1}})}, "there is no 'x'"),
    ],
)
def test_a_wrong_path_is_refused_before_the_first_trial(space, message):
    """With the paths there are, wherever a path comes from."""
    with pytest.raises(EngineParamsError, match=message):
        OptunaObjective(Evaluation(Classification(), Accuracy()).vary(BASE), space)


def test_a_list_is_checked_beforehand():
    """Nothing is evaluated if one of its entries leads nowhere."""
    with pytest.raises(EngineParamsError, match="there is no 'lamda'"):
        ListObjective(
            Evaluation(Classification(), Accuracy()).vary(BASE), [*LAMBDAS, {"algorithms.lamda": 1}]
        )


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (
            {"metric": "mae", "output": "number"},
            "evaluation optimizes Accuracy, but metric= names mae; leave metric=",
        ),
        ({"output": Category(2)}, "the evaluation measures Accuracy; leave output= and track= out"),
        ({"track": ["psnr"]}, "the evaluation measures Accuracy; leave output= and track= out"),
        (
            {"constraints": ["psnr <= 2"]},
            "measures Accuracy; .* set constraints on its metrics only, or add metrics to it",
        ),
    ],
)
def test_other_metrics_than_the_evaluations_are_refused(facts, message):
    """What is optimized and measured is said once."""
    varied = Evaluation(Classification(), Accuracy()).vary(BASE)
    with pytest.raises(RunError, match=message):
        OptunaObjective(varied, {LAMBDA: Float(1, 2)}, **facts)


class Adds:
    """An algorithm that is a class."""

    def __init__(self, params):
        self.by = params.get("by", 0.0)

    def train(self, prepared):
        return self.by

    def predict(self, model, queries):
        return [model for _ in queries]


class Doubles(Adds):
    """Another, with twice the effect."""

    def train(self, prepared):
        return 2 * self.by


class Named(Counted):
    """An engine that names its algorithms."""

    algorithms = {"adds": Adds, "doubles": Doubles}  # noqa: RUF012

    def prepare(self, training, params):
        return None

    def serve(self, query, predictions, params):
        return predictions[0]


NAMED = {
    "algorithms": Choice(["adds", "doubles"]),
    "algorithms.adds.by": Float(0, 4, when={"algorithms": "adds"}),
    "algorithms.doubles.by": Choice([1.0, 1.5], when={"algorithms": "doubles"}),
}


@pytest.mark.parametrize("base", [None, EngineParams(algorithms=("adds", {"by": 1.0}))])
def test_a_search_may_choose_an_algorithm_by_name(base):
    """With the params that the chosen one has, with a base or of values alone."""
    varied = Evaluation(Named(), Distance()).vary(base)
    objective = OptunaObjective(varied, NAMED)
    study = objective.create_study()
    for params in (
        {"algorithms": "adds", "algorithms.adds.by": 3.0},
        {"algorithms": "doubles", "algorithms.doubles.by": 1.0},
    ):
        study.enqueue_trial(params)
    study.optimize(objective, n_trials=2)
    assert [record.value for record in objective.records(study)] == [4 / 3, 5 / 3]
    best = varied.engine_params(objective.best(study).params)
    assert best == EngineParams(algorithms=("adds", {"by": 3.0}))


@pytest.mark.parametrize(
    "space", [{"algorithms": Choice(["adds", "trebles"])}, {"algorithms.trebles.by": Int(1, 2)}]
)
def test_a_name_that_the_engine_does_not_know_is_refused(space):
    """Before the first trial, with the names it knows."""
    with pytest.raises(EngineError, match=r"algorithms has no 'trebles'; there are 'adds', 'doubles'"):
        OptunaObjective(Evaluation(Named(), Distance()).vary(), space)


def test_the_best_is_written_as_best_json(tmp_path):
    """And reads back as the engine params of the best trial."""
    evaluation = Evaluation(Classification(), Precision(1.0))
    _, best = by_list(evaluation, BASE, LAMBDAS)
    path = evaluation.vary(BASE).write_best(best, tmp_path)
    assert path == tmp_path / "best.json"
    assert EngineParams.from_json(path.read_text()) == BASE


def test_the_cache_does_not_travel():
    """What arrives in a process again is one, with a cache of its own."""
    varied = Evaluation(Classification(), Accuracy()).vary(BASE)
    ListObjective(varied, LAMBDAS).run()
    sent = pickle.dumps(varied)
    one, other = pickle.loads(sent), pickle.loads(sent)
    assert one is other
    assert one.cache is not varied.cache
    assert (len(varied.cache) > 0, len(one.cache)) == (True, 0)


class Opaque:
    """An object with nothing but its identity."""


def test_a_base_without_a_structure_is_refused_at_once():
    """Nothing could be shared by it."""
    with pytest.raises(EngineParamsError, match=r"serving.params.how: a .*Opaque cannot be compared,"):
        Evaluation(Classification(), Accuracy()).vary(BASE.copy(serving={"how": Opaque()}))
