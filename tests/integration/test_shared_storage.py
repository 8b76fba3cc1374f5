"""Sweeps whose study is in a storage that machines share: directories of their own, one budget."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import optuna
import pytest
from click.testing import CliRunner
from forked import Forked, hpometrics
from matrix import EXHAUSTIVE
from sample_sweeps import DOMINATED, PRUNED, SWEEP, WORKERS, changed, problems_of
from servers import SERVERS

from hpometrics.backends.optuna.storage import close_storage, open_storage
from hpometrics.cli.main import main
from hpometrics.records.trial_record import TrialState
from hpometrics.results.run_directory import RunDirectory


class Proxy:
    """Optuna's storage proxy, in a process of its own.

    Args:
        folder: of the process.
        database: the URL of its storage.
    """

    def __init__(self, folder: Path, database: str) -> None:
        with socket.socket() as free:
            free.bind(("localhost", 0))
            self._port = free.getsockname()[1]
        self._start = partial(Forked, folder, serve, database, self._port)
        self.url = f"grpc://localhost:{self._port}"
        self.process = self._start()

    def start_again(self) -> None:
        """Serve the same storage at the same port."""
        self.process = self._start()


def serve(url: str, port: int) -> None:
    """Be the proxy of a storage that locks the row of a trial, as SQLite does not: one worker claims it."""
    from optuna.storages import RDBStorage, run_grpc_proxy_server

    row = threading.Lock()

    class Locking(RDBStorage):
        def set_trial_state_values(self, *arguments: Any, **settings: Any) -> bool:
            with row:
                return super().set_trial_state_values(*arguments, **settings)

    run_grpc_proxy_server((Locking if url.startswith("sqlite") else RDBStorage)(url), port=port)


@pytest.fixture
def proxy(tmp_path):
    """The URL of Optuna's storage proxy, over a file."""
    pytest.importorskip("grpc", reason="it comes with the extra grpc")
    server = Proxy(tmp_path, f"sqlite:///{tmp_path / 'proxied.db'}")
    yield server.url
    server.process.killed()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=EXHAUSTIVE)])
def proxy_process(request, tmp_path, new_database):
    """The proxy of a file, or of a database."""
    pytest.importorskip("grpc", reason="it comes with the extra grpc")
    is_file = request.param == "sqlite"
    server = Proxy(tmp_path, f"sqlite:///{tmp_path}/proxied.db" if is_file else new_database(request.param))
    yield server
    server.process.killed()


@pytest.fixture(params=SERVERS)
def database(request, new_database, monkeypatch):
    """The URL of an empty database of each kind, which with its password is a variable of the environment."""
    monkeypatch.setenv("STUDY_URL", new_database(request.param))
    return "${STUDY_URL}"


@pytest.fixture(params=["proxy", *SERVERS])
def url(request, new_database, monkeypatch):
    """A shared storage of each kind."""
    if request.param == "proxy":
        return request.getfixturevalue("proxy")
    monkeypatch.setenv("STUDY_URL", new_database(request.param))
    return "${STUDY_URL}"


def shared(url: str, settings: str = "", text: str = SWEEP) -> str:
    """A sweep file with its study at a URL; its name is that of no other test."""
    name = f"s{os.getpid()}-{os.urandom(3).hex()}"
    backend = f'backend: {{optuna: {{storage: "{url}"{settings}}}}}'
    return f"name: {name}\n{text}{backend}\nresults: {{dir: runs/sweep}}\n"


def ended(*arguments: str) -> tuple[int, str]:
    """Run the command to its end in a process of its own: exit code and stderr."""
    ran = hpometrics(*arguments).result()
    return ran.returncode, ran.stderr


def called(*arguments: str) -> tuple[int, str]:
    """Call the command in this process: exit code and stderr."""
    result = CliRunner().invoke(main, arguments)
    return result.exit_code, result.stderr


