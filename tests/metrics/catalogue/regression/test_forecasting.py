"""Scaled errors of time series, by numpy and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from real_outputs import fed, value, weights

from hpometrics.exceptions import MetricInputError, MetricNameError
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Timeseries
from hpometrics.metrics.registry.register import get_metric


def series(rows=40, steps=6, past=15, seed=0):
    """Histories, what came, and forecasts of it."""
    random = np.random.default_rng(seed)
    walk = random.normal(size=(rows, past + steps)).cumsum(1)
    history, target = torch.tensor(walk[:, :past]), torch.tensor(walk[:, past:])
    return history, target, target + torch.tensor(random.normal(size=(rows, steps)))


@pytest.mark.parametrize("season", [1, 3])
def test_by_numpy(season):
    """MASE, RMSSE and MSIS with the history or with a scale, weighted, in uneven batches."""
    history, target, preds = series()
    steps = history.numpy()[:, season:] - history.numpy()[:, :-season]
    absolute, root = np.abs(steps).mean(1), np.sqrt((steps**2).mean(1))
    e, weight = (preds - target).numpy(), weights(len(target))
    outside = np.maximum(np.abs(e) - 1, 0)
    cases = {
        "mase": (np.abs(e).mean(1) / absolute, absolute, {}),
        "rmsse": (np.sqrt((e**2).mean(1)) / root, root, {}),
        "msis": (
            (2 + 2 / 0.05 * outside).mean(1) / absolute,
            absolute,
            {"lower": preds - 1, "upper": preds + 1},
        ),
    }
    for name, (by_series, scale, extras) in cases.items():
        name, scale = f"{name}(season={season})", torch.tensor(scale)
        expected = np.average(by_series, weights=weight)
        got = value(name, preds, target, series=True, history=history, sample_weight=weight, **extras)
        assert got == pytest.approx(expected, rel=1e-12)
        assert value(name, preds, target, series=True, scale=scale, **extras) == pytest.approx(
            by_series.mean()
        )


def test_a_naive_forecast_has_one():
    """The forecast that repeats the last value errs as much as the baseline, where steps are all alike."""
    ramp = torch.arange(10.0).expand(3, 10)
    metric = fed("mase", Timeseries(), predictions=ramp[:, 7:8], target=ramp[:, 8:9], history=ramp[:, :8])
    assert metric.compute().item() == 1.0


def test_ludwigs_baseline():
    """Its name means the steps inside the horizon; the mean over series and not over batches."""
    _, target, preds = series()
    steps = np.abs(np.diff(target.numpy(), axis=1)).mean(1)
    expected = (np.abs((preds - target).numpy()).mean(1) / steps).mean()
    assert value("mean_absolute_scaled_error", preds, target, series=True) == pytest.approx(
        expected, rel=1e-12
    )
    assert get_metric("mean_absolute_scaled_error", Timeseries()).name == "mase(baseline=horizon)"


def test_what_is_needed():
    """A history or a scale, the history longer than the season; the season from 1."""
    metric = get_metric("mase(season=4)", Timeseries())
    two = torch.ones(2, 3)
    with pytest.raises(
        MetricInputError, match=r"mase\(season=4\) needs either history=, .* or scale=; pass one"
    ):
        metric.update(two, two)
    with pytest.raises(MetricInputError, match=r"history= of shape \(2, more than 4\), got \(2, 3\)"):
        metric.update(two, two, history=two)
    with pytest.raises(MetricInputError, match=r"needs scale= of shape \(2\), got \(3,\)"):
        metric.update(two, two, scale=torch.ones(3))
    with pytest.raises(MetricInputError, match="msis needs lower=, upper= beside"):
        get_metric("msis", Timeseries()).update(two, two, scale=torch.ones(2))
    with pytest.raises(MetricNameError, match="season must be a number of steps, at least 1, got 0"):
        get_metric("rmsse(season=0)", Timeseries())


def test_a_baseline_inside_the_horizon_reads_no_history():
    """The name that other libraries give to the metric of a history refuses one, or a horizon of one step."""
    _, target, preds = series()
    past = {"history": torch.ones(len(target), 5), "scale": torch.ones(len(target))}
    for name in past:
        metric = get_metric("mean_absolute_scaled_error", Timeseries())
        with pytest.raises(
            MetricInputError, match=rf"mase\(baseline=horizon\) does not accept {name}; leave"
        ):
            metric.update(preds, target, **{name: past[name]})
    with pytest.raises(MetricInputError, match="horizon of more than 1 steps, got 1; for a shorter one use"):
        metric.update(preds[:, :1], target[:, :1])
    both = MetricCollection(["mase", "mase(baseline=horizon)"], Timeseries())
    both.update(predictions=preds, target=target, scale=past["scale"])
    alone = value("mase(baseline=horizon)", preds, target, series=True)
    assert both.compute()["mase(baseline=horizon)"].item() == pytest.approx(alone, rel=1e-12)


def test_a_constant_history_has_no_scale():
    """Undefined with the reason, never infinite."""
    metric = fed("mase", Timeseries(), predictions=torch.ones(1, 2), target=torch.zeros(1, 2),
                 history=torch.ones(1, 5))  # fmt: skip
    assert metric.compute().isnan()
    assert metric.undefined_reason == "a series has a scale of 0, because its naive forecast is never wrong"
