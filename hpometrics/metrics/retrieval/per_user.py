"""The values of metrics by user, as columns that can be compared, written and read, and user strata."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import torch
from torch import Tensor

from ...exceptions import MetricInputError
from ..features import Ranking
from ..metric import Metric
from ..registry.names import MetricName
from ..statistics.user_values import UserFacts, UserValues
from .side_data import SideData

Column = tuple[Tensor, Tensor]

GROUP, POPULARITY = "group", "popularity"
_BY = "by "  # the prefix of the heading of strata in a CSV file


@dataclass(frozen=True, eq=False)
class PerUser(Mapping[str, Column]):
    """Users and their values by the name of the metric; nan is a user who has no value.

    As CSV it has a row per user and a column per metric, with an empty cell where the metric has not met the
    user, followed by the strata in columns such as `by group`. As npz it has `names` and `strata`, and the
    arrays `values_0`, `users_0` and so on for these entries, metrics first; users are written only where they
    differ from those of the previous entry.

    Attributes:
        columns: for each metric, users (n,) int64, ascending, and values (n,) float32.
        strata: under `group` (if the output has `user_groups`) and `popularity` (if that of the items is
            known), users and the stratum of each, (n,) int64, -1 for none. Strata by popularity are thirds of
            the users: 0 likes the least popular items. For another split or task than the metrics' own the
            name is `test:group`.

    >>> from hpometrics import MetricCollection, Ranking
    >>> panel = MetricCollection(["precision@1"], output=Ranking(per_user=True))
    >>> panel.update(scores=[[0.9, 0.1], [0.9, 0.1]], target=[[0], [1]], users=[7, 3])
    >>> users, values = panel.per_user()["precision@1"]
    >>> dict(zip(users.tolist(), values.tolist()))
    {3: 0.0, 7: 1.0}
    """

    columns: Mapping[str, Column]
    strata: Mapping[str, Column] = field(default_factory=dict)

    @classmethod
    def of(cls, metrics: Mapping[str, Metric]) -> Self:
        """Collect the stored values of metrics.

        Raises:
            MetricInputError: none of them stores the value of each user.
        """
        columns = [
            (name, metric, column) for name, metric in metrics.items() for column in _columns_of(metric)
        ]
        if not columns:
            raise MetricInputError(
                f"{', '.join(metrics)}: no values by user are stored; set Ranking(per_user=True) as the "
                "output, and name a metric that is a mean over users, such as ndcg@10"
            )
        _, first, (users, _) = columns[0]
        return cls({name: column for name, _, column in columns}, user_strata(first, users))

    @classmethod
    def joined(cls, tables: Iterable[PerUser]) -> Self:
        """Join tables with different names."""
        tables = list(tables)
        columns = {name: column for table in tables for name, column in table.items()}
        return cls(columns, {by: stratum for table in tables for by, stratum in table.strata.items()})

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a file written by `to_csv` or `to_npz`."""
        return cls.read_npz(path) if Path(path).suffix == ".npz" else cls.read_csv(path)

    @classmethod
    def read_csv(cls, path: str | Path) -> Self:
        """Read a file written by `to_csv`."""
        with open(path, newline="", encoding="utf-8") as file:
            (_, *names), *rows = csv.reader(file)
        columns, strata = {}, {}
        for place, name in enumerate(names, 1):
            cells = [(int(row[0]), float(row[place])) for row in rows if row[place]]
            users, values = zip(*cells, strict=True) if cells else ((), ())
            column = torch.tensor(users, dtype=torch.int64), torch.tensor(values)
            if name.startswith(_BY):
                strata[name.removeprefix(_BY)] = (column[0], column[1].long())
            else:
                columns[name] = column
        return cls(columns, strata)

    @classmethod
    def read_npz(cls, path: str | Path) -> Self:
        """Read a file written by `to_npz`."""
        columns = []
        with np.load(path, allow_pickle=False) as file:
            names, strata = file["names"].tolist(), file["strata"].tolist() if "strata" in file else []
            for place in range(len(names) + len(strata)):
                if f"users_{place}" in file:
                    users = torch.from_numpy(file[f"users_{place}"])
                columns.append((users, torch.from_numpy(file[f"values_{place}"])))
        columns_of_strata = ((users, numbers.long()) for users, numbers in columns[len(names) :])
        return cls(dict(zip(names, columns, strict=False)), dict(zip(strata, columns_of_strata, strict=True)))

    @property
    def cells(self) -> int:
        """The number of values."""
        return sum(len(users) for users, _ in self.values())

    def met(self) -> Self:
        """Return the same table without metrics that have no users."""
        return replace(self, columns={name: column for name, column in self.items() if len(column[0])})

    def without(self, names: Container[str]) -> Self:
        """Return the same table without some metrics."""
        return replace(self, columns={name: column for name, column in self.items() if name not in names})

    def called(self, call: Callable[[str], str]) -> Self:
        """Return the same table under other names, which a function returns for the old ones."""
        columns, strata = ({call(n): c for n, c in some.items()} for some in (self.columns, self.strata))
        return replace(self, columns=columns, strata=strata)

    def strata_of(self, metric: str, by: str) -> dict[int, Tensor]:
        """Return the users of each stratum, for the split and task of a metric.

        Raises:
            MetricInputError: there are no strata of this kind.
        """
        name = str(replace(MetricName.parse(metric), metric=by, params=(), k=None))
        if name not in self.strata:
            raise MetricInputError(
                f"{metric}: no {name} of users is stored; the stored strata are "
                f"{', '.join(self.strata) or 'none'}. Pass Ranking(user_groups=...) for group, and "
                "item_popularity= or seen= for popularity"
            )
        users, strata = self.strata[name]
        return {stratum: users[strata == stratum] for stratum in sorted(set(strata.tolist()) - {-1})}

    def csv_text(self) -> str:
        """Return the text that `to_csv` writes; a value has as many digits as its float32 needs."""
        cells = {
            name: dict(zip(u.tolist(), map(str, v.numpy()), strict=True))
            for name, (u, v) in (*self.items(), *((_BY + by, stratum) for by, stratum in self.strata.items()))
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
        """Write compressed arrays; the users of consecutive metrics with the same users are written once."""
        names = {"names": list(self), "strata": list(self.strata)}
        arrays = {name: np.array(words, dtype=np.str_) for name, words in names.items()}
        before: Tensor | None = None
        small = ((users, _narrow(numbers)) for users, numbers in self.strata.values())
        for place, (users, values) in enumerate((*self.values(), *small)):
            if before is None or not torch.equal(users, before):
                arrays[f"users_{place}"] = users.numpy()
            arrays[f"values_{place}"] = values.numpy()
            before = users
        np.savez_compressed(file, allow_pickle=False, **arrays)

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns:
            raise KeyError(f"no values of {name!r} by user; the stored metrics are {', '.join(self.columns)}")
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


@dataclass(frozen=True)
class Stratum:
    """The mean of a metric over the users of one group, and how many of them have a value."""

    mean: float
    users: int


def strata(column: Column, groups: Any) -> dict[int, Stratum]:
    """Average a metric over each group of users.

    Args:
        column: users and their values, from `per_user()`.
        groups: (users,) int, the group of each user by number, as in `Ranking(user_groups=...)`; -1 for none.

    Returns:
        The strata of the groups that have a user with a value, by their number.

    Raises:
        MetricInputError: a user is out of range of the groups.

    >>> means = strata((torch.tensor([0, 1, 3]), torch.tensor([1.0, 0.0, 0.5])), torch.tensor([0, 1, 1, 0]))
    >>> means[0]
    Stratum(mean=0.75, users=2)
    """
    users, values = column
    groups = torch.as_tensor(groups)
    if len(users) and not 0 <= int(users.min()) <= int(users.max()) < len(groups):
        raise MetricInputError(
            f"groups cover users 0..{len(groups) - 1}, got users from {int(users.min())} "
            f"to {int(users.max())}"
        )
    own = groups[users]
    has_value = ~values.isnan() & (own >= 0)
    own, values = own[has_value], values[has_value].double()
    return {
        group: Stratum(float(values[own == group].mean()), int((own == group).sum()))
        for group in own.unique().tolist()
    }


def quantile_groups(means: Tensor, number: int = 3) -> Tensor:
    """Split users into groups of similar size by the quantiles of a value: (users,) int64, -1 for nan."""
    has_mean = ~means.isnan()
    if not bool(has_mean.any()):
        return torch.full((len(means),), -1)
    bounds = means[has_mean].quantile(torch.arange(1, number, dtype=means.dtype) / number)
    return torch.bucketize(means, bounds, right=True).masked_fill(~has_mean, -1)


def user_strata(metric: Metric, users: Tensor) -> dict[str, Column]:
    """Return the strata of the users whose values a metric stores, by kind; -1 is in none.

    Args:
        metric: a ranking metric.
        users: (n,) the numbers of its users.
    """
    strata_by_kind, output = {}, metric.output
    if isinstance(output, Ranking) and output.user_groups is not None:
        groups = SideData.of(output).user_groups
        is_known = (users >= 0) & (users < len(groups))
        strata_by_kind[GROUP] = (users, torch.where(is_known, groups[torch.where(is_known, users, 0)], -1))
    for facts in metric.kept.values():
        if isinstance(facts, UserFacts) and not facts.empty:
            users_with_facts, means = facts.by_user()
            strata_by_kind[POPULARITY] = (users_with_facts, quantile_groups(means))
    return strata_by_kind


def _columns_of(metric: Metric) -> Iterable[Column]:
    for statistic in metric.kept.values():
        if isinstance(statistic, UserValues):
            yield _column(statistic, getattr(metric, "k", None))


def _narrow(numbers: Tensor) -> Tensor:
    """Return the numbers in the smallest type that holds them."""
    kinds, most = (torch.int8, torch.int16, torch.int32), int(numbers.max()) if len(numbers) else 0
    return numbers.to(next((kind for kind in kinds if most <= torch.iinfo(kind).max), torch.int64))


def _column(statistic: UserValues, cutoff: int | None) -> Column:
    if statistic.empty:
        return torch.empty(0, dtype=torch.int64), torch.empty(0)
    users, values = statistic.by_user(cutoff)
    return users.cpu(), values.cpu()
