"""The keys of a PBS accounting record that are read, and a hash table a compiled loop finds them with.

Source: PBS Professional 2024.1 Administrator's Guide, 12.4 "Types of Accounting Log Records"; TORQUE 6.1
Administrator Guide, "Accounting records". Every other key ends the value before it and is left alone.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Bools, Ints
from pipeline.ingest.compiled import kernel
from pipeline.ingest.spans import as_bytes
from pipeline.ingest.spans.kernels import Bytes, Codes

KEYS = (
    "user", "group", "account", "project", "jobname", "queue", "ctime", "qtime", "etime", "start", "end", "exec_host",
    "exec_vnode", "exec_gpus", "Exit_status", "run_count", "owner", "session", "resource_assigned.ncpus",
    "Resource_List.ncpus", "Resource_List.nodect", "Resource_List.nodes", "Resource_List.procs", "Resource_List.select",
    "Resource_List.walltime", "Resource_List.mem", "Resource_List.pmem", "Resource_List.pvmem", "Resource_List.vmem",
    "Resource_List.ngpus", "resources_used.walltime", "resources_used.cput", "resources_used.mem",
    # not read, but met often, or after a text that may hold blanks
    "array_indices", "depend", "eligible_time", "Resource_List.place", "Resource_List.neednodes",
    "Resource_List.mpiprocs", "resource_assigned.mem", "resources_used.cpupercent", "resources_used.ncpus",
    "resources_used.vmem",
)  # fmt: skip

FREE_TEXT = ("account", "project", "jobname")
"""Values people choose: they may hold blanks, quotes and `=`, which PBS writes as they are."""

BEFORE_FREE_TEXT = ("user", "group", *FREE_TEXT)
"""Written before a free text can end, so the first of each is PBS's own; of the other keys the last is."""

INTEGERS = (
    "ctime", "etime", "start", "end", "Exit_status", "resource_assigned.ncpus", "Resource_List.ncpus",
    "Resource_List.nodect", "Resource_List.procs", "Resource_List.ngpus",
)  # fmt: skip
DURATIONS = ("Resource_List.walltime", "resources_used.walltime", "resources_used.cput")
SIZES = (
    "Resource_List.mem", "Resource_List.pmem", "Resource_List.vmem", "Resource_List.pvmem", "resources_used.mem",
)  # fmt: skip
HOSTS = ("exec_host", "exec_gpus")
CHUNKS = ("Resource_List.select", "Resource_List.nodes")
VNODES = ("exec_vnode",)

PLACE: Mapping[str, int] = {key: place for place, key in enumerate(KEYS)}
TABLE_SIZE = 256


def _slot(size: int, first: int, last: int, middle: int, late: int) -> int:
    """Where in the table a key is looked for first, by its length and four of its bytes, as ints."""
    return int(5 * size + 7 * first + 31 * last + 97 * middle + 139 * late) % TABLE_SIZE


key_slot = kernel(_slot)


def _table() -> Codes:
    """Slot -> key, -1 where free; a key whose slot is taken has the next free one."""
    table = np.full(TABLE_SIZE, -1, np.int32)
    for place, key in enumerate(KEYS):
        word, size = key.encode(), len(key)
        slot = _slot(size, word[0], word[-1], word[size // 2], word[size - 1 - size // 4])
        while table[slot] >= 0:
            slot = (slot + 1) % TABLE_SIZE
        table[slot] = place
    return table


def _words() -> npt.NDArray[np.uint64]:
    """By key, the words of `key=`, its first byte in the lowest bits, and the bits of them that count."""
    longest = -(-(max(map(len, KEYS)) + 1) // 8)
    words = np.zeros((len(KEYS), 2, longest), np.uint64)
    for place, key in enumerate(KEYS):
        for which, text in enumerate((key.encode() + b"=", b"\xff" * (len(key) + 1))):
            words[place, which] = np.frombuffer(text.ljust(8 * longest, b"\0"), "<u8")
    return words


def _flags(names: tuple[str, ...]) -> Bools:
    return np.array([key in names for key in KEYS])


KEY_BYTES: Bytes = as_bytes("".join(KEYS).encode())
KEY_WORDS: npt.NDArray[np.uint64] = _words()
KEY_BOUNDS: Ints = np.cumsum([0, *map(len, KEYS)], dtype=np.int64)
KEY_TABLE: Codes = _table()
IS_FREE: Bools = _flags(FREE_TEXT)
FIRST_WINS: Bools = _flags(BEFORE_FREE_TEXT)
