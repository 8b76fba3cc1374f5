"""Values by user: what each metric gives each user, as columns that can be compared, written and read."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from ..metric import Metric
from ..statistics.user_values import UserValues

Column = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class PerUser(Mapping[str, Column]):
    """Users and their values by the name of the metric; nan is a user who has no value.

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
            MetricInputError: none of them keeps the value of each user.
        """
        columns = {name: column for name, metric in metrics.items() for column in _kept_by(metric)}
        if not columns:
            raise MetricInputError(
                f"no value of a user is kept by {', '.join(metrics)}; say so in the output, "
                "Ranking(per_user=True), and name a metric that is a mean over users, such as ndcg@10"
            )
        return cls(columns)

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

    def to_csv(self, path: str | Path) -> None:
        """Write a row per user and a column per metric; a place is empty where a metric has no user."""
        cells = {name: dict(zip(*(c.tolist() for c in pair), strict=True)) for name, pair in self.items()}
        users = sorted({user for column in cells.values() for user in column})
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["user", *cells])
            writer.writerows([user, *(column.get(user, "") for column in cells.values())] for user in users)

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
        if isinstance(statistic, UserValues) and not statistic.empty:
            users, values = statistic.by_user(getattr(metric, "k", None))
            yield users.cpu(), values.cpu()
