"""The cost of a start: CPU seconds and modules of fresh processes, beside torch and torchmetrics alone.

Each case is a process of its own, all of them in turns, in an order that is drawn for each turn. Its CPU
seconds are user and system time, those of processes that it has started included; a row has the least of all
turns. What an actor of Ray takes is counted in its own process, at the end of its trial, once.

    python benchmarks/startup.py [--turns 5] [--no-ray]
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

CATALOGUE = "hpometrics.metrics.catalogue."
REPORT = "STARTUP_REPORT"
INTERRUPTED = "STARTUP_INTERRUPTED"
SWEEP = """\
engine: {target: startup:train, output: category}
space: {lr: {float: [1e-3, 1e-1], log: true}}
metrics: {optimize: accuracy, track: [log_loss]}
search: {sampler: random, seed: 3}
budget: {trials: 2, epochs: 1}
"""
FLOOR, METRIC, TRIAL, WORKER, ACTOR = "floor", "first metric", "first trial", "worker", "actor of Ray"
FINISHED, CHECK = "run, finished", "check"
BARS = {METRIC: 0.3, FINISHED: 0.5, CHECK: 0.35}
"""CPU seconds at most where the floor takes `REFERENCE`; those of the first metric are beyond the floor."""
REFERENCE = 4.46
"""CPU seconds of the floor on the machine that the bars were set on: a slower one stretches them."""
FAMILIES = 12
"""Modules of the catalogue at most that the first metric may load."""


class Cost(NamedTuple):
    """CPU seconds of a process, and the modules that it has loaded."""

    seconds: float
    modules: list[str]


def train(params: dict[str, float], run: Any) -> None:
    """A line of thirty points and three classes, trained for as long as it is asked to."""
    import torch

    if INTERRUPTED in os.environ:
        os.kill(os.getpid(), signal.SIGTERM)
    model = torch.nn.Linear(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=params["lr"])
    rows, target = torch.linspace(-1, 1, 60).reshape(30, 2), torch.arange(30) % 3
    for _ in run.epochs():
        loss = torch.nn.functional.cross_entropy(model(rows), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.update(logits=model(rows).detach(), target=target)
    if os.environ.get(REPORT, "").endswith("actor"):
        write_report()


def import_floor() -> None:
    """Import what every metric of torchmetrics needs."""
    for package in ("torch", "torchmetrics"):
        import_module(package)


def measure_once() -> None:
    """Measure one metric of one batch."""
    import torch

    from hpometrics import Category, MetricCollection

    metrics = MetricCollection(["accuracy"], output=Category(3))
    metrics.update(logits=torch.eye(3), target=torch.arange(3))
    if metrics.compute()["accuracy"] != 1:
        raise SystemExit("the accuracy of three right rows is another")


def try_once() -> None:
    """Optimize for one trial of one epoch."""
    import optuna

    from hpometrics import Category, Float, OptunaObjective

    space = {"lr": Float(1e-3, 1e-1, log=True)}
    objective = OptunaObjective(train, space, metric="accuracy", output=Category(3), epochs=1)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=3))
    study.optimize(objective, n_trials=1)


def try_on_ray() -> None:
    """Optimize for one trial of one epoch, in an actor of a Ray of one CPU."""
    from ray import tune

    from hpometrics import Category, Float, RayObjective
    from hpometrics.backends.ray.session import start_ray

    start_ray(num_cpus=1, object_store_memory=80 << 20)
    space = {"lr": Float(1e-3, 1e-1, log=True)}
    objective = RayObjective(train, space, metric="accuracy", output=Category(3), epochs=1)
    config = tune.RunConfig(storage_path=str(Path.cwd() / "ray"), verbose=0)
    objective.tuner(1, sampler="random", run_config=config).fit()


def call_command(*arguments: str) -> Callable[[], None]:
    """Return a function that types `hpometrics ...`."""

    def call() -> None:
        from hpometrics.cli.main import main

        main(list(arguments))

    return call


CASES: dict[str, Callable[[], None]] = {
    FLOOR: import_floor,
    METRIC: measure_once,
    TRIAL: try_once,
    WORKER: call_command("worker", "joined", "--hired"),
    FINISHED: call_command("run", "sweep.yaml"),
    CHECK: call_command("check", "sweep.yaml"),
    "best": call_command("best", "runs/sweep"),
    "help": call_command("--help"),
    ACTOR: try_on_ray,
}


def write_report() -> None:
    """Write what this process has spent and loaded until now."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    report = [used.ru_utime + used.ru_stime, sorted(sys.modules)]
    Path(os.environ[REPORT]).write_text(json.dumps(report))


