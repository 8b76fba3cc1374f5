"""The storage of a study: a file in the run directory, or a URL that machines share.

Credentials are never written: files hold `${VARIABLE}` as the user wrote it, or `***`.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from urllib.parse import quote, unquote, urlsplit

from .._redaction import HIDDEN, hide, redacted, reveal
from ..exceptions import ConfigError, MissingExtraError, missing_extra, pip_line

ENVIRONMENT = "HPOMETRICS_STORAGE"
"""The environment variable with the whole URL, if the files of the sweep hold only a part of it."""

DATABASES = ("postgresql", "mysql", "mariadb")
MEMORY = "memory"
"""The storage of a study that ends with its process."""
STORAGE_FILES = {"sqlite": "study.db", "journal": "study.journal"}
"""The file in the run directory of each kind of storage that has one."""
_GRPC_PORT = 13000
_EXTRAS = {"psycopg": "postgresql", "pymysql": "mysql"}
_VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S+")
_NAMED_LOGIN = re.compile(r"(?<=://)[\w.%+-]*(:\$\{[A-Z][A-Z0-9_]*\})?@")
_NAMED_KEY = re.compile(r"(?<==)\$\{[A-Z][A-Z0-9_]*\}")


def storage_problem(value: str) -> str | None:
    """Return why a text is not a storage; None if it is one."""
    if value in (*STORAGE_FILES, MEMORY) or _VARIABLE.fullmatch(value):
        return None
    if "://" not in value or not value.isprintable() or value.startswith("sqlite:"):
        names = ", ".join((*STORAGE_FILES, MEMORY))
        return (
            f"{redacted(value)!r} is not a valid storage; write {names}, or a URL: postgresql://host/database"
        )
    if "${" in _VARIABLE.sub("", value):
        return "write an environment variable as ${NAME}, in capitals"
    return None


def is_shared(storage: str) -> bool:
    """Return whether machines can share a storage without a common directory."""
    return storage not in (*STORAGE_FILES, MEMORY)


def is_url(place: str) -> bool:
    """Return whether a place that a user names is a storage rather than a directory."""
    return "://" in place or _VARIABLE.fullmatch(place) is not None


def redact_storage(storage: str) -> str:
    """Return a storage as files and messages may show it.

    >>> redact_storage("postgresql://ada:${PGPASSWORD}@db/studies"), redact_storage("postgresql://ada:pw@db/studies")
    ('postgresql://ada:${PGPASSWORD}@db/studies', 'postgresql://***@db/studies')
    """
    without_names = _NAMED_KEY.sub("", _NAMED_LOGIN.sub("", storage))
    return storage if redacted(without_names) == without_names else redacted(storage)


def redact_file(text: str, storage: str) -> str:
    """Return the text of a sweep file as its copies may show it, without the passwords of any URL.

    >>> redact_file("storage: sqlite  # was postgresql://ada:pw@db/studies", "sqlite")
    'storage: sqlite  # was postgresql://***@db/studies'

    Args:
        text: the text.
        storage: the storage that it names, whose password `url_of` has read.
    """
    text = _URL.sub(lambda url: redact_storage(url[0]), text)
    return text if redact_storage(storage) == storage else redacted(text)  # it may escape characters


def known_url(storage: str) -> str | None:
    """Return the URL of a shared storage, if it is known before the storage is opened."""
    if not is_shared(storage):
        return None
    whole = _VARIABLE.fullmatch(storage)
    name = ENVIRONMENT if HIDDEN in storage else whole[1] if whole else None
    return storage if name is None else os.environ.get(name) or None


def environment_of(storage: str) -> dict[str, str]:
    """Return the environment for a process that reads the sweep from its files, which omit credentials."""
    hidden = HIDDEN in redact_storage(storage)
    return {**os.environ, ENVIRONMENT: url_of(storage)} if hidden else dict(os.environ)


def url_of(storage: str) -> str:
    """Return the whole URL of a shared storage, and have its password printed as `***` from now on.

    Raises:
        ConfigError: the files of the sweep do not hold the whole URL, nor does the environment.
    """
    if HIDDEN in storage:
        url = os.environ.get(ENVIRONMENT)
        if not url:
            raise ConfigError(
                f"{storage}: the files of the sweep hold no password; export {ENVIRONMENT} with the "
                "whole URL, or write ${NAME} in place of the password"
            )
        storage = url
    if (whole := _VARIABLE.fullmatch(storage)) is not None:
        url = reveal(whole[1])
    else:
        url = _VARIABLE.sub(lambda name: quote(reveal(name[1]), safe=""), storage)
    password = urlsplit(url).password
    if password:
        hide(password)
        hide(unquote(password))
    return url


def check_driver(url: str) -> None:
    """Refuse the URL of a storage that cannot be opened on this machine.

    Raises:
        ConfigError: there is no such storage, or machines cannot share it.
        MissingExtraError: its driver is not installed.
    """
    kind = url.partition("://")[0]
    if kind == "grpc":
        grpc_address(url)
        if find_spec("grpc") is None:
            raise missing_extra("the storage grpc", "grpcio", "grpc")
        return
    import sqlalchemy  # needed for a database alone
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    try:
        dialect = sqlalchemy.make_url(url).get_dialect()
        if dialect.name in DATABASES:
            dialect.import_dbapi()
            return
    except (ArgumentError, NoSuchModuleError, ValueError):
        pass  # raised below
    except ImportError as err:
        raise _missing_driver(kind, err.name or str(err)) from None
    raise ConfigError(
        f"{kind}:// is not a storage that several machines can share; write postgresql://host/database, "
        "mysql+pymysql://host/database or grpc://host:port"
    )


def grpc_address(url: str) -> tuple[str, int]:
    """Return the host and the port of `grpc://host:port`.

    Raises:
        ConfigError: the URL has another form.
    """
    parts = urlsplit(url)
    try:
        port = parts.port or _GRPC_PORT
    except ValueError:
        port = 0
    if not parts.hostname or not port or parts.path not in ("", "/") or parts.username is not None:
        raise ConfigError(
            f"name the storage proxy as grpc://host:port, for example grpc://10.0.0.7:{_GRPC_PORT}"
        )
    return parts.hostname, port


def _missing_driver(kind: str, package: str) -> MissingExtraError:
    if package in _EXTRAS:
        return missing_extra(f"the storage {kind}", package, _EXTRAS[package])
    name = "mysqlclient" if package == "MySQLdb" else package
    other = f"; or write mysql+pymysql:// and {pip_line('mysql')}" if kind == "mysql" else ""
    return MissingExtraError(
        f"the storage {kind} needs {package}, which is not installed: pip install {name}{other}"
    )
