"""Metrics of sequences: padding never counts, every token of the epoch weighs the same."""

from __future__ import annotations

import math

import pytest
import torch
import torchmetrics.functional.text as reference
from torch import Tensor

from hpometrics.exceptions import MetricInputError, MetricNameError
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Sequence, Text
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric

NAMES = ["token_accuracy", "token_accuracy(average=sequence)", "sequence_accuracy", "perplexity"]
PAD = -100


def draw(rows: int = 40, length: int = 7, words: int = 5) -> tuple[Tensor, Tensor]:
    """Draw logits, and targets padded at the end; some sequences are all padding."""
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(words, (rows, length), generator=generator)
    lengths = torch.randint(length + 1, (rows, 1), generator=generator)
    logits = torch.randn(rows, length, words, generator=generator).scatter_add(
        -1, target.unsqueeze(-1), torch.full((rows, length, 1), 4.0)
    )
    return logits, target.masked_fill(torch.arange(length) >= lengths, PAD)


def value(name: str, preds: Tensor, target: Tensor, sizes: list[int] | None = None) -> float:
    """Measure the output that the metric reads, in batches of these sizes."""
    metric = get_metric(name, Sequence())
    for p, t in zip(preds.split(sizes or len(preds)), target.split(sizes or len(target)), strict=True):
        metric.update(p, t)
    return metric.compute().item()


def test_accuracies_by_hand():
    """2 of 3 tokens, 1 of 1, 0 of 1: tokens 3/5, sequences (2/3 + 1 + 0)/3, whole sequences 1/3."""
    preds = torch.tensor([[5, 6, 7], [8, 1, 2], [4, 4, 4]])
    target = torch.tensor([[5, 6, 9], [8, PAD, PAD], [3, PAD, PAD]])
    assert value("token_accuracy", preds, target) == pytest.approx(3 / 5)
    assert value("token_accuracy(average=sequence)", preds, target) == pytest.approx(5 / 9)
    assert value("sequence_accuracy", preds, target) == pytest.approx(1 / 3)


def test_perplexity_by_hand():
    """The likelihoods 1/2, 1/8 and 1/4 have the geometric mean 1/4; the padded one counts for nothing."""
    likelihood = torch.tensor([[0.5, 0.125], [0.25, 0.001]])
    probabilities = torch.stack([likelihood, 1 - likelihood], -1)
    assert value("perplexity", probabilities, torch.tensor([[0, 0], [0, PAD]])) == pytest.approx(4.0)


def test_a_perfect_model():
    """Everything right is 1, and a perplexity of exactly 1 (twice a softmax would make it 2.7 or more)."""
    _, target = draw()
    sure = torch.nn.functional.one_hot(target.clamp(min=0), 5)
    metrics = MetricCollection(NAMES, output=Sequence(vocab_size=5))
    metrics.update(probabilities=sure.float(), target=target)
    assert set(map(float, metrics.compute().values())) == {1.0}
    metrics.reset()
    metrics.update(logits=1000.0 * sure, target=target)
    assert set(map(float, metrics.compute().values())) == {1.0}


def test_torchmetrics_agrees_on_perplexity():
    """It reads logits only; probabilities of the same logits have the same value here."""
    logits, target = draw()
    expected = reference.perplexity(logits, target, ignore_index=PAD).item()
    metric = get_metric("ppl", Text())
    metric.update(logits=logits, target=target)
    assert metric.compute().item() == pytest.approx(expected, rel=1e-5)
    assert value("perplexity", logits.softmax(-1), target) == pytest.approx(expected, rel=1e-5)


def test_perplexity_takes_exp_once():
    """A hopeless batch and a perfect one: the mean of two perplexities would be far above the right sqrt."""
    probabilities = torch.tensor([[[1.0, 0.0]], [[1e-6, 1 - 1e-6]]])
    measured = value("perplexity", probabilities, torch.zeros(2, 1, dtype=torch.long), [1, 1])
    assert measured == pytest.approx(1000.0, rel=1e-4)
    impossible = value("perplexity", torch.tensor([[[0.0, 1.0]]]), torch.tensor([[0]]))
    assert impossible == pytest.approx(1 / torch.finfo(torch.float32).eps)


