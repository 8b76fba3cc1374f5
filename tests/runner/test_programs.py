"""Programs as people have them: scripts that know nothing of a sweep, run by their own command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from click.testing import CliRunner
from forked import hpometrics

from hpometrics.cli.main import main
from hpometrics.records.trial_record import TrialState
from hpometrics.results.run_directory import RunDirectory
from hpometrics.runner import command_engine
from hpometrics.runner.programs.orphan import PROCESS_FILE, end_orphan, is_group_running, note_process

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
ADVISES = """\
import sys
print("Error executing job with overrides: ['lr=0.1']", file=sys.stderr)
print("Traceback (most recent call last):", file=sys.stderr)
print("omegaconf.errors.ConfigKeyError: Key 'lr' is not in struct", file=sys.stderr)
print("Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.", file=sys.stderr)
sys.exit(1)
"""
COMPOSES = """\
import sys
print("warming up", file=sys.stderr)
print("In 'config': Could not find 'hydra/sweeper/optuna'", file=sys.stderr)
print("\\nAvailable options in 'hydra/sweeper':\\n\\tbasic", file=sys.stderr)
print("\\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.", file=sys.stderr)
sys.exit(1)
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
def run(sweep, folder, monkeypatch):
    """Write the script, run the sweep, and give what was printed with the run directory."""
    monkeypatch.setenv("WANDB__SERVICE_WAIT", "100")  # seconds, where many tests start at once

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


BY_NAME = """\
engine: {program: script.py}
space: {lr: {choice: [0.25, 0.5, 0.125]}}
metrics: {optimize: accuracy}
search: {sampler: grid}
budget: {epochs: 3}
"""


def test_a_script_is_swept_by_its_name(run, folder):
    """As W&B runs it; its record has the key as the file has it, and runs as a file itself."""
    result, home = run(BY_NAME)
    assert result.exit_code == 0, result.output
    assert [record.value for record in home.records()] == [0.5, 1.0, 0.25]
    lines = (folder / "arguments.jsonl").read_text().splitlines()
    assert lines == [f'["--lr={value}"]' for value in (0.25, 0.5, 0.125)]
    assert home.read().config["engine"]["program"] == "script.py"
    assert "command" not in home.read().config["engine"]
    assert run_replay(home).exit_code == 0
    assert (folder / "arguments.jsonl").read_text().splitlines()[3:] == lines[1:2]
    result, _ = run(BY_NAME.replace("epochs: 3", "epochs: 3, trials: 3"))
    assert "all 3 trials are done" in result.output


def test_another_script_may_be_named_on_the_command_line(run, folder, monkeypatch):
    """Or by a variable, which the record does not hold; a missing one is named by `check` and by `run`."""
    monkeypatch.setenv("SCRIPT", "script.py")
    absent = BY_NAME.replace("script.py", "no.py")
    result, home = run(absent, arguments=("--set", "engine.program=${env:SCRIPT}"))
    assert result.exit_code == 0, result.output
    assert home.read().config["engine"]["program"] == "${env:SCRIPT}"
    result, _ = run(absent, command="check")
    assert result.exit_code == 0 and "lacks" in result.output
    assert f"cannot find the script 'no.py' in {folder}" in result.output
    result, _ = run(absent)
    assert result.exit_code == 2 and "sweep.yaml:1:10: engine.program: cannot find" in result.stderr


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_program_registers_no_metric(run, command):
    """Its values have other names than metrics only where the file states a direction."""
    text = BY_NAME.replace("optimize: accuracy", "optimize: reward")
    result, home = run(text, SCRIPT.replace('"accuracy"', '"reward"'), command)
    assert result.exit_code == 2 and not home.path.exists()
    assert "if the engine reports it, state {metric: reward, direction: ...}" in result.stderr


KILLS = """\
import json, os, signal, sys
lr = float(sys.argv[1].partition("=")[2])
for epoch in range(2):
    if epoch == 1 and lr == 0.5 and not os.path.exists("killed"):
        open("killed", "w").close()
        os.kill(os.getppid(), signal.SIGKILL)
        sys.exit(1)
    print(json.dumps({"accuracy": lr + epoch}), flush=True)
"""


