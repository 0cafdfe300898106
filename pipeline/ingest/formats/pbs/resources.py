"""Compiled loops over PBS's ways to write resources: where a job ran, what it asked for, sizes in bytes or words.

Source: PBS Professional 2024.1 Reference Guide, formats of exec_host, exec_vnode, select and size; TORQUE 6.1
Administrator Guide, "Requesting resources" (nodes, ppn, gpus) and pbs_resources(7) (size).
"""

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Floats, Ints
from pipeline.ingest.spans.kernels import INVALID, NULL, OK, Bytes, number
from pipeline.kernels import cached

Hashes = npt.NDArray[np.uint64]
_MOST = 1_000_000_000
"""No count of processors is larger; what is larger is no count."""


@cached
def new_table(n_bytes: int) -> tuple[Hashes, Ints]:
    """An empty table for the hosts of a value of so many bytes: their hashes, and the stamp of who put each there."""
    size = 1024
    while size < n_bytes:
        size *= 2
    return np.zeros(size, np.uint64), np.full(size, -1, np.int64)


@cached
def parse_hosts(
    data: Bytes,
    start: Ints,
    end: Ints,
    first: int,
    seen: Hashes,
    stamp: Ints,
    procs: Ints,
    nodes: Ints,
    kinds: Bytes,
) -> None:
    """Processors and distinct hosts of exec_host values; NULL, OK or INVALID of each.

    `n1/0*4` is 4 processors, `n1/0-3` 4, `n1/0,2-3` 3, `n1/7` and `n1` 1; `+` joins them. first: the first row's stamp
    in a table that is as long as the longest value.
    """
    for row in range(start.size):
        at, stop = start[row], end[row]
        if at >= stop:
            kinds[row] = NULL
            continue
        kinds[row] = OK
        n_procs, n_nodes, before = 0, 0, np.uint64(0)
        while at < stop:
            name, mixed = at, np.uint64(14695981039346656037)
            while at < stop and data[at] != 43 and data[at] != 47:
                mixed = (mixed ^ np.uint64(data[at])) * np.uint64(1099511628211)
                at += 1
            if at == name:
                kinds[row] = INVALID
            if mixed != before:
                n_nodes += _is_new(mixed, first + row, seen, stamp)
            before = mixed
            n = 1
            if at < stop and data[at] == 47:
                n, at = _indices(data, at + 1, stop)
            if n < 0 or (at < stop and data[at] != 43):
                kinds[row] = INVALID
                break
            n_procs = min(n_procs + n, _MOST)
            at += 1
        procs[row], nodes[row] = n_procs, n_nodes


@cached
def _is_new(mixed: np.uint64, own: int, seen: Hashes, stamp: Ints) -> bool:
    """Whether this row has not shown the hash before; stamps say whose a slot is, so that no row clears the table."""
    slot = np.int64((mixed ^ (mixed >> np.uint64(29))) & np.uint64(seen.size - 1))
    while stamp[slot] == own:
        if seen[slot] == mixed:
            return False
        slot = (slot + 1) % seen.size
    seen[slot], stamp[slot] = mixed, own
    return True


