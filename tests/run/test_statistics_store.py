"""What a run keeps of every epoch, so that other metrics can be read of it without training."""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress

import numpy as np
import pytest
import torch

from hpometrics.exceptions import MetricInputError, RecordError, RunError
from hpometrics.metrics.features import Binary, Category, Number
from hpometrics.records.epoch_log import read_epochs
from hpometrics.run import Run, RunSpec, statistics_store as kept_module
from hpometrics.run.statistics_store import (
    GROWS,
    STATISTICS_FILE,
    RowsDigest,
    StoredRows,
    read_statistics,
    tensor_from_json,
    tensor_to_json,
)
from hpometrics.selection.two_way import by_cluster

TARGET = torch.tensor([0, 1, 2, 1])


class Counter:
    """What is checkpointed."""

    def state_dict(self):
        """Nothing."""
        return {}

    def load_state_dict(self, state_dict):
        """Nothing."""


def run_of(directory, **facts):
    """A run over three classes."""
    return Run(directory=directory, **{"metric": "accuracy", "output": Category(3), **facts})


def shown(epoch):
    """Predictions of an epoch, the first `epoch` of which are right."""
    return torch.where(torch.arange(4) < epoch, TARGET, (TARGET + 1) % 3)


def train(directory, epochs, stop_at=None, **facts):
    """Train, and break off in an epoch after its updates, as a killed process does."""
    with suppress(InterruptedError), run_of(directory, **facts) as run:
        run.restore(counter=Counter())
        for epoch in run.epochs(epochs):
            run.update(predictions=shown(epoch), target=TARGET)
            run.checkpoint(counter=Counter())
            if epoch == stop_at:
                raise InterruptedError


def matrices(directory):
    """The confusion matrix of each kept epoch by attempt and epoch, in the order written."""
    found = [(one.attempt, one.epoch, one.parts[0].statistics) for one in read_statistics(directory)]
    return {(attempt, epoch): held["Confusion()"]["matrix"] for attempt, epoch, held in found}


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([[1.5, -0.0], [float("nan"), float("inf")]], dtype=torch.float64),
        torch.tensor(7, dtype=torch.int64),
        torch.empty(0, 3, dtype=torch.float32),
        torch.tensor([True, False]),
        torch.tensor([0.1], dtype=torch.bfloat16),
        torch.arange(6).reshape(2, 3).T,
    ],
    ids=str,
)
def test_a_tensor_comes_back_to_the_last_bit(tensor):
    """Type, shape and bytes, through strict JSON."""
    told = json.loads(json.dumps(tensor_to_json(tensor), allow_nan=False))
    back = tensor_from_json(told)
    assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
    assert tensor_to_json(back) == tensor_to_json(tensor)


@pytest.mark.parametrize(
    "told",
    [
        {"type": "object", "shape": [1], "bytes": "AA=="},
        {"type": "uint8", "shape": [1 << 40], "bytes": "AA=="},
        {"type": "uint8", "shape": [-1], "bytes": ""},
        {"type": "uint8", "shape": [1], "bytes": "no base64"},
        {"type": "int64", "shape": [0, 10**15], "bytes": ""},
        {"type": "int64", "shape": [10**40, 0], "bytes": ""},
        {"type": "uint8", "shape": [1.5], "bytes": "AA=="},
        {"type": "uint8", "shape": [1] * 100, "bytes": "AA=="},
        {"type": "uint8", "shape": [1e999], "bytes": "AA=="},
        [],
    ],
    ids=str,
)
def test_what_is_no_tensor_is_refused(told):
    """No type but plain numbers, and no more memory than there are bytes."""
    with pytest.raises(RecordError, match="not a tensor"):
        tensor_from_json(told)


def test_the_statistics_of_every_epoch_are_kept(tmp_path):
    """Epoch 0 has no row right, epoch 2 the first two; the diagonal counts them."""
    train(tmp_path, 3)
    assert [int(matrix.diagonal().sum()) for matrix in matrices(tmp_path).values()] == [0, 1, 2]
    assert list(matrices(tmp_path)) == [(1, 0), (1, 1), (1, 2)]


