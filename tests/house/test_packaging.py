"""The distributions: what is in them, how large they are, and what they state of their home."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from test_layers import MODULES, imports_of

import hpometrics

ROOT = Path(__file__).parents[2]
URL = "https://example.org/owner/hpometrics"
HOOK = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
LARGEST = 1_800_000
GENERATED = re.compile(r"PKG-INFO|setup\.cfg|hpometrics\.egg-info/.*")

pytestmark = [
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a build is compared with the repository"),
    pytest.mark.xdist_group("packaging"),  # one process builds, once
]


def build(hook: str, source: Path, to: Path, url: str | None = None) -> subprocess.CompletedProcess[str]:
    """Call a hook of the build backend as pip does, without a network."""
    env = {name: value for name, value in os.environ.items() if name != "PROJECT_URL"}
    return subprocess.run(
        [sys.executable, "-c", HOOK, hook, str(to)],
        cwd=source,
        env=env if url is None else {**env, "PROJECT_URL": url},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def tracked() -> set[str]:
    """The files of the repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}


@pytest.fixture(scope="module")
def checkout(tracked, tmp_path_factory) -> Path:
    """A copy of the repository, which a build may write into."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in tracked:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def sdist(checkout, tmp_path_factory) -> Path:
    """The sdist of a release, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    built = build("build_sdist", checkout, folder, URL)
    assert built.returncode == 0, built.stderr
    (packed,) = folder.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    return folder / packed.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory) -> zipfile.ZipFile:
    """The wheel that somebody builds from the sdist, who has never heard of PROJECT_URL."""
    folder = tmp_path_factory.mktemp("wheel")
    built = build("build_wheel", sdist, folder)
    assert built.returncode == 0, built.stderr
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_an_sdist_is_the_whole_repository(sdist, tracked):
    """Whoever has it can run the tests and build again; nothing else slips in."""
    packed = {path.relative_to(sdist).as_posix() for path in sdist.rglob("*") if path.is_file()}
    assert sdist.name == f"hpometrics-{hpometrics.__version__}"
    assert packed - tracked == {name for name in packed if GENERATED.fullmatch(name)}
    assert tracked <= packed
    assert {
        "Makefile",
        "constraints.txt",
        "LICENSE",
        "CHANGELOG.md",
        ".ci/run",
        "tests/conftest.py",
    } <= packed


def left_out() -> set[str]:
    """The modules that `setup.py` leaves out of the wheel, by their dotted names below the package."""
    text = (ROOT / "setup.py").read_text(encoding="utf8")
    table = re.search(r"^CHECKOUT_ONLY = (\{.*?^\})", text, re.MULTILINE | re.DOTALL)[1]
    modules = ast.literal_eval(table)
    return {
        f"{package}.{name}".removeprefix("hpometrics.") for package in modules for name in modules[package]
    }


def test_a_wheel_is_the_package_alone(wheel, tracked):
    """Without what only writes the documentation, and small."""
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    absent = {f"hpometrics/{name.replace('.', '/')}.py" for name in left_out()}
    (license_file,) = (name for name in tracked if name.endswith("/plotly-LICENSE.txt"))
    assert packed == {name for name in tracked if name.startswith("hpometrics/")} - absent - {license_file}
    assert any(name.endswith(f".dist-info/licenses/{license_file}") for name in wheel.namelist())
    sums = [one.CRC for one in wheel.infolist() if one.file_size]
    assert len(sums) == len(set(sums)), "a file is packed twice"
    assert Path(wheel.filename).stat().st_size <= LARGEST


def test_nothing_needs_a_module_that_is_left_out():
    """No module of the wheel imports one, wherever in its file."""
    absent = {f"hpometrics.{name}" for name in left_out()}
    assert left_out() <= MODULES.keys()
    assert not {name for name in MODULES.keys() - left_out() if absent & {*imports_of(name)}}


def test_the_index_is_packed_and_says_the_same(wheel):
    """In another order, without spaces, and without the texts that a page reads from the class itself."""
    index = "hpometrics/metrics/registry/index.json"
    texts = {"docs", "raises", "deviates", "source", "shape", "formula", "value"}
    plain = [
        {key: fact for key, fact in row.items() if key not in texts}
        for row in json.loads((ROOT / index).read_text(encoding="utf8"))
    ]
    packed = json.loads(wheel.read(index))
    assert sorted(packed, key=str) == sorted(plain, key=str)


def test_a_release_leads_to_its_home(wheel):
    """Also the wheel that is built from its sdist: absolute links of this version, five URLs."""
    name = next(name for name in wheel.namelist() if name.endswith("/METADATA"))
    facts = message_from_string(wheel.read(name).decode())
    urls = dict(line.split(", ") for line in facts.get_all("Project-URL"))
    assert urls.keys() == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    assert urls["Homepage"] == URL
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", facts.get_payload()) if link[0] != "#"]
    assert f"{URL}/blob/v{hpometrics.__version__}/docs/how-to/sweeps.md" in links
    assert f"{URL}/raw/v{hpometrics.__version__}/docs/pictures/run.svg" in links
    assert all(link.startswith("https://") for link in links)


def test_a_plain_build_names_no_home(checkout, tmp_path):
    """It works, has no URLs, and its description is the README as it is."""
    built = build("prepare_metadata_for_build_wheel", checkout, tmp_path)
    assert built.returncode == 0, built.stderr
    text = next(tmp_path.glob("*.dist-info/METADATA")).read_text(encoding="utf8")
    assert message_from_string(text).get_all("Project-URL") is None
    assert text.endswith((ROOT / "README.md").read_text(encoding="utf8"))


def test_what_is_no_address_is_refused(checkout, tmp_path):
    """In one sentence, with the value."""
    built = build("prepare_metadata_for_build_wheel", checkout, tmp_path, "example.org")
    assert built.returncode != 0
    assert "must be an address, as https://host/owner/name, got 'example.org'" in built.stderr


def test_a_release_without_a_home_is_refused():
    """Before anything is installed or built."""
    env = {name: value for name, value in os.environ.items() if name != "PROJECT_URL"}
    ran = subprocess.run(["make", "release"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    assert ran.returncode != 0
    assert "make release needs PROJECT_URL, which is not set" in ran.stdout + ran.stderr


def test_the_version_is_the_same_everywhere():
    """It is set in one place; what cannot read it there is compared: the citation and the changelog."""
    version = hpometrics.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE)[1] == version
    assert (
        re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf8"), re.MULTILINE)[1]
        == version
    )
