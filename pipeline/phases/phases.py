"""Finds the repeating phases of an MPI run (PAS2P), and times them in a second trace of the same program.

A phase's time is the ranks' mean progress through it. Equal occurrences are known by a digest, others by the share of
events alike. Source: Wong, Rexachs and Luque, IEEE Transactions on Parallel and Distributed Systems 26(7), 2014.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.arrays import Floats, Ints, category_codes, integers, row_codes
from pipeline.errors import InputError, printable
from pipeline.phases.calls import is_csv_trace, numbers_of_calls, read_csv_trace
from pipeline.phases.clock import Events, LogicalTrace, find_events, grown_phases, logical_trace
from pipeline.phases.occurrences import Occurrences, phases_table, points_table, sampled_share
from pipeline.phases.otf2 import is_archive, read_otf2_trace
from pipeline.phases.phase_input import Extracted, Pas2pRules, PhaseInput, PhaseRules
from pipeline.report import Report, Tally
from pipeline.storage import read_metadata, read_table
from pipeline.tables import MPI_CALLS

Digests = npt.NDArray[np.uint64]
Cells = tuple[Ints, Ints]
"""The cells (tick within the phase and rank) of an occurrence, ascending, and the code of each."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """The occurrences of a run in order: the phase of each, and the cuts (ticks) between them, one more."""

    level: int
    phase: Ints
    cuts: Ints


def find_phases(calls: pa.Table, trace_id: str, rules: PhaseRules) -> tuple[pa.Table, pa.Table, Report]:
    """PHASES and PHASE_POINTS of a run, and a Report of its calls.

    Times are seconds. The occurrences' times, each the mean over ranks, add up to the run's time. InputError where the
    ranks' calls contradict one another.

    Source: Wong, Rexachs and Luque, IEEE TPDS 26(7), 2014, Sections 3.2 and 3.3. A known phase is searched for where a
    phase closes, and not at every tick, because short phases would cut longer ones that hold them.
    """
    # Section 3.2: sends, receives and collectives, at the ticks of a logical clock.
    events = find_events(calls)
    trace = logical_trace(calls, events)
    # Section 3.3, steps 2 to 5: a phase grows until an event repeats; similar ones are one phase.
    cuts = grown_phases(trace.starts, trace.code, trace.n_codes)
    found = [Sequence(0, name_phases(trace, cuts, rules.pas2p), cuts)]
    # Short phases are joined to longer ones that repeat.
    for _ in range(rules.pas2p.max_level):
        found.append(joined(found[-1]))
    sequence = min(found, key=lambda one: _cost(one, trace, rules))
    # Step 6: the weights of the phases, and those that matter.
    call, time_s = _boundaries(events, trace, sequence.cuts)
    phases = phases_table(
        trace_id, sequence.phase, np.diff(sequence.cuts), np.diff(trace.starts[sequence.cuts]),
        np.diff(time_s, axis=0).mean(axis=1), rules, level=sequence.level,
    )  # fmt: skip
    facts = {
        "ranks": len(events.starts) - 1, "events": len(events.rank), "unmatched": events.n_unmatched,
        "open_receives": events.n_open, "ticks": trace.n_ticks, "phases": phases.num_rows,
        "occurrences": len(sequence.phase), "level": sequence.level, "runtime_s": events.runtime_s,
    }  # fmt: skip
    rows = Tally(calls.num_rows)
    report = Report("find_phases", "call", rows, rows, facts=facts)
    return phases, points_table(trace_id, sequence.phase, call, time_s), report


def name_phases(trace: LogicalTrace, cuts: Ints, rules: Pas2pRules) -> Ints:
    """Per occurrence, which goes from cut to cut, the number of its phase, by first occurrence from 0.

    It is the first phase of as many ticks whose first occurrence is similar.
    """
    same = row_codes(_digests(trace, cuts))
    first = np.unique(same, return_index=True)[1]
    known: dict[int, list[tuple[int, Cells]]] = {}
    names, n_phases = [], 0
    for begin, end in zip(cuts[first].tolist(), cuts[first + 1].tolist(), strict=True):
        cells, alike = _cells_of(trace, begin, end), known.setdefault(end - begin, [])
        name = next((phase for phase, other in alike if _are_similar(cells, other, rules.similar_share)), None)
        if name is None:
            name, n_phases = n_phases, n_phases + 1
            alike.append((name, cells))
        names.append(name)
    return np.array(names, np.int64)[same]


def _cells_of(trace: LogicalTrace, begin: int, end: int) -> Cells:
    """The cells of an occurrence from one tick to before another."""
    inside = slice(int(trace.starts[begin]), int(trace.starts[end]))
    tick = np.repeat(np.arange(end - begin), np.diff(trace.starts[begin : end + 1]))
    return tick * (int(trace.rank.max(initial=0)) + 1) + trace.rank[inside], trace.code[inside]


def _are_similar(one: Cells, other: Cells, least_share: float) -> bool:
    """Whether enough of the cells in which either has an event are alike."""
    _, mine, others = np.intersect1d(one[0], other[0], assume_unique=True, return_indices=True)
    n_cells = len(one[0]) + len(other[0]) - len(mine)
    return int((one[1][mine] == other[1][others]).sum()) >= least_share * n_cells


def _digests(trace: LogicalTrace, cuts: Ints) -> Digests:
    """A number per occurrence, the same for equal ones."""
    ticks = np.add.reduceat(_mixed(trace.code.astype(np.uint64)), trace.starts[:-1])
    within = np.arange(trace.n_ticks) - np.repeat(cuts[:-1], np.diff(cuts))
    digests = np.add.reduceat(_mixed(ticks ^ _mixed(within.astype(np.uint64))), cuts[:-1])
    lengths: Digests = np.diff(cuts).astype(np.uint64)
    return _mixed(digests ^ lengths)


def _mixed(values: Digests) -> Digests:
    """Numbers of 64 bits whose sums hardly ever meet (the finaliser of splitmix64, Steele, Lea and Flood 2014)."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def joined(sequence: Sequence) -> Sequence:
    """One level up: runs of one phase count as one, and a phase grows until a phase of the level below repeats."""
    begins = np.flatnonzero(np.r_[True, np.diff(sequence.phase) != 0])
    runs = sequence.phase[begins]
    ends = grown_phases(np.arange(len(runs) + 1), runs, int(runs.max(initial=0)) + 1)
    names: dict[bytes, int] = {}
    phase = [names.setdefault(runs[a:b].tobytes(), len(names)) for a, b in pairwise(ends.tolist())]
    cuts = np.r_[sequence.cuts[begins], sequence.cuts[-1]][ends]
    return Sequence(sequence.level + 1, np.array(phase, np.int64), cuts)


