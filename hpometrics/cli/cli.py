"""The `hpometrics` command: one sweep file in, a directory of results out.

What a command needs is imported when it runs: only `run` loads a search host; `run`,
`measure` and `compare` load torch.
"""

from __future__ import annotations

import click

from .. import __version__
from .._stdout import print_everything
from . import comparisons, editors, metrics, results, sweep
from .main import Sections

_SECTIONS: dict[str, tuple[click.Command, ...]] = {
    "Sweeps": (sweep.init, sweep.check, sweep.run, sweep.worker, sweep.evaluate),
    "Results": (
        results.status,
        results.best,
        results.trials,
        results.epochs,
        comparisons.compare,
        results.report,
        results.dashboard,
        results.replay,
        results.audit,
    ),
    "Metrics": (metrics.metrics, metrics.measure),
    "Editors": (editors.schema,),
}


@click.group(cls=Sections, sections=_SECTIONS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hpometrics")
def main() -> None:
    """Name any metric; search in the right direction; keep the optimal engine params.

    Exit codes: 0 all is well; 1 what audit or replay look for; 2 a file, a name or a setting is wrong and
    nothing was run; 3 no trial is complete, no score is finite; 4 as many trials have failed as the budget
    allows; 5 what is to be recorded cannot be written; 130 interrupted, a sweep that is run again goes on
    (143 by SIGTERM, 129 by SIGHUP).
    """
    print_everything()