def test_a_killed_sweep_of_a_program_goes_on(run, folder):
    """The trial at work starts again; those that have ended do not."""
    (folder / "sweep.yaml").write_text(BY_NAME)
    (folder / "script.py").write_text(KILLS)
    assert hpometrics("run", "sweep.yaml").ended() == -signal.SIGKILL
    home = RunDirectory(folder / "runs/sweep")
    assert [record.state for record in home.records()] == [TrialState.COMPLETE, TrialState.RUNNING]
    result, home = run(BY_NAME, KILLS)
    assert result.exit_code == 0 and "resuming: 1 of 3 done" in result.output, result.output
    assert [record.value for record in home.records()] == [1.25, 1.5, 1.125]


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


TRAIN = """\
import argparse, csv, json, os, pathlib, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--out", type=pathlib.Path)
parser.add_argument("--way")
options = parser.parse_args()
values = [(epoch, options.lr * (2 - abs(epoch - 1)), 1 / (epoch + 1)) for epoch in range(3)]
options.out.parent.mkdir(parents=True, exist_ok=True)
if options.way == "csv":  # as Keras writes it, with a number for the epoch
    with options.out.open("w") as file:
        file.write("epoch,accuracy,loss,time\\n")
        for epoch, accuracy, loss in values:
            file.write(f"{epoch + 1},{accuracy},{loss},now\\n")
            file.flush()
elif options.way == "rows":  # as Lightning writes it: two rows an epoch, and the file anew with a new column
    lines = ["epoch,step,loss"]
    for epoch, accuracy, loss in values:
        lines.append(f"{epoch},{epoch * 10},{loss}" + ("," if epoch else ""))
        options.out.write_text("\\n".join(lines) + "\\n")
        time.sleep(0.2)
        if not epoch:
            lines = ["epoch,step,loss,accuracy", lines[1] + ","]
        lines.append(f"{epoch},{epoch * 10 + 9},,{accuracy}")
        options.out.write_text("\\n".join(lines) + "\\n")
elif options.way == "jsonl":
    with options.out.open("a") as file:
        for epoch, accuracy, loss in values:
            print(json.dumps({"epoch": epoch, "loss": loss, "note": "x"}), file=file)
            print(json.dumps({"epoch": epoch, "accuracy": accuracy, "text": [1]}), file=file, flush=True)
elif options.way == "printed":
    for epoch, accuracy, loss in values:
        print(f"Epoch {epoch + 1}/3", file=sys.stderr, end="\\r")
        print(f"  50% loss: 9.5 Epoch", file=sys.stderr, end="\\r")
        print(f"  100% loss: {loss} val_acc={accuracy}", file=sys.stderr)
elif options.way == "log":
    import hpometrics
    for epoch, accuracy, loss in values:
        hpometrics.log({"loss": loss}, accuracy=accuracy, epoch=epoch)
    assert not {"torch", "optuna", "numpy", "pydantic"} & sys.modules.keys()
elif options.way == "events":
    from tensorboardX import SummaryWriter
    for folder in ("train", "validation"):
        with SummaryWriter(str(options.out / folder)) as writer:
            for epoch, accuracy, loss in values:
                writer.add_scalar("epoch_accuracy", accuracy if folder == "validation" else 1.0, epoch)
                writer.add_scalar("loss", loss, epoch) if folder == "train" else None
"""
WANDB = """\
import sys, time
import wandb
run = wandb.init(project="digits", config={"lr": 9.0, "note": "kept"})
assert run.config.note == "kept"
for epoch in range(int(sys.argv[1])):
    lr = run.config.lr  # of the trial
    wandb.log({"val": {"accuracy": lr * (2 - abs(epoch - 1))}, "loss": 1 / (epoch + 1), "note": "x"})
    if epoch == 2 and lr < 0.4:
        time.sleep(60)
"""
FROM_WANDB = ", metrics_from: {wandb: '{dir}', names: {accuracy: val.accuracy}}"
EVENTS = "{tensorboard: '{dir}/events', names: {accuracy: validation/epoch_accuracy}}"
WAYS = {
    "csv": ("{csv: '{dir}/log.csv'}", "{dir}/log.csv"),
    "rows": ("{csv: '{dir}/log.csv'}", "{dir}/log.csv"),
    "jsonl": ("{jsonl: 'logs/{lr}.jsonl'}", "logs/{lr}.jsonl"),
    "printed": (
        r"{regex: ['Epoch (?P<epoch>\d+)/', 'loss: (?P<loss>\S+)', 'val_acc=(?P<val_acc>\S+)'], "
        "names: {accuracy: val_acc}}",
        "{dir}/x",
    ),
    "log": ("stdout", "{dir}/x"),
    "events": (EVENTS, "{dir}/events"),
}


