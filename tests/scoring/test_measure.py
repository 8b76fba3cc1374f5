from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest
import torch
from prediction_files import NAMES, values, write

from hpometrics.exceptions import HpometricsError, MetricNameError, UnknownMetricError
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Category
from hpometrics.scoring import measure_file, report
from hpometrics.scoring.files import PredictionsError

CLASSES = ("cat", "dog", "owl")


@pytest.fixture(scope="module")
def drawn():
    """Targets and probabilities of three classes, rows of two tasks, and a weight each."""
    random = np.random.default_rng(5)
    target = random.integers(0, 3, 500)
    logits = random.normal(size=(500, 3)) + 2 * np.eye(3)[target]
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return {
        "target": target,
        "logits": logits,
        "probabilities": probabilities,
        "task": np.array(["a", "b"])[random.integers(0, 2, 500)],
        "sample_weight": random.integers(0, 3, 500).astype(float),
    }


def expected(drawn, names=NAMES, rows=slice(None), **extras):
    """What a collection says of the same rows."""
    collection = MetricCollection(names, Category(3))
    tensors = {key: torch.tensor(drawn[key][rows]) for key in ("probabilities", "target", *extras)}
    collection.update(**tensors)
    return {name: value.item() for name, value in collection.compute().items()}


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".npz"])
@pytest.mark.parametrize("words", [True, False], ids=["labels", "numbers"])
def test_every_format_gives_the_values_of_a_collection(suffix, words, drawn, tmp_path):
    """Classes in words or as numbers, a column per class: the file decides nothing about the value."""
    names = CLASSES if words else range(3)
    columns = {"target": [CLASSES[i] if words else int(i) for i in drawn["target"]]}
    columns |= {f"probability_{name}": drawn["probabilities"][:, i].tolist() for i, name in enumerate(names)}
    path = write(tmp_path / f"predictions{suffix}", columns)
    assert values(path) == pytest.approx(expected(drawn), rel=1e-12)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".npz"])
def test_the_probabilities_of_a_row_may_be_one_list(suffix, drawn, tmp_path):
    """In the formats that have lists."""
    columns = {"target": drawn["target"].tolist(), "probabilities": drawn["probabilities"].tolist()}
    assert values(write(tmp_path / f"x{suffix}", columns)) == pytest.approx(expected(drawn), rel=1e-12)


def test_logits_are_logits(drawn, tmp_path):
    """What a column is, is said by its name."""
    columns = {"target": drawn["target"].tolist(), "logits": drawn["logits"].tolist()}
    assert values(write(tmp_path / "x.jsonl", columns)) == pytest.approx(expected(drawn), rel=1e-6)


def test_logits_win_over_probabilities_and_the_report_says_so(drawn, tmp_path):
    """All metrics read the same output of the model, and the columns that none reads are named."""
    columns = {"target": drawn["target"].tolist(), "logits": drawn["logits"].tolist()}
    doubted = {"probability_0": [0.2] * 500, "probability_1": [0.5] * 500, "probability_2": [0.3] * 500}
    names = ("accuracy", "roc_auc", "brier", "classwise_ece")
    alone = values(write(tmp_path / "x.jsonl", columns), metrics=names)
    path = write(tmp_path / "y.jsonl", {**columns, **doubted, "id": [0] * 500})
    assert values(path, metrics=names) == alone
    told = report(measure_file(path, "category", names)).splitlines()[1]
    assert told == (
        "not used   probability_0 (the logits are read), probability_1 (the logits are read), "
        "probability_2 (the logits are read), id"
    )


def test_an_archive_may_say_what_it_holds(drawn, tmp_path):
    """So that no --output is needed; one that is given wins."""
    np.savez(tmp_path / "x.npz", output="category", target=drawn["target"], logits=drawn["logits"])
    assert values(tmp_path / "x.npz", output=None) == pytest.approx(expected(drawn), rel=1e-6)


