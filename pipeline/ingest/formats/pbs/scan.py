"""The byte parser of PBS accounting files: a block of lines in, where its records and their parts lie out.

It knows lines, semicolons and `key=value` pairs; fields.py knows what they mean.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Floats, Ints, arrow, integers, nulls
from pipeline.ingest.reader import by_word, line_bounds
from pipeline.ingest.sources import MAX_LINE_BYTES
from pipeline.ingest.values import Bytes, Typed, truths, utf8
from pipeline.kernels import called_kernel, uncounted_kernel

REASONS = (
    "not_a_record", "no_record_type", "no_job_id", "cut_short", "bad_date", "bad_number", "line_too_long", "nul_bytes",
    "no_line_end", "repeated_key", "word_without_key",
)  # fmt: skip
_NOT_A_RECORD, _NO_TYPE, _NO_ID, _CUT_SHORT, _BAD_DATE, _BAD_NUMBER, _TOO_LONG = range(1, 8)
KINDS = "QSREDAz"
"""The record types read, in the order a job goes through them; z is a suspension."""

DATE_BYTES = 19
_HEAD: Bytes = np.frombuffer(b"00/00/0000 00:00:00;X;", np.uint8)
_IS_LETTER = ord("X") == _HEAD
_DATED = re.compile(rb"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;")
_CONTINUES = re.compile(rb"(?!.{0,39};.;)[^\x00-\x20=]+=", re.DOTALL)
"""A line that goes on with `key=value`, and is no record whose date has been damaged (`;E;` near its start)."""

_ID = r"^[0-9][^\x00-\x20]*$"
_BLANKS = bytes(range(33))
_KIND_OF = np.full(256, -1, np.int64)
_KIND_OF[[ord(letter) for letter in KINDS]] = range(len(KINDS))
_MARKS = 3
"""Semicolons of a record; a line with more may hold two."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """What stands in one block.

    line: each record's first line in the block, from 0; start, end: its bytes, continuation lines included; head: those
    of its date and type, (records, 22); kind: index into KINDS; message: where its `key=value` pairs start. bad: int64
    (n, 4), line, start, end, reason (1 + index into REASONS). lines: how many are blank, continue a record, belong to
    an array's parent or are of another record type, by name. n_joined: lines that hold a cut record and, behind it,
    another one, which a server writes that starts anew after a crash: each is a bad row and a record.
    """

    data: Bytes
    line: Ints
    start: Ints
    end: Ints
    head: Bytes
    kind: Ints
    job_id: pa.StringArray
    message: Ints
    bad: Ints
    lines: Mapping[str, int]
    n_joined: int


def scan(data: bytes) -> Scanned:
    """The records and unreadable lines of a block of whole records (the last may lack its newline)."""
    # 1. A record begins with a head; one behind a cut record begins a line of its own.
    text = np.frombuffer(data, np.uint8)
    line_starts, line_ends = line_bounds(data)
    marks = np.flatnonzero(text == ord(";"))
    at, head, is_joined = _heads(data, text, marks, line_starts, line_ends)
    starts, ends = (np.sort(np.append(bounds, at[is_joined])) for bounds in (line_starts, line_ends))
    line = np.searchsorted(line_starts, starts, side="right") - 1
    stops = ends - ((ends > starts) & (text[ends - 1] == ord("\r")))
    rows = np.searchsorted(starts, at, side="right") - 1
    # 2. What a head and the id behind it say.
    letter = head[:, DATE_BYTES + 1]
    kind, is_letter = _KIND_OF[letter], (letter | 32 >= ord("a")) & (letter | 32 <= ord("z"))
    id_start = at + len(_HEAD)
    id_end = np.append(marks, len(text))[np.searchsorted(marks, id_start)]
    job_id = texts_of(text, id_start, np.minimum(id_end, stops[rows]))
    is_id = truths(pc.match_substring_regex(job_id, _ID))
    is_read, is_parent = kind >= 0, truths(pc.match_substring(job_id, "[]"))
    is_long, reason = stops - starts > MAX_LINE_BYTES, np.zeros(len(starts), np.int64)
    faults = [is_long[rows], ~is_letter, is_read & ~is_id, is_read & (id_end >= stops[rows])]
    reason[rows] = np.select(faults, [_TOO_LONG, _NO_TYPE, _NO_ID, _CUT_SHORT])
    reason[np.isin(ends, at[is_joined])] = _CUT_SHORT
    # 3. Lines without one: blank, a part of the record before, or unreadable.
    begun, is_headless = np.full(len(starts), -1), reason == 0
    begun[rows] = np.where(reason[rows] == 0, rows, -1)
    is_headless[rows] = False
    lines = Counter[str]()
    for place in np.flatnonzero(is_headless).tolist():
        said, own = data[starts[place] : stops[place]].strip(_BLANKS), begun[place - 1] if place else -1
        if not said:
            lines["blank"] += 1
        elif is_long[place]:
            reason[place] = _TOO_LONG
        elif _DATED.match(said):
            reason[place] = _NO_TYPE
        elif own >= 0 and stops[place] - starts[own] <= MAX_LINE_BYTES and _CONTINUES.match(said):
            begun[place], stops[own] = own, stops[place]
            lines["continued"] += 1
        else:
            reason[place] = _NOT_A_RECORD
    is_good = reason[rows] == 0
    lines["array_parent"] = int(np.count_nonzero(is_good & is_read & is_parent))
    lines.update(f"other_{chr(one)}" for one in letter[is_good & ~is_read].tolist())
    chosen = is_good & is_read & ~is_parent
    rows = rows[chosen]
    bad = np.column_stack([line, starts, stops, reason])[reason > 0]
    return Scanned(
        text, line[rows], at[chosen], stops[rows], head[chosen], kind[chosen], job_id.filter(arrow(chosen)),
        id_end[chosen] + 1, bad, +lines, int(np.count_nonzero(is_joined)),
    )  # fmt: skip


def _heads(data: bytes, text: Bytes, marks: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Bytes, Bools]:
    """Where records begin, the bytes of each one's head, and which stand in a line behind another record.

    marks: the semicolons of the text; starts, ends: of its lines.
    """
    at = marks[:-1][np.diff(marks) == 2] - DATE_BYTES
    at = at[at >= 0]
    head = text[at[:, None] + np.arange(len(_HEAD))]
    fits = (np.where(ord("0") == _HEAD, head - ord("0") < 10, head == _HEAD) | _IS_LETTER).all(axis=1)
    line = np.searchsorted(starts, at, side="right") - 1
    is_behind = np.zeros(len(at), np.bool_)
    # Blanks may stand before a line's own head.
    for place in np.flatnonzero(at > starts[line]).tolist():
        is_behind[place] = bool(data[starts[line[place]] : at[place]].strip(_BLANKS))
    n_marks = np.searchsorted(marks, ends[line]) - np.searchsorted(marks, starts[line])
    fits &= (at + len(_HEAD) <= ends[line]) & (~is_behind | (n_marks > _MARKS))
    return at[fits], head[fits], is_behind[fits]


# ---------------- the pairs of a record
# PBS writes pairs without escapes. A key that is known, or is a resource, ends any value. One that is not ends any
# value but a free text, of which it is a part: of `jobname=a x=1 queue=q` the name is `a x=1`. A word without a key
# belongs to a name or free text before it: of `group=domain users jobname=a` the group is `domain users`.

_PLAIN, _NAME, _FIRST_NAME, _FREE_TEXT = range(4)
_VALUES = {
    # Names of a directory service, which may hold blanks and slashes.
    "queue": _NAME, "owner": _NAME,
    # These are written before a free text can end, so that the first of each is PBS's own.
    "user": _FIRST_NAME, "group": _FIRST_NAME,
    # Values people choose: they may hold blanks, quotes and `=`, which PBS writes as they are.
    "account": _FREE_TEXT, "project": _FREE_TEXT, "jobname": _FREE_TEXT,
}  # fmt: skip
"""How a key's value is written, where it is no plain word that stands once in a record."""

