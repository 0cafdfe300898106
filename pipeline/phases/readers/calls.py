"""From the columns of a trace to the checked table MPI_CALLS: order, completions, ends."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.buffers import arrow
from pipeline.core.column import CATEGORY
from pipeline.core.errors import InputError
from pipeline.core.phase_tables import MPI_CALLS
from pipeline.core.report import Report, Tally
from pipeline.core.text import printable
from pipeline.phases.readers import functions
from pipeline.phases.readers.call_columns import NO_TAG, UNKNOWN, CallColumns, Ints
from pipeline.phases.readers.keyed_pairs import packed, pair_in_order

_AGAIN = "record the trace again"


def calls_table(calls: CallColumns, completed_by: Ints | None = None) -> tuple[pa.Table, Report]:
    """MPI_CALLS with a Report of ranks and calls.

    `completed_by`, where known, is an event number per receive (-1: none).
    InputError with rank and event where calls are missing, repeat, run backwards, or end before the other ranks' do.
    """
    check_calls(calls)
    if completed_by is None:
        completed_by = completions(calls)
    is_send = calls.is_op(functions.SENDS)
    is_receive = calls.is_op(functions.RECEIVES | functions.POSTED_RECEIVES)
    is_exchange = calls.is_op(functions.EXCHANGES)
    nobody = np.full(len(calls.rank), UNKNOWN)
    # A wait repeats the tag of its request, which not all formats know.
    tag = np.where(is_send | is_receive | is_exchange, calls.tag, NO_TAG)
    destination = np.where(is_send, calls.first, np.where(is_exchange, calls.second, nobody))
    source = np.where(is_receive | is_exchange, calls.first, nobody)
    table = MPI_CALLS.build(
        rank=arrow(calls.rank), event=arrow(calls.event), op=_words(calls.op, calls.ops),
        source=_known(source), destination=_known(destination),
        root=_known(np.where(calls.is_op(functions.ROOTED), calls.first, nobody)),
        tag=arrow(tag, tag == NO_TAG), bytes=_known(calls.size),
        communicator=_words(calls.communicator, calls.communicators),
        completed_by=_known(completed_by), t_start_s=arrow(calls.t_start_s), t_end_s=arrow(calls.t_end_s),
    )  # fmt: skip
    rows = Tally(table.num_rows)
    return table, Report("read_trace", "call", rows, rows, facts={"ranks": int(calls.rank[-1]) + 1})


def check_calls(calls: CallColumns) -> None:
    """InputError for the first call that is missing, repeated, or runs backwards, and for a rank that ends early."""
    if len(calls.rank) == 0:
        raise InputError(calls.where, "a trace without calls", "one line per MPI call", _AGAIN)
    starts = np.flatnonzero(np.r_[True, np.diff(calls.rank) > 0])
    lengths = np.diff(np.r_[starts, len(calls.rank)])
    expected = np.arange(len(calls.rank)) - np.repeat(starts, lengths)
    _refuse(calls, calls.event != expected, lambda row: f"event {expected[row]}", "is a call missing or repeated?")
    _refuse(calls, calls.op == UNKNOWN, lambda _: "an MPI function")
    ranks = calls.rank[starts]
    if (ranks != np.arange(len(ranks))).any():
        missing = int(np.flatnonzero(ranks != np.arange(len(ranks)))[0])
        raise InputError(calls.where, f"no call of rank {missing}", f"calls of all ranks up to {ranks[-1]}", _AGAIN)
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
    is_final[last] = calls.is_op((functions.LAST_CALL,))[last]
    if is_final.any():
        cut = np.zeros(len(calls.rank), np.bool_)
        cut[last] = ~is_final[last]
        _refuse(calls, cut, lambda _: f"{functions.LAST_CALL} as the last call, as on other ranks")


def _refuse(calls: CallColumns, is_wrong: npt.NDArray[np.bool_], expected, do: str = _AGAIN) -> None:  # type: ignore[no-untyped-def]
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
    posted = np.flatnonzero(calls.is_op(functions.POSTED_RECEIVES))
    closes = calls.is_op(functions.COMPLETES_ALL) & (calls.first == UNKNOWN)
    # No receive is open after such a call, so that a receive and its wait have the same number of them before.
    epoch = np.cumsum(closes)
    is_one = calls.is_op(functions.COMPLETES_ONE | functions.COMPLETES_ALL) & (calls.second == calls.rank)
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


def _words(codes: npt.NDArray[np.int32], words: tuple[str, ...]) -> pa.Array:
    indices = pa.array(codes, pa.int32(), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string())).cast(CATEGORY)
