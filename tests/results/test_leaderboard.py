from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from pathlib import Path

from sample_sweeps import changed, plan_of

from hpometrics._formatting import duration, number
from hpometrics.config.document import parse_document
from hpometrics.config.yaml_text import format_exact
from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState
from hpometrics.results.export import best_facts, best_yaml, trials_csv
from hpometrics.results.leaderboard import optimal_block, result_table
from hpometrics.results.manifest import resolve
from hpometrics.selection.selection import best_by

RESOLVED = resolve(plan_of(changed("output: binary", "params: {batch: 64}")))


def record(trial: int, values: list[float], state: TrialState = TrialState.COMPLETE, **facts) -> TrialRecord:
    """A trial whose last epoch is the picked one."""
    epochs = tuple(EpochRecord(i, {"roc_auc": v, "accuracy": v - 0.1}) for i, v in enumerate(values))
    params = {"batch": 64, "depth": 1, "lr": 0.00123456789, "width": 8}
    picked = (values[-1], len(values) - 1) if values else (None, None)
    return TrialRecord(trial, params, state, *picked, epochs, seconds=30.0, seed=1, **facts)


RECORDS = [
    record(0, [0.6, 0.7]),
    record(1, [0.6, 0.912734567], checkpoint=Path("/runs/sweep/trials/0001/checkpoints/epoch-0001.pt")),
    record(2, [0.5], TrialState.PRUNED),
    record(3, [], TrialState.FAILED, reason="ValueError: no"),
]
BEST = best_by(RECORDS, RESOLVED.optimized)


def test_the_result_table():
    """Best first, those that are not complete below, an arrow where a metric goes."""
    assert result_table(RECORDS, RESOLVED, rows=3) == (
        " rank  trial  roc_auc ^  accuracy ^  epochs       lr  depth  width   state\n"
        " -------------------------------------------------------------------------\n"
        "    1      1   0.912735    0.812735       2  0.00123      1      8      ok\n"
        "    2      0   0.700000    0.600000       2  0.00123      1      8      ok\n"
        "    -      2   0.500000    0.400000       1  0.00123      1      8  pruned\n"
        " ... 1 more in trials.csv"
    )


def test_the_result_table_of_a_terminal():
    """Params are left out first, those of the best are in the block below; then the marks, once."""
    assert result_table(RECORDS, RESOLVED, rows=1, width=64) == (
        " rank  trial  roc_auc ^  accuracy ^  epochs       lr  state\n"
        " ----------------------------------------------------------\n"
        "    1      1   0.912735    0.812735       2  0.00123     ok\n"
        " ... 3 more in trials.csv\n"
        " omitted at a width of 64 columns: depth, width; trials.csv has\n"
        " them\n"
        " ^ higher is better, v lower is better"
    )


def test_a_curve_is_printed_by_its_shape():
    """In the table, the block below it, the line of a trial and the files; the numbers are in the record."""
    resolved = resolve(plan_of(changed("output: binary", "output: binary").replace("accuracy", "roc_curve")))
    epoch = EpochRecord(0, {"roc_auc": 0.5, "roc_curve": [[0.0, 1.0, 1.0]] * 3})
    params = {"batch": 64, "depth": 1, "lr": 0.1, "width": 8}
    one = TrialRecord(0, params, TrialState.COMPLETE, 0.5, 0, (epoch,))
    best = best_by([one], resolved.optimized)
    assert "  0.500000      3 x 3       1" in result_table([one], resolved)
    assert "\n  roc_curve: 3 x 3" in optimal_block(best, [one], resolved)
    assert next(csv.DictReader(io.StringIO(trials_csv([one], resolved))))["values.roc_curve"] == "3 x 3"
    assert best_facts(best, one, resolved, Path("/runs"))["values"] == {"roc_auc": 0.5, "roc_curve": "3 x 3"}


