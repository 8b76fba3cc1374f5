"""The report as one HTML page: a single offline file that may run its own two scripts only."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from ..._pages import page
from .content import Report
from .figures import figures_of

_FOLDER = "results/report"


def html_of(report: Report) -> str:
    """Return the page. Its tables hold all facts without JavaScript; the figures need it."""
    figures = figures_of(report.records, report.resolved, None if report.best is None else report.best.trial)
    plotly, script = get_plotlyjs(), files(__package__).joinpath("report.js").read_text("utf8")
    return page(
        _FOLDER,
        "report.html",
        report=report,
        figures=figures,
        scripts=[Markup(plotly), Markup(script)],
        policy=_policy(plotly, script),
    )


def _policy(*scripts: str) -> str:
    """Allow these scripts and no others, no network, and the images that plotly makes of a figure."""
    hashes = " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