def points(home: str) -> list[object]:
    """What the trials of a run directory came to."""
    return [
        (one.number, one.params, one.state, one.value, one.seed, [epoch.values for epoch in one.epochs])
        for one in RunDirectory(Path(home)).records()
    ]


@EXHAUSTIVE
@pytest.mark.parametrize(("prune_by", "text"), [("roc_auc", PRUNED), ("dominance", DOMINATED)])
def test_directories_on_a_shared_storage_are_pruned_by_each_others_trials(folder, url, prune_by, text):
    """With several objectives: each record tells by what."""
    text = text.replace("trials: 9", "trials: 16").replace("min_trials", "warmup: 1, min_trials")
    (folder / "sweep.yaml").write_text(shared(url, "", text))
    runs = [hpometrics("run", "sweep.yaml", "--set", f"results.dir=runs/{home}") for home in "ab"]
    assert [run.result().returncode for run in runs] == [0, 0]
    records = RunDirectory(folder / "runs/a").records()
    pruned = [one for one in records if one.state is TrialState.PRUNED]
    assert len(records) == 16 and 0 < len(pruned) < 16
    assert all(f"by {prune_by} at" in str(one.reason) and len(one.epochs) > 1 for one in pruned)


@EXHAUSTIVE
@pytest.mark.parametrize("workers", WORKERS)
def test_workers_on_a_shared_storage_do_what_one_does(folder, url, workers):
    """Several processes, one directory: the same trials as one on a file of its own; again, nothing."""
    twelve = changed("trials: 4", "trials: 12")
    (folder / "sweep.yaml").write_text(shared(url, f", workers: {workers}", twelve))
    (folder / "alone.yaml").write_text(twelve)
    code, err = ended("run", "sweep.yaml")
    assert code == 0, err
    assert ended("run", "alone.yaml")[0] == 0
    assert points("runs/sweep") == points("runs/alone")
    code, err = ended("run", "sweep.yaml", "--workers", "1")
    assert code == 0 and "all 12 trials are done" in err


def test_a_worker_that_sees_the_storage_alone_takes_part(folder, url):
    """It knows the sweep from the storage, writes to a directory of its own; both directories have all."""
    text = changed("toy_engine:train", "toy_engine:meet_elsewhere")
    (folder / "sweep.yaml").write_text(shared(url, ", heartbeat: 8s", text))
    os.mkfifo("ready")
    os.mkfifo("meeting")
    run = hpometrics("run", "sweep.yaml")
    (folder / "ready").read_text()
    name = RunDirectory(folder / "runs/sweep").read().name
    code, err = ended("worker", url, "--study", name, "--dir", "elsewhere")
    ran = run.result()
    assert (code, ran.returncode) == (0, 0), err + ran.stderr
    mine = RunDirectory(folder / "runs/sweep").records()
    assert [record.state for record in mine] == [TrialState.COMPLETE] * 4
    assert points("runs/sweep") == points("elsewhere")
    own = [path.parent.name for path in folder.glob("elsewhere/trials/*/.trainstats*")]
    others = [path.parent.name for path in folder.glob("runs/sweep/trials/*/.trainstats*")]
    assert own and others and sorted(own + others) == ["0000", "0001", "0002", "0003"]
    assert Counter(line.split()[0] for line in ran.stderr.splitlines() if line.startswith(" #")).keys() == {
        "#0",
        "#1",
        "#2",
        "#3",
    }


def check_trials(home: Path) -> None:
    """Check that each trial and each epoch of the budget is there once."""
    assert [
        (one.number, one.state, [epoch.epoch for epoch in one.epochs]) for one in RunDirectory(home).records()
    ] == [(number, TrialState.COMPLETE, [0, 1, 2]) for number in range(4)]


