"""A sweep that other processes pause, resume and stop, add params to, and list among others."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner
from forked import hpometrics
from matrix import EXHAUSTIVE
from sample_records import written

from hpometrics.cli.main import main
from hpometrics.records.trial_record import TrialState
from hpometrics.results.control import Control, ControlListener, stop
from hpometrics.results.run_directory import RunDirectory

ENGINE = """\
import time
from pathlib import Path

def train(params, run):
    for _ in run.epochs():
        Path(f"begun-{params['width']}").touch()
        while not Path("go").exists():
            time.sleep(0.01)
        run.log(score=params["lr"])
"""
SWEEP = """\
engine: gated:train
space: {lr: {float: [0, 1]}, width: {int: [1, 1000]}}
metrics: {optimize: {metric: score, direction: maximize}}
search: {sampler: random, seed: 3}
budget: {trials: 4, epochs: 2}
"""
HOME = RunDirectory(Path("runs/sweep"))
BACKENDS = [
    "backend: optuna\n",
    pytest.param("backend: {optuna: {workers: 2}}\n", marks=EXHAUSTIVE),
    pytest.param("backend: {optuna: {storage: journal}}\n", marks=EXHAUSTIVE),
    pytest.param("backend: {ray: {address: '%s', workers: 2}}\n", marks=pytest.mark.ray),
]


@pytest.fixture(params=BACKENDS, ids=["optuna", "workers", "journal", "ray"])
def sweep_file(folder, request):
    """A sweep of four trials, each of which waits for a file `go`."""
    text = request.param
    if "%s" in text:
        text %= request.getfixturevalue("ray_cluster")
    (folder / "gated.py").write_text(ENGINE)
    (folder / "sweep.yaml").write_text(SWEEP + text)
    return folder / "sweep.yaml"


@pytest.fixture
def gated(folder):
    """The same sweep on Optuna."""
    (folder / "gated.py").write_text(ENGINE)
    (folder / "sweep.yaml").write_text(SWEEP)
    return folder / "sweep.yaml"


def command(*arguments: object) -> tuple[int, str]:
    """Call the command in this process: its exit code and all that it prints."""
    result = CliRunner().invoke(main, list(map(str, arguments)))
    return result.exit_code, result.output.strip()


def states() -> list[TrialState]:
    """How the trials stand."""
    return [record.state for record in HOME.records()]


def begun() -> int:
    """The number of trials that have begun."""
    return len(list(Path().glob("begun-*")))


def test_a_paused_sweep_waits_until_it_is_resumed(sweep_file):
    """What is at work ends, nothing begins; a run that starts meanwhile waits too."""
    first = hpometrics("run", "sweep.yaml")
    assert first.waits_for(begun)
    code, text = command("pause", HOME.path)
    assert (code, text) == (0, "runs/sweep: no further trial starts; running trials continue")
    Path("go").touch()
    assert first.waits_for(lambda: states() and all(state.finished for state in states()))
    assert first.lives(2)  # on Ray a second trial may have been at its start
    at_work = begun()
    assert first.lives(2) and begun() == at_work <= 2
    assert "paused  hpometrics resume runs/sweep goes on" in command("status", HOME.path)[1]
    assert json.loads(command("ls", ".", "--json")[1])[0]["state"] == "paused"
    first.killed()
    printed = Path("printed").absolute()
    printed.mkdir()
    (printed / "err").touch()
    second = hpometrics("run", "sweep.yaml", prints=printed)
    waits = "paused; hpometrics resume runs/sweep goes on"
    assert second.waits_for(lambda: waits in (printed / "err").read_text()) and begun() == at_work
    assert command("resume", HOME.path)[0] == 0
    assert second.ended() == 0 and states() == [TrialState.COMPLETE] * 4
    assert "resumed" in (printed / "err").read_text()
    code, text = command("resume", HOME.path)
    assert code == 2 and "is not paused; resume a stopped sweep with hpometrics run" in text


def test_requests_at_the_same_time_are_all_counted(tmp_path):
    """One that another process makes meanwhile is not overwritten."""
    home = RunDirectory(written(tmp_path))
    with ThreadPoolExecutor(4) as pool:
        assert len({*pool.map(stop, [home] * 40)}) == 1
    assert Control.read(home) == Control(stops=40)


def test_a_complete_sweep_is_not_paused(sweep_file):
    """Nothing is written; one that was paused in its last trials is finished in the list, too."""
    Path("go").touch()
    assert hpometrics("run", "sweep.yaml").ended() == 0
    line = "runs/sweep: the sweep is complete, so there is nothing to pause"
    assert command("pause", HOME.path) == (0, line)
    assert not HOME.control.exists()
    assert json.loads(command("ls", ".", "--json")[1])[0]["state"] == "finished"
    Control(paused=True).write(HOME)
    assert json.loads(command("ls", ".", "--json")[1])[0]["state"] == "finished"


def test_a_stopped_sweep_goes_on_when_it_is_run(sweep_file):
    """The run ends as after SIGTERM; the trials at work are not lost, and the next run is not stopped."""
    run = hpometrics("run", "sweep.yaml")
    assert run.waits_for(begun)
    code, text = command("stop", HOME.path)
    assert (code, text.startswith("runs/sweep: its processes save their progress")) == (0, True)
    result = run.result()
    assert result.returncode == 143, result.stderr
    assert "stopped: 0 of 4 trials are done. Resume with:\n  hpometrics run sweep.yaml" in result.stderr
    assert set(states()) == {TrialState.INTERRUPTED}
    assert command("stop", HOME.path) == (0, "runs/sweep: no process is at work in it")
    Path("go").touch()
    assert hpometrics("run", "sweep.yaml").ended() == 0
    assert states() == [TrialState.COMPLETE] * 4


def test_a_worker_that_has_joined_stops_too(gated):
    """Both leave their trials to the next run."""
    run = hpometrics("run", "sweep.yaml")
    assert run.waits_for(begun)
    worker = hpometrics("worker", HOME.path)
    assert worker.waits_for(lambda: begun() == 2)
    assert command("stop", HOME.path)[0] == 0
    assert (run.ended(), worker.ended()) == (143, 143)
    assert states() == [TrialState.INTERRUPTED] * 2


def test_added_params_are_trained_next(sweep_file):
    """Before what the sampler draws, which draws what they leave open; they take a trial of the budget."""
    run = hpometrics("run", "sweep.yaml")
    assert run.waits_for(begun)
    code, text = command("add", HOME.path, "lr=0.999")
    number = int(text.split()[2])
    assert (code, text) == (0, f"runs/sweep: trial {number} has these params")
    code, text = command("add", HOME.path, "lr=0.5", "width=7")
    assert (code, text) == (0, f"runs/sweep: trial {number + 1} has these params")
    Path("go").touch()
    assert run.ended() == 0
    records = {record.number: record for record in HOME.records()}
    assert sorted(records) == [0, 1, 2, 3]
    assert records[number].params["lr"] == 0.999 and records[number + 1].params == {"lr": 0.5, "width": 7}
    code, text = command("add", HOME.path, "lr=0.1")
    advice = "raise the budget with hpometrics run FILE --set budget.trials=5"
    assert code == 2 and f"all 4 trials of its budget have begun; {advice}" in text


def test_added_params_tags_and_on_end_outlive_a_kill(sweep_file):
    """Of a run that is killed with SIGKILL; the next one trains the params, and starts the program once."""
    sweep_file.write_text(sweep_file.read_text() + 'on_end: [sh, -c, "echo $HPOMETRICS_STATE >> ends"]\n')
    run = hpometrics("run", "sweep.yaml")
    assert run.waits_for(begun)
    code, text = command("add", HOME.path, "lr=0.999")
    number = int(text.split()[2])
    assert (code, text) == (0, f"runs/sweep: trial {number} has these params")
    assert command("tag", HOME.path, "gpu")[0] == 0
    assert command("tag", HOME.path, "good", "--trial", "0")[0] == 0
    run.killed()
    assert not Path("ends").exists()
    Path("go").touch()
    assert hpometrics("run", "sweep.yaml").ended() == 0
    records = {record.number: record for record in HOME.records()}
    assert states() == [TrialState.COMPLETE] * 4 and records[number].params["lr"] == 0.999
    assert Path("ends").read_text() == "complete\n"
    assert json.loads(command("ls", ".", "--tag", "gpu", "--json")[1])[0]["tags"] == ["gpu"]
    tagged = json.loads(command("trials", HOME.path, "--tag", "good", "--json")[1])
    assert [trial["number"] for trial in tagged] == [0]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (["lr=7"], "space.lr: must lie in [0.0, 1.0], got 7"),
        (["depth=1"], "depth"),
        (["lr"], "write params as NAME=VALUE, as in lr=0.01; got 'lr'"),
        (["lr=[0.1"], "lr=[0.1"),
        (["lr=0.1", "lr=0.2"], "lr is given twice; leave 'lr=0.2' out"),
    ],
)
def test_other_params_are_not_added(gated, params, message):
    """With what is wrong about them; the sweep stays as it was."""
    Path("go").touch()
    assert hpometrics("run", "sweep.yaml", "--set", "budget.trials=1").ended() == 0
    code, text = command("add", HOME.path, *params)
    assert code == 2 and message in text
    assert hpometrics("run", "sweep.yaml").ended() == 0 and states() == [TrialState.COMPLETE] * 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("search: {sampler: grid}\n", "has a list or a grid of params; add these to its sweep file"),
        ("backend: {optuna: {storage: memory}}\n", "has no stored study to add a trial to"),
        ("backend: {list: [{lr: 0.1, width: 1}]}\n", "has a list or a grid of params"),
    ],
)
def test_a_sweep_that_takes_no_params_says_so(gated, change, message):
    """A grid, a list, a study in memory."""
    text = SWEEP.replace(
        "{lr: {float: [0, 1]}, width: {int: [1, 1000]}}", "{lr: {choice: [0.1, 0.2]}, width: 3}"
    )
    if "grid" in change:
        text = text.replace("search: {sampler: random, seed: 3}\n", "").replace("trials: 4, ", "")
    if "list" in change:
        text = SWEEP.replace("search: {sampler: random, seed: 3}\n", "").replace("trials: 4, ", "")
    gated.write_text(text + change)
    Path("go").touch()
    assert hpometrics("run", "sweep.yaml").ended() == 0
    code, text = command("add", HOME.path, "lr=0.1")
    assert code == 2 and message in text, text


def test_points_of_the_file_come_before_added_ones(gated):
    """The points of `search.start` keep their trials."""
    start = "start: [{lr: 0.25}, {lr: 0.75}], "
    gated.write_text(SWEEP.replace("search: {", f"search: {{{start}"))
    run = hpometrics("run", "sweep.yaml")
    assert run.waits_for(begun)
    assert command("add", HOME.path, "lr=0.5") == (0, "runs/sweep: trial 2 has these params")
    Path("go").touch()
    assert run.ended() == 0
    assert [record.params["lr"] for record in HOME.records()][:3] == [0.25, 0.75, 0.5]


def test_a_worker_ends_after_so_many_trials(gated):
    """It leaves the others to whoever comes next."""
    Path("go").touch()
    assert hpometrics("run", "sweep.yaml", "--set", "budget.trials=1").ended() == 0
    document = HOME.resolved.read_text().replace("trials: 1", "trials: 4")
    HOME.resolved.write_text(document)
    result = hpometrics("worker", HOME.path, "--trials", 2).result()
    assert result.returncode == 0, result.stderr
    assert "ended 2 trials. See: hpometrics best runs/sweep" in result.stderr
    assert states() == [TrialState.COMPLETE] * 3


@pytest.mark.parametrize(
    "content", ["{", '{"paused": true}', "[]", '{"format": 1, "paused": true, "stops": 0}']
)
def test_damaged_control_asks_nothing(gated, content):
    """The file is moved aside, and a line says so; what reads alone names it."""
    Path("go").touch()
    assert hpometrics("run", "sweep.yaml", "--set", "budget.trials=1").ended() == 0
    Control(paused=True).write(HOME)
    assert Control.read(HOME) == Control(paused=True)
    HOME.control.write_text(content)
    code, text = command("status", HOME.path)
    assert code == 2 and "runs/sweep/control.json" in text
    assert "damaged" in command("ls", ".")[1]
    result = hpometrics("run", "sweep.yaml").result()
    assert result.returncode == 0, result.stderr
    assert "runs/sweep/control.json: is damaged, kept as control.json" in result.stderr
    assert states() == [TrialState.COMPLETE] * 4


def test_a_file_that_goes_asks_for_no_stop(tmp_path):
    """Deleted or damaged after earlier stops; a stop after that is heard."""
    home = RunDirectory(tmp_path)
    Control(stops=3).write(home)
    listener = ControlListener(home)
    assert not listener.stopped
    home.control.unlink()
    assert not listener.stopped
    Control(stops=1).write(home)
    assert listener.stopped
    other = ControlListener(home)
    home.control.write_text("{")
    assert not other.stopped and not other.paused
    assert home.remarks == [f"{home.control}: is damaged, kept as control.json.damaged-1"]


def test_the_list_of_runs(gated):
    """Each below the folder, the newest first; nothing of a run directory itself, no hidden folder."""
    assert command("ls", ".") == (0, "no run directory at or below .")
    Path("go").touch()
    assert hpometrics("run", "sweep.yaml").ended() == 0
    assert (
        hpometrics("run", "sweep.yaml", "--set", "results.dir=more/there", "--set", "name=other").ended() == 0
    )
    assert hpometrics("run", "sweep.yaml", "--set", "results.dir=.hidden/one").ended() == 0
    lines = command("ls", ".")[1].splitlines()
    assert lines[0].split() == ["directory", "sweep", "state", "trials", "metric", "best", "trial", "age"]
    best = max(HOME.records(), key=lambda record: record.value)
    row = f"sweep finished 4/4 score {best.value:.6g} ^ {best.number}".split()
    assert [line.split()[0] for line in lines[2:]] == ["more/there", "runs/sweep"]
    assert lines[3].split()[1:-2] == row
    facts = json.loads(command("ls", "more", "--json")[1])
    assert [(one["name"], one["state"], one["best"]["value"]) for one in facts] == [
        ("other", "finished", best.value)
    ]