def _cost(sequence: Sequence, trace: LogicalTrace, rules: PhaseRules) -> tuple[bool, float]:
    """What chooses the level: few phases before many, then the smallest plan; of many, the fewest.

    Events decide, not times, so that all machines give the same phases.
    """
    n_occurrences = np.bincount(sequence.phase)
    if len(n_occurrences) > rules.pas2p.most_phases:
        return True, len(n_occurrences)
    events = np.bincount(sequence.phase, np.diff(trace.starts[sequence.cuts])) / n_occurrences
    return False, sampled_share(n_occurrences, events, rules.plan)


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
        call[:, one] = np.r_[-1, events.call[event]][passed]
        time_s[:, one] = np.r_[0.0, events.end_s[event]][passed]
    time_s[-1] = events.runtime_s
    return call, time_s


def _is_kept(path: Path) -> bool:
    """Whether the file is a table MPI_CALLS that Walltime wrote."""
    return path.suffix == ".parquet" and path.is_file() and read_metadata(path).get("table") == MPI_CALLS.name


def _read_kept(path: Path) -> tuple[pa.Table, Report]:
    table = read_table(path, MPI_CALLS)
    if not table.num_rows:
        raise InputError(printable(path.name, 200), "a trace without calls", "one row per MPI call")
    rows = Tally(table.num_rows)
    return table, Report("read_trace", "call", rows, rows, facts={"ranks": table.column("rank")[-1].as_py() + 1})


