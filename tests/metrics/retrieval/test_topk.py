from __future__ import annotations

import pytest
import torch

from hpometrics.metrics.retrieval.topk import top_k


def sorted_fully(scores, k):
    """The first k of a stable full sort, -inf and -1 behind what is ranked."""
    values, columns = scores.sort(dim=1, descending=True, stable=True)
    columns = columns.masked_fill(values == -torch.inf, -1)
    short = (0, max(0, k - scores.shape[1]))
    values = torch.nn.functional.pad(values, short, value=-torch.inf)
    return values[:, :k], torch.nn.functional.pad(columns, short, value=-1)[:, :k]


def agrees(scores, k):
    """Whether values and columns are those of the full sort."""
    found, wanted = top_k(scores, k), sorted_fully(scores, k)
    return all(torch.equal(own, other) for own, other in zip(found, wanted, strict=True))


def masked(scores):
    """The same with -inf here and there."""
    return scores.masked_fill(torch.rand_like(scores) < 0.4, -torch.inf)


SCORES = {
    "random": lambda: torch.randn(40, 900),
    "tied": lambda: torch.randn(40, 900).round(),
    "all equal": lambda: torch.zeros(7, 900),
    "some rows equal": lambda: torch.cat([torch.zeros(5, 900), torch.randn(35, 900)]),
    "masked": lambda: masked(torch.randn(40, 900)),
    "masked and tied": lambda: masked(torch.randn(40, 900).round()),
    "nearly all masked": lambda: torch.randn(40, 900).masked_fill(torch.arange(900) > 3, -torch.inf),
    "nothing to rank": lambda: torch.full((3, 900), -torch.inf),
    "of both zeros": lambda: torch.where(torch.rand(9, 900) < 0.5, 0.0, -0.0),
    "falling": lambda: -torch.arange(2700.0).view(3, 900),
    "extreme": lambda: torch.randn(9, 900).sign() * torch.finfo(torch.float32).max,
    "denormal": lambda: torch.randn(9, 900) * 1e-42,
    "wide": lambda: torch.randn(3, 50_001),
    "tiny": lambda: torch.randn(5, 3),
    "one column": lambda: torch.randn(5, 1),
    "no rows": lambda: torch.randn(0, 900),
    "no columns": lambda: torch.randn(4, 0),
    "float64": lambda: torch.randn(9, 300, dtype=torch.float64),
    "transposed": lambda: torch.randn(900, 40).T,
    "every other column": lambda: torch.randn(9, 900)[:, ::2],
}


@pytest.mark.parametrize("k", [1, 10, 50, 1000])
@pytest.mark.parametrize("case", SCORES)
def test_a_list_is_the_head_of_a_stable_full_sort(case, k):
    """The largest first, equal scores in the order of their columns, nothing where there is no item."""
    torch.manual_seed(0)
    assert agrees(SCORES[case](), k)


@pytest.mark.parametrize("seed", range(20))
def test_any_shape(seed):
    """Rows, columns, k and the share of ties at random."""
    random = torch.Generator().manual_seed(seed)
    rows, width, k = (int(torch.randint(1, most, (1,), generator=random)) for most in (40, 1500, 70))
    scores = torch.randn(rows, width, generator=random)
    assert agrees((scores * 2**seed).round() / 2**seed, k)


@pytest.mark.parametrize("k", [1, 2, 5, 12])
def test_any_width(k):
    """However many columns remain beside groups of equal size, in rows with few groups too."""
    random = torch.Generator().manual_seed(k)
    assert all(agrees(torch.randn(3, width, generator=random), k) for width in range(1, 300))


def test_half_precision_is_ranked_as_it_is():
    """Many scores are equal in half precision; they rank by column."""
    torch.manual_seed(0)
    assert agrees(torch.randn(9, 2000).half(), 50)


def test_a_list_does_not_depend_on_the_other_rows():
    """Row by row gives what all rows at once give, however many candidates a neighbor has."""
    torch.manual_seed(0)
    scores = torch.cat([torch.zeros(2, 800), torch.randn(20, 800), torch.randn(20, 800).round()])
    alone = torch.cat([top_k(row.unsqueeze(0), 20)[1] for row in scores])
    assert torch.equal(top_k(scores, 20)[1], alone)


def test_scores_are_left_as_they_are():
    """They may be the caller's own."""
    scores = torch.randn(9, 900)
    before = scores.clone()
    top_k(scores, 50)
    assert torch.equal(scores, before)


@pytest.mark.parametrize("width", range(1, 18))
def test_the_last_flags_are_read(width):
    """Flags are read eight at a time: of so many scores of three rows, the last ones fill no word."""
    scores = torch.arange(3.0 * width).view(3, width)
    assert agrees(scores, width)


@pytest.mark.parametrize("k", [1, 50])
def test_extremes_are_read_from_their_keys(k):
    """A list is made of integer keys alone: the largest, smallest and least scores come back exact."""
    numbers = torch.finfo(torch.float32)
    extremes = torch.tensor([numbers.max, numbers.min, numbers.tiny, -numbers.tiny, 1e-45, -1e-45, 0.0])
    assert agrees(torch.cat([extremes, torch.full((993,), -torch.inf)])[torch.randperm(1000)].view(1, -1), k)
