"""Values by user: what each metric gives each user, as columns that can be compared, written and read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np
import torch
from torch import Tensor

from ...exceptions import MetricInputError
from ..metric import Metric
from ..statistics.user_values import UserValues

Column = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class PerUser(Mapping[str, Column]):
    """Users and their values by the name of the metric; nan is a user who has no value.

    As CSV a row per user and a column per metric, whose place is empty where it has not met the user; as npz
    `names`, and of the metric at each place `values_0` and `users_0`, these only where they are new.

    Attributes:
        columns: of each metric, users (n,) int64, rising, and values (n,) float32.

    >>> from hpometrics import MetricCollection, Ranking
    >>> panel = MetricCollection(["precision@1"], output=Ranking(per_user=True))
    >>> panel.update(scores=[[0.9, 0.1], [0.9, 0.1]], target=[[0], [1]], users=[7, 3])
    >>> users, values = panel.per_user()["precision@1"]
    >>> dict(zip(users.tolist(), values.tolist()))
    {3: 0.0, 7: 1.0}
    """

    columns: Mapping[str, Column]

    @classmethod
    def of(cls, metrics: Mapping[str, Metric]) -> Self:
        """Gather what metrics have kept.

        Raises:
            MetricInputError: none of them is one that keeps the value of each user.
        """
        columns = {name: column for name, metric in metrics.items() for column in _kept_by(metric)}
        if not columns:
            raise MetricInputError(
                f"no value of a user is kept by {', '.join(metrics)}; say so in the output, "
                "Ranking(per_user=True), and name a metric that is a mean over users, such as ndcg@10"
            )
        return cls(columns)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read what `to_csv` or `to_npz` wrote."""
        return cls.read_npz(path) if Path(path).suffix == ".npz" else cls.read_csv(path)

    @classmethod
    def read_csv(cls, path: str | Path) -> Self:
        """Read what `to_csv` wrote."""
        with open(path, newline="", encoding="utf-8") as file:
            (_, *names), *rows = csv.reader(file)
        columns = {}
        for place, name in enumerate(names, 1):
            told = [(int(row[0]), float(row[place])) for row in rows if row[place]]
            users, values = zip(*told, strict=True) if told else ((), ())
            columns[name] = (torch.tensor(users, dtype=torch.int64), torch.tensor(values))
        return cls(columns)

    @classmethod
    def read_npz(cls, path: str | Path) -> Self:
        """Read what `to_npz` wrote."""
        columns = {}
        with np.load(path, allow_pickle=False) as file:
            for place, name in enumerate(file["names"].tolist()):
                if f"users_{place}" in file:
                    users = torch.from_numpy(file[f"users_{place}"])
                columns[name] = (users, torch.from_numpy(file[f"values_{place}"]))
        return cls(columns)

    @property
    def cells(self) -> int:
        """How many values there are."""
        return sum(len(users) for users, _ in self.values())

    def csv_text(self) -> str:
        """What `to_csv` writes; a value has as many digits as its float32 needs."""
        cells = {
            name: dict(zip(u.tolist(), map(str, v.numpy()), strict=True)) for name, (u, v) in self.items()
        }
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(["user", *cells])
        for user in sorted({user for column in cells.values() for user in column}):
            writer.writerow([user, *(column.get(user, "") for column in cells.values())])
        return text.getvalue()

    def to_csv(self, path: str | Path) -> None:
        """Write a row per user and a column per metric."""
        Path(path).write_text(self.csv_text(), encoding="utf-8", newline="")

    def to_npz(self, file: str | Path | BinaryIO) -> None:
        """Write arrays, compressed; of metrics that met the same users in a row, the users once."""
        arrays = {"names": np.array(list(self), dtype=np.str_)}
        before: Tensor | None = None
        for place, (users, values) in enumerate(self.values()):
            if before is None or not torch.equal(users, before):
                arrays[f"users_{place}"] = users.numpy()
            arrays[f"values_{place}"] = values.numpy()
            before = users
        np.savez_compressed(file, allow_pickle=False, **arrays)

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns:
            raise KeyError(f"no values of {name!r} by user; there are those of {', '.join(self.columns)}")
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


def _kept_by(metric: Metric) -> Iterable[Column]:
    for statistic in metric.kept.values():
        if isinstance(statistic, UserValues):
            yield _column(statistic, getattr(metric, "k", None))


def _column(statistic: UserValues, cutoff: int | None) -> Column:
    if statistic.empty:
        return torch.empty(0, dtype=torch.int64), torch.empty(0)
    users, values = statistic.by_user(cutoff)
    return users.cpu(), values.cpu()
