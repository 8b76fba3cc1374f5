"""The HTML page of a report: one offline file under a policy that allows its own scripts alone."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from gzip import decompress
from hashlib import sha256
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from ..._pages import page
from .drawing import Figure

_PLOTLY = "plotly-cartesian.min.js.gz"
"""As npm has it in `plotly.js-cartesian-dist-min`, packed; the page unpacks it."""


def html_of(report: object, figures: Sequence[Figure]) -> str:
    """Return the page of a report. Its tables hold all facts without JavaScript; the figures need it."""
    package = files(__package__)
    packed, script = package.joinpath(_PLOTLY).read_bytes(), package.joinpath("report.js").read_text("utf8")
    return page(
        "results/report",
        "report.html",
        report=report,
        figures=[replace(figure, drawings=_plain(figure.drawings)) for figure in figures],
        plotly=Markup(b64encode(packed).decode()),
        script=Markup(script),
        policy=_policy(script.encode(), decompress(packed)),
    )


def _plain(value: Any) -> Any:
    """Return a drawing in strict JSON, its numbers to six digits, which no eye tells from more."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def _policy(*scripts: bytes) -> str:
    """Allow these scripts and no others, no network, and the images that plotly makes of a figure."""
    hashes = " ".join(f"'sha256-{b64encode(sha256(script).digest()).decode()}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
