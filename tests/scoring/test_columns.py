"""Which columns of a file are read, and how their cells become labels."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from prediction_files import values, write

from hpometrics.exceptions import HpometricsError
from hpometrics.scoring import measure_file, report
from hpometrics.scoring.files import PredictionsError


def test_the_labels_of_a_binary_output(tmp_path):
    """Sorted, the later is class 1; a column that is named by a label is that label's."""
    labels = ["no", "yes", "yes", "no"]
    plain = write(tmp_path / "a.csv", {"target": labels, "probability": [0.2, 0.9, 0.4, 0.1]})
    named = write(tmp_path / "b.csv", {"target": labels, "probability_no": [0.8, 0.1, 0.6, 0.9]})
    both = {"probability_no": [0.8, 0.1, 0.6, 0.9], "probability_yes": [0.2, 0.9, 0.4, 0.1]}
    two = write(tmp_path / "c.csv", {"target": labels, **both})
    wanted = ("accuracy", "recall", "log_loss")
    assert values(plain, "binary", wanted) == values(two, "binary", wanted)
    assert values(plain, "binary", wanted)["recall"] == 0.5
    assert values(named, "binary", wanted)["recall"] == 1.0  # of class `no`
    assert measure_file(named, "binary").labels == ("yes", "no")


@pytest.mark.parametrize("outputs", [{"probability": [0.9, 0.8]}, {"prediction": ["yes", "yes"]}])
def test_a_lone_label_in_words_is_not_class_0(outputs, tmp_path):
    """Whether `yes` is class 1 depends on the other label; a column of its name says so."""
    path = write(tmp_path / "predictions.csv", {"target": ["yes", "yes"], **outputs})
    with pytest.raises(PredictionsError, match="needs two labels, got only 'yes', which may be class 0 or"):
        values(path, "binary", ("accuracy",))
    named = write(tmp_path / "named.csv", {"target": ["yes", "yes"], "probability_yes": [0.9, 0.8]})
    assert values(named, "binary", ("accuracy", "recall")) == {"accuracy": 1.0, "recall": 1.0}


def test_columns_numbered_from_one_are_labels(tmp_path):
    """Class 1 is the column probability_1, also where no row holds the last class: both rows are right."""
    columns = {"probability_1": [0.8, 0.1], "probability_2": [0.1, 0.8], "probability_3": [0.1, 0.1]}
    path = write(tmp_path / "predictions.csv", {"target": [1, 2], **columns})
    assert values(path, metrics=("accuracy",)) == {"accuracy": 1.0}


def test_two_columns_numbered_from_one_are_the_labels_of_a_binary_output(tmp_path):
    """Of 1 and 2 the second is class 1, and its column is read."""
    columns = {"target": [1, 2], "probability_1": [0.8, 0.1], "probability_2": [0.2, 0.9]}
    path = write(tmp_path / "predictions.csv", columns)
    assert values(path, "binary", ("accuracy", "roc_auc")) == {"accuracy": 1.0, "roc_auc": 1.0}


def test_two_numbered_columns_of_a_binary_output_with_labels_in_words(tmp_path):
    """The labels are numbered in their sorted order, so that the second column is that of yes."""
    columns = {"target": ["yes", "no"], "probability_0": [0.2, 0.9], "probability_1": [0.8, 0.1]}
    path = write(tmp_path / "predictions.csv", columns)
    assert values(path, "binary", ("accuracy", "roc_auc")) == {"accuracy": 1.0, "roc_auc": 1.0}


def test_class_numbers_may_be_written_as_floats(tmp_path):
    """As pandas writes them: 0.0 and 1.0 are the class numbers 0 and 1."""
    path = tmp_path / "predictions.csv"
    path.write_text("target,probability\n0.0,.2\n1.0,.9\n01,.8\n")
    assert values(path, "binary", ("accuracy",)) == {"accuracy": 1.0}


def test_a_number_written_in_two_ways_is_not_two_labels(tmp_path):
    """Beside a fraction, numbers are labels in words, and 1 in one column is not 1.0 in the other."""
    (tmp_path / "x.csv").write_text("target,prediction\n1.0,1\n0.5,0.5\n2.0,2\n")
    with pytest.raises(
        PredictionsError, match=r"the labels '1' and '1.0' are the same number; if other labels"
    ):
        values(tmp_path / "x.csv", metrics=("accuracy",))
    (tmp_path / "x.csv").write_text("target,prediction\n1.0,1.0\n0.5,0.5\n2.0,1.0\n01,x\n")
    assert values(tmp_path / "x.csv", metrics=("accuracy",)) == {"accuracy": 0.5}


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ({"target": [1, [1, 2]], "prediction": [1, 1]}, "x.jsonl:2: column 'target' holds [1, 2]"),
        ({"target": [1, 1], "prediction": [{"a": 1}, 1]}, "x.jsonl:1: column 'prediction' holds {'a': 1}"),
        ({"target": [1, [1]], "probabilities": [[0.5, 0.5]] * 2}, "x.jsonl:2: column 'target' holds [1]"),
        ({"target": [1, [1]], "probability_a": [1, 1], "probability_b": [0, 0]}, "x.jsonl:"),
    ],
)
def test_a_label_is_no_list(cells, told, tmp_path):
    """A cell with several values is named with its line."""
    write(tmp_path / "x.jsonl", cells)
    with pytest.raises(PredictionsError, match=re.escape(told)):
        values(tmp_path / "x.jsonl", metrics=("accuracy",))


