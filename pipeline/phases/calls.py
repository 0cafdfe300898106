"""The calls of an MPI trace: the functions by what they do, the checked table MPI_CALLS, and the reader of CSV traces.

A CSV has the columns rank, seq, op, peer, tag, count, bytes, t_start, t_end, and optionally communicator. `peer` is the
destination of a send, the source of a receive, the root of a rooted collective; `source>destination` for the request
that a wait completes, and for MPI_Sendrecv. Times are seconds. Gzip is known by content.
"""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from pipeline.arrays import CATEGORY, Bools, Ints, arrow, category_codes, integers, row_codes, unknown
from pipeline.errors import InputError, printable
from pipeline.phases.phase_input import UNREADABLE, header_of, open_plain
from pipeline.report import Report, Tally
from pipeline.tables import MPI_CALLS

SENDS = frozenset(
    f"MPI_{name}" for name in ("Send", "Ssend", "Bsend", "Rsend", "Isend", "Issend", "Ibsend", "Irsend")
)  # fmt: skip
"""A send counts at its call, also a non-blocking one."""

RECEIVES = frozenset(("MPI_Recv", "MPI_Mrecv"))
POSTED_RECEIVES = frozenset(("MPI_Irecv", "MPI_Imrecv"))
"""They count at the call that completes them."""

EXCHANGES = frozenset(("MPI_Sendrecv", "MPI_Sendrecv_replace"))
"""A send and a receive in one call."""

COMPLETES_ALL = frozenset(("MPI_Waitall", "MPI_Testall"))
"""They complete every open request of the rank, unless they name one: traces do not list their requests."""

POLLING = frozenset(("MPI_Test", "MPI_Testall", "MPI_Testany", "MPI_Testsome", "MPI_Iprobe", "MPI_Improbe"))
"""How often they find nothing depends on the machine, so that such calls are not counted."""

COMPLETES_ONE = frozenset(("MPI_Wait", "MPI_Test", "MPI_Waitany", "MPI_Testany", "MPI_Waitsome", "MPI_Testsome"))
"""They complete the request that they name as `source>destination`."""

_COLLECTIVES = (
    "Barrier", "Bcast", "Reduce", "Allreduce", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather", "Allgatherv",
    "Alltoall", "Alltoallv", "Alltoallw", "Reduce_scatter", "Reduce_scatter_block", "Scan", "Exscan",
)  # fmt: skip
_MANAGEMENT = ("Init", "Init_thread", "Finalize", "Comm_split", "Comm_dup", "Comm_create", "Cart_create", "Comm_free")
COLLECTIVES = frozenset(
    [f"MPI_{name}" for name in (*_COLLECTIVES, *_MANAGEMENT)] + [f"MPI_I{name.lower()}" for name in _COLLECTIVES]
)
"""All members of the communicator take part; a non-blocking one counts at its call."""

ROOTED = frozenset(
    f"MPI_{name}" for one in ("Bcast", "Reduce", "Gather", "Gatherv", "Scatter", "Scatterv")
    for name in (one, f"I{one.lower()}")
)  # fmt: skip

LAST_CALL = "MPI_Finalize"

UNKNOWN = -1
NO_TAG = -(2**62)
AGAIN = "record the trace again"


Ops = tuple[Ints, list[str]]
"""The function of each call as a code (-1: none), and the words of the codes."""


def numbers_of_calls(table: pa.Table, name: str, missing: int = UNKNOWN) -> Ints:
    """A column of whole numbers, `missing` where it is null."""
    values, is_null = integers(table.column(name))
    return np.where(is_null, missing, values)


def known(values: Ints, missing: int = UNKNOWN) -> pa.Array:
    """Whole numbers as an Arrow array, null where they are `missing`."""
    return arrow(values.astype(np.int64, copy=False), values == missing)


def of_functions(ops: Ops, names: frozenset[str]) -> Bools:
    """Which calls are of these functions."""
    code, words = ops
    return np.array([*(word in names for word in words), False], np.bool_)[code]


