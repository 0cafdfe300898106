"""The calls of a trace: MPI functions by what they do, columns of calls as arrays, and the checked table MPI_CALLS."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.arrays import CATEGORY, Bools, Floats, Ints, arrow, category_codes, integers
from pipeline.errors import InputError, printable
from pipeline.phase_tables import MPI_CALLS
from pipeline.report import Report, Tally

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
MOST_RANKS = 2**31
AGAIN = "record the trace again"


@dataclass(frozen=True)
class CallColumns:
    """One value per call; UNKNOWN (NO_TAG for tags) where a trace names none. `ops` and `communicators` are the words
    of the codes `op` and `communicator`; `first` and `second` are the ranks before and after the sign > of a peer."""

    where: str
    rank: Ints
    event: Ints
    op: Ints
    ops: tuple[str, ...]
    first: Ints
    second: Ints
    tag: Ints
    size: Ints
    communicator: Ints
    communicators: tuple[str, ...]
    t_start_s: Floats
    t_end_s: Floats

    @classmethod
    def of_csv(cls, where: str, table: pa.Table) -> Self:
        """The columns of a CSV in order of rank and call; InputError where a peer is no rank."""
        op, ops = category_codes(table, "op")
        peer, peers = category_codes(table, "peer")
        has_communicators = "communicator" in table.column_names
        unnamed: tuple[Ints, list[str]] = (np.full(table.num_rows, UNKNOWN), [])
        communicator, communicators = category_codes(table, "communicator") if has_communicators else unnamed
        # The last row is that of no peer, which has the code -1. Many requests name few peers: each is read once.
        ends = np.array([*(_ranks(where, text) for text in peers), (UNKNOWN, UNKNOWN)], np.int64)
        rank, event, tag, size = (
            numbers_of_calls(table, *one) for one in (("rank",), ("seq",), ("tag", NO_TAG), ("bytes",))
        )
        return cls(
            where, rank, event, op, tuple(ops), ends[peer, 0], ends[peer, 1], tag, size, communicator,
            tuple(communicators), table.column("t_start").to_numpy(), table.column("t_end").to_numpy(),
        )._in_order()  # fmt: skip

    def _in_order(self) -> Self:
        steps = np.diff(self.rank)
        if ((steps > 0) | ((steps == 0) & (np.diff(self.event) > 0))).all():
            return self
        order = np.lexsort((self.event, self.rank))
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        sorted_ones = {name: one[order] for name, one in values.items() if isinstance(one, np.ndarray)}
        return type(self)(**values | sorted_ones)

    def is_op(self, names: frozenset[str] | tuple[str, ...]) -> Bools:
        """Which calls are of these functions."""
        chosen = np.array([name in names for name in self.ops], np.bool_)
        return chosen[self.op]


def numbers_of_calls(table: pa.Table, name: str, missing: int = UNKNOWN) -> Ints:
    """A column of whole numbers, `missing` where it is null."""
    values, is_null = integers(table.column(name))
    return np.where(is_null, missing, values)


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


def packed(*columns: Ints) -> Ints:
    """One number per row, equal where all columns are equal; columns may be negative."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes = _small(column)
        key = key * (int(codes.max(initial=0)) + 1) + codes
        if key.size and int(key.max()) > 2**40:
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
    return key


def _small(column: Ints) -> Ints:
    least = int(column.min(initial=0))
    if int(column.max(initial=0)) - least < 2**22:
        return column - least
    return np.unique(column, return_inverse=True)[1].astype(np.int64)


