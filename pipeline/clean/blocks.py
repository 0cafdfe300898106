"""Where a long log is cut into blocks that are cleaned one by one, and how what is known of them is put together.

A block ends in the longest gap between submits near a multiple of the wanted number of jobs, so that few bursts are
cut. New jobs at the end of the log do not move the ends of earlier blocks.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from pipeline.core.arrays import floats
from pipeline.core.report import Fact
from pipeline.core.stored_table import LargeTable, columns_of

NEAR_SHARE = 0.05
"""Share of a block's jobs among which the longest gap is looked for."""

_LARGEST = frozenset({"smallest_burst_jobs", "busy_procs_peak", "peak_over_size", "over_size_share"})
"""Facts of blocks of which the largest one is that of the log; other numbers are summed, of texts the newest stays."""


def blocks_of(jobs: LargeTable, block_jobs: int) -> Iterator[tuple[int, int]]:
    """The first row of each block and the row after its last one, for JOBS in order of submit.

    A block has about half of `block_jobs` to one and a half times as many; jobs of the same second are not parted.
    """
    wanted = range(block_jobs, jobs.num_rows - block_jobs // 2 + 1, block_jobs)
    cuts = [_cut(jobs, row, block_jobs) for row in wanted]
    return pairwise([0, *cuts, jobs.num_rows])


def _cut(jobs: LargeTable, wanted: int, block_jobs: int) -> int:
    """The row from `wanted` on that the longest gap precedes; where all are submitted at once, the row after them."""
    near = max(int(NEAR_SHARE * block_jobs), 1)
    for first in range(wanted, jobs.num_rows, near):
        submit_s = floats(columns_of(jobs, ["submit_s"], first - 1, min(first + near, jobs.num_rows)), "submit_s")
        gaps_s = np.nan_to_num(np.diff(submit_s))
        if gaps_s.max() > 0:
            return first + int(gaps_s.argmax())
    return int(jobs.num_rows)


def joined_facts(parts: Sequence[Mapping[str, Fact]]) -> dict[str, Fact]:
    """The facts of a log from those of its blocks, oldest first."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: _joined(name, [part[name] for part in parts if name in part]) for name in names}


def _joined(name: str, values: Sequence[Fact]) -> Fact:
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(numbers) < len(values):
        return values[-1]
    return max(numbers) if name in _LARGEST else sum(numbers)
