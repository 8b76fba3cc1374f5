"""Numbers of formats: files of before there were any go on, newer ones are refused, damaged ones mended.

`format_0` holds what the version before the numbers has left: a sweep that is complete, one that was killed
in its second trial, one whose study is a journal, half of a grid, a study of an `OptunaObjective`, and an
evaluation.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path

import optuna
import pytest
import torch
from click.testing import CliRunner, Result
from format_edits import (
    edit_sweep,
    edit_trial,
    newer,
    renumber,
    renumber_all,
    renumber_json,
    renumber_sweep,
)

from hpometrics import Choice, Int, OptunaObjective
from hpometrics.backends.optuna.study import (
    OWNER,
    PANEL,
    shared_record,
    study_records,
    write_panel,
    write_result,
)
from hpometrics.cli.main import main
from hpometrics.engines.records import EvaluationInstance
from hpometrics.exceptions import NewerFormatError
from hpometrics.records._json import FORMAT
from hpometrics.records.epoch_log import EpochLog, read_epochs
from hpometrics.records.trial_record import (
    TRIAL_FILE,
    EpochRecord,
    TrialState,
)
from hpometrics.results.manifest import parse_resolved, read_resolved
from hpometrics.results.run_directory import RunDirectory

FORMAT_0 = Path(__file__).with_name("format_0")
ENGINE = "engine_of_format_0"
SWEEPS = ("complete", "killed", "journal")
NEWER = f"has format {FORMAT + 1}, but this version of hpometrics reads formats up to {FORMAT}; use the newer"
READERS = ("best", "trials", "report", "status")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, as the version before the numbers has left it."""
    for path in FORMAT_0.iterdir():
        if path.is_dir() and path.name in (*SWEEPS, "grid", "evaluation"):
            shutil.copytree(path, tmp_path / "runs" / path.name)
        elif path.is_dir() and path.name == "objective":
            shutil.copytree(path, tmp_path / path.name)
        elif path.is_file():
            shutil.copy(path, tmp_path)
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    for file in tmp_path.glob("runs/*/sweep.resolved.yaml"):
        file.write_text(file.read_text().replace("/format_0/", f"{tmp_path}/"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, ENGINE, raising=False)
    yield tmp_path
    sys.modules.pop(ENGINE, None)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `written` keeps what this version has left."""
    return tmp_path_factory.mktemp("written")


@pytest.fixture
def written(place: Path, left: Path) -> Path:
    """The same sweeps as this version leaves them, the killed one after its kill; each is run once."""
    if not any(left.iterdir()):
        shutil.rmtree(place / "runs")
        succeeds("run", "complete.yaml")
        succeeds("run", "journal.yaml", "--set", "budget.trials=2")
        succeeds("eval", f"{ENGINE}:GuessEvaluation")
        shutil.move("runs/GuessEvaluation", "runs/evaluation")
        shutil.copytree("runs/complete", "runs/killed")
        shutil.copytree("runs", left, dirs_exist_ok=True)
    shutil.rmtree(place / "runs")
    shutil.copytree(left, place / "runs")
    for file in place.glob("runs/*/sweep.resolved.yaml"):
        edit_sweep(file, lambda text: re.sub(r"(?m)^(file|home): /.*/", rf"\1: {place}/", text))
    for stamp in place.glob("runs/*/.finished"):
        stamp.unlink()
    return place


def call(*arguments: str) -> Result:
    """`hpometrics ...` in this process."""
    return CliRunner().invoke(main, list(arguments))


def succeeds(*arguments: str) -> Result:
    """The same of a command that must succeed, and has nothing to mend."""
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    assert "damaged" not in result.output and "lost" not in result.output
    return result


def records(name: str) -> list:
    """The records of a run directory."""
    return RunDirectory(Path("runs") / name).records()


def lines_of(name: str, trial: int) -> list[tuple[int, int]]:
    """Attempt and epoch of each line of a trial."""
    lines = Path("runs", name, "trials", f"{trial:04d}", "epochs.jsonl").read_text().splitlines()
    return [(json.loads(line)["attempt"], json.loads(line)["epoch"]) for line in lines]


@pytest.mark.parametrize("name", SWEEPS)
def test_a_sweep_of_format_0_goes_on(place, name):
    """Its budget is exact, what has ended stays as it is, and an open trial goes on from its checkpoint."""
    ended = {
        path: path.read_bytes() for path in place.glob(f"runs/{name}/trials/0000/**/*") if path.is_file()
    }
    trials = 4 if name == "complete" else 3
    succeeds("run", f"{name}.yaml", "--set", f"budget.trials={trials}")
    found = records(name)
    assert [record.state for record in found] == [TrialState.COMPLETE] * trials
    assert {path: path.read_bytes() for path in ended} == ended
    assert [record.value for record in found[:3]] == [0.8125, 0.984375, 0.71875]
    assert lines_of(name, 1) == [(1, 0), (1, 1), (2 if name == "killed" else 1, 2)]
    assert RunDirectory(Path("runs", name)).read().trials == trials
    succeeds("run", f"{name}.yaml", "--set", f"budget.trials={trials}")
    assert len(records(name)) == trials


def test_a_grid_of_format_0_goes_on(place):
    """Each of its points is tried once, those that are done are not tried again."""
    done = [record.params for record in records("grid")]
    succeeds("run", "grid.yaml")
    points = [record.params for record in records("grid")]
    assert points[:3] == done and len(points) == 6
    assert {(point["lr"], point["size"]) for point in points} == set(product((0.125, 0.25, 0.5), (1, 8)))


@pytest.mark.parametrize("name", ["killed", "journal"])
def test_a_worker_joins_a_sweep_of_format_0(place, name):
    """It works on what is left, and the run that ends the sweep finds it done."""
    succeeds("worker", f"runs/{name}")
    done = len(records(name))
    succeeds("run", f"{name}.yaml")
    assert done == (3 if name == "killed" else 2) and len(records(name)) == 3
    assert [record.value for record in records(name)] == [0.8125, 0.984375, 0.71875]


@pytest.mark.parametrize("name", SWEEPS)
def test_results_of_format_0_are_read(place, name):
    """By every command that reads a run directory, which leaves it as it was but for the report."""
    before = bytes_in(place / "runs")
    for command in READERS:
        succeeds(command, f"runs/{name}")
    assert "0.8125" in succeeds("trials", f"runs/{name}").output
    assert ".8125" in succeeds("epochs", f"runs/{name}", "0", "--epoch", "1").output
    assert "mcc" in succeeds("best", f"runs/{name}", "--metric", "mcc").output
    succeeds("compare", f"runs/{name}", "runs/complete")
    after = {path: data for path, data in bytes_in(place / "runs").items() if path.stem != "report"}
    assert after == before


def test_replays_of_format_0_come_out(place):
    """To the last digit: the best trial, one by its number, the file of the best, and an evaluation."""
    for path in ("runs/complete", "runs/complete/best.yaml", "runs/journal", "runs/evaluation"):
        assert "to the last digit" in succeeds("replay", path).output
    assert "roc_auc: 0.71875  as recorded" in succeeds("replay", "runs/complete", "--trial", "2").output
    assert EvaluationInstance.read(Path("runs/evaluation")).status.value == "EVALCOMPLETED"


def objective() -> OptunaObjective:
    """What the study of an objective was made by."""
    from engine_of_format_0 import train

    space = {"lr": Choice([0.125, 0.25, 0.5, 1.0, 2.0]), "size": Int(1, 64)}
    facts = {"metric": "roc_auc", "track": ["accuracy"], "epochs": 3, "checkpoints": "none"}
    return OptunaObjective(train, space, directory="objective", seed=3, **facts)


def study_of(searched: OptunaObjective) -> optuna.Study:
    """Open it."""
    return searched.create_study(
        storage="sqlite:///objective.db", study_name="objective", load_if_exists=True, sampler="random"
    )


def test_a_study_of_format_0_goes_on(place):
    """The trials that it has count, and read with all their epochs."""
    assert "study 'objective'" in call("audit", "objective.db").output
    searched = objective()
    study = study_of(searched)
    searched.optimize(study, n_trials=3)
    assert [trial.value for trial in study.trials[:2]] == [0.8125, 0.984375] and len(study.trials) == 3
    assert [len(record.epochs) for record in searched.records(study)] == [3, 3, 3]
    assert study.user_attrs["hpometrics:format"] == FORMAT


def bytes_in(folder: Path) -> dict[Path, bytes]:
    """Every file but locks."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        path: path.read_bytes() for path in files if "lock" not in path.name and ".locks" not in path.parts
    }


