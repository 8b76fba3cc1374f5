from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from operator import attrgetter

import pytest
from matrix import covering, entries, failures, traits

from docs._generate.evidence import FAILED, observe
from docs._generate.index import build_index
from hpometrics.metrics.registry import index
from hpometrics.metrics.registry.index import INDEX, Observed, observed_of
from hpometrics.metrics.registry.lookup import find_metric

is_built_in = attrgetter("is_built_in")
BUILT_IN = list(filter(is_built_in, entries()))
WITHOUT_TORCH = """
import sys
from hpometrics.metrics.registry.index import all_entries, metric_names
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.groups import expand
assert find_metric("f1_macro", "category").direction == "maximize"
assert len(all_entries()) > 40 and "roc_auc" in metric_names("binary")
assert "mae" in map(str, expand(["all"], "number"))
print(sorted({"torch", "torchmetrics", "ray", "optuna", "numpy"} & set(sys.modules)))
"""


def test_the_index_is_what_the_classes_say():
    """`index.json` is generated: after a change, run `make index`."""
    built = build_index(see=lambda entry: observed_of(entry) or Observed())
    assert json.loads(built) == json.loads(INDEX.read_text(encoding="utf8"))


@pytest.mark.parametrize("entry", covering(BUILT_IN, traits, ids=str))
def test_the_index_is_what_is_seen(entry):
    """A metric is tried again, and nothing is new but the last digits, which may be the machine's."""
    seen, again = observed_of(entry), observe(entry)
    assert replace(seen, values=()) == replace(again, values=())
    for one, other in zip(seen.values, again.values, strict=True):
        assert one == other or math.isclose(one, other, rel_tol=0.02)


def test_every_direction_has_its_evidence(entries):
    """The values by experiment go the declared way, or a reason says why there are none."""

    def check(entry):
        seen = observed_of(entry)
        assert not seen.reason.startswith(FAILED), seen.reason
        assert bool(seen.values) != bool(seen.reason)
        if seen.values and entry.direction is not None and None not in seen.values:
            perfect, _, noisy = seen.values
            assert entry.direction.better(perfect, noisy) or perfect == noisy

    assert failures(filter(is_built_in, entries), check) == []


def test_an_entry_is_made_when_it_is_asked_for(monkeypatch):
    """A lookup makes those of its metric, not all; none is made twice."""
    made, read = [], index._read_row
    monkeypatch.setattr(index, "_read_row", lambda row, of: made.append((row["name"], of)) or read(row, of))
    entries = index._Entries(json.loads(INDEX.read_text(encoding="utf8")))
    assert entries["mae", "number"] is entries["mae", "number"]
    assert ("mae", "text") not in entries and entries.get(("mae", "text")) is None
    assert made == [("mae", "number")]
    assert dict(entries) == dict(index.index())


def test_the_registry_is_read_without_torch():
    """Names, directions, aliases and groups of built-in metrics cost one JSON file, seen in a new process."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_an_entry_is_found_by_its_example(entries):
    """What is read from the file is what the class makes, and its example is a name that can be used."""

    def check(entry):
        assert entry.load().__module__ == entry.path.partition(":")[0]
        assert entry in find_metric(entry.example, entry.feature_type).entries

    assert failures(filter(is_built_in, entries), check) == []


def test_the_texts_of_a_page_are_those_of_its_class():
    """An installed package has them there alone: its index leaves them out."""
    bare = dict.fromkeys(("docs", "raises", "deviates", "source", "shape", "formula", "value"), "")
    lacking = [str(entry) for entry in BUILT_IN if replace(entry, **bare).documented() != entry]
    assert lacking == []
