"""The numbers of the systems that the project learns from: each as it is printed there, by name, here.

Where a system's own number is wrong the row has the right one, and says what the system gives.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from hpometrics.metrics.registry.register import get_metric
from hpometrics.testing.subjects import fed, value_of

Batch = dict[str, Any]


class Anchor(NamedTuple):
    """One number: whose it is, what it shows, how it is asked for, and the text that it is printed as."""

    system: str
    shows: str
    name: str
    output: str
    batches: Batch | list[Batch]
    value: str
    source: str


def decided(predictions: list[Any], target: list[Any]) -> Batch:
    """Decisions and what was right."""
    return {"predictions": torch.tensor(predictions), "target": torch.tensor(target)}


def chances(probabilities: list[Any], target: list[Any]) -> Batch:
    """Probabilities and what was right."""
    return {"probabilities": torch.tensor(probabilities).double(), "target": torch.tensor(target)}


def texts(predictions: str | list[str], *references: Any, **extras: Any) -> Batch:
    """Texts and their references."""
    found = [predictions] if isinstance(predictions, str) else predictions
    return {"predictions": found, "target": list(references) or [""] * len(found), **extras}


def counted(tp: int, fp: int, fn: int, tn: int) -> Batch:
    """Rows of each kind, decided 1 or 0."""
    return decided([1] * (tp + fp) + [0] * (fn + tn), [1] * tp + [0] * fp + [1] * fn + [0] * tn)


def of_matrix(rows: list[list[int]]) -> Batch:
    """Rows of a table whose rows are predictions and whose columns are what was right."""
    cells = [(i, j) for i, row in enumerate(rows) for j, many in enumerate(row) for _ in range(many)]
    return decided([i for i, _ in cells], [j for _, j in cells])


def tokens_of_loss(loss: float) -> Batch:
    """Four tokens, each with this negative log likelihood."""
    p = math.exp(-loss)
    chance = torch.tensor([p, max(1 - p, 1e-300)], dtype=torch.float64).expand(2, 2, 2)
    return {"logits": chance.log(), "target": torch.zeros(2, 2).long()}


def next_tokens(p: float, rows: int) -> Batch:
    """Rows of two tokens, the second of which had this probability after the first."""
    chance = torch.tensor([[p, 1 - p], [0.5, 0.5]], dtype=torch.float64).expand(rows, 2, 2)
    return {"probabilities": chance, "target": torch.tensor([[1, 0]]).expand(rows, 2)}


def found(labels: list[int], second: list[int]) -> Tensor:
    """Logits of three classes: the first guess, the second, and last the third."""
    scores = torch.zeros(len(labels), 3)
    for row, (first, other) in enumerate(zip(labels, second, strict=True)):
        scores[row, first], scores[row, other] = 2.0, 1.0
    return scores


NINE_OF_TEN = {"logits": found([0] * 10, [2] * 10), "target": torch.tensor([0] * 9 + [1])}
SIX_AND_EIGHT = chances([0.6, 0.8, 0.6, 0.2], [1, 1, 0, 0])
RECONSTRUCTED = {
    **decided([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]], [[1.0, 1.0], [2.0, 4.0], [6.0, 7.0]]),
    "mask": torch.tensor([[1, 1], [1, 0], [0, 1]]),
}
FOUR = decided([2.5, 0.0, 2.0, 8.0], [3.0, -0.5, 2.0, 7.0])
TABLE = of_matrix([[30, 0, 60], [15, 35, 10], [0, 0, 50]])
ONE_OF_8069 = texts(["how may i help you ?"] * 8069, "How may I help you", *["no"] * 8068)
SLOTS = texts(["a", "b"], "a", "b", slots=[{"x": "1", "y": "2"}, {}], gold_slots=[{"x": "1", "y": "3"}, {}])
RANKED = texts(["a", "a"], "the B!", "c", candidates=[["a", "b", "c"], ["a", "b", "d"]])

LUDWIG = [
    ("a perfect model is perplexed by nothing; 19.0 there", "perplexity", "text", tokens_of_loss(0.0),
     "1.0", "PerplexityMetric, which softmaxes probabilities"),
    ("loss 0.08; 3.36 there", "perplexity", "sequence", tokens_of_loss(0.08), "1.08", "PerplexityMetric"),
    ("the next token, pooled over uneven batches before exp", "next_token_perplexity", "text",
     [next_tokens(0.25, 3), next_tokens(1.0, 1)], "2.828427", "NextTokenPerplexityMetric"),
    ("a perfect next token; softmaxed again there", "next_token_perplexity", "text", next_tokens(1.0, 4),
     "1.0", "NextTokenPerplexityMetric"),
    ("128 rows right, 2 wrong; 0.50 there", "accuracy", "category",
     [decided([1] * 128, [1] * 128), decided([0, 0], [1, 1])], "0.985", "MeanMetric, by means of batches"),
    ("nine rows of ten; the mean over classes there", "accuracy", "category", NINE_OF_TEN, "0.90",
     "CategoryAccuracy"),
    ("what it calls accuracy must be, as in own", "balanced_accuracy", "category", NINE_OF_TEN, "0.50",
     "CategoryAccuracy"),
    ("a class that is only predicted counts as 0", "recall(average=macro)", "category(num_classes=3)",
     decided([0, 2, 1], [0, 0, 1]), "0.50", "CategoryAccuracy"),
    ("nine rows of ten; 0.50 there", "hits_at_k(k=2)", "category", NINE_OF_TEN, "0.90", "HitsAtKMetric"),
    ("the threshold of the output counts; 0.67 there", "precision", "binary(threshold=0.7)", SIX_AND_EIGHT,
     "1.0", "PrecisionMetric, fixed at 0.5"),
    ("the threshold of the output counts; 1.0 there", "recall", "binary(threshold=0.7)", SIX_AND_EIGHT,
     "0.5", "RecallMetric, fixed at 0.5"),
    ("the threshold of the output counts; 0.5 there", "specificity", "binary(threshold=0.7)", SIX_AND_EIGHT,
     "1.0", "SpecificityMetric, fixed at 0.5"),
    ("one class has no area; 0.0 there", "roc_auc", "binary", chances([0.2, 0.7], [1, 1]),
     "nan: the target has a single class", "BinaryAUROCMetric"),
    ("a class without rows is left out; counted 0 there", "roc_auc", "category",
     chances([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1]], [0, 1]), "1.0", "CategoryAUROCMetric"),
    ("a row with nothing to find counts; left out there, 0.75", "jaccard(average=samples)", "set",
     decided([[1, 0], [1, 1], [0, 0]], [[1, 0], [1, 0], [0, 0]]), "0.5", "JaccardMetric"),
    ("what stands behind the end is no error; 0 there", "sequence_accuracy", "sequence",
     decided([[1, 2, 9], [1, 2, 3]], [[1, 2, -100], [1, 2, 3]]), "1.0", "SequenceAccuracyMetric"),
    ("the average over sequences", "token_accuracy(average=sequence)", "sequence",
     decided([[1, 2, 3, 4], [5, 0, 0, 0]], [[1, 2, 3, 9], [5, -100, -100, -100]]), "0.875",
     "Add a metric, step 1"),
]  # fmt: skip

TABNET = [
    ("the first example", "accuracy", "binary", decided([0, 1, 0, 0], [0, 1, 1, 0]), "0.75", "Accuracy"),
    ("the second example", "auc", "binary", chances([0.1, 0.8, 0.7, 0.2], [0, 1, 1, 0]), "1.0", "AUC"),
    ("the third example", "balanced_accuracy", "binary", decided([0, 1, 0, 0], [0, 1, 1, 0]), "0.75",
     "Balanced Accuracy"),
    ("the fourth example", "logloss", "binary", chances([0.1, 0.9], [0, 1]), "0.105", "Log Loss"),
    ("regression", "mae", "number", FOUR, "0.5", "MAE"),
    ("regression", "mse", "number", FOUR, "0.375", "MSE"),
    ("regression", "rmse", "number", FOUR, "0.612372", "RMSE"),
    ("regression; .120 is printed there, and wrong", "rmsle", "number",
     decided([2.5, 5.0, 4.0, 8.0], [3.0, 5.0, 2.5, 7.0]), "0.199324", "RMSLE"),
    ("a prediction below 0 is taken as 0", "rmsle(clip=true)", "number", decided([-1.0, 3.0], [0.0, 3.0]),
     "0.0", "RMSLE"),
    ("the pretrainer", "unsup_loss", "vector", RECONSTRUCTED, "0.0661376", "UnsupervisedLoss"),
    ("the pretrainer", "unsup_loss_numpy", "vector", RECONSTRUCTED, "0.0661376", "UnsupervisedNumpyLoss"),
]  # fmt: skip

PARLAI = [
    ("one of 8069 responses", "accuracy", "text", ONE_OF_8069, ".0001239", "the first table"),
    ("ppl of the loss beside it", "ppl", "text", tokens_of_loss(2.979), "19.67", "BlenderBot on DailyDialog"),
    ("ppl of the loss of a task", "ppl", "text", tokens_of_loss(5.288), "197.9", "the log of convai2"),
    ("ppl of the loss of a task", "ppl", "text", tokens_of_loss(4.868), "130", "the log of dailydialog"),
    ("words alone count", "accuracy", "text", texts("The cat, a dog; AN owl!", "cat dog owl"), "1",
     "normalize_answer"),
    ("nothing is right twice", "accuracy", "text", texts("a", ["the"]), "1", "ExactMatchMetric"),
    ("no words have no overlap", "f1", "text", texts("A", "A"), "0", "F1Metric"),
    ("a word counts as often as it is there", "f1", "text", texts("x x x", "x"), ".5", "F1Metric"),
    ("a word counts as often as it is there", "precision", "text", texts("x x x", "x"), ".333", "F1Metric"),
    ("the best reference", "f1", "text", texts("x y", ["x", "x y z w"]), ".667", "F1Metric"),
    ("the best reference, for each apart", "precision", "text", texts("x y", ["x", "x y z w"]), "1",
     "F1Metric"),
    ("the best reference, for each apart", "recall", "text", texts("x y", ["x", "x y z w"]), "1",
     "F1Metric"),
    ("three words for two", "f1", "text", texts("hello there world", "hello world"), ".8", "F1Metric"),
    ("two words are equal in two orders", "bleu_2", "text", texts("good day", "good day"), "1", "BleuMetric"),
    ("two words have no order of three", "bleu_3", "text", texts("good day", "good day"), ".0001",
     "BleuMetric"),
    ("two words have no order of four", "bleu-4", "text", texts("good day", "good day"), ".000001",
     "BleuMetric"),
    ("one word of four is wrong", "bleu_1", "text", texts("w x y z", "w x q z"), ".75", "BleuMetric"),
    ("one word of four is wrong", "bleu_2", "text", texts("w x y z", "w x q z"), ".5", "BleuMetric"),
    ("one word of four is wrong", "bleu_3", "text", texts("w x y z", "w x q z"), ".00005", "BleuMetric"),
    ("one word of four is wrong", "bleu_4", "text", texts("w x y z", "w x q z"), ".0000005946", "BleuMetric"),
    ("different words of one text", "intradistinct_1", "text", texts("to be or not to be"), ".6667",
     "IntraDistinctMetric"),
    ("different pairs of one text", "intradistinct_2", "text", texts("to be or not to be"), ".8",
     "IntraDistinctMetric"),
    ("different words of all texts", "interdistinct_1", "text", texts(["to be or", "not to be"]), ".6667",
     "InterDistinctMetric"),
    ("token ids, in percent", "fairseq_bleu", "text", decided([[4, 5, 6, 7]], [[4, 5, 6, 7]]), "100",
     "FairseqBleuMetric"),
    ("the first candidate", "hits@1", "text", RANKED, "0", "hits@1"),
    ("the first five candidates", "hits@5", "text", RANKED, ".5", "hits@5"),
    ("the second place, and one behind the last", "rank", "text", RANKED, "3", "rank"),
    ("one over the place", "mrr", "text", texts("a", "b", candidates=[["a", "b"]]), ".5", "mrr"),
    ("exactly the right slots", "jga", "text", SLOTS, ".5", "JGA"),
    ("the turn without slots", "jga_empty", "text", SLOTS, "1", "JGA"),
    ("the turn with slots", "jga_noempty", "text", SLOTS, "0", "JGA"),
    ("one slot of two", "slot_p", "text", SLOTS, ".5", "slot_p"),
    ("one slot of two", "slot_f1", "text", SLOTS, ".5", "SlotF1Metric"),
    ("one class has no area; 0.0 there", "auc", "binary", chances([0.3, 0.4], [0, 0]),
     "nan: the target has a single class", "AUCMetrics"),
]  # fmt: skip

PREDICTIONIO = [
    ("lambda 10", "precision", "binary", counted(23, 3, 2, 9), "0.8846153846153846", "Iteration 0"),
    ("lambda 100", "precision", "binary", counted(50, 13, 2, 9), "0.7936507936507936", "Iteration 1"),
    ("lambda 1000", "precision", "binary", counted(50, 83, 0, 9), "0.37593984962406013", "Iteration 2"),
    ("only positive predictions count", "precision", "binary", counted(1, 1, 7, 5), "0.5",
     "Example 2, the table of four cases"),
    ("nothing was predicted positive; 0.0 there", "precision", "binary", counted(0, 0, 1, 1),
     "nan: there is no row predicted positive", "OptionAverageMetric of don't cares alone"),
    ("each correct tuple 1.0, otherwise 0.0", "accuracy", "category", TABLE, "0.575", "Example 1"),
    ("of one label", "precision(class=0)", "category", TABLE, "0.3333", "Choosing a metric"),
    ("of one label", "recall(class=0)", "category", TABLE, "0.6667", "Choosing a metric"),
]  # fmt: skip

SYSTEMS = {"Ludwig": LUDWIG, "pytorch-tabnet": TABNET, "ParlAI": PARLAI, "PredictionIO": PREDICTIONIO}
ANCHORS = [Anchor(system, *row) for system, rows in SYSTEMS.items() for row in rows]


def shown(anchor: Anchor) -> str:
    """What a failure is called."""
    return f"{anchor.system}-{anchor.name}-{anchor.shows}"


@pytest.mark.parametrize("anchor", ANCHORS, ids=shown)
def test_a_number_is_what_it_is_printed_as(anchor):
    """To the last digit printed; what is undefined is nan with the reason."""
    batches = anchor.batches if isinstance(anchor.batches, list) else [anchor.batches]
    metric = fed(get_metric(anchor.name, anchor.output), *batches)
    value = value_of(metric).item()
    if anchor.value.startswith("nan"):
        assert math.isnan(value)
        assert metric.undefined_reason.startswith(anchor.value.removeprefix("nan: "))
        return
    decimals = len(anchor.value.partition(".")[2])
    assert abs(value - float(anchor.value)) <= 0.5 * 10**-decimals + 1e-15


@pytest.mark.parametrize(("system", "names"), [
    ("pytorch-tabnet", {"accuracy", "auc", "balanced_accuracy", "logloss", "mae", "mse", "rmse", "rmsle",
                        "unsup_loss", "unsup_loss_numpy"}),
    ("Ludwig", {"perplexity", "next_token_perplexity", "accuracy", "hits_at_k", "precision", "recall",
                "specificity", "roc_auc", "jaccard", "sequence_accuracy"}),
    ("ParlAI", {"accuracy", "f1", "precision", "recall", "bleu-4", "ppl", "hits@1", "rank", "mrr", "jga"}),
])  # fmt: skip
def test_the_table_is_complete(system, names):
    """Pytorch-tabnet's ten, what Ludwig measures in another way, ParlAI's measures of texts."""
    assert names <= {row[1].partition("(")[0] for row in SYSTEMS[system]}


def test_every_row_says_where_its_number_is_from():
    """A system, what it shows and a place; no number stands twice for the same."""
    assert all(anchor.shows and anchor.source for anchor in ANCHORS)
    assert len({(anchor.system, anchor.name, anchor.shows, anchor.source) for anchor in ANCHORS}) == len(
        ANCHORS
    )
