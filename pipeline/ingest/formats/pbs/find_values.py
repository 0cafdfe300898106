"""The compiled loop over a record's `key=value` pairs, which PBS writes without escapes.

A key that is known, or is a resource, ends any value. One that is not ends a value that cannot hold blanks, and is part
of one that can: of `jobname=a x=1 queue=q` the name is `a x=1`.

The functions call one another for every key, and counting the references to their arrays each time would take six
times as long as what they do; they make no array, so nothing is to be counted.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Bools, Ints
from pipeline.ingest.spans import as_bytes
from pipeline.ingest.spans.kernels import Bytes, Codes
from pipeline.kernels import F, cached

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


key_slot = cached(_slot)


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


Words = npt.NDArray[np.uint64]
_SPACES = np.uint64(0x2121212121212121)
_TOPS = np.uint64(0x8080808080808080)
_ONES = np.uint64(0x0101010101010101)


def _bare(function: F) -> F:
    """The function compiled without the counting of references."""
    return cached(function, _nrt=False)


@_bare
def find_values(
    data: Bytes,
    words: Words,
    message: Ints,
    end: Ints,
    kind: Ints,
    key_bytes: Bytes,
    key_words: Words,
    bounds: Ints,
    table: Codes,
    is_free: Bools,
    first_wins: Bools,
    follower: Ints,
    spans: Ints,
) -> None:
    """Fills spans (keys, 2, records) with start and end of every record's known values.

    words: the data eight bytes at a time, the first in the lowest bits. message, end: where a record's `key=value` part
    lies; kinds below follower's first axis have one. follower: by kind and key + 1, the key that followed it last, or
    -1. The other arrays are those of keys.py.
    """
    # Records of one type write their keys in one order: what followed a key before is looked for first.
    for row in range(message.size):
        if kind[row] >= follower.shape[0]:
            continue
        before = 0
        at, stop = message[row], end[row]
        while stop > at and data[stop - 1] <= 32:
            stop -= 1
        key, low, high = -1, 0, 0
        while at < stop:
            while at < stop and data[at] <= 32:
                at += 1
            found = follower[kind[row], before]
            value = _value_of(words, at, stop, key_words, bounds, found)
            if value > 0:
                after = _blank(data, words, value, stop)
            else:
                found, value, after = _token(data, words, at, stop, key_bytes, bounds, table)
            if found >= 0:
                follower[kind[row], before] = found
                before = found + 1
            if value > 0 and (found >= 0 or key < 0 or not is_free[key] or _is_resource(data, at, stop)):
                _keep(spans, row, key, low, high, first_wins)
                key, low, high = found, value, after
                closing = 0
                if key >= 0 and is_free[key] and spans[key, 1, row] == 0:
                    closing = _closing_quote(data, words, value, stop, key_bytes, bounds, table)
                if closing:
                    _keep(spans, row, key, value + 1, closing, first_wins)
                    key, after = -1, closing + 1
            elif key >= 0 and is_free[key]:
                high = after
            at = after
        _keep(spans, row, key, low, high, first_wins)


@_bare
def _keep(spans: Ints, row: int, key: int, low: int, high: int, first_wins: Bools) -> None:
    if key >= 0 and not (first_wins[key] and spans[key, 1, row] > 0):
        spans[key, 0, row], spans[key, 1, row] = low, high


@_bare
def _token(
    data: Bytes, words: Words, at: int, stop: int, key_bytes: Bytes, bounds: Ints, table: Codes
) -> tuple[int, int, int]:
    """The key a token starts with (-1: none known), where its value starts (0: it has no key), the token's end."""
    start, found, value = at, -1, 0
    while at < stop and data[at] > 32 and data[at] != 61 and data[at] != 34:
        at += 1
    if start < at < stop and data[at] == 61:
        found = _known(data, start, at, key_bytes, bounds, table)
        value = at + 1
    return found, value, _blank(data, words, at, stop)


@_bare
def _blank(data: Bytes, words: Words, at: int, stop: int) -> int:
    """The next blank or control byte, or the end."""
    last = min(stop, 8 * words.size - 16)
    while at <= last:
        word = _word(words, at)
        found = (word - _SPACES) & ~word & _TOPS
        if found:
            # The lowest bit found is the top of the first such byte; those below it are counted.
            below = ((found & (~found + np.uint64(1))) - np.uint64(1)) & _ONES
            blank = int(at + np.int64((below * _ONES) >> np.uint64(56)) - 1)
            return min(stop, blank)
        at += 8
    while at < stop and data[at] > 32:
        at += 1
    return min(at, stop)


@_bare
def _word(words: Words, at: int) -> np.uint64:
    """The eight bytes from here on, the first in the lowest bits; the two words they lie in must be there."""
    place, shift = at >> 3, np.uint64(8 * (at & 7))
    word: np.uint64 = words[place]
    if shift:
        word = (word >> shift) | (words[place + 1] << (np.uint64(64) - shift))
    return word


@_bare
def _value_of(words: Words, at: int, stop: int, key_words: Words, bounds: Ints, key: int) -> int:
    """Where the value starts if this key and = stand here; else 0."""
    if key < 0:
        return 0
    size = bounds[key + 1] - bounds[key] + 1
    if at + size > stop or at + size + 16 > 8 * words.size:
        return 0
    place = at
    for k in range(0, (size + 7) >> 3):
        if (_word(words, place) ^ key_words[key, 0, k]) & key_words[key, 1, k]:
            return 0
        place += 8
    return int(at + size)


@_bare
def _known(data: Bytes, start: int, end: int, key_bytes: Bytes, bounds: Ints, table: Codes) -> int:
    """The key that stands here; -1 where it is none of them."""
    size = end - start
    slot = key_slot(size, data[start], data[end - 1], data[start + size // 2], data[end - 1 - size // 4])
    while table[slot] >= 0:
        key = table[slot]
        low = bounds[key]
        if bounds[key + 1] - low == size:
            k = 0
            while k < size and data[start + k] == key_bytes[low + k]:
                k += 1
            if k == size:
                return int(key)
        slot = (slot + 1) % table.size
    return -1


@_bare
def _is_resource(data: Bytes, at: int, stop: int) -> bool:
    """Whether the token starts with `esource` after one letter: Resource_List., resources_used., resource_assigned."""
    word = (101, 115, 111, 117, 114, 99, 101)
    if at + 8 >= stop or (data[at] | 32) != 114:
        return False
    for k in range(7):  # noqa: SIM110
        if data[at + 1 + k] != word[k]:
            return False
    return True


@_bare
def _closing_quote(data: Bytes, words: Words, at: int, stop: int, key_bytes: Bytes, bounds: Ints, table: Codes) -> int:
    """Where a quoted text ends: at a quote that the record's end or a known key follows; 0: it is not quoted."""
    if at >= stop or data[at] != 34:
        return 0
    for k in range(at + 1, stop):
        if data[k] != 34:
            continue
        after = k + 1
        while after < stop and data[after] <= 32:
            after += 1
        if after == stop:
            return k
        if after > k + 1:
            found, _, _ = _token(data, words, after, stop, key_bytes, bounds, table)
            if found >= 0:
                return k
    return 0
