"""The byte parser of PBS accounting files: a block of lines in, where its records and their parts lie out.

It knows lines, semicolons and `key=value` pairs; fields.py knows what they mean.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Floats, Ints, arrow, integers, nulls, words_of
from pipeline.ingest.sources import MAX_LINE_BYTES
from pipeline.ingest.values import Bytes, Typed, utf8
from pipeline.kernels import called_kernel, uncounted_kernel

REASONS = (
    "not_a_record", "no_record_type", "no_job_id", "cut_short", "bad_date", "bad_number", "line_too_long", "nul_bytes",
    "no_line_end", "repeated_key", "word_without_key",
)  # fmt: skip
_NOT_A_RECORD, _NO_TYPE, _NO_ID, _CUT_SHORT, _BAD_DATE, _BAD_NUMBER, _TOO_LONG = range(1, 8)
KINDS = "QSREDAz"
"""The record types read, in the order a job goes through them; z is a suspension."""

DATE_BYTES = 19
_DATE: Bytes = np.frombuffer(b"00/00/0000 00:00:00;", np.uint8)
_BLANK, _CONTINUED, _PARENT, _JOINED = range(4)
_KIND_OF = np.full(256, -1, np.int64)
_KIND_OF[[ord(letter) for letter in KINDS]] = range(len(KINDS))
_CLOSED, _OPEN = -2, -1
Words = npt.NDArray[np.uint64]
ONES, TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_MARKS = 3
"""Semicolons of a record; a line with more may hold two."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """What stands in one block.

    line: each record's first line in the block, from 0; start, end: its bytes, continuation lines included; kind: index
    into KINDS; id_start, id_end: the job id; message: where its `key=value` pairs start. bad: int64 (n, 4), line,
    start, end, reason (1 + index into REASONS). lines: how many are blank, continue a record, belong to an array's
    parent or are of another record type, by name. n_joined: lines that hold a cut record and, behind it, another one,
    which a server writes that starts anew after a crash: each is a bad row and a record.
    """

    data: Bytes
    line: Ints
    start: Ints
    end: Ints
    kind: Ints
    id_start: Ints
    id_end: Ints
    message: Ints
    bad: Ints
    lines: Mapping[str, int]
    n_joined: int = 0


def scan(data: bytes, n_lines: int) -> Scanned:
    """The records and unreadable lines of a block of n_lines lines, whole records (the last may lack its newline)."""
    text = np.frombuffer(data, np.uint8)
    most = n_lines + len(text) // _DATE.size
    # Pages of these arrays that are never written are never allocated.
    rows, bad = np.empty((7, most), np.int64), np.empty((most, 4), np.int64)
    counts, others = np.zeros(4, np.int64), np.zeros(256, np.int64)
    ends = np.append(np.flatnonzero(text == ord("\n")), len(text))
    n_marks = np.diff(np.searchsorted(np.flatnonzero(text == ord(";")), ends), prepend=0)
    n_rows, n_bad = _lines(text, ends, n_marks > _MARKS, MAX_LINE_BYTES, _KIND_OF, rows, bad, counts, others)
    lines = {"blank": counts[_BLANK], "continued": counts[_CONTINUED], "array_parent": counts[_PARENT]}
    lines |= {f"other_{chr(letter)}": others[letter] for letter in np.flatnonzero(others).tolist()}
    named = {name: int(n) for name, n in lines.items() if n}
    line, start, end, kind, id_start, id_end, message = rows[:, :n_rows]
    joined = int(counts[_JOINED])
    return Scanned(text, line, start, end, kind, id_start, id_end, message, bad[:n_bad], named, joined)


@uncounted_kernel
def _lines(
    data: Bytes,
    ends: Ints,
    is_long: Bools,
    limit: int,
    kind_of: Ints,
    rows: Ints,
    bad: Ints,
    counts: Ints,
    others: Ints,
) -> tuple[int, int]:
    """Rows of line, start, end, kind, id start, id end, message start; how many of them, and of bad lines.

    ends: where each line ends; is_long: whether it has more semicolons than one record.
    """
    at, number, n_rows, n_bad, is_open, begun = 0, 0, 0, 0, _CLOSED, 0
    while at < data.size:
        low, reason = at, 0
        stop = ends[number]
        joined = _joined_record(data, at, stop) if is_long[number] else 0
        if joined:
            bad[n_bad, 0], bad[n_bad, 1], bad[n_bad, 2], bad[n_bad, 3] = number, low, joined, _CUT_SHORT
            n_bad += 1
            counts[_JOINED] += 1
            at, is_open = joined, _CLOSED
            continue
        at = stop + 1
        stop -= stop > low and data[stop - 1] == 13
        first = _after_blanks(data, low, stop)
        if first == stop:
            counts[_BLANK] += 1
            is_open = _CLOSED
        elif stop - low > limit:
            reason = _TOO_LONG
        elif _is_dated(data, first, stop):
            reason, kind, id_start, id_end = _head(data, first, stop, kind_of)
            begun, is_open = low, _OPEN
            if reason == 0 and kind < 0:
                others[data[first + DATE_BYTES + 1]] += 1
            elif reason == 0 and _is_parent(data, id_start, id_end):
                counts[_PARENT] += 1
            elif reason == 0:
                rows[0, n_rows], rows[1, n_rows], rows[2, n_rows], rows[3, n_rows] = number, first, stop, kind
                rows[4, n_rows], rows[5, n_rows], rows[6, n_rows] = id_start, id_end, id_end + 1
                is_open = n_rows
                n_rows += 1
        elif is_open != _CLOSED and stop - begun <= limit and _continues(data, first, stop):
            counts[_CONTINUED] += 1
            if is_open >= 0:
                rows[2, is_open] = stop
        else:
            reason = _NOT_A_RECORD
        if reason:
            bad[n_bad, 0], bad[n_bad, 1], bad[n_bad, 2], bad[n_bad, 3] = number, low, stop, reason
            n_bad += 1
            is_open = _CLOSED
        number += 1
    return n_rows, n_bad


@called_kernel
def _after_blanks(data: Bytes, at: int, stop: int) -> int:
    while at < stop and data[at] <= 32:
        at += 1
    return at


@called_kernel
def _joined_record(data: Bytes, low: int, stop: int) -> int:
    """Where in a line another record begins than the first; 0: nowhere."""
    for at in range(_after_blanks(data, low, stop) + 1, stop - DATE_BYTES - 2):
        if data[at + DATE_BYTES] == 59 and data[at + DATE_BYTES + 2] == 59 and _is_dated(data, at, stop):
            return at
    return 0


@called_kernel
def _is_dated(data: Bytes, at: int, stop: int) -> bool:
    """Whether `dd/dd/dddd dd:dd:dd;` stands here."""
    if stop - at < _DATE.size:
        return False
    for k in range(_DATE.size):
        byte = data[at + k]
        if byte != _DATE[k] and not (_DATE[k] == 48 and 48 < byte <= 57):
            return False
    return True


@called_kernel
def _head(data: Bytes, first: int, stop: int, kind_of: Ints) -> tuple[int, int, int, int]:
    """Reason or 0, kind (-1: of no job that is read), the id's span."""
    letter = first + DATE_BYTES + 1
    if letter + 1 >= stop or data[letter + 1] != 59 or not 97 <= (data[letter] | 32) <= 122:
        return _NO_TYPE, -1, 0, 0
    kind = kind_of[data[letter]]
    if kind < 0:
        return 0, -1, 0, 0
    start = letter + 2
    end = start
    while end < stop and data[end] != 59:
        if data[end] <= 32:
            return _NO_ID, kind, 0, 0
        end += 1
    if end >= stop:
        return _CUT_SHORT, kind, 0, 0
    if not 48 <= data[start] <= 57:
        return _NO_ID, kind, 0, 0
    return 0, kind, start, end