def test_a_run_that_goes_on_leaves_no_gap_and_no_repeat(tmp_path):
    """Each epoch of the record has one kept epoch, that of its attempt."""
    train(tmp_path, 5, stop_at=2)
    train(tmp_path, 5)
    counted = [(record.attempt, record.epoch) for record in read_epochs(tmp_path)]
    assert counted == [(1, 0), (1, 1), (2, 2), (2, 3), (2, 4)]
    assert [int(matrices(tmp_path)[key].diagonal().sum()) for key in counted] == [0, 1, 2, 3, 4]
    assert len(list(read_statistics(tmp_path))) == 5


def test_a_torn_line_is_cut_off(tmp_path):
    """What a crash left behind the last whole line is read by nobody, and the next line begins anew."""
    train(tmp_path, 2)
    path = tmp_path / STATISTICS_FILE
    with path.open("ab") as file:
        file.write(b'{"attempt": 2, "epo')
    assert len(list(read_statistics(tmp_path))) == 2
    train(tmp_path, 3)
    assert [one.epoch for one in read_statistics(tmp_path)] == [0, 1, 2]


def test_a_damaged_line_is_named(tmp_path):
    """File and line."""
    train(tmp_path, 1)
    (tmp_path / STATISTICS_FILE).write_bytes(b"{}\n")
    with pytest.raises(RecordError, match=r"statistics\.jsonl:1: not the statistics of an epoch"):
        list(read_statistics(tmp_path))


def test_small_leaves_out_what_grows_and_says_so(tmp_path):
    """The scores that roc_auc stores are left out, the matrix of accuracy is kept."""
    with Run(metric="roc_auc", output=Binary(), track=["accuracy"], directory=tmp_path) as run:
        run.update(probabilities=torch.tensor([0.1, 0.9]), target=torch.tensor([0, 1]))
    (part,) = next(read_statistics(tmp_path)).parts
    assert part.left_out == {"Scores()": GROWS}
    assert "Confusion()" in part.statistics


def test_small_has_a_bound(tmp_path, monkeypatch):
    """The smallest are kept, and what has no room is named with its size."""
    monkeypatch.setattr(kept_module, "MOST_BYTES", 60)
    train(tmp_path, 1)
    (part,) = next(read_statistics(tmp_path)).parts
    assert not part.statistics
    assert part.left_out == {"Confusion()": "it has 72 bytes, but at most 60 are stored per epoch"}


@pytest.mark.parametrize(
    ("output", "given", "label"),
    [
        (Category(3), {"logits": torch.eye(3)[[0, 1, 1, 1]], "target": TARGET}, "Scores()"),
        (Number(), {"predictions": torch.arange(4.0), "target": torch.ones(4)}, "Pooled()"),
    ],
    ids=str,
)
def test_all_keeps_every_row(output, given, label, tmp_path):
    """Whether or not a metric reads them; how many are kept is a value of the epoch."""
    metric = "rmse" if output == Number() else "accuracy"
    with run_of(tmp_path, metric=metric, output=output, statistics="all") as run:
        run.update(**given)
    (part,) = next(read_statistics(tmp_path)).parts
    assert label in part.statistics
    assert run.values["kept_rows"] == 4


def test_none_keeps_nothing(tmp_path):
    """There is no file."""
    train(tmp_path, 1, statistics="none")
    assert not (tmp_path / STATISTICS_FILE).exists()


def test_rows_that_are_not_finite_void_what_is_kept(tmp_path):
    """Of the one task that had them, with the reason; the other one keeps its own."""
    with run_of(tmp_path) as run:
        run.update(task="a", logits=torch.eye(3), target=torch.arange(3))
        run.update(task="b", logits=torch.full((1, 3), torch.nan), target=torch.tensor([0]))
    parts = {part.task: part for part in next(read_statistics(tmp_path)).parts}
    assert parts["a"].void is None and parts["a"].rows == 3
    assert "nan" in parts["b"].void


def test_what_to_keep_is_one_of_four():
    """Refused before the first trial."""
    with pytest.raises(RunError, match="statistics must be one of small, rows, all, none, got 'some'"):
        RunSpec("accuracy", output=Category(3), statistics="some")


def test_a_turned_byte_is_found_and_said(tmp_path):
    """Each bit of a line of counts that changes it; what still reads is the same statistics."""
    train(tmp_path, 1)
    path = tmp_path / STATISTICS_FILE
    line = path.read_bytes()
    (kept,) = read_statistics(tmp_path)
    stated = [part.to_json() for part in kept.parts]
    for place in range(0, len(line) - 1, 7):
        for bit in range(8):
            turned = bytearray(line)
            turned[place] ^= 1 << bit
            path.write_bytes(turned)
            try:
                found = list(read_statistics(tmp_path))
            except RecordError as err:
                assert str(err).startswith(f"{path}:1: ")
            else:
                assert [part.to_json() for one in found for part in one.parts] in (stated, [])


