from __future__ import annotations

import csv
import io
import json
import os
import pickle
import random
import tracemalloc
import zipfile
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from hpometrics.exceptions import HpometricsError
from hpometrics.scoring import measure_file
from hpometrics.scoring.columns import missing_column, read_roles
from hpometrics.scoring.files import Delimited, PredictionsError, open_table


def columns(path, texts=(), numbers=()):
    """All rows of some columns."""
    chunks = list(open_table(path).chunks(texts, numbers))
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
    assert open_table(tmp_path / name).columns == ("name", "size")
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
    """Text where numbers are wanted is shown with its row."""
    parquet.write_table(pa.table({"a": ["x"]}), tmp_path / "x.parquet")
    with pytest.raises(PredictionsError, match="row 1: column 'a' holds 'x', which is not a number"):
        columns(tmp_path / "x.parquet", numbers=["a"])


def test_a_parquet_column_of_times_is_refused(tmp_path):
    """A time counted in microseconds would be measured as if it were the number that was meant."""
    times = pa.array([datetime(2020, 1, 1)], pa.timestamp("us"))
    parquet.write_table(pa.table({"a": times}), tmp_path / "x.parquet")
    with pytest.raises(
        PredictionsError, match="row 1: column 'a' holds '2020-01-01 00:00:00', which is not a number"
    ):
        columns(tmp_path / "x.parquet", numbers=["a"])


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_labels_in_bytes_are_the_labels_in_text(suffix, tmp_path):
    """NumPy and Arrow have both: b"cat" is the label cat, no other one."""
    path = tmp_path / f"x.{suffix}"

    def save(target):
        columns = {"target": target, "prediction": np.array(["cat", "döe", "cat"])}
        if suffix == "npz":
            np.savez(path, **columns)
        else:
            parquet.write_table(pa.table({name: cells.tolist() for name, cells in columns.items()}), path)

    save(np.array(["cat", "döe", "döe"]))
    wanted = measure_file(path, "category", ["accuracy"])
    save(np.array([text.encode() for text in ("cat", "döe", "döe")]))
    measured = measure_file(path, "category", ["accuracy"])
    assert measured.labels == wanted.labels == ("cat", "döe")
    assert measured.values == wanted.values and round(measured.values["all"]["accuracy"], 4) == 0.6667
    save(np.array([b"cat", b"d\xf6e", b"cat"]))
    with pytest.raises(PredictionsError, match="column 'target' holds bytes that are not UTF-8; save it as"):
        measure_file(path, "category", ["accuracy"])


def test_a_blank_line_is_no_row(tmp_path):
    """It is skipped when rows are read, and so it is when the line of a row is looked for."""
    (tmp_path / "x.csv").write_text("a,b\n1,2\n\n\n3,4\n")
    assert columns(tmp_path / "x.csv", numbers=["b"])["b"] == [2.0, 4.0]
    assert open_table(tmp_path / "x.csv").place(1) == f"{tmp_path / 'x.csv'}:5"


def test_arrays_of_other_lengths_are_refused(tmp_path):
    """An archive is a table, too."""
    np.savez(tmp_path / "x.npz", target=[1, 2], logits=[1.0])
    with pytest.raises(PredictionsError, match="different numbers of rows: target 2, logits 1"):
        columns(tmp_path / "x.npz", numbers=["target", "logits"])
    np.savez(tmp_path / "y.npz", target=["a"])
    with pytest.raises(PredictionsError, match="array 'target' of <U1 holds values that are not numbers"):
        columns(tmp_path / "y.npz", numbers=["target"])


def test_pickled_objects_are_never_loaded(tmp_path):
    """They could run code; the array is named, and nothing advises to trust it."""
    np.savez(tmp_path / "x.npz", logits=[1.0], target=np.array([{}], dtype=object))
    with pytest.raises(PredictionsError, match="'target' is not an array of plain numbers or texts") as told:
        open_table(tmp_path / "x.npz")
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
        with pytest.raises(PredictionsError, match="is not an npz archive"):
            open_table(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "text")
    with pytest.raises(PredictionsError, match="is not an array of plain"):
        open_table(path)
    path.write_bytes(whole[:200] + b"!!!!" + whole[204:])
    with pytest.raises(PredictionsError, match="is damaged"):
        open_table(path)


