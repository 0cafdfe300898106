"""The communication events of a trace: sends, receives and collectives, and who waits for whom."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.buffers import integers
from pipeline.core.errors import InputError
from pipeline.phases.pas2p.kernels import COLLECTIVE, RECEIVE, SEND
from pipeline.phases.readers import functions
from pipeline.phases.readers.keyed_pairs import packed, pair_in_order

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Events:
    """The events in order of rank and program; `row` is the call in the table, `call` its place in the rank.

    `partner` is as `logical_times` reads it, `members` the size of each collective instance. `n_unmatched` counts
    sends and receives without the other side, `n_open` receives that no call completes.
    """

    rank: Ints
    row: Ints
    call: Ints
    kind: Ints
    op: Ints
    peer: Ints
    tag: Ints
    size: Ints
    communicator: Ints
    partner: Ints
    members: Ints
    starts: Ints
    n_unmatched: int
    n_open: int

    def __len__(self) -> int:
        return len(self.rank)


def find_events(calls: pa.Table) -> Events:
    """The events of MPI_CALLS. InputError where ranks disagree on a collective."""
    names = ("rank", "event", "source", "destination", "root", "tag", "bytes")
    columns = {name: _numbers(calls, name) for name in names}
    op, ops = _codes(calls, "op")
    communicator, _ = _codes(calls, "communicator")
    completed_by = _numbers(calls, "completed_by")
    first_row = np.searchsorted(columns["rank"], np.arange(int(columns["rank"][-1]) + 2))

    def rows_of(names: frozenset[str]) -> Ints:
        return np.flatnonzero(np.array([one in names for one in ops], np.bool_)[op])

    sends = rows_of(functions.SENDS | functions.EXCHANGES)
    posted = rows_of(functions.POSTED_RECEIVES)
    is_done = completed_by[posted] >= 0
    receives = np.sort(np.concatenate([rows_of(functions.RECEIVES | functions.EXCHANGES), posted[is_done]]))
    collectives = rows_of(functions.COLLECTIVES)
    row = np.concatenate([sends, collectives, receives])
    kind = np.repeat(np.array([SEND, COLLECTIVE, RECEIVE]), [len(sends), len(collectives), len(receives)])
    rank = columns["rank"][row]
    call = np.where((kind == RECEIVE) & (completed_by[row] >= 0), completed_by[row], columns["event"][row])
    peer = np.where(kind == SEND, columns["destination"][row], columns["source"][row])
    peer = np.where(kind == COLLECTIVE, columns["root"][row], peer)
    order = _program_order(2 * (first_row[rank] + call) + (kind == RECEIVE), peer, columns["tag"][row], row)
    place = np.empty(len(row), np.int64)
    place[order] = np.arange(len(row))

    n_sends, n_collectives = len(sends), len(collectives)
    partner = np.full(len(row), -1, np.int64)
    pair = _pairs(columns, communicator, sends, receives)
    at_receive, is_pair = n_sends + n_collectives + np.arange(len(receives)), pair >= 0
    partner[at_receive[is_pair]] = place[pair[is_pair]]
    partner[pair[is_pair]] = place[at_receive[is_pair]]
    instance, members = _instances(calls, columns["rank"], op, ops, communicator, collectives)
    partner[n_sends : n_sends + n_collectives] = instance
    rank = rank[order]
    starts = np.searchsorted(rank, np.arange(len(first_row)))
    n_unmatched = n_sends + len(receives) - 2 * int(is_pair.sum())
    return Events(
        rank, row[order], call[order], kind[order], op[row][order], peer[order], columns["tag"][row][order],
        columns["bytes"][row][order], communicator[row][order], partner[order], members, starts, n_unmatched,
        int((~is_done).sum()),
    )  # fmt: skip


def _program_order(moment: Ints, peer: Ints, tag: Ints, row: Ints) -> Ints:
    """By moment; several receives completed by one call by source, tag and posting."""
    order = np.argsort(moment, kind="stable")
    ordered = moment[order]
    same = np.r_[False, ordered[1:] == ordered[:-1]]
    same[:-1] |= same[1:]
    tied = np.flatnonzero(same)
    some = order[tied]
    order[tied] = some[np.lexsort((row[some], tag[some], peer[some], moment[some]))]
    return order


def _pairs(columns: dict[str, Ints], communicator: Ints, sends: Ints, receives: Ints) -> Ints:
    """Per receive its send, as a place in `sends`: the j-th of a source, destination, tag and communicator."""
    rank, both = columns["rank"], np.concatenate([sends, receives])
    source = np.concatenate([rank[sends], columns["source"][receives]])
    destination = np.concatenate([columns["destination"][sends], rank[receives]])
    keys = packed(source, destination, columns["tag"][both], communicator[both])
    # A receive or a send that names nobody is not guessed.
    keys = np.where((source < 0) | (destination < 0), -1 - (np.arange(len(both)) >= len(sends)), keys)
    return pair_in_order(keys[len(sends) :], keys[: len(sends)])


def _instances(
    calls: pa.Table, rank: Ints, op: Ints, ops: list[str], communicator: Ints, rows: Ints
) -> tuple[Ints, Ints]:
    """Per collective its instance, and the number of members per instance: the j-th of each rank on a communicator."""
    if not len(rows):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    key = packed(communicator[rows], rank[rows])
    order = np.argsort(key, kind="stable")
    nth = np.empty(len(rows), np.int64)
    nth[order] = np.arange(len(rows)) - np.searchsorted(key[order], key[order], "left")
    _, first, instance = np.unique(packed(communicator[rows], nth), return_index=True, return_inverse=True)
    differs = op[rows] != op[rows[first[instance]]]
    n_ranks = np.bincount(instance)
    if differs.any():
        row, other = rows[np.argmax(differs)], rows[first[instance[np.argmax(differs)]]]
        raise InputError(
            f"the trace, rank {rank[row]}, event {calls.column('event')[int(row)]}",
            ops[op[row]], f"{ops[op[other]]}, as rank {rank[other]} at event {calls.column('event')[int(other)]}",
            "record the trace again, with a column communicator where the program splits communicators",
        )  # fmt: skip
    return instance.astype(np.int64), n_ranks.astype(np.int64)


def _numbers(calls: pa.Table, name: str) -> Ints:
    values, is_null = integers(calls.column(name))
    return np.where(is_null, -1, values)


def _codes(calls: pa.Table, name: str) -> tuple[Ints, list[str]]:
    column = calls.column(name).unify_dictionaries().combine_chunks()
    array = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    values, is_null = integers(array.indices)
    return np.where(is_null, -1, values).astype(np.int64), array.dictionary.to_pylist()