@called_kernel
def _is_parent(data: Bytes, at: int, end: int) -> bool:
    """Whether the id is an array's own, as in 170[].server."""
    for k in range(at, end - 1):  # noqa: SIM110
        if data[k] == 91 and data[k + 1] == 93:
            return True
    return False


@called_kernel
def _continues(data: Bytes, first: int, stop: int) -> bool:
    """Whether a line goes on with `key=value`, and is no record whose date has been damaged (`;E;` near its start)."""
    for k in range(first, min(stop - 2, first + 40)):
        if data[k] == 59 and data[k + 2] == 59:
            return False
    at = first
    while at < stop and data[at] > 32:
        if data[at] == 61:
            return at > first
        at += 1
    return False


# ---------------- the pairs of a record
# PBS writes pairs without escapes. A key that is known, or is a resource, ends any value. One that is not ends any
# value but a free text, of which it is a part: of `jobname=a x=1 queue=q` the name is `a x=1`. A word without a key
# belongs to a name or free text before it: of `group=domain users jobname=a` the group is `domain users`.

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


@uncounted_kernel
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


@called_kernel
def _keep(spans: Ints, row: int, key: int, low: int, high: int, first_wins: Bools, broken: Bytes) -> None:
    if key < 0 or (first_wins[key] and spans[key, 1, row] > 0):
        return
    if spans[key, 1, row] > 0:
        broken[row] = REPEATED
    spans[key, 0, row], spans[key, 1, row] = low, high