def test_a_missing_column_lists_those_there_are(tmp_path):
    """And suggests the near one."""
    (tmp_path / "x.csv").write_text("target,probabilty\n")
    told = str(missing_column(open_table(tmp_path / "x.csv"), "probability", "--metrics"))
    assert "no column 'probability' (--metrics). Did you mean 'probabilty'?" in told
    assert told.endswith("Its columns are target, probabilty")
    (tmp_path / "y.csv").write_text("y_true,Y_pred,label_of_page\n")
    found = open_table(tmp_path / "y.csv")
    assert "If 'y_true' is that column, name it 'target'. Its" in str(missing_column(found, "target", "--by"))
    assert "If 'Y_pred' is that column, name it 'prediction'." in str(
        missing_column(found, "prediction", "--by")
    )
    assert "If" not in str(missing_column(found, "probability", "--by"))
    (tmp_path / "z.csv").write_text("target,score\n")
    found = open_table(tmp_path / "z.csv")
    hint = "If 'score' holds probabilities, name it 'probability'. Its columns are target, score"
    assert hint in str(missing_column(found, "prediction", "the output of the model"))
    assert "score' holds" not in str(missing_column(found, "id", "--by"))
    (tmp_path / "w.csv").write_text("target,score_0,score_1\n")
    wide = str(missing_column(open_table(tmp_path / "w.csv"), "prediction", "the output of the model"))
    assert "If score_0 and score_1 hold probabilities, name them probability_0, probability_1 ..." in wide


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_memory_does_not_grow_with_the_file(suffix, tmp_path, monkeypatch):
    """A file is read in chunks: four times the rows take no more memory of Python and NumPy."""
    monkeypatch.setattr("hpometrics.scoring.files.BLOCK", 1 << 16)
    monkeypatch.setattr("hpometrics.scoring.files.ROWS", 1 << 9)
    row = "0.123456789,0.5\n" if suffix == ".csv" else '{"a": 0.123456789, "b": 0.5}\n'
    peaks = []
    for rows in (100, 10_000, 40_000):  # the first one pays for what is loaded
        path = tmp_path / f"{rows}{suffix}"
        path.write_text(("a,b\n" if suffix == ".csv" else "") + row * rows)
        tracemalloc.start()
        assert sum(len(chunk["a"]) for chunk in open_table(path).chunks((), ["a", "b"])) == rows
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.5 * peaks[1]


def npy_head(shape: str, kind: str = "<f8") -> bytes:
    """The head of an array whose values are not there."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (
            npy_head("(1000000000000000,)"),
            "target .* need 7.45e.06 GiB of memory, but 4 are allowed; .*raise the",
        ),
        (npy_head("(2, 500000000000000)", "|b1"), "need 7.45e.06 GiB"),
        (npy_head("(3000000,)", "<U1000"), "need 11.2 GiB of memory, but 4 are allowed; .* --memory 12"),
        (npy_head("(3,)"), "is damaged: target.npy: "),
        (npy_head("(-3,)"), "'target' is not an array of plain"),
        (npy_head("(3,)", "|O"), "'target' is not an array of plain"),
        (npy_head("(3.5,)"), "'target' is not an array of plain"),
        (b"\x93NUMPY\x09\x00", "'target' is not an array of plain"),
        (b"", "'target' is not an array of plain"),
        (npy_head("(0,)") + b"12345678", "is damaged: target.npy has more values than it says"),
    ],
)
def test_the_head_of_an_array_is_judged_before_memory_is_taken(head, told, tmp_path):
    """By what it says of its shape, of which not one value need be there."""
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("target.npy", head)
    tracemalloc.start()
    with pytest.raises(PredictionsError, match=told):
        columns(path, numbers=["target"])
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


def test_arrays_that_nobody_asks_for_are_not_unpacked(tmp_path):
    """An archive may hold embeddings beside the predictions, or a bomb."""
    path = tmp_path / "x.npz"
    large = np.zeros(1 << 22)
    np.savez_compressed(path, target=np.arange(3.0), large=large)
    tracemalloc.start()
    assert columns(path, numbers=["target"]) == {"target": [0, 1, 2]}
    assert tracemalloc.get_traced_memory()[1] < large.nbytes / 4
    tracemalloc.stop()


def test_the_limit_of_memory_can_be_raised(tmp_path):
    """For arrays that are read at once; the message says to what."""
    path = tmp_path / "x.npz"
    np.savez_compressed(path, target=np.zeros(1 << 20))
    with pytest.raises(PredictionsError, match=r"need 0.00781 GiB .*but 0.001 are allowed.*--memory 1"):
        next(open_table(path, 0.001).chunks((), ["target"]))
    assert len(next(open_table(path, 0.01).chunks((), ["target"]))["target"]) == 1 << 20
    parquet.write_table(pa.table({"target": range(1 << 16), "other": range(1 << 16)}), tmp_path / "x.parquet")
    with pytest.raises(PredictionsError, match=r"the columns of row group 0 need 0\.000"):
        next(open_table(tmp_path / "x.parquet", 1e-5).chunks((), ["target"]))


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".npz", ".parquet"])
def test_what_need_not_end_is_refused(suffix, tmp_path):
    """A pipe that nobody writes to, a device, a directory."""
    os.mkfifo(tmp_path / f"pipe{suffix}")
    (tmp_path / f"zero{suffix}").symlink_to("/dev/zero")
    (tmp_path / f"folder{suffix}").mkdir()
    for name in ("pipe", "zero", "folder"):
        with pytest.raises(PredictionsError, match=f"{name}{suffix}: is not a regular file; write the"):
            open_table(tmp_path / f"{name}{suffix}")


LONG = "x" * 200_000
ODD_TEXTS = {
    "quote in the head": (
        "x.csv",
        f'"target,prediction\n{LONG}',
        "has 200018 characters, but at most 1000 are allowed",
    ),
    "endless head": ("x.csv", '"' + "x" * (1 << 23) + "yy", "x.csv:1: field larger than field limit"),
    "endless line": ("x.csv", "x" * ((1 << 26) + 1), "x.csv:1: a line can have at most 67108864 characters"),
    "endless object": (
        "x.jsonl",
        " " * ((1 << 26) + 1),
        "x.jsonl:1: a line can have at most 67108864 characters",
    ),
    "quote that never ends": ("x.csv", f'target\n1\n"2\n{LONG}\n3\n', "x.csv:5: column 'target' holds"),
    "long number": ("x.csv", f"target\n1\n{LONG}\n", "x.csv:3: column 'target' holds 'xxx"),
    "nested deep": ("x.jsonl", "[" * 100_000, "x.jsonl:1: is not JSON: it is nested too deep"),
    "nested number": (
        "x.jsonl",
        '{"target": ' + "[" * 100_000,
        "x.jsonl:1: is not JSON: it is nested too deep",
    ),
    "deep number": ("x.jsonl", f'{{"target": {"[" * 90}1{"]" * 90}}}', "column 'target' holds"),
    "huge number": (
        "x.jsonl",
        '{"target": 1' + "0" * 400 + "}",
        "x.jsonl:1: column 'target' holds '1000",
    ),
    "huge digits": (
        "x.jsonl",
        '{"target": 1' + "0" * 5000 + "}",
        "x.jsonl:1: is not JSON: Exceeds the limit",
    ),
    "many columns": (
        "x.csv",
        ",".join(map(str, range(20_000))),
        "no column 'target' .* Its columns are 0, 1, 2",
    ),
    "NUL": ("x.csv", "target\n\0\n", "column 'target' holds"),
}


@pytest.mark.parametrize("name", ODD_TEXTS)
def test_a_text_that_nobody_has_written_is_an_error_with_its_line(name, tmp_path):
    """And the message is short, whatever is shown of it."""
    file, text, told = ODD_TEXTS[name]
    (tmp_path / file).write_text(text)
    with pytest.raises(PredictionsError, match=told) as refused:
        if name == "many columns":
            read_roles(open_table(tmp_path / file), "number")
        columns(tmp_path / file, numbers=["target"])
    assert len(str(refused.value)) < 700 + len(str(tmp_path))


def test_a_cell_may_be_long(tmp_path):
    """A text of a document is one; its row is found behind it too."""
    (tmp_path / "x.csv").write_text(f"target,size\n{LONG},1\nb,odd\n")
    assert columns(tmp_path / "x.csv", ["target"])["target"] == [LONG, "b"]
    with pytest.raises(PredictionsError, match=r"x\.csv:3: column 'size' holds 'odd'"):
        columns(tmp_path / "x.csv", numbers=["size"])
    assert csv.field_size_limit() == 131_072


class Counted(str):
    """A name that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)


