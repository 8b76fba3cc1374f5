"""A run directory is copied to a URL when its sweep has ended, and read from there."""

from __future__ import annotations

import json
import re
import shutil
import signal
from dataclasses import replace

import pytest
import torch
from forked import hpometrics
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from sample_sweeps import changed, problems_of

from hpometrics import ConfigError, Float, Sweep, load_best
from hpometrics.exceptions import DiskError, RecordError, RunError
from hpometrics.records.remote_copy import (
    INDEX,
    claim_copy,
    copy_directory,
    fetch_directory,
    identify,
    url_problem,
)
from hpometrics.results.run_directory import RunDirectory

LEARN = changed("toy_engine:train", "toy_engine:learn")


@pytest.fixture(params=["memory", "file"])
def url(request, tmp_path):
    """An empty place of a file system."""
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    return f"memory://sweeps/{tmp_path.name}" if request.param == "memory" else f"file://{tmp_path}/copy/of"


@pytest.fixture
def home(tmp_path):
    """A directory with a lock, a folder to leave and files in folders."""
    files = {
        ".lock": "",
        ".locks/a": "",
        "ray/big": "",
        "sweep.yaml": "name: x",
        "trials/0000/.kept": "1",
        "trials/0000/.epoch-0003.pt.4711-0123abcd": "of a process that was killed",
    }
    for name, text in files.items():
        (tmp_path / "home" / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "home" / name).write_text(text)
    return tmp_path / "home"


def everything(_name):
    """Whether a file is fetched: each is."""
    return True


def records(folder):
    """The records of a run directory, without the paths of checkpoints."""
    return [replace(one, checkpoint=None) for one in RunDirectory(folder).records()]


def contents(folder):
    """The text of each file by its name."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_what_has_changed_is_copied(home, url, tmp_path):
    """Hidden files of the directory itself stay; what is gone is removed; nothing is copied twice."""
    assert copy_directory(home, url, "x", leave=("ray",)) == 2
    assert copy_directory(home, url, "x", leave=("ray",)) == 0
    (home / "sweep.yaml").write_text("name: other")
    (home / "trials/0000/.kept").unlink()
    assert copy_directory(home, url, "x", leave=("ray",)) == 1
    fetch_directory(url, tmp_path / "fetched", everything)
    assert contents(tmp_path / "fetched") == {"sweep.yaml": "name: other"}


def test_a_copy_that_broke_off_goes_on(home, url, tmp_path, monkeypatch):
    """The index names its files last, so that they are there."""
    system = type(url_to_fs(url)[0])
    whole = system.put_file

    def full(self, *args, **kwargs):
        raise OSError("no space")

    monkeypatch.setattr(system, "put_file", full)
    with pytest.raises(DiskError, match=re.escape(f"{url}: no space")):
        copy_directory(home, url, "x")
    with pytest.raises(ConfigError, match="its first copy is not complete yet"):
        fetch_directory(url, tmp_path / "fetched", everything)
    monkeypatch.setattr(system, "put_file", whole)
    assert copy_directory(home, url, "x") == 3


def test_what_is_there_is_not_touched(home, url):
    """Another sweep's copy, or files of the user."""
    copy_directory(home, url, "x")
    holder = re.escape(f"holds a copy of the sweep x of {home}; name another URL for the sweep y of {home}")
    with pytest.raises(DiskError, match=holder):
        copy_directory(home, url, "y")
    system, root = url_to_fs(url)
    system.pipe_file(f"{root}/trials/sweep.yaml", b"mine")
    with pytest.raises(DiskError, match="is neither empty nor a copy of a run directory"):
        copy_directory(home, f"{url}/trials", "x")
    assert system.cat_file(f"{root}/trials/sweep.yaml") == b"mine"


@pytest.mark.parametrize("content", ["{", "[]", '{"name": "x", "files": 3}'])
def test_a_damaged_index_is_said(home, url, tmp_path, content):
    """By whoever writes and whoever reads."""
    copy_directory(home, url, "x")
    system, root = url_to_fs(url)
    system.pipe_file(f"{root}/{INDEX}", content.encode())
    with pytest.raises(DiskError, match=f"{INDEX} is damaged"):
        copy_directory(home, url, "x")
    with pytest.raises(ConfigError, match=f"{INDEX} is damaged"):
        fetch_directory(url, tmp_path / "fetched", everything)


def test_a_file_that_is_being_copied_is_not_read(home, url, tmp_path):
    """It is not the one that the index names."""
    copy_directory(home, url, "x")
    system, root = url_to_fs(url)
    system.pipe_file(f"{root}/sweep.yaml", b"name: half")
    with pytest.raises(ConfigError, match=r"sweep\.yaml is still being copied"):
        fetch_directory(url, tmp_path / "fetched", everything)