def test_a_worker_at_a_proxy_that_is_killed_leaves_its_trial_to_the_others(
    folder, proxy_process, monkeypatch
):
    """In the second epoch of its first trial, beside the run, which trains that trial after four beats."""
    url, text = proxy_process.url, changed("toy_engine:train", "toy_engine:meet_elsewhere")
    (folder / "sweep.yaml").write_text(shared(url, ", heartbeat: 1s", text))
    os.mkfifo("ready")
    os.mkfifo("meeting")
    run = hpometrics("run", "sweep.yaml")
    (folder / "ready").read_text()
    monkeypatch.setenv("LINGER_AT", "1")
    worker = hpometrics("worker", url, "--dir", "elsewhere")
    assert worker.waits_for((folder / "lingering").exists), worker.result()
    assert worker.killed() == -signal.SIGKILL
    ran = run.result()
    assert ran.returncode == 0, ran.stderr
    check_trials(folder / "runs/sweep")
    lines = [line.split()[:2] for line in ran.stderr.splitlines() if line.startswith(" #")]
    assert sorted(lines) == [[f"#{number}", "ok"] for number in range(4)]
    assert "# engine params evaluated: 4  (ok 4)" in ran.stdout and "Optimal Engine Params: " in ran.stdout


def test_a_proxy_that_dies_ends_its_workers_and_the_sweep_goes_on(folder, proxy_process, monkeypatch):
    """Both are in a trial, end with what to do, and lose no epoch that a checkpoint holds."""
    url, text = proxy_process.url, changed("toy_engine:train", "toy_engine:learn")
    (folder / "sweep.yaml").write_text(shared(url, ", heartbeat: 1s", text))
    os.mkfifo("released")
    monkeypatch.setenv("LINGER_AT", "1")
    run = hpometrics("run", "sweep.yaml")
    assert run.waits_for((folder / "lingering").exists), run.result()
    worker = hpometrics("worker", url, "--dir", "elsewhere")
    assert worker.waits_for(lambda: len((folder / "lingering").read_text().split()) == 2), worker.result()
    proxy_process.process.killed()
    (folder / "released").write_text("")
    for ran in (run.result(), worker.result()):
        assert ran.returncode == 5, ran.stderr
        assert "the study cannot be read or written: " in ran.stderr
        assert "Traceback" not in ran.stderr
    monkeypatch.delenv("LINGER_AT")
    proxy_process.start_again()
    ran = hpometrics("run", "sweep.yaml").result()
    assert ran.returncode == 0, ran.stderr
    check_trials(folder / "runs/sweep")
    records = RunDirectory(folder / "runs/sweep").records()
    assert [epoch.attempt for epoch in records[0].epochs] == [1, 1, 2]
    assert "# engine params evaluated: 4  (ok 4)" in ran.stdout and "Optimal Engine Params: " in ran.stdout


def test_a_worker_at_a_url_writes_only_where_nobody_else_may(folder, proxy):
    """What its directory says is what it would run."""
    (folder / "sweep.yaml").write_text(shared(proxy))
    assert called("run", "sweep.yaml")[0] == 0
    (folder / "elsewhere").mkdir(mode=0o700)
    (folder / "elsewhere").chmod(0o770)
    code, err = called("worker", proxy, "--dir", "elsewhere")
    assert code == 2
    assert "elsewhere: other users can write to it (mode 0770)" in err


@EXHAUSTIVE
def test_a_trial_of_a_machine_that_is_gone_goes_on_elsewhere(folder, url, monkeypatch):
    """Killed in epoch 1 of the second trial; who sees the storage alone waits four beats, and trains it."""
    text = changed("toy_engine:train", "toy_engine:learn")
    (folder / "sweep.yaml").write_text(shared(url, ", heartbeat: 0.2s", text))
    monkeypatch.setenv("KILL_AT", "1")
    assert ended("run", "sweep.yaml")[0] == -signal.SIGKILL
    monkeypatch.delenv("KILL_AT")
    name = RunDirectory(folder / "runs/sweep").read().name
    code, err = ended("worker", url, "--study", name, "--dir", "elsewhere")
    assert code == 0, err
    code, err = ended("run", "sweep.yaml")
    assert code == 0, err
    for home in ("runs/sweep", "elsewhere"):
        records = RunDirectory(folder / home).records()
        assert [(one.number, one.state, len(one.epochs)) for one in records] == [
            (number, TrialState.COMPLETE, 3) for number in range(4)
        ]
    assert (folder / "runs/sweep/trials/0001.lost-1").is_dir()


