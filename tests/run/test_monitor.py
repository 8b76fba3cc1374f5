"""What a run records of its updates, against torch and by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from hpometrics import Reported, Run
from hpometrics.exceptions import RunError
from hpometrics.run.monitor import Resources, Watch, total_norm
from hpometrics.run.throughput import Timer

LOSS = Reported("loss", "minimize")


def weight(lr: float = 0.25) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """A model of one weight, which begins at 0."""
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    return model, torch.optim.SGD(model.parameters(), lr=lr)


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, gradient: float) -> None:
    """Update each weight by one gradient."""
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, gradient)
    optimizer.step()


def watched(*steps: tuple[float, ...], max_norm: float | None = None, every: int = 1, **facts) -> Run:
    """A run that updates by these gradients, a tuple for each epoch."""
    model, optimizer = weight()
    with Run(metric=LOSS, **facts) as run:
        run.watch(model, optimizer, max_norm=max_norm, every=every)
        for epoch in run.epochs(len(steps)):
            for gradient in steps[epoch]:
                step(model, optimizer, gradient)
            run.log(loss=model.weight.item())
    return run


def test_what_an_epoch_is_said_to_have_been():
    """Three updates with gradients 1, 2 and 6: norm 3 on average, at the optimizer's rate."""
    values = watched((1.0, 2.0, 6.0)).values
    assert (values["gnorm"], values["lr"], values["total_train_updates"]) == (3.0, 0.25, 3.0)
    assert values["ups"] == pytest.approx(1 / values["step_time"]) and values["ups"] > 0
    assert values["epoch_time"] >= 3 * values["step_time"] and values["peak_rss"] > 1
    assert not {"clip", "gpu_mem"} & values.keys()


def test_gradients_are_clipped_and_the_norm_is_from_before():
    """At most 2 a step: of 1, 2 and 6 only the last is clipped, and the weight moves by 1 + 2 + 2."""
    run = watched((1.0, 2.0, 6.0), max_norm=2.0)
    assert run.values["gnorm"] == 3.0 and run.values["clip"] == pytest.approx(1 / 3)
    assert run.values["loss"] == pytest.approx(-0.25 * 5, rel=1e-6)


def test_most_steps_are_left_alone_unless_asked():
    """Of ten steps the first and the ninth are read: (1 + 9) / 2."""
    run, (model, optimizer) = Run(metric=LOSS), weight()
    run.watch(model, optimizer)
    for _ in run.epochs(1):
        for gradient in range(1, 11):
            step(model, optimizer, float(gradient))
        run.log(loss=1.0)
    assert (run.values["gnorm"], run.values["total_train_updates"]) == (5.0, 10.0)


def test_a_step_without_gradients_is_not_the_one_that_is_read():
    """The next that has some is, in that epoch and in those behind it, with the layers there are then."""
    run, model = Run(metric=LOSS), torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run.watch(model, optimizer)
    for epoch in run.epochs(3):
        if epoch == 1:
            model[0] = torch.nn.Linear(1, 1, bias=False)
        model.zero_grad()
        optimizer.step()
        if epoch:
            step(model, optimizer, 4.0)
            step(model, optimizer, 8.0)
        run.log(loss=1.0)
    assert [record.values.get("gnorm") for record in run.history] == [None, 4.0, 4.0]


@pytest.mark.parametrize("max_norm", [None, 0.5])
def test_a_step_on_a_device_is_not_waited_for(max_norm):
    """On `meta`, where there is nothing to read: only the end of the epoch asks for a value."""
    model = torch.nn.Linear(3, 2, device="meta")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch = Watch(model, optimizer, Timer(), max_norm)
    for _ in range(300):  # more than the norms that wait to be added up
        step(model, optimizer, 1.0)
    with pytest.raises((NotImplementedError, RuntimeError), match="meta"):
        watch.close()


