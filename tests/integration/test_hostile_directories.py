"""What lies in a run directory is data: nothing of it is carried out, written through or printed as it is."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import optuna
import pytest
import torch
import yaml
from click.testing import Result
from matrix import EXHAUSTIVE
from reading_commands import HOME, READERS, assert_refused, call
from sample_records import FOUR, written
from sample_sweeps import SWEEP, changed

from hpometrics.exceptions import RecordError
from hpometrics.records._json import sealed
from hpometrics.run.checkpoint import load_checkpoint

ODD = """\
import math

LINE = "\\n2026-01-01 INFO  #99   ok  \\x1b[32mall is well\\x1b[0m\\u202e"


def train(params, run):
    for _ in run.epochs(2):
        run.log(gap=math.nan if params["kind"] == "nan" else 0.5)
        run.undefined(other="no row" + LINE)
    if params["kind"] == "raise":
        raise ValueError("lost" + LINE)
"""
ODD_SWEEP = """\
engine: odd_engine:train
space: {kind: {choice: ["=cmd|' /C calc'!A0", raise, nan, "\\e[31mred\\n#98 ok"]}, "@sum(1)": 3}
metrics: {optimize: {metric: gap, direction: minimize}, track: [{metric: other, direction: maximize}]}
search: {sampler: grid}
budget: {epochs: 2}
results: {report: html, loggers: [table]}
"""


class Trap:
    """Leaves a file when it is unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (Path("sprung"),)


@pytest.fixture
def odd(folder, sweep, monkeypatch) -> Result:
    """A sweep over params and an engine that print what could pass for other lines."""
    monkeypatch.delitem(sys.modules, "odd_engine", raising=False)
    (folder / "odd_engine.py").write_text(ODD)
    return sweep(ODD_SWEEP)


FILES = (
    "sweep.yaml", "study.db", ".locks/0000", "trials/0000/epochs.jsonl",
    "trials/0000/checkpoints/epoch-0000.pt", "trials/0000/repeats/1/epochs.jsonl",
    "trials/0000/repeats/1/checkpoints/epoch-0000.pt",
)  # fmt: skip
FOLDERS = (
    "", ".locks", "trials", "trials/0000", "trials/0000/checkpoints", "trials/0000/repeats",
    "trials/0000/repeats/1", "trials/0000/repeats/1/checkpoints",
)  # fmt: skip


@pytest.mark.parametrize("link", [*FOLDERS, *FILES])
def test_nothing_is_written_through_a_link(link, folder, sweep):
    """Whoever can put one there could have a file of the user overwritten."""
    elsewhere = folder / "elsewhere"
    if link in FILES:
        elsewhere.write_text("mine")
    else:
        elsewhere.mkdir()
    place = folder / HOME / link
    place.parent.mkdir(parents=True)
    place.symlink_to(elsewhere)
    for command in ([], ["--fresh"]):
        assert_refused(
            sweep(SWEEP, *command), f"{Path(HOME) / link}: is a symbolic link to {elsewhere}; a run"
        )
    assert elsewhere.read_text() == "mine" if elsewhere.is_file() else not list(elsewhere.iterdir())


def test_a_worker_writes_through_no_link_either(folder):
    """It looks before it reads what the sweep is about."""
    home = written(folder / HOME)
    (home / "trials/0000/error.txt").symlink_to(folder / "elsewhere")
    assert_refused(call("worker", HOME), "error.txt: is a symbolic link")


def test_every_directory_is_its_owners_alone(folder, sweep):
    """Params and what went wrong may be nobody else's business."""
    assert sweep(SWEEP).exit_code == 0
    places = [folder / HOME, *(path for path in (folder / HOME).rglob("*") if path.is_dir())]
    assert len(places) > 5
    assert {stat.S_IMODE(place.stat().st_mode) for place in places} == {0o700}