READERS: tuple[tuple[Callable[[Path], bool], Callable[[Path], tuple[pa.Table, Report]]], ...] = (
    (_is_kept, _read_kept), (is_archive, read_otf2_trace), (is_csv_trace, read_csv_trace),
)  # fmt: skip
"""Per format what knows a path by its content, and what reads MPI_CALLS (s) from it or raises an InputError."""


def _reader_of(path: Path) -> Callable[[Path], tuple[pa.Table, Report]] | None:
    return next((read for knows, read in READERS if knows(path)), None)


def read_trace(path: Path) -> tuple[pa.Table, Report]:
    """MPI_CALLS of a trace of any format, s, and a Report of ranks and calls; InputError where none knows the path."""
    if read := _reader_of(path):
        return read(path)
    raise InputError(printable(str(path)), "no MPI trace", "a CSV or OTF2 trace")


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
    ends_s = calls.column("t_end_s").to_numpy()
    zero_s = float(calls.column("t_start_s").to_numpy().min())
    runtime_s = float(ends_s.max()) - zero_s if calls.num_rows == reference.num_rows else None
    rank = integers(points.column("rank"))[0]
    first_row = np.searchsorted(integers(calls.column("rank"))[0], np.arange(int(rank.max()) + 2))

    def passed_s(name: str) -> Floats:
        """When each rank ends these calls: NaN for one that it does not reach; null is the start of the run."""
        call, is_start = integers(points.column(name))
        row = first_row[rank] + np.where(is_start, 0, call)
        is_there = row < first_row[rank + 1]
        return np.where(is_start, zero_s, np.where(is_there, ends_s[np.where(is_there, row, 0)], np.nan))

    rows = Occurrences.of(points).rows
    begins_s, finishes_s = passed_s("from_event")[rows], passed_s("to_event")[rows]
    if runtime_s is not None:
        # The last occurrence ends with the run, on all ranks.
        finishes_s[-1] = zero_s + runtime_s
    return (finishes_s - begins_s).mean(axis=1), runtime_s


def check_same_calls(reference: pa.Table, calls: pa.Table, where: str) -> None:
    """InputError for the first call that differs, by rank and event; a rank may end early."""
    theirs, rank = (integers(table.column("rank"))[0] for table in (reference, calls))
    if theirs[-1] != rank[-1]:
        raise InputError(where, f"{rank[-1] + 1} ranks", f"{theirs[-1] + 1}, as in the reference trace")
    starts = np.searchsorted(theirs, np.arange(int(rank[-1]) + 2))
    row = starts[rank] + integers(calls.column("event"))[0]
    is_more = row >= starts[rank + 1]
    # Sources are left out: a receive from any source may take another message elsewhere.
    both = pa.concat_tables([table.select(["op", "destination", "root"]) for table in (reference, calls)])
    ranks = (numbers_of_calls(both, name) for name in ("destination", "root"))
    expected, found = np.split(row_codes(category_codes(both, "op")[0], *ranks), [reference.num_rows])
    differs = np.flatnonzero(is_more | (found != expected[np.where(is_more, 0, row)]))
    if len(differs):
        one = int(differs[0])
        wanted = "no call" if is_more[one] else reference.column("op")[int(row[one])].as_py()
        place = f"{where}, rank {rank[one]}, event {calls.column('event')[one]}"
        do = "time the program and input of the reference trace"
        raise InputError(place, printable(calls.column("op")[one].as_py(), 60), f"{wanted}, as there", do)


MPI = PhaseInput("mpi", "an MPI trace (CSV or OTF2)", lambda path: _reader_of(path) is not None, extract, times_of)
