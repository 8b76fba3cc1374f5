"""A Python that has loaded what the tests need: its processes are forks of one that is started once.

Loading torch and its companions takes longer than most tests. `loaded_python` returns the path of a script
that takes the place of `sys.executable` where pytest, Ray, multiprocessing and sweeps start their workers.
The script passes its command, environment and open files to this file, which runs as a program and forks for
each.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import types
import warnings
from argparse import ArgumentParser
from contextlib import chdir, suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

LOADED = [
    *("torch._dynamo", "hpometrics.cli.main", "hpometrics.run.trial"),
    *("hpometrics.runner.worker", "hpometrics.runner.study"),
    *("optuna.storages._rdb.storage", "optuna.storages._rdb.models", "sqlalchemy.dialects.sqlite"),
    *("alembic.command", "alembic.migration", "alembic.script"),
    *("sklearn.compose", "sklearn.datasets", "sklearn.ensemble", "sklearn.model_selection"),
    *(
        "lightning.pytorch",
        "ignite.handlers",
        "ignite.metrics",
        "accelerate",
        "transformers.trainer",
        "ir_measures",
    ),
    *("pandas", "pyarrow.fs", "tensorboardX", "pydantic", "requests", "jsonschema"),
]
"""Modules that tests and their processes use, where they are installed.

Ray is left out: forks of a process that has loaded it all draw the same random ids.
"""

COMMAND = ["-m", "hpometrics"]
"""How a command of hpometrics begins, such as that of a worker that a run hires."""

LAUNCHER = """#!{python} -IS
import json, os, signal, socket, sys
on_ray = any(argument.endswith("default_worker.py") for argument in sys.argv)
command = sys.argv[1:3] == {command!r}
if not on_ray and not command and "-c" not in sys.argv:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
numbers = [0, 1, 2]
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    if not on_ray and not command:
        numbers += [number for number in range(3, 256) if os.path.exists(f"/dev/fd/{{number}}")]
        numbers.remove(server.fileno())
    server.connect({address!r})
    process = [os.getcwd(), dict(os.environ), os.nice(0), sys.argv[1:], numbers]
    socket.send_fds(server, [json.dumps(process).encode()], numbers)
    if not on_ray:
        for number in numbers:
            os.close(number)
    if command:
        fork = int(server.recv(16))
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, frame: os.kill(fork, number))
        code = os.waitstatus_to_exitcode(int(server.recv(16)))
        if code < 0:
            signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        sys.exit(code)
    if not on_ray:
        server.recv(1)
"""
"""For `-c` it waits until the fork ends. For Ray it ends at once: Ray's workers register themselves.