def test_what_is_read_again_has_a_number(written):
    """Each such file of a sweep, a journal and an evaluation, those that hold records in each line."""
    home = written / "runs" / "complete"
    jsons = [home / "verdict.json", *home.glob("trials/*/trial.json")]
    contents = [json.loads(file.read_text()) for file in jsons]
    logs = [*home.glob("trials/*/*.jsonl")]
    contents += [json.loads(line) for file in logs for line in file.read_text().splitlines()]
    checkpoints = [*home.glob("trials/*/checkpoints/*.pt")]
    contents += [torch.load(file, weights_only=True) for file in checkpoints]
    contents += [json.loads((home / ".finished").read_text())] if (home / ".finished").exists() else []
    evaluation = written / "runs" / "evaluation"
    contents += [json.loads((evaluation / "instance.json").read_text())]
    contents += [json.loads((evaluation / "best.json").read_text())["evaluation"]]
    assert [len(jsons), len(logs), len(checkpoints)] == [4, 6, 5]
    assert {content["format"] for content in contents} == {FORMAT}
    for name in ("sweep.resolved.yaml", "best.yaml"):
        assert re.search(rf"(?m)^format: {FORMAT}$", (home / name).read_text())
    assert f'"hpometrics:format":{FORMAT}' in (written / "runs" / "journal" / "study.journal").read_text()


