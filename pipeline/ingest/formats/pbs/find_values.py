"""The compiled loop over a record's `key=value` pairs, which PBS writes without escapes.

A key that is known, or is a resource, ends any value. One that is not ends any value but a free text, of which it is a
part: of `jobname=a x=1 queue=q` the name is `a x=1`. A word without a key belongs to a name or free text before it: of
`group=domain users jobname=a` the group is `domain users`.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from pipeline.arrays import Bools, Ints
from pipeline.ingest.formats.pbs.scan import KINDS, ONES, TOPS, Scanned, Words
from pipeline.ingest.values import Bytes
from pipeline.kernels import uncounted

FREE_TEXT = ("account", "project", "jobname")
"""Values people choose: they may hold blanks, quotes and `=`, which PBS writes as they are."""

NAMES = ("user", "group", "queue", "owner")
"""Names of a directory service, which may hold blanks and slashes."""

BEFORE_FREE_TEXT = ("user", "group", *FREE_TEXT)
"""Written before a free text can end, so the first of each is PBS's own. Another key that comes twice is damage."""

REPEATED, LOOSE = 1, 2

_N_WITH_KEYS = KINDS.index("E") + 1
_SPACES = np.uint64(0x2121212121212121)


def value_spans(scanned: Scanned, names: Sequence[str]) -> tuple[Ints, Bytes]:
    """Start and end of each key's value in each record, int64 (keys, 2, records), equal where there is none; and which
    records are broken, uint8 (records,): REPEATED where a key is there twice that PBS writes once, LOOSE where a word
    has no key behind a value that is no name and no text. Two records ran together there.
    """
    words, sizes, is_free, has_blanks, first_wins = _keys(tuple(names))
    # Pages of keys that no record has are never written, so they cost nothing.
    spans = np.zeros((len(names), 2, len(scanned.line)), np.int64)
    follower = np.full((_N_WITH_KEYS, len(names) + 1), -1, np.int64)
    data = scanned.data
    text = data[: data.size & ~7].view(np.uint64)
    broken = np.zeros(len(scanned.line), np.uint8)
    _find(
        data, text, scanned.message, scanned.end, scanned.kind, words, sizes, is_free, has_blanks, first_wins, follower,
        spans, broken,
    )  # fmt: skip
    return spans, broken


