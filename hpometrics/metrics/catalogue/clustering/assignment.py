"""Assignment: rows to columns, one to one, so that the sum of the chosen cells is as large as can be."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


def best_assignment(profit: Floats) -> tuple[Places, Places]:
    """Choose cells of the largest sum, no two in a row or column, as many as the shorter side has.

    Source: shortest augmenting paths, Jonker & Volgenant 1987, Computing 38; cubic in the number of groups.

    >>> rows, columns = best_assignment(np.array([[5.0, 4.0], [4.0, 0.0]]))
    >>> rows.tolist(), columns.tolist()
    ([1, 0], [0, 1])
    """
    if profit.shape[0] > profit.shape[1]:
        columns, rows = best_assignment(profit.T)
        return rows, columns
    cost = profit.max() - profit
    taken_by = np.full(cost.shape[1], -1)
    row_price, column_price = np.zeros(cost.shape[0]), np.zeros(cost.shape[1])
    for row in range(len(cost)):
        _give_a_column(row, cost, row_price, column_price, taken_by)
    columns = np.flatnonzero(taken_by >= 0)
    return taken_by[columns], columns


def _give_a_column(row: int, cost: Floats, row_price: Floats, column_price: Floats, taken_by: Any) -> None:
    """Find the cheapest chain of swaps that frees a column for a row, and swap."""
    shortest = np.full(len(taken_by), np.inf)
    came_from = np.full(len(taken_by), -1)
    done = np.zeros(len(taken_by), dtype=bool)
    length, current = 0.0, row
    while True:
        paths = length + cost[current] - row_price[current] - column_price
        shorter = ~done & (paths < shortest)
        shortest[shorter], came_from[shorter] = paths[shorter], current
        column = int(np.where(done, np.inf, shortest).argmin())
        length = shortest[column]
        done[column] = True
        if taken_by[column] < 0:
            break
        current = int(taken_by[column])
    row_price[row] += length
    settled = done & (taken_by >= 0)
    row_price[taken_by[settled]] += length - shortest[settled]
    column_price[settled] -= length - shortest[settled]
    while True:
        current = int(came_from[column])
        freed = np.flatnonzero(taken_by == current)
        taken_by[column] = current
        if current == row:
            break
        column = int(freed[0])