@pytest.mark.parametrize("sizes", [[1] * 40, [39, 1], [3, 30, 7]], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_any_partition_has_the_same_value(name, sizes):
    """Tokens (or sequences) weigh the same in a batch of few as in one of many."""
    logits, target = draw()
    preds = logits.softmax(-1) if name == "perplexity" else logits.argmax(-1)
    assert value(name, preds, target, sizes) == pytest.approx(value(name, preds, target), rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_predicted_for_padding_does_not_matter(name):
    """Junk after the end of a right sequence leaves it right."""
    logits, target = draw()
    metric, junk = get_metric(name, Sequence()), get_metric(name, Sequence())
    metric.update(logits=logits, target=target)
    spoiled = torch.where((target == PAD).unsqueeze(-1), -7 * logits, logits)
    junk.update(logits=spoiled, target=target)
    assert metric.compute() == junk.compute()


@pytest.mark.parametrize("name", NAMES)
def test_all_padding_is_undefined(name):
    """No token is no value; beside other sequences such a one is left out."""
    metric = get_metric(name, Sequence(ignore_index=0))
    metric.update(logits=torch.randn(3, 4, 6), target=torch.zeros(3, 4, dtype=torch.long))
    assert metric.compute().isnan()
    assert metric.undefined_reason == "no rows were counted"


def test_an_ignore_index_of_ones_own():
    """Padding is what the output feature says it is."""
    metric = get_metric("token_accuracy", Sequence(ignore_index=0))
    metric.update(torch.tensor([[5, 1, 9]]), torch.tensor([[5, 2, 0]]))
    assert metric.compute().item() == 0.5


def test_one_batch_derives_its_parts_once():
    """The comparison of tokens is shared by the three metrics that need it."""
    logits, target = draw()
    metrics = MetricCollection(NAMES, output=Sequence())
    metrics.update(logits=logits, target=target)
    for name, measured in metrics.compute().items():
        alone = get_metric(name, Sequence())
        alone.update(logits=logits, target=target)
        assert measured == alone.compute()
        assert not math.isnan(measured)


def test_wrong_inputs_are_refused():
    """Token ids are no probabilities, and an average has two choices."""
    with pytest.raises(MetricInputError, match="perplexity reads probabilities"):
        get_metric("perplexity", Sequence()).update(predictions=torch.ones(2, 3), target=torch.ones(2, 3))
    with pytest.raises(MetricNameError, match="average must be one of token, sequence, got 'macro'"):
        get_metric("token_accuracy(average=macro)", Sequence())
    assert str(find_metric("token_acc(average=token)", "text").name) == "token_accuracy"


@pytest.mark.parametrize("shape", [(40, 7, 5), (3, 1, 2), (200, 3, 50)])
def test_losses_agree_with_torch(shape):
    """Nats, bits and perplexity are one mean over all tokens, of any batches."""
    logits, target = draw(*shape)
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1).double(), target.flatten()).item()
    panel = MetricCollection(["loss", "bits_per_token", "ppl"], output=Sequence())
    for part in zip(logits.split(11), target.split(11), strict=True):
        panel.update(logits=part[0], target=part[1])
    loss, bits, perplexity = (value.item() for value in panel.compute().values())
    assert loss == pytest.approx(expected, rel=1e-6)
    assert bits == pytest.approx(expected / math.log(2), rel=1e-6)
    assert perplexity == pytest.approx(math.exp(expected), rel=1e-6)


@pytest.mark.parametrize("shape", [(40, 7, 5), (200, 3, 50)])
def test_next_tokens_agree_with_torch(shape):
    """Position t is compared with the token at t + 1."""
    logits, target = draw(*shape)
    here, behind = logits[:, :-1].flatten(0, 1).double(), target[:, 1:].flatten()
    expected = torch.nn.functional.cross_entropy(here, behind, ignore_index=PAD).item()
    panel = MetricCollection(["next_token_log_loss", "next_token_perplexity"], output=Sequence())
    for part in zip(logits.split(11), target.split(11), strict=True):
        panel.update(logits=part[0], target=part[1])
    loss, perplexity = (value.item() for value in panel.compute().values())
    assert loss == pytest.approx(expected, rel=1e-6)
    assert perplexity == pytest.approx(math.exp(expected), rel=1e-6)


def test_one_token_has_no_next():
    """Sequences of length 1 leave nothing to predict: nan with a reason."""
    metric = get_metric("next_token_perplexity", Sequence())
    metric.update(logits=torch.zeros(2, 1, 3), target=torch.zeros(2, 1).long())
    assert metric.compute().isnan()
    assert metric.undefined_reason == "no rows were counted"


def test_the_last_token_that_counts():
    """Right, wrong, right in front of padding; a sequence of padding is left out."""
    preds = torch.tensor([[5, 6], [5, 6], [5, 9], [5, 6]])
    target = torch.tensor([[0, 6], [5, 0], [5, PAD], [PAD, PAD]])
    assert value("last_accuracy", preds, target, [1, 3]) == pytest.approx(2 / 3)


def test_likelihoods_are_gathered_once(monkeypatch):
    """Loss, bits and perplexity share one log-softmax and one gather."""
    logits, target = draw()
    calls = []
    original = torch.Tensor.gather
    monkeypatch.setattr(torch.Tensor, "gather", lambda *args: calls.append(1) or original(*args))
    panel = MetricCollection(["log_loss", "bits_per_token", "perplexity"], output=Sequence())
    panel.update(logits=logits, target=target)
    assert len(calls) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("at_once", [1, 20, 10_000])
def test_losses_do_not_depend_on_the_positions_at_a_time(at_once, dtype, monkeypatch):
    """They are those of the log-softmax of the whole batch, of both kinds, together and alone."""
    monkeypatch.setattr("hpometrics.metrics._derive._AT_ONCE", at_once)
    logits, target = draw()
    logits = logits.to(dtype)
    logs = (logits.float() if dtype is torch.bfloat16 else logits).log_softmax(-1).double()
    counts = target != PAD
    own = -logs.gather(-1, target.clamp(min=0).unsqueeze(-1)).squeeze(-1)[counts]
    later = -logs[:, :-1].gather(-1, target[:, 1:].clamp(min=0).unsqueeze(-1)).squeeze(-1)[counts[:, 1:]]
    both = MetricCollection(["log_loss", "next_token_log_loss"], output=Sequence())
    both.update(logits=logits, target=target)
    alone = get_metric("next_token_log_loss", Sequence())
    alone.update(logits=logits, target=target)
    assert both.compute()["log_loss"].item() == pytest.approx(own.mean().item(), rel=1e-14)
    assert both.compute()["next_token_log_loss"].item() == pytest.approx(later.mean().item(), rel=1e-14)
    assert alone.compute().item() == both.compute()["next_token_log_loss"].item()