def nth_of_key(keys: Ints) -> Ints:
    """Per row how many rows before it have the same key."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    found = np.empty(len(keys), np.int64)
    found[order] = np.arange(len(keys)) - np.searchsorted(ordered, ordered, "left")
    return found


def pair_in_order(keys: Ints, others: Ints) -> Ints:
    """Per row of `keys` the row of `others` that is its pair: the j-th of a key with the j-th; -1: none."""
    # Sorted keys are found faster than keys in any order.
    order, other_order = np.argsort(keys, kind="stable"), np.argsort(others, kind="stable")
    ordered, other_ordered = keys[order], others[other_order]
    place = np.searchsorted(other_ordered, ordered, "left") + nth_of_key(ordered)
    is_pair = place < np.searchsorted(other_ordered, ordered, "right")
    found = np.full(len(keys), -1, np.int64)
    found[order[is_pair]] = other_order[place[is_pair]]
    return found


_AS_THEY_ARE = ("rank", "event", "op", "bytes", "communicator", "t_start_s", "t_end_s")


def calls_table(where: str, calls: pa.Table) -> tuple[pa.Table, Report]:
    """MPI_CALLS with a Report of ranks and calls, from the calls that a reader found, in any order.

    `calls` has the columns of MPI_CALLS, but in place of source, destination and root `first` and `second`: the ranks
    before and after the sign > of a peer. Without `completed_by`, waits say which receives they complete.
    InputError with rank and event where calls are missing, repeat, run backwards, or end before the other ranks' do.
    """
    if not calls.num_rows:
        raise InputError(where, "a trace without calls", "one line per MPI call", AGAIN)
    calls = _in_order(calls)
    ops = category_codes(calls, "op")
    _check_calls(where, calls, ops)
    is_send, is_exchange, is_rooted = (arrow(of_functions(ops, one)) for one in (SENDS, EXCHANGES, ROOTED))
    is_receive = arrow(of_functions(ops, RECEIVES | POSTED_RECEIVES | EXCHANGES))
    first, second, nobody = calls.column("first"), calls.column("second"), pa.scalar(None, pa.int64())
    is_done = "completed_by" in calls.column_names
    table = MPI_CALLS.build(
        **{name: calls.column(name) for name in _AS_THEY_ARE},
        source=pc.if_else(is_receive, first, nobody),
        destination=pc.if_else(is_send, first, pc.if_else(is_exchange, second, nobody)),
        root=pc.if_else(is_rooted, first, nobody),
        # A wait repeats the tag of its request, which not all formats know.
        tag=pc.if_else(pc.or_(is_send, is_receive), calls.column("tag"), nobody),
        completed_by=calls.column("completed_by") if is_done else known(completions(calls, ops)),
    )
    rows = Tally(table.num_rows)
    return table, Report("read_trace", "call", rows, rows, facts={"ranks": table.column("rank")[-1].as_py() + 1})


def _in_order(calls: pa.Table) -> pa.Table:
    """By rank and call; most traces are."""
    rank, event = (numbers_of_calls(calls, name) for name in ("rank", "event"))
    steps = np.diff(rank)
    if ((steps > 0) | ((steps == 0) & (np.diff(event) > 0))).all():
        return calls
    return calls.unify_dictionaries().take(arrow(np.lexsort((event, rank))))


def _check_calls(where: str, calls: pa.Table, ops: Ops) -> None:
    """InputError for the first call that is missing, repeated, or runs backwards, and for a rank that ends early."""

    def refuse(is_wrong: Bools, expected: Callable[[int], str], do: str = AGAIN) -> None:
        if is_wrong.any():
            row = int(np.argmax(is_wrong))
            op = printable(ops[1][ops[0][row]], 60) if ops[0][row] >= 0 else "a call without a function"
            found = f"{op} from {start_s[row]:.9g} to {end_s[row]:.9g} s"
            raise InputError(f"{where}, rank {rank[row]}, event {event[row]}", found, expected(row), do)

    rank, event = (numbers_of_calls(calls, name) for name in ("rank", "event"))
    start_s, end_s = (calls.column(name).to_numpy() for name in ("t_start_s", "t_end_s"))
    is_first = np.r_[True, np.diff(rank) > 0]
    starts = np.flatnonzero(is_first)
    expected = np.arange(len(rank)) - starts[np.cumsum(is_first) - 1]
    refuse(event != expected, lambda row: f"event {expected[row]}", "is a call missing or repeated?")
    refuse(ops[0] == UNKNOWN, lambda _: "an MPI function")
    missing = np.flatnonzero(rank[starts] != np.arange(len(starts)))
    if len(missing):
        raise InputError(where, f"no call of rank {missing[0]}", f"calls of all ranks up to {rank[-1]}", AGAIN)
    refuse(~np.isfinite(start_s) | ~np.isfinite(end_s) | (end_s < start_s), lambda _: "an end after its start")
    # Recorders round times, so that a call may start a microsecond before the last one ends.
    is_early = ~is_first & (start_s < np.r_[-np.inf, end_s[:-1]] - 1e-6)
    refuse(is_early, lambda _: "a start after the end of the call before")
    is_last, is_final = np.r_[is_first[1:], True], of_functions(ops, frozenset((LAST_CALL,)))
    # A rank without MPI_Finalize is cut, where another one has it.
    has_end = (is_last & is_final).any()
    refuse(is_last & ~is_final & has_end, lambda _: f"{LAST_CALL} as the last call, as on other ranks")


def completions(calls: pa.Table, ops: Ops) -> Ints:
    """Per posted receive the event number of the call that completes it; UNKNOWN for other calls, and for those that
    no call completes.

    A wait that names `source>destination` completes the oldest open receive of that source and tag; one that names
    nothing completes all that are open.
    """
    rank, event, first, second = (numbers_of_calls(calls, name) for name in ("rank", "event", "first", "second"))
    tag, found = numbers_of_calls(calls, "tag", NO_TAG), np.full(len(rank), UNKNOWN)
    posted = np.flatnonzero(of_functions(ops, POSTED_RECEIVES))
    closes = of_functions(ops, COMPLETES_ALL) & (first == UNKNOWN)
    # No receive is open after such a call, so that a receive and its wait have the same number of them before.
    epoch = np.cumsum(closes)
    names_own = of_functions(ops, COMPLETES_ONE | COMPLETES_ALL) & (second == rank) & (first != UNKNOWN)
    waits = np.flatnonzero(names_own)
    both = np.concatenate([posted, waits])
    keys = row_codes(rank[both], epoch[both], first[both], tag[both])
    pair = pair_in_order(keys[: len(posted)], keys[len(posted) :])
    wait = waits[pair] if len(waits) else np.zeros(len(posted), np.int64)
    is_open = (pair < 0) | (wait < posted)
    found[posted[~is_open]] = event[wait[~is_open]]
    left, ends = posted[is_open], np.flatnonzero(closes)
    closing = np.append(ends, 0)[np.searchsorted(ends, left)]
    is_closed = (closing > left) & (rank[closing] == rank[left])
    found[left[is_closed]] = event[closing[is_closed]]
    return found


TYPES = {
    "rank": pa.int64(), "seq": pa.int64(), "op": CATEGORY, "peer": CATEGORY, "tag": pa.int64(), "bytes": pa.int64(),
    "t_start": pa.float64(), "t_end": pa.float64(), "communicator": CATEGORY,
}  # fmt: skip
NEEDED = tuple(name for name in TYPES if name != "communicator")
_PARSED: dict[str, Callable[[str], Any]] = {
    name: int if kind == pa.int64() else float for name, kind in TYPES.items() if kind != CATEGORY
}
_EMPTY_ALLOWED = ("tag", "bytes")
MOST_RANKS = 2**31


def is_csv_trace(path: Path) -> bool:
    """Whether the file's first line names the columns of a trace."""
    return {"rank", "seq", "op"} <= set(header_of(path))