def from_source(way: str, source: str = "", out: str = "") -> str:
    """A sweep whose program writes its values in this way."""
    default_source, default_out = WAYS[way]
    text = sweep_file(
        "{args}",
        f"--out={out or default_out}",
        f"--way={way}",
        more=f", metrics_from: {source or default_source}",
        budget="epochs: 5",
    )
    return text.replace(
        "{optimize: accuracy}", "{optimize: accuracy, track: [{metric: loss, direction: minimize}]}"
    )


@pytest.mark.parametrize("way", WAYS)
def test_values_come_back_by_whatever_the_program_writes(run, way):
    """Three epochs, each with both values; the best is the second."""
    result, home = run(from_source(way), TRAIN)
    assert result.exit_code == 0, result.output
    for record in home.records():
        lr = record.params["lr"]
        values = [(epoch.values["accuracy"], epoch.values["loss"]) for epoch in record.epochs]
        expected = [(lr, 1.0), (2 * lr, 0.5), (lr, 1 / 3)]
        assert values == [pytest.approx(pair) for pair in expected]
        assert record.epoch == 1


def test_a_tracked_value_needs_no_direction(run):
    """A file has it as the output does."""
    text = sweep_file("{dir}/log.csv", more=", metrics_from: {csv: '{dir}/log.csv'}", budget="trials: 1")
    text = text.replace("optimize: accuracy", "optimize: accuracy, track: [gnorm, gpu_mem]")
    script = "import sys; open(sys.argv[1], 'w').write('epoch,gnorm,gpu_mem,accuracy\\n1,0.1,2,0.5\\n')"
    result, home = run(text, script)
    assert result.exit_code == 0, result.output
    assert home.records()[0].picked_values == {"accuracy": 0.5, "gnorm": 0.1, "gpu_mem": 2.0}


@pytest.mark.parametrize("way", ["csv", "log", "printed"])
def test_a_replay_reads_the_same_source(run, way):
    """In a temporary directory."""
    _, home = run(from_source(way), TRAIN)
    result = run_replay(home)
    assert result.exit_code == 0, result.output


def test_one_file_may_serve_one_program_after_another(run):
    """What the trial before left in it does not count, even if it has as many bytes."""
    result, home = run(from_source("csv", "{csv: log.csv}", "log.csv"), TRAIN)
    assert result.exit_code == 0, result.output
    assert [[len(record.epochs), record.value] for record in home.records()] == [
        [3, 0.5],
        [3, 1.0],
        [3, 0.25],
    ]


@pytest.mark.parametrize(
    ("way", "source", "message"),
    [
        ("csv", "{csv: '{dir}/logs.csv'}", "without a value of accuracy: there is no "),
        ("csv", "{csv: '{dir}/log.csv', names: {accuracy: acc}}", "log.csv: it has accuracy, loss, time"),
        ("csv", "{csv: '{dir}/log.csv', names: {accuracy: time}}", "time must be a number, got 'now'"),
        ("csv", "{csv: '{dir}'}", "is not a file, so the values of the program cannot be read"),
        ("csv", "stdout", "it does not print a JSON object or call hpometrics.log"),
        ("csv", "{regex: 'acc=(?P<accuracy>.*)'}", "no line of its output matches"),
        (
            "events",
            "{tensorboard: '{dir}/events', names: {accuracy: epoch_accuracy}}",
            "is in both train and val",
        ),
    ],
)
def test_a_source_without_values_is_named(run, way, source, message):
    """With what it has instead; two trials whose words differ at most in numbers end the sweep."""
    result, home = run(from_source(way, source), TRAIN)
    assert result.exit_code == 4 and len(home.records()) == 2
    assert message in str(home.records()[0].reason)


