"""PBS's ways to write resources: where a job ran, what it asked for, sizes in bytes or words.

Source: PBS Professional 2024.1 Reference Guide, formats of exec_host, exec_vnode, select and size; TORQUE 6.1
Administrator Guide, "Requesting resources" (nodes, ppn, gpus) and pbs_resources(7) (size). These texts
are long, so a function takes spans of the buffer that they stand in, and gives one value a span.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Floats, Ints
from pipeline.ingest.values import Bytes, Typed
from pipeline.kernels import called_kernel, uncounted_kernel

NULL, OK, INVALID = 0, 1, 2
_MOST = 1_000_000_000
"""No count of processors is larger; what is larger is no count."""

_LEAST_SLOTS = 1024
_NCPUS, _PPN = (int.from_bytes(name, "big") for name in (b"ncpus", b"ppn"))
_NGPUS, _GPUS, _GPU = (int.from_bytes(name, "big") for name in (b"ngpus", b"gpus", b"gpu"))
_LONGEST_NAME = 5


@dataclass(frozen=True, slots=True)
class Counts(Typed):
    """Processors; nodes: hosts, virtual nodes or chunks; gpus: GPUs, 0 where the text has none."""

    nodes: Ints
    gpus: Ints

    def nodes_told(self) -> Floats:
        """The number of nodes, NaN where it is unknown."""
        return np.where(self.missing, np.nan, self.nodes)

    def gpus_told(self) -> Floats:
        """The number of GPUs; NaN where there is none."""
        return np.where(self.missing | (self.gpus <= 0), np.nan, self.gpus)


def hosts(data: Bytes, start: Ints, end: Ints) -> Counts:
    """Processors and distinct hosts: `n1/0*4` is 4 processors, `n1/0-3` 4, `n1/0,2-3` 3, `n1/7` and `n1` 1; + joins."""
    counts, kinds = np.zeros((3, len(start)), np.int64), np.empty(len(start), np.uint8)
    longest = int((end - start).max(initial=0))
    n_slots = max(_LEAST_SLOTS, 1 << longest.bit_length())
    seen, stamp = np.zeros(n_slots, np.uint64), np.full(n_slots, -1, np.int64)
    _hosts(data, start, end, seen, stamp, counts, kinds)
    return _counted(counts, kinds)


def chunks(data: Bytes, start: Ints, end: Ints) -> Counts:
    """Processors, chunks and GPUs of select and nodes.

    `2:ncpus=16+1:ncpus=4` is 36 processors in 3 chunks, `2:ppn=4:gpus=1+host:ppn=2` 10 with 2 GPUs; a chunk without a
    number is 1, and without ncpus or ppn 1 processor.
    """
    return _chunked(data, start, end, False)


def vnodes(data: Bytes, start: Ints, end: Ints) -> Counts:
    """The same of exec_vnode, where a chunk starts with a name, and has as many processors as it says, or none.

    Invalid where no chunk says.
    """
    return _chunked(data, start, end, True)


def _chunked(data: Bytes, start: Ints, end: Ints, is_vnode: bool) -> Counts:
    counts, kinds = np.zeros((3, len(start)), np.int64), np.empty(len(start), np.uint8)
    _chunks(data, start, end, is_vnode, counts, kinds)
    return _counted(counts, kinds)


def _counted(counts: Ints, kinds: Bytes) -> Counts:
    procs, nodes, gpus = counts
    return Counts(procs, kinds != OK, kinds == INVALID, nodes, gpus)


@uncounted_kernel
def _hosts(
    data: Bytes, start: Ints, end: Ints, seen: npt.NDArray[np.uint64], stamp: Ints, counts: Ints, kinds: Bytes
) -> None:
    """Processors and distinct hosts of each span; seen, stamp: as many slots as the longest span has bytes, or more."""
    for row in range(start.size):
        at, stop = start[row], end[row]
        kinds[row] = OK if at < stop else NULL
        n_procs, n_nodes, before = 0, 0, np.uint64(0)
        while at < stop:
            name, mixed = at, np.uint64(14695981039346656037)
            while at < stop and data[at] != 43 and data[at] != 47:
                mixed = (mixed ^ np.uint64(data[at])) * np.uint64(1099511628211)
                at += 1
            if at == name:
                kinds[row] = INVALID
            if mixed != before:
                n_nodes += _is_new(mixed, row, seen, stamp)
            before = mixed
            n = 1
            if at < stop and data[at] == 47:
                n, at = _indices(data, at + 1, stop)
            if n < 0 or (at < stop and data[at] != 43):
                kinds[row] = INVALID
                break
            n_procs = min(n_procs + n, _MOST)
            at += 1
        counts[0, row], counts[1, row] = n_procs, n_nodes


@called_kernel
def _is_new(mixed: np.uint64, own: int, seen: npt.NDArray[np.uint64], stamp: Ints) -> bool:
    """Whether this row has not shown the hash before; stamps say whose a slot is, so that no row clears the table."""
    slot = np.int64((mixed ^ (mixed >> np.uint64(29))) & np.uint64(seen.size - 1))
    while stamp[slot] == own:
        if seen[slot] == mixed:
            return False
        slot = (slot + 1) % seen.size
    seen[slot], stamp[slot] = mixed, own
    return True


@called_kernel
def _indices(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """How many processors `0`, `0*4`, `0-3` or `0,2-3` are, -1 where it is none of them; the place after it."""
    total = 0
    while True:
        first, n_digits, at = _count(data, at, stop)
        n = 1
        if at < stop and (data[at] == 42 or data[at] == 45):
            mark = data[at]
            last, more, at = _count(data, at + 1, stop)
            n = last if mark == 42 else last - first + 1
            n_digits = min(n_digits, more)
        if n_digits == 0 or n < 0:
            return -1, at
        total = min(total + n, _MOST)
        if at >= stop or data[at] != 44:
            return total, at
        at += 1


@called_kernel
def _count(data: Bytes, at: int, stop: int) -> tuple[int, int, int]:
    """A number (0 where it is larger than any count), its digits, the place after it."""
    value, n = 0, 0
    while at < stop and 48 <= data[at] <= 57:
        value = min(value * 10 + (data[at] - 48), _MOST + 1)
        n += 1
        at += 1
    return (value, n, at) if value <= _MOST else (0, 0, at)


@uncounted_kernel
def _chunks(data: Bytes, start: Ints, end: Ints, is_vnode: bool, counts: Ints, kinds: Bytes) -> None:
    """Processors, chunks and GPUs of each span."""
    for row in range(start.size):
        at, stop = start[row], end[row]
        if at >= stop:
            kinds[row] = NULL
            continue
        kinds[row] = OK
        n_procs, n_gpus, n_chunks, has_cpus = 0, 0, 0, False
        while at < stop:
            while at < stop and (data[at] == 43 or data[at] == 40 or data[at] == 41):
                at += 1
            if at >= stop:
                break
            n, cpus, cards, at = _chunk(data, at, stop, is_vnode)
            if n < 0:
                kinds[row] = INVALID
                break
            has_cpus = has_cpus or cpus >= 0
            per_chunk = cpus if cpus >= 0 else (0 if is_vnode else 1)
            n_procs = min(n_procs + n * per_chunk, _MOST)
            n_gpus = min(n_gpus + n * cards, _MOST)
            n_chunks = min(n_chunks + n, _MOST)
        if n_chunks == 0 or (is_vnode and not has_cpus):
            kinds[row] = INVALID
        counts[0, row], counts[1, row], counts[2, row] = n_procs, n_chunks, n_gpus


@called_kernel
def _chunk(data: Bytes, at: int, stop: int, is_vnode: bool) -> tuple[int, int, int, int]:
    """How often it is asked for (-1: it is no chunk), its processors (-1: it does not say), GPUs, the place after."""
    n, cpus, cards, is_first = 1, -1, 0, True
    while at < stop and data[at] != 43 and data[at] != 41:
        low, equals = at, -1
        while at < stop and data[at] != 58 and data[at] != 43 and data[at] != 41:
            if data[at] == 61 and equals < 0:
                equals = at
            at += 1
        name = _name(data, low, equals)
        is_cpus, is_gpus = name in (_NCPUS, _PPN), name in (_NGPUS, _GPUS, _GPU)
        if is_cpus or is_gpus or (is_first and equals < 0 and not is_vnode):
            value, n_digits, after = _count(data, max(low, equals + 1), at)
            is_number = n_digits > 0 and (after == at or data[after] == 35)
            if (is_cpus or is_gpus) and not is_number:
                return -1, 0, 0, at
            if is_cpus:
                cpus = value
            elif is_gpus:
                cards = value
            elif is_number:
                n = value
        is_first = False
        if at < stop and data[at] == 58:
            at += 1
    return n, cpus, cards, at


@called_kernel
def _name(data: Bytes, low: int, high: int) -> int:
    """A resource's name as a number, its last byte in the lowest bits; 0 where it is longer than those read."""
    name = 0
    if high - low <= _LONGEST_NAME:
        for k in range(low, high):
            name = name * 256 + data[k]
    return name
