"""Tags and notes of sweeps and trials: of the sweep file, and those that `hpometrics tag` gives."""

from __future__ import annotations

import csv
import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner
from sample_records import written
from sample_sweeps import SWEEP, problems_of

from hpometrics import Float, Sweep
from hpometrics.cli.main import main
from hpometrics.config.document import read_document
from hpometrics.records._json import sealed
from hpometrics.results.annotation_file import annotate, annotated, read_annotations
from hpometrics.results.annotations import Annotation, Annotations
from hpometrics.results.run_directory import RunDirectory
from hpometrics.results.sweep_result import SweepResult

TAGGED = f"tags: [baseline, gpu]\nnote: |\n  a first\n  try\n{SWEEP}"


@pytest.fixture
def home(tmp_path, monkeypatch) -> RunDirectory:
    """The run directory of a tagged sweep with four trials, below the current folder."""
    monkeypatch.chdir(tmp_path)
    return RunDirectory(written(Path("run"), text=TAGGED))


def command(*arguments: object) -> tuple[int, str]:
    """Call the command in this process: its exit code and all that it prints."""
    result = CliRunner().invoke(main, list(map(str, arguments)))
    return result.exit_code, result.output.strip()


def numbers(*arguments: object) -> list[int]:
    """The trials that `trials` lists."""
    return [one["number"] for one in json.loads(command("trials", "run", "--json", *arguments)[1])]


def test_a_sweep_has_the_tags_of_its_file_and_more(home):
    """Each once; its note is the one that was written last."""
    assert annotated(home).annotation == Annotation(("baseline", "gpu"), "a first try")
    code, text = command("tag", "run", "old", "gpu", "--note", "  better  than\nnothing ")
    assert (code, text) == (0, "run: the sweep: tags baseline, gpu, old; note: better than nothing")
    code, text = command("tag", "run", "old", "--remove", "--note", "")
    assert (code, text) == (0, "run: the sweep: tags baseline, gpu; note: a first try")


def test_trials_have_their_own(home):
    """Some at once; those of the sweep are others."""
    code, text = command("tag", "run", "good", "--trial", 1, "--trial", 0)
    assert (code, text) == (0, "run: trial 1: tags good\nrun: trial 0: tags good")
    code, text = command("tag", "run", "better", "--trial", 1, "--note", "lr too high")
    assert (code, text) == (0, "run: trial 1: tags good, better; note: lr too high")
    code, text = command("tag", "run", "good", "--remove", "--trial", 0)
    assert (code, text) == (0, "run: trial 0: no tags")
    assert read_annotations(home) == Annotations(trials={1: Annotation(("good", "better"), "lr too high")})


def test_they_are_found_by_tag(home):
    """Sweeps by their own, trials by theirs; by several, those that have all."""
    for words in (["good", "--trial", 1, "--trial", 2], ["fast", "--trial", 2], ["old"]):
        assert command("tag", "run", *words)[0] == 0
    assert (numbers("--tag", "good"), numbers("--tag", "good", "--tag", "fast")) == ([1, 2], [2])
    assert (numbers("--tag", "old"), numbers("--tag", "good", "--state", "pruned")) == ([], [2])
    lines = command("ls", ".", "--tag", "old", "--tag", "gpu")[1].splitlines()
    assert lines[0].endswith("tags") and lines[2].endswith("baseline gpu old")
    assert command("ls", ".", "--tag", "good") == (0, "no run directory with tag good at or below .")


def test_every_view_shows_them(home):
    """Tables and texts, those for programs, the reports, and Python."""
    assert command("tag", "run", "good", "--trial", 1, "--note", "<b>" + "x" * 70)[0] == 0
    note = "<b>" + "x" * 70
    status = command("status", "run")[1].splitlines()
    assert status[1:4] == ["tags    baseline, gpu", "note    a first try", "  good  trial 1"]
    facts = json.loads(command("status", "run", "--json")[1])
    assert (facts["tags"], facts["note"]) == (["baseline", "gpu"], "a first try")
    assert (facts["best"]["tags"], facts["best"]["note"]) == (["good"], note)
    head, _, *rows = command("trials", "run")[1].splitlines()
    assert head.split()[-3:] == ["state", "tags", "note"] and f"ok  good  {note[:60]}..." in rows[1]
    table = list(csv.DictReader(io.StringIO(command("trials", "run", "-f", "csv")[1])))
    assert [(row["tags"], row["note"]) for row in table] == [("", ""), ("good", note), ("", ""), ("", "")]
    assert [(one["tags"], one["note"]) for one in json.loads(command("trials", "run", "--json")[1])][:2] == [
        ([], None),
        (["good"], note),
    ]
    assert f"Trial 1: tags good; note: {note}" in command("best", "run")[1].splitlines()
    assert json.loads(command("ls", ".", "--json")[1])[0]["tags"] == ["baseline", "gpu"]
    result = SweepResult.read(home.path)
    page = result.report().read_text()
    assert "tags baseline, gpu; note: a first try" in page
    assert "&lt;b&gt;xxx" in page and "<b>xxx" not in page
    assert "tags baseline, gpu; note: a first try" in result.report("md").read_text()
    assert list(result.to_pandas()["tags"]) == ["", "good", "", ""]


