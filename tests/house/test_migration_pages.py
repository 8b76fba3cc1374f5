"""The pages for users of other tools are true: their file becomes the one shown, which runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml
from shipped import call, run_here

from hpometrics.results.run_directory import RunDirectory

PAGES = {
    path.stem: path.read_text(encoding="utf8")
    for path in sorted((Path(__file__).parents[2] / "docs" / "how-to").glob("from-*.md"))
}
INIT = re.compile(r"    hpometrics init (\w+) --from (\S+)\n")
SWEEPS = [(page, *command) for page, text in PAGES.items() for command in INIT.findall(text)]
RECBOLE = {
    "config": """\
class Config(dict):
    def __init__(self, config_dict, config_file_list):
        super().__init__(config_dict, seed=2020, reproducibility=True, device="cpu", epochs=3)
        self.update(model="BPR", MODEL_TYPE=1)
""",
    "data": """\
from types import SimpleNamespace

def create_dataset(config):
    return config

def data_preparation(config, dataset):
    return (SimpleNamespace(dataset=dataset),) * 3
""",
    "utils": """\
class Model:
    def __init__(self, config, dataset):
        self.rate = config["learning_rate"]

    def to(self, device):
        return self

class Trainer:
    def __init__(self, config, model):
        self.model, self.start_epoch, self.epochs = model, 0, config["epochs"]

    def fit(self, train_data, valid_data=None, verbose=True, saved=True, callback_fn=None):
        for epoch in range(self.start_epoch, self.epochs):
            callback_fn(epoch, self.model.rate + epoch)

def init_seed(seed, reproducibility):
    pass

def get_model(name):
    return Model

def get_trainer(kind, name):
    return Trainer
""",
}
"""The modules of RecBole, which is not among the packages of the tests, with the calls of its trainer."""


def write_files(page: str, folder: Path) -> dict[str, str]:
    """Write the files of a page, whose blocks begin with their names, but for the sweep files."""
    files = dict(re.findall(r"```\w+\n# (\S+\.\w+)\n(.*?)```", PAGES[page], re.DOTALL))
    for name, content in files.items():
        if not name.endswith("/sweep.yaml"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(content, encoding="utf8")
    return files


def test_the_pages_are_five():
    """One for each tool whose file is converted; RecBole's has two files."""
    assert [page for page, *_ in SWEEPS] == [
        *("from-hydra", "from-keras-tuner", "from-ludwig", "from-recbole", "from-recbole", "from-wandb")
    ]
    plain = {page: re.sub(r"<div .*>\n\n|\n</div>\n", "", text) for page, text in PAGES.items()}
    lengths = {page: len(plain[page].splitlines()) for page, *_ in SWEEPS}
    assert lengths.pop("from-recbole") <= 140  # which is of two tools, with a file and an engine each
    assert max(lengths.values()) <= 120


@pytest.mark.parametrize(("page", "place", "source"), SWEEPS, ids=lambda part: part)
def test_a_page_converts_and_runs(page, place, source, folder, monkeypatch):
    """As a reader types it, but for fewer trials, and without Ray; programs are run by this Python."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    files = write_files(page, folder)
    made = call("init", place, "--from", source)
    assert made.exit_code == 0, made.stderr
    written = folder / place / "sweep.yaml"
    assert yaml.safe_load(written.read_text()) == yaml.safe_load(files[f"{place}/sweep.yaml"])
    if page == "from-recbole":
        (folder / "mine" / "recbole").mkdir()
        for module, text in RECBOLE.items():
            (folder / "mine" / "recbole" / f"{module}.py").write_text(text)
    ran = run_here(written, "budget.trials=2", "backend=optuna")
    assert ran.exit_code == 0, ran.stderr
    name = yaml.safe_load(written.read_text())["name"]
    records = RunDirectory(folder / "runs" / name).records()
    assert len(records) == 2 and {record.state for record in records} <= {"complete", "pruned"}
    if place == "mine" and page == "from-recbole":  # each epoch is reported, and prunes
        assert [len(record.epochs) for record in records] == [3, 3]
