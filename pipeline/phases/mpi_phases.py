"""Finds the repeating phases of an MPI run (PAS2P), and times them in a second trace of the same program.

A phase's time is the ranks' mean progress through it. Source: Wong, Rexachs and Luque, IEEE Transactions on Parallel
and Distributed Systems 26(7), 2014.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.arrays import Floats, Ints, category_codes, integers
from pipeline.errors import InputError, printable
from pipeline.phases.call_traces import is_mpi_trace, read_trace
from pipeline.phases.logical_trace import Events, LogicalTrace, find_events, grown_phases, logical_trace
from pipeline.phases.mpi_calls import numbers_of_calls
from pipeline.phases.occurrences import Occurrences, phases_table, points_table, sampled_share
from pipeline.phases.phase_input import Extracted, Pas2pRules, PhaseInput, PhaseRules, PlanRules
from pipeline.phases.similar_phases import Sequence, joined, name_phases, search_each_tick
from pipeline.report import Report, Tally


def find_phases(calls: pa.Table, trace_id: str, rules: PhaseRules) -> tuple[pa.Table, pa.Table, Report]:
    """PHASES and PHASE_POINTS of a run, and a Report of its calls.

    Times are seconds. The occurrences' times, each the mean over ranks, add up to the run's time. InputError where the
    ranks' calls contradict one another.

    Source: Wong, Rexachs and Luque, IEEE TPDS 26(7), 2014, Sections 3.2 and 3.3; rules say where we depart from it.
    """
    events = find_events(calls)
    trace = logical_trace(calls, events, rules.pas2p)
    sequence = _chosen(_sequences(trace, rules.pas2p), trace, rules)
    call, time_s = _boundaries(events, trace, sequence.cuts)
    phases = phases_table(
        trace_id, sequence.phase, np.diff(sequence.cuts), np.diff(trace.starts[sequence.cuts]),
        np.diff(time_s, axis=0).mean(axis=1), rules, level=sequence.level,
    )  # fmt: skip
    facts = {
        "ranks": len(events.starts) - 1, "events": len(events), "unmatched": events.n_unmatched,
        "open_receives": events.n_open, "ticks": trace.n_ticks, "phases": phases.num_rows,
        "occurrences": len(sequence.phase), "level": sequence.level, "runtime_s": events.runtime_s,
    }  # fmt: skip
    rows = Tally(calls.num_rows)
    report = Report("find_phases", "call", rows, rows, facts=facts)
    return phases, points_table(trace_id, sequence.phase, call, time_s), report


def _sequences(trace: LogicalTrace, rules: Pas2pRules) -> list[Sequence]:
    """The run as phases, then as phases joined once more at each further level."""
    if rules.search_each_tick:
        cuts, phase = search_each_tick(trace, rules)
    else:
        cuts = grown_phases(trace.starts, trace.code, trace.n_codes)
        phase = name_phases(trace, cuts, rules)
    found = [Sequence(0, phase, cuts)]
    for _ in range(rules.max_level):
        found.append(joined(found[-1]))
    return found


def _chosen(sequences: list[Sequence], trace: LogicalTrace, rules: PhaseRules) -> Sequence:
    """The level with the smallest plan among those of few phases, else that of the fewest phases.

    Events decide, not times, so that all machines give the same phases.
    """
    few = [one for one in sequences if one.phase.max() < rules.pas2p.most_phases]
    if not few:
        return min(sequences, key=lambda one: int(one.phase.max()))
    return min(few, key=lambda one: _events_to_time(one, trace, rules.plan))


def _events_to_time(sequence: Sequence, trace: LogicalTrace, rules: PlanRules) -> float:
    n_occurrences = np.bincount(sequence.phase)
    events = np.bincount(sequence.phase, np.diff(trace.starts[sequence.cuts]))
    return sampled_share(n_occurrences, events / n_occurrences, rules)


def _boundaries(events: Events, trace: LogicalTrace, cuts: Ints) -> tuple[Ints, Floats]:
    """(cuts, ranks) each: the last call before each boundary (-1: none), and its time, s from the start of the run.

    At the first boundary all ranks are at 0, at the last one at the run's end: the differences add up to the runtime.
    """
    n_ranks = len(events.starts) - 1
    call = np.full((len(cuts), n_ranks), -1, np.int64)
    time_s = np.zeros((len(cuts), n_ranks))
    tick = np.repeat(np.arange(trace.n_ticks), np.diff(trace.starts))
    by_rank = np.argsort(trace.rank, kind="stable")
    edges = np.searchsorted(trace.rank[by_rank], np.arange(n_ranks + 1))
    for one in range(n_ranks):
        mine = by_rank[edges[one] : edges[one + 1]]
        passed = np.searchsorted(tick[mine], cuts)
        event = trace.event[mine]
        # Logical order may differ from program order by the paper's own words.
        call[:, one] = np.r_[-1, np.maximum.accumulate(events.call[event])][passed]
        time_s[:, one] = np.r_[0.0, np.maximum.accumulate(events.end_s[event])][passed]
    time_s[-1] = events.runtime_s
    return call, time_s


def extract(path: Path, trace_id: str, rules: PhaseRules, times: Path | None = None) -> Extracted:
    """The phases of a trace; its calls are kept, because a second run has to make the same ones."""
    if times is not None:
        raise InputError("--times", printable(times.name, 200), "no such option: a trace holds its times")
    calls, read = read_trace(path)
    phases, points, found = find_phases(calls, trace_id, rules)
    return Extracted(phases, points, int(read.facts["ranks"] or 1), (read, found), calls)


def times_of(points: pa.Table, reference: pa.Table | None, path: Path) -> tuple[Floats, float | None]:
    """The occurrences' times in a second trace of the same program, which may be cut, and its runtime.

    InputError with rank and event where the two runs do not make the same calls.
    """
    if reference is None:
        raise InputError("the phases", "no calls of their trace", "those of the reference run", "find the phases again")
    calls, _ = read_trace(path)
    check_same_calls(reference, calls, printable(path.name, 200))
    is_whole = calls.num_rows == reference.num_rows
    rank = integers(calls.column("rank"))[0]
    first_row = np.searchsorted(rank, np.arange(int(integers(reference.column("rank"))[0][-1]) + 2))
    ends_s = calls.column("t_end_s").to_numpy()
    zero_s = float(calls.column("t_start_s").to_numpy().min())
    found = Occurrences.of(points)
    point_rank = integers(points.column("rank"))[0]
    begins = _passed(points.column("from_event"), point_rank, first_row, ends_s)
    finishes = _passed(points.column("to_event"), point_rank, first_row, ends_s)
    runtime_s = float(ends_s.max()) - zero_s if is_whole else None
    spans_s = np.where(np.isneginf(finishes), zero_s, finishes) - np.where(np.isneginf(begins), zero_s, begins)
    times_s = spans_s[found.rows].mean(axis=1)
    if runtime_s is not None:
        # The last occurrence ends with the run, on all ranks.
        last = begins[found.rows[-1]]
        times_s[-1] = float((zero_s + runtime_s - np.where(np.isneginf(last), zero_s, last)).mean())
    return times_s, runtime_s


def _passed(events: pa.ChunkedArray, rank: Ints, first_row: Ints, ends_s: Floats) -> Floats:
    """When each rank ends these calls: NaN for one that it does not reach, -inf for the start of the run."""
    call, is_start = integers(events)
    row = first_row[rank] + call
    is_there = row < first_row[rank + 1]
    time_s = np.where(is_there, ends_s[np.where(is_there, row, 0)], np.nan)
    return np.where(is_start, -np.inf, time_s)


def check_same_calls(reference: pa.Table, calls: pa.Table, where: str) -> None:
    """InputError for the first call that differs, by rank and event; a rank may end early."""
    theirs, rank = (integers(table.column("rank"))[0] for table in (reference, calls))
    if theirs[-1] != rank[-1]:
        raise InputError(where, f"{rank[-1] + 1} ranks", f"{theirs[-1] + 1}, as in the reference trace")
    starts = np.searchsorted(theirs, np.arange(int(rank[-1]) + 2))
    row = starts[rank] + integers(calls.column("event"))[0]
    is_more = row >= starts[rank + 1]
    number_of: dict[str, int] = {}
    expected, found = (_codes(table, number_of) for table in (reference, calls))
    differs = np.flatnonzero(is_more | (found != expected[np.where(is_more, 0, row)]))
    if len(differs):
        one = int(differs[0])
        wanted = "no call" if is_more[one] else reference.column("op")[int(row[one])].as_py()
        place = f"{where}, rank {rank[one]}, event {calls.column('event')[one]}"
        do = "time the program and input of the reference trace"
        raise InputError(place, printable(calls.column("op")[one].as_py(), 60), f"{wanted}, as there", do)


def _codes(table: pa.Table, number_of: dict[str, int]) -> Ints:
    """The function, destination and root of each call as one number; `number_of` numbers the functions of all tables.

    Sources are left out: a receive from any source may take another message elsewhere.
    """
    op, ops = category_codes(table, "op")
    code = np.array([number_of.setdefault(word, len(number_of)) for word in ops], np.int64)[op]
    for name in ("destination", "root"):
        code = code * 1_000_003 + numbers_of_calls(table, name)
    return code


MPI = PhaseInput("mpi", "an MPI trace (CSV or OTF2)", is_mpi_trace, extract, times_of)