def test_tasks_have_a_line_each(drawn, tmp_path):
    """The values of a task are of its rows, those of `all` of all rows, not a mean of means."""
    columns = {key: drawn[key].tolist() for key in ("target", "probabilities", "task")}
    measured = measure_file(write(tmp_path / "x.jsonl", columns), "category", NAMES)
    assert list(measured.values) == ["a", "b", "all"]
    for task in "ab":
        assert measured.values[task] == pytest.approx(expected(drawn, rows=drawn["task"] == task), rel=1e-12)
    assert measured.values["all"] == pytest.approx(expected(drawn), rel=1e-12)
    assert measured.rows == {"a": sum(drawn["task"] == "a"), "b": sum(drawn["task"] == "b"), "all": 500}


@pytest.mark.parametrize("column", ["sample_weight", "importance"])
def test_weights_count(column, drawn, tmp_path):
    """By the usual name, or by the one that is given."""
    columns = {key: drawn[key].tolist() for key in ("target", "probabilities")}
    path = write(tmp_path / "x.jsonl", {**columns, column: drawn["sample_weight"].tolist()})
    weights = None if column == "sample_weight" else column
    assert values(path, weights=weights) == pytest.approx(expected(drawn, sample_weight=True), rel=1e-12)


@pytest.mark.parametrize("options", [{"weights": "target"}, {"by": "probability"}], ids=str)
def test_a_column_is_not_labels_and_numbers_at_once(options, tmp_path):
    """Weights are numbers and tasks are words, so neither can be a column that is read as the other."""
    path = write(tmp_path / "x.csv", {"target": [0, 1], "probability": [0.2, 0.7]})
    (column,) = options.values()
    with pytest.raises(PredictionsError, match=rf"x\.csv: column '{column}' cannot be .*--weights and --by"):
        values(path, "binary", ("accuracy",), **options)


def test_a_file_is_read_in_chunks(drawn, tmp_path, monkeypatch):
    """A file of any size fits: each chunk is one update, and the values are those of the whole."""
    columns = {key: drawn[key].tolist() for key in ("target", "probabilities", "task")}
    monkeypatch.setattr("hpometrics.scoring.files.ROWS", 64)
    updates = []
    monkeypatch.setattr(MetricCollection, "update", _counting(MetricCollection.update, updates))
    path = write(tmp_path / "x.jsonl", {key: columns[key] for key in ("target", "probabilities")})
    found = values(path)
    assert updates == [64] * 7 + [52]
    assert found == pytest.approx(expected(drawn), rel=1e-12)


def _counting(update, updates):
    def counted(self, **tensors):
        if isinstance(tensors["target"], np.ndarray):
            updates.append(len(tensors["target"]))
        update(self, **tensors)

    return counted


@pytest.mark.parametrize(
    ("output", "columns", "metric", "value"),
    [
        ("number", {"target": [1, 2], "prediction": [1.5, 2.0]}, "mae", 0.25),
        ("vector", {"target_0": [1], "target_1": [2], "prediction_1": [3], "prediction_0": [1]}, "mae", 0.5),
        ("timeseries", {"target": [[1, 2]], "prediction": [[1, 3]]}, "mae", 0.5),
        ("sequence", {"target": [[1, 2, 3], [4]], "prediction": [[1, 2, 0], [4]]}, "token_accuracy", 0.75),
        ("text", {"target": ["a b", "c"], "prediction": ["a b", "d"]}, "accuracy", 0.5),
        ("text", {"reference": [["x y", "a b"]], "prediction": ["a b"]}, "accuracy", 1.0),
        ("text", {"reference_0": ["x y"], "reference_1": ["a b"], "prediction": ["a b"]}, "accuracy", 1.0),
    ],
)
def test_other_outputs(output, columns, metric, value, tmp_path):
    """Numbers, lists of them, tokens of any length, texts with their references."""
    assert values(write(tmp_path / "x.jsonl", columns), output, (metric,)) == {metric: pytest.approx(value)}