def test_a_program_of_wandb_runs_as_it_is(run, monkeypatch):
    """`wandb.config` has the params and `wandb.log` the values; it is pruned while it runs."""
    monkeypatch.setenv("WANDB_SERVICE", f"3-{os.getpid()}-unix-/nowhere")  # of a logger in this process
    text = sweep_file("3", more=FROM_WANDB, budget="epochs: 9").replace(", 0.125]", "]")
    text = text.replace("{sampler: grid}", "{sampler: grid, pruner: {threshold: {lower: 0.4, warmup: 1}}}")
    result, home = run(text, WANDB)
    assert result.exit_code == 0, result.output
    stopped, whole = home.records()
    assert (stopped.params["lr"], stopped.state, len(stopped.epochs)) == (0.25, TrialState.PRUNED, 3)
    assert [epoch.values["accuracy"] for epoch in whole.epochs] == [0.5, 1.0, 0.5]


NESTED = """\
import wandb
config = wandb.init(config={"optimizer": {"lr": 9.0, "beta": 0.5}}).config
assert config.optimizer == {"lr": config["optimizer.lr"], "beta": 0.5, "name": "adam"}
assert config["a"] == 1 and config["a.b"] == 2  # not below one another
wandb.log({"accuracy": config.optimizer["lr"]})
"""


def test_dotted_params_are_nested_for_wandb(run):
    """As the agent of W&B passes nested parameters; by their dotted names they are there too."""
    params = ", params: {optimizer.name: adam, a: 1, a.b: 2}, metrics_from: wandb"
    text = sweep_file(more=params, budget="epochs: 1").replace("space: {lr:", "space: {optimizer.lr:")
    result, home = run(text, NESTED)
    assert result.exit_code == 0, result.output
    assert [record.value for record in home.records()] == [0.25, 0.5, 0.125], home.records()[0].reason


def test_a_command_of_wandb_is_named_by_its_script(run):
    """Not by the placeholder in front of it; one that is not there ends the sweep before it begins."""
    python, command = json.dumps([sys.executable, "script.py"])[:-1], "['${env}', '${interpreter}', script.py"
    text = sweep_file("{args}", more=", metrics_from: stdout").replace(python, command)
    _, home = run(text, "raise SystemExit(1)")
    assert str(home.records()[0].reason) == "RunError: the program 'script.py' ended with exit code 1"
    result, _ = run(text.replace("script.py", "scrip.py"))
    assert result.exit_code == 2 and "engine.command: cannot find the script 'scrip.py' in " in result.stderr


@pytest.mark.parametrize("word", ["python", "${interpreter}"])
def test_python_is_the_one_that_runs_hpometrics(run, monkeypatch, word):
    """Also where its environment is not activated: the program can import what is installed beside it."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    text = sweep_file("{args}", budget="trials: 1, epochs: 1").replace(sys.executable, word)
    result, home = run(text, "import sys, hpometrics\nhpometrics.log(accuracy=len(sys.executable))")
    assert result.exit_code == 0, result.output
    assert home.records()[0].value == len(sys.executable)


def test_a_program_that_logs_nothing_to_wandb_is_named(run):
    """With what it has instead."""
    text = sweep_file("2", more=FROM_WANDB.replace("val.accuracy", "acc"), budget="trials: 1, epochs: 9")
    result, home = run(text, WANDB)
    assert result.exit_code == 3
    assert "of wandb.log, it has loss, note, val.accuracy" in str(home.records()[0].reason)


PRUNED = """\
import json, signal, sys, time
def end(*_):
    print("saved before the end", flush=True)
    sys.exit(1)
signal.signal(signal.SIGTERM, end)
path, lr = sys.argv[1], float(sys.argv[2])
with open(path, "w") as file:
    file.write("accuracy\\n")
    for epoch in range(9):
        print(lr * (epoch + 1), file=file, flush=True)
        if lr < 0.5:
            time.sleep(0.3 if epoch < 2 else 60)