@pytest.fixture
def no_pickles(monkeypatch) -> Iterator[list[dict[str, Any]]]:
    """Let every reading of a pickle fail; gives how checkpoints are read."""
    loads: list[dict[str, Any]] = []
    load = torch.load

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("a pickle is read")

    def noted(*arguments: Any, **options: Any) -> Any:
        loads.append(options)
        return load(*arguments, **options)

    unpickler = type("Unpickler", (pickle.Unpickler,), {"load": refuse})  # others derive theirs from it
    for name, stands in (("load", refuse), ("loads", refuse), ("Unpickler", unpickler)):
        monkeypatch.setattr(pickle, name, stands)
    monkeypatch.setattr(torch, "load", noted)
    with pytest.raises(AssertionError, match="a pickle is read"):
        pickle.loads(b"")
    yield loads


def test_no_pickle_of_a_run_directory_is_read(folder, sweep, no_pickles):
    """Not by those who read results, and not by a run that goes on or trains again."""
    engine = changed("toy_engine:train", "toy_engine:learn")
    assert sweep(engine).exit_code == 0
    trap = pickle.dumps(Trap())
    for name in (
        "tuner.pkl",
        "study.pkl",
        "trials/0000/params.pkl",
        "trials/0000/trial.pkl",
        "searcher-state.pkl",
    ):
        (folder / HOME / name).write_bytes(trap)
    for arguments in [*READERS.values(), ["replay", HOME], ["epochs", HOME, "1"]]:
        assert call(*arguments).exit_code == 0, arguments
    assert sweep(engine.replace("trials: 4", "trials: 5")).exit_code == 0
    assert not Path("sprung").exists()
    assert all(options.get("weights_only") is True for options in no_pickles)


def test_a_checkpoint_holds_tensors_and_plain_data(folder):
    """One that would run code is refused, however it was packed; it is named."""
    for pack in (lambda trap, file: torch.save({"version": 1, "states": trap}, file), pickle.dump):
        buffer = io.BytesIO()
        pack(Trap(), buffer)
        (folder / "epoch-0000.pt").write_bytes(buffer.getvalue())
        with pytest.raises(RecordError, match=r"epoch-0000\.pt: is not a checkpoint: "):
            load_checkpoint(folder / "epoch-0000.pt")
    assert not Path("sprung").exists()


def assert_printable(text: str) -> None:
    """Nothing moves the cursor, colors or turns a line, and no line is one of the engine's."""
    assert text.replace("\n", "").isprintable()
    assert not any(line.strip().startswith(("2026-01-01 INFO", "#99", "#98")) for line in text.splitlines())


def test_no_line_can_be_forged(odd):
    """By params, by the reason of a failure, or by that of an undefined value."""
    assert odd.exit_code == 0, odd.output
    for result in (
        odd,
        *(call(*arguments) for arguments in READERS.values()),
        call("replay", HOME, "--trial", "1"),
    ):
        assert result.output
        assert_printable(result.stdout)
        assert_printable(result.stderr)
    for file in ("report.md", "report.html"):
        lines = (Path(HOME) / file).read_text().splitlines()
        assert not any(line.startswith("2026-01-01") for line in lines), file
        assert not any("\x1b" in line or "\u202e" in line for line in lines), file


def test_a_value_has_a_name_that_can_be_printed(folder, sweep, monkeypatch):
    """What an engine calls its values stands in tables."""
    monkeypatch.delitem(sys.modules, "odd_engine", raising=False)
    (folder / "odd_engine.py").write_text(ODD.replace("run.log(gap=", "run.log(**{'a\\nb': 1.0}, gap="))
    result = sweep(ODD_SWEEP)
    assert result.exit_code == 4
    assert r"the name of a value must be printable characters, got 'a\nb' (str)" in result.stderr


