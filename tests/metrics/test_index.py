from __future__ import annotations

import json
import subprocess
import sys

import pytest

from hpometrics.metrics.registry import INDEX, all_entries, build_index, find_metric

WITHOUT_TORCH = """
import sys
from hpometrics.metrics.registry import all_entries, find_metric, metric_names
assert find_metric("f1_macro", "category").objective == "maximize"
assert len(all_entries()) > 40 and "roc_auc" in metric_names("binary")
print(sorted({"torch", "torchmetrics", "ray", "optuna", "numpy"} & set(sys.modules)))
"""


def test_the_index_is_what_the_classes_say():
    """`index.json` is generated: after a change, write `build_index()` to it."""
    assert INDEX.read_text(encoding="utf8") == build_index()


def test_the_registry_is_read_without_torch():
    """Names, directions and aliases of the built-in metrics cost one JSON file, counted in a new process."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.parametrize("row", json.loads(INDEX.read_text(encoding="utf8")), ids=lambda row: row["name"])
def test_a_row_reads_back_as_its_entry(row):
    """What is read from the file equals the entry that the class makes, its class included."""
    entry = next(e for e in all_entries(row["feature_type"]) if e.name == row["name"])
    assert entry.load().__module__ == row["path"].partition(":")[0]
    named = {p["name"]: p["choices"][0] if p["choices"] else 2 for p in row["params"] if p["required"]}
    spelled = ", ".join(f"{key}={value}" for key, value in named.items())
    assert find_metric(f"{row['name']}({spelled})", row["feature_type"]).entries == (entry,)