def test_gpu_mem_is_a_share_of_the_gpus_in_use(monkeypatch):
    """Of three of 16 GiB two are used, by peaks of 4 and 8: 12 of 32."""
    peaks = {0: 4 * 2**30, 1: 0, 2: 8 * 2**30}
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    monkeypatch.setattr("torch.cuda.max_memory_allocated", peaks.get)
    monkeypatch.setattr("torch.cuda.reset_peak_memory_stats", lambda gpu: None)
    monkeypatch.setattr(
        "torch.cuda.get_device_properties", lambda gpu: SimpleNamespace(total_memory=16 * 2**30)
    )
    assert Resources().close()["gpu_mem"] == 0.375


def test_gradients_may_be_read_at_some_steps_only():
    """Of five steps, every second reads 1, 3 and 5; all count, and an epoch begins with its first."""
    run = watched((1.0, 2.0, 3.0, 4.0, 5.0), (7.0, 8.0), every=2)
    assert [epoch.values["gnorm"] for epoch in run.history] == [3.0, 7.0]
    assert [epoch.values["total_train_updates"] for epoch in run.history] == [5.0, 7.0]


def test_updates_are_counted_once_they_are_watched():
    """Nothing is known of those of the epochs before."""
    model, optimizer = weight()
    with Run(metric=LOSS) as run:
        for epoch in run.epochs(2):
            if epoch == 1:
                run.watch(model, optimizer)
            step(model, optimizer, 1.0)
            run.log(loss=1.0)
    assert [epoch.values.get("total_train_updates") for epoch in run.history] == [None, 1.0]