def cost_of(case: str, home: Path) -> Cost:
    """Carry a case out in a fresh process, in the folder of a sweep that is finished."""
    if case == WORKER:
        shutil.rmtree(home / "joined", ignore_errors=True)
        shutil.copytree(home / "runs" / "interrupted", home / "joined")
    seconds, report = spent(home, [__file__, "--case", case], "actor" if case == ACTOR else "process")
    own, modules = json.loads(report.read_text())
    report.unlink()
    return Cost(own if case == ACTOR else seconds, modules)


def spent(home: Path, arguments: list[str], report: str = "none", **more: str) -> tuple[float, Path]:
    """CPU seconds of a Python process and of those that it has waited for, and where it reports."""
    path = home / report
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, **more, "PYTHONPATH": str(Path(__file__).parent), REPORT: str(path)},
    )
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in ((143,) if INTERRUPTED in more else (0,)):
        raise SystemExit(f"{arguments}: exit code {process.returncode}\n{errors.decode()}")
    return used.ru_utime + used.ru_stime, path


def prepare(home: Path) -> None:
    """Finish a sweep, and interrupt another one, which workers are to end."""
    (home / "sweep.yaml").write_text(SWEEP)
    run = ["-m", "hpometrics", "run", "sweep.yaml"]
    spent(home, run)
    spent(home, [*run, "--set", "results.dir=runs/interrupted"], **{INTERRUPTED: "yes"})


def print_costs(costs: dict[str, list[Cost]]) -> None:
    """Print a row for each case, and whether it keeps its bar."""
    floor = min(cost.seconds for cost in costs[FLOOR])
    print(f"{'':16}{'CPU s':>8}{'beyond':>9}{'x floor':>9}{'ours':>7}{'catalogue':>11}{'all':>7}  wanted")
    for case, found in costs.items():
        seconds, modules = min(cost.seconds for cost in found), found[0].modules
        ours = [name for name in modules if name.startswith("hpometrics.")]
        families = sum(name.startswith(CATALOGUE) for name in ours)
        row = f"{case:16}{seconds:8.3f}{seconds - floor:+9.3f}{seconds / floor:9.2f}"
        row += f"{len(ours):7}{families:11}{len(modules):7}"
        print(f"{row}  {verdict(case, seconds, floor, families)}".rstrip(), flush=True)


def verdict(case: str, seconds: float, floor: float, families: int) -> str:
    """Return the bar of a case, and whether it is met."""
    if case not in BARS:
        return ""
    first, bar = case == METRIC, BARS[case] * floor / REFERENCE
    kept = seconds - first * floor <= bar and (not first or families <= FAMILIES)
    wanted = f"at most {bar:.2f} s" + (f" beyond and {FAMILIES} of the catalogue" if first else "")
    return f"{wanted}: {'yes' if kept else 'NO'}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--no-ray", action="store_true", help="leave the actor out")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.case is not None:
        if asked.case != ACTOR:
            atexit.register(write_report)
        CASES[asked.case]()
        return
    started = time.monotonic()
    costs: dict[str, list[Cost]] = {case: [] for case in CASES if case != ACTOR}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        prepare(home)
        for _ in range(asked.turns):
            for case in random.sample(list(costs), len(costs)):
                costs[case].append(cost_of(case, home))
        if not asked.no_ray:
            costs[ACTOR] = [cost_of(ACTOR, home)]
    print(f"least of {asked.turns} turns, {time.monotonic() - started:.0f} s on the wall\n")
    print_costs(costs)


if __name__ == "__main__":
    main()