def test_no_cell_is_a_formula(odd):
    """Of the params, the values and the reasons; a spreadsheet would carry it out."""
    cells = [
        cell for line in (Path(HOME) / "trials.csv").read_text().splitlines() for cell in line.split(",")
    ]
    assert "'=cmd|' /C calc'!A0" in cells
    assert not any(cell.lstrip('"').startswith(("=", "+", "-", "@", "\t")) for cell in cells)


def test_all_json_is_strict(odd):
    """A value that is not finite is null, with its reason; other readers know no NaN."""

    def strict(text: str | bytes) -> None:
        json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))

    files = [path for path in Path(HOME).rglob("*") if path.suffix in (".json", ".jsonl", ".trainstats")]
    assert {path.name for path in files} >= {"trial.json", "epochs.jsonl"}
    for path in files:
        for text in path.read_bytes().splitlines() if path.suffix == ".jsonl" else [path.read_bytes()]:
            strict(text)
    for name, arguments in READERS.items():
        if name.endswith("JSON"):
            strict(call(*arguments).stdout)


NOT_JSON = "trial.json: is not valid JSON"
DAMAGE: dict[str, tuple[str, str, str]] = {
    "deep JSON": ("trials/0000/trial.json", "[" * 100_000, f"{NOT_JSON}: it is nested too deep"),
    "NaN": ("trials/0000/trial.json", '{"value": NaN}', f"{NOT_JSON}: NaN is not valid JSON"),
    "another record": ("trials/0000/trial.json", "[]", "trial.json: not a trial record ("),
    "number as text": ("trials/0000/trial.json", '{"number": "0"}', "number cannot be '0'"),
    "deep epochs": ("trials/0000/epochs.jsonl", "[" * 100_000 + "\n", "epochs.jsonl:1: not an epoch record"),
    "step of 1.7": (
        "trials/0000/epochs.jsonl",
        '{"epoch": 1.7, "values": {}, "reasons": {}, "seconds": 1, "attempt": 1}\n',
        "epochs.jsonl:1: not an epoch record",
    ),
    "binary": ("trials/0000/epochs.jsonl", "\0\n", "epochs.jsonl:1: not an epoch record"),
    "empty config": ("sweep.resolved.yaml", "", "is not a valid resolved sweep: "),
    "another config": ("sweep.resolved.yaml", "config: 3", "is not a valid resolved sweep: "),
    "tagged config": (
        "sweep.resolved.yaml",
        "config: !!python/object/apply:os.system [touch sprung]",
        "the tag tag:yaml.org,2002:python/object/apply:os.system is not supported",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_directory_is_an_error_with_its_file(name, folder):
    """Of whoever reads it, with exit code 2."""
    written(folder / HOME, FOUR[:2])
    file, content, text = DAMAGE[name]
    (folder / HOME / file).write_text(content)
    for name, arguments in READERS.items():
        if not file.endswith(".yaml") or name != "epochs":  # which needs the record alone
            assert_refused(call(*arguments), text)
    assert not Path("sprung").exists()


@pytest.mark.parametrize("key", ["name", "metric", "track", "seeds", "versions", "config", "space", "at"])
def test_a_resolved_sweep_is_of_the_kinds_that_were_written(key, folder):
    """Readers rely on them."""
    home = written(folder / HOME, FOUR[:2])
    lines = (home / "sweep.resolved.yaml").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"{key}:"))
    end = next((i for i in range(start + 1, len(lines)) if not lines[i].startswith(" ")), len(lines))
    (home / "sweep.resolved.yaml").write_text("\n".join([*lines[:start], f"{key}: [1]", *lines[end:]]))
    for name, arguments in READERS.items():
        if name != "epochs":
            assert_refused(call(*arguments), "is not a valid resolved sweep: ")


STEERING = "\x1b]0;pwned\x07\x9b31m\u202e\u2066\x7f\r"
"""It sets a title, rings, colors by a C1 code, turns the reading direction twice, deletes and returns."""
FILES = ("trials/0001/trial.json", "trials/0001/epochs.jsonl", "sweep.resolved.yaml")