REPEATED, LOOSE = 1, 2

_N_WITH_KEYS = KINDS.index("E") + 1
_RESOURCE: Bytes = np.frombuffer(b"esource", np.uint8)


def value_spans(scanned: Scanned, names: Sequence[str]) -> tuple[Ints, Bytes]:
    """Start and end of each key's value in each record, int64 (keys, 2, records), equal where there is none; and which
    records are broken, uint8 (records,): REPEATED where a key is there twice that PBS writes once, LOOSE where a word
    has no key behind a value that is no name and no text. Two records ran together there.
    """
    words = np.array([name.encode() + b"=" for name in names])
    keys, sizes = words.view(np.uint8).reshape(len(names), -1), np.strings.str_len(words)
    written = np.array([_VALUES.get(name, _PLAIN) for name in names])
    # Pages of keys that no record has are never written, so they cost nothing.
    spans, broken = np.zeros((len(names), 2, len(scanned.line)), np.int64), np.zeros(len(scanned.line), np.uint8)
    message = np.where(scanned.kind < _N_WITH_KEYS, scanned.message, scanned.end)
    follower = np.zeros(len(names) + 1, np.int64)
    _find(scanned.data, message, scanned.end, keys, sizes, written, follower, spans, broken)
    return spans, broken


@uncounted_kernel
def _find(
    data: Bytes,
    message: Ints,
    end: Ints,
    keys: Bytes,
    sizes: Ints,
    written: Ints,
    follower: Ints,
    spans: Ints,
    broken: Bytes,
) -> None:
    """Fills spans and broken from each record's `key=value` pairs, from message to end.

    follower: by key, the one that followed it last: records write their keys in one order.
    """
    for row in range(message.size):
        at, stop = message[row], end[row]
        while stop > at and data[stop - 1] <= 32:
            stop -= 1
        key, low, high, before = -1, 0, 0, -1
        while at < stop:
            while data[at] <= 32:
                at += 1
            found, value = _token(data, at, stop, keys, sizes, follower[before])
            if found >= 0:
                follower[before] = found
                before = found
            after = max(at, value)
            while after < stop and data[after] > 32:
                after += 1
            is_free = key >= 0 and written[key] == _FREE_TEXT
            if value > 0 and (found >= 0 or not is_free or _stands(data, at + 1, stop, _RESOURCE, _RESOURCE.size)):
                _keep(spans, row, key, low, high, written, broken)
                key, low, high = found, value, after
                if key >= 0 and written[key] == _FREE_TEXT and spans[key, 1, row] == 0:
                    closing = _closing_quote(data, value, stop, keys, sizes)
                    if closing:
                        _keep(spans, row, key, value + 1, closing, written, broken)
                        key, after = -1, closing + 1
            elif key >= 0 and written[key] != _PLAIN:
                high = after
            elif value == 0 and key >= 0 and broken[row] == 0:
                broken[row] = LOOSE
            at = after
        _keep(spans, row, key, low, high, written, broken)


