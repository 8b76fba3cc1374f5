"""The processor time of a look, of a plan and of the honest value of a confirmation, on 10,000 rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from hpometrics.direction import MAXIMIZE
from hpometrics.selection.confirm_settings import ConfirmSettings
from hpometrics.selection.confirmation import ConfirmationPlan, ConfirmationRecord, Contender, FreshRun
from hpometrics.selection.confirmation_plan import plan_for
from hpometrics.selection.honest_value import Redraws
from hpometrics.selection.intervals import Scale
from hpometrics.selection.two_way import TwoWay, student_quantile

ROWS, TRIALS, SEEDS, SEARCHED, EPOCHS = 10_000, 5, 8, 60, 12


def costs() -> Iterator[tuple[str, float, float]]:
    """Yield what is computed, its milliseconds of processor time, and the most it may take.

    The contenders are equally good, so that none leaves: no look is larger.
    """
    random = np.random.default_rng(0)
    student_quantile(0.05, 3)  # loads SciPy

    def hits(epochs: int) -> np.ndarray:
        return (random.random((epochs, ROWS)) < 0.9).astype(float)

    def fresh_runs(epochs: int) -> dict[tuple[int, int], FreshRun]:
        keys = [(trial, seed) for trial in range(TRIALS) for seed in range(1, SEEDS + 1)]
        tables = {key: hits(epochs) for key in keys}
        picks = {key: int(rows.mean(axis=1).argmax()) for key, rows in tables.items()}
        return {
            key: FreshRun(float(rows[picks[key]].mean()), rows, picks[key], "rows")
            for key, rows in tables.items()
        }

    runs = fresh_runs(1)
    values = [[runs[trial, seed].picked_rows for seed in range(1, SEEDS + 1)] for trial in range(TRIALS)]

    def look() -> None:
        for other in values[1:]:
            table = TwoWay.of(np.stack(values[0]) - np.stack(other))
            table.half_width(0.022), table.half_width(0.0464), table.p_value

    plan = ConfirmationPlan(ConfirmSettings(), tuple(Contender(trial, 0.9) for trial in range(TRIALS)))
    begun = {key: run for key, run in runs.items() if key[1] <= SEEDS // 2}
    record = ConfirmationRecord("accuracy", MAXIMIZE, [plan], begun, scale=Scale.LOGIT)
    shape = f"{TRIALS} x {SEEDS} x {ROWS:,}"
    yield f"pairs of a look, {shape}", _milliseconds(look), 50
    yield f"plan after {SEEDS // 2} seeds", _milliseconds(lambda: plan_for(record)), 50

    many, search = fresh_runs(EPOCHS), {trial: hits(EPOCHS) for trial in range(SEARCHED)}

    def honest() -> None:
        ours = {trial: [many[trial, seed] for seed in range(1, SEEDS + 1)] for trial in range(TRIALS)}
        luck = Redraws(MAXIMIZE, search, TRIALS).luck(ours)
        assert luck is not None and luck.bias and luck.row_variance

    yield f"honest value, {SEARCHED} x {EPOCHS} x {ROWS:,}", _milliseconds(honest), 1000


def _milliseconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return 1000 * (time.process_time() - began)
