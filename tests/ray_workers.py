"""A Ray cluster whose workers are forked from a process that has loaded most of what they need.

To load torch and Tune takes a worker longer than what most tests have it do. Ray starts a worker by
`sys.executable`; while a cluster starts, that is a script which hands the command on to the process that
this file is as a program.
"""

from __future__ import annotations

import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from unittest import mock

LOADED = [
    *("torch._dynamo", "hpometrics.run.trial"),
    *("pandas", "pyarrow.fs", "tensorboardX", "pydantic", "requests", "jsonschema"),
]
"""Modules that a worker loads for its first trial, but for Ray itself.

Forks of a process that has loaded Ray all draw the same random ids; a worker that reuses an id crashes.
"""

LAUNCHER = """#!{python} -IS
import json, os, socket, sys
if not any(argument.endswith("default_worker.py") for argument in sys.argv):
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({address!r})
    worker = [os.getcwd(), dict(os.environ), sys.argv[1:]]
    socket.send_fds(server, [json.dumps(worker).encode()], [0, 1, 2])
"""
MESSAGE = 2**17
"""Bytes that a worker's command and environment have at most."""


@contextmanager
def forked_workers(folder: Path) -> Iterator[Path]:
    """Start the process that forks workers; yield the path of the script that asks it for one."""
    address, launcher = str(folder / "workers"), folder / "python"
    launcher.write_text(LAUNCHER.format(python=sys.executable, address=address), encoding="utf8")
    launcher.chmod(0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(address)
        server.listen(64)
        number = server.fileno()
        process = subprocess.Popen(
            [sys.executable, __file__, str(number)], stdin=subprocess.PIPE, pass_fds=[number]
        )
    try:
        yield launcher
    finally:
        process.communicate()


def start_cluster(launcher: Path) -> None:
    """Start Ray with two CPUs."""
    from hpometrics.search.ray_backend import start_ray

    with mock.patch.object(sys, "executable", str(launcher)):
        start_ray(num_cpus=2, object_store_memory=80 * 2**20)


def _fork_workers(server: socket.socket) -> None:
    """Fork a worker for each request until the process that has started this one closes its pipe."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for name in LOADED:
        import_module(name)
    while True:
        ready, _, _ = select.select([server, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        connection, _ = server.accept()
        with connection:
            message, descriptors, _, _ = socket.recv_fds(connection, MESSAGE, 3)
        folder, environment, arguments = json.loads(message)
        os.environ.clear()
        os.environ.update(environment)  # Ray reads its settings from there when it is loaded
        if os.fork() == 0:
            server.close()
            _work(folder, arguments, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _work(folder: str, arguments: list[str], descriptors: list[int]) -> None:
    """Be the worker that Ray has asked for, by its own program or by that for a runtime environment."""
    os.setpgid(0, 0)  # Ray kills the group of a worker
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(folder)
    random.seed()
    parser = ArgumentParser(allow_abbrev=False)
    parser.add_argument("--serialized-runtime-env-context", type=json.loads, default={})
    parser.add_argument("--language")
    runtime, sys.argv = parser.parse_known_args(arguments)
    os.environ.update(runtime.serialized_runtime_env_context.get("env_vars", {}))
    program = next(argument for argument in arguments if argument.endswith("default_worker.py"))
    sys.argv = sys.argv[sys.argv.index(program) :]
    runpy.run_path(program, run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    _fork_workers(socket.socket(fileno=int(sys.argv[1])))
