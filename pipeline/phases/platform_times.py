"""The times of occurrences on another platform: as planned, from a second run, and from a CSV that a user measured."""

import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints, arrow, integers
from pipeline.errors import InputError, printable
from pipeline.phase_tables import PHASE_TIMES
from pipeline.phases.occurrences import Occurrences, evenly_spaced
from pipeline.phases.phase_input import UNREADABLE, header_of, open_plain
from pipeline.schema import as_array

NEEDED = ("phase_id", "occurrence", "time_s")
_TRUE, _FALSE = {"1", "true", "yes"}, {"0", "false", "no", ""}


def planned_times(points: pa.Table, plan: pa.Table, times_s: Floats, platform: str, start: float = 0.5) -> pa.Table:
    """PHASE_TIMES from the time of every occurrence (s, in the order of the run, NaN: unknown).

    The control has as many occurrences as are timed, spread evenly over the run from `start`. InputError where the time
    of a planned occurrence is unknown.
    """
    found = Occurrences.of(points)
    timed, warmups = planned_places(found, plan)
    missing = np.flatnonzero(np.isnan(times_s[np.r_[timed, warmups]]))
    if len(missing):
        place = np.r_[timed, warmups][missing[0]]
        which = f"phase {found.phase[place]}, occurrence {found.occurrence[place]}"
        raise InputError(f"platform {platform}", f"no time of {which}", "the times of all planned occurrences")
    control = evenly_spaced(len(found), max(len(timed), 1), start)
    control = control[~np.isnan(times_s[control])]
    # An incomplete control would compare other times with these.
    control = control if len(control) == len(timed) else control[:0]
    places = np.concatenate([timed, warmups, control])
    uses = np.repeat([0, 1, 2], [len(timed), len(warmups), len(control)])
    named = (plan.column("trace_id")[0].as_py(), platform)
    return times_table(found, places, times_s[places], uses == 1, uses == 2, named)


def times_table(
    found: Occurrences,
    places: Ints,
    times_s: Floats,
    is_warmup: Bools,
    is_control: Bools,
    named: tuple[str, str],
) -> pa.Table:
    """PHASE_TIMES of some places; `named` are trace and platform."""
    trace_id, platform = named
    return PHASE_TIMES.build(
        trace_id=[trace_id] * len(places), phase_id=arrow(found.phase[places]), platform=[platform] * len(places),
        occurrence=arrow(found.occurrence[places]), time_s=arrow(times_s),
        reference_s=as_array(found.reference_s(places), pa.float64()),
        is_warmup=arrow(is_warmup), is_control=arrow(is_control),
    )  # fmt: skip


def planned_places(found: Occurrences, plan: pa.Table) -> tuple[Ints, Ints]:
    """The places of timed and of warm-up occurrences of a plan, in order of the run."""
    phase, occurrence = (integers(plan.column(name))[0] for name in ("phase_id", "occurrence"))
    is_warmup = plan.column("is_warmup").to_numpy(zero_copy_only=False)
    width = int(found.occurrence.max()) + 1
    keys = found.phase * width + found.occurrence
    planned = phase * width + occurrence
    return np.flatnonzero(np.isin(keys, planned[~is_warmup])), np.flatnonzero(np.isin(keys, planned[is_warmup]))


def read_measured_times(path: Path, points: pa.Table, trace_id: str, platform: str) -> pa.Table | None:
    """PHASE_TIMES of a CSV with phase_id, occurrence, time_s (s), and optionally is_warmup; None for another file.

    InputError with the line of a wrong row.
    """
    if not path.is_file() or not set(NEEDED) <= set(header_of(path)):
        return None
    found = Occurrences.of(points)
    pairs = zip(found.phase.tolist(), found.occurrence.tolist(), strict=True)
    places = {pair: place for place, pair in enumerate(pairs)}
    times: dict[tuple[int, bool], float] = {}
    for where, row in _rows(path, NEEDED):
        key = _place(row, places, where), _is_warmup(row, where)
        if key in times:
            raise InputError(where, "an occurrence that was timed above", "one line per occurrence")
        times[key] = _seconds(row, "time_s", where)
    if not times:
        raise InputError(printable(path.name), "no times", "one line per timed occurrence")
    at, is_warmup = (np.array(one) for one in zip(*times, strict=True))
    none = np.zeros(len(at), np.bool_)
    return times_table(found, at, np.array(list(times.values())), is_warmup, none, (trace_id, platform))


def read_interval_times(path: Path, n_intervals: int, column: str = "time_s") -> Floats:
    """(intervals,) seconds of a CSV with a column `interval` from 0 and one of times; NaN where it has no row.

    InputError where the file cannot be read, lacks a column, or holds an interval twice, a number outside the run, or a
    time that is not positive.
    """
    times_s = np.full(n_intervals, np.nan)
    for where, row in _rows(path, ("interval", column)):
        text = row["interval"]
        if not text.isdecimal() or int(text) >= n_intervals:
            found = f"interval {printable(text, 40) or 'empty'}"
            raise InputError(where, found, f"an interval from 0 to {n_intervals - 1}")
        if not np.isnan(times_s[int(text)]):
            raise InputError(where, f"interval {text} a second time", "one row an interval")
        times_s[int(text)] = _seconds(row, column, where, is_positive=True)
    return times_s


def _rows(path: Path, needed: tuple[str, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    """The place of each row in words, and its cells by column; InputError where the file or a column is missing."""
    label, expected = printable(path.name), f"a CSV with the columns {', '.join(needed)}"
    try:
        with open_plain(path) as source:
            text = source.read().decode("utf-8-sig")
    except (*UNREADABLE, UnicodeDecodeError) as error:
        said = printable(str(error).partition("\n")[0])
        raise InputError(label, f"a file that cannot be read ({said})", expected) from error
    reader = csv.DictReader(io.StringIO(text), restval="")
    names = [name.strip() for name in reader.fieldnames or ()]
    reader.fieldnames = names
    if missing := [name for name in needed if name not in names]:
        found = f"no column {missing[0]} among {', '.join(printable(name, 40) for name in names[:10]) or 'none'}"
        raise InputError(label, found, expected, "name the column of the times")
    for row in reader:
        yield f"{label}, line {reader.line_num}", {name: (row[name] or "").strip() for name in names}


def _place(row: dict[str, str], places: dict[tuple[int, int], int], where: str) -> int:
    phase, occurrence = row["phase_id"], row["occurrence"]
    if not (phase.isdecimal() and occurrence.isdecimal()) or (int(phase), int(occurrence)) not in places:
        found = f"phase {printable(phase, 40) or 'empty'}, occurrence {printable(occurrence, 40) or 'empty'}"
        raise InputError(where, found, "a phase and an occurrence of this run", "see the plan")
    return places[int(phase), int(occurrence)]


def _seconds(row: dict[str, str], name: str, where: str, *, is_positive: bool = False) -> float:
    try:
        value = float(row[name])
    except ValueError:
        value = math.nan
    if not (0 < value < math.inf or (value == 0 and not is_positive)):
        expected = "seconds above 0" if is_positive else "seconds, 0 or more"
        raise InputError(where, f"{name} {printable(row[name], 40) or 'empty'}", expected)
    return value


def _is_warmup(row: dict[str, str], where: str) -> bool:
    text = row.get("is_warmup", "").lower()
    if text not in _TRUE | _FALSE:
        raise InputError(where, f"is_warmup {printable(text, 40)}", "true or false")
    return text in _TRUE
