"""Running jobs in order of their planned ends: rows END, JOB and HELD (processors) of one array."""

from pipeline.core.arrays import Ints
from pipeline.evaluate.replay.compiled import kernel

END, JOB, HELD = 0, 1, 2


@kernel
def insert(ends: Ints, n: int, end: int, job: int, held: int) -> None:
    """Adds a job to the first n columns, after those with the same end."""
    place = n
    while place > 0 and ends[END, place - 1] > end:
        for row in range(3):
            ends[row, place] = ends[row, place - 1]
        place -= 1
    ends[END, place] = end
    ends[JOB, place] = job
    ends[HELD, place] = held


@kernel
def remove(ends: Ints, n: int, end: int, job: int) -> None:
    """Removes a job with this end from the first n columns."""
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        if ends[END, middle] < end:
            low = middle + 1
        else:
            high = middle
    while ends[JOB, low] != job:
        low += 1
    for place in range(low, n - 1):
        for row in range(3):
            ends[row, place] = ends[row, place + 1]


@kernel
def freed_by(ends: Ints, n: int, time: int) -> int:
    """The processors of the jobs whose planned end is not after a time."""
    found, place = 0, 0
    while place < n and ends[END, place] <= time:
        found += ends[HELD, place]
        place += 1
    return found
