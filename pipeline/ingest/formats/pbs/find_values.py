"""The compiled loop over a record's `key=value` pairs, which PBS writes without escapes.

A key that is known, or is a resource, ends any value. One that is not ends a value that cannot hold blanks, and is part
of one that can: of `jobname=a x=1 queue=q` the name is `a x=1`.

The functions call one another for every key, and counting the references to their arrays each time would take six
times as long as what they do; they make no array, so nothing is to be counted.
"""

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Bools, Ints
from pipeline.core.compiled import F
from pipeline.ingest.compiled import kernel
from pipeline.ingest.formats.pbs.keys import key_slot
from pipeline.ingest.spans.kernels import Bytes, Codes

Words = npt.NDArray[np.uint64]
_SPACES = np.uint64(0x2121212121212121)
_TOPS = np.uint64(0x8080808080808080)
_ONES = np.uint64(0x0101010101010101)


def _bare(function: F) -> F:
    """The function compiled without the counting of references."""
    return kernel(function, _nrt=False)


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