def test_an_array_of_labels_has_one_dimension(tmp_path):
    """An archive may hold anything: a table is refused, and so is a single value."""
    np.savez(tmp_path / "x.npz", target=np.ones((3, 2), int), prediction=np.ones((3, 2), int))
    with pytest.raises(
        PredictionsError, match=r"row 1: column 'target' holds \[1, 1\]; a label must be one text"
    ):
        values(tmp_path / "x.npz", metrics=("accuracy",))
    for output in ("category", "number"):
        np.savez(tmp_path / "x.npz", target=np.array(1), prediction=np.array(1))
        with pytest.raises(
            PredictionsError, match=r"array 'target' is a single value of shape \(\); a column needs one"
        ):
            values(tmp_path / "x.npz", output, ("default",))


def test_the_probability_of_class_0_is_not_taken_for_that_of_class_1(tmp_path):
    """A binary output has one column, of class 1; that of class 0 alone would turn every value around."""
    path = write(tmp_path / "predictions.csv", {"target": [1, 0], "probability_0": [0.2, 0.9]})
    with pytest.raises(PredictionsError, match=r"must be the one of class 1, .*; got the one of class 0"):
        values(path, "binary", ("accuracy",))


def test_labels_that_are_predicted_only_count_too(tmp_path):
    """The classes are those of the target and of the predictions."""
    path = write(tmp_path / "x.csv", {"target": ["a", "b"], "prediction": ["c", "b"]})
    measured = measure_file(path, "category", ("accuracy",))
    assert (measured.labels, measured.output) == (("a", "b", "c"), "category(num_classes=3)")


def test_a_number_that_does_not_count_is_said(tmp_path):
    """-1 is no class, unless the output says what it is."""
    path = write(tmp_path / "x.csv", {"target": [0, 1, -1], "prediction": [0, 0, 1]})
    with pytest.raises(PredictionsError, match=r"start at 0, got -1, 0, 1; .*ignore_index=-1"):
        values(path, metrics=("accuracy",))
    assert values(path, "category(ignore_index=-1)", ("accuracy",)) == {"accuracy": 0.5}


GAPS = {
    "numbers": ([0, 1, None, 2], [0, 2, 1, 2]),
    "floats": ([0.0, 1.0, None, 2.0], [0.0, 2.0, 1.0, 2.0]),
    "words": (["a", "b", None, "c"], ["a", "c", "b", "c"]),
}


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("kind", GAPS)
def test_rows_without_a_label_count_for_nothing_where_the_output_says_so(kind, suffix, tmp_path):
    """Of the other three two are right, whether classes are numbers or words; else the row is named."""
    target, predictions = GAPS[kind]
    path = write(tmp_path / f"x.{suffix}", {"target": target, "prediction": predictions})
    place = {"csv": ":4", "tsv": ":4", "jsonl": ":3", "parquet": ": row 3"}[suffix]
    said = re.escape("ignore them with --output 'category(")
    with pytest.raises(
        PredictionsError, match=f"{place}: column 'target' is empty; .*{said}.*ignore_index=-1"
    ):
        values(path, "category", ("accuracy",))
    measured = measure_file(path, "category(ignore_index=-1)", ("accuracy",))
    assert measured.values["all"] == {"accuracy": pytest.approx(2 / 3)}
    assert (measured.rows, measured.unlabeled) == ({"all": 3}, {"all": 1})
    assert "no label   1 more row, which counts for nothing" in report(measured)
    assert json.loads(report(measured, "json"))["unlabelled"] == {"all": 1}


def test_rows_without_a_label_are_counted_by_task(tmp_path):
    """A task of which no row counts has no value."""
    columns = {"target": [1, None, None], "prediction": [1, 0, 1], "task": ["a", "a", "b"]}
    path = write(tmp_path / "x.csv", columns)
    measured = measure_file(path, "binary(ignore_index=-1)", ("accuracy",))
    assert measured.rows == {"a": 1, "b": 0, "all": 1}
    assert measured.unlabeled == {"a": 1, "b": 1, "all": 2}
    assert measured.reasons["b"] == {"accuracy": "nothing was measured"}


