"""Drivers: which storages can be shared by machines, and what speaks to each; nothing here opens one."""

from __future__ import annotations

from importlib.util import find_spec
from urllib.parse import urlsplit

from ...exceptions import ConfigError, MissingExtraError, missing_extra, pip_line

DATABASES = ("postgresql", "mysql", "mariadb")

_GRPC_PORT = 13000
_EXTRAS = {"psycopg": "postgresql", "pymysql": "mysql"}


def check_driver(url: str) -> None:
    """Refuse the URL of a storage that cannot be spoken to from here.

    Raises:
        ConfigError: no such storage, or none that machines can share.
        MissingExtraError: its driver is not installed.
    """
    kind = url.partition("://")[0]
    if kind == "grpc":
        grpc_address(url)
        if find_spec("grpc") is None:
            raise missing_extra("the storage grpc", "grpcio", "grpc")
        return
    import sqlalchemy  # only a database is asked about here
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    try:
        dialect = sqlalchemy.make_url(url).get_dialect()
        if dialect.name in DATABASES:
            dialect.import_dbapi()
            return
    except (ArgumentError, NoSuchModuleError, ValueError):
        pass  # said below
    except ImportError as err:
        raise _missing_driver(kind, err.name or str(err)) from None
    raise ConfigError(
        f"{kind}:// is no storage that machines can share; write postgresql://host/database, "
        "mysql+pymysql://host/database or grpc://host:port"
    )


def grpc_address(url: str) -> tuple[str, int]:
    """Give host and port of `grpc://host:port`.

    Raises:
        ConfigError: it has another form.
    """
    parts = urlsplit(url)
    try:
        port = parts.port or _GRPC_PORT
    except ValueError:
        port = 0
    if not parts.hostname or not port or parts.path not in ("", "/") or parts.username is not None:
        raise ConfigError(f"the storage proxy is named grpc://host:port, as in grpc://10.0.0.7:{_GRPC_PORT}")
    return parts.hostname, port


def _missing_driver(kind: str, package: str) -> MissingExtraError:
    if package in _EXTRAS:
        return missing_extra(f"the storage {kind}", package, _EXTRAS[package])
    name = "mysqlclient" if package == "MySQLdb" else package
    other = f"; or write mysql+pymysql:// and {pip_line('mysql')}" if kind == "mysql" else ""
    return MissingExtraError(
        f"the storage {kind} needs {package}, which is not installed: pip install {name}{other}"
    )