def test_who_was_paused_too_long_leaves_its_trial_to_who_has_taken_it(folder, url, monkeypatch):
    """Stopped in the second trial for more than four beats, then woken: it ends, and tells nothing."""
    text = changed("toy_engine:train", "toy_engine:learn")
    (folder / "sweep.yaml").write_text(shared(url, ", heartbeat: 0.2s", text))
    monkeypatch.setenv("STOP_AT", "1")
    run = hpometrics("run", "sweep.yaml")
    assert run.stops()
    monkeypatch.delenv("STOP_AT")
    name = RunDirectory(folder / "runs/sweep").read().name
    code, err = ended("worker", url, "--study", name, "--dir", "elsewhere")
    assert code == 0, err
    done = points("elsewhere")
    run.send(signal.SIGCONT)
    ran = run.result()
    assert ran.returncode == 0, ran.stderr
    assert points("runs/sweep") == points("elsewhere") == done
    assert [(number, state) for number, _, state, *_ in done] == [(n, TrialState.COMPLETE) for n in range(4)]
    assert (folder / "runs/sweep/trials/0001.lost-1").is_dir()


def test_a_run_that_was_killed_goes_on_without_waiting(folder, url, monkeypatch):
    """Its directory has the locks: nobody has to listen for beats, which would take an hour here."""
    text = changed("toy_engine:train", "toy_engine:learn")
    (folder / "sweep.yaml").write_text(shared(url, ", heartbeat: 1h", text))
    monkeypatch.setenv("KILL_AT", "1")
    assert ended("run", "sweep.yaml")[0] == -signal.SIGKILL
    monkeypatch.delenv("KILL_AT")
    code, err = ended("run", "sweep.yaml")
    assert code == 0, err
    records = RunDirectory(folder / "runs/sweep").records()
    assert [record.state for record in records] == [TrialState.COMPLETE] * 4
    assert [epoch.attempt for epoch in records[1].epochs] == [1, 2, 2]


def test_a_slot_is_added_as_it_is_taken(folder, database, monkeypatch):
    """Killed in the second of 40 trials: no other one waits, as each look would read it again."""
    text = changed("toy_engine:train", "toy_engine:learn").replace("trials: 4", "trials: 40")
    (folder / "sweep.yaml").write_text(shared(database, "", text))
    monkeypatch.setenv("KILL_AT", "1")
    assert ended("run", "sweep.yaml")[0] == -signal.SIGKILL
    storage = open_storage(os.environ["STUDY_URL"])
    (study,) = storage.get_all_studies()
    trials = storage.get_all_trials(study._study_id)
    close_storage(storage)
    assert [trial.state.name for trial in trials] == ["COMPLETE", "RUNNING"]


def test_who_looks_for_a_trial_does_not_wait_for_itself(folder, database, monkeypatch):
    """A trial of a dead worker is taken up under the lock by which a slot is added."""
    text = changed("toy_engine:train", "toy_engine:learn")
    (folder / "sweep.yaml").write_text(shared(database, ", workers: 2, heartbeat: 1h", text))
    monkeypatch.setenv("KILL_AT", "1")
    assert ended("run", "sweep.yaml", "--workers", "1")[0] == -signal.SIGKILL
    monkeypatch.delenv("KILL_AT")
    code, err = ended("run", "sweep.yaml")
    assert code == 0, err
    records = RunDirectory(folder / "runs/sweep").records()
    assert [(one.number, one.state, len(one.epochs)) for one in records] == [
        (number, TrialState.COMPLETE, 3) for number in range(4)
    ]