def test_a_directory_without_numbers_is_read(written):
    """As one of format 0: every command prints what it printed, and `run` goes on."""
    readers = [*((command, "runs/complete") for command in ("best", "trials", "status"))]
    readers += [("best", "runs/complete", "--metric", "mcc"), ("replay", "runs/complete/best.yaml")]
    before = [succeeds(*arguments).output for arguments in readers]
    renumber_all(None)
    assert [succeeds(*arguments).output for arguments in readers] == before
    succeeds("run", "complete.yaml", "--set", "budget.trials=4")
    assert len(records("complete")) == 4


def newer_sweep() -> None:
    """A newer version has gone on with the sweep."""
    renumber_all(FORMAT + 1)


def newer_trial() -> None:
    """A newer version has gone on with one of its trials."""
    home = Path("runs/complete/trials/0001")
    edit_trial(home / TRIAL_FILE, renumber(FORMAT + 1))
    renumber_json(home / "epochs.jsonl", FORMAT + 1)


def renumbered(file: Path, number: int) -> None:
    """Give a file, or the last line of it, a number that its digest does not fit."""
    before, old, after = file.read_text().rpartition(f'"format": {FORMAT}')
    assert old
    file.write_text(f'{before}"format": {number}{after}')


def newer_facts() -> None:
    """A newer version has gone on with a trial, and its digest is of another kind."""
    file = Path("runs/complete/trials/0001/trial.json")
    renumbered(file, FORMAT + 1)
    file.write_text(re.sub(r'"digest": "\w+"', '"digest": "another"', file.read_text()))


def newer_number() -> None:
    """Nothing but the number of a trial has changed, and by more than a digit."""
    renumbered(Path("runs/complete/trials/0001/trial.json"), 99)


def newer_line() -> None:
    """A newer version has written an epoch, and no number in `trial.json`; its digest fits."""
    file = Path("runs/complete/trials/0001/epochs.jsonl")
    first, *others = file.read_text().splitlines()
    file.write_text("\n".join([first, *map(newer, others), ""]))


def newer_number_of_line() -> None:
    """Nothing but the number of an epoch has changed, and by more than a digit."""
    renumbered(Path("runs/complete/trials/0001/epochs.jsonl"), 99)


LINES = (newer_line, newer_number_of_line)


@pytest.mark.parametrize("change", [newer_facts, newer_number, *LINES])
def test_a_newer_trial_is_refused_whatever_its_digest(written, change):
    """By name, before it is called damaged, and not one byte is changed."""
    change()
    before = bytes_in(written / "runs")
    place = r"epochs\.jsonl:\d" if change in LINES else r"trial\.json"
    for arguments in (("run", "complete.yaml"), ("best", "runs/complete"), ("worker", "runs/complete")):
        result = call(*arguments)
        assert result.exit_code == 2, (arguments, result.output)
        number = r"has format \d+, but this version"
        assert re.search(rf"(?m)^runs/complete/trials/0001/{place}: {number}", result.output), result.output
        assert bytes_in(written / "runs") == before, arguments


