from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from sample_records import FOUR, many, written
from sample_sweeps import changed

from hpometrics.results.report.content import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to open the report in")


EVIL = "</script><script>lost()</script><b>"
KIND = f'kind: {{choice: [plain, "{EVIL}"]}}'


@dataclass(frozen=True)
class Visit:
    """What a page became, what it said on the console, how often it asked the network for something."""

    page: str
    console: list[str]
    requests: int


def visited(file: Path) -> Visit:
    """Open a page in a browser of its own and let its scripts run."""
    home = file.parent / "browser"
    ran = subprocess.run(
        [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--dump-dom",
         "--disable-background-networking", "--disable-extensions", "--enable-unsafe-swiftshader",
         "--virtual-time-budget=10000",
         "--enable-logging=stderr", f"--log-net-log={home}.json", f"--user-data-dir={home}",
         file.absolute().as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    said = [line for line in ran.stderr.splitlines() if ":CONSOLE" in line]
    console = [line for line in said if "GL Driver Message" not in line]  # of the machine, not of the page
    log = Path(f"{home}.json").read_text()
    return Visit(ran.stdout, console, len(re.findall('"network_isolation_key":"file://', log)))


def test_the_browser_tells_on_a_page_that_loads_or_fails(tmp_path):
    """Else the tests below could not fail."""
    file = tmp_path / "page.html"
    file.write_text('<img src="http://127.0.0.1:9/x.png"><script>lost()</script>')
    visit = visited(file)
    assert visit.requests >= 1 and any("lost is not defined" in line for line in visit.console)


def test_the_report_draws_itself_offline(tmp_path):
    """Every figure is drawn under its policy; the console is silent, the network is left alone."""
    visit = visited(write_report(written(tmp_path, [*many(40), *FOUR[2:3]])))
    assert visit.console == []
    assert visit.requests == 0
    assert visit.page.count('<div class="plot js-plotly-plot"') == visit.page.count('role="figure"') == 6


def test_params_that_look_like_markup_are_text(tmp_path):
    """In tables, figures and reasons."""
    text = changed("size: {choice: {small: {depth: 1, width: 8}, large: {depth: 3, width: 32}}}", KIND)
    records = [replace(r, params={"lr": 0.01, "kind": "plain" if r.number % 2 else EVIL}) for r in many(40)]
    visit = visited(write_report(written(tmp_path, records, text)))
    assert visit.console == []
    assert "<b>" not in visit.page
