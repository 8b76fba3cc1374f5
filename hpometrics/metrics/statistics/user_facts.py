"""User facts: a number of each user that tells users apart, kept beside their values."""

from __future__ import annotations

import torch
from torch import Tensor

from ..batch import Outputs
from ..features import OutputFeature, Ranking
from .cutoffs import rankings_in
from .kept import Kept, Taken


class UserFacts(Kept):
    """A number of each row in float32, nan where there is none, beside its user, whatever rows weigh."""

    weighted = True

    def by_user(self) -> tuple[Tensor, Tensor]:
        """Users (n,) int64, rising, and the mean of the numbers of their rows (n,) float32, on the host."""
        rows = {name: value.cpu() for name, value in self.tensors.items()}
        users, place = torch.unique(rows["users"], return_inverse=True)
        known = ~rows["facts"].isnan()
        none = torch.zeros(len(users), dtype=torch.float64)
        total = none.index_add(0, place[known], rows["facts"][known].double())
        return users, (total / none.index_add(0, place, known.double())).float()


def popularity_of_users(output: OutputFeature) -> dict[str, UserFacts]:
    """What tells users apart by how popular what they like is: nothing, if that is not known of items."""
    if not isinstance(output, Ranking) or not output.per_user:
        return {}
    if output.item_popularity is None and output.seen is None:
        return {}
    return {"popularity": UserFacts("popularity of what is relevant to users", _popularity)}


def _popularity(batch: Outputs) -> Taken:
    ranked = rankings_in(batch)
    means = torch.full((len(ranked),), torch.nan, device=ranked.target.device)
    if ranked.numbered:
        means = ranked.relevant_items.means(ranked.side.item_popularity).float()
    users = ranked.users.clone()  # type: ignore[union-attr]  # checked where values are kept
    return {"users": users, "facts": means}