def test_an_index_that_leaves_its_folder_is_refused(home, tmp_path):
    """Whoever may write the copy writes no other file of the reader."""
    copy_directory(home, f"file://{tmp_path}/copy", "x")
    for name in ("../outside", "/etc/outside"):
        (tmp_path / "copy" / INDEX).write_text(json.dumps({"name": "x", "files": {name: [1, 1]}}))
        with pytest.raises(RecordError, match="names a file outside the copy"):
            fetch_directory(f"file://{tmp_path}/copy", tmp_path / "fetched", everything)


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("runs/x", "is not a URL"),
        ("sftp://ada:secret@host/x", "contains a password; leave it out"),
        ("floppy://x", "floppy:// is not a file system that fsspec knows"),
        ("oss://bucket/x", "oss:// needs ossfs, which is not installed: pip install ossfs"),
    ],
)
def test_a_place_that_cannot_be_is_refused_at_check(place, problem):
    """At its place in the file, without a password; in Python too."""
    assert problem in (url_problem(place) or "")
    [text] = problems_of(f"{LEARN}results: {{copy_to: '{place}'}}\n")
    assert "results.copy_to" in text and problem in text and "secret" not in text


OTHERS = {
    "engine": {"toy_engine:learn": "toy_engine:train"},
    "space": {"[1e-4, 1e-1]": "[1e-4, 1e-2]"},
    "seed": {"seed: 3": "seed: 4"},
    "directory": {},
}
"""Changes that make another sweep of the same name; it has another directory in any case."""


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_another_sweep_of_the_same_name_is_refused(sweep, folder, change):
    """Before its directory is made; the first copy stays as it is."""
    copy = folder / "copy"
    text = f"name: digits\n{LEARN}results: {{copy_to: 'file://{copy}'}}\n"
    assert sweep(text, "--set", "results.dir=runs/one").exit_code == 0
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    for old, new in change.items():
        assert old in text
        text = text.replace(old, new)
    result = sweep(text, "--set", "results.dir=runs/two")
    assert (result.exit_code, result.stdout) == (5, "")
    assert f"holds a copy of the sweep digits of {folder}/runs/one" in result.stderr
    assert f"name another URL for the sweep digits of {folder}/runs/two" in result.stderr
    assert not (folder / "runs/two").exists()
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("way", ["again", "--extend", "--fresh", "damaged"])
def test_the_same_directory_is_copied_again(sweep, folder, way):
    """Whether it goes on, is extended or starts over; a directory whose id is lost is another one."""
    text = f"{LEARN}results: {{copy_to: 'file://{folder}/copy'}}\n"
    assert sweep(text, "--set", "budget.trials=2").exit_code == 0
    if way == "damaged":
        (folder / "runs/sweep/copied.json").write_text("{")
    flags = [way] if way[0] == "-" else []
    result = sweep(text, *flags)
    if way == "damaged":
        assert result.exit_code == 5 and "delete the copy if it" in result.stderr
        return
    assert result.exit_code == 0, result.stderr
    fetch_directory(f"file://{folder}/copy", folder / "fetched", everything)
    assert records(folder / "fetched") == records(folder / "runs/sweep")


def test_a_directory_that_is_restored_from_the_copy_goes_on(sweep, folder):
    """Another directory may then not claim the URL, and the copy stays readable."""
    url = f"file://{folder}/copy"
    text = f"{LEARN}results: {{copy_to: '{url}'}}\n"
    assert sweep(text, "--set", "budget.trials=2").exit_code == 0
    shutil.rmtree(folder / "runs/sweep")
    assert sweep(text).exit_code == 5
    shutil.copytree(folder / "copy", folder / "runs/sweep")
    assert sweep(text).exit_code == 0
    fetch_directory(url, folder / "fetched", everything)
    assert records(folder / "fetched") == records(folder / "runs/sweep")


def test_a_claim_without_a_directory_is_taken_by_the_next_run(home, url, tmp_path):
    """A run that ends before it has a directory claims nothing; the first directory with an id does."""
    claim_copy(url, "x", tmp_path / "one")
    claim_copy(url, "x", home)
    identify(home)
    claim_copy(url, "x", home)
    with pytest.raises(DiskError, match="holds a copy of the sweep x"):
        claim_copy(url, "x", tmp_path / "one")


def test_the_best_is_loaded_from_the_copy(sweep, folder, url):
    """With the weights of its picked epoch; the checkpoints of other trials are not fetched."""
    result = sweep(LEARN, "--set", f"results.copy_to={url}")
    assert result.exit_code == 0 and f" files to {url}\n" in result.stderr
    model, other = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
    here, there = load_best("runs/sweep", model=model), load_best(url, model=other)
    assert (there.trial, there.params, there.value) == (here.trial, here.params, here.value)
    assert torch.equal(model.weight, other.weight)
    kept = [path.parent.parent.name for path in there.checkpoint.parents[2].glob("*/checkpoints/*")]
    assert set(kept) == {f"{here.trial:04}"}


