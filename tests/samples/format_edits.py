"""Change the format number of a file of a run directory, or a line of it."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import torch

from hpometrics.records._json import FORMAT, digest_of, sealed
from hpometrics.records.trial_record import (
    _digest as digest_of_trial,
    is_as_written,
)


def edit_sweep(file: Path, edit: Callable[[str], str]) -> None:
    """Change a resolved sweep, and its digest with it."""
    head, mark, rest = file.read_text().partition("# sha256 of what follows: ")
    text = edit(rest.partition("\n")[2])
    file.write_text(f"{head}{mark}{digest_of(text)}\n{text}")


def edit_trial(file: Path, edit: Callable[[dict], None]) -> None:
    """Change the file of a trial, and its digest with it."""
    content = json.loads(file.read_text())
    edit(content)
    file.write_text(json.dumps({**content, "digest": digest_of_trial(content)}))
    assert is_as_written(json.loads(file.read_text()))


def renumber(number: int | None) -> Callable[[dict], None]:
    """Give a mapping another number of its format, or none."""

    def edit(content: dict) -> None:
        assert content.pop("format") == FORMAT
        content.update({} if number is None else {"format": number})

    return edit


def renumber_json(file: Path, number: int | None) -> None:
    """Change the number in every line of a file, or in the file as a whole."""
    lines = file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
    contents = [json.loads(line) for line in lines]
    for content in contents:
        renumber(number)(content)
    had = [content.pop("digest", None) for content in contents]
    texts = map(json.dumps, contents)
    if number is not None:
        texts = (sealed(text) if digest else text for text, digest in zip(texts, had, strict=True))
    file.write_text("".join(f"{text}\n" for text in texts))


def newer(line: str) -> str:
    """The line of a newer version."""
    content = {**json.loads(line), "format": FORMAT + 1}
    del content["digest"]
    return sealed(json.dumps(content))


def renumber_checkpoint(file: Path, number: int | None) -> None:
    """Change the number of a checkpoint; one of format 0 has the number of its own version."""
    content = torch.load(file, weights_only=True)
    renumber(number)(content)
    torch.save(content if number is not None else {**content, "version": 1}, file)


def renumber_study(file: Path, number: int | None) -> None:
    """Change the number of a study in SQLite."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        key = ("hpometrics:format",)
        told = connection.execute("select value_json from study_user_attributes where key = ?", key)
        assert told.fetchall() == [(str(FORMAT),)]
        if number is None:
            connection.execute("delete from study_user_attributes where key = ?", key)
        else:
            text = (str(number), *key)
            connection.execute("update study_user_attributes set value_json = ? where key = ?", text)


def renumber_sweep(file: Path, number: int | None) -> None:
    """Change the number of a resolved sweep."""
    new = "" if number is None else f"format: {number}\n"
    edit_sweep(file, lambda text: re.sub(rf"(?m)^format: {FORMAT}\n", new, text))


def renumber_all(number: int | None) -> None:
    """Change every number in the directory of a sweep."""
    home = Path("runs/complete")
    renumber_sweep(home / "sweep.resolved.yaml", number)
    renumber_study(home / "study.db", number)
    renumber_json(home / "verdict.json", number)
    text = (home / "best.yaml").read_text()
    assert f"\nformat: {FORMAT}\n" in text
    new = "" if number is None else f"format: {number}\n"
    (home / "best.yaml").write_text(text.replace(f"format: {FORMAT}\n", new))
    for file in home.glob("trials/*/trial.json"):
        edit_trial(file, renumber(number))
    for file in home.glob("trials/*/*.jsonl"):
        renumber_json(file, number)
    for file in home.glob("trials/*/checkpoints/*.pt"):
        renumber_checkpoint(file, number)
