"""The events of a trace (sends, receives, collectives, who waits for whom), and the logical clock that orders them."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.arrays import Floats, Ints, category_codes, row_codes
from pipeline.errors import InputError
from pipeline.kernels import entry_kernel
from pipeline.phases.calls import (
    AGAIN,
    COLLECTIVES,
    EXCHANGES,
    POSTED_RECEIVES,
    RECEIVES,
    SENDS,
    nth_of_key,
    numbers_of_calls,
    of_functions,
    pair_in_order,
)

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

    `type` is equal for events of the same function, peer, bytes, tag and communicator. `partner` is as `logical_times`
    reads it, `members` the size of each collective instance. `end_s` is when the call
    ends, from the start of the run. `n_unmatched` counts sends and receives without the other side, `n_open` receives
    that no call completes.
    """

    row: Ints
    rank: Ints
    call: Ints
    kind: Ints
    peer: Ints
    type: Ints
    partner: Ints
    end_s: Floats
    members: Ints
    starts: Ints
    runtime_s: float
    n_unmatched: int
    n_open: int


def find_events(calls: pa.Table) -> Events:
    """The events of MPI_CALLS. InputError where ranks disagree on a collective."""
    ops = category_codes(calls, "op")
    columns = {name: numbers_of_calls(calls, name) for name in _NUMBERS}
    columns |= {"op": ops[0], "communicator": category_codes(calls, "communicator")[0]}
    first_row = np.searchsorted(columns["rank"], np.arange(int(columns["rank"][-1]) + 2))
    sends, received, posted, collectives = (
        np.flatnonzero(of_functions(ops, names))
        for names in (SENDS | EXCHANGES, RECEIVES | EXCHANGES, POSTED_RECEIVES, COLLECTIVES)
    )
    done = posted[columns["completed_by"][posted] >= 0]
    receives = np.sort(np.concatenate([received, done]))
    # Receives that one call completes count by source, tag and posting, whatever the order of their messages.
    receives = receives[np.lexsort((columns["tag"][receives], columns["source"][receives]))]
    row = np.concatenate([sends, collectives, receives])
    n_sends, first_receive = len(sends), len(sends) + len(collectives)
    kind = np.repeat([SEND, COLLECTIVE, RECEIVE], [n_sends, len(collectives), len(row) - first_receive])
    own = {name: values[row] for name, values in columns.items()} | {"row": row, "kind": kind}
    is_receive = kind == RECEIVE
    own["call"] = np.where(is_receive & (own["completed_by"] >= 0), own["completed_by"], own["event"])
    own["peer"] = np.choose(kind, [own["destination"], own["source"], own["root"]])
    # With the type of the paper, direction and number of ranks alone, phases differ between two machines.
    own["type"] = row_codes(*(own[name] for name in ("op", "kind", "peer", "bytes", "tag", "communicator")))
    order = np.argsort(2 * (first_row[own["rank"]] + own["call"]) + is_receive, kind="stable")
    place = np.empty(len(row), np.int64)
    place[order] = np.arange(len(row))
    pair = _pairs(own, n_sends, first_receive)
    receive, send = first_receive + np.flatnonzero(pair >= 0), pair[pair >= 0]
    instance, members = _instances({name: one[n_sends:first_receive] for name, one in own.items()}, ops[1])
    own["partner"] = np.concatenate([np.full(n_sends, -1), instance, np.full(len(pair), -1)])
    own["partner"][receive], own["partner"][send] = place[send], place[receive]
    ends_s, zero_s = calls.column("t_end_s").to_numpy(), float(calls.column("t_start_s").to_numpy().min())
    own["end_s"] = ends_s[first_row[own["rank"]] + own["call"]] - zero_s
    return Events(
        **{name: values[order] for name, values in own.items() if name in Events.__slots__},
        members=members, starts=np.searchsorted(own["rank"][order], np.arange(len(first_row))),
        runtime_s=float(ends_s.max()) - zero_s, n_unmatched=n_sends + len(pair) - 2 * len(send),
        n_open=len(posted) - len(done),
    )  # fmt: skip


_NUMBERS = ("rank", "event", "source", "destination", "root", "tag", "bytes", "completed_by")


def _pairs(own: dict[str, Ints], n_sends: int, first_receive: int) -> Ints:
    """Per receive the place of its send, -1: none. It is the j-th of a source, destination, tag and communicator."""
    is_receive = own["kind"] == RECEIVE
    source, destination = np.where(is_receive, (own["peer"], own["rank"]), (own["rank"], own["peer"]))
    keys = row_codes(source, destination, own["tag"], own["communicator"])
    # A receive or a send that names nobody is not guessed.
    keys = np.where(own["peer"] < 0, -1 - is_receive, keys)
    return pair_in_order(keys[first_receive:], keys[:n_sends])


def _instances(own: dict[str, Ints], ops: list[str]) -> tuple[Ints, Ints]:
    """Per collective its instance, and the number of members per instance: the j-th of each rank on a communicator."""
    nth = nth_of_key(row_codes(own["communicator"], own["rank"]))
    _, first, instance = np.unique(row_codes(own["communicator"], nth), return_index=True, return_inverse=True)
    differs = np.flatnonzero(own["op"] != own["op"][first[instance]])
    if len(differs):
        one, other = differs[0], first[instance[differs[0]]]
        raise InputError(
            f"the trace, rank {own['rank'][one]}, event {own['event'][one]}", ops[own["op"][one]],
            f"{ops[own['op'][other]]}, as rank {own['rank'][other]} at event {own['event'][other]}", AGAIN_SPLIT,
        )  # fmt: skip
    return instance, np.bincount(instance)


AGAIN_SPLIT = f"{AGAIN}, with a column communicator where the program splits communicators"


@dataclass(frozen=True, slots=True)
class LogicalTrace:
    """Events in order of tick and rank: `event` is their place in Events, `starts` the first one of each tick.

    `code` is the same for events of the same rank and type, below `n_codes`.
    """

    event: Ints
    rank: Ints
    starts: Ints
    code: Ints
    n_codes: int

    @property
    def n_ticks(self) -> int:
        """The number of ticks."""
        return len(self.starts) - 1


def logical_trace(calls: pa.Table, events: Events, *, program_order: bool = True) -> LogicalTrace:
    """Put the events at their ticks; InputError where an event waits for one that never comes.

    `program_order` is as in `logical_times`; the paper goes without.
    """
    times = logical_times(events.starts, events.kind, events.partner, events.members.copy(), program_order)
    stuck = times < 0
    if stuck.any():
        one = int(np.argmax(stuck))
        op = calls.column("op")[int(events.row[one])]
        raise InputError(
            f"the trace, rank {events.rank[one]}, event {events.call[one]}", f"{op}, which never completes",
            "its sender or the other members of its communicator to get there", AGAIN_SPLIT,
        )  # fmt: skip
    ticks = _split(times, events.rank)
    order = np.lexsort((events.rank, ticks))
    starts = np.searchsorted(ticks[order], np.arange(int(ticks.max(initial=-1)) + 2))
    code = row_codes(events.rank, events.type)[order]
    return LogicalTrace(order, events.rank[order], starts, code, int(code.max(initial=-1)) + 1)


def _split(times: Ints, rank: Ints) -> Ints:
    """Ticks without gaps: a time at which a rank has several events becomes several ticks."""
    n_ranks = int(rank.max(initial=0)) + 1
    nth = nth_of_key(times * n_ranks + rank)
    widths = np.zeros(int(times.max(initial=-1)) + 1, np.int64)
    np.maximum.at(widths, times, nth + 1)
    return (np.cumsum(widths) - widths)[times] + nth
