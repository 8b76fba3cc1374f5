"""Programs as people have them: scripts that know nothing of a sweep, run by their own command line."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from hpometrics.cli.main import main
from hpometrics.records.trial_record import TrialState
from hpometrics.results.run_directory import RunDirectory

SCRIPT = """\
import argparse, json, os, sys
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--note", default="")
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--seed", type=int)
options = parser.parse_args()
with open(os.path.join(os.path.dirname(__file__), "arguments.jsonl"), "a") as file:
    print(json.dumps(sys.argv[1:]), file=file)
for epoch in range(options.epochs):
    print(json.dumps({"accuracy": options.lr * (epoch + 1)}), flush=True)
"""
NOTE = 'it\'s "$HOME"; `ls` {lr}'


def sweep_file(*arguments: str, more: str = "", script: str = "script.py", budget: str = "epochs: 3") -> str:
    """A sweep over a script."""
    command = json.dumps([sys.executable, script, *arguments])
    return f"""\
engine: {{command: {command}{more}}}
space: {{lr: {{choice: [0.25, 0.5, 0.125]}}}}
metrics: {{optimize: accuracy}}
search: {{sampler: grid}}
budget: {{{budget}}}
"""


@pytest.fixture
def run(sweep, folder):
    """Write the script, run the sweep, and give what was printed with the run directory."""

    def call(text: str, source: str = SCRIPT, command: str = "run", arguments: tuple[str, ...] = ()):
        (folder / "script.py").write_text(source)
        return sweep(text, *arguments, command=command), RunDirectory(folder / "runs/sweep")

    return call


def test_an_argparse_script_is_swept_as_it_is(run, folder):
    """Each param is an argument of its own, whatever it holds; the seed is that of the trial."""
    more = f", params: {{note: {json.dumps(NOTE)}}}"
    result, home = run(sweep_file("{args}", "--seed={seed}", more=more))
    assert result.exit_code == 0, result.output
    records = home.records()
    assert [record.value for record in records] == [0.5, 1.0, 0.25]
    lines = [json.loads(line) for line in (folder / "arguments.jsonl").read_text().splitlines()]
    assert lines == [
        [f"--note={NOTE}", f"--lr={record.params['lr']}", f"--seed={record.seed}"] for record in records
    ]


def test_a_replay_expands_the_same_command(run, folder):
    """The seed is the recorded one, though nothing is written into the run directory."""
    _, home = run(sweep_file("{args}", "--seed={seed}"))
    before = (folder / "arguments.jsonl").read_text().splitlines()
    (folder / "arguments.jsonl").unlink()
    result = run_replay(home)
    assert result.exit_code == 0, result.output
    assert (folder / "arguments.jsonl").read_text().splitlines() == before[1:2]


def run_replay(home):
    """Call `hpometrics replay` on the best trial."""
    return CliRunner().invoke(main, ["replay", str(home.path)])


def test_check_shows_the_command_of_the_first_trial(run, folder):
    """As it is run, quoted for a shell; also as JSON."""
    text = sweep_file("{args}", "--out={dir}")
    result, _ = run(text, command="check", arguments=("--sample", "1"))
    assert f"script.py --lr=0.25 --out={folder}/runs/sweep/trials/0000" in result.output
    result, _ = run(text, command="check", arguments=("--sample", "1", "--json"))
    assert json.loads(result.stdout)["sample"]["command"][2] == "--lr=0.25"
    assert not (folder / "arguments.jsonl").exists()


def test_a_program_runs_on_ray(run, on_ray):
    """Its command is filled in by the process of the trial."""
    result, home = run(sweep_file("{args}") + on_ray())
    assert result.exit_code == 0, result.output
    assert sorted(record.value for record in home.records()) == [0.25, 0.5, 1.0]
    assert {record.state for record in home.records()} == {TrialState.COMPLETE}