def poisoned(told: Any, chosen: Callable[[int], bool], counter: Iterator[int]) -> Any:
    """The same data, in which texts and keys, chosen by their place, steer a terminal and forge a line."""
    if isinstance(told, dict):
        return {
            poisoned(name, chosen, counter): poisoned(value, chosen, counter) for name, value in told.items()
        }
    if isinstance(told, list):
        return [poisoned(one, chosen, counter) for one in told]
    return f"{told}{STEERING}\n#99 ok" if isinstance(told, str) and chosen(next(counter)) else told


def steering(content: dict, chosen: Callable[[int], bool], counter: Iterator[int]) -> str:
    """The same of a line, which says that it is as it was written."""
    had = content.pop("digest", None) if "values" in content else None
    text = json.dumps(poisoned(content, chosen, counter))
    return text if had is None else sealed(text)


def poison(file: Path, chosen: Callable[[int], bool]) -> int:
    """Write texts of a file anew; gives how many there are."""
    counter, text = count(), file.read_text()
    if file.suffix == ".yaml":
        file.write_text(yaml.safe_dump(poisoned(yaml.safe_load(text), chosen, counter)))
    else:
        contents = map(json.loads, text.splitlines() if file.suffix == ".jsonl" else [text])
        file.write_text("".join(f"{steering(content, chosen, counter)}\n" for content in contents))
    return next(counter)


READING = {
    **{name: arguments for name, arguments in READERS.items() if name != "report"},
    "epochs of the trial": ["epochs", HOME, "1", "--all"],
    "best as YAML": ["best", HOME, "-f", "yaml"],
    "best as arguments": ["best", HOME, "-f", "args"],
    "the three best": ["best", HOME, "-k", "3"],
    "status as JSON": ["status", HOME, "--json"],
    "compare": ["compare", HOME, HOME],
}


def assert_steers_nothing(arguments: list[str]) -> str:
    """What a command prints shows what would steer a terminal; how it ends is not asked here."""
    result = call(*arguments)
    told = result.stdout + result.stderr
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    raw = {char for char in told.replace("\n", "") if not char.isprintable()}
    assert not raw, (arguments, [line for line in told.splitlines() if raw & {*line}])
    assert "\n#99" not in told, arguments
    return told


@pytest.mark.parametrize("file", FILES)
def test_no_text_of_a_file_steers_the_terminal(file, folder):
    """Whichever name or text it is: those who read the directory show it escaped, or refuse the file."""
    home = written(folder / HOME, FOUR[:3])
    record = json.loads((home / "trials/0001/trial.json").read_text())
    record |= {
        "reason": "why",
        "failed_attempts": ["died"],
        "ended_by": "patience",
        "versions": {"torch": "2"},
    }
    record |= {"constraints": {"accuracy <= 1": 0}, "targets": "digest", "checkpoint": "epoch-0001.pt"}
    (home / "trials/0001/trial.json").write_text(json.dumps(record))
    epoch = '{"epoch": 3, "values": {"loss": null, "b/loss": 1}, "reasons": {"loss": "no row"}'
    with (home / "trials/0001/epochs.jsonl").open("a") as lines:
        lines.write(f'{epoch}, "seconds": 1, "attempt": 1}}\n')
    whole = (home / file).read_text()
    for place in range(poison(home / file, lambda place: False)):
        (home / file).write_text(whole)
        poison(home / file, lambda one, place=place: one == place)
        for arguments in READING.values():
            assert_steers_nothing(arguments)


def test_no_name_of_a_file_steers_the_terminal(folder):
    """Whoever types `hpometrics best runs/*` has not read what the directories are called."""
    home = written(folder / "runs" / f"a{STEERING}", FOUR[:3])
    for arguments in READING.values():
        assert_steers_nothing([str(home) if one == HOME else one for one in arguments])
    for command in (
        "best",
        "trials",
        "status",
        "report",
        "compare",
        "audit",
        "measure",
        "check",
        "replay",
        "worker",
    ):
        for path in (home / STEERING, home.parent / f"{STEERING}.csv", home / "sweep.yaml"):
            assert_steers_nothing([command, str(path)])
    assert "pwned" in assert_steers_nothing(["best", str(home / STEERING)])