@pytest.mark.parametrize(
    ("name", "text", "output", "message"),
    [
        ("x.csv", "target,probability\n0,.2\n1,\n", "binary", ":3: column 'probability' is empty or nan"),
        ("x.csv", "target,probability\n0,.2\n1,nan\n", "binary", ":3: column 'probability' is empty"),
        ("x.csv", "target,probability\n0,.2\n1,inf\n", "binary", ":3: column 'probability' holds inf"),
        ("x.csv", "target,probability\n0,.2\n1,abc\n", "binary", ":3: column 'probability' holds 'abc'"),
        ("x.csv", "target,probability\n0,.2\n1,1,1\n", "binary", ":3: the header has 2 columns, but"),
        ("x.csv", "target,probability\n0,.2\n,.1\n", "binary", ":3: column 'target' is empty"),
        ("x.csv", 'target,probability\n"0\n",.2\n1,\n', "binary", ":4: column 'probability' is empty"),
        ("x.csv", "target,probability_0,probability_1\n0,.5,.9\n", "category", ":2: each row of"),
        ("x.csv", "target,probability\n0,.2\n1,1.3\n", "binary",
         ":3: .*; if these are logits, pass them as logit columns$"),
        ("x.csv", "target,probability_0,probability_2\n", "category", "run from probability_0 without a gap"),
        ("x.csv", "targt,probability\n0,.2\n", "binary", r"no column 'target' .* Did you mean 'targt'\?"),
        ("x.csv", "target,score\n0,.2\n", "binary", "no column 'prediction' .* columns are target, score"),
        ("x.csv", "target,target,prediction\n", "binary", "column target appears twice"),
        ("x.csv", "", "binary", "is empty; the first row"),
        ("x.csv", "target,prediction\na,b\nc,d\n", "binary", "needs two labels, got 4: a, b, c, d"),
        ("x.csv", "target,probability_yes\nno,.1\nmaybe,.2\n", "binary", "two labels, got 3: maybe, no, yes"),
        ("x.csv", "target,probability_1\n1,.9\n2,.2\n", "binary",
         "the class numbers 0 and 1, got the labels 1, 2; .*, probability_1 and probability_2 .* class 1"),
        ("x.csv", "target,logit\n1,.9\n2,.2\n", "binary", "each, logit_1 and logit_2 .*number them 0 and 1$"),
        ("x.csv", "target,prediction\n3,3\n5,5\n", "binary", "got the labels 3, 5; number them 0 and 1$"),
        ("x.csv", "target,prediction\n0,1\n2,1\n", "binary", ":3: target of a binary output must be in 0..1"),
        ("x.csv", "target,probability_a,probability_b\nc,.1,.9\n", "category", "'target' holds 'c'; .* a, b"),
        ("x.csv", "target,probability_0,probability_1,probability_2\na,.1,.9,0\nb,0,0,1\n", "category",
         "3 columns named by class number, but the labels are a, b; .*probability_a"),
        ("x.csv", "target_a,prediction_b\n1,0\n", "set", "have different labels; only one of them has a, b"),
        ("x.csv", "target_a,prediction_a\n0.5,0\n", "set", ":2: target_a of a set output must be whole"),
        ("x.csv", "target,prediction\n1,2\n", "timeseries",
         r"columns target_0, target_1 .*, or as a list in one column .* one number in column 'target'$"),
        ("x.csv", "target_0,prediction\n1,2\n", "vector", r"prediction_0, prediction_1 .* 'prediction'$"),
        ("x.csv", "target,prediction\n1,0\n", "set", r"columns target_0, target_1 .* column 'target'$"),
        ("x.csv", "target,prediction_0\n1,0\n", "sequence", "a sequence must be a list of tokens in one"),
        ("x.csv", "target,prediction\n1,0\n", "boxes", "boxes cannot be read from a file"),
        ("x.csv", "target,prediction,task\n1,0,all\n", "binary", "a task cannot be named 'all'"),
        ("x.jsonl", '{"target": 1,\n', "category", ":1: is not JSON"),
        ("x.jsonl", "[1]\n", "category", ":1: a line must be an object"),
        ("x.jsonl", '{"target": 1, "logits": 0}\n\n{"target": 1}\n', "category", ":3: the row has no"),
        ("x.jsonl", '{"target": 1, "prediction": "x"}\n', "number", ":1: column 'prediction' holds 'x'"),
        ("x.jsonl", '{"target": 1, "logits": [1, 2]}\n{"target": 1, "logits": [1]}\n', "category",
         ":2: column 'logits' holds 1 numbers, but the rows before hold 2"),
        ("x.jsonl", '{"target": [1, 2], "prediction": [1]}\n', "sequence", "numbers of tokens differ"),
        ("x.jsonl", '{"target": 5, "prediction": "a"}\n', "text", "'target' holds 5, which is not text"),
        ("x.csv", "target;prediction\n0;0\n", "category", "one column, 'target;prediction', which"),
        ("x.parquet", "no parquet", "binary", "is not a Parquet file"),
        ("x.npz", "no archive", "binary", "is not an npz archive"),
        ("x.txt", "", "binary", "predictions must be a file of type .csv, .tsv"),
    ],
)  # fmt: skip
def test_an_error_names_file_line_and_column(name, text, output, message, tmp_path):
    """What is wrong is where the user can mend it; nothing is measured."""
    (tmp_path / name).write_text(text)
    with pytest.raises(PredictionsError, match=message) as error:
        measure_file(tmp_path / name, output)
    assert str(error.value).startswith(str(tmp_path / name))