@called_kernel
def _keep(spans: Ints, row: int, key: int, low: int, high: int, written: Ints, broken: Bytes) -> None:
    if key < 0 or (written[key] >= _FIRST_NAME and spans[key, 1, row] > 0):
        return
    if spans[key, 1, row] > 0:
        broken[row] = REPEATED
    spans[key, 0, row], spans[key, 1, row] = low, high


@called_kernel
def _token(data: Bytes, at: int, stop: int, keys: Bytes, sizes: Ints, guess: int) -> tuple[int, int]:
    """The key a token starts with (-1: none known), and where its value starts (0: it has no key).

    A semicolon stands in no key: it is of another record's beginning.
    """
    if _stands(data, at, stop, keys[guess], sizes[guess]):
        return guess, at + sizes[guess]
    start = at
    while at < stop and data[at] > 32 and data[at] != 61 and data[at] != 34 and data[at] != 59:
        at += 1
    if not start < at < stop or data[at] != 61:
        return -1, 0
    for key in range(sizes.size):
        if sizes[key] == at + 1 - start and _stands(data, start, stop, keys[key], sizes[key]):
            return key, at + 1
    return -1, at + 1


@called_kernel
def _stands(data: Bytes, at: int, stop: int, word: Bytes, size: int) -> bool:
    """Whether a word stands here."""
    k = 0
    while k < size and at + k < stop and data[at + k] == word[k]:
        k += 1
    return k == size


@called_kernel
def _closing_quote(data: Bytes, at: int, stop: int, keys: Bytes, sizes: Ints) -> int:
    """Where a quoted text ends: at a quote that the record's end or a known key follows; 0: it is not quoted."""
    if at >= stop or data[at] != 34:
        return 0
    for k in range(at + 1, stop):
        if data[k] != 34:
            continue
        after = k + 1
        while after < stop and data[after] <= 32:
            after += 1
        if after == stop or (after > k + 1 and _token(data, after, stop, keys, sizes, 0)[0] >= 0):
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
# PBS's ways to write resources: where a job ran, and what it asked for, in parts that + joins.
#
# Source: PBS Professional 2024.1 Reference Guide, formats of exec_host, exec_vnode, select and size; TORQUE 6.1
# Administrator Guide, "Requesting resources" (nodes, ppn, gpus) and pbs_resources(7) (size).

_MOST = 1_000_000_000
"""No count of processors is larger; what is larger is no count."""

_HOST = r"^(?P<host>[^/]+)(?:/(?P<slots>.+))?$"
_SLOTS = re.compile(r"0*([0-9]{1,9})(?:([*-])0*([0-9]{1,9}))?")
_CPUS, _GPUS = ("ncpus", "ppn"), ("ngpus", "gpus", "gpu")
_NUMBER = re.compile(r"0*([0-9]+?)(?:#|\Z)")