@pytest.mark.parametrize("blank", ["NA", "nan", "null", "N/A"])
def test_what_stands_for_no_number_is_no_label_beside_numbers(blank, tmp_path):
    """It was one more class; among labels in words it is one."""
    path = write(tmp_path / "x.csv", {"target": ["0", "1", blank], "prediction": [0, 1, 1]})
    with pytest.raises(
        PredictionsError, match=f":4: column 'target' holds '{blank}'; it should be a class number"
    ):
        values(path, "category", ("accuracy",))
    assert values(path, "category(ignore_index=-1)", ("accuracy",)) == {"accuracy": 1}
    words = write(tmp_path / "y.csv", {"target": ["DE", "FR", blank], "prediction": ["DE", "FR", "DE"]})
    assert values(words, "category", ("accuracy",)) == {"accuracy": pytest.approx(2 / 3)}


@pytest.mark.parametrize("rows", ["0, 0\n1, 1\n1,0", "+0,0\n01,1\n1.,0", "no, no\nyes ,yes\nyes,no"])
def test_a_label_is_the_same_with_blanks_around_it(rows, tmp_path):
    """Files that are written by hand have some behind commas: `1` and ` 1` were two classes."""
    (tmp_path / "x.csv").write_text(
        f"target,prediction,task\n{rows}\n".replace("\n", ", a\n").replace("task, a", "task")
    )
    measured = measure_file(tmp_path / "x.csv", "binary", ("accuracy",))
    assert measured.rows == {"a": 3, "all": 3} and measured.labels in ((), ("no", "yes"))
    assert measured.values["all"] == {"accuracy": pytest.approx(2 / 3)}


def test_a_prediction_is_never_without_a_label(tmp_path):
    """What is not known is the target; the model says something of each row."""
    path = write(tmp_path / "x.csv", {"target": [0, 1], "prediction": [0, None]})
    with pytest.raises(
        PredictionsError, match=r":3: column 'prediction' is empty; .* a class number from 0$"
    ):
        values(path, "category(ignore_index=-1)", ("accuracy",))


def test_what_does_not_count_beside_labels_in_words(tmp_path):
    """The number that the output says is no label; it cannot be that of one."""
    path = write(tmp_path / "x.csv", {"target": ["a", "-1", "b"], "prediction": ["a", "b", "a"]})
    assert values(path, "category(ignore_index=-1)", ("accuracy",)) == {"accuracy": 0.5}
    with pytest.raises(
        PredictionsError, match="the label 'a' has the number 1, which marks ignored rows; choose"
    ):
        values(path, "category(ignore_index=1)", ("accuracy",))


def test_a_label_may_be_called_none(tmp_path):
    """Of a binary output whose one column is named by its label, the other label is found in the cells."""
    for output, cells in (
        ("binary", ["None", "Some"]),
        ("binary(ignore_index=-1)", ["None", "Some", "-1", None]),
    ):
        columns = {"target": cells, "probability_Some": [0.2, 0.9, 0.5, 0.5][: len(cells)]}
        measured = measure_file(write(tmp_path / "x.csv", columns), output, ("accuracy",))
        assert (measured.labels, measured.rows) == (("None", "Some"), {"all": 2})
        assert measured.values["all"] == {"accuracy": 1}


def test_an_empty_label_of_a_set_is_not_known(tmp_path):
    """As -1 is; a row without any counts for nothing."""
    columns = {"target_a": [1, None, None], "target_b": [0, 1, None], "prediction_a": [1, 0, 0]}
    path = write(tmp_path / "x.csv", {**columns, "prediction_b": [1, 1, 1]})
    with pytest.raises(PredictionsError, match=r":3: column 'target_a' is empty .*'set\(ignore_index=-1\)'"):
        values(path, "set", ("hamming",))
    measured = measure_file(path, "set(ignore_index=-1)", ("hamming",))
    assert measured.values["all"] == {"hamming": pytest.approx(1 / 3)}
    assert (measured.rows, measured.unlabeled) == ({"all": 2}, {"all": 1})


def test_a_label_of_a_set_that_is_not_known_is_said(tmp_path):
    """-1 is no label; the message says what to say of the output."""
    columns = {"target_a": [1, -1, 1], "target_b": [0, 1, -1], "prediction_a": [1, 0, 0]}
    path = write(tmp_path / "x.csv", {**columns, "prediction_b": [1, 1, 1]})
    with pytest.raises(HpometricsError, match=r"from -1 to 1; .*: set\(ignore_index=-1\)"):
        values(path, "set", ("hamming",))
    assert values(path, "set(ignore_index=-1)", ("hamming", "accuracy")) == {
        "hamming": 0.5, "accuracy": pytest.approx(1 / 3),
    }  # fmt: skip


def test_a_set_has_a_column_per_label(tmp_path):
    """Matched by label, whatever their order in the file."""
    columns = {"target_a": [1, 0, 1], "target_b": [0, 1, 1], "probability_b": [0.1, 0.9, 0.6]}
    path = write(tmp_path / "x.csv", {**columns, "probability_a": [0.8, 0.3, 0.4]})
    assert values(path, "set", ("hamming",)) == {"hamming": pytest.approx(1 / 6)}
