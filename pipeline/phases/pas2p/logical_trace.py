"""The logical trace: every event at a tick, at most one per rank and tick (Section 3.2)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.errors import InputError
from pipeline.core.phase_settings import Pas2pSettings
from pipeline.phases.pas2p.events import Events
from pipeline.phases.pas2p.kernels import COLLECTIVE, SEND, logical_times
from pipeline.phases.readers.keyed_pairs import packed

Ints = npt.NDArray[np.int64]


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


def logical_trace(calls: pa.Table, events: Events, settings: Pas2pSettings) -> LogicalTrace:
    """Put the events at their ticks; InputError where an event waits for one that never comes."""
    times = logical_times(events.starts, events.kind, events.partner, events.members.copy(), settings.program_order)
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
    code = packed(events.rank, _types(events, settings))[order]
    return LogicalTrace(order, starts, code, int(code.max(initial=-1)) + 1)


def _split(times: Ints, rank: Ints) -> Ints:
    """Ticks without gaps: a time at which a rank has several events becomes several ticks."""
    n_ranks = int(rank.max(initial=0)) + 1
    key = times * n_ranks + rank
    order = np.argsort(key, kind="stable")
    nth = np.empty(len(key), np.int64)
    nth[order] = np.arange(len(key)) - np.searchsorted(key[order], key[order], "left")
    widths = np.zeros(int(times.max(initial=-1)) + 1, np.int64)
    np.maximum.at(widths, times, nth + 1)
    return (np.cumsum(widths) - widths)[times] + nth


def _types(events: Events, settings: Pas2pSettings) -> Ints:
    """The type of each event: its function, peer, bytes and tag, or as the paper has it."""
    if settings.sign_and_count_type:
        count = np.ones(len(events), np.int64)
        is_collective = events.kind == COLLECTIVE
        count[is_collective] = events.members[events.partner[is_collective]]
        # A collective is in the paper the same as a send to all.
        return packed(np.where(events.kind == SEND, 1, np.where(is_collective, 1, 0)), count, events.size)
    return packed(events.op, events.kind, events.peer, events.size, events.tag, events.communicator)
