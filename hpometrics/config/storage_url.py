"""The place of a study: a file of the run directory, or a storage that machines share.

Who logs in there is told to nobody: files hold `${VARIABLE}` as it was written, or `***`.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote, unquote, urlsplit

from pydantic import AfterValidator, Field

from .._redaction import HIDDEN, hide, redacted, reveal
from ..exceptions import ConfigError
from .fields import wrong

if TYPE_CHECKING:
    from .models import Backend

ENVIRONMENT = "HPOMETRICS_STORAGE"
"""Where a process finds a URL of which the files of the sweep do not have all."""

FILES = {"sqlite": "study.db", "journal": "study.journal"}
_VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")
_NAMED_LOGIN = re.compile(r"(?<=://)[\w.%+-]*(:\$\{[A-Z][A-Z0-9_]*\})?@")
_NAMED_KEY = re.compile(r"(?<==)\$\{[A-Z][A-Z0-9_]*\}")


def _storage(value: str) -> str:
    if value in (*FILES, "memory") or _VARIABLE.fullmatch(value):
        return value
    if "://" not in value or not value.isprintable() or value.startswith("sqlite:"):
        known = ", ".join((*FILES, "memory"))
        raise wrong(f"{redacted(value)!r} is no storage; write {known}, or a URL: postgresql://host/database")
    if "${" in _VARIABLE.sub("", value):
        raise wrong("a variable of the environment is written ${NAME}, in capitals")
    return value


StorageForm = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(_storage)]


def storage_of(backend: Backend) -> str:
    """Give what a sweep says of its storage; Ray and lists keep the study in the run directory."""
    return "sqlite" if backend.optuna is None else backend.optuna.storage


def is_shared(storage: str) -> bool:
    """Say whether machines can share a storage without sharing a directory."""
    return storage not in (*FILES, "memory")


def is_url(place: str) -> bool:
    """Say whether a place that a user names is a storage, and no directory."""
    return "://" in place or _VARIABLE.fullmatch(place) is not None


def written(storage: str) -> str:
    """Give a storage as files and messages may have it.

    >>> written("postgresql://ada:${PGPASSWORD}@db/studies"), written("postgresql://ada:pw@db/studies")
    ('postgresql://ada:${PGPASSWORD}@db/studies', 'postgresql://***@db/studies')
    """
    without_names = _NAMED_KEY.sub("", _NAMED_LOGIN.sub("", storage))
    return storage if redacted(without_names) == without_names else redacted(storage)


def known_url(storage: str) -> str | None:
    """Give the URL of a shared storage as far as it can be known before it is opened."""
    if not is_shared(storage):
        return None
    whole = _VARIABLE.fullmatch(storage)
    name = ENVIRONMENT if HIDDEN in storage else whole[1] if whole else None
    return storage if name is None else os.environ.get(name) or None


def environment_of(storage: str) -> dict[str, str]:
    """Give the environment of a process that reads the sweep from its files, which leave something out."""
    hidden = HIDDEN in written(storage)
    return {**os.environ, ENVIRONMENT: url_of(storage)} if hidden else dict(os.environ)


def url_of(storage: str) -> str:
    """Give the whole URL of a shared storage; whoever prints its secrets prints `***`.

    Raises:
        ConfigError: the environment lacks what the files of the sweep do not have.
    """
    if HIDDEN in storage:
        told = os.environ.get(ENVIRONMENT)
        if not told:
            raise ConfigError(
                f"{storage}: the files of the sweep do not say who logs in; export {ENVIRONMENT} with the "
                "whole URL, or write ${NAME} in place of the password"
            )
        storage = told
    if (whole := _VARIABLE.fullmatch(storage)) is not None:
        url = reveal(whole[1])
    else:
        url = _VARIABLE.sub(lambda name: quote(reveal(name[1]), safe=""), storage)
    password = urlsplit(url).password
    if password:
        hide(password)
        hide(unquote(password))
    return url
