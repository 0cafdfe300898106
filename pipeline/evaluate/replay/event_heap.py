"""A binary heap of whole numbers: the ends of running jobs, the earliest first."""

from pipeline.core.arrays import Ints
from pipeline.evaluate.replay.compiled import kernel

NEVER = 2**62
"""A time in s after every event."""


@kernel
def push(heap: Ints, n: int, key: int) -> None:
    """Adds a key to the first n places of the heap."""
    place = n
    while place > 0 and heap[(place - 1) >> 1] > key:
        heap[place] = heap[(place - 1) >> 1]
        place = (place - 1) >> 1
    heap[place] = key


@kernel
def pop(heap: Ints, n: int) -> int:
    """Removes the least of the first n keys, and returns it."""
    least = heap[0]
    last = heap[n - 1]
    place = 0
    while 2 * place + 1 < n - 1:
        child = 2 * place + 1
        if child + 1 < n - 1 and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= last:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = last
    return int(least)
