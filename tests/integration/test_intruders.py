"""Whatever stands in the place of a file of a run directory, readers and runs end, and show nothing else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest
from intruders import EACH, ON_LINUX, SECRET, bounded, put
from reading_commands import HOME, READERS, assert_refused, call
from sample_sweeps import SWEEP

from hpometrics.backends.optuna.storage import foreign_part

EVERY_READER: dict[str, list[str]] = {
    **READERS,
    "best by a metric that was kept": ["best", HOME, "--metric", "mcc"],
    "compare": ["compare", HOME, "0", "1"],
    "audit": ["audit", HOME],
    "replay": ["replay", HOME, "--trial", "0"],
}
EVERY_FILE: dict[str, tuple[str, ...]] = {
    "sweep.resolved.yaml": tuple(name for name in EVERY_READER if name not in ("epochs", "audit")),
    "trials": tuple(name for name in EVERY_READER if name != "audit"),
    "trials/0000": tuple(name for name in EVERY_READER if name != "audit"),
    "trials/0000/trial.json": tuple(name for name in EVERY_READER if name != "audit"),
    "trials/0000/epochs.jsonl": tuple(name for name in EVERY_READER if name != "audit"),
    "trials/0000/statistics.jsonl": ("best by a metric that was kept",),
    "trials/0000/per_user.csv": ("compare",),
    "trials/0000/per_user.npz": ("compare",),
    "verdict.json": ("best",),
    "study.db": ("audit",),
    "study.db-wal": ("audit",),
    "best.json": (),
    "sweep.yaml": (),
}
"""What a reader may meet in a run directory, and which readers must refuse it there by its name."""
PLACES = [
    pytest.param(file, *intruder.values, marks=intruder.marks, id=f"{file}-{intruder.values[0]}")
    for file in EVERY_FILE
    for intruder in EACH
    if (file, intruder.values[0]) not in product(("trials", "trials/0000"), ["a directory"])
]


@ON_LINUX
@pytest.mark.parametrize(("file", "intruder"), PLACES)
def test_a_reader_reads_bounded_amounts_of_regular_files(file, intruder, folder, swept):
    """It ends, with what it found or with one line that names the file, and shows nothing of the user's."""
    swept(SWEEP)
    put(intruder, Path(HOME) / file, folder / "elsewhere")
    for name, arguments in EVERY_READER.items():
        with bounded():
            result = call(*arguments)
        assert result.exception is None or isinstance(result.exception, SystemExit), (name, result.exception)
        assert SECRET not in result.output and "Traceback" not in result.output, name
        if name in EVERY_FILE[file] and not _is_left_out(file, intruder):
            assert result.exit_code == 2, (name, result.output)
            assert f"{file}: is " in result.stderr or f"{file}: has " in result.stderr, (name, result.stderr)


def _is_left_out(file: str, intruder: str) -> bool:
    """Whether a directory of trials that is none counts as one that is not there."""
    return file in ("trials", "trials/0000") and not intruder.startswith("a link")


@ON_LINUX
@pytest.mark.parametrize("intruder", EACH)
@pytest.mark.parametrize(
    "file", ["sweep.resolved.yaml", "study.db", "study.db-wal", ".finished", "trials/0000/trial.json",
             "trials/0000/epochs.jsonl", "trials/0000/statistics.jsonl"],
)  # fmt: skip
def test_a_run_goes_on_beside_what_is_no_file(file, intruder, folder, swept, sweep):
    """It refuses a link; anything else is put aside, or left, and the budget stays exact."""
    swept(SWEEP)
    put(intruder, Path(HOME) / file, folder / "elsewhere")
    with bounded(60):
        result = sweep(SWEEP)
    if intruder.startswith("a link"):
        return assert_refused(result, f"{Path(HOME) / file}: is a symbolic link to ")
    assert result.exit_code == 0, (result.output, result.exception)
    assert "# engine params evaluated: 4 " in result.stdout


ENDLESS = (
    "WITH RECURSIVE endless(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM endless) "
    "SELECT n AS trial_id, n AS number, 1 AS study_id, 'COMPLETE' AS state, NULL AS datetime_start, "
    "NULL AS datetime_complete FROM endless"
)
COMPUTING = {
    "a view": ("view trials", f"DROP TABLE trials; CREATE VIEW trials AS {ENDLESS};"),
    "a trigger": (
        "trigger t",
        "CREATE TRIGGER t AFTER INSERT ON trials BEGIN DELETE FROM studies; END;",
    ),
    "a constraint": (
        "constraint of trials",
        "PRAGMA writable_schema=ON; UPDATE sqlite_master SET sql = replace(sql, 'PRIMARY KEY (trial_id)', "
        "'PRIMARY KEY (trial_id), CHECK (trial_id + length(hex(zeroblob(900000000))) > 0)') "
        "WHERE name = 'trials';",
    ),
    "an index": ("index large", "CREATE INDEX large ON trials (length(zeroblob(trial_id)));"),
    "a computed column": (
        "computed column studies.large",
        "ALTER TABLE studies ADD COLUMN large TEXT AS (printf('%900000000d', 1));",
    ),
}


@ON_LINUX
@pytest.mark.parametrize("what", COMPUTING)
def test_a_study_that_computes_is_no_study(what, folder, swept, sweep):
    """Its file could have whoever reads it work for ever: readers refuse it, a run makes it again."""
    swept(SWEEP)
    name, script = COMPUTING[what]
    with closing(sqlite3.connect(Path(HOME) / "study.db")) as connection:
        connection.execute("CREATE VIEW mine AS SELECT 1")
        assert foreign_part(connection) is None
        connection.executescript(script)
    with bounded(60):
        assert_refused(call("audit", HOME), f"it has the {name}, which Optuna never creates")
        assert_refused(call("worker", HOME), f"study.db: has the {name}, which Optuna never creates")
        result = sweep(SWEEP)
    assert result.exit_code == 0, result.output
    assert "study.db was damaged, made again" in result.stderr
    assert "# engine params evaluated: 4 " in result.stdout