def read_csv_trace(path: Path) -> tuple[pa.Table, Report]:
    """MPI_CALLS of a CSV trace, in s; InputError with rank and event where a row is damaged or the trace is cut."""
    where = printable(path.name, 200)
    try:
        with open_plain(path) as source:
            table = _parsed(source, where)
    except (pa.ArrowInvalid, *UNREADABLE) as error:
        raise _damage(path, where, error) from None
    peer, peers = category_codes(table, "peer")
    # The last row is that of no peer, which has the code -1. Many requests name few peers: each is read once.
    ranks = np.array([*(_ranks(where, text) for text in peers), (UNKNOWN, UNKNOWN)], np.int64)[peer]
    named = "communicator" in table.column_names
    return calls_table(where, pa.table({
        "rank": table["rank"], "event": table["seq"], "op": table["op"], "first": known(ranks[:, 0]),
        "second": known(ranks[:, 1]), "tag": table["tag"], "bytes": known(numbers_of_calls(table, "bytes")),
        "communicator": table["communicator"] if named else unknown(table.num_rows, CATEGORY),
        "t_start_s": table["t_start"], "t_end_s": table["t_end"],
    }))  # fmt: skip


def _ranks(where: str, text: str) -> tuple[int, int]:
    """The ranks of `3`, or of `3>5`; a negative one stands for any rank."""
    before, _, after = text.partition(">")
    try:
        found = max(int(before), UNKNOWN), max(int(after), UNKNOWN) if after else UNKNOWN
    except ValueError:
        found = (MOST_RANKS, UNKNOWN)
    if max(found) >= MOST_RANKS:
        raise InputError(where, f"peer {printable(text, 60)}", "a rank, or source>destination")
    return found


