"""Settles the local times that came twice when clocks went back by how far apart two of them must be."""

from typing import Protocol

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints


class Readings(Protocol):
    """Local times as UTC seconds, first readings; repeat_s: after how long (s) the same time came again, else 0."""

    @property
    def values(self) -> Ints:
        """UTC epoch seconds; anything where missing."""

    @property
    def missing(self) -> Bools:
        """Where there is no time."""

    @property
    def repeat_s(self) -> Ints:
        """Seconds until the same local time came again; 0: it did not."""


def settled(start: Readings, end: Readings, span_s: Floats, tolerance_s: float) -> tuple[Ints, Ints, Bools]:
    """Starts and ends (UTC seconds), and which rows could be settled.

    A row is settled where exactly one reading of its start and end is `span_s` apart, within the tolerance. The others
    stay first readings. NaN in `span_s` settles nothing.
    """
    start_s, end_s = start.values, end.values
    is_settled = np.zeros(len(start_s), np.bool_)
    rows = np.flatnonzero((start.repeat_s > 0) | (end.repeat_s > 0))
    if not len(rows):
        return start_s, end_s, is_settled
    n_fitting = np.zeros(len(rows), np.int64)
    found_s = np.stack([start_s[rows], end_s[rows]])
    is_unknown = (start.missing | end.missing)[rows]
    for start_again, end_again in ((0, 0), (0, 1), (1, 0), (1, 1)):
        of_start, of_end = start_again * start.repeat_s[rows], end_again * end.repeat_s[rows]
        is_new = (of_start > 0) >= bool(start_again)
        is_new &= (of_end > 0) >= bool(end_again)
        first_s, last_s = start_s[rows] + of_start, end_s[rows] + of_end
        fits = is_new & (np.abs(seconds_between(first_s, last_s, is_unknown) - span_s[rows]) <= tolerance_s)
        n_fitting += fits
        found_s = np.where(fits, np.stack([first_s, last_s]), found_s)
    chosen = rows[n_fitting == 1]
    is_settled[chosen] = True
    start_s, end_s = start_s.copy(), end_s.copy()
    start_s[chosen], end_s[chosen] = found_s[:, n_fitting == 1]
    return start_s, end_s, is_settled


def seconds_between(start_s: Ints, end_s: Ints, is_unknown: Bools) -> Floats:
    """Seconds from start to end, NaN where either is unknown."""
    return np.where(is_unknown, np.nan, (end_s - start_s).astype(np.float64))
