"""A run directory is copied to a URL when its sweep has ended, and read from there."""

from __future__ import annotations

import json
import re

import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem
from sample_sweeps import changed, problems_of

from hpometrics import ConfigError, load_best
from hpometrics.exceptions import DiskError, RecordError
from hpometrics.records.remote_copy import INDEX, copy_directory, fetch_directory, url_problem
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
    }
    for name, text in files.items():
        (tmp_path / "home" / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "home" / name).write_text(text)
    return tmp_path / "home"


def everything(_name):
    """Whether a file is fetched: each is."""
    return True


def contents(folder):
    """The text of each file by its name."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_what_has_changed_is_copied(home, url, tmp_path):
    """Hidden files of the directory itself stay; what is gone is removed; nothing is copied twice."""
    assert copy_directory(home, url, leave=("ray",)) == 2
    assert copy_directory(home, url, leave=("ray",)) == 0
    (home / "sweep.yaml").write_text("name: other")
    (home / "trials/0000/.kept").unlink()
    assert copy_directory(home, url, leave=("ray",)) == 1
    fetch_directory(url, tmp_path / "fetched", everything)
    assert contents(tmp_path / "fetched") == {"sweep.yaml": "name: other"}


def test_a_copy_that_broke_off_goes_on(home, url, tmp_path, monkeypatch):
    """The index is written last, so that what it names is there."""
    put = MemoryFileSystem.put_file

    def full(self, *args, **kwargs):
        raise OSError("no space")

    url = "memory://sweeps/broken"
    monkeypatch.setattr(MemoryFileSystem, "put_file", full)
    with pytest.raises(DiskError, match=re.escape(f"{url}: no space")):
        copy_directory(home, url)
    with pytest.raises(ConfigError, match=f"is not a copy of a run directory; it has no {INDEX}"):
        fetch_directory(url, tmp_path / "fetched", everything)
    monkeypatch.setattr(MemoryFileSystem, "put_file", put)
    assert copy_directory(home, url) == 3


def test_an_index_that_leaves_its_folder_is_refused(home, tmp_path):
    """Whoever may write the copy writes no other file of the reader."""
    copy_directory(home, f"file://{tmp_path}/copy")
    for name in ("../outside", "/etc/outside"):
        (tmp_path / "copy" / INDEX).write_text(json.dumps({name: [1, 1]}))
        with pytest.raises(RecordError, match="names a file outside of the copy"):
            fetch_directory(f"file://{tmp_path}/copy", tmp_path / "fetched", everything)


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("runs/x", "is not a URL"),
        ("sftp://ada:secret@host/x", "has a password; leave it out"),
        ("floppy://x", "floppy:// is not a file system that fsspec knows"),
        ("oss://bucket/x", "oss:// needs ossfs, which is not installed: pip install ossfs"),
    ],
)
def test_a_place_that_cannot_be_is_refused_at_check(place, problem):
    """At its place in the file, without a password; in Python too."""
    assert problem in (url_problem(place) or "")
    [text] = problems_of(f"{LEARN}results: {{copy_to: '{place}'}}\n")
    assert "results.copy_to" in text and problem in text and "secret" not in text


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


def test_a_copy_that_fails_is_said_and_made_by_the_next_run(sweep, folder):
    """Exit code 5: nothing recorded is lost."""
    (folder / "copy").write_text("a file in the way")
    text = f"{LEARN}results: {{copy_to: 'file://{folder}/copy'}}\n"
    result = sweep(text)
    assert result.exit_code == 5 and "Optimal Engine Params" in result.stdout
    assert f"results.copy_to: file://{folder}/copy: " in result.stderr
    assert "runs/sweep is whole, and hpometrics run copies it again" in result.stderr
    (folder / "copy").unlink()
    assert sweep(text).exit_code == 0
    assert load_best(f"file://{folder}/copy").trial == load_best("runs/sweep").trial


@pytest.mark.ray
def test_a_sweep_on_ray_is_copied(sweep, folder, on_ray):
    """Without Ray's own folder, which repeats the records."""
    url = f"file://{folder}/copy"
    assert sweep(LEARN + on_ray(), "--set", f"results.copy_to={url}").exit_code == 0
    assert load_best(url).trial == load_best("runs/sweep").trial
    assert not (folder / "copy/ray").exists() and (folder / "runs/sweep/ray").exists()


@pytest.mark.parametrize("place", ["memory://nothing/here", "file:///nothing/here"])
def test_a_url_without_a_copy_is_refused(place):
    """With what is missing."""
    with pytest.raises(ConfigError, match="is not a copy of a run directory"):
        load_best(place)
