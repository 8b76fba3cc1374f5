"""Make the pictures of the README and the site: `python -m docs._generate.pictures`, from real runs.

The terminal is recorded by a pseudo terminal and drawn by rich; Chromium takes the screenshots of the report.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Sequence
from pathlib import Path

from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat import NotebookNode, v4
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
COLUMNS, ROWS = 112, 40
COMMAND = "hpometrics run configs/quickstart.yaml"
LIVE = {
    "live": "hpometrics run configs/recommender.yaml",
    "live-ray": "hpometrics run configs/quickstart_ray.yaml",
}
"""The command of each picture that shows a sweep at work, with its live line."""
_AT_WORK = r"\d/\d+  best .* at work #\d+ \d+/\d+ \([\d.]+\)"
SCREENS = {
    "report": (1280, 1080, ()),
    "report-phone": (390, 1500, ()),
    "report-dark": (1280, 1080, ("--force-dark-mode",)),
}
NOTEBOOK = ROOT / "docs/tutorials/notebook.md"
_SHOWN_CELLS = ("result = sweep.run()", "result")
_MOST_RUNS = 3  # of a confirmation
_FRAME = """<meta name="color-scheme" content="light dark"><body style="margin: 0">
<iframe src="{page}" style="border: 0; display: block; height: {height}px; width: {width}px"></iframe>
"""


def main() -> None:
    """Write the pictures of terminals and the screenshots of the report."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("configs", "examples"):
            (Path(folder) / name).symlink_to(ROOT / name)
        notebook = notebook_of(NOTEBOOK)
        run_notebook(notebook, Path(folder))
        notebook.cells = [cell for cell in notebook.cells if cell.source in _SHOWN_CELLS]
        page = Path(folder, "notebook.html")
        exporter = HTMLExporter()  # type: ignore[no-untyped-call]
        page.write_text(exporter.from_notebook_node(notebook)[0], encoding="utf8")
        _photograph(page, PICTURES / "notebook.png", 1000, 1300, ())
        for name, command in LIVE.items():
            shown = [_prompt(command), *_record(Path(folder), command, interrupt=_AT_WORK, still=True)]
            (PICTURES / f"{name}.svg").write_text(_svg(shown), encoding="utf8")
        interrupted = _record(Path(folder), interrupt=r" 3 +ok  ")
        resumed = _record(Path(folder))
        (PICTURES / "run.svg").write_text(_svg(_excerpt(interrupted, resumed)), encoding="utf8")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run([*_PROGRAM, "report", "runs/quickstart"], cwd=folder, check=True, env=environment)
        for name, (width, height, flags) in SCREENS.items():
            _photograph(
                Path(folder, "runs/quickstart/report.html"), PICTURES / f"{name}.png", width, height, flags
            )


_PROGRAM = (sys.executable, "-m", "hpometrics")


def notebook_of(page: Path) -> NotebookNode:
    """Return a notebook with a cell for each block of Python on a page."""
    blocks = re.findall(r"```python\n(.*?)\n```", page.read_text(encoding="utf8"), re.DOTALL)
    cells = [v4.new_code_cell(block) for block in blocks]  # type: ignore[no-untyped-call]
    notebook: NotebookNode = v4.new_notebook(cells=cells)  # type: ignore[no-untyped-call]
    return notebook


def run_notebook(notebook: NotebookNode, folder: Path) -> None:
    """Run all cells in a kernel of this Python, which keep what they print.

    Raises:
        CellExecutionError: a cell has failed.
    """
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}}).execute()


def _record(
    folder: Path, command: str = COMMAND, interrupt: str | None = None, still: bool = False
) -> list[str]:
    """Run a command in a terminal and return its lines with their colors.

    Args:
        folder: where it runs.
        command: `hpometrics` and its arguments.
        interrupt: after output that matches, Ctrl-C is pressed once.
        still: return the lines of that moment, not those of the end.
    """
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
        environment.pop("NO_COLOR", None)
        os.execve(sys.executable, [*_PROGRAM, *command.split()[1:]], environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    output, lines = "", []
    while data := _read(terminal):
        output += data
        if interrupt and re.search(interrupt, output):
            lines = _lines(output)
            os.write(terminal, b"\x03")
            interrupt = None
    os.waitpid(child, 0)
    return lines if still else _lines(output)


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, 1 << 16).decode(errors="replace")
    except OSError:  # the command has ended
        return ""


def _lines(output: str) -> list[str]:
    """Return what a terminal shows in the end: a line that is erased or written again shows its last text."""
    lines: list[str] = []
    for line in output.replace("\r\n", "\n").split("\n"):
        for _ in range(line.count("\x1b[1A")):
            lines.pop()
        lines.append(re.sub(r"\x1b\[[?\d;]*[A-Zhl]", "", re.split(r"\r\x1b\[2K|\x1b\[1A\x1b\[2K", line)[-1]))
    return lines


def _excerpt(interrupted: Sequence[str], resumed: Sequence[str]) -> list[str]:
    """Return the lines of the picture: both runs without the table of trials, whose rows stand above it."""
    table = next(n for n, line in enumerate(resumed) if line.startswith(" rank"))
    block = next(n for n, line in enumerate(resumed) if line.startswith("# engine params"))
    runs = [n for n, line in enumerate(resumed[:table]) if re.match(r" +#\d+ +seed", line)]
    shown = [*resumed[: runs[_MOST_RUNS]], f"   ... {len(runs) - _MOST_RUNS} more", "", *resumed[block:]]
    prompt = _prompt(COMMAND)
    return [prompt, *(line for line in interrupted if line), "", prompt, *shown]


def _prompt(command: str) -> str:
    return f"\x1b[1m$ {command}\x1b[0m"


def _svg(lines: Sequence[str]) -> str:
    """Return the picture of lines in a terminal; its font is one that the reader has."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True)
    for line in lines:
        console.print(Text.from_ansi(line))
    svg = console.export_svg(title="hpometrics", clear=False)
    return re.sub(r"\s*@font-face \{.*?\}\n", "", svg, flags=re.DOTALL).replace("Fira Code,", "")


def _photograph(page: Path, picture: Path, width: int, height: int, flags: Sequence[str]) -> None:
    """Save a screenshot of the top of a page, in a frame: a window cannot be as narrow as a phone.

    Raises:
        SystemExit: there is no Chromium.
    """
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        raise SystemExit("install chromium: it takes the screenshots of the report")
    frame = page.with_name("frame.html")
    frame.write_text(_FRAME.format(page=page.name, width=width, height=height), encoding="utf8")
    options = ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=8000", *flags)
    size, target = f"--window-size={width},{height}", f"--screenshot={picture}"
    subprocess.run([browser, *options, size, target, frame.as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    main()
