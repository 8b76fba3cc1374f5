"""Values by user: what each metric gives each user, as columns that can be compared, written and read."""

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
from .interactions import Interactions
from .side_data import SideData

Column = tuple[Tensor, Tensor]

GROUP, POPULARITY = "group", "popularity"
STRATA = (GROUP, POPULARITY)
"""What users are told apart by: `Ranking(user_groups=...)`, or thirds by the popularity of what they like."""


@dataclass(frozen=True)
class Stratum:
    """The mean of a metric over the users of one group, and how many of them have a value."""

    mean: float
    users: int


def strata(column: Column, groups: Any) -> dict[int, Stratum]:
    """Average a metric over each group of users.

    Args:
        column: users and their values, as `per_user()` gives them.
        groups: (users,) int, the group of each user by number, as `Ranking(user_groups=...)`; -1 is in none.

    Returns:
        The strata of the groups that have a user with a value, by their number.

    Raises:
        MetricInputError: a user has no place among the groups.

    >>> found = strata((torch.tensor([0, 1, 3]), torch.tensor([1.0, 0.0, 0.5])), torch.tensor([0, 1, 1, 0]))
    >>> found[0]
    Stratum(mean=0.75, users=2)
    """
    users, values = column
    groups = torch.as_tensor(groups)
    if len(users) and not 0 <= int(users.min()) <= int(users.max()) < len(groups):
        raise MetricInputError(
            f"groups tell of users 0..{len(groups) - 1}, got users from {int(users.min())} "
            f"to {int(users.max())}"
        )
    own = groups[users]
    counted = ~values.isnan() & (own >= 0)
    own, values = own[counted], values[counted].double()
    return {
        group: Stratum(float(values[own == group].mean()), int((own == group).sum()))
        for group in own.unique().tolist()
    }


def groups_by_popularity(relevant: Any, item_popularity: Tensor, number: int = 3) -> Tensor:
    """Group users by how popular the items are that are relevant to them, for `strata`.

    Args:
        relevant: the relevant items of each user, in any form of `Interactions`.
        item_popularity: (items,) how often each item was interacted with.
        number: how many groups, of about as many users each; group 0 likes the least popular items.

    Returns:
        (users,) int64, -1 where nothing is relevant.
    """
    entries = Interactions.of(relevant, "relevant", len(item_popularity))
    return parted(entries.means(item_popularity), number)


def parted(means: Tensor, number: int = 3) -> Tensor:
    """Part users by a number of theirs, into groups of about as many each: (users,) int64, -1 for nan."""
    known = ~means.isnan()
    if not bool(known.any()):
        return torch.full((len(means),), -1)
    bounds = means[known].quantile(torch.arange(1, number, dtype=means.dtype) / number)
    return torch.bucketize(means, bounds, right=True).masked_fill(~known, -1)


def strata_of(metric: Metric, users: Tensor) -> dict[str, Column]:
    """The strata of the users whose values a metric keeps, by what they are told apart by; -1 is in none.

    Args:
        metric: of a ranking.
        users: (n,) their numbers.
    """
    found, output = {}, metric.output
    if isinstance(output, Ranking) and output.user_groups is not None:
        groups = SideData.of(output).user_groups
        known = (users >= 0) & (users < len(groups))
        found[GROUP] = (users, torch.where(known, groups[torch.where(known, users, 0)], -1))
    for facts in metric.kept.values():
        if isinstance(facts, UserFacts) and not facts.empty:
            told, means = facts.by_user()
            found[POPULARITY] = (told, parted(means))
    return found


_BY = "by "  # what the heading of a stratum begins with, in a CSV