def test_without_any_nothing_is_shown(tmp_path):
    """Tables and files are as without them."""
    home = written(tmp_path)
    assert "tags" not in command("trials", home)[1] + command("status", home)[1] + command("ls", home)[1]
    assert "tags" not in command("trials", home, "-f", "csv")[1] + command("best", home, "-f", "yaml")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a b"], "a tag must be a name: 'a b' is not a valid name; use 1 to 80 characters of A-Z"),
        (["gpu", "--remove"], "run: the sweep itself has no tag 'gpu' to remove; it has none"),
        (["x", "--trial", 1, "--remove"], "run: trial 1 has no tag 'x' to remove; it has none"),
        (["x", "--trial", 7], "run: has no trial 7; there are 0, 1, 2, 3"),
        (["--note", "x" * 1001], "a note can have at most 1000 characters, got 1001"),
        ([], "give a tag, as in hpometrics tag runs/x good, or a note, as in --note 'a text'"),
        (["--note", "x", "--remove"], "give a tag, as in hpometrics tag runs/x good"),
    ],
)
def test_what_is_no_tag_is_refused(home, arguments, message):
    """With what to do; nothing is written."""
    code, text = command("tag", "run", *arguments)
    assert code == 2 and message in text
    assert not home.annotations.exists()


def test_none_is_lost_where_many_are_given_at_once(home):
    """Each waits for the others."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: annotate(home, [f"tag-{number}"], [number % 4]), range(40)))
    found = read_annotations(home)
    assert sorted(tag for one in found.trials.values() for tag in one.tags) == sorted(
        f"tag-{number}" for number in range(40)
    )


@pytest.mark.parametrize(
    "backend",
    ["backend: optuna\n", "backend: {list: [{lr: 0.1, depth: 1, width: 8}]}\n"],
    ids=["optuna", "list"],
)
def test_a_sweep_goes_on_under_other_tags(sweep, folder, backend):
    """They are no part of its meaning, and none of its trials is trained again; its own tags stay."""
    text = SWEEP.replace("trials: 4, ", "trials: 1, ") + backend
    if "list" in backend:
        lines = text.splitlines(keepends=True)
        text = "".join(line for line in lines if not line.startswith(("space", "  ", "search")))
    assert sweep(f"{text}tags: [first]\n").exit_code == 0
    place = Path("runs/sweep")
    assert command("tag", place, "good", "--trial", 0)[0] == command("tag", place, "kept")[0] == 0
    result = sweep(f"{text}tags: [second]\nnote: other\n")
    assert result.exit_code == 0 and "all 1 trials are done" in result.stderr
    assert "Trial 0: tags good" in result.stdout and "good" in (place / "trials.csv").read_text()
    facts = json.loads(command("status", place, "--json")[1])
    assert (facts["tags"], facts["note"]) == (["second", "kept"], "other")
    assert read_document(place / "best.yaml").data["tags"] == ["good"]


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        '{"format": 1, "tags": [], "note": null, "trials": {}}',
        sealed('{"format": 1, "tags": "word", "note": null, "trials": {}}'),
        sealed('{"format": 1, "tags": [], "trials": {"x": {}}}'),
        sealed('{"format": 1, "tags": ["a b"], "trials": {}}'),
    ],
)
def test_damage_is_found(home, content):
    """What reads alone names the file, and changes nothing."""
    home.annotations.write_text(content)
    code, text = command("trials", "run")
    assert code == 2 and "run/annotations.json: is damaged; hpometrics run sets it aside" in text
    assert command("tag", "run", "x")[0] == 2 and home.annotations.read_text() == content


def test_a_damaged_file_is_moved_aside(sweep):
    """By `run`, before its first trial; a file of a newer version is refused then."""
    home = RunDirectory(Path("runs/sweep"))
    assert sweep(SWEEP, "--set", "budget.trials=1").exit_code == 0
    home.annotations.write_text("{")
    result = sweep(SWEEP, "--set", "budget.trials=2")
    assert result.exit_code == 0
    assert "runs/sweep/annotations.json: is damaged, kept as annotations.json.damaged-1" in result.stderr
    home.annotations.write_text(sealed('{"format": 2, "tags": [], "trials": {}}'))
    result = sweep(SWEEP, "--set", "budget.trials=3")
    assert result.exit_code == 2 and "annotations.json: has format 2" in result.stderr
    assert len(home.records()) == 2


def test_tags_of_a_file_are_names(folder):
    """As in Python, where they are arguments of a `Sweep`."""
    found = problems_of(f"tags: [baseline, a b]\n{SWEEP}")
    assert len(found) == 1 and "tags[1]: 'a b' is not a valid name" in found[0]
    sweep = Sweep("toy_engine:train", {"lr": Float(0, 1)}, metric="roc_auc", trials=1, tags=["gpu"])
    assert "tags: [gpu]" in sweep.to_yaml()