"""


def test_a_program_is_pruned_by_a_file_that_it_is_writing(run):
    """It would run for minutes after its third epoch; it gets a signal that it can catch."""
    text = sweep_file(
        "{dir}/log.csv", "{lr}", more=", metrics_from: {csv: '{dir}/log.csv'}", budget="epochs: 9"
    )
    text = text.replace("[0.25, 0.5, 0.125]", "[0.5, 0.75, 0.125]")
    text = text.replace("{sampler: grid}", "{sampler: grid, pruner: {median: {min_trials: 2, warmup: 0}}}")
    result, home = run(text, PRUNED)
    assert result.exit_code == 0, result.output
    record = home.records()[2]
    assert (record.state, len(record.epochs)) == (TrialState.PRUNED, 1)
    assert "saved before the end" in (home.trial(2) / "output.txt").read_text()


CLOSES = """\
import hpometrics, os, time
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
for epoch in range(2):
    time.sleep(0.3)
    hpometrics.log(accuracy=epoch)
time.sleep(3600)
"""


@pytest.mark.parametrize("more", ["", ", metrics_from: {jsonl: '{dir}/log.jsonl'}"])
def test_a_program_may_close_its_output_long_before_its_end(run, more):
    """As `exec > train.log` does; its values are read until it ends, or until the trial does."""
    text = sweep_file("{lr}", more=more, budget="trials: 1, epochs: 2, trial_time: 60s")
    result, home = run(text, CLOSES)
    assert result.exit_code == 0, result.output
    [record] = home.records()
    assert [epoch.values["accuracy"] for epoch in record.epochs] == [0.0, 1.0]
    assert record.ended_by != "trial_time"


STAYS = """\
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpgrp(), file=sys.stderr)
print(json.dumps({"accuracy": 0.5}), flush=True)
time.sleep(3600)
"""


def test_child_processes_do_not_outlive_a_program_that_is_stopped(run, monkeypatch):
    """The shell ends at once; the script that it runs ignores the signal, and is killed."""
    monkeypatch.setattr(command_engine, "_KILL_GRACE", 0.1)
    command = json.dumps(["sh", "-c", f"{sys.executable} script.py {{lr}}; true"])
    text = sweep_file(budget="trials: 1, epochs: 1")
    result, home = run(text.replace(json.dumps([sys.executable, "script.py"]), command), STAYS)
    group = int((home.trial(0) / "output.txt").read_text())
    outlives = is_group_running(group)
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    assert result.exit_code == 0 and not outlives, result.output


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "import os; os.kill(os.getpid(), 9)",
            "was killed by SIGKILL, which the system does when memory runs out",
        ),
        ("import os; os.kill(os.getpid(), 15)", "was killed by SIGTERM"),
        ("raise MemoryError('8 GiB')", "ended with exit code 1, out of memory: MemoryError: 8 GiB"),
        (
            "import sys; sys.exit(137)",
            "ended with exit code 137 (SIGKILL), which the system does when memory",
        ),
        ("import sys; sys.exit(3)", "ended with exit code 3"),
        (ADVISES, "ended with exit code 1: omegaconf.errors.ConfigKeyError: Key 'lr' is not in struct"),
        (COMPOSES, "ended with exit code 1: In 'config': Could not find 'hydra/sweeper/optuna'"),
    ],
)
def test_the_reason_says_how_a_program_has_ended(run, source, message):
    """By an exit code, a signal, or for want of memory."""
    result, home = run(sweep_file("{lr}", budget="trials: 1, epochs: 3"), source)
    assert result.exit_code == 3
    assert message in str(home.records()[0].reason)


def test_the_end_of_the_output_is_in_the_error_file(run):
    """The reason has its last line, the file beside the record twenty."""
    _, home = run(
        sweep_file("{args}"), "import sys\nprint('line\\n' * 9, file=sys.stderr)\nraise KeyError('lr')"
    )
    assert str(home.records()[0].reason).endswith("ended with exit code 1: KeyError: 'lr'")
    text = (home.trial(0) / "error.txt").read_text()
    assert "The end of its output:\nline\nline\n" in text and 'script.py", line 3' in text


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["./script"], "cannot find the program './script' in "),
        (["script.py"], "cannot find the program 'script.py' in the folders of PATH; there is "),
        (
            ["./script.py"],
            "'./script.py' is not executable; run it with its interpreter, or run chmod +x on it",
        ),
        ([sys.executable, "scrip.py"], "cannot find the script 'scrip.py' in "),
    ],
)
def test_a_program_that_is_not_there_ends_the_sweep_before_it_begins(run, command, message):
    """With the place in the file, and no trial."""
    text = sweep_file().replace(json.dumps([sys.executable, "script.py"]), json.dumps([*command, "{args}"]))
    result, home = run(text)
    assert result.exit_code == 2 and message in result.stderr
    assert "sweep.yaml:1:10: engine.command: " in result.stderr and not home.path.exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["./script.sh", "{args}"], "the program './script.sh' cannot be started: Exec format error"),
        (["sh", "-c", "no-such-program {lr}"], "the program 'sh' ended with exit code 127: "),
    ],
)
def test_a_program_that_cannot_start_ends_the_sweep(run, folder, command, message):
    """Every other trial would fail by the same; the one that has begun goes on once there is a program."""
    (folder / "script.sh").write_text("\x00")
    (folder / "script.sh").chmod(0o700)
    text = sweep_file().replace(json.dumps([sys.executable, "script.py"]), json.dumps(command))
    result, home = run(text)
    assert result.exit_code == 2 and message in result.stderr
    assert [record.state for record in home.records()] == [TrialState.INTERRUPTED]
    if command[0] == "./script.sh":
        (folder / "script.sh").write_text("#!/bin/sh\necho '{\"accuracy\": 0.5}'")
        run(text)
        assert [record.state for record in home.records()] == [TrialState.COMPLETE] * 3


CHECKPOINTED = """\
import json, os, sys
path, lr, repeats, ahead = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
resumed = os.path.exists(path)
first = int(open(path).read()) if resumed else 0
print("from", first, file=sys.stderr)
for epoch in range(max(0, first - repeats), 5):
    if epoch == 3 and not resumed:
        open(path, "w").write(str(epoch + ahead))
        sys.exit("lost its GPU")
    print(json.dumps({"accuracy": lr + epoch, **({"epoch": epoch} if repeats or ahead else {})}), flush=True)
    open(path, "w").write(str(epoch + 1))