def test_no_name_of_another_tool_steers_the_terminal(folder):
    """Studies that `audit` reads, columns that `measure` reads, sweep files that `check` reads."""
    name = f"x{STEERING}"
    study = optuna.create_study(storage="sqlite:///study.db", study_name=name, direction="minimize")
    for value in (1.0, 1.0):
        study.add_trial(
            optuna.create_trial(
                params={name: 1},
                distributions={name: optuna.distributions.IntDistribution(1, 2)},
                value=value,
                user_attrs={name: name},
            )
        )
    assert "pwned" in assert_steers_nothing(["audit", "study.db"])
    assert_steers_nothing(["audit", "study.db", "--json"])
    Path("x.jsonl").write_text(json.dumps({name: 1, "target": name, "prediction": name}) + "\n")
    for arguments in (["--output", "category"], ["--output", "text"], ["-f", "csv"], ["--by", name], [name]):
        assert_steers_nothing(["measure", "x.jsonl", *arguments])
    for text in (
        SWEEP,
        SWEEP.replace("roc_auc", json.dumps(name)),
        SWEEP.replace("lr:", f"{json.dumps(name)}:"),
    ):
        Path("sweep.yaml").write_text(f"{json.dumps(name)}: 1\n{text}")
        assert "pwned" in assert_steers_nothing(["check", "sweep.yaml"])


ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
"""A locale that encodes names of files, and what is printed, in ASCII."""


def in_ascii(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Type a command in that locale."""
    command = [sys.executable, "-m", "hpometrics", *arguments]
    env = {**os.environ, **ASCII}
    return subprocess.run(command, env=env, capture_output=True, encoding="utf8", check=False)


def test_a_directory_that_the_locale_cannot_write_is_refused(folder):
    """With its place in the file, and what to set."""
    Path("sweep.yaml").write_text(f"{SWEEP}results: {{dir: läufe}}\n", encoding="utf8")
    refused = in_ascii("check", "sweep.yaml")
    assert refused.returncode == 2 and "Traceback" not in refused.stderr
    assert "results.dir: 'ä' of 'läufe' cannot be encoded in ascii, the encoding of th" in refused.stderr
    assert "set PYTHONUTF8=1, or LC_ALL=C.UTF-8" in refused.stderr


@EXHAUSTIVE
def test_a_sweep_runs_where_the_locale_is_ascii(folder):
    """What it prints may have letters all the same, in its params and tables."""
    text = changed("large:", "größe€:").replace("small:", "日本:")
    assert "größe€" in text and "日本" in text
    Path("sweep.yaml").write_text(text, encoding="utf8")
    for arguments in (["run", "sweep.yaml"], ["best", HOME], ["trials", HOME], ["report", HOME, "-f", "md"]):
        ended = in_ascii(*arguments)
        assert ended.returncode == 0, ended.stderr
        assert "Traceback" not in ended.stderr
    assert {"größe€", "日本"} & set(re.split(r"[\s=]", in_ascii("best", HOME).stdout))


def test_a_folder_that_is_no_text_is_refused(folder, monkeypatch):
    """The record names it, and is text; nothing is left that could not be read again."""
    odd = Path(os.fsdecode(b"d\xe9x"))
    odd.mkdir()
    monkeypatch.chdir(odd)
    shutil.copy(folder / "toy_engine.py", ".")
    Path("sweep.yaml").write_text(SWEEP)
    assert_refused(call("run", "sweep.yaml"), "the name of a folder is not text in the encoding of this lo")
    assert not Path("runs").exists()
