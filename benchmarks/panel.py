"""Four panels of metrics: the hand-fused floor, this package, torchmetrics' MetricCollection, scikit-learn.

All measure the same batches in turn, in one process; a row prints the median of the CPU seconds of a whole
pass (update and compute) and ratios taken within each turn. Before anything is timed the values must agree.

    python benchmarks/panel.py [--panel category --panel wide] [--turns 5] [--threads 1 --threads 2]
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import floors
import rival_sklearn
import rival_torchmetrics
import torch
from closed_forms import Values
from panels import PANELS, Batches, Panel

from hpometrics import MetricCollection

Contender = Callable[[Panel, Batches], Values]
Seconds = dict[str, list[float]]

TOLERANCE = 1e-6
FLOAT32 = {"torchmetrics": 2e-6}
"""torchmetrics sums in float32, which is off by more than the rest."""


def ours(panel: Panel, batches: Batches) -> Values:
    """Measure a panel with this package."""
    collection = MetricCollection(panel.metrics, output=panel.output)
    for logits, target in batches:
        collection.update(logits=logits, target=target)
    values = collection.compute().values()
    return {name: value.item() for name, value in zip(panel.metrics, values, strict=True)}


CONTENDERS: dict[str, Contender] = {
    "floor": floors.measure,
    "hpometrics": ours,
    "torchmetrics": rival_torchmetrics.measure,
    "scikit-learn": rival_sklearn.measure,
}
RIVALS = ("torchmetrics", "scikit-learn")


def check_agreement(panel: Panel, batches: Batches) -> float:
    """The largest difference of any value from the floor's.

    Raises:
        SystemExit: a value differs by more than the tolerance; what is timed must first agree.
    """
    expected, largest = floors.measure(panel, batches), 0.0
    for name, contender in CONTENDERS.items():
        values = contender(panel, batches)
        gaps = {metric: abs(values[metric] - expected[metric]) for metric in values}
        worst = max(gaps, key=lambda metric: gaps[metric])
        if not gaps[worst] <= FLOAT32.get(name, TOLERANCE):
            raise SystemExit(f"{panel}: {name} says {worst} {values[worst]!r}, the floor {expected[worst]!r}")
        largest = max(largest, gaps[worst])
    return largest


def time_turns(panel: Panel, batches: Batches, turns: int) -> Seconds:
    """CPU seconds of each contender, turn by turn; rivals have one turn on a slow panel."""
    spent: Seconds = {name: [] for name in CONTENDERS}
    for turn in range(turns):
        for name, contender in CONTENDERS.items():
            if turn and panel.slow and name in RIVALS:
                continue
            start = time.process_time()
            contender(panel, batches)
            spent[name].append(time.process_time() - start)
    return spent


def ratio(spent: Seconds, name: str, base: str) -> float:
    """The median of the ratios within the turns that both took."""
    return statistics.median(a / b for a, b in zip(spent[name], spent[base], strict=False))


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--panel", action="append", choices=PANELS, help="one of them; all without it")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", action="append", type=int, help="torch threads; 1 and 2 without it")
    return parser.parse_args()


def main() -> None:
    """Print the table."""
    options = arguments()
    warnings.filterwarnings("ignore", category=UserWarning, module="torchmetrics")
    print(f"CPU seconds of a pass, median of {options.turns} turns; x floor and x less within a turn\n")
    print(f"{'panel':36}{'threads':>7}" + "".join(f"{name:>14}" for name in CONTENDERS), end="")
    print(f"{'x floor':>9}{'x less than torchmetrics':>26}{'scikit-learn':>14}{'gap':>9}")
    for name in options.panel or PANELS:
        panel = PANELS[name]
        batches = panel.draw()
        torch.set_num_threads(1)
        gap = check_agreement(panel, batches)
        for threads in options.threads or (1, 2):
            torch.set_num_threads(threads)
            spent = time_turns(panel, batches, options.turns)
            print(f"{panel!s:36}{threads:7}", end="")
            print("".join(f"{statistics.median(s):14.3f}" for s in spent.values()), end="")
            print(f"{ratio(spent, 'hpometrics', 'floor'):9.2f}", end="")
            print(f"{ratio(spent, 'torchmetrics', 'hpometrics'):26.1f}", end="")
            print(f"{ratio(spent, 'scikit-learn', 'hpometrics'):14.1f}{gap:9.1e}", flush=True)


if __name__ == "__main__":
    main()
