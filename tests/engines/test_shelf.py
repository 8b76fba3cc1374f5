"""One thread makes an output, the others wait for it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from hpometrics import EngineParams
from hpometrics.engines.cache import Prefix, Prefixes, SingleFlight

PREFIX = Prefix("data_source", "key")
THREADS = 4


class Counting:
    """Keeps everything, and knows when all threads have asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.all_asked = threading.Event()

    def request(self, prefix: Prefix) -> None:
        self.asked += 1
        if self.asked == THREADS:
            self.all_asked.set()

    def add(self, prefix: Prefix) -> list[Prefix]:
        return []

    def finish(self, prefixes: Prefixes) -> list[Prefix]:
        return []


class Maker:
    """Ends once all threads have asked, the first time in an error if it is to."""

    def __init__(self, policy: Counting, error: BaseException | None = None) -> None:
        self.policy, self.error = policy, error
        self.made = 0

    def __call__(self) -> object:
        self.made += 1
        assert self.policy.all_asked.wait(timeout=60)
        if self.made == 1 and self.error is not None:
            raise self.error
        return object()


def test_all_who_ask_get_what_one_makes():
    """Four threads, one output: it is the same object."""
    policy = Counting()
    store, make = SingleFlight(policy), Maker(policy)
    with ThreadPoolExecutor(THREADS) as pool:
        outputs = {id(one) for one in pool.map(lambda _: store.get(PREFIX, make), range(THREADS))}
    assert (len(outputs), make.made, len(store)) == (1, 1, 1)


@pytest.mark.parametrize("error", [OSError("gone"), KeyboardInterrupt()], ids=repr)
def test_all_who_wait_see_the_failure_and_the_next_tries_again(error):
    """Four threads see one error; nothing is saved of it."""
    policy = Counting()
    store, make = SingleFlight(policy), Maker(policy, error)
    with ThreadPoolExecutor(THREADS) as pool:
        waiting = [pool.submit(store.get, PREFIX, make) for _ in range(THREADS)]
    assert [one.exception() for one in waiting] == [error] * THREADS
    assert (make.made, len(store)) == (1, 0)
    assert store.get(PREFIX, make) is store.get(PREFIX, make)
    assert make.made == 2


def test_others_are_made_meanwhile():
    """Making one output does not keep the store from returning another."""
    store = SingleFlight(Counting())
    other = Prefix("data_source", "another")
    assert store.get(PREFIX, lambda: store.get(other, lambda: "made inside")) == "made inside"


def test_prefixes_share_what_leads_to_them():
    """Another serving shares all but the last output; another data source nothing."""
    base = EngineParams({"a": 1}, {"b": 1}, [("x", {}), ("y", {})], {"c": 1})
    of = Prefixes.of
    serving, source = of(base.copy(serving={"c": 2})), of(base.copy(data_source={"a": True}))
    assert of(base)[:3] == serving[:3]
    assert set(of(base).all()) & set(serving.all()) == set(of(base).all()) - {of(base).serving}
    assert not set(of(base).all()) & set(source.all())