def test_a_line_of_an_earlier_version_is_read(tmp_path):
    """It has neither digest nor format."""
    train(tmp_path, 2)
    path, before = tmp_path / STATISTICS_FILE, matrices(tmp_path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(line.pop("digest") and line.pop("format") for line in lines)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert all(torch.equal(matrix, before[key]) for key, matrix in matrices(tmp_path).items())
    assert len(before) == 2


def stored_rows(directory):
    """The row values of each kept epoch."""
    return [one.rows for one in read_statistics(directory)]


@pytest.mark.parametrize("keeping", ["rows", "all"])
def test_row_values_of_the_optimized_metric_are_kept(tmp_path, keeping):
    """One for each row of the validation split, with what identifies the rows."""
    train(tmp_path, 3, statistics=keeping)
    rows = stored_rows(tmp_path)
    assert [one.values.tolist() for one in rows] == [[0.0] * 4, [1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]]
    assert {(one.metric, one.method) for one in rows} == {("accuracy", "rows")}
    assert len({one.digest for one in rows}) == 1


def test_small_statistics_have_no_row_values(tmp_path):
    """Nor has a run that is asked for none."""
    train(tmp_path / "small", 1)
    train(tmp_path / "none", 1, statistics="none")
    assert stored_rows(tmp_path / "small") == [None] and stored_rows(tmp_path / "none") == []


def test_row_values_belong_to_the_attempt_that_wrote_them(tmp_path):
    """A run that goes on from its checkpoint keeps those of the epochs before."""
    train(tmp_path, 3, stop_at=1, statistics="rows")
    train(tmp_path, 3, statistics="rows")
    written = {(one.attempt, one.epoch): one.rows for one in read_statistics(tmp_path)}
    kept = [written[record.attempt, record.epoch].values.mean() for record in read_epochs(tmp_path)]
    assert kept == [0.0, 0.25, 0.5]


@pytest.mark.parametrize(
    "facts",
    [
        {"metric": ["accuracy", "log_loss"]},
        {"metric": "max_error", "output": Number()},
    ],
    ids=["several", "extreme"],
)
def test_what_has_no_row_values_keeps_the_rest(tmp_path, facts):
    """Several objectives, and a metric that depends on few rows."""
    is_extreme = facts["metric"] == "max_error"
    expected = (
        pytest.warns(UserWarning, match="max_error depends on few rows") if is_extreme else nullcontext()
    )
    with expected, run_of(tmp_path, statistics="rows", **facts) as run:
        for _ in run.epochs(1):
            if run.spec.name == "max_error":
                run.update(predictions=[1.0, 2.0], target=[1.0, 1.0])
            else:
                run.update(probabilities=torch.eye(3), target=torch.tensor([0, 1, 2]))
                run.update(split="test", probabilities=torch.eye(3), target=torch.tensor([0, 1, 2]))
    (one,) = read_statistics(tmp_path)
    assert one.rows is None and one.parts


RIGHT = {"a": [1, 1, 0, 1], "b": [1, 0]}


@pytest.mark.parametrize("metric", ["accuracy", "accuracy(tasks=micro)", "b/accuracy"])
@pytest.mark.parametrize("whole", [True, False], ids=["at once", "apart"])
def test_tasks_have_row_values(tmp_path, metric, whole):
    """Their mean is the value; of a mean over tasks each adds its variance, whatever its number of rows."""
    target = {task: torch.arange(len(hits)) % 3 for task, hits in RIGHT.items()}
    predictions = {task: (target[task] + 1 - torch.tensor(hits)) % 3 for task, hits in RIGHT.items()}
    with run_of(tmp_path, metric=metric, statistics="rows") as run:
        for _ in run.epochs(1):
            if whole:
                tasks = [task for task, hits in RIGHT.items() for _ in hits]
                both = {"predictions": predictions, "target": target}
                run.update(task=tasks, **{name: torch.cat([*one.values()]) for name, one in both.items()})
            else:
                for task in reversed(RIGHT):
                    run.update(task=task, predictions=predictions[task], target=target[task])
        value = run.value
    (rows,) = stored_rows(tmp_path)
    assert rows.values.mean() == pytest.approx(value)
    a, b = (np.array(hits) for hits in RIGHT.values())
    expected = {
        "accuracy": (a.var() / 4 + b.var() / 2) / 4,
        "accuracy(tasks=micro)": np.concatenate([a, b]).var() / 6,
        "b/accuracy": b.var() / 2,
    }
    assert rows.values.var() / len(rows.values) == pytest.approx(expected[metric])


def test_rows_of_tasks_are_the_same_in_any_order_of_tasks(tmp_path):
    """Not so if a task has the targets of another."""
    digests = []
    for number, order in enumerate(["ab", "ba", "ac"]):
        with run_of(tmp_path / str(number), statistics="rows") as run:
            for _ in run.epochs(1):
                for task in order:
                    target = TARGET if task == "a" else TARGET.flip(0)
                    run.update(
                        task=task,
                        predictions=TARGET,
                        target=target,
                        by=[f"{task}{n}" for n in range(len(TARGET))],
                    )
        (rows,) = stored_rows(tmp_path / str(number))
        assert rows.clustered
        digests.append(rows.digest)
    assert digests[0] == digests[1] != digests[2]


def test_row_values_keep_the_digits_of_a_small_spread(tmp_path):
    """Around a large mean, of which float32 would leave two digits."""
    target = torch.zeros(4, dtype=torch.float64)
    with run_of(tmp_path, metric="mae", output=Number(), statistics="rows") as run:
        for _ in run.epochs(1):
            run.update(predictions=1e6 + torch.tensor([0.0, 1e-3, 2e-3, 5e-3]).double(), target=target)
    (rows,) = stored_rows(tmp_path)
    assert rows.values - 1e6 == pytest.approx([0.0, 1e-3, 2e-3, 5e-3], abs=1e-8)


@pytest.mark.parametrize("hits", [[1.0, 0, 1, 1], [1.0] * 9, [0.0], []], ids=str)
def test_rows_that_count_0_or_1_are_exact(hits):
    """A bit each, so that equal epochs stay equal: no rounding breaks a tie of two of them."""
    values = np.array(hits) + 1e-16
    mean = float(values.mean()) if hits else 0.5
    stored = StoredRows("accuracy", "rows", "d", mean, values).to_json()
    assert "deviations" not in stored
    assert StoredRows.from_json(stored).values.tolist() == hits


@pytest.mark.parametrize(
    ("values", "kind", "count"), [([0.25, 0.75, 0.5, 0.5], "deviations", 5), ([1.0, 0, 1, 1], "bits", 9)]
)
def test_row_values_that_were_changed_are_damaged(values, kind, count):
    """They do not have as many numbers as they say, or are no numbers."""
    rows = StoredRows("brier", "rows", "d", float(np.mean(values)), np.array(values))
    content = rows.to_json()
    assert StoredRows.from_json(content).values.tolist() == values
    for change in ({"count": count}, {kind: "AAAA"}, {"count": "4"}, {"mean": None}):
        with pytest.raises(RecordError, match="not row values"):
            StoredRows.from_json({**content, **change})


def digest_of(*targets):
    """The digest of the targets of some batches."""
    digest = RowsDigest()
    for target in targets:
        digest.add(target)
    return digest.text


@pytest.mark.parametrize(
    ("parts", "other"),
    [
        ((torch.tensor([0, 1]), torch.tensor([1])), torch.tensor([0, 1, 2])),
        ((np.array([0.5]), np.array([1.5, 2.5])), np.array([1.5, 0.5, 2.5])),
        ((["a", "b"], ["c d"]), ["a", "b", "c"]),
        (([["a"], ["b", "c"]], [["d"]]), [["a"], ["b"], ["c", "d"]]),
        (([[0, 2], [1]], [[]]), [[0], [2, 1], []]),
        (([{"labels": torch.tensor([1])}], [{"labels": torch.tensor([2])}]), [{"labels": torch.tensor([1])}]),
    ],
    ids=["tensor", "array", "texts", "references", "items", "boxes"],
)
def test_the_digest_of_rows_is_that_of_their_targets_in_order(parts, other):
    """Batches do not matter, other targets do, whatever their form."""
    join = {torch.Tensor: torch.cat, np.ndarray: np.concatenate}.get(type(parts[0]), lambda p: [*p[0], *p[1]])
    assert digest_of(*parts) == digest_of(join(list(parts))) != digest_of(other)
    assert digest_of(*reversed(parts)) != digest_of(*parts)


def test_equal_texts_have_one_digest_whoever_made_them():
    """A worker that reads the file again holds other objects; sparse targets may be in any order."""
    assert digest_of(["hello", "hello"]) == digest_of(["hello", "".join(["he", "llo"])])
    dense = torch.tensor([[0.0, 1.0, 1.0]])
    turned = torch.sparse_coo_tensor(
        torch.tensor([[0, 0], [2, 1]]), torch.ones(2), (1, 3), check_invariants=True
    )
    assert digest_of(dense.to_sparse()) == digest_of(turned)


def test_rows_are_summed_by_what_they_belong_to(tmp_path):
    """Over batches, in the order in which ids come first; ignored rows have no share."""
    with run_of(tmp_path, output=Category(2, ignore_index=-1), statistics="rows") as run:
        for _ in run.epochs(1):
            run.update(predictions=[1, 1, 0], target=[1, 0, -1], by=["ada", "bob", "eve"])
            run.update(predictions=[1, 1], target=[1, 1], by=np.array(["bob", "cy"]))
    (rows,) = stored_rows(tmp_path)
    assert rows.clustered and rows.values.tolist() == by_cluster([[1, 0, 1, 1]], [0, 1, 1, 2])[0].tolist()
    assert rows.values.mean() == pytest.approx(0.75)


def test_rows_of_other_users_are_other_rows(tmp_path):
    """The same targets in the same order; names do not matter, who shares one does."""
    digests = []
    for place, ids in enumerate(([1, 1, 2], ["a", "a", "b"], [1, 2, 2])):
        with run_of(tmp_path / str(place), statistics="rows") as run:
            for _ in run.epochs(1):
                run.update(predictions=[1, 1, 0], target=[1, 0, 0], by=ids)
        digests.append(stored_rows(tmp_path / str(place))[0].digest)
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    ("metric", "updates", "reason"),
    [
        ("accuracy", [[1, 2], None], "only some updates pass by="),
        ("average_precision", [[1, 2], [1, 3]], "average_precision has no value for a single row"),
        ("f1", [[1, 2], [1, 3]], None),
    ],
)
def test_rows_that_cannot_be_summed_have_a_reason(metric, updates, reason, tmp_path):
    """A warning, once; the run goes on."""
    expected = pytest.warns(UserWarning, match=reason) if reason else nullcontext()
    with expected, run_of(tmp_path, metric=metric, output=Binary(), statistics="rows") as run:
        for _ in run.epochs(1):
            for ids in updates:
                run.update(probabilities=[0.9, 0.2], target=[1, 0], by=ids)
    assert (stored_rows(tmp_path) == [None]) == bool(reason)


