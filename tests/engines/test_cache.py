"""Each stage once per distinct prefix; the scores are those without a cache."""

from __future__ import annotations

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from hpometrics import Engine, EngineParams
from hpometrics.engines.cache import PrefixCache, StageCount
from hpometrics.exceptions import EngineError, EngineParamsError


class Steps(Engine):
    """Adds up what its stages are given, and counts their folds; each stage spoils what it was given."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def read_eval(self, params):
        self.calls["read_eval"] += 1
        for fold in range(2):
            pairs = [([float(query)], [query % 2]) for query in range(3)]
            yield np.full(2, float(params.get("start", 0) + fold)), {"fold": fold}, pairs

    def prepare(self, training, params):
        self.calls["prepare"] += 1
        training += 10 * params.get("add", 0)
        return {"data": training, "seen": []}

    def train(self, prepared, name, params):
        self.calls["train"] += 1
        prepared["seen"].append(name)
        prepared["data"] += 100 * params.pop("add", 0)
        return prepared["data"].sum() + 1000 * len(prepared["seen"])

    def predict(self, model, queries):
        predictions = [[model + query.pop()] for query in queries]
        queries.clear()
        return predictions

    def serve(self, query, predictions, params):
        served = sum(prediction.pop() for prediction in predictions) * params.get("times", 1) + query[0]
        query[0] = -1.0
        return served


def grid(sources=3, preparators=4, algorithms=5, servings=3) -> list[EngineParams]:
    """All combinations, the serving varying fastest."""
    return [
        EngineParams({"start": a}, {"add": b}, [("one", {"add": c})], {"times": d})
        for a in range(sources)
        for b in range(preparators)
        for c in range(algorithms)
        for d in range(servings)
    ]


def seen(engine: Engine, candidates: list[EngineParams], **how: Any) -> list[Any]:
    """What each candidate is served, from one cache."""
    cache = PrefixCache(engine, candidates, **how)
    return [cache.folds(params) for params in candidates]


def test_a_grid_takes_as_many_stages_as_it_has_prefixes():
    """3 data sources, 12 preparators of them, 60 algorithms, 180 servings: 255 stages instead of 720."""
    engine, candidates = Steps(), grid()
    cache = PrefixCache(engine, candidates, seed=None)
    for params in candidates:
        cache.folds(params)
    assert cache.counts == {
        "data_source": StageCount(3, 180),
        "preparator": StageCount(12, 180),
        "algorithms": StageCount(60, 180),
        "serving": StageCount(180, 180),
    }
    assert engine.calls == {"read_eval": 3, "prepare": 2 * 12, "train": 2 * 60}
    assert str(cache).startswith("255 of 720 stages run (data_source 3/180, preparator 12/180")
    assert len(cache) == 0


def test_without_the_cache_every_stage_is_carried_out_for_every_candidate():
    """The same way, nothing kept."""
    engine, candidates = Steps(), grid(2, 2, 2, 2)
    cache = PrefixCache(engine, candidates, cache=False)
    for params in candidates:
        cache.folds(params)
    assert set(cache.counts.values()) == {StageCount(16, 16)}
    assert engine.calls == {"read_eval": 16, "prepare": 32, "train": 32}


STAGES = st.tuples(
    st.integers(0, 1),
    st.integers(0, 1),
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([0, False, 0.0, 1])), min_size=1, max_size=3),
    st.integers(1, 2),
)


def candidate(source, preparator, algorithms, serving) -> EngineParams:
    """Engine params of a drawn row."""
    stages = [(name, {"add": add}) for name, add in algorithms]
    return EngineParams({"start": source}, {"add": preparator}, stages, {"times": serving})


@settings(max_examples=50)
@given(st.lists(STAGES, min_size=1, max_size=8), st.booleans())
def test_the_results_are_those_without_a_cache(rows, known):
    """Whatever is shared, repeated or known beforehand, and though every stage spoils what it is given."""
    candidates = [candidate(*row) for row in rows]
    plain = seen(Steps(), candidates, cache=False, seed=None)
    cache = PrefixCache(Steps(), candidates if known else None, keep=1, seed=None)
    assert [cache.folds(params) for params in candidates] == plain


@settings(max_examples=15)
@given(st.permutations(range(24)))
def test_the_order_of_the_candidates_does_not_matter(order):
    """Neither for what they are served nor for what is carried out."""
    candidates = grid(2, 2, 3, 2)
    plain = seen(Steps(), candidates, cache=False, seed=None)
    cache = PrefixCache(Steps(), candidates, seed=None)
    found = {place: cache.folds(candidates[place]) for place in order}
    assert [found[place] for place in range(24)] == plain
    assert [count.executed for count in cache.counts.values()] == [2, 4, 12, 24]
    assert len(cache) == 0


def test_algorithms_are_shared_one_by_one():
    """[a], [a, b] and [b, a, a] train a and b once each."""
    engine = Steps()
    stages = {"a": ("a", {"add": 1}), "b": ("b", {"add": 2})}
    candidates = [EngineParams(algorithms=[stages[name] for name in names]) for names in ("a", "ab", "baa")]
    cache = PrefixCache(engine, candidates)
    assert [cache.folds(params) for params in candidates] == seen(Steps(), candidates, cache=False)
    assert cache.counts["algorithms"] == StageCount(2, 6)
    assert engine.calls["train"] == 2 * 2


def test_types_part_what_python_calls_equal():
    """1, 1.0 and True are three algorithms."""
    candidates = [EngineParams(algorithms={"add": add}) for add in (1, 1.0, True, 1)]
    cache = PrefixCache(Steps(), candidates)
    for params in candidates:
        cache.folds(params)
    assert cache.counts["algorithms"] == StageCount(3, 4)


def test_an_output_goes_when_no_candidate_needs_it_any_more():
    """Of one data source at a time something is kept, however long the list."""
    most = {}
    for sources in (2, 6):
        candidates = grid(sources, 2, 2, 2)
        cache = PrefixCache(Steps(), candidates)
        kept = []
        for params in candidates:
            cache.folds(params)
            kept.append(len(cache))
        most[sources] = max(kept)
        assert kept[7::8] == [0] * sources
    assert most[2] == most[6] == 3


def test_a_prepared_fold_goes_when_all_algorithms_are_trained():
    """The second serving needs the predictions and the queries, not the data they were trained on."""
    candidates = [EngineParams({}, {"add": 1}, {"add": 2}, {"times": times}) for times in (1, 2)]
    cache = PrefixCache(Steps(), candidates)
    cache.folds(candidates[0])
    assert len(cache) == 2  # the folds and the predictions


def test_a_duplicate_is_served_once_and_on_its_own():
    """Two equal candidates are one computation; what one does to its results the other does not see."""
    candidates = [EngineParams(algorithms={"add": 1})] * 2
    cache = PrefixCache(Steps(), candidates)
    first = cache.folds(candidates[0])
    kept = [list(fold.results) for fold in first]
    first[0].results.clear()
    assert [fold.results for fold in cache.folds(candidates[1])] == kept
    assert cache.counts["serving"] == StageCount(1, 2)


def test_a_candidate_asked_for_once_more_is_evaluated_again():
    """Nobody said that it would be: nothing was kept for it, and nothing is."""
    candidates = grid(1, 1, 2, 1)
    cache = PrefixCache(Steps(), candidates)
    found = [cache.folds(params) for params in candidates]
    assert cache.folds(candidates[0]) == found[0]
    assert len(cache) == 0


def test_a_search_keeps_what_was_asked_for_last():
    """One output per stage: going back to the first preparator carries it out again."""
    cache = PrefixCache(Steps(), keep=1)
    for add in (1, 1, 2, 1):
        cache.folds(EngineParams(preparator={"add": add}))
    assert [count.executed for count in cache.counts.values()] == [1, 3, 3, 3]
    assert len(cache) == 4
    cache = PrefixCache(Steps(), keep=2)
    for trial, add in enumerate((1, 2, 1, 3, 1, 2)):
        cache.folds(EngineParams(preparator={"add": add}, algorithms={"add": trial}))
    assert cache.counts["preparator"].executed == 4  # 1, 2, 3, which takes the place of 2, and 2


def test_threads_share_what_they_ask_for():
    """Eight candidates at a time, and every stage as often as in turn."""
    candidates = grid(1, 2, 4, 1)
    plain = seen(Steps(), candidates, cache=False)
    cache = PrefixCache(Steps(), candidates)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(cache.folds, candidates))
    assert found == plain
    assert [count.executed for count in cache.counts.values()] == [1, 2, 8, 8]
    assert len(cache) == 0


class Failing(Steps):
    """Reading fails the first time and works then."""

    def read_eval(self, params):
        self.calls["tried"] += 1
        if self.calls["tried"] == 1:
            raise OSError("the disk is gone")
        yield from super().read_eval(params)


def test_a_stage_that_failed_is_tried_again_by_who_asks_next():
    """A failure is not kept: the second candidate reads what the first could not."""
    candidates = grid(1, 1, 4, 1)
    cache = PrefixCache(Failing(), candidates)
    with pytest.raises(OSError, match="the disk is gone"):
        cache.folds(candidates[0])
    assert [cache.folds(params) for params in candidates[1:]] == seen(Steps(), candidates, cache=False)[1:]
    assert cache.counts["data_source"] == StageCount(2, 4)
    assert cache.counts["algorithms"] == StageCount(3, 4)  # what is never reached is not carried out
    assert len(cache) == 0


def test_the_failure_of_one_candidate_leaves_the_others_their_stages():
    """What only the failing one needed goes; what the others need is still there, and tried for the next."""

    class Picky(Steps):
        def train(self, prepared, name, params):
            if params["add"] == 1:
                raise ValueError("no solution for 1")
            return super().train(prepared, name, params)

    candidates = grid(1, 2, 3, 2)
    cache = PrefixCache(Picky(), candidates)
    failed = 0
    for params in candidates:
        if params.algorithms[0].params["add"] == 1:
            with pytest.raises(ValueError, match="no solution for 1"):
                cache.folds(params)
            failed += 1
        else:
            assert len(cache.folds(params)) == 2
    assert failed == 4
    assert [count.executed for count in cache.counts.values()] == [1, 2, 4 + 4, 12 - failed]
    assert len(cache) == 0


class Drawing(Steps):
    """Every stage draws from the global streams of random numbers."""

    def read_eval(self, params):
        yield np.random.rand(2), None, [([random.random()], [0])]

    def train(self, prepared, name, params):
        return torch.rand(()).item() + float(np.random.rand()) + float(prepared["data"].sum())


def test_what_a_stage_draws_does_not_depend_on_the_stages_before_it():
    """With the cache fewer numbers are drawn, in another order: each stage starts from the seed."""
    candidates = [params.with_values({"serving.times": 1}) for params in grid(2, 2, 2, 1)]
    plain = seen(Drawing(), candidates, cache=False)
    assert seen(Drawing(), candidates) == plain
    assert seen(Drawing(), candidates[::-1])[::-1] == plain
    assert seen(Drawing(), candidates, seed=1) != plain


def test_without_a_seed_the_random_streams_are_left_alone():
    """What was seeded before goes on."""
    random.seed(5)
    expected = random.random()
    random.seed(5)
    PrefixCache(Steps(), seed=None).folds(EngineParams())
    assert random.random() == expected


class Sharing(Engine):
    """Trusts its stages with the arrays themselves."""

    shares = ("data_source", "preparator")

    def __init__(self, spoils: bool) -> None:
        self.spoils = spoils
        self.data = np.arange(4.0)
        self.received: list[Any] = []

    def read_eval(self, params):
        return [((self.data, [self.data]), None, [(1, 1)])]

    def train(self, prepared, name, params):
        self.received.append(prepared)
        if self.spoils:
            prepared[1][0][0] = 9
        return 0

    def predict(self, model, queries):
        return [model for _ in queries]


def test_what_is_shared_is_handed_out_as_it_is_and_read_only():
    """No copy is made; an array cannot be written to, and the candidate that tries fails by name."""
    engine = Sharing(spoils=False)
    for params in grid(1, 1, 2, 1):
        PrefixCache(engine).folds(params)
    assert all(np.shares_memory(received[1][0], engine.data) for received in engine.received)
    with pytest.raises(ValueError, match="read-only"):
        PrefixCache(Sharing(spoils=True)).folds(EngineParams())


def test_what_cannot_be_copied_is_refused_by_its_stage():
    """A lock among the prepared data has no copy; it may be shared."""

    class Locked(Steps):
        def train(self, prepared, name, params):
            return prepared["data"].sum()

        def prepare(self, training, params):
            return {**super().prepare(training, params), "lock": threading.Lock()}

    with pytest.raises(
        EngineError, match=r"the output of preparator cannot be copied .*shares = \('preparator',\)"
    ):
        PrefixCache(Locked()).folds(EngineParams())
    Locked.shares = ("preparator",)
    assert len(PrefixCache(Locked()).folds(EngineParams())) == 2


def test_params_without_a_structure_are_refused_by_their_place_in_the_list():
    """Before anything is carried out; without the cache they are as good as any."""
    candidates = [EngineParams(), EngineParams(algorithms={"add": 0, "link": lambda x: x})]
    with pytest.raises(EngineParamsError, match=r"entry 1 of the list .*: algorithms\[0\].params.link: "):
        PrefixCache(Steps(), candidates)
    assert len(PrefixCache(Steps(), candidates, cache=False).folds(candidates[1])) == 2


def test_what_makes_no_sense_is_refused():
    """A cache that keeps nothing, and a stage that nobody knows."""
    with pytest.raises(EngineError, match="at least 1; got 0"):
        PrefixCache(Steps(), keep=0)
    engine = Steps()
    engine.shares = "data_source"
    with pytest.raises(EngineError, match="shares must name stages"):
        PrefixCache(engine)
