"""Numbers that are hard to get right: each case a line with the value that is right by definition."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from matrix import failures
from sklearn.metrics import r2_score, roc_auc_score
from torch import Tensor

from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.features import OutputFeature, parse_feature
from hpometrics.metrics.registry.register import get_metric

MANY = 2**24
"""Up to here float32 counts every whole number; a step of 1 beyond is lost."""


def measured(name: str, feature: str, *batches: dict[str, Any]) -> float:
    """The value of a metric over batches."""
    metric = get_metric(name, parse_feature(feature))
    for batch in batches:
        metric.update(**batch)
    return float(metric.compute())


def errors(value: float, times: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """A batch of equal errors."""
    return {
        "predictions": torch.full((times,), value, dtype=dtype),
        "target": torch.zeros(times, dtype=dtype),
    }


def rows(kind: str, outputs: Any, target: Any, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """A batch of outputs of one kind."""
    return {kind: torch.tensor(outputs, dtype=dtype), "target": torch.tensor(target)}


def numbers(mean: float, deviation: float, noise: float) -> dict[str, Tensor]:
    """Predictions that miss normal targets by normal errors; a noise of 0 is a prediction of its own."""
    rng = np.random.default_rng(0)
    target = mean + deviation * rng.standard_normal(1000)
    missed = target + noise * rng.standard_normal(1000)
    guessed = mean + deviation * rng.standard_normal(1000)
    made = missed if noise else guessed
    return {"predictions": torch.tensor(made), "target": torch.tensor(target)}


VALUES: list[tuple[str, str, str, list[dict[str, Any]], float]] = [
    ("count past 2^24", "mae", "number", [errors(1, MANY), errors(0.5, 5000)], (MANY + 2500) / (MANY + 5000)),
    (
        "squares past 2^24",
        "mse",
        "number",
        [errors(1, MANY), errors(100, 5000)],
        (MANY + 5e7) / (MANY + 5000),
    ),
    ("0.1 a hundred thousand times", "mae", "number", [errors(0.1, 1000, torch.float64)] * 100, 0.1),
    ("uneven batches", "mae", "number", [errors(1, 32), errors(1, 32), errors(1, 32), errors(5, 4)], 1.16),
    ("root of the pooled mean", "rmse", "number", [errors(0, 3), errors(1, 1)], 0.5),
    ("70 000 halves", "mse", "number", [errors(1, 70_000, torch.float16)], 1.0),
    ("a half of 300, squared", "mse", "number", [errors(300, 4, torch.float16)], 90_000.0),
    ("an int32 of 1e5, squared", "mse", "number", [errors(100_000, 4, torch.int32)], 1e10),
    ("uint8 0 less 255", "mae", "number", [rows("predictions", [0], [255], torch.uint8)], 255.0),
    ("bfloat16 a thousand times", "mae", "number", [errors(1, 1, torch.bfloat16)] * 1000, 1.0),
    *(
        (
            f"whole numbers past 2^53 by {name}",
            name,
            "number",
            [rows("predictions", [2**53 + 1], [2**53], torch.int64)],
            1.0,
        )
        for name in ("mae", "mse", "rmse", "bias", "max_error")
    ),
    *(
        (
            f"{name} of {value:g}",
            name,
            "number",
            [errors(value, 4, torch.float64), errors(value, 1, torch.float64)],
            value,
        )
        for name, value in product(("rmse", "mae", "median_absolute_error"), (1e-200, 1e200, 1.5e308))
    ),
    *(
        (f"mse of {value:g}", "mse", "number", [errors(value, 1, torch.float64)] * 3, value**2)
        for value in (1e-150, 1e150)
    ),
    *(
        (f"{name} of {value:g}", name, "number", [errors(value, 3, torch.float64)] * 2, value)
        for name, value in product(
            ("rmsle", "rmsle(clip=true)", "rmsle(multioutput=pooled)"), (1e-310, 1e-200, 1e-160, 1e-20)
        )
    ),
    (
        "small logarithms beside large ones",
        "rmsle",
        "number",
        [errors(value, 2, torch.float64) for value in (1e-200, 1.0, 1e-170)],
        math.log(2) / 3**0.5,
    ),
    (
        "a huge error beside small ones",
        "rmse",
        "number",
        [errors(1, 2, torch.float64), errors(1e200, 2, torch.float64), errors(1e-200, 4, torch.float64)],
        0.5e200,
    ),
    (
        "logits at the ends of float32",
        "log_loss",
        "category(num_classes=2)",
        [rows("logits", [[3e38, -3e38], [3e38, -3e38]], [1, 0])],
        float(torch.tensor(3e38)),
    ),
    (
        "int64 end to end",
        "mae",
        "number",
        [rows("predictions", [2**63 - 1], [-(2**63)], torch.int64)],
        2.0**64,
    ),
    *(
        (
            f"a direction of {size:g}",
            "cosine_similarity",
            "vector(size=2)",
            [dict.fromkeys(("predictions", "target"), torch.full((1, 2), size, dtype=torch.float64))],
            1.0,
        )
        for size in (5e-324, 1e-310, 1e-200, 1e200, 1.5e308)
    ),
    ("sure and wrong at 3e38", "log_loss", "binary", [rows("logits", [-3e38, 3e38], [1, 0])], 3e38),
    ("all tied", "roc_auc", "binary", [rows("logits", [1, 1, 1, 1], [0, 1, 0, 1])], 0.5),
    ("three tied", "roc_auc", "binary", [rows("logits", [1, 2, 2, 2, 3, 3], [0, 0, 0, 1, 1, 1])], 8 / 9),
    ("a sigmoid would tie", "roc_auc", "binary", [rows("logits", [18, 25, 32, 40], [0, 0, 1, 1])], 1.0),
    ("scores that huddle", "roc_auc", "binary", [rows("probabilities", [0.99801, 0.99802], [0, 1])], 1.0),
    ("one class", "roc_auc", "binary", [rows("logits", [1, 2], [1, 1])], math.nan),
    ("one class, all right", "mcc", "binary", [rows("predictions", [1, 1], [1, 1], torch.int64)], math.nan),
    ("sure and wrong", "log_loss", "binary", [rows("logits", [-1000], [1])], 1000.0),
    ("sure and right", "log_loss", "category", [rows("logits", [[1e4, 0, -1e4]], [0])], 0.0),
    ("all items tied", "roc_auc", "category", [rows("logits", [[1, 1], [1, 1]], [0, 1])], 0.5),
    ("perfect", "perplexity", "text", [rows("logits", [[[99, 0, 0], [0, 0, 99]]], [[0, 2]])], 1.0),
    ("even", "perplexity", "text", [rows("logits", [[[0.0] * 50, [0.0] * 50]], [[7, 3]])], 50.0),
]
"""What goes wrong, metric, output, batches, and what is right."""


@pytest.mark.parametrize(
    ("name", "feature", "batches", "right"), [row[1:] for row in VALUES], ids=[row[0] for row in VALUES]
)
def test_the_value_is_right(name: str, feature: str, batches: list[dict[str, Any]], right: float):
    """A value that float32 sums, absolute tolerances or a mean of means get wrong is right to 1e-6."""
    assert measured(name, feature, *batches) == pytest.approx(right, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize(
    ("mean", "deviation", "noise"), [(1e6, 1, 0.1), (1e4, 1, 0.1), (0, 1e-3, 0), (0, 1e-4, 0), (4096, 1, 0.5)]
)
@pytest.mark.parametrize("size", [1000, 37])
def test_r2_knows_no_scale(mean: float, deviation: float, noise: float, size: int):
    """R2 far from 0, and of tiny targets, is that of scikit-learn in float64."""
    batch = numbers(mean, deviation, noise)
    parts = [{k: v[i : i + size] for k, v in batch.items()} for i in range(0, 1000, size)]
    right = r2_score(batch["target"], batch["predictions"])
    assert measured("r2", "number", *parts) == pytest.approx(right, rel=1e-9)
    if noise:
        right = np.corrcoef(batch["target"], batch["predictions"])[0, 1]
        assert measured("pearson", "number", *parts) == pytest.approx(right, rel=1e-9)


class Exact:
    """Moments of pairs of numbers in fractions, which neither overflow nor round."""

    def __init__(self, preds: list[float], target: list[float]) -> None:
        self.preds, self.target = [*map(Fraction, preds)], [*map(Fraction, target)]
        self.errors = [p - t for p, t in zip(self.preds, self.target, strict=True)]
        self.square = mean_of([error**2 for error in self.errors])

    def cross(self, first: list[Fraction], second: list[Fraction]) -> Fraction:
        """The mean product of the gaps from both means."""
        ours, theirs = mean_of(first), mean_of(second)
        return mean_of([(a - ours) * (b - theirs) for a, b in zip(first, second, strict=True)])

    def values(self) -> dict[str, float]:
        """The value of each metric that is built on second moments."""
        preds, target, errors = (self.cross(x, x) for x in (self.preds, self.target, self.errors))
        cross, largest = self.cross(self.preds, self.target), max(map(abs, self.errors))
        offset = (mean_of(self.preds) - mean_of(self.target)) ** 2
        cubes = mean_of([(abs(error) / largest) ** 3 for error in self.errors])
        return {
            "r2": float(1 - self.square / target),
            "adjusted_r2(features=1)": float(1 - self.square / target * Fraction(len(self.errors) - 1)
                                             / (len(self.errors) - 2)),
            "d2_tweedie": float(1 - self.square / target),
            "rse": float(self.square / target),
            "explained_variance": float(1 - errors / target),
            "pearson": math.sqrt(cross**2 / (preds * target)) * (1 if cross > 0 else -1),
            "concordance": float(2 * cross / (preds + target + offset)),
            "nrmse(normalization=std)": math.sqrt(self.square / target),
            "rmse": math.sqrt(self.square / largest**2) * float(largest),
            "minkowski(p=3)": float(cubes) ** (1 / 3) * float(largest),
        }  # fmt: skip


def mean_of(values: list[Fraction]) -> Fraction:
    """The mean."""
    return sum(values, Fraction(0)) / len(values)


@pytest.mark.parametrize(
    "scales",
    [
        [(1e-200, 1e-200)], [(1e200, 1e200)], [(1e-160, 1e-160), (1e-130, 1e-130)], [(5e-320, 5e-320)],
        [(1.0, 1.0), (1e200, 1e200)], [(1e200, 1e200), (1e-200, 1e-200)],
        [(1e-200, 1e-200), (1e-100, 1e-100)], [(1e-100, 1e-160)], [(1e100, 1e180)],
        [(3e-140, 1e-140), (1e-130, 2e-130), (1e-170, 1e-170)],
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("merged", [False, True], ids=["updated", "merged"])
def test_second_moments_of_any_size(scales: list[tuple[float, float]], merged: bool):
    """Values whose squares are no float64, and batches of sizes far apart, give what fractions give."""
    rng = np.random.default_rng(0)
    preds = [rng.standard_normal(7) * size for size, _ in scales]
    target = [rng.standard_normal(7) * size for _, size in scales]
    right = Exact(list(np.concatenate(preds)), list(np.concatenate(target))).values()

    def check(name: str) -> None:
        parts = []
        for p, t in zip(preds, target, strict=True):
            parts.append(get_metric(name, "number"))
            parts[-1].update(predictions=torch.tensor(p), target=torch.tensor(t))
        if not merged:
            parts = [get_metric(name, "number")]
            for p, t in zip(preds, target, strict=True):
                parts[0].update(predictions=torch.tensor(p), target=torch.tensor(t))
        first, *others = parts
        for other in others:
            first.merge_state(other)
        slack = 0.0 if name in ("rmse", "minkowski(p=3)") else 1e-12  # of a share of variation near 0 or 1
        assert float(first.compute()) == pytest.approx(right[name], rel=1e-6, abs=slack)

    assert failures(list(right), check) == []


def weighed(values: list[float], weight: float) -> dict[str, Tensor]:
    """A batch of predictions and targets, the first half and the second of the values."""
    half = len(values) // 2
    made = torch.tensor(values, dtype=torch.float64)
    weights = torch.full((half,), weight, dtype=torch.float64)
    return {"predictions": made[:half], "target": made[half:], "sample_weight": weights}


@pytest.mark.parametrize("outside", [1.0, 1e17, 1e160, 1e-200], ids=str)
@pytest.mark.parametrize("size", [1.0, 1e-200, 1e200], ids=str)
def test_rows_that_weigh_nothing_leave_second_moments(outside: float, size: float):
    """Wherever they stand, and however large they are: first or last, in a batch of their own or not."""
    inside = weighed([size * one for one in (1.5, 2.0, 3.5, 1.0, 2.5, 3.0)], 1.0)
    nothing = weighed([outside, outside], 0.0)

    def check(name: str) -> None:
        right = measured(name, "number", inside)
        for pair in ((nothing, inside), (inside, nothing)):
            joined = {key: torch.cat([part[key] for part in pair]) for key in inside}
            assert measured(name, "number", *pair) == pytest.approx(right, rel=1e-12, abs=0.0)
            assert measured(name, "number", joined) == pytest.approx(right, rel=1e-12, abs=0.0)

    names = list(Exact([1.5, 2.0, 3.5], [1.0, 2.5, 3.0]).values())
    assert failures([*names, "d2_tweedie(power=1.5)", "nrmse(normalization=mean)"], check) == []


@pytest.mark.parametrize("base", [2**53, 2**62 + 2**61, 2**63 - 20_000, -(2**63) + 20_000])
def test_second_moments_of_whole_numbers_at_the_ends(base: int):
    """They are those of numbers near 0, over several batches."""
    rows = [([1000], [0]), ([-3000, 4000], [3000, 9000]), ([500, 0, 7], [499, 2, 3])]

    def check(name: str) -> None:
        def over(offset: int) -> float:
            return measured(name, "number", *(
                {"predictions": torch.tensor(p) + offset, "target": torch.tensor(t) + offset} for p, t in rows
            ))  # fmt: skip

        assert over(base) == pytest.approx(over(0), rel=1e-9)

    names = [
        "r2", "d2_tweedie", "rse", "explained_variance", "pearson", "concordance", "bias", "rae",
        "d2_pinball", "nrmse(normalization=std)", "median_absolute_error", "spearman", "kendall",
    ]  # fmt: skip
    assert failures(names, check) == []
    mean = {"predictions": torch.tensor([7 * 10**18] * 2), "target": torch.tensor([6 * 10**18] * 2)}
    assert measured("nrmse(normalization=mean)", "number", mean) == pytest.approx(1 / 6)


def test_columns_of_sizes_far_apart():
    """Each has a unit of its own; they are averaged, or weighed by how much they vary."""
    batch = numbers(0, 1, 0.5)
    sizes = torch.tensor([1e-200, 1.0, 1e200], dtype=torch.float64)
    wide = {name: values[:, None] * sizes for name, values in batch.items()}
    right = measured("r2", "number", batch)
    for name in ("r2", "r2(multioutput=variance_weighted)", "explained_variance"):
        one = measured(name, "number", batch)
        assert measured(name, "vector(size=3)", wide) == pytest.approx(one, rel=1e-9), name
    root = measured("rmse", "number", batch)
    assert measured("minkowski(p=2)", "vector(size=3)", wide) == pytest.approx(1e200 * root / 3**0.5)
    assert right == pytest.approx(r2_score(batch["target"], batch["predictions"]))


def test_the_ranks_of_scores_that_huddle():
    """Scores within [0.998, 0.999] are told apart."""
    rng = np.random.default_rng(0)
    target = rng.integers(0, 2, 2000)
    scores = 0.998 + 1e-3 * np.clip(0.3 * target + 0.7 * rng.random(2000), 0, 1)
    batch = {"probabilities": torch.tensor(scores), "target": torch.tensor(target)}
    assert measured("roc_auc", "binary", batch) == pytest.approx(roc_auc_score(target, scores), abs=1e-12)


RANKING = ("average_precision", "eer", "fpr_at_tpr", "gini", "ks", "log_auc", "roc_auc")
"""Metrics of a category that read the order of all rows, class by class, as those of a binary output do."""


def test_ranks_do_not_tie_where_the_model_is_sure():
    """Margins of 30 and 1e4: of each class the value of a binary output with the exact log-odds."""
    generator = torch.Generator().manual_seed(0)
    order = torch.randn(300, 12, generator=generator, dtype=torch.float64)
    noise = torch.randn(300, 12, generator=generator, dtype=torch.float64)

    def check(case):
        name, dtype, classes, margin = case
        logits = (order[:, :classes] * margin).to(dtype)
        target = (order + noise)[:, :classes].argmax(1)
        of_each = []
        for index in range(classes):
            others = torch.cat([logits[:, :index], logits[:, index + 1 :]], 1).double().logsumexp(1)
            odds = {"logits": logits[:, index].double() - others, "target": target == index}
            of_each.append(measured(name, "binary", odds))
        value = measured(f"{name}(average=macro)", "category", {"logits": logits, "target": target})
        assert value == pytest.approx(np.nanmean(of_each), abs=1e-9)  # some classes have no row

    cases = product(RANKING, (torch.float32, torch.float64), (2, 3, 12), (30.0, 1e4))
    assert failures(cases, check) == []


def test_one_against_one_does_not_tie_where_the_model_is_sure():
    """Of two classes it is the area of either."""
    batch = rows("logits", [[0.0, 20.0], [0.0, 30.0], [0.0, 25.0]], [0, 1, 0])
    for name in ("roc_auc", "roc_auc_ovo", "average_precision"):
        assert measured(f"{name}(average=macro)", "category", batch) == 1.0


@pytest.mark.parametrize("classes", [2, 3, 4, 10, 17, 64, 65, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("block", ["log_probabilities", "class_scores"])
def test_equal_rows_have_equal_probabilities(classes: int, dtype: torch.dtype, block: str):
    """Wherever a row lies, and however many lie beside it, what ranks it is the same to the last bit."""
    row = 4 * torch.randn(1, classes, dtype=dtype, generator=torch.Generator().manual_seed(classes))
    output = parse_feature("category")
    alone = _block(output, row, block)
    for size in (2, 7, 63, 64, 65, 100, 1001):
        assert torch.equal(_block(output, row.expand(size, classes), block), alone.expand(size, classes))


def _block(output: OutputFeature, logits: Tensor, name: str) -> Tensor:
    batch = Outputs(output, logits=logits, target=torch.zeros(len(logits), dtype=torch.int64))
    return getattr(batch, name)


@pytest.mark.parametrize("name", ["roc_auc", "average_precision", "eer", "ks", "roc_auc_ovo", "fpr_at_tpr"])
def test_rows_tie_in_every_cut(name: str):
    """Equal float32 rows of different batches tie, so that ranks are the same however the data was cut."""
    random = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(23, 10, generator=random).repeat(9, 1)[:201]
    target = torch.randint(10, (201,), generator=random)
    values = {
        sizes: measured(
            name,
            "category",
            *(
                {"logits": part, "target": right}
                for part, right in zip(logits.split(sizes), target.split(sizes), strict=True)
            ),
        )
        for sizes in (201, 100, 70, 64, 7, 1)
    }
    assert values == dict.fromkeys(values, pytest.approx(values[201], abs=1e-12))


@pytest.mark.parametrize(
    "name",
    [
        *("r2", "pearson", "spearman", "concordance", "explained_variance"),
        *("rse", "rae", "d2_absolute_error", "d2_pinball", "d2_tweedie"),
    ],
)
@pytest.mark.parametrize("factor", [1e-30, 1e-3, 1e30])
def test_only_the_ratio_of_weights_counts(name: str, factor: float):
    """Weights that add up to less than 2 rows, or to 1e30, give the value of weights near 1."""
    batch = numbers(10, 1, 0.5)
    weight = torch.rand(1000, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.1
    right = measured(name, "number", {**batch, "sample_weight": weight})
    got = measured(name, "number", {**batch, "sample_weight": factor * weight})
    assert got == pytest.approx(right, rel=1e-9)


@pytest.mark.parametrize("name", ["roc_auc", "average_precision", "gini"])
@pytest.mark.parametrize("output", ["binary", "category(num_classes=2)"])
def test_rows_that_weigh_nothing_are_no_rows(name: str, output: str):
    """A micro average over rows of weight 0 is nan, not the worst value there is."""
    logits = torch.tensor([0.1, 0.2, 0.3])
    batch = {"logits": logits if output == "binary" else torch.stack([-logits, logits], 1)}
    batch |= {"target": torch.tensor([0, 1, 0]), "sample_weight": torch.zeros(3)}
    assert math.isnan(measured(f"{name}(average=micro)", output, batch))


@pytest.mark.parametrize("output", ["binary", "category(num_classes=2)"])
@pytest.mark.parametrize(
    "name", ["accuracy", "zero_one_loss", "hamming", "balanced_accuracy", "geometric_mean", "log_loss"]
)
def test_it_is_said_that_no_row_counted(name: str, output: str):
    """Rows that all weigh nothing give nan, and the reason."""
    metric = get_metric(name, output)
    logits = torch.zeros(3) if output == "binary" else torch.zeros(3, 2)
    metric.update(logits=logits, target=torch.tensor([0, 1, 0]), sample_weight=torch.zeros(3))
    assert math.isnan(float(metric.compute()))
    assert metric.undefined_reason == "no rows were counted"