def test_a_model_of_another_shape_is_refused(sweep):
    """The error of torch names neither the trial nor the checkpoint."""
    assert sweep(LEARN, "--set", "budget.trials=2").exit_code == 0
    with pytest.raises(
        RunError, match=r"epoch-\d+\.pt: the state of trial \d does not fit model=\.\.\.: .*size"
    ):
        load_best("runs/sweep", model=torch.nn.Linear(5, 1))
    with pytest.raises(RunError, match="the checkpoint contains"):
        load_best("runs/sweep", other=torch.nn.Linear(4, 1))


def test_a_sweep_that_is_interrupted_is_copied_and_goes_on(sweep, folder, url):
    """As it stands; the next run copies what has come."""
    text = changed("toy_engine:train", "toy_engine:interrupt") + f"results: {{copy_to: '{url}'}}\n"
    assert sweep(text).exit_code == 130
    fetch_directory(url, folder / "first", everything)
    assert sweep(text).exit_code == 0
    fetch_directory(url, folder / "second", everything)
    first, second = (RunDirectory(folder / name).records() for name in ("first", "second"))
    assert [record.state for record in first][-1] == "interrupted"
    assert second == RunDirectory(folder / "runs/sweep").records()


def test_a_place_that_cannot_be_written_is_said_before_the_first_trial(sweep, folder):
    """Exit code 5; nothing is left."""
    (folder / "copy").write_text("a file in the way")
    result = sweep(f"{LEARN}results: {{copy_to: 'file://{folder}/copy'}}\n")
    assert (result.exit_code, result.stdout) == (5, "")
    assert f"file://{folder}/copy: " in result.stderr and not (folder / "runs").exists()


def broken(monkeypatch, folder):
    """Have no file copied after the first trial has begun."""
    whole = LocalFileSystem.put_file

    def full(self, *args, **kwargs):
        raise OSError("no space")

    monkeypatch.setattr(LocalFileSystem, "put_file", full)
    return f"file://{folder}/copy", lambda: monkeypatch.setattr(LocalFileSystem, "put_file", whole)


def test_a_copy_that_fails_is_said_and_made_by_the_next_run(sweep, folder, monkeypatch):
    """Exit code 5: nothing recorded is lost."""
    url, mend = broken(monkeypatch, folder)
    text = f"{LEARN}results: {{copy_to: '{url}'}}\n"
    result = sweep(text)
    assert result.exit_code == 5 and "Optimal Engine Params" in result.stdout
    assert (
        f"results.copy_to: {url}: no space; runs/sweep is complete, and the next run copies it"
        in result.stderr
    )
    mend()
    assert sweep(text).exit_code == 0
    assert load_best(url).trial == load_best("runs/sweep").trial


def test_python_raises_what_a_copy_raises(folder, monkeypatch):
    """After the sweep, whose results are there; the next call copies them."""
    url, mend = broken(monkeypatch, folder)
    sweep = Sweep(
        "toy_engine:learn", {"lr": Float(0.01, 0.1)}, metric="roc_auc", trials=2, epochs=1, copy_to=url
    )
    with pytest.raises(DiskError, match="no space"):
        sweep.run(progress=False)
    mend()
    assert sweep.run(progress=False).best.trial == load_best(url).trial


def test_a_run_that_is_killed_is_copied_by_the_next(folder, monkeypatch):
    """A kill leaves no time to copy."""
    place = f"file://{folder}/copy"
    (folder / "sweep.yaml").write_text(f"{LEARN}results: {{copy_to: '{place}'}}\n")
    monkeypatch.setenv("KILL_AT", "1")
    assert hpometrics("run", "sweep.yaml").ended() == -signal.SIGKILL
    monkeypatch.delenv("KILL_AT")
    assert hpometrics("run", "sweep.yaml").ended() == 0
    fetch_directory(place, folder / "fetched", everything)
    assert records(folder / "fetched") == records(folder / "runs/sweep")


@pytest.mark.ray
def test_a_sweep_on_ray_is_copied(folder, on_ray):
    """Without Ray's own folder, which repeats the records; a run that is killed is copied by the next."""
    url = f"file://{folder}/copy"
    (folder / "sweep.yaml").write_text(LEARN + on_ray() + f"results: {{copy_to: '{url}'}}\n")
    killed = hpometrics("run", "sweep.yaml")
    assert killed.waits_for((folder / "runs/sweep/trials/0001").exists)
    killed.killed()
    assert hpometrics("run", "sweep.yaml").ended() == 0
    assert load_best(url).trial == load_best("runs/sweep").trial
    assert not (folder / "copy/ray").exists() and (folder / "runs/sweep/ray").exists()


@pytest.mark.parametrize("place", ["memory://nothing/here", "file:///nothing/here"])
def test_a_url_without_a_copy_is_refused(place):
    """With what is missing."""
    with pytest.raises(ConfigError, match="is not a copy of a run directory"):
        load_best(place)
