"""A search whose trials are in an SQLite file of Optuna's."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from patient import Patient


class Studied(Patient):
    """A search by Optuna or over its study; see `Patient`.

    Attributes:
        study: the file.
    """

    study: Path

    def running(self) -> set[int]:
        """The trials that the study takes for running."""
        return {number for (number,) in self.ask("SELECT number FROM trials WHERE state = 'RUNNING'")}

    def begun(self) -> int:
        """How many trials the study has."""
        return sum(count for (count,) in self.ask("SELECT count(*) FROM trials"))

    def ask(self, query: str) -> list[tuple[int, ...]]:
        """Ask the study."""
        with closing(sqlite3.connect(self.study)) as connection:
            return connection.execute(query).fetchall()