@called_kernel
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


@called_kernel
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


@called_kernel
def _word(text: Words, at: int) -> np.uint64:
    """The eight bytes from here on, the first in the lowest bits; the two words they lie in must be there."""
    place, shift = at >> 3, np.uint64(8 * (at & 7))
    word: np.uint64 = text[place]
    if shift:
        word = (word >> shift) | (text[place + 1] << (np.uint64(64) - shift))
    return word


@called_kernel
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


@called_kernel
def _is_resource(data: Bytes, at: int, stop: int) -> bool:
    """Whether the token starts with `esource` after one letter: Resource_List., resources_used., resource_assigned."""
    word = (101, 115, 111, 117, 114, 99, 101)
    if at + 8 >= stop or (data[at] | 32) != 114:
        return False
    for k in range(7):  # noqa: SIM110
        if data[at + 1 + k] != word[k]:
            return False
    return True


@called_kernel
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


def texts_of(data: Bytes, start: Ints, end: Ints) -> pa.StringArray:
    """The spans of a buffer, which follow one another, as texts; null where one is empty."""
    is_empty = end <= start
    if is_empty.all():
        return pa.nulls(len(start), pa.string())
    # Between two spans lies a text that nobody asks for: Arrow takes every other one.
    bounds = np.empty(2 * len(start), np.int32)
    bounds[1::2] = np.maximum.accumulate(np.where(is_empty, 0, end))
    bounds[::2] = np.where(is_empty, bounds[1::2], start)
    every = pa.StringArray.from_buffers(len(bounds) - 1, pa.py_buffer(bounds), pa.py_buffer(data))
    return utf8(every.take(arrow(np.arange(0, len(bounds), 2), is_empty)))


# ---------------- resources
# PBS's ways to write resources: where a job ran, what it asked for, sizes in bytes or words.
#
# Source: PBS Professional 2024.1 Reference Guide, formats of exec_host, exec_vnode, select and size; TORQUE 6.1
# Administrator Guide, "Requesting resources" (nodes, ppn, gpus) and pbs_resources(7) (size).

NULL, OK, INVALID = 0, 1, 2
_MOST = 1_000_000_000
"""No count of processors is larger; what is larger is no count."""

_LEAST_SLOTS = 1024
_CPUS, _GPUS = ("ncpus", "ppn"), ("ngpus", "gpus", "gpu")
_NUMBER = re.compile(r"0*([0-9]+?)(?:#|\Z)")


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


