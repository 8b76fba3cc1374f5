from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest
from forked import Forked
from servers import SERVERS


def serve(kind: str, answer: Path) -> None:
    """Start a server, write down its port and where its files are, and never end it."""
    server = SERVERS[kind]()
    answer.with_suffix(".part").write_text(f"{server.port} {server.home}")
    answer.with_suffix(".part").rename(answer)
    signal.pause()


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_ends_with_the_process_that_started_it(tmp_path, kind):
    """However that ends: here it is killed; neither a server nor a file is left."""
    if missing := SERVERS[kind].missing():
        pytest.skip(missing)
    starter = Forked(tmp_path, serve, kind, tmp_path / "answer")
    assert starter.waits_for((tmp_path / "answer").exists)
    port, home = (tmp_path / "answer").read_text().split()
    socket.create_connection(("127.0.0.1", int(port))).close()
    starter.killed()
    clock = Forked(tmp_path, signal.pause)
    assert clock.waits_for(lambda: not Path(home).exists())
    clock.killed()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(port)))


def test_databases_of_a_server_are_apart(new_database):
    """Each test begins with an empty one."""
    assert new_database("postgresql") != new_database("postgresql")
