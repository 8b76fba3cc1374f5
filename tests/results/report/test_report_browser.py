from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path

import pytest
from sample_records import FOUR, many, trial, written
from sample_sweeps import changed

from hpometrics.results.report.content import write_report
from hpometrics.results.sweep_result import SweepResult

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
AXE = Path(__file__).parents[3] / ".venv" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
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


def answers(file: Path, script: str, dark: bool = False) -> list:
    """Open a page without its policy, run more statements after its own, and return what they return."""
    text = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", file.read_text())
    answer = f"JSON.stringify(await (async () => {{ {script} }})())"
    ask = f"setTimeout(async () => {{ document.title = {answer}; }}, 3000)"
    scheme = "<style>:root { color-scheme: dark !important; }</style>" if dark else ""
    asking = file.with_name("asking.html")
    asking.write_text(text.replace("</body>", f"{scheme}<script>{ask}</script></body>"))
    return json.loads(unescape(re.search("<title>(.*?)</title>", visited(asking).page, re.DOTALL)[1]))


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
    assert visit.page.count('<div class="plot js-plotly-plot"') == visit.page.count('role="figure"') == 8
    assert visit.page.count(': Zoom"') > 7 and visit.page.count(": Share") == 0


@pytest.mark.parametrize("loader", ["", "<script>self.define = () => lost(); define.amd = true;</script>"])
def test_a_notebook_draws_its_figures_offline(tmp_path, loader):
    """Two results in one page, also where a loader of modules waits for scripts, as in an older notebook."""
    result = SweepResult.read(written(tmp_path / "run", [*many(40), *FOUR[2:3]]))
    file = tmp_path / "notebook.html"
    file.write_text(f"<!doctype html>{loader}{result._repr_html_()}{result._repr_html_()}")
    visit = visited(file)
    assert visit.console == []
    assert visit.requests == 0
    assert visit.page.count('data-figure="" class="js-plotly-plot"') == 2 * 8
    assert visit.page.count('aria-label="Zoom') > 7 and visit.page.count('aria-label="Share') == 0


def test_params_that_look_like_markup_are_text(tmp_path):
    """In tables, figures and reasons."""
    text = changed("size: {choice: {small: {depth: 1, width: 8}, large: {depth: 3, width: 32}}}", KIND)
    records = [replace(r, params={"lr": 0.01, "kind": "plain" if r.number % 2 else EVIL}) for r in many(40)]
    visit = visited(write_report(written(tmp_path, records, text)))
    assert visit.console == []
    assert "<b>" not in re.sub("<script.*?</script>", "", visit.page, flags=re.DOTALL)  # plotly's own words


def test_trials_are_sorted_filtered_and_open_their_curves(tmp_path):
    """By the buttons in the head, the words in the box, and the number of a trial."""
    file = write_report(written(tmp_path, [*many(40), *FOUR[2:3]]))
    script = """
      const rows = () => [...document.querySelectorAll("#trials tbody tr")].filter((row) => !row.hidden);
      const numbers = () => rows().slice(0, 3).map((row) => row.cells[1].textContent);
      const head = document.querySelectorAll("#trials th")[1];
      const answers = [numbers()];
      for (const click of [1, 2]) { head.firstChild.click(); answers.push(head.ariaSort, numbers()); }
      const box = document.querySelector("#trials input");
      box.value = "pruned 0.4";
      box.dispatchEvent(new Event("input"));
      answers.push(rows().length, document.querySelector("#trials [role=status]").textContent);
      rows()[0].cells[1].firstChild.click();
      await new Promise((done) => setTimeout(done, 500));
      const opened = document.querySelector("#curves .plot").data.at(-1);
      return [...answers, opened.name, opened.x.filter((x) => x !== null), opened.y];
    """
    ranked, up, lowest, down, highest, count, status, name, epochs, values = answers(file, script)
    assert ranked == ["6", "13", "20"]
    assert (up, lowest, down, highest) == ("ascending", ["0", "1", "2"], "descending", ["39", "38", "37"])
    assert (count, status, name) == (1, "1 of 40 trials", "trial 2")
    assert (epochs, values[0]) == ([0], 0.4)


def test_a_switch_shows_what_lies_outside_and_each_figure_has_its_data(tmp_path):
    """The axis of the history is widened and narrowed again; a table has a row for each dot."""
    values = [0.96, 0.97, 0.98, 0.975, 0.965, 0.1]
    file = write_report(written(tmp_path, [trial(n, [value]) for n, value in enumerate(values)]))
    script = """
      const place = document.querySelector("#history .plot");
      const toggle = place.nextElementSibling;
      const lows = [place.layout.yaxis.range[0] > 0.5];
      for (const click of [1, 2]) {
        toggle.click();
        await new Promise((done) => setTimeout(done, 500));
        lows.push(place.layout.yaxis.range[0] > 0.5, toggle.textContent);
      }
      const details = [...document.querySelectorAll("details.data")];
      const labels = [...document.querySelectorAll("[aria-label]")].map((one) => one.ariaLabel);
      return [lows, details.map((one) => one.querySelectorAll("tr").length), labels];
    """
    lows, rows, labels = answers(file, script)
    assert lows == [True, False, "Show most values", True, "Show all values"]
    assert min(rows) > 5
    assert sum(label.endswith(": Zoom") for label in labels) > 3 and len(labels) == len({*labels})


@pytest.mark.parametrize(("count", "window"), [(16, "800,600"), (100, "1280,900")])
def test_it_is_printed_on_five_pages(tmp_path, count, window):
    """Of a hundred trials too; a figure is on one page, and shrinks with it."""
    file = write_report(written(tmp_path, [*many(count), *FOUR[2:3]]))
    assert ("The first 25 of 100 rows are printed" in file.read_text()) is (count == 100)
    paper = tmp_path / "report.pdf"
    subprocess.run(
        [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000",
         f"--user-data-dir={tmp_path / 'browser'}", f"--window-size={window}", "--no-pdf-header-footer",
         f"--print-to-pdf={paper}", file.as_uri()],
        capture_output=True, timeout=120, check=True,
    )  # fmt: skip
    assert len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes())) <= 5


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core; `make axe` fetches it")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_has_nothing_to_say(tmp_path, dark):
    """No violation, of a page with every figure."""
    text = changed("metrics:", "  drop: {float: [0.0, 1.0]}\nmetrics:")
    records = [replace(r, params={**r.params, "drop": r.number / 60}) for r in many(40)]
    file = write_report(written(tmp_path, [*records, *FOUR[2:3]], text))
    script = AXE.read_text().replace("</script", "<\\/script")
    ask = "return (await axe.run()).violations.map((one) => [one.id, one.nodes.map((node) => node.html)])"
    assert answers(file, f"{script}; {ask}", dark) == []