@dataclass(frozen=True, slots=True)
class Counts(Typed):
    """Processors; nodes: hosts, virtual nodes or chunks, NaN where unknown; gpus: GPUs, NaN where the text has none."""

    nodes: Floats
    gpus: Floats


def hosts(words: pa.StringArray) -> Counts:
    """Processors and distinct hosts: `n1/0*4` is 4 processors, `n1/0-3` 4, `n1/0,2-3` 3, `n1/7` and `n1` 1."""
    place, text, part, parts = _parts(words)
    split = pc.extract_regex(parts, _HOST)
    host = pc.struct_field(split, "host").dictionary_encode()
    own_host, n_hosts = integers(host.indices)[0][part], len(host.dictionary) + 1
    n = np.nan_to_num(by_word(pc.struct_field(split, "slots").dictionary_encode(), _n_slots), nan=-1.0)[part]
    # Slots of one host stand together as a rule, so that few pairs are left to look through.
    pairs = text * n_hosts + own_host
    pairs = np.unique(pairs[np.diff(pairs, prepend=-1) != 0])
    nodes = np.bincount(pairs // n_hosts)
    return _counts(place, np.bincount(text, n < 0) > 0, np.bincount(text, n), nodes, np.zeros(len(nodes)))


def _n_slots(slots: str) -> float:
    """How many processors `0`, `0*4`, `0-3`, `0,2-3` and no slot are; -1 where it is none of them."""
    n = int(not slots)
    for one in slots.split(",") if slots else ():
        found = _SLOTS.fullmatch(one)
        first, mark, last = found.groups() if found else ("1", "-", "-1")
        own = int(last) if mark == "*" else int(last or first) - int(first) + 1
        if own < 0:
            return -1.0
        n += own
    return n


def chunks(words: pa.StringArray, *, is_vnode: bool = False) -> Counts:
    """Processors, chunks and GPUs of select and nodes.

    `2:ncpus=16+1:ncpus=4` is 36 processors in 3 chunks, `2:ppn=4:gpus=1+host:ppn=2` 10 with 2 GPUs; a chunk without a
    number is 1, and without ncpus or ppn 1 processor. In exec_vnode (is_vnode) a chunk starts with a name, and has as
    many processors as it says, or none; where no chunk says the text is invalid.
    """
    place, text, part, parts = _parts(words)
    read = [_chunk(one.strip("()"), is_vnode=is_vnode) for one in parts.to_pylist()]
    n, cpus, gpus = np.array(read, np.float64).reshape(-1, 3).T[:, part]
    is_bad = (np.bincount(text, n < 0) > 0) | ~(np.bincount(text, n) > 0)
    if is_vnode:
        is_bad |= np.bincount(text, cpus >= 0) == 0
    procs = n * np.where(cpus < 0, 0.0 if is_vnode else 1.0, cpus)
    return _counts(place, is_bad, np.bincount(text, procs), np.bincount(text, n), np.bincount(text, n * gpus))


def _chunk(text: str, *, is_vnode: bool) -> tuple[int, int, int]:
    """How often a chunk is asked for (0: it is empty, -1: it is none), its processors (-1: it does not say), GPUs."""
    n, cpus, gpus = -1 if set(text) & {"(", ")"} else int(bool(text)), -1, 0
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


def _parts(words: pa.StringArray) -> tuple[Ints, Ints, Ints, pa.StringArray]:
    """The distinct texts' parts: each row's text (-1: null), the text of each part, its place in the distinct parts."""
    encoded = words.dictionary_encode()
    split = pc.split_pattern(encoded.dictionary, "+")
    parts = split.flatten().dictionary_encode()
    place = np.where(nulls(words), -1, integers(encoded.indices)[0])
    return place, integers(pc.list_parent_indices(split))[0], integers(parts.indices)[0], parts.dictionary


def _counts(place: Ints, is_bad: Bools, *told: Floats | Ints) -> Counts:
    """The rows' counts, from the processors, nodes and GPUs that the distinct texts tell."""
    invalid, is_null = np.append(is_bad, False)[place], place < 0
    values = (np.append(np.minimum(one, _MOST), 0.0)[place] for one in told)
    n_procs, n_nodes, n_gpus = (np.where(is_null | invalid, np.nan, one) for one in values)
    return Counts(n_procs, is_null | invalid, invalid, n_nodes, np.where(n_gpus > 0, n_gpus, np.nan))