def test_gradients_that_are_clipped_are_read_at_each_step():
    """Clipping needs the norm of every step, so that the mean is over all of them: (1 + 2 + 6) / 3."""
    run = watched((1.0, 2.0, 6.0), max_norm=2.0, every=3)
    assert run.values["gnorm"] == 3.0 and run.values["clip"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("max_norm", [0.1, 1e6])
def test_clipping_is_torchs(max_norm):
    """The gradients left and the norm are those of `clip_grad_norm_`, to the last bit of the former."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    model(torch.randn(4, 5)).square().sum().backward()
    drawn = [p.grad.clone() for p in model.parameters()]
    watch = Watch(model, optimizer, Timer(), max_norm)
    optimizer.step()
    ours = [p.grad.clone() for p in model.parameters()]
    for parameter, gradient in zip(model.parameters(), drawn, strict=True):
        parameter.grad = gradient
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    torch.testing.assert_close(ours, [p.grad for p in model.parameters()], rtol=0, atol=0)
    assert watch.close()[0]["gnorm"] == pytest.approx(norm.item(), rel=1e-6)


@pytest.mark.parametrize("dtypes", [("float32",), ("float64",), ("bfloat16",), ("float32", "float64")])
def test_the_norm_is_that_of_all_gradients_as_one(dtypes):
    """Whatever their types; 16-bit gradients have a norm of 32 bits."""
    torch.manual_seed(0)
    grads = [torch.randn(50, 3).to(getattr(torch, dtype)) for dtype in dtypes * 2]
    wanted = torch.cat([grad.double().flatten() for grad in grads]).norm().item()
    assert total_norm(grads).item() == pytest.approx(wanted, rel=1e-6)


def test_sparse_gradients_have_a_norm():
    """An embedding that is updated sparsely: rows of ones, one of them twice."""
    table = torch.nn.Embedding(5, 2, sparse=True)
    table(torch.tensor([0, 3, 3])).sum().backward()
    assert total_norm([table.weight.grad]).item() == pytest.approx(math.sqrt(1 + 1 + 4 + 4))


def test_more_steps_than_wait_at_once():
    """A thousand norms, 0 to 999, of which the upper half is above 499.5."""
    values = watched(tuple(map(float, range(1000))), max_norm=499.5).values
    assert (values["gnorm"], values["clip"]) == (499.5, 0.5)


def test_a_norm_that_is_not_finite_says_so():
    """Its epoch is nan with the number of updates; the next one is as it was."""
    run = watched((1.0, math.inf, math.nan), (1.0, 2.0))
    first, second = run.history
    assert math.isnan(first.values["gnorm"])
    assert first.reasons["gnorm"] == "the norm was not finite in 2 of 3 updates"
    assert second.values["gnorm"] == 1.5


def test_an_epoch_without_updates_has_no_norm():
    """What is known without a step stays; nothing is made up."""
    values = watched((), (1.0,)).history[0].values
    assert (values["lr"], values["total_train_updates"]) == (0.25, 0.0)
    assert not {"gnorm", "ups", "step_time"} & values.keys()


def test_the_rate_is_that_of_the_last_update():
    """A schedule that moves on at the end of the epoch does not change what it was trained with."""
    model, optimizer = weight(lr=1.0)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    run = Run(metric=LOSS)
    run.watch(model, optimizer)
    for _ in run.epochs(2):
        step(model, optimizer, 1.0)
        schedule.step()
        run.log(loss=1.0)
    assert [record.values["lr"] for record in run.history] == [1.0, 0.5]


@pytest.mark.parametrize("watch_first", [True, False])
def test_updates_are_counted_on_over_a_restart(tmp_path, watch_first):
    """Two epochs of three updates, then a third in another process's run: nine."""
    for total in (2, 3):
        model, optimizer = weight()
        with Run(metric=LOSS, directory=tmp_path) as run:
            if watch_first:
                run.watch(model, optimizer)
            run.restore(model=model, optimizer=optimizer)
            if not watch_first:
                run.watch(model, optimizer)
            for _ in run.epochs(total):
                for _ in range(3):
                    step(model, optimizer, 1.0)
                run.log(loss=1.0)
                run.checkpoint(model=model, optimizer=optimizer)
    assert [record.values["total_train_updates"] for record in run.history] == [3.0, 6.0, 9.0]


def test_two_optimizers_have_names():
    """The second watch says what it is called; a name that is taken or no word is refused."""
    run, (one, first), (other, second) = Run(metric=LOSS), weight(0.1), weight(0.2)
    run.watch(one, first)
    run.watch(other, second, name="critic", every=1)
    for _ in run.epochs(1):
        step(one, first, 1.0)
        step(other, second, 5.0)
        step(other, second, 7.0)
        run.log(loss=1.0)
    values = run.values
    assert (values["gnorm"], values["critic.gnorm"], values["critic.lr"]) == (1.0, 6.0, 0.2)
    assert (values["total_train_updates"], values["critic.total_train_updates"]) == (1.0, 2.0)
    for name, told in [
        (None, "the run is already watched;"),
        ("critic", "a watch is called 'critic'"),
        ("a b", "must be letters"),
    ]:
        with pytest.raises(RunError, match=told):
            run.watch(one, first, name=name)


@pytest.mark.parametrize("max_norm", [0, -1.0, math.nan, math.inf])
def test_a_norm_to_clip_to_is_above_zero(max_norm):
    """Anything else would stop the training or do nothing."""
    with pytest.raises(RunError, match="max_norm must be a finite number above 0"):
        Run(metric=LOSS).watch(*weight(), max_norm=max_norm)


@pytest.mark.parametrize("every", [0, -2, 1.5, True])
def test_steps_are_counted_from_one(every):
    """Every 0th step would be none."""
    with pytest.raises(RunError, match="every must be a whole number of steps, at least 1, got"):
        Run(metric=LOSS).watch(*weight(), every=every)


@pytest.mark.parametrize("fused", [False, True])
def test_what_a_gradient_scaler_skips_is_no_update(fused):
    """Of two steps under a scale of 8 one overflows; the other's norm is that without the scale."""
    model = torch.nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.Adam(model.parameters(), fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    watch = Watch(model, optimizer, Timer(), max_norm=4.0)
    for x in (3.0, math.inf):
        optimizer.zero_grad()
        scaler.scale(model(torch.tensor([[x]])).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    values, reasons = watch.close()
    assert (values["gnorm"], values["clip"], values["total_train_updates"]) == (3.0, 0.0, 1.0)
    assert not reasons


def test_nothing_is_looked_at_after_the_run():
    """The optimizer is as it was."""
    model, optimizer = weight()
    with Run(metric=LOSS) as run:
        run.watch(model, optimizer, max_norm=1.0)
        run.log(loss=1.0)
    step(model, optimizer, 8.0)
    assert model.weight.item() == -2.0