@pytest.mark.parametrize(("ids", "came"), [([1], "1 of them"), ("ab", "str"), (3, "int")])
def test_each_row_has_an_id(ids, came):
    """Or the update is refused before any row is measured, kept or not."""
    run = run_of(None)
    with pytest.raises(
        MetricInputError, match=f"by= needs one entry per row, and the batch has 2 rows; got {came}"
    ):
        run.update(predictions=[1, 1], target=[1, 0], by=ids)
    assert not run.updated


@pytest.mark.parametrize("ids", [[torch.tensor(3), torch.tensor(3)], [np.int64(3), 3], torch.tensor([3, 3])])
def test_equal_ids_are_one_whatever_holds_them(ids, tmp_path):
    """Tensors of one number are not told apart by who made them."""
    with run_of(tmp_path, statistics="rows") as run:
        run.update(predictions=[1, 1], target=[1, 0], by=ids)
    (rows,) = stored_rows(tmp_path)
    assert rows.values.tolist() == [0.5]


@pytest.mark.parametrize(
    "ids", [[[1], [1]], [None, 1], [float("nan"), 1.0], torch.ones(2, 2), [torch.ones(2)] * 2], ids=range(5)
)
def test_an_id_is_a_text_or_a_number(ids):
    """Or the update is refused, not the end of the epoch."""
    with pytest.raises(MetricInputError, match="by needs a text or a number for each row, its cluster; got"):
        run_of(None).update(predictions=[1, 1], target=[1, 0], by=ids)
