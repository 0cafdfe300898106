"""Pairs the j-th item of one list with the j-th of another that has the same key, in order."""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def packed(*columns: Ints) -> Ints:
    """One number per row, equal where all columns are equal; columns may be negative."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes = _small(column)
        key = key * (int(codes.max(initial=0)) + 1) + codes
        if key.size and int(key.max()) > 2**40:
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
    return key


def _small(column: Ints) -> Ints:
    least = int(column.min(initial=0))
    if int(column.max(initial=0)) - least < 2**22:
        return column - least
    return np.unique(column, return_inverse=True)[1].astype(np.int64)


def pair_in_order(keys: Ints, others: Ints) -> Ints:
    """Per row of `keys` the row of `others` that is its pair: the j-th of a key with the j-th; -1: none."""
    order, other_order = np.argsort(keys, kind="stable"), np.argsort(others, kind="stable")
    ordered, other_ordered = keys[order], others[other_order]
    rank_in_key = np.arange(len(keys)) - np.searchsorted(ordered, ordered, "left")
    place = np.searchsorted(other_ordered, ordered, "left") + rank_in_key
    is_pair = place < np.searchsorted(other_ordered, ordered, "right")
    found = np.full(len(keys), -1, np.int64)
    found[order[is_pair]] = other_order[place[is_pair]]
    return found
