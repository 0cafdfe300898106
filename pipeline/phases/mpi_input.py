"""MPI traces as an input of the commands: PAS2P finds the phases, a second trace times them."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.buffers import integers
from pipeline.core.errors import InputError
from pipeline.core.phase_settings import PhaseSettings
from pipeline.core.phase_tables import MPI_CALLS
from pipeline.core.report import Report
from pipeline.core.text import printable
from pipeline.phases.pas2p.stage import find_phases
from pipeline.phases.phase_input import Extracted, PhaseInput, Tables, TargetTimes
from pipeline.phases.prediction.occurrences import Occurrences
from pipeline.phases.readers.registry import reader_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def is_mpi_trace(path: Path) -> bool:
    """Whether a reader of traces knows the path."""
    return reader_of(path) is not None


def extract(path: Path, trace_id: str, settings: PhaseSettings, times: Path | None = None) -> Extracted:
    """The phases of a trace; its calls are kept, because a second run has to make the same ones."""
    if times is not None:
        raise InputError("--times", printable(times.name, 200), "no such option: a trace holds its times")
    calls, read = _read(path)
    phases, points, found = find_phases(calls, trace_id, settings)
    return Extracted(phases, points, int(read.facts["ranks"] or 1), (read, found), {MPI_CALLS.name: calls})


def times_of(points: pa.Table, kept: Tables, path: Path) -> TargetTimes:
    """The occurrences' times in a second trace of the same program; it may end before the program does.

    InputError with rank and event where the two runs do not make the same calls.
    """
    reference, (calls, _) = kept[MPI_CALLS.name], _read(path)
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
    return TargetTimes(times_s, runtime_s)


def _passed(events: pa.ChunkedArray, rank: Ints, first_row: Ints, ends_s: Floats) -> Floats:
    """When each rank ends these calls: NaN for one that it does not reach, -inf for the start of the run."""
    call, is_start = integers(events)
    row = first_row[rank] + call
    is_there = row < first_row[rank + 1]
    time_s = np.where(is_there, ends_s[np.where(is_there, row, 0)], np.nan)
    return np.where(is_start, -np.inf, time_s)


def check_same_calls(reference: pa.Table, calls: pa.Table, where: str) -> None:
    """InputError for the first call that differs, by rank and event; a rank may end early."""
    ranks = [integers(table.column("rank"))[0] for table in (reference, calls)]
    n_ranks = [int(one[-1]) + 1 for one in ranks]
    if n_ranks[0] != n_ranks[1]:
        raise InputError(where, f"{n_ranks[1]} ranks", f"{n_ranks[0]}, as in the reference trace")
    starts = [np.searchsorted(one, np.arange(n_ranks[0] + 1)) for one in ranks]
    codes = [_codes(table) for table in (reference, calls)]
    for rank in range(n_ranks[0]):
        theirs, ours = (one[at[rank] : at[rank + 1]] for one, at in zip(codes, starts, strict=True))
        n = min(len(theirs), len(ours))
        differs = np.flatnonzero(theirs[:n] != ours[:n])
        if len(differs) or len(ours) > len(theirs):
            event = int(differs[0]) if len(differs) else n
            found = calls.column("op")[int(starts[1][rank]) + event].as_py()
            is_more = event >= len(theirs)
            expected = "no call" if is_more else reference.column("op")[int(starts[0][rank]) + event].as_py()
            do = "time the program and input of the reference trace"
            raise InputError(f"{where}, rank {rank}, event {event}", printable(found, 60), f"{expected}, as there", do)


def _codes(table: pa.Table) -> Ints:
    """The function, destination and root of each call as a number that is the same in every table.

    Sources are left out: a receive from any source may take another message elsewhere.
    """
    column = table.column("op").unify_dictionaries().combine_chunks()
    array = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    words = np.array([hash_of(word) for word in array.dictionary.to_pylist()], np.int64)
    code = words[integers(array.indices)[0]]
    for name in ("destination", "root"):
        values, is_null = integers(table.column(name))
        code = code * 1_000_003 + np.where(is_null, -1, values)
    return code


def hash_of(word: str) -> int:
    """A number of 31 bits from a word, the same on every machine."""
    found = 0
    for byte in word.encode():
        found = (found * 257 + byte) % 2_147_483_629
    return found


def _read(path: Path) -> tuple[pa.Table, Report]:
    reader = reader_of(path)
    if reader is None:
        raise InputError(printable(str(path)), "no MPI trace", "a CSV or OTF2 trace")
    return reader.read(path)


MPI = PhaseInput("mpi", "an MPI trace (CSV or OTF2)", is_mpi_trace, extract, times_of)