@lru_cache(maxsize=1)
def _keys(names: tuple[str, ...]) -> tuple[Words, Ints, Bools, Bools, Bools]:
    """By key: the words of `key=`, its first byte in the lowest bits, and the bits of them that count; the bytes of
    `key=`; whether the value is free text; whether it may hold blanks; whether the first one counts.
    """
    longest = -(-(max(map(len, names)) + 1) // 8)
    words = np.zeros((len(names), 2, longest), np.uint64)
    for place, name in enumerate(names):
        for which, text in enumerate((name.encode() + b"=", b"\xff" * (len(name) + 1))):
            words[place, which] = np.frombuffer(text.ljust(8 * longest, b"\0"), "<u8")
    sizes = np.array([len(name) + 1 for name in names], np.int64)
    is_free, is_first = np.isin(names, FREE_TEXT), np.isin(names, BEFORE_FREE_TEXT)
    return words, sizes, is_free, is_free | np.isin(names, NAMES), is_first


@uncounted
def _find(
    data: Bytes,
    text: Words,
    message: Ints,
    end: Ints,
    kind: Ints,
    words: Words,
    sizes: Ints,
    is_free: Bools,
    has_blanks: Bools,
    first_wins: Bools,
    follower: Ints,
    spans: Ints,
    broken: Bytes,
) -> None:
    """Fills spans and broken; kinds below follower's first axis have `key=value` pairs, from message to end.

    text: the data eight bytes at a time, the first in the lowest bits. follower: by kind and key + 1, the key that
    followed it last, or -1. The other arrays are those of `_keys`.
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
            value = _value_of(data, text, at, stop, words, sizes, found)
            if value == 0:
                found, value = _token(data, text, at, stop, words, sizes)
            after = _blank(data, text, max(at, value), stop)
            if found >= 0:
                follower[kind[row], before] = found
                before = found + 1
            if value > 0 and (found >= 0 or key < 0 or not is_free[key] or _is_resource(data, at, stop)):
                _keep(spans, row, key, low, high, first_wins, broken)
                key, low, high = found, value, after
                closing = 0
                if key >= 0 and is_free[key] and spans[key, 1, row] == 0:
                    closing = _closing_quote(data, text, value, stop, words, sizes)
                if closing:
                    _keep(spans, row, key, value + 1, closing, first_wins, broken)
                    key, after = -1, closing + 1
            elif key >= 0 and has_blanks[key]:
                high = after
            elif value == 0 and key >= 0 and broken[row] == 0:
                broken[row] = LOOSE
            at = after
        _keep(spans, row, key, low, high, first_wins, broken)


@uncounted
def _keep(spans: Ints, row: int, key: int, low: int, high: int, first_wins: Bools, broken: Bytes) -> None:
    if key < 0 or (first_wins[key] and spans[key, 1, row] > 0):
        return
    if spans[key, 1, row] > 0:
        broken[row] = REPEATED
    spans[key, 0, row], spans[key, 1, row] = low, high


@uncounted
def _token(data: Bytes, text: Words, at: int, stop: int, words: Words, sizes: Ints) -> tuple[int, int]:
    """The key a token starts with (-1: none known), and where its value starts (0: it has no key).

    A semicolon stands in no key: it is of another record's beginning.
    """
    start = at
    while at < stop and data[at] > 32 and data[at] != 61 and data[at] != 34 and data[at] != 59:
        at += 1
    if not start < at < stop or data[at] != 61:
        return -1, 0
    for key in range(sizes.size):
        if sizes[key] == at + 1 - start and _value_of(data, text, start, stop, words, sizes, key) > 0:
            return key, at + 1
    return -1, at + 1


@uncounted
def _blank(data: Bytes, text: Words, at: int, stop: int) -> int:
    """The next blank or control byte, or the end."""
    last = min(stop, 8 * text.size - 16)
    while at <= last:
        word = _word(text, at)
        found = (word - _SPACES) & ~word & TOPS
        if found:
            # The lowest bit found is the top of the first such byte; those below it are counted.
            below = ((found & (~found + np.uint64(1))) - np.uint64(1)) & ONES
            blank = int(at + np.int64((below * ONES) >> np.uint64(56)) - 1)
            return min(stop, blank)
        at += 8
    while at < stop and data[at] > 32:
        at += 1
    return min(at, stop)


@uncounted
def _word(text: Words, at: int) -> np.uint64:
    """The eight bytes from here on, the first in the lowest bits; the two words they lie in must be there."""
    place, shift = at >> 3, np.uint64(8 * (at & 7))
    word: np.uint64 = text[place]
    if shift:
        word = (word >> shift) | (text[place + 1] << (np.uint64(64) - shift))
    return word


@uncounted
def _value_of(data: Bytes, text: Words, at: int, stop: int, words: Words, sizes: Ints, key: int) -> int:
    """Where the value starts if this key and = stand here; else 0."""
    if key < 0 or at + sizes[key] > stop:
        return 0
    size = sizes[key]
    if at + size + 16 > 8 * text.size:
        for k in range(size):
            if np.uint64(data[at + k]) != (words[key, 0, k >> 3] >> np.uint64(8 * (k & 7))) & np.uint64(255):
                return 0
        return int(at + size)
    for k in range((size + 7) >> 3):
        if (_word(text, at + 8 * k) ^ words[key, 0, k]) & words[key, 1, k]:
            return 0
    return int(at + size)


@uncounted
def _is_resource(data: Bytes, at: int, stop: int) -> bool:
    """Whether the token starts with `esource` after one letter: Resource_List., resources_used., resource_assigned."""
    word = (101, 115, 111, 117, 114, 99, 101)
    if at + 8 >= stop or (data[at] | 32) != 114:
        return False
    for k in range(7):  # noqa: SIM110
        if data[at + 1 + k] != word[k]:
            return False
    return True


@uncounted
def _closing_quote(data: Bytes, text: Words, at: int, stop: int, words: Words, sizes: Ints) -> int:
    """Where a quoted text ends: at a quote that the record's end or a known key follows; 0: it is not quoted."""
    if at >= stop or data[at] != 34:
        return 0
    for k in range(at + 1, stop):
        if data[k] != 34:
            continue
        after = k + 1
        while after < stop and data[after] <= 32:
            after += 1
        if after == stop or (after > k + 1 and _token(data, text, after, stop, words, sizes)[0] >= 0):
            return k
    return 0