@pytest.mark.parametrize("newer", [newer_sweep, newer_trial])
def test_a_newer_directory_is_refused_by_name(written, newer):
    """By each command that reads or goes on with it, and not one byte of it is changed."""
    newer()
    before = bytes_in(written / "runs")
    commands = [*((command, "runs/complete") for command in (*READERS, "replay", "worker"))]
    commands += [("compare", "runs/complete", "runs/killed"), ("compare", "runs/killed", "runs/complete")]
    commands += [("epochs", "runs/complete", "1"), ("best", "runs/complete", "--metric", "mcc")]
    commands += [("run", "complete.yaml"), ("run", "complete.yaml", "--set", "budget.trials=4", "--extend")]
    for arguments in commands:
        result = call(*arguments)
        assert result.exit_code == 2, (arguments, result.output)
        file = "sweep.resolved.yaml" if newer is newer_sweep and arguments[0] != "epochs" else "trial.json"
        assert re.search(rf"(?m)^runs/complete/\S*{file}: {NEWER}", result.output), arguments
        assert bytes_in(written / "runs") == before, arguments


def test_a_newer_directory_is_put_aside_on_request(written):
    """By `--fresh`, whole."""
    newer_sweep()
    before = {path.name: data for path, data in bytes_in(written / "runs" / "complete").items()}
    succeeds("run", "complete.yaml", "--fresh")
    aside = bytes_in(written / "runs" / "complete.old-1")
    assert {path.name: data for path, data in aside.items()} == before


def test_a_newer_checkpoint_fails_no_trial(place):
    """The run names it and leaves the trial open; with the file of before it goes on from there."""
    file = Path("runs/killed/trials/0001/checkpoints/epoch-0001.pt")
    content = torch.load(file, weights_only=True)
    torch.save({**content, "format": FORMAT + 1}, file)
    result = call("run", "killed.yaml")
    assert result.exit_code == 2 and f"{file}: {NEWER}" in result.output
    assert records("killed")[1].state is TrialState.INTERRUPTED
    torch.save(content, file)
    succeeds("run", "killed.yaml")
    assert [record.value for record in records("killed")] == [0.8125, 0.984375, 0.71875]
    assert len(lines_of("killed", 1)) == 3


def test_a_number_that_a_flipped_bit_made_in_a_checkpoint_is_damage(place):
    """It is put aside, and the trial begins again."""
    file = Path("runs/killed/trials/0001/checkpoints/epoch-0001.pt")
    content = torch.load(file, weights_only=True)
    torch.save({"format": FORMAT, **content}, file)
    raw = file.read_bytes()
    number = raw.index(b"format") + len(b"formatq\x01K")
    file.write_bytes(raw[:number] + bytes([FORMAT ^ 2]) + raw[number + 1 :])
    assert torch.load(file, weights_only=True)["format"] == FORMAT ^ 2
    with pytest.warns(
        UserWarning, match=r"has changed since it was written; kept as epoch-0001\.pt\.damaged-1"
    ):
        assert call("run", "killed.yaml").exit_code == 0
    assert [record.value for record in records("killed")] == [0.8125, 0.984375, 0.71875]
    assert lines_of("killed", 1) == [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]


def test_newer_files_that_stand_alone_are_refused(written):
    """What an evaluation has left, and the file of the best that someone has put beside another sweep."""
    home = written / "runs" / "evaluation"
    best = json.loads((home / "best.json").read_text())
    renumber(FORMAT + 1)(best["evaluation"])
    (home / "best.json").write_text(json.dumps(best))
    renumber_json(home / "instance.json", FORMAT + 1)
    result = call("replay", "runs/evaluation")
    assert result.exit_code == 2 and f"best.json: evaluation: {NEWER}" in result.output
    with pytest.raises(NewerFormatError, match=re.escape(f"instance.json: {NEWER}")):
        EvaluationInstance.read(home)
    file = written / "runs" / "complete" / "best.yaml"
    file.write_text(file.read_text().replace(f"format: {FORMAT}\n", f"format: {FORMAT + 1}\n"))
    result = call("replay", "runs/complete/best.yaml")
    assert result.exit_code == 2 and f"best.yaml: {NEWER}" in result.output


def test_a_newer_study_is_refused_by_name(place):
    """Before a trial or an attribute is added."""
    searched = objective()
    study = study_of(searched)
    study.set_user_attr("hpometrics:format", FORMAT + 1)
    attributes = study.user_attrs
    for again in (lambda: study_of(objective()), lambda: objective().optimize(study, n_trials=3)):
        with pytest.raises(NewerFormatError, match=f"the study 'objective': {NEWER}"):
            again()
    with pytest.raises(NewerFormatError, match=NEWER):
        searched.records(study)
    result = call("audit", "objective.db")
    assert result.exit_code == 2 and f"the study 'objective': {NEWER}" in result.output
    loaded = optuna.load_study(study_name="objective", storage="sqlite:///objective.db")
    assert loaded.user_attrs == attributes and len(loaded.trials) == 2


