"""Layers of a sweep file: files that it includes, and variables of the environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from sample_sweeps import SWEEP, changed, plan_of, problems_of

from hpometrics import Sweep
from hpometrics._redaction import redacted
from hpometrics.cli.main import main
from hpometrics.config.document import Document, SweepFileError, parse_document, read_document
from hpometrics.config.overrides import MAX_DEPTH, MAX_FILES, read_layers
from hpometrics.config.placeholders import fill_environment
from hpometrics.config.plan import Plan, make_plan, read_plan
from hpometrics.config.yaml_writer import dump_yaml
from hpometrics.results.stamp import path_of, question_of

BASE = """\
engine: {target: toy_engine:train, output: binary, params: {depth: 2, kind: a}}
space: {lr: {float: [1e-4, 1e-1], log: true}}
metrics: {optimize: roc_auc, track: [accuracy]}
budget: {trials: 4}
"""


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """What is hidden in a test is hidden in it alone."""
    monkeypatch.setattr("hpometrics._redaction._revealed", set())


def written(folder: Path, **texts: str) -> Path:
    """Write files into a folder and return the path of `sweep.yaml`; `__` in a name is a folder."""
    for name, text in texts.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder / "sweep.yaml"


def problems_in(file: Path) -> str:
    """The problems of a file with its layers, without its folder."""
    with pytest.raises(SweepFileError) as caught:
        make_plan(read_layers(file))
    return str(caught.value).replace(f"{file.parent}/", "")


def test_later_layers_win(tmp_path):
    """Sections, space and fixed params by key, dimensions and lists as a whole; `--set` is the last layer."""
    text = (
        "include: [base.yaml, parts/more.yaml]\nengine: {params: {kind: b}}\nspace: {lr: {choice: [1, 2]}}\n"
    )
    more = "budget: {epochs: 3, trials: 7}\nspace: {width: {int: [1, 4]}}\nmetrics: {track: [ece]}\n"
    file = written(tmp_path, base=BASE, parts__more=more, sweep=text)
    assert read_layers(file).data == {
        "engine": {"target": "toy_engine:train", "output": "binary", "params": {"depth": 2, "kind": "b"}},
        "space": {"lr": {"choice": [1, 2]}, "width": {"int": [1, 4]}},
        "metrics": {"optimize": "roc_auc", "track": ["ece"]},
        "budget": {"trials": 7, "epochs": 3},
    }
    assert read_plan(file, ["budget.trials=9"]).trials == 9
    assert Sweep.from_file(file)._plan.trials == 7


def test_an_included_file_is_beside_the_file_that_includes_it(tmp_path):
    """Not beside the first one."""
    file = written(tmp_path, parts__a="include: b.yaml\n", parts__b=BASE, sweep="include: parts/a.yaml\n")
    assert read_plan(file).trials == 4


def test_problems_name_the_file_that_they_are_in(tmp_path):
    """All at once; what a later layer replaces is no problem."""
    base = BASE.replace("1e-4", "x").replace("trials: 4", "trials: many, epochs: few")
    file = written(tmp_path, base=base, sweep="include: base.yaml\nbudget: {trials: 0, patience: 2}\n")
    text = problems_in(file)
    assert "base.yaml:2:22: space.lr.float[0]: expected a number, got 'x'" in text
    assert "base.yaml:4:24: budget.epochs: expected a whole number, got 'few'" in text
    assert "sweep.yaml:2:10: budget.trials: must be at least 1, got 0" in text and "many" not in text


def test_a_run_directory_holds_the_merged_file(folder, sweep):
    """It is a sweep file of its own; a second run does nothing."""
    written(folder, base=SWEEP)
    result = sweep("include: base.yaml\nbudget: {trials: 1, epochs: 1}\n")
    assert result.exit_code == 0, result.output
    kept = read_document(folder / "runs/sweep/sweep.yaml").data
    assert kept == parse_document(SWEEP, "").data | {"budget": {"trials": 1, "epochs": 1}}
    again = CliRunner().invoke(main, ["run", "sweep.yaml"])
    assert again.exit_code == 0 and "all 1 trials are done" in again.stderr


LAYERS = {
    "not text": ("3", "sweep.yaml:1:1: include: expected the name of a file, or a list of names"),
    "a mapping": ("{base.yaml: 1}", "sweep.yaml:1:1: include: expected the name of a file"),
    "in a list": ("[base.yaml, 3]", "sweep.yaml:1:22: include[1]: expected the name of a file"),
    "with a newline": (r'"a\nb"', "include: expected the name of a file"),
    "in the parent": ("../sweep.yaml", "include: ../sweep.yaml is outside the folder of this file"),
    "out and in": ("parts/../base.yaml", "include: parts/../base.yaml is outside the folder of this file"),
    "absolute": ("/etc/passwd", "include: /etc/passwd is outside the folder of this file"),
    "the folder": (".", "include: . is outside the folder of this file"),
    "a folder": ("parts", "include: parts: is a directory, not a file"),
    "missing": ("none.yaml", "sweep.yaml:1:1: include: none.yaml cannot be read: No such file or directory"),
    "a link": ("link.yaml", "include: link.yaml is a link; include the file it points to"),
    "behind a link": ("away/base.yaml", "include: away is a link; include the file it points to"),
    "a pipe": ("pipe.yaml", "include: pipe.yaml: is a pipe, not a file"),
    "itself": ("sweep.yaml", "include: sweep.yaml includes itself: sweep.yaml -> sweep.yaml"),
    "in a circle": (
        "ring.yaml",
        "ring.yaml:1:1: include: sweep.yaml includes itself: sweep.yaml -> ring.yaml",
    ),
    "a list": ("list.yaml", "list.yaml:1:1: starts with a list, but a sweep file is a mapping of sections"),
    "not YAML": ("open.yaml", "open.yaml:2:1: not YAML: "),
    "a tag": ("tag.yaml", "tag.yaml:1:7: the tag !x is not supported"),
    "an alias": ("alias.yaml", "alias.yaml:1:4: anchors and aliases are not supported"),
    "large": ("large.yaml", "large.yaml:1:1: is larger than 1 MiB; a sweep file has only a few lines"),
    "large together": ("[half.yaml, half.yaml]", "included files are larger than 1 MiB"),
    "deep": (
        "deep0.yaml",
        f"deep{MAX_DEPTH}.yaml is nested more than {MAX_DEPTH} includes deep",
    ),
    "many": ("bomb0.yaml", f"exceeds the {MAX_FILES} files that a sweep can include"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_hostile_include_is_refused(name, tmp_path):
    """With the place at which it stands; nothing above the folder is read, and no bomb is unpacked."""
    value, expected = LAYERS[name]
    file = written(
        tmp_path,
        base=BASE,
        parts__x=BASE,
        ring="include: sweep.yaml\n",
        list="[1]",
        open="a: [1\n",
        tag="name: !x y",
        alias="a: &a 1",
        large=f"name: {'x' * 2**20}",
        half=f"# {'x' * 600_000}\n{BASE}",
        sweep=f"include: {value}\n{BASE}",
        **{f"deep{i}": f"include: deep{i + 1}.yaml\n" for i in range(MAX_DEPTH + 1)},
        **{f"bomb{i}": f"include: [{', '.join([f'bomb{i + 1}.yaml'] * 9)}]\n" for i in range(7)},
    )
    (tmp_path / "bomb7.yaml").write_text("version: 1\n")
    (tmp_path / "link.yaml").symlink_to("base.yaml")
    (tmp_path / "away").symlink_to("parts")
    os.mkfifo(tmp_path / "pipe.yaml")
    assert expected in problems_in(file)


def test_files_are_included_by_files_alone(tmp_path):
    """Not by `--set`, nor in Python; keys of other tools are answered with the one of ours."""
    file = written(tmp_path, sweep=SWEEP)
    with pytest.raises(SweepFileError, match="include: names files to read together with a sweep file"):
        read_plan(file, ["include=base.yaml"])
    with pytest.raises(SweepFileError, match="unknown key 'include'"):
        Sweep.from_file(file, include="base.yaml")
    for key in ("defaults", "extends", "_base_", "base.yml"):
        [problem] = problems_of(f"{SWEEP}{key}: [x]\n")
        assert f"unknown key '{key}'; to build on other files, use include: [base.yaml]" in problem


def env(text: str) -> str:
    """The sweep with a fixed param."""
    return changed("output: binary}", f"output: binary, params: {{data: {text}}}}}")


def again(plan: Plan) -> Plan:
    """The plan that another process makes of the resolved sweep."""
    return plan_of(dump_yaml(plan.to_config()))


def test_a_variable_is_read_and_its_placeholder_kept(monkeypatch):
    """A fixed param is a plain value; the resolved file has the placeholder, which a worker reads anew."""
    monkeypatch.setenv("DATA", "/data/large")
    plan = plan_of(env("'${env:DATA}/train'"))
    assert plan.config.engine.params == {"data": "/data/large/train"}
    assert plan.to_config()["engine"]["params"] == {"data": "${env:DATA}/train"}
    assert plan.config.engine.params == {"data": "/data/large/train"}
    assert redacted("in /data/large") == "in /data/large"
    monkeypatch.setenv("DATA", "/mnt")
    assert again(plan).config.engine.params == {"data": "/mnt/train"}


def test_a_value_that_is_a_variable_alone_may_be_a_number(monkeypatch):
    """As if it stood in the file; files hold it, since results are read by it."""
    monkeypatch.setenv("HIGH", "0.5")
    monkeypatch.setenv("TRIALS", "7")
    text = changed("1e-1]", "'${env:HIGH}']").replace("trials: 4", "trials: '${env:TRIALS}'")
    plan = plan_of(text)
    assert plan.trials == 7 and plan.to_config()["space"]["lr"]["float"] == [1e-4, 0.5]
    assert plan.to_config()["budget"]["trials"] == 7 and again(plan).space == plan.space


def test_a_variable_elsewhere_is_a_secret(monkeypatch, tmp_path):
    """Its value is in no message and no file."""
    monkeypatch.setenv("TOKEN", "hf-0123456789")
    logger = "results: {loggers: [{mlflow: {uri: 'https://x/${env:TOKEN}'}}]}\n"
    plan = plan_of(f"{SWEEP}backend: {{optuna: {{storage: 'postgresql://a@db/${{env:TOKEN}}'}}}}\n{logger}")
    assert plan.config.backend.storage == "postgresql://a@db/hf-0123456789"
    config = dump_yaml(plan.to_config())
    assert "hf-0123456789" not in config and config.count("${env:TOKEN}") == 2
    assert redacted("401 for hf-0123456789") == "401 for ***"
    file = written(tmp_path, sweep=changed("target: toy_engine:train", "command: ['${env:TOKEN}', '{lr}']"))
    for flags in ([], ["--json"], ["--sample", "1"]):
        checked = CliRunner().invoke(main, ["check", str(file), *flags])
        assert checked.exit_code == 0 and "hf-0123456789" not in checked.output, checked.output


def test_another_value_is_another_question(monkeypatch):
    """So that a finished sweep goes on when the variable says more trials; its directory follows too."""
    text = changed("trials: 4", "trials: '${env:TRIALS}'") + "results: {dir: 'runs/${env:TRIALS}'}\n"
    documents = []
    for number in ("3", "4"):
        monkeypatch.setenv("TRIALS", number)
        document = plan_of(text).document
        documents.append(question_of(document))
        assert path_of(document) == Path("runs", number)
    assert documents[0] != documents[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "'${env:NONE}'",
            "engine.params.data: the environment variable NONE, which ${env:NONE} stands for, is not set; "
            "export it",
        ),
        ("'${env:}'", "engine.params.data: write an environment variable as ${env:NAME}"),
        ("'${env:A B}'", "engine.params.data: write an environment variable as ${env:NAME}"),
        ("'${env:LONG'", "engine.params.data: write an environment variable as ${env:NAME}"),
        ("'${env:NAN}'", "${env:NAN} is outside the supported range; whole numbers have 64 bits"),
        ("'${env:BYTES}'", "the variable BYTES is not text in UTF-8"),
        (f"'{'${env:LONG}' * 2000}'", "the variables that this file names are larger than 1 MiB in total"),
        ("'${env:SELF}'", ""),
    ],
    ids=["missing", "empty", "space", "open", "nan", "bytes", "bomb", "nested"],
)
def test_a_hostile_variable_is_refused(text, expected, monkeypatch):
    """With its place and without its value; what a variable holds is not read again."""
    for name, value in {"NAN": ".nan", "BYTES": "\udcff", "LONG": "x" * 1000, "SELF": "${env:SELF}"}.items():
        monkeypatch.setenv(name, value)
    found = problems_of(env(text))
    assert len(found) == bool(expected) and all(expected in problem for problem in found)


def test_fixed_params_are_untouched_without_placeholders():
    """The same data comes back."""
    document = Document("x", data={"a": [1, {"b": "${envvar:HOME}"}], "c": "$env:X"})
    assert fill_environment(document) == document.data and not document.problems


@pytest.mark.parametrize("name", ["missing", "a link", "itself", "not YAML"])
def test_a_failed_include_is_the_only_error(name, folder, sweep):
    """What the file would hold is not called missing; a typing error of this file is named beside it."""
    value = LAYERS[name][0]
    written(folder, open="a: [1\n")
    (folder / "link.yaml").symlink_to("open.yaml")
    result = sweep(f"include: {value}\n", command="check")
    assert result.exit_code == 2 and "1 error - nothing was run" in result.stderr, result.output
    if name != "not YAML":
        assert "unknown key 'budgt'" in sweep(f"include: {value}\nbudgt: 1\n", command="check").stderr