def test_the_work_for_a_column_does_not_grow_with_the_columns(tmp_path, monkeypatch):
    """20 000 of them are read as fast as 20, each."""
    names = [f"probability_{number}" for number in range(20_000)]
    (tmp_path / "x.csv").write_text(",".join(["target", *names]))
    monkeypatch.setattr(Delimited, "_read_head", lambda self: map(Counted, ["target", *names]))
    assert len(read_roles(open_table(tmp_path / "x.csv"), "category")["probabilities"]) == 20_000
    assert Counted.compared < 20 * len(names)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".npz"])
def test_a_damaged_file_is_an_error_of_ours(suffix, tmp_path):
    """Whichever bytes are other ones, gone, or doubled."""
    path, draw = tmp_path / f"x{suffix}", random.Random(3)
    rows = {"target": [1, 0, 1], "prediction": [0.5, 0.25, 1.5], "probability": [0.1, 0.5, 0.75]}
    if suffix == ".npz":
        np.savez_compressed(path, **rows)
    elif suffix == ".csv":
        path.write_text("target,prediction,probability\n1,0.5,0.1\n0,0.25,0.5\n1,1.5,0.75\n")
    else:
        cells = zip(*rows.values(), strict=True)
        path.write_text("".join(f"{json.dumps(dict(zip(rows, row, strict=True)))}\n" for row in cells))
    whole, refused = path.read_bytes(), 0
    for _ in range(300):
        content, place = bytearray(whole), draw.randrange(len(whole))
        end = place + draw.choice([1, 1, 1, 4, 30])
        content[place:end] = draw.choice([b"", whole[place:end] * 2, draw.randbytes(end - place), b'"', b"["])
        path.write_bytes(content)
        try:
            measure_file(path, "number", ("default",))
        except HpometricsError as err:
            refused += 1
            assert str(path) in str(err) or "hpometrics" in str(err), err
    assert refused > 100
