"""Which PBS records are damaged: cut by a crash, not written to their end yet, or overwritten with zeros."""

import numpy as np

from pipeline.core.arrays import Bools, Ints
from pipeline.ingest.formats.pbs.keys import DURATIONS
from pipeline.ingest.formats.pbs.scan import KINDS, REASONS, Scanned

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