def nth_of_key(keys: Ints) -> Ints:
    """Per row how many rows before it have the same key."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    found = np.empty(len(keys), np.int64)
    found[order] = np.arange(len(keys)) - np.searchsorted(ordered, ordered, "left")
    return found


def by_first_appearance(values: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """The row of the first of every different value, ascending, and per row the place of its value among them."""
    _, first, same = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(first), np.int64)
    place[order] = np.arange(len(first))
    return first[order], place[same]


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


def calls_table(calls: CallColumns, completed_by: Ints | None = None) -> tuple[pa.Table, Report]:
    """MPI_CALLS with a Report of ranks and calls.

    `completed_by`, where known, is an event number per receive (-1: none).
    InputError with rank and event where calls are missing, repeat, run backwards, or end before the other ranks' do.
    """
    check_calls(calls)
    if completed_by is None:
        completed_by = completions(calls)
    is_send = calls.is_op(SENDS)
    is_receive = calls.is_op(RECEIVES | POSTED_RECEIVES)
    is_exchange = calls.is_op(EXCHANGES)
    nobody = np.full(len(calls.rank), UNKNOWN)
    # A wait repeats the tag of its request, which not all formats know.
    tag = np.where(is_send | is_receive | is_exchange, calls.tag, NO_TAG)
    destination = np.where(is_send, calls.first, np.where(is_exchange, calls.second, nobody))
    source = np.where(is_receive | is_exchange, calls.first, nobody)
    table = MPI_CALLS.build(
        rank=arrow(calls.rank), event=arrow(calls.event), op=_words(calls.op, calls.ops),
        source=_known(source), destination=_known(destination),
        root=_known(np.where(calls.is_op(ROOTED), calls.first, nobody)),
        tag=arrow(tag, tag == NO_TAG), bytes=_known(calls.size),
        communicator=_words(calls.communicator, calls.communicators),
        completed_by=_known(completed_by), t_start_s=arrow(calls.t_start_s), t_end_s=arrow(calls.t_end_s),
    )  # fmt: skip
    rows = Tally(table.num_rows)
    return table, Report("read_trace", "call", rows, rows, facts={"ranks": int(calls.rank[-1]) + 1})


def check_calls(calls: CallColumns) -> None:
    """InputError for the first call that is missing, repeated, or runs backwards, and for a rank that ends early."""
    if len(calls.rank) == 0:
        raise InputError(calls.where, "a trace without calls", "one line per MPI call", AGAIN)
    starts = np.flatnonzero(np.r_[True, np.diff(calls.rank) > 0])
    lengths = np.diff(np.r_[starts, len(calls.rank)])
    expected = np.arange(len(calls.rank)) - np.repeat(starts, lengths)
    _refuse(calls, calls.event != expected, lambda row: f"event {expected[row]}", "is a call missing or repeated?")
    _refuse(calls, calls.op == UNKNOWN, lambda _: "an MPI function")
    ranks = calls.rank[starts]
    if (ranks != np.arange(len(ranks))).any():
        missing = int(np.flatnonzero(ranks != np.arange(len(ranks)))[0])
        raise InputError(calls.where, f"no call of rank {missing}", f"calls of all ranks up to {ranks[-1]}", AGAIN)
    finite = np.isfinite(calls.t_start_s) & np.isfinite(calls.t_end_s)
    _refuse(calls, ~finite | (calls.t_end_s < calls.t_start_s), lambda _: "an end after its start")
    before = np.r_[-np.inf, calls.t_end_s[:-1]]
    before[starts] = -np.inf
    # Recorders round times, so that a call may start a microsecond before the last one ends.
    _refuse(calls, calls.t_start_s < before - 1e-6, lambda _: "a start after the end of the call before")
    _check_ends(calls, starts + lengths - 1)


def _check_ends(calls: CallColumns, last: Ints) -> None:
    """A rank without MPI_Finalize is cut, where another one has it."""
    is_final = np.zeros(len(calls.rank), np.bool_)
    is_final[last] = calls.is_op((LAST_CALL,))[last]
    if is_final.any():
        cut = np.zeros(len(calls.rank), np.bool_)
        cut[last] = ~is_final[last]
        _refuse(calls, cut, lambda _: f"{LAST_CALL} as the last call, as on other ranks")


def _refuse(calls: CallColumns, is_wrong: Bools, expected: Callable[[int], str], do: str = AGAIN) -> None:
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        op = printable(calls.ops[calls.op[row]], 60) if calls.op[row] >= 0 else "a call without a function"
        found = f"{op} from {calls.t_start_s[row]:.9g} to {calls.t_end_s[row]:.9g} s"
        raise InputError(f"{calls.where}, rank {calls.rank[row]}, event {calls.event[row]}", found, expected(row), do)


def completions(calls: CallColumns) -> Ints:
    """Per posted receive the event number of the call that completes it; UNKNOWN for other calls, and for those that
    no call completes.

    A wait that names `source>destination` completes the oldest open receive of that source and tag; one that names
    nothing completes all that are open.
    """
    found = np.full(len(calls.rank), UNKNOWN)
    posted = np.flatnonzero(calls.is_op(POSTED_RECEIVES))
    closes = calls.is_op(COMPLETES_ALL) & (calls.first == UNKNOWN)
    # No receive is open after such a call, so that a receive and its wait have the same number of them before.
    epoch = np.cumsum(closes)
    is_one = calls.is_op(COMPLETES_ONE | COMPLETES_ALL) & (calls.second == calls.rank)
    waits = np.flatnonzero(is_one & (calls.first != UNKNOWN))
    both = np.concatenate([posted, waits])
    keys = packed(calls.rank[both], epoch[both], calls.first[both], calls.tag[both])
    pair = pair_in_order(keys[: len(posted)], keys[len(posted) :])
    is_open = pair < 0
    wait = waits[pair] if len(waits) else np.zeros(len(posted), np.int64)
    is_open |= wait < posted
    found[posted[~is_open]] = calls.event[wait[~is_open]]
    left, ends = posted[is_open], np.flatnonzero(closes)
    place = np.searchsorted(ends, left)
    inside = place < len(ends)
    left, closing = left[inside], ends[place[inside]]
    same = calls.rank[left] == calls.rank[closing]
    found[left[same]] = calls.event[closing[same]]
    return found


def _known(values: Ints) -> pa.Array:
    return arrow(values.astype(np.int64, copy=False), values == UNKNOWN)


def _words(codes: Ints, words: tuple[str, ...]) -> pa.Array:
    indices = pa.array(codes.astype(np.int32), pa.int32(), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string())).cast(CATEGORY)