def hosts(words: pa.StringArray) -> Counts:
    """Processors and distinct hosts: `n1/0*4` is 4 processors, `n1/0-3` 4, `n1/0,2-3` 3, `n1/7` and `n1` 1; + joins."""
    data, bounds = words_of(words)
    counts, kinds = np.zeros((2, len(words)), np.int64), np.empty(len(words), np.uint8)
    n_slots = max(_LEAST_SLOTS, 1 << int(np.diff(bounds).max(initial=0)).bit_length())
    seen, stamp = np.zeros(n_slots, np.uint64), np.full(n_slots, -1, np.int64)
    _hosts(data, bounds.astype(np.int64), seen, stamp, counts, kinds)
    procs, nodes = counts
    return Counts(procs, kinds != OK, kinds == INVALID, nodes, np.zeros_like(nodes))


@uncounted_kernel
def _hosts(data: Bytes, bounds: Ints, seen: npt.NDArray[np.uint64], stamp: Ints, counts: Ints, kinds: Bytes) -> None:
    """Processors and distinct hosts of each text; seen, stamp: as many slots as the longest has bytes, or more."""
    for row in range(bounds.size - 1):
        at, stop = bounds[row], bounds[row + 1]
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


def chunks(words: pa.StringArray, *, is_vnode: bool = False) -> Counts:
    """Processors, chunks and GPUs of select and nodes.

    `2:ncpus=16+1:ncpus=4` is 36 processors in 3 chunks, `2:ppn=4:gpus=1+host:ppn=2` 10 with 2 GPUs; a chunk without a
    number is 1, and without ncpus or ppn 1 processor. In exec_vnode (is_vnode) a chunk starts with a name, and has as
    many processors as it says, or none; where no chunk says the text is invalid.
    """
    encoded = words.dictionary_encode()
    parts = pc.split_pattern_regex(encoded.dictionary, "[+)]")
    row = integers(pc.list_parent_indices(parts))[0]
    each = pc.utf8_ltrim(parts.flatten(), "(").dictionary_encode()
    read = [_chunk(text, is_vnode=is_vnode) for text in each.dictionary.to_pylist()]
    n, cpus, gpus = np.array(read, np.int64).reshape(-1, 3).T[:, integers(each.indices)[0]]

    def total(values: npt.NDArray[Any]) -> Ints:
        # One row more, for texts that are null.
        summed = np.bincount(row, np.minimum(values, _MOST), len(encoded.dictionary) + 1)
        return np.minimum(summed, _MOST).astype(np.int64)

    nodes = total(n)
    invalid = (total(n < 0) > 0) | (nodes <= 0) | (is_vnode & (total(cpus >= 0) == 0))
    procs = total(n * np.where(cpus < 0, 0 if is_vnode else 1, cpus))
    invalid[-1], is_null = False, nulls(words)
    place = np.where(is_null, -1, integers(encoded.indices)[0])
    return Counts(procs[place], is_null | invalid[place], invalid[place], nodes[place], total(n * gpus)[place])


def vnodes(words: pa.StringArray) -> Counts:
    """The same of exec_vnode."""
    return chunks(words, is_vnode=True)


def _chunk(text: str, *, is_vnode: bool) -> tuple[int, int, int]:
    """How often a chunk is asked for (0: it is empty, -1: it is none), its processors (-1: it does not say), GPUs."""
    n, cpus, gpus = int(bool(text)), -1, 0
    for place, token in enumerate(text.split(":")):
        name, equals, value = token.partition("=")
        found = _NUMBER.match(value if equals else token)
        number = int(found[1]) if found and len(found[1]) < len(str(_MOST)) else 0
        if equals and name in _CPUS + _GPUS:
            if not found:
                return -1, -1, 0
            cpus, gpus = (number, gpus) if name in _CPUS else (cpus, number)
        elif found and not (equals or place or is_vnode):
            n = number
    return n, cpus, gpus