@pytest.mark.parametrize(
    ("suffix", "place"),
    [(".csv", r"x\.csv:10: "), (".jsonl", r"x\.jsonl:9: "), (".parquet", r"x\.parquet: row 9: ")],
)
@pytest.mark.parametrize("tasks", [{}, {"task": list("aabababababa")}], ids=["", "tasks"])
def test_what_metrics_refuse_is_found_in_the_file(suffix, place, tasks, tmp_path, monkeypatch):
    """The first row that they refuse has its line, in whatever chunk and task it is."""
    monkeypatch.setattr("hpometrics.scoring.files.ROWS", 5)
    columns = {"target": [1.0] * 12, "prediction": [2.0] * 8 + [-7.0, 2.0, -9.0, 2.0], **tasks}
    with pytest.raises(PredictionsError, match=place + "rmsle and msle need .* above -1, got -7"):
        values(write(tmp_path / f"x{suffix}", columns), "number", ("mae", "rmsle"))


def test_what_only_all_rows_show_is_said_of_them(tmp_path, monkeypatch):
    """A row that is refused for those before it has no fault of its own: its batch is named."""
    monkeypatch.setattr("hpometrics.scoring.files.ROWS", 2)
    rows = [{"target": 0, "logits": [0.1] * width} for width in (3, 3, 4, 4)]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(PredictionsError, match=r"x\.jsonl:3 or after: .*"):
        values(tmp_path / "x.jsonl", metrics=("roc_auc",))


def test_what_cannot_be_read_is_left_out_of_a_group_only(tmp_path):
    """A metric that is named and reads probabilities is refused where there are none."""
    path = write(tmp_path / "x.csv", {"target": [0, 1], "prediction": [0, 1], "id": [7, 8]})
    measured = measure_file(path, "category")
    assert list(measured.values["all"]) == ["accuracy", "f1(average=macro)"]
    assert "roc_auc (reads probabilities)" in measured.left_out
    assert measured.unused == ("id",)
    with pytest.raises(PredictionsError, match="roc_auc reads probabilities, but no column"):
        values(path, metrics=("roc_auc",))
    scored = write(tmp_path / "s.csv", {"target": [0, 1], "prediction": [0, 1], "score": [0.2, 0.7]})
    with pytest.raises(PredictionsError, match="If 'score' holds probabilities, name it 'probability'"):
        values(scored, metrics=("roc_auc",))
    with pytest.raises(UnknownMetricError, match="it is a metric of number"):
        values(path, metrics=("mae",))
    with pytest.raises(MetricNameError, match="needs average="):
        values(path, metrics=("f1",))