def test_the_optimal_engine_params():
    """Params to the last digit with what set them, values with their directions."""
    assert optimal_block(BEST, RECORDS, RESOLVED) == (
        "# engine params evaluated: 4  (ok 2, pruned 1, failed 1)  2m00s of training\n"
        "Optimal Engine Params: (trial 1, epoch 1):\n"
        "  lr: 0.00123456789\n"
        "  depth: 1   # size=small\n"
        "  width: 8   # size=small\n"
        "  batch: 64  # fixed\n"
        "Metrics:\n"
        "  roc_auc: 0.912735   (maximize)\n"
        "  accuracy: 0.812735  (maximize)"
    )


def test_a_value_that_all_trials_share_is_marked():
    """Of one trial there is nothing to tell apart, and a nan is no value."""
    trials = [
        TrialRecord(
            number,
            RECORDS[0].params,
            TrialState.COMPLETE,
            0.7 + number / 10,
            0,
            (EpochRecord(0, {"roc_auc": 0.7 + number / 10, "accuracy": 1.0}),),
        )
        for number in range(3)
    ]
    best = best_by(trials, RESOLVED.optimized)
    whole = optimal_block(best, trials, RESOLVED)
    assert whole.endswith("accuracy: 1   (maximize)  (the same in each trial)")
    assert optimal_block(best, trials[1:], RESOLVED).endswith("(maximize)  (the same in both trials)")
    assert optimal_block(best, trials[2:], RESOLVED).endswith("accuracy: 1   (maximize)")
    unmeasured = [replace(one, epochs=(EpochRecord(0, {"roc_auc": one.value}),)) for one in trials]
    best = best_by(unmeasured, RESOLVED.optimized)
    assert optimal_block(best, unmeasured, RESOLVED).endswith("accuracy: -   (maximize)")


def test_best_yaml_is_what_the_engine_takes():
    """The params exactly, and where they come from; the checkpoint is found from the directory."""
    text = best_yaml(best_facts(BEST, RECORDS[1], RESOLVED, Path("/runs/sweep")))
    told = parse_document(text, "best.yaml").data
    assert told["params"] == RECORDS[1].params
    assert (told["metric"], told["objective"], told["value"]) == ("roc_auc", "maximize", 0.912734567)
    assert (told["trial"], told["epoch"], told["seed"]) == (1, 1, 1)
    assert told["checkpoint"] == "trials/0001/checkpoints/epoch-0001.pt"


def test_the_csv_holds_every_trial():
    """A line each; text that a spreadsheet would run is quoted; a nan is told as one."""
    odd = TrialRecord(4, {"name": "=1+1", "flag": True, "list": [1]}, TrialState.FAILED, value=math.nan)
    rows = list(csv.DictReader(io.StringIO(trials_csv([*RECORDS, odd], RESOLVED))))
    assert [row["trial"] for row in rows] == ["0", "1", "2", "3", "4"]
    assert (rows[1]["values.roc_auc"], rows[1]["params.lr"]) == ("0.912734567", "0.00123456789")
    assert (rows[3]["state"], rows[3]["reason"], rows[3]["value"]) == ("failed", "ValueError: no", "")
    assert (rows[4]["params.name"], rows[4]["params.flag"], rows[4]["params.list"]) == (
        "'=1+1",
        "true",
        "[1]",
    )


def test_numbers_and_times_are_short():
    """Six digits, two units."""
    assert [number(v) for v in (0.1, 1234567.0, math.nan, None)] == ["0.1", "1.23457e+06", "-", "-"]
    assert [duration(s) for s in (0.04, 59.94, 61, 3661, 90000)] == [
        "0.0s",
        "59.9s",
        "1m01s",
        "1h01m",
        "25h00m",
    ]


def test_params_are_printed_as_yaml_reads_them():
    """Text that reads as something else is quoted, and control characters are escaped."""
    values = [1e-05, True, None, "sgd", "1e-5", "no: way", "a\x1b[31mb", [1, "a"]]
    assert [format_exact(v) for v in values] == [
        "1e-05", "true", "null", "sgd", '"1e-5"', '"no: way"', '"a\\u001b[31mb"', '[1, "a"]',
    ]  # fmt: skip
