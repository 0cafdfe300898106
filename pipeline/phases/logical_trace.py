"""The events of a trace (sends, receives, collectives, who waits for whom), and the logical clock that orders them."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.arrays import Ints, category_codes
from pipeline.errors import InputError
from pipeline.kernels import entry_kernel
from pipeline.phases.mpi_calls import (
    COLLECTIVES,
    EXCHANGES,
    POSTED_RECEIVES,
    RECEIVES,
    SENDS,
    nth_of_key,
    numbers_of_calls,
    packed,
    pair_in_order,
)
from pipeline.phases.phase_input import Pas2pRules

SEND, RECEIVE, COLLECTIVE = 0, 1, 2


@entry_kernel
def logical_times(starts: Ints, kinds: Ints, partners: Ints, missing: Ints, in_order: bool) -> Ints:
    """Per event its logical time, from 0; -1 where the event waits for one that never comes.

    `starts` are the first events of the ranks, and the number of events; `partners` the send of a receive (-1: none),
    the receive of a send, the instance of a collective; `missing` the members of each instance. Without `in_order` a
    receive is at its send's time + 1, even where its rank has been further.
    """
    n_ranks = len(starts) - 1
    times = np.full(len(kinds), -1, np.int64)
    latest = np.full(n_ranks, -1, np.int64)
    at = starts[:-1].copy()
    instance_time = np.zeros(len(missing), np.int64)
    has_come = np.zeros(len(kinds), np.bool_)
    # Ranks that wait for an instance form a chain: the last one came first.
    chain_end = np.full(len(missing), -1, np.int64)
    chained = np.full(n_ranks, -1, np.int64)
    ready = np.arange(n_ranks - 1, -1, -1)
    n_ready = n_ranks
    rank_of = np.empty(len(kinds), np.int64)
    for rank in range(n_ranks):
        rank_of[starts[rank] : starts[rank + 1]] = rank
    while n_ready:
        n_ready -= 1
        rank = ready[n_ready]
        while at[rank] < starts[rank + 1]:
            event = at[rank]
            partner = partners[event]
            time = latest[rank] + 1
            if kinds[event] == RECEIVE and partner >= 0:
                if times[partner] < 0:
                    break
                time = max(times[partner] + 1, time) if in_order else times[partner] + 1
            elif kinds[event] == COLLECTIVE:
                if not has_come[event]:
                    has_come[event] = True
                    missing[partner] -= 1
                    instance_time[partner] = max(instance_time[partner], time)
                    if missing[partner]:
                        chained[rank] = chain_end[partner]
                        chain_end[partner] = rank
                        break
                    while chain_end[partner] >= 0:
                        ready[n_ready] = chain_end[partner]
                        chain_end[partner] = chained[chain_end[partner]]
                        n_ready += 1
                time = instance_time[partner]
            times[event] = time
            latest[rank] = max(latest[rank], time) if in_order else time
            at[rank] += 1
            if kinds[event] == SEND and partner >= 0:
                other = rank_of[partner]
                if other != rank and at[other] == partner:
                    ready[n_ready] = other
                    n_ready += 1
    return times


@entry_kernel
def grown_phases(starts: Ints, codes: Ints, n_codes: int) -> Ints:
    """The first ticks of all phases, and the number of ticks.

    `starts` are the first events of the ticks, and the number of events; `codes` hold rank and type of each event. A
    phase grows until a code repeats. Where the repeated event is not in the first tick, the phase ends before it, and
    what follows is a second phase (Section 3.3, steps 2 to 4).
    """
    n_ticks = len(starts) - 1
    seen = np.full(n_codes, -1, np.int64)
    cuts = np.empty(2 * n_ticks + 2, np.int64)
    cuts[0] = 0
    n_cuts = 1
    begin = 0
    for tick in range(n_ticks):
        first = n_ticks
        for event in range(starts[tick], starts[tick + 1]):
            if seen[codes[event]] >= begin:
                first = min(first, seen[codes[event]])
        if first < n_ticks:
            if first > begin:
                cuts[n_cuts] = first
                n_cuts += 1
            cuts[n_cuts] = tick
            n_cuts += 1
            begin = tick
        for event in range(starts[tick], starts[tick + 1]):
            seen[codes[event]] = tick
    cuts[n_cuts] = n_ticks
    return cuts[: n_cuts + 1]


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
    columns = {name: numbers_of_calls(calls, name) for name in names}
    op, ops = category_codes(calls, "op")
    communicator, _ = category_codes(calls, "communicator")
    completed_by = numbers_of_calls(calls, "completed_by")
    first_row = np.searchsorted(columns["rank"], np.arange(int(columns["rank"][-1]) + 2))

    def rows_of(names: frozenset[str]) -> Ints:
        return np.flatnonzero(np.array([one in names for one in ops], np.bool_)[op])

    sends = rows_of(SENDS | EXCHANGES)
    posted = rows_of(POSTED_RECEIVES)
    is_done = completed_by[posted] >= 0
    receives = np.sort(np.concatenate([rows_of(RECEIVES | EXCHANGES), posted[is_done]]))
    collectives = rows_of(COLLECTIVES)
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
    nth = nth_of_key(packed(communicator[rows], rank[rows]))
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


@dataclass(frozen=True, slots=True)
class LogicalTrace:
    """Events in order of tick and rank: `event` is their place in Events, `starts` the first one of each tick.

    `code` is the same for events of the same rank and type, below `n_codes`; `kind` is the type alone.
    """

    event: Ints
    starts: Ints
    code: Ints
    n_codes: int

    @property
    def n_ticks(self) -> int:
        """The number of ticks."""
        return len(self.starts) - 1


def logical_trace(calls: pa.Table, events: Events, rules: Pas2pRules) -> LogicalTrace:
    """Put the events at their ticks; InputError where an event waits for one that never comes."""
    times = logical_times(events.starts, events.kind, events.partner, events.members.copy(), rules.program_order)
    stuck = times < 0
    if stuck.any():
        one = int(np.argmax(stuck))
        op = calls.column("op")[int(events.row[one])]
        raise InputError(
            f"the trace, rank {events.rank[one]}, event {events.call[one]}", f"{op}, which never completes",
            "its sender or the other members of its communicator to get there",
            "record the trace again, with a column communicator where the program splits communicators",
        )  # fmt: skip
    ticks = _split(times, events.rank)
    order = np.lexsort((events.rank, ticks))
    starts = np.searchsorted(ticks[order], np.arange(int(ticks.max(initial=-1)) + 2))
    code = packed(events.rank, _types(events, rules))[order]
    return LogicalTrace(order, starts, code, int(code.max(initial=-1)) + 1)


def _split(times: Ints, rank: Ints) -> Ints:
    """Ticks without gaps: a time at which a rank has several events becomes several ticks."""
    n_ranks = int(rank.max(initial=0)) + 1
    nth = nth_of_key(times * n_ranks + rank)
    widths = np.zeros(int(times.max(initial=-1)) + 1, np.int64)
    np.maximum.at(widths, times, nth + 1)
    return (np.cumsum(widths) - widths)[times] + nth


def _types(events: Events, rules: Pas2pRules) -> Ints:
    """The type of each event: its function, peer, bytes and tag, or as the paper has it."""
    if rules.sign_and_count_type:
        count = np.ones(len(events), np.int64)
        is_collective = events.kind == COLLECTIVE
        count[is_collective] = events.members[events.partner[is_collective]]
        # A collective is in the paper the same as a send to all.
        return packed(np.where(events.kind == SEND, 1, np.where(is_collective, 1, 0)), count, events.size)
    return packed(events.op, events.kind, events.peer, events.size, events.tag, events.communicator)