def test_no_metric_at_all_is_refused(tmp_path):
    """As an empty list is, with where to find some."""
    path = write(tmp_path / "x.csv", {"target": [0, 1], "prediction": [0, 1]})
    with pytest.raises(PredictionsError, match=r"no metric is named; .*--feature binary` lists all \d+$"):
        values(path, "binary", ())


@pytest.mark.parametrize("weights", [None, "sample_weight"])
def test_what_cannot_weigh_rows_is_left_out_of_a_group_only(weights, tmp_path):
    """Its reason stands in the report; where it is named, the error says what of the command to leave out."""
    columns = {"target": [0, 1, 2], "prediction": [0, 1, 1], "sample_weight": [1, 2, 1]}
    path = write(tmp_path / "x.csv", columns)
    measured = measure_file(path, "category", ("all",), weights=weights)
    found = measured.values["all"]
    assert found["accuracy"] == 0.75 and "fleiss_kappa" not in found
    assert "fleiss_kappa (does not support weights)" in measured.left_out
    with pytest.raises(
        PredictionsError, match=r"does not support weights, .*--weights, or the column sample_w"
    ):
        values(path, metrics=("fleiss_kappa",), weights=weights)


@pytest.mark.parametrize(
    ("output", "columns"),
    [
        ("binary", {"target": [0, 1, 1], "logit": [0.2, 0.4, -0.3]}),
        ("category", {"target": [0, 1, 2], "logits": [[1.0, 0.2, 0.1], [0.3, 1.2, 0.0], [0.1, 0.2, 0.4]]}),
        ("set", {"target": [[0, 1], [1, 0], [1, 1]], "logits": [[1.0, 0.2], [-0.3, 1.2], [0.1, 0.2]]}),
        ("number", {"target": [1.0, 2.0, 4.0], "prediction": [1.5, 2.5, 3.0]}),
        ("vector", {"target": [[1.0, 2.0], [3.0, 5.0], [2.0, 2.0]], "prediction": [[1.0, 2.5]] * 3}),
        ("timeseries", {"target": [[1.0, 2.0], [3.0, 5.0], [2.0, 2.0]], "prediction": [[1.0, 2.5]] * 3}),
        ("sequence", {"target": [[1, 2], [0], [1]], "prediction": [[1, 0], [0], [2]]}),
        ("text", {"target": ["a b", "c", "d"], "prediction": ["a", "c", "d e"]}),
        ("clusters", {"target": [0, 1, 1], "prediction": [1, 1, 0]}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_all_of_a_weighted_file_is_measured(output, columns, tmp_path):
    """Whatever the output: what weighs has a value."""
    path = write(tmp_path / "x.jsonl", {**columns, "sample_weight": [1.0, 2.0, 1.0]})
    assert values(path, output, ("all",))


def test_texts_are_measured_by_what_reads_texts(tmp_path):
    """A group leaves out what reads token ids; a metric of them that is named is refused."""
    path = write(tmp_path / "x.jsonl", {"target": ["a b", "c"], "prediction": ["a b", "d"]})
    measured = measure_file(path, "text", ("all",))
    found = measured.values["all"].keys()
    assert {"accuracy", "bleu_4", "wer"} <= found
    assert "token_accuracy" not in found
    assert "token_accuracy (reads token ids)" in measured.left_out
    with pytest.raises(PredictionsError, match="token_accuracy reads token ids, but the file has texts"):
        values(path, "text", ("token_accuracy",))
    with pytest.raises(
        PredictionsError, match="jga reads slots, gold_slots, but no column contains them; the columns"
    ):
        values(path, "text", ("jga",))
    with pytest.raises(PredictionsError, match=r"none of .* measured: .*--feature text` lists all \d+"):
        values(path, "text", ("sequence",))


def test_one_label_in_words_with_columns_of_two_classes(tmp_path):
    """Which of the columns is its own is not guessed; a column of its name says so."""
    columns = {"target": ["no", "no"], "probability_0": [0.9, 0.2], "probability_1": [0.1, 0.8]}
    with pytest.raises(PredictionsError, match="needs two labels, got only 'no', which may be class 0 or"):
        measure_file(write(tmp_path / "x.csv", columns), "binary", ("accuracy",))
    columns = {"target": ["no", "no"], "probability_no": [0.9, 0.2], "probability_yes": [0.1, 0.8]}
    measured = measure_file(write(tmp_path / "y.csv", columns), "binary", ("accuracy",))
    assert measured.labels == ("no", "yes") and measured.values["all"]["accuracy"] == 0.5


def test_blank_lines_are_not_rows(tmp_path):
    """Neither before the head nor between rows."""
    path = tmp_path / "x.csv"
    path.write_text("\n\ntarget,prediction\n1,1\n\n0,1\n")
    assert values(path, "binary", ("accuracy",))["accuracy"] == 0.5


def test_all_metrics_of_a_file(drawn, tmp_path):
    """Everything that needs no parameter, in one pass."""
    columns = {key: drawn[key].tolist() for key in ("target", "logits")}
    found = values(write(tmp_path / "x.jsonl", columns), metrics=("all",))
    assert len(found) > 15
    assert found["accuracy"] == pytest.approx(expected(drawn)["accuracy"])


@pytest.fixture
def undefined(tmp_path):
    """One task has one class only."""
    columns = {"target": [0, 1, 1], "probability": [0.2, 0.7, 0.6], "task": ["a", "a", "b"]}
    return measure_file(write(tmp_path / "x.csv", columns), "binary", ("accuracy", "roc_auc"))


def test_the_table_has_a_line_per_task(undefined):
    """Directions at the head, a dash for what is undefined and the reason below."""
    lines = report(undefined).splitlines()
    assert lines[2].split() == ["task", "rows", "accuracy", "^", "roc_auc", "^"]
    assert [line.split() for line in lines[4:7]] == [
        ["a", "2", "1", "1"],
        ["b", "1", "1", "-"],
        ["all", "3", "1", "1"],
    ]
    assert lines[7].startswith(" roc_auc of b is undefined: the target has a single class")


def test_the_report_as_json_and_csv(undefined):
    """Strict JSON, and a line per task and metric; the numbers are whole."""
    told = json.loads(report(undefined, "json"))
    assert told["values"]["b"] == {"accuracy": 1.0, "roc_auc": None}
    assert "a single class" in told["undefined"]["b"]["roc_auc"]
    assert told["objectives"] == {"accuracy": "maximize", "roc_auc": "maximize"}
    rows = list(csv.DictReader(report(undefined, "csv").splitlines()))
    assert [row["task"] for row in rows] == ["a", "a", "b", "b", "all", "all"]
    assert rows[0] == {
        "task": "a", "rows": "2", "metric": "accuracy", "objective": "maximize", "value": "1.0", "reason": "",
    }  # fmt: skip


def test_what_a_file_calls_things_does_not_leave_its_line(tmp_path):
    """Nor does it begin a formula in a table."""
    columns = {
        "target": ["a\nb", "c"],
        "prediction": ["a\nb", "c"],
        "task": ["=cmd()", "\x1b[2J"],
        "\x1b[1m": [1, 2],
    }
    path = write(tmp_path / "x.jsonl", columns)
    measured = measure_file(path, "category", ("f1(average=none)",))
    text = report(measured)
    assert all(line.isprintable() for line in text.splitlines())
    assert all(name in text for name in (r"\x1b[2J", r"[a\nb]", "=cmd()", r"not used   \x1b[1m"))
    rows = list(csv.reader(report(measured, "csv").splitlines()))
    assert {row[0] for row in rows[1:]} == {"'=cmd()", r"\x1b[2J", "all"} and all(
        len(row) == 6 for row in rows
    )


def test_json_says_why_there_is_no_number(tmp_path):
    """It has none that is infinite: a value beyond all numbers is null, and that is said."""
    columns = {"target": [1e200, -1e200], "prediction": [-1e200, 1e200]}
    measured = measure_file(write(tmp_path / "x.csv", columns), "number", ("mse", "mae"))
    told = json.loads(report(measured, "json"))
    assert told["values"]["all"] == {"mse": None, "mae": 2e200}
    assert told["undefined"] == {"all": {"mse": "the value is inf"}}


def test_a_value_per_class_is_named_by_its_label(drawn, tmp_path):
    """In words, where the file has words."""
    columns = {"target": [CLASSES[i] for i in drawn["target"]], "prediction": [CLASSES[0]] * 500}
    path = write(tmp_path / "x.csv", columns)
    found = values(path, metrics=("recall(average=none)",))
    assert found == {
        "recall(average=none)[cat]": 1.0,
        "recall(average=none)[dog]": 0.0,
        "recall(average=none)[owl]": 0.0,
    }
    assert "classes    cat = 0, dog = 1, owl = 2" in report(measure_file(path, "category"))


def test_a_cell_of_a_table_is_named_by_its_place(tmp_path):
    """Row and column; three numbers that are no value per class have none of the three labels."""
    columns = {"target": ["cat", "cat"], "probability_cat": [0.5, 0.2], "probability_dog": [0.3, 0.7]}
    path = write(tmp_path / "x.csv", {**columns, "probability_owl": [0.2, 0.1]})
    found = values(path, metrics=("confusion_matrix", "reliability_curve(bins=1)"))
    matrix = {(t, p): found.pop(f"confusion_matrix[{t}, {p}]") for t in range(3) for p in range(3)}
    assert {place for place, count in matrix.items() if count} == {(0, 0), (0, 1)}
    assert found == {
        f"reliability_curve(bins=1)[{i}, 0]": pytest.approx(v) for i, v in enumerate((0.6, 0.5, 1))
    }


def test_a_file_with_a_head_alone_measures_nothing(tmp_path):
    """Every value is undefined, with its reason."""
    measured = measure_file(write(tmp_path / "x.csv", {"target": [], "prediction": []}), "number")
    assert all(map(math.isnan, measured.values["all"].values()))
    assert measured.reasons["all"].keys() == measured.values["all"].keys()


def test_every_error_is_ours(tmp_path):
    """So that the command prints it in one line."""
    assert issubclass(PredictionsError, (HpometricsError, ValueError))
    with pytest.raises(FileNotFoundError):
        measure_file(tmp_path / "nowhere.csv", "binary")


def test_a_file_in_another_encoding_is_refused_with_its_line(tmp_path):
    """In CSV and in JSON lines alike."""
    (tmp_path / "x.csv").write_bytes(b"target,prediction\na,a\nb,\xff\n")
    (tmp_path / "x.jsonl").write_bytes(b'{"target": "a", "prediction": "a"}\n{"target": "\xff"}\n')
    with pytest.raises(PredictionsError, match=r"x\.csv:3: is not UTF-8"):
        measure_file(tmp_path / "x.csv", "category")
    with pytest.raises(PredictionsError, match=r"x\.jsonl:2: is not UTF-8"):
        measure_file(tmp_path / "x.jsonl", "category")


def test_the_default_of_a_file_of_texts_reads_strings(tmp_path):
    """Token metrics would find no token ids there."""
    path = write(tmp_path / "x.csv", {"reference": ["a b c", "d e"], "prediction": ["a b", "d e"]})
    found = measure_file(path, "text")
    assert list(found.values["all"])[:3] == ["accuracy", "f1", "bleu_4"]


def test_a_curve_of_each_task_has_its_own_points(tmp_path):
    """The tasks are then printed one below the other."""
    columns = {"target": [1, 0, 0, 1, 1], "probability": [0.9, 0.6, 0.3, 0.2, 0.1], "task": list("aabbb")}
    text = report(measure_file(write(tmp_path / "x.csv", columns), "binary", ("roc_curve", "f1")))
    assert "a   2 rows" in text and "all   5 rows" in text