"""


@pytest.mark.parametrize(("repeats", "ahead", "last"), [(0, 0, 4.25), (2, 0, 4.25), (0, 1, 4.25)])
def test_a_trial_goes_on_from_the_checkpoint_of_its_program(run, repeats, ahead, last):
    """Epochs that it repeats are not recorded twice; one that the sweep has not read is left out."""
    text = sweep_file(
        "{checkpoint}", "{lr}", str(repeats), str(ahead), budget="trials: 1, epochs: 9, retries: 1"
    )
    result, home = run(text, CHECKPOINTED)
    assert result.exit_code == 0, result.output
    record = home.records()[0]
    values = [epoch.values["accuracy"] for epoch in record.epochs]
    assert values == [0.25, 1.25, 2.25, *([] if ahead else [3.25]), last]
    assert (home.trial(0) / "output.txt").read_text().splitlines()[-1] == f"from {3 + ahead}"


def test_a_program_that_outlives_its_sweep_is_ended(tmp_path):
    """It would write beside the program of the next attempt; a process of another start is left alone."""
    with subprocess.Popen(["sleep", "3600"], start_new_session=True) as process:
        note_process(tmp_path, process.pid)
        facts = json.loads((tmp_path / PROCESS_FILE).read_text())
        (tmp_path / PROCESS_FILE).write_text(json.dumps({**facts, "started": "1"}))
        end_orphan(tmp_path, 0.0)
        assert process.poll() is None
        (tmp_path / PROCESS_FILE).write_text(json.dumps(facts))
        end_orphan(tmp_path, 10.0)
        assert process.wait() == -signal.SIGTERM
    for content in ("", "[1]", '{"pid": "x"}'):
        (tmp_path / PROCESS_FILE).write_text(content)
        end_orphan(tmp_path, 0.0)
