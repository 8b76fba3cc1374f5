"""A third backend in one file: trials in rounds, each drawn as a whole before the first of it is trained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from hpometrics.config.backend_section import BackendSection
from hpometrics.config.fields import Strict

if TYPE_CHECKING:
    from hpometrics.runner.context import SweepContext


class Trace(Strict):
    """The file that gets a line for each round."""

    file: str
    """Its path."""


class ToyBackend(BackendSection):
    """Trials in rounds."""

    size: Annotated[int, Field(ge=1)] = 2
    """Number of trials in a round."""
    trace: Trace | None = None
    """A file with a line for each round."""

    def facts(self, threads: int) -> str:
        """Return the size of a round."""
        return f"rounds of {self.size}"

    def problems(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield a trace whose folder does not exist."""
        if self.trace is not None and not Path(self.trace.file).parent.is_dir():
            yield ("trace", "file"), f"{Path(self.trace.file).parent} is not a folder"


def run(context: SweepContext, verbose: bool = False) -> None:
    """Run trials until the budget is used up."""
    from hpometrics.backends.optuna.trial_queue import claim  # a check loads neither Optuna nor the runner
    from hpometrics.runner.leases import LocalOwnership
    from hpometrics.runner.study import has_open_trials, is_over, opened_study, reserve_slots

    section: ToyBackend = context.plan.config.backend.section
    ownership = LocalOwnership(context.directory, context.plan.trials)
    with closing(ownership), opened_study(context, ownership, verbose) as study:
        reserve_slots(study, context)
        while has_open_trials(study, context) and not is_over(study, context):
            claims = (claim(study, ownership.take, release=ownership.release) for _ in range(section.size))
            trials = [(trial, context.plan.space.suggest(trial)) for trial in claims if trial is not None]
            for trial, params in trials:
                record, _ = context.trials.run(params, ownership.begin(trial))
                ownership.finish(study, trial, record)
                ownership.release(trial.number)
                context.note(record)
            _trace(section, [trial.number for trial, _ in trials])


def _trace(section: ToyBackend, numbers: list[int]) -> None:
    if section.trace is not None:
        with Path(section.trace.file).open("a") as file:
            file.write(f"{numbers}\n")
