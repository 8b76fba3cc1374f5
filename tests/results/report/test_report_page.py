from __future__ import annotations

import gzip
import re
import subprocess
import sys
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner
from sample_records import FOUR, many, trial, written
from sample_sweeps import SWEEP, changed

from hpometrics.cli.main import main
from hpometrics.records.trial_record import EpochRecord, TrialState
from hpometrics.results.report.content import write_report

HTML = f"{SWEEP}results: {{report: html}}\n"


class Page(HTMLParser):
    """The scripts of a page, the links out of it, and the text a reader without JavaScript sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        facts = dict(attrs)
        self.links += [facts[name] for name in ("src", "href") if name in facts]
        self._in = f"{tag} {facts.get('type', '')}".strip()

    def handle_endtag(self, tag):
        self._in = ""

    def handle_data(self, data):
        if self._in in ("script", "script application/gzip"):
            self.scripts.append(data)
        elif not self._in.startswith(("script", "style")):
            self.text += data


def test_the_tables_need_no_script(tmp_path):
    """The optimum, every trial, the reasons as they were, the config and the versions are in the page."""
    text = Page(write_report(written(tmp_path)).read_text()).text
    for part in (
        "trial 1, epoch 2, seed 1",
        "To maximize: roc_auc",
        "ValueError: <b>no</b>",
        "the pruner stopped trial 2",
        "target: toy_engine:train",
        "torchmetrics",
        f"hpometrics best {tmp_path}",
    ):
        assert part in text


def test_the_policy_allows_the_two_scripts_of_the_page_alone(tmp_path):
    """By their hashes, plotly.js as it is unpacked; nothing is loaded from elsewhere."""
    raw = write_report(written(tmp_path)).read_text()
    page, text = Page(raw), unescape(raw)
    packed, script = page.scripts
    scripts = [script.encode(), gzip.decompress(b64decode(packed))]
    hashes = [f"'sha256-{b64encode(sha256(script).digest()).decode()}'" for script in scripts]
    assert re.search(r"script-src ([^;]*);", text)[1].split() == hashes
    assert "default-src 'none'" in text and all(link.startswith("#") for link in page.links)
    assert scripts[1].startswith(b"/**\n* plotly.js (scatter, bar, contour - minified) v")


def test_the_page_is_small_enough_to_mail(tmp_path):
    """A hundred trials of thirty epochs, with every figure; a drawing is data of six digits."""
    records = [
        replace(one, epochs=tuple(EpochRecord(n, {"roc_auc": 1 / (n + 2 + one.number)}) for n in range(30)))
        for one in many(100)
    ]
    assert write_report(written(tmp_path, records)).stat().st_size < 1_200_000


def test_the_data_of_each_figure_needs_no_script(tmp_path):
    """A row for each dot, and one for each curve, with its values by epoch."""
    text = write_report(written(tmp_path)).read_text()
    assert text.count('<details class="data">') == text.count('role="figure"') > 4
    assert "<td>pruned (1)</td><td>trial 2</td><td>0: 0.4</td>" in text
    assert "<td>complete</td><td>0</td><td>0.7</td><td>trial 0: 0.7</td>" in text
    assert "^ higher is better, v lower is better." in text


def test_the_best_row_is_marked_and_others_rank_below(tmp_path):
    """A sweep without a complete trial has a page too, which marks none."""
    text = write_report(written(tmp_path / "a")).read_text()
    assert re.search(r'<tr class="best"><td class="score">1</td><td class="score">1</td>', text)
    none = write_report(written(tmp_path / "b", [trial(0, [], TrialState.RUNNING)])).read_text()
    assert "no trial is complete yet: 1 running" in none and 'class="best"' not in none


def test_the_page_needs_no_plotly_in_python(tmp_path):
    """It has a part of plotly.js of its own; nothing imports the package."""
    code = "import sys; sys.modules['plotly'] = None; from hpometrics.cli.main import main; main()"
    command = [sys.executable, "-c", code, "report", str(written(tmp_path))]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.stdout == f"saved {tmp_path / 'report.html'}\n", ran.stderr


@pytest.mark.parametrize("kind", ["html", "md"])
def test_a_sweep_leaves_the_report_that_it_asks_for(sweep, folder, kind):
    """`run` names it among what is saved; `check` says that it will be there."""
    text = changed("trials: 4", "trials: 2", HTML).replace("html", kind)
    assert f"on disk after every epoch, report.{kind}\n" in sweep(text, command="check").stdout
    result = sweep(text)
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith(f"study.db, report.{kind} in runs/sweep\n")
    assert "2 engine params evaluated (ok 2)" in (folder / "runs" / "sweep" / f"report.{kind}").read_text()


def test_the_report_of_a_directory_goes_where_it_is_told(tmp_path):
    """And into the directory unless told."""
    home, file = written(tmp_path / "run", FOUR), tmp_path / "there.md"
    result = CliRunner().invoke(main, ["report", str(home), "-f", "md", "-o", str(file)])
    assert (result.exit_code, result.stdout) == (0, f"saved {file}\n")
    assert file.read_text().startswith("# sweep\n") and not (home / "report.md").exists()
    assert CliRunner().invoke(main, ["report", str(home)]).stdout == f"saved {home / 'report.html'}\n"
    assert CliRunner().invoke(main, ["report", str(tmp_path)]).exit_code == 2
    for nowhere in (tmp_path, tmp_path / "none" / "page.md"):
        result = CliRunner().invoke(main, ["report", str(home), "-f", "md", "-o", str(nowhere)])
        assert result.exit_code == 2 and f"{nowhere}: is not a file in an existing folder" in result.stderr