_END_ALL = {
    "postgresql": (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
        "SELECT pg_terminate_backend({})",
    ),
    "mysql": (
        "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()",
        "KILL {}",
    ),
}
"""How a database names the connections to it, and how it ends one."""


@EXHAUSTIVE
def test_a_dropped_connection_costs_nothing(folder, database, request):
    """All are ended whenever two processes have got on: each trial comes once, with each epoch once."""
    import sqlalchemy

    def written() -> int:
        return sum(path.stat().st_size for path in folder.glob("runs/sweep/trials/*/epochs.jsonl"))

    kind = request.node.callspec.params["database"]
    listed, end = _END_ALL[kind]
    text = changed("trials: 4", "trials: 12")
    (folder / "sweep.yaml").write_text(shared(database, ", workers: 2, heartbeat: 4s", text))
    engine = sqlalchemy.create_engine(os.environ["STUDY_URL"], isolation_level="AUTOCOMMIT")
    run, ended_ones, seen = hpometrics("run", "sweep.yaml"), 0, 0
    with engine.connect() as connection:
        while run.lives(0.3):
            if written() == seen:  # a slow machine has to get on too
                continue
            seen = written()
            for (number,) in connection.execute(sqlalchemy.text(listed)).all():
                with suppress(sqlalchemy.exc.DBAPIError):  # it has just ended by itself
                    connection.execute(sqlalchemy.text(end.format(int(number))))
                    ended_ones += 1
    engine.dispose()
    ran = run.result()
    assert ran.returncode == 0, ran.stderr
    assert ended_ones > 3 and "the study responds again" in ran.stderr
    records = RunDirectory(folder / "runs/sweep").records()
    assert [(one.number, one.state, [epoch.epoch for epoch in one.epochs]) for one in records] == [
        (number, TrialState.COMPLETE, [0, 1, 2]) for number in range(12)
    ]
    assert {epoch.attempt for one in records for epoch in one.epochs} == {1}


def test_another_sweep_of_the_name_is_refused(folder, url):
    """A second directory on the same study must be of the same sweep, and nobody starts over under others."""
    text = shared(url)
    (folder / "sweep.yaml").write_text(text)
    assert called("run", "sweep.yaml")[0] == 0
    other = text.replace("runs/sweep", "runs/other")
    (folder / "other.yaml").write_text(other.replace("epochs: 3", "epochs: 2"))
    code, err = called("run", "other.yaml")
    assert code == 2 and "its trials belong to another sweep:\n  budget.epochs: 3 -> 2" in err
    code, err = called("run", "sweep.yaml", "--fresh")
    assert code == 2 and "that others may be using; rename the sweep" in err
    (folder / "other.yaml").write_text(other)
    code, err = called("run", "other.yaml")
    assert code == 0, err
    assert points("runs/other") == points("runs/sweep")


def test_fresh_runs_of_a_deleted_study_are_refused(folder, url):
    """A sweep of the name would take them for its own, whatever it trains."""
    text = shared(url)
    name = text.split()[1]
    (folder / "sweep.yaml").write_text(text)
    storage = open_storage(os.path.expandvars(url))
    optuna.create_study(study_name=f"{name}:confirm", storage=storage)
    code, err = called("run", "sweep.yaml")
    assert code == 2 and f"has no study {name!r}, but the fresh runs of its confirmation; rename" in err
    assert f"optuna delete-study --study-name {name}:confirm" in err and not (folder / "runs/sweep").exists()
    optuna.delete_study(study_name=f"{name}:confirm", storage=storage)
    close_storage(storage)
    assert called("run", "sweep.yaml")[0] == 0


