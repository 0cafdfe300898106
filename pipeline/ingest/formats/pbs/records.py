"""What a PBS record is as a whole: whether it is damaged, when it was written, and what its type and status mean."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints, arrow, texts
from pipeline.ingest.formats.pbs.find_values import DURATIONS
from pipeline.ingest.formats.pbs.scan import KINDS, REASONS, Scanned
from pipeline.ingest.reader import Remarks
from pipeline.ingest.spans import Instants
from pipeline.ingest.spans.instants import settled

_CUT_SHORT, _BAD_NUMBER, _NUL_BYTES, _NO_LINE_END = (
    REASONS.index(name) + 1 for name in ("cut_short", "bad_number", "nul_bytes", "no_line_end")
)
_CLOCK_BYTES = len("0:00:00")
_COLON = 58


def damage_of(scanned: Scanned, has_bad_number: Bools, has_start: Bools, is_closed: Bools, *, takes_last: bool) -> Ints:
    """1 + index into REASONS of each record that is not whole, else 0.

    A record without a line end may be cut anywhere, so that no value of it can be relied on. One that has an end is cut
    where it lacks what its type always tells (S: start; E: end and Exit_status), or ends within a time as in 00:1.
    has_bad_number: records with an instant or exit status that is none; has_start: with a start; is_closed: with an end
    and an exit status.
    """
    damage = np.zeros(len(scanned.line), np.int64)
    kind = scanned.kind
    is_cut = ((kind == KINDS.index("E")) & ~is_closed) | ((kind == KINDS.index("S")) & ~has_start)
    damage[is_cut | _ends_within_a_time(scanned)] = _CUT_SHORT
    damage[has_bad_number] = _BAD_NUMBER
    damage[_has_zeros(scanned)] = _NUL_BYTES
    if not takes_last and len(scanned.data) and scanned.data[-1] != ord("\n"):
        damage[scanned.end == len(scanned.data)] = _NO_LINE_END
    return damage


def _ends_within_a_time(scanned: Scanned) -> Bools:
    """Whether a record's last value is a time that is not hours:minutes:seconds, and no plain number of seconds."""
    is_cut = np.zeros(len(scanned.line), np.bool_)
    for key in DURATIONS:
        low, high = scanned.span(key)
        rows = np.flatnonzero((high > low) & (high == scanned.end))
        for row in rows[~_is_clock(scanned, low[rows], high[rows])].tolist():
            is_cut[row] = b":" in scanned.data[low[row] : high[row]].tobytes()
    return is_cut


def _is_clock(scanned: Scanned, low: Ints, high: Ints) -> Bools:
    """Whether colons stand where those of hours:minutes:seconds do."""
    seconds, minutes = (scanned.data[np.maximum(high - places, 0)] == _COLON for places in (3, 6))
    is_clock: Bools = seconds & minutes & (high - low >= _CLOCK_BYTES)
    return is_clock


def _has_zeros(scanned: Scanned) -> Bools:
    """Whether a zero byte stands within a record; a crash leaves zeros where data had not reached the disk."""
    has = np.zeros(len(scanned.line), np.bool_)
    if len(has) and not scanned.data.all():
        zeros = np.flatnonzero(scanned.data == 0)
        first = np.searchsorted(zeros, scanned.start)
        has = (first < len(zeros)) & (zeros[np.minimum(first, len(zeros) - 1)] < scanned.end)
    return has


OFF_S = 900.0
"""A record is written when its event happens, give or take the time that a job's epilogue takes."""

_Q, _S, _R, _E = (KINDS.index(letter) for letter in "QSRE")


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds, and where there are none; a time that is no local time never came twice."""

    values: Ints
    missing: Bools
    repeat_s: Ints


def record_dates(
    written: Instants, kind: Ints, instants: dict[str, Times], used_s: Floats, good: Bools
) -> tuple[Ints, Remarks]:
    """UTC seconds of each record's date, and how many doubtful ones stand for an instant that the record lacks.

    A date that came twice is the reading within OFF_S of the record's own instant. The rerun of a job without
    an end is the reading that is the walltime used (`used_s`, NaN: unknown) after its start.
    """
    ends, runs = np.isin(kind, [_E, _R]), np.isin(kind, [_S, _E, _R])
    sources = [(ends, "end"), (kind == _S, "start"), (~runs, "ctime")]
    event_s, lacks = np.zeros(len(kind), np.int64), np.ones(len(kind), np.bool_)
    for is_kind, name in sources:
        has = is_kind & ~instants[name].missing
        event_s[has], lacks[has] = instants[name].values[has], False
    start = instants["start"]
    by_walltime = lacks & ends & ~start.missing
    base_s = np.where(by_walltime, start.values, event_s)
    base = Times(base_s, lacks & ~by_walltime, np.zeros_like(base_s))
    _, dates_s, is_settled = settled(base, written, np.where(by_walltime, used_s, 0.0), OFF_S)
    is_doubtful = good & lacks & (written.repeat_s > 0)
    n_settled, n_doubtful = (int(np.count_nonzero(is_doubtful & own)) for own in (is_settled, ~is_settled))
    return dates_s, Remarks(settled_times=n_settled, ambiguous_times=n_doubtful)


STATES = (
    "CANCELLED", "COMPLETED", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PENDING", "REQUEUED", "RUNNING", "SUSPENDED",
    "TIMEOUT",
)  # fmt: skip
CODE = {name: np.int32(place) for place, name in enumerate(STATES)}
UNKNOWN = np.int32(-1)
_OF_KIND = {
    "Q": "PENDING", "S": "RUNNING", "R": "REQUEUED", "D": "CANCELLED", "A": "CANCELLED", "z": "SUSPENDED",
}  # fmt: skip
_BOTH = {-4: "NODE_FAIL", -5: "NODE_FAIL", -6: "NODE_FAIL"}
_PBS_ONLY = {-29: "TIMEOUT", -26: "OUT_OF_MEMORY", -27: "OUT_OF_MEMORY", -20: "NODE_FAIL"}
_TORQUE_ONLY = {-11: "TIMEOUT", -10: "OUT_OF_MEMORY"}

_OVERLIMIT = -10

Codes = npt.NDArray[np.int32]


def state_codes(kind: Ints, status: Ints, has_status: Bools, is_torque: Bools, is_over: Bools) -> Codes:
    """Index into STATES of each record's state, -1 where an E record has no exit status.

    is_over: whether the record's walltime used is more than the one asked for.
    """
    state = np.array([CODE[_OF_KIND[letter]] if letter in _OF_KIND else UNKNOWN for letter in KINDS], np.int32)[kind]
    ended = (kind == KINDS.index("E")) & has_status
    state[ended] = np.where(status[ended] == 0, CODE["COMPLETED"], CODE["FAILED"])
    for known, where in ((_BOTH, ended), (_PBS_ONLY, ended & ~is_torque), (_TORQUE_ONLY, ended & is_torque)):
        for number, name in known.items():
            state[where & (status == number)] = CODE[name]
    state[ended & is_torque & (status == _OVERLIMIT) & is_over] = CODE["TIMEOUT"]
    return state


def state_categories(state: Codes, names: Sequence[str] = STATES) -> pa.DictionaryArray:
    """The states as categories."""
    return pa.DictionaryArray.from_arrays(arrow(np.maximum(state, 0), state < 0), texts(names))
