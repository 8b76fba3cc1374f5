"""Files of predictions in every format, and their values."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from hpometrics.scoring import measure_file

NAMES = ("accuracy", "f1_macro", "roc_auc", "log_loss")


def values(path, output="category", metrics=NAMES, **options):
    """The values of all rows by name."""
    return measure_file(path, output, metrics, **options).values["all"]


def write(path, columns: dict[str, list]):
    """Write columns in the format of the suffix."""
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writerow(columns)
            writer.writerows([["" if cell is None else cell for cell in row.values()] for row in rows])
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        parquet.write_table(pa.table(columns), path)
    else:
        np.savez(path, **{name: np.array(column) for name, column in columns.items()})
    return path