def test_newer_attributes_of_a_study_are_refused(written):
    """The sweep that a storage shares, an epoch of a trial in it, and the panel of a trial of one's own."""
    file = Path("runs/complete/sweep.resolved.yaml")
    renumber_sweep(file, FORMAT + 1)
    with pytest.raises(NewerFormatError, match=f"^the study shared: {NEWER}"):
        parse_resolved(file.read_text(), "the study shared")
    record = records("journal")[0]
    study = optuna.create_study()
    first, second = study.ask(), study.ask()
    write_result(first, record)
    first.set_user_attr(OWNER, ["worker", "home"])
    first.set_user_attr("hpometrics:epoch:worker:0", newer(record.epochs[0].to_line()))
    write_panel(second, ["loss"], EpochRecord(0, {"loss": 0.5}))
    panel = second.user_attrs[PANEL]
    assert panel["format"] == FORMAT
    second.set_user_attr(PANEL, {**panel, "format": FORMAT + 1})
    with pytest.raises(NewerFormatError, match=f"^trial 0 of the study: {NEWER}"):
        shared_record(study.trials[0])
    with pytest.raises(NewerFormatError, match=f"^trial 1 of the study: {NEWER}"):
        study_records(study)


@pytest.mark.parametrize("directory", ["own", "tune"])
def test_a_newer_log_that_no_trial_vouches_for_is_refused(tmp_path, directory):
    """As of a run in a directory of one's own, or in a checkpoint of Tune; not one byte is changed."""
    file = tmp_path / "epochs.jsonl"
    file.write_text(f'{newer(EpochRecord(0, {"loss": 0.5}).to_line())}\n{{"torn')
    before = file.read_bytes()
    with pytest.raises(NewerFormatError, match=re.escape(f"{file}:1: {NEWER}")):
        EpochLog(tmp_path) if directory == "own" else read_epochs(tmp_path)
    assert file.read_bytes() == before


def flipped(file: Path, old: bytes) -> None:
    """Make a number newer by one bit, where it stands first."""
    raw = file.read_bytes()
    assert old.endswith(str(FORMAT).encode()) and old in raw
    place = raw.index(old) + len(old) - 1
    file.write_bytes(raw[:place] + bytes([raw[place] ^ 2]) + raw[place + 1 :])


DAMAGED = {
    "sweep.resolved.yaml": b"\nformat: 1",
    "trials/0001/trial.json": b'"format": 1',
    "trials/0001/epochs.jsonl": b'"format": 1',
    "verdict.json": b'"format": 1',
    "study.db": b"hpometrics:format1",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_number_that_a_flipped_bit_made_is_damage(written, name):
    """`run` says which file is damaged, mends it, and neither trains a trial again nor loses one."""
    checkpoint_study(Path("runs/complete/study.db"))
    flipped(Path("runs/complete", name), DAMAGED[name])
    result = call("run", "complete.yaml")
    assert result.exit_code == 0, result.output
    assert f"runs/complete/{name}" in result.output and "damaged" in result.output
    assert [*Path("runs/complete").glob(f"{name}.damaged-1")]
    found = records("complete")
    assert [record.value for record in found] == [0.8125, 0.984375, 0.71875]
    assert [len(lines_of("complete", record.number)) for record in found] == [3, 3, 3]
    assert read_resolved(Path("runs/complete/sweep.resolved.yaml"), check=True).trials == 3
    succeeds("best", "runs/complete")
    succeeds("run", "complete.yaml", "--set", "budget.trials=4")


def test_readers_call_a_flipped_number_damage(written):
    """They name the file, and tell nobody to look for a newer version."""
    for name, old in DAMAGED.items():
        file = Path("runs/complete", name)
        before = file.read_bytes()
        if name != "study.db":
            flipped(file, old)
            result = call("best", "runs/complete")
            assert result.exit_code == 2 and f"runs/complete/{name}" in result.output
            assert "newer" not in result.output
            file.write_bytes(before)
    file = Path("runs/complete/trials/0001/statistics.jsonl")
    flipped(file, b'"format": 1')
    result = call("best", "runs/complete", "--metric", "mcc")
    assert str(file) in result.output and "newer" not in result.output


def checkpoint_study(file: Path) -> None:
    """Bring what stands in the log of a study into its file."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