@cached
def _indices(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """How many processors `0`, `0*4`, `0-3` or `0,2-3` are, -1 where it is none of them; the place after it."""
    total = 0
    while True:
        first, n_digits, at = _count(data, at, stop)
        n = 1
        if at < stop and data[at] == 42:
            n, more, at = _count(data, at + 1, stop)
            n_digits = min(n_digits, more)
        elif at < stop and data[at] == 45:
            last, more, at = _count(data, at + 1, stop)
            n = last - first + 1
            n_digits = min(n_digits, more)
        if n_digits == 0 or n < 0:
            return -1, at
        total = min(total + n, _MOST)
        if at >= stop or data[at] != 44:
            return total, at
        at += 1


@cached
def _count(data: Bytes, at: int, stop: int) -> tuple[int, int, int]:
    """A number (0 where it is larger than any count), its digits, the place after it."""
    value, n = 0, 0
    while at < stop and 48 <= data[at] <= 57:
        value = min(value * 10 + (data[at] - 48), _MOST + 1)
        n += 1
        at += 1
    return (value, n, at) if value <= _MOST else (0, 0, at)


@cached
def parse_chunks(
    data: Bytes, start: Ints, end: Ints, is_vnode: bool, procs: Ints, gpus: Ints, count: Ints, kinds: Bytes
) -> None:
    """Processors, GPUs and chunks of select, nodes or exec_vnode values; NULL, OK or INVALID of each.

    `2:ncpus=16+1:ncpus=4` is 36 processors in 3 chunks, `2:ppn=4:gpus=1+host:ppn=2` 10 with 2 GPUs; a chunk without a
    number is 1, and without ncpus or ppn 1 processor. With is_vnode a chunk starts with a name, and has as many
    processors as it says, or none; INVALID where no chunk says.
    """
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
        procs[row], gpus[row], count[row] = n_procs, n_gpus, n_chunks


@cached
def _chunk(data: Bytes, at: int, stop: int, is_vnode: bool) -> tuple[int, int, int, int]:
    """How often it is asked for (-1: it is no chunk), its processors (-1: it does not say), GPUs, the place after."""
    n, cpus, cards, is_first = 1, -1, 0, True
    while at < stop and data[at] != 43 and data[at] != 41:
        low, equals = at, -1
        while at < stop and data[at] != 58 and data[at] != 43 and data[at] != 41:
            if data[at] == 61 and equals < 0:
                equals = at
            at += 1
        what = _resource(data, low, equals) if equals >= 0 else 0
        if what or (is_first and equals < 0 and not is_vnode):
            value, n_digits, after = _count(data, max(low, equals + 1), at)
            is_number = n_digits > 0 and (after == at or data[after] == 35)
            if what and not is_number:
                return -1, 0, 0, at
            if what == 1:
                cpus = value
            elif what == 2:
                cards = value
            elif is_number:
                n = value
        is_first = False
        if at < stop and data[at] == 58:
            at += 1
    return n, cpus, cards, at


@cached
def _resource(data: Bytes, low: int, high: int) -> int:
    """1: processors (ncpus, ppn); 2: GPUs (ngpus, gpus, gpu); 0: anything else."""
    size = high - low
    if size == 3 and data[low] == 112 and data[low + 1] == 112 and data[low + 2] == 110:
        return 1
    if size == 3 and data[low] == 103 and data[low + 1] == 112 and data[low + 2] == 117:
        return 2
    if size != 5 and size != 4:  # noqa: PLR1714
        return 0
    if size == 5 and data[low] != 110:
        return 0
    word = low if size == 4 else low + 1
    is_gpu = data[word] == 103 and data[word + 1] == 112 and data[word + 2] == 117 and data[word + 3] == 115
    is_cpu = data[word] == 99 and data[word + 1] == 112 and data[word + 2] == 117 and data[word + 3] == 115
    return 2 if is_gpu else (1 if is_cpu and size == 5 else 0)


@cached
def parse_sizes(data: Bytes, start: Ints, end: Ints, values: Floats, kinds: Bytes) -> None:
    """KiB of sizes; NULL, OK or INVALID of each: 4gb, 512mb, 1024 (bytes), 2kw (words of 8 bytes)."""
    for row in range(start.size):
        at, stop = start[row], end[row]
        if at >= stop:
            kinds[row] = NULL
            continue
        kinds[row] = INVALID
        value, at = number(data, at, stop)
        unit = 1.0 / 1024.0
        if at < stop:
            size = 1.0
            for letter in (107, 109, 103, 116, 112):
                if data[at] | 32 == letter:
                    unit = size
                    at += 1
                    break
                size *= 1024.0
        if at < stop and (data[at] | 32) == 119:
            unit *= 8.0
            at += 1
        elif at < stop and (data[at] | 32) == 98:
            at += 1
        if at == stop and not np.isnan(value):
            values[row], kinds[row] = value * unit, OK