class _LastByte(io.RawIOBase):
    """A stream that knows its last byte: a line without an end may be cut within a number."""

    def __init__(self, source: BinaryIO) -> None:
        self._source, self.last = source, b"\n"

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        found = self._source.read(size)
        self.last = found[-1:] or self.last
        return found


def _parsed(source: BinaryIO, where: str) -> pa.Table:
    watched = _LastByte(source)
    names = [name.strip() for name in source.readline().decode("utf-8-sig", "replace").strip().split(",")]
    if missing := [name for name in NEEDED if name not in names]:
        raise InputError(where, f"no column {printable(', '.join(missing))}", f"the columns {','.join(NEEDED)}")
    types = {name: kind for name, kind in TYPES.items() if name in names}
    read = pa.csv.ReadOptions(column_names=names, block_size=1 << 24)
    convert = pa.csv.ConvertOptions(
        include_columns=list(types), column_types=types, null_values=[""], strings_can_be_null=True
    )
    table = pa.csv.read_csv(watched, read_options=read, convert_options=convert)
    if watched.last != b"\n":
        raise pa.ArrowInvalid("the last line has no end")
    if any(table.column(name).null_count for name in _PARSED if name not in _EMPTY_ALLOWED):
        raise pa.ArrowInvalid("a number is missing")
    return table


def _damage(path: Path, where: str, error: Exception) -> InputError:
    """The first damaged place of a trace, in a sentence with rank and event."""

    def said(found: str, expected: str) -> InputError:
        place = f"{where}, after rank {printable(last['rank'], 20)}, event {printable(last['seq'], 20)}"
        return InputError(place, found, expected, AGAIN)

    last, names = {"rank": "none", "seq": "none"}, header_of(path)
    try:
        with open_plain(path) as source:
            source.readline()
            for line in source:
                fields = next(csv.reader([line.decode("utf-8", "backslashreplace").rstrip("\r\n")]), [])
                row = dict(zip(names, fields, strict=False))
                if len(fields) != len(names) or not line.endswith(b"\n"):
                    end = "" if line.endswith(b"\n") else " without a line end"
                    return said(f"a line of {len(fields)} values{end}", f"{len(names)} values and a line end")
                if wrong := next((name for name in _PARSED if name in row and not _fits(name, row[name])), None):
                    return said(f"{wrong} {printable(row[wrong], 60) or 'empty'}", "a number")
                last = row
    except UNREADABLE as cut:
        error = cut
    return said(f"an unreadable file ({printable(str(error), 100)})", "a complete trace")


def _fits(name: str, text: str) -> bool:
    value: Any
    try:
        value = _PARSED[name](text)
    except ValueError:
        return name in _EMPTY_ALLOWED and not text
    return bool(abs(value) < 2**63)