@dataclass(frozen=True, eq=False)
class PerUser(Mapping[str, Column]):
    """Users and their values by the name of the metric; nan is a user who has no value.

    As CSV a row per user and a column per metric, whose place is empty where it has not met the user, and
    behind them `by group` and the like, the strata; as npz `names` and `strata`, and of the one at each
    place, metrics first, `values_0` and `users_0`, these only where they are new.

    Attributes:
        columns: of each metric, users (n,) int64, rising, and values (n,) float32.
        strata: under `group` (where the output has `user_groups`) and `popularity` (where it is known of
            items), users and the stratum of each, (n,) int64, -1 for none. Those by popularity are thirds of
            the users: 0 likes the least popular items. Of another split or task than the metrics' own,
            `test:group`.

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
        """Gather what metrics have kept.

        Raises:
            MetricInputError: none of them is one that keeps the value of each user.
        """
        kept = [(name, metric, column) for name, metric in metrics.items() for column in _kept_by(metric)]
        if not kept:
            raise MetricInputError(
                f"no value of a user is kept by {', '.join(metrics)}; say so in the output, "
                "Ranking(per_user=True), and name a metric that is a mean over users, such as ndcg@10"
            )
        _, first, (users, _) = kept[0]
        return cls({name: column for name, _, column in kept}, strata_of(first, users))

    @classmethod
    def joined(cls, tables: Iterable[PerUser]) -> Self:
        """Join tables of different names."""
        tables = list(tables)
        columns = {name: column for table in tables for name, column in table.items()}
        return cls(columns, {by: stratum for table in tables for by, stratum in table.strata.items()})

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read what `to_csv` or `to_npz` wrote."""
        return cls.read_npz(path) if Path(path).suffix == ".npz" else cls.read_csv(path)

    @classmethod
    def read_csv(cls, path: str | Path) -> Self:
        """Read what `to_csv` wrote."""
        with open(path, newline="", encoding="utf-8") as file:
            (_, *names), *rows = csv.reader(file)
        columns, strata = {}, {}
        for place, name in enumerate(names, 1):
            told = [(int(row[0]), float(row[place])) for row in rows if row[place]]
            users, values = zip(*told, strict=True) if told else ((), ())
            column = torch.tensor(users, dtype=torch.int64), torch.tensor(values)
            if name.startswith(_BY):
                strata[name.removeprefix(_BY)] = (column[0], column[1].long())
            else:
                columns[name] = column
        return cls(columns, strata)

    @classmethod
    def read_npz(cls, path: str | Path) -> Self:
        """Read what `to_npz` wrote."""
        columns = []
        with np.load(path, allow_pickle=False) as file:
            names, strata = file["names"].tolist(), file["strata"].tolist() if "strata" in file else []
            for place in range(len(names) + len(strata)):
                if f"users_{place}" in file:
                    users = torch.from_numpy(file[f"users_{place}"])
                columns.append((users, torch.from_numpy(file[f"values_{place}"])))
        told = ((users, numbers.long()) for users, numbers in columns[len(names) :])
        return cls(dict(zip(names, columns, strict=False)), dict(zip(strata, told, strict=True)))

    @property
    def cells(self) -> int:
        """How many values there are."""
        return sum(len(users) for users, _ in self.values())

    def met(self) -> Self:
        """Return the same without metrics that have met nobody."""
        return replace(self, columns={name: column for name, column in self.items() if len(column[0])})

    def without(self, names: Container[str]) -> Self:
        """Return the same without some metrics."""
        return replace(self, columns={name: column for name, column in self.items() if name not in names})

    def called(self, call: Callable[[str], str]) -> Self:
        """Return the same under other names, each of which a function gives for the old one."""
        columns, strata = ({call(n): c for n, c in some.items()} for some in (self.columns, self.strata))
        return replace(self, columns=columns, strata=strata)

    def strata_of(self, metric: str, by: str) -> dict[int, Tensor]:
        """The users of each stratum, for the split and task of a metric.

        Raises:
            MetricInputError: they are not told apart in this way.
        """
        name = str(replace(MetricName.parse(metric), metric=by, params=(), k=None))
        if name not in self.strata:
            raise MetricInputError(
                f"{metric}: no {name} of users is kept, of strata there are "
                f"{', '.join(self.strata) or 'none'}; "
                "give Ranking(user_groups=...) for group, item_popularity= or seen= for popularity"
            )
        users, strata = self.strata[name]
        return {stratum: users[strata == stratum] for stratum in sorted(set(strata.tolist()) - {-1})}

    def csv_text(self) -> str:
        """What `to_csv` writes; a value has as many digits as its float32 needs."""
        cells = {
            name: dict(zip(u.tolist(), map(str, v.numpy()), strict=True))
            for name, (u, v) in (*self.items(), *((_BY + by, told) for by, told in self.strata.items()))
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
        names = {"names": list(self), "strata": list(self.strata)}
        arrays = {name: np.array(told, dtype=np.str_) for name, told in names.items()}
        before: Tensor | None = None
        small = ((users, _small(numbers)) for users, numbers in self.strata.values())
        for place, (users, values) in enumerate((*self.values(), *small)):
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


def _small(numbers: Tensor) -> Tensor:
    """The same in the smallest type that holds them."""
    kinds, most = (torch.int8, torch.int16, torch.int32), int(numbers.max()) if len(numbers) else 0
    return numbers.to(next((kind for kind in kinds if most <= torch.iinfo(kind).max), torch.int64))


def _column(statistic: UserValues, cutoff: int | None) -> Column:
    if statistic.empty:
        return torch.empty(0, dtype=torch.int64), torch.empty(0)
    users, values = statistic.by_user(cutoff)
    return users.cpu(), values.cpu()
