"""Peak memory beyond the data: what each contender of `panel.py` needs while it measures a panel.

Each runs in a process of its own. The data is drawn and the code is warm before the kernel's high-water mark
is set back; what is printed is how far the mark then rises above what was resident. Linux only.

This package may take what it stores (scores and labels) and a quarter more, for all that it sorts, gathers
and derives from a batch.

    python benchmarks/memory.py [--panel category --panel wide]
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import torch
from panel import CONTENDERS
from panels import PANELS, Batches, Panel

from hpometrics.metrics.features import BINARY, CATEGORY

MIB = 1 << 20
SCORE = 4
"""Bytes of a stored score."""


def stored(panel: Panel) -> float:
    """MiB of the scores and the labels, a set's being one for each column."""
    label = {CATEGORY: 2, BINARY: 1}.get(panel.output.type, panel.columns)
    return panel.rows * (SCORE * panel.columns + label) / MIB


def allowed(panel: Panel) -> float:
    """MiB that this package may take at the peak."""
    return stored(panel) * 5 / 4


def resident(mark: str) -> float:
    """MiB resident now (`VmRSS`) or at most so far (`VmHWM`)."""
    found = re.search(rf"{mark}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise SystemExit(f"/proc/self/status has no {mark}")
    return int(found[1]) / 1024


def warming(panel: Panel, batches: Batches) -> Batches:
    """The first four batches, or as many as have every class, without which scikit-learn measures nothing."""
    few, classes = 4, panel.columns if panel.output.type == CATEGORY else 0
    while few < len(batches) and len(torch.cat([target for _, target in batches[:few]]).unique()) < classes:
        few *= 2
    return batches[:few]


def measure_alone(panel_name: str, contender: str) -> None:
    """Print the MiB beyond the data that one contender needs for a panel."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=UserWarning, module="torchmetrics")
    panel, measure = PANELS[panel_name], CONTENDERS[contender]
    batches = panel.draw()
    few = warming(panel, batches)
    measure(replace(panel, rows=sum(len(target) for _, target in few)), few)
    gc.collect()  # a metric is a cycle: what warming left would be freed at any moment of the run
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    measure(panel, batches)
    print(f"{resident('VmHWM') - before:.1f}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--panel", action="append", choices=PANELS, help="one of them; all without it")
    parser.add_argument("--alone", choices=CONTENDERS, help="print the figure of this contender only")
    options = parser.parse_args()
    names = options.panel or list(PANELS)
    if options.alone:
        measure_alone(names[0], options.alone)
        return
    print("MiB beyond the data, peak of a fresh process; stored: scores and labels\n")
    print(f"{'panel':36}{'stored':>9}{'allowed':>9}" + "".join(f"{name:>14}" for name in CONTENDERS))
    for name in names:
        panel = PANELS[name]
        print(f"{panel!s:36}{stored(panel):9.1f}{allowed(panel):9.1f}", end="")
        for contender in CONTENDERS:
            command = [sys.executable, __file__, "--panel", name, "--alone", contender]
            answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            print(f"{float(answer):14.1f}", end="", flush=True)
        print()


if __name__ == "__main__":
    main()
