"""The two loops of PAS2P that go through a trace in order, compiled."""

import numpy as np
import numpy.typing as npt

from pipeline.core.compiled import entry_kernel

Ints = npt.NDArray[np.int64]
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