def test_a_password_is_written_nowhere(folder, database):
    """Neither in files, nor in the study, nor on the terminal; workers are told it by their environment."""
    whole = os.environ["STUDY_URL"]
    password = whole.rpartition("@")[0].rpartition(":")[2]
    assert len(password) >= 8, "other texts may contain so short a password: give the user a longer one"
    text = shared(whole, ", workers: 2")
    (folder / "sweep.yaml").write_text(text)
    ran = hpometrics("run", "sweep.yaml").result()
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    files = {path: path.read_bytes() for path in (folder / "runs").rglob("*") if path.is_file()}
    for place, content in {"terminal": said.encode(), **files}.items():
        assert password.encode() not in content, place
    assert f"{whole.partition(':')[0]}://***@" in (folder / "runs/sweep/sweep.resolved.yaml").read_text()
    refused = CliRunner().invoke(main, ["worker", "runs/sweep"], env={"HPOMETRICS_STORAGE": ""})
    assert refused.exit_code == 2 and "export HPOMETRICS_STORAGE with the whole URL" in refused.stderr


@pytest.mark.parametrize(
    ("storage", "told"),
    [
        (
            "redis://h",
            "redis:// is not a storage that several machines can share; write postgresql://host/database",
        ),
        (
            "sqlite:///x.db",
            "'sqlite:///x.db' is not a valid storage; write sqlite, journal, memory, or a URL",
        ),
        ("disk", "'disk' is not a valid storage; write sqlite, journal, memory, or a URL"),
        ("grpc://host:x", "name the storage proxy as grpc://host:port"),
        ("postgresql://ada:${pw}@h/x", "write an environment variable as ${NAME}, in capitals"),
        ("postgresql+asyncpg://h/x", "needs asyncpg, which is not installed: pip install asyncpg"),
        (
            "mysql://h/x",
            "needs MySQLdb, which is not installed: pip install mysqlclient; or write mysql+pymysql",
        ),
    ],
)
def test_a_storage_that_cannot_be_used_is_refused_at_check(storage, told):
    """With what to write or to install."""
    [found] = problems_of(f'{SWEEP}backend: {{optuna: {{storage: "{storage}"}}}}\n')
    assert f"backend.optuna.storage: {told}" in found or told in found


@EXHAUSTIVE
@pytest.mark.parametrize("url", ["mysql"], indirect=True)
def test_a_sweep_and_its_epochs_may_be_long(folder, url):
    """A file and lines of more than the 64 KiB that a column of MySQL holds, from one machine to another."""
    starts = ", ".join(f"{{lr: {number}e-6, size: small}}" for number in range(100, 3100))
    text = changed("toy_engine:train", "toy_engine:tell_much").replace(
        "trials: 4, epochs: 3", "trials: 2, epochs: 2"
    )
    text = text.replace("seed: 3", f"seed: 3, start: [{starts}]")
    (folder / "sweep.yaml").write_text(shared(url, text=text))
    code, err = ended("run", "sweep.yaml")
    assert code == 0, err
    assert (folder / "runs/sweep/sweep.resolved.yaml").stat().st_size > 65_536
    assert (folder / "runs/sweep/trials/0001/epochs.jsonl").stat().st_size > 2 * 65_536
    name = RunDirectory(folder / "runs/sweep").read().name
    code, err = ended("worker", url, "--study", name, "--dir", "elsewhere")
    assert code == 0, err
    assert points("elsewhere") == points("runs/sweep")


def test_a_worker_names_what_it_looks_for(folder):
    """A URL that nobody answers; flags that mean nothing beside a directory."""
    result = CliRunner().invoke(main, ["worker", "runs/sweep", "--study", "x"])
    assert result.exit_code == 2 and "use --study with a URL" in result.stderr
    result = CliRunner().invoke(main, ["worker", "redis://ada:secret@h"])
    assert result.exit_code == 2 and "redis:// is not a storage" in result.stderr
    assert "secret" not in result.stderr