For a command of hpometrics it passes signals on and ends as the fork does; to kill it kills the fork.
"""

COLLECTIONS = (50_000, 20, 50)
"""How often Python collects garbage: among this many objects its own thresholds take 3 % of the tests."""
MESSAGE = 2**17
"""The most bytes that a command and its environment may have."""
ADDRESS = "LOADED_PYTHON"
"""The environment variable with the path of the script, which child processes inherit."""


def loaded_python() -> Path:
    """Return the path of the script; the first call starts the process that forks."""
    if ADDRESS not in os.environ:
        os.environ[ADDRESS] = str(_start())
    return Path(os.environ[ADDRESS])


def start_cluster() -> None:
    """Start Ray with two CPUs; its workers are forks of the loaded process.

    The cluster starts in the folder of the tests: that of one test, where this process may be, is soon gone.
    """
    from hpometrics.backends.ray.session import start_ray

    with mock.patch.object(sys, "executable", str(loaded_python())), chdir(Path(__file__).parent):
        start_ray(num_cpus=2, object_store_memory=80 * 2**20)


def _start() -> Path:
    """Start the process that forks, which ends with this one; return the path of the script."""
    folder = tempfile.TemporaryDirectory(prefix="loaded-")
    address, launcher = str(Path(folder.name) / "socket"), Path(folder.name) / "python"
    text = LAUNCHER.format(python=sys.executable, address=address, command=COMMAND)
    launcher.write_text(text, encoding="utf8")
    launcher.chmod(0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(address)
        server.listen(64)
        number = server.fileno()
        command = [sys.executable, __file__, str(number), str(launcher)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[number])

    def end() -> None:
        process.communicate()
        folder.cleanup()

    atexit.register(end)
    return launcher


def _fork(server: socket.socket, launcher: str) -> None:
    """Fork for each request until the process that has started this one closes its pipe."""
    with warnings.catch_warnings(action="error"):
        warnings.filterwarnings("ignore", ".torch.jit.* is deprecated", DeprecationWarning)  # ignite's
        for name in LOADED:
            with suppress(Exception):  # what cannot be loaded fails again in the test that needs it
                import_module(name)
        _read_revisions_once()
    with suppress(ImportError):  # without torch there are no sweeps
        _hire_by(launcher)
    gc.freeze()
    gc.set_threshold(*COLLECTIONS)
    forks: list[_Fork] = []
    while True:
        runs = [fork.run for fork in forks if fork.run is not None]
        ready, _, _ = select.select([server, sys.stdin, *forks, *runs], [], [])
        if sys.stdin in ready:
            return
        for fork in forks:
            if fork.run in ready:
                fork.kill()
            if fork in ready:
                fork.end()
        forks = [fork for fork in forks if not fork.ended]
        if server in ready:
            forks += _fork_one(server, forks)


class _Fork:
    """A process that was forked.

    Args:
        process: its id.
        run: the connection to the launcher of a command, which closes it only when it is killed.
    """

    def __init__(self, process: int, run: socket.socket | None) -> None:
        self._process, self.run = process, run
        self._file = os.pidfd_open(process)
        self.ended = False
        self._send(process)

    def fileno(self) -> int:
        """Return the file that can be read once the process has ended."""
        return self._file

    def _send(self, number: int) -> None:
        if self.run is not None:
            with suppress(OSError):  # the launcher was killed
                self.run.send(b"%d" % number)

    def kill(self) -> None:
        """Kill the process, as its launcher was."""
        os.kill(self._process, signal.SIGKILL)
        self.close()

    def end(self) -> None:
        """Take the status of the process, which has ended, and pass it to its launcher."""
        self._send(os.waitpid(self._process, 0)[1])
        self.close()
        os.close(self._file)
        self.ended = True

    def close(self) -> None:
        """Close the connection."""
        if self.run is not None:
            self.run.close()
            self.run = None


def _fork_one(server: socket.socket, forks: list[_Fork]) -> list[_Fork]:
    """Fork for a request; where it is for a command, answer with its id and keep the connection."""
    connection, _ = server.accept()
    message, descriptors, _, _ = socket.recv_fds(connection, MESSAGE, 256)
    if not message:  # it was killed before it could ask
        connection.close()
        return []
    folder, environment, priority, arguments, numbers = json.loads(message)
    process = os.fork()
    if process == 0:
        server.close()
        for fork in forks:
            os.close(fork.fileno())
            fork.close()
        if arguments[:2] != COMMAND:
            fcntl(connection.fileno(), F_DUPFD_CLOEXEC, 256)  # open until this process ends, out of the way
        connection.close()
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        os.nice(priority)
        _place(descriptors, numbers)
        _work(arguments)
    for descriptor in descriptors:
        os.close(descriptor)
    if arguments[:2] == COMMAND:
        return [_Fork(process, connection)]
    connection.close()
    return [_Fork(process, None)]


def _hire_by(launcher: str) -> None:
    """Have the runs of all forks hire workers that are forks as well."""
    from hpometrics.runner import processes

    start = processes._start_worker

    def start_fork(command: list[str], *arguments: Any) -> subprocess.Popen[str]:
        return start([launcher, *command[1:]], *arguments)

    mock.patch.object(processes, "_start_worker", start_fork).start()


def _read_revisions_once() -> None:
    """Cache Optuna's table revisions: each new storage has alembic load all of them, 0.1 s in all."""
    from alembic.util import pyfiles
    from optuna.storages import RDBStorage

    revisions: dict[str, types.ModuleType] = {}
    read = pyfiles.load_module_py

    def read_once(name: str, path: str | os.PathLike[str]) -> types.ModuleType:
        if Path(path).parent.name != "versions":
            return read(name, path)
        if name not in revisions:
            revisions[name] = read(name, path)
        return revisions[name]

    pyfiles.load_module_py = read_once
    RDBStorage("sqlite://").engine.dispose()


def _place(descriptors: list[int], numbers: list[int]) -> None:
    """Give the received files the numbers that they had in the sender."""
    apart = [fcntl(descriptor, F_DUPFD_CLOEXEC, 256) for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for descriptor, number in zip(apart, numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = open(0, closefd=False)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", 1, closefd=False)


def _work(arguments: list[str]) -> None:
    """Run the command, the code or the Ray worker, and exit."""
    random.seed()
    tempfile.tempdir = None  # which the environment names
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    if arguments[:2] == COMMAND:
        os.setsid()
        sys.path[0] = os.getcwd()
        sys.argv = arguments[1:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        sys.exit()
    os.setpgid(0, 0)  # Ray kills the group of a worker
    if "-c" in arguments:
        at = arguments.index("-c")
        sys.argv = arguments[at : at + 1] + arguments[at + 2 :]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(arguments[at + 1], "<string>", "exec"), vars(main))
    else:
        _work_for_ray(arguments)
    sys.exit()


def _work_for_ray(arguments: list[str]) -> None:
    """Run Ray's worker program, with the variables of its runtime environment."""
    parser = ArgumentParser(allow_abbrev=False)
    parser.add_argument("--serialized-runtime-env-context", type=json.loads, default={})
    parser.add_argument("--language")
    runtime, sys.argv = parser.parse_known_args(arguments)
    os.environ.update(runtime.serialized_runtime_env_context.get("env_vars", {}))
    program = next(argument for argument in arguments if argument.endswith("default_worker.py"))
    sys.argv = sys.argv[sys.argv.index(program) :]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        _fork(listening, sys.argv[2])
