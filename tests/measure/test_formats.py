from __future__ import annotations

import io
import pickle
import tracemalloc
import zipfile
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from hpometrics.measure.formats import open_source
from hpometrics.measure.source import PredictionsError, missing_column


def columns(path, texts=(), numbers=()):
    """All rows of some columns."""
    chunks = list(open_source(path).chunks(texts, numbers))
    return {name: [cell for chunk in chunks for cell in chunk[name].tolist()] for name in (*texts, *numbers)}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.csv", '\ufeffname,size\n"a, b",1\nNA,2.5\n'),
        ("x.tsv", "name\tsize\na, b\t1\nNA\t2.5\n"),
        ("x.jsonl", '{"name": "a, b", "size": 1}\n\n{"name": "NA", "size": 2.5}\n'),
    ],
)
def test_text_stays_text_and_numbers_are_float(name, text, tmp_path):
    """What a cell looks like decides nothing: the reader says what it wants."""
    (tmp_path / name).write_text(text, encoding="utf8")
    assert open_source(tmp_path / name).columns == ("name", "size")
    assert columns(tmp_path / name, ["name"], ["size"]) == {"name": ["a, b", "NA"], "size": [1.0, 2.5]}


def test_numbers_can_be_read_as_text(tmp_path):
    """A label 01 is not the number 1."""
    (tmp_path / "x.csv").write_text("label\n01\n1\n")
    assert columns(tmp_path / "x.csv", ["label"]) == {"label": ["01", "1"]}


def test_types_change_within_a_file(tmp_path):
    """Whole numbers first, fractions later, in blocks of their own."""
    (tmp_path / "x.csv").write_text("value\n" + "1\n" * 9 + "0.5\n")
    assert columns(tmp_path / "x.csv", numbers=["value"])["value"] == [1.0] * 9 + [0.5]


def test_an_empty_number_is_nan(tmp_path):
    """In each format that has empty cells."""
    (tmp_path / "x.csv").write_text("a,b\n1,\n")
    (tmp_path / "x.jsonl").write_text('{"a": 1, "b": null}\n')
    parquet.write_table(pa.table({"a": [1], "b": pa.array([None], pa.float64())}), tmp_path / "x.parquet")
    for name in ("x.csv", "x.jsonl", "x.parquet"):
        assert np.isnan(columns(tmp_path / name, numbers=["b"])["b"])


def test_a_parquet_column_of_other_things_is_refused(tmp_path):
    """Text where numbers are wanted names its type."""
    parquet.write_table(pa.table({"a": ["x"]}), tmp_path / "x.parquet")
    with pytest.raises(PredictionsError, match="column 'a' of type string holds what are no numbers"):
        columns(tmp_path / "x.parquet", numbers=["a"])


def test_a_parquet_column_of_times_is_refused(tmp_path):
    """A time counted in microseconds would be measured as if it were the number that was meant."""
    times = pa.array([datetime(2020, 1, 1)], pa.timestamp("us"))
    parquet.write_table(pa.table({"a": times}), tmp_path / "x.parquet")
    with pytest.raises(
        PredictionsError, match=r"column 'a' of type timestamp\[us\] holds what are no numbers"
    ):
        columns(tmp_path / "x.parquet", numbers=["a"])


def test_a_blank_line_is_no_row(tmp_path):
    """It is skipped when rows are read, and so it is when the line of a row is looked for."""
    (tmp_path / "x.csv").write_text("a,b\n1,2\n\n\n3,4\n")
    assert columns(tmp_path / "x.csv", numbers=["b"])["b"] == [2.0, 4.0]
    assert open_source(tmp_path / "x.csv").place(1) == f"{tmp_path / 'x.csv'}:5"


def test_arrays_of_other_lengths_are_refused(tmp_path):
    """An archive is a table, too."""
    np.savez(tmp_path / "x.npz", target=[1, 2], logits=[1.0])
    with pytest.raises(PredictionsError, match="different numbers of rows: target 2, logits 1"):
        columns(tmp_path / "x.npz", numbers=["target", "logits"])
    np.savez(tmp_path / "y.npz", target=["a"])
    with pytest.raises(PredictionsError, match="array 'target' of <U1 holds what are no numbers"):
        columns(tmp_path / "y.npz", numbers=["target"])


def test_pickled_objects_are_never_loaded(tmp_path):
    """They could run code; the array is named, and nothing advises to trust it."""
    np.savez(tmp_path / "x.npz", logits=[1.0], target=np.array([{}], dtype=object))
    with pytest.raises(PredictionsError, match="'target' is no array of plain numbers or texts") as told:
        open_source(tmp_path / "x.npz")
    assert "allow_pickle" not in str(told.value)


def test_what_is_no_archive_is_said_to_be_none(tmp_path):
    """A single array, a pickle, nothing, an archive cut short, one of another kind, one with a wrong sum."""
    path = tmp_path / "x.npz"
    np.savez(path, target=np.arange(100))
    whole = path.read_bytes()
    single = io.BytesIO()
    np.save(single, np.ones(3))
    for content in (single.getvalue(), pickle.dumps({}), b"", whole[:60]):
        path.write_bytes(content)
        with pytest.raises(PredictionsError, match="is no npz archive"):
            open_source(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "text")
    with pytest.raises(PredictionsError, match="is no array of plain"):
        open_source(path)
    path.write_bytes(whole[:200] + b"!!!!" + whole[204:])
    with pytest.raises(PredictionsError, match="is damaged"):
        open_source(path)


def test_a_missing_column_lists_those_there_are(tmp_path):
    """And suggests the near one."""
    (tmp_path / "x.csv").write_text("target,probabilty\n")
    told = str(missing_column(open_source(tmp_path / "x.csv"), "probability", "--metrics"))
    assert "no column 'probability' (--metrics). Did you mean 'probabilty'?" in told
    assert told.endswith("Its columns are target, probabilty")
    (tmp_path / "y.csv").write_text("y_true,Y_pred,label_of_page\n")
    found = open_source(tmp_path / "y.csv")
    assert "If 'y_true' is that, call it 'target'. Its" in str(missing_column(found, "target"))
    assert "If 'Y_pred' is that, call it 'prediction'." in str(missing_column(found, "prediction"))
    assert "If" not in str(missing_column(found, "probability"))


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_memory_does_not_grow_with_the_file(suffix, tmp_path, monkeypatch):
    """A file is read in chunks: four times the rows take no more memory of Python and NumPy."""
    monkeypatch.setattr("hpometrics.measure.text_files._BLOCK", 1 << 16)
    monkeypatch.setattr("hpometrics.measure.text_files.ROWS", 1 << 9)
    row = "0.123456789,0.5\n" if suffix == ".csv" else '{"a": 0.123456789, "b": 0.5}\n'
    peaks = []
    for rows in (100, 10_000, 40_000):  # the first one pays for what is loaded
        path = tmp_path / f"{rows}{suffix}"
        path.write_text(("a,b\n" if suffix == ".csv" else "") + row * rows)
        tracemalloc.start()
        assert sum(len(chunk["a"]) for chunk in open_source(path).chunks((), ["a", "b"])) == rows
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.5 * peaks[1]
