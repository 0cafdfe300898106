"""What a PBS record is as a whole: whether it is damaged, when it was written, and what its type and status mean."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints
from pipeline.ingest.formats.pbs.scan import KINDS, REASONS, Scanned
from pipeline.ingest.reader import Remarks, by_word
from pipeline.ingest.values import Instants, settled

_CUT_SHORT, _BAD_NUMBER, _NUL_BYTES, _NO_LINE_END = (
    REASONS.index(name) + 1 for name in ("cut_short", "bad_number", "nul_bytes", "no_line_end")
)
_DURATIONS = ("Resource_List.walltime", "resources_used.walltime", "resources_used.cput")
_CLOCK_BYTES = len("0:00:00")
_S, _R, _E = (KINDS.index(letter) for letter in "SRE")

OFF_S = 900.0
"""A record is written when its event happens, give or take the time that a job's epilogue takes."""

Said = Mapping[str, Any]
"""Each key's values: Typed numbers, or an Arrow array of texts."""


def damage_of(
    scanned: Scanned, said: Said, span_of: Callable[[str], Ints], needed: Sequence[str], *, takes_last: bool
) -> Ints:
    """1 + index into REASONS of each record that is not whole, else 0.

    A record without a line end may be cut anywhere, so that no value of it can be relied on. One that has an end is cut
    where it lacks what its type always tells (S: user and start; E: user, end and Exit_status). What only looks odd is
    for `signs_of_damage` and the file's other records to tell.
    needed: keys whose values must be numbers.
    """
    damage = np.zeros(len(scanned.line), np.int64)
    is_cut = (scanned.kind == _E) & (said["end"].missing | said["Exit_status"].missing)
    for key in NAMED:
        is_cut |= _matches(said[key], IN_NO_NAME) == 1
    is_cut |= (scanned.kind == _S) & said["start"].missing
    low, high = span_of("user")
    is_cut |= np.isin(scanned.kind, (_S, _E)) & (low == high)
    damage[is_cut] = _CUT_SHORT
    damage[np.logical_or.reduce([said[key].invalid for key in needed])] = _BAD_NUMBER
    damage[_has_zeros(scanned)] = _NUL_BYTES
    if not takes_last and len(scanned.data) and scanned.data[-1] != ord("\n"):
        damage[scanned.end == len(scanned.data)] = _NO_LINE_END
    return damage


TOGETHER = (
    ("user", "group", "jobname", "queue", "ctime", "qtime", "etime"),
    ("start", "exec_host", "exec_vnode"),
    ("resources_used.cput", "resources_used.mem", "resources_used.walltime"),
    ("Resource_List.place", "Resource_List.select"),
)
"""Keys that a server writes together: all of them, or none, as of a job that never ran."""

TOLD = tuple(key for keys in TOGETHER for key in keys)
_GROUP = np.repeat(np.arange(len(TOGETHER)), [len(keys) for keys in TOGETHER])
NAMED = {"user": "user", "group": "user_group", "queue": "queue"}
"""By key, the column of a name."""
IN_OTHER_PARTS, IN_NO_NAME = r"[=;\s]|/\d", r"^\s|[\x00-\x1f]|[;\s]\S*="
"""What stands in other parts of a record (dates, hosts, blanks) and is rare in names; and what no directory has in one,
such as another key behind a semicolon or a blank: there a record begins in the name.
"""

N_SIGNS = len(TOLD) + len(NAMED) + 2
_SHARE_ODD = 0.05
"""Of the starts or ends of a file: what is odd about more of them is the way of the server or of the site's names."""

_FEW_ODD = np.repeat([1.0, 3.0, 1.0], [len(TOLD), len(NAMED), 2])
"""So few are rare in a small file, too; a name counts here only where it does not come again."""

_PLAIN_PER_ODD = np.repeat([2.0, 0.5], [N_SIGNS - 2, 2])
"""Of one record in two that ends within a time or a list, PBS's manuals tell which is whole."""


def signs_of_damage(scanned: Scanned, said: Said, span_of: Callable[[str], Ints]) -> tuple[Bools, Bools]:
    """Which records could have each sign of damage, and which have it, (N_SIGNS, records) both.

    The signs are: to lack a key of TOLD beside one that is written with it, a name of NAMED with what stands between
    other parts, a last value that ends within a time as in 00:1, a list of chunks without its last bracket. Each of
    them is also the way of some server or site, so that only RareSigns, who has seen the whole file, calls it damage.
    """
    has = np.array([span_of(key)[1] > 0 for key in TOLD])
    is_told = np.array([has[group == _GROUP].any(axis=0) for group in range(len(TOGETHER))])[_GROUP]
    could, lacks = np.isin(scanned.kind, (_S, _E)) & is_told, ~has
    # Where any record names its user, its group stands behind that.
    could[TOLD.index("group")] |= has[TOLD.index("user")]
    named = np.array([_matches(said[key], IN_OTHER_PARTS) for key in NAMED])
    within = np.logical_or.reduce([_ends_within_a_time(scanned, *span_of(key)) for key in _DURATIONS])
    bracket = _lacks_its_bracket(scanned, *span_of("exec_vnode"))
    always = np.ones((2, len(scanned.line)), np.bool_)
    could = np.concatenate([could, ~np.isnan(named), always])
    return could, could & np.concatenate([lacks, named == 1, [within, bracket]])


def _matches(names: pa.DictionaryArray, sign: str) -> Floats:
    found: Callable[[str], float] = lambda name: float(re.search(sign, name) is not None)  # noqa: E731
    return by_word(names, found)


class RareSigns:
    """How many starts and ends of a file have each sign of damage: what many have is no damage."""

    def __init__(self) -> None:
        # By other record and end: how many could have each sign, and how many have it.
        self._counts = np.zeros((2, 2, N_SIGNS), np.int64)

    def count(self, kind: Ints, could: Bools, odd: Bools) -> None:
        """Take in some records."""
        for counts, own in zip(self._counts, (kind != _E, kind == _E), strict=True):
            counts += [np.count_nonzero(one & own, axis=1) for one in (could, odd)]

    def are_damaged(self, kind: Ints, odd: Bools) -> Bools:
        """Which records have a sign that is rare: a part of such a record was lost, and the rest ran together."""
        n_odd = self._counts[:, 1]
        n_plain = self._counts[:, 0] - n_odd
        is_rare = (_PLAIN_PER_ODD * n_odd < n_plain) & (n_odd <= np.maximum(_SHARE_ODD * n_plain, _FEW_ODD))
        are: Bools = (odd & is_rare[(kind == _E).astype(np.int64)].T).any(axis=0)
        return are


def _ends_within_a_time(scanned: Scanned, low: Ints, high: Ints) -> Bools:
    """Whether a record's last value is this time, and no hours:minutes:seconds, and no plain number of seconds."""
    is_cut = np.zeros(len(low), np.bool_)
    rows = np.flatnonzero((high > low) & (high == scanned.end))
    seconds, minutes = (scanned.data[np.maximum(high[rows] - places, 0)] == ord(":") for places in (3, 6))
    is_clock = seconds & minutes & (high[rows] - low[rows] >= _CLOCK_BYTES)
    for row in rows[~is_clock].tolist():
        is_cut[row] = b":" in scanned.data[low[row] : high[row]].tobytes()
    return is_cut


def _lacks_its_bracket(scanned: Scanned, low: Ints, high: Ints) -> Bools:
    """Whether a list of chunks as in (n1:ncpus=4)+(n2:ncpus=4) begins with a bracket and does not end with one."""
    lacks = np.zeros(len(low), np.bool_)
    rows = np.flatnonzero(high > low)
    lacks[rows] = (scanned.data[low[rows]] == ord("(")) & (scanned.data[high[rows] - 1] != ord(")"))
    return lacks


def _has_zeros(scanned: Scanned) -> Bools:
    """Whether a zero byte stands within a record; a crash leaves zeros where data had not reached the disk."""
    has = np.zeros(len(scanned.line), np.bool_)
    if len(has) and not scanned.data.all():
        zeros = np.flatnonzero(scanned.data == 0)
        first = np.searchsorted(zeros, scanned.start)
        has = (first < len(zeros)) & (zeros[np.minimum(first, len(zeros) - 1)] < scanned.end)
    return has


def record_dates(written: Instants, kind: Ints, said: Said, good: Bools) -> tuple[Ints, Remarks]:
    """UTC seconds of each record's date, and how many doubtful ones stand for an instant that the record lacks.

    A date that came twice is the reading within OFF_S of the record's own instant. The rerun of a job without
    an end is the reading that is the walltime used after its start.
    """
    ends = np.isin(kind, [_E, _R])
    start, end, created, used = (said[key] for key in ("start", "end", "ctime", "resources_used.walltime"))
    event_s = np.select([ends, kind == _S], [end.values, start.values], created.values)
    lacks = np.select([ends, kind == _S], [end.missing, start.missing], created.missing)
    by_walltime = lacks & ends & ~start.missing
    base_s, has_none = np.where(by_walltime, start.values, event_s), lacks & ~by_walltime
    # An instant of the record is no local time, and never came twice.
    base = replace(written, values=base_s, missing=has_none, repeat_s=np.zeros_like(event_s))
    used_s = np.where(used.missing, np.nan, used.values)
    _, dates_s, is_settled = settled(base, written, np.where(by_walltime, used_s, 0.0), OFF_S)
    is_doubtful = good & lacks & (written.repeat_s > 0)
    n_settled, n_doubtful = (int(np.count_nonzero(is_doubtful & own)) for own in (is_settled, ~is_settled))
    return dates_s, Remarks(settled_times=n_settled, ambiguous_times=n_doubtful)


def record_remarks(kind: Ints, dates_s: Ints, said: Said, good: Bools) -> Remarks:
    """How many records have an instant, and how many of those have another date."""
    start, end = said["start"], said["end"]
    event_s = np.where(end.missing, start.values, end.values)
    dated = good & ~(end.missing & start.missing) & np.isin(kind, [_S, _E])
    off = dated & (np.abs(dates_s - event_s) >= OFF_S)
    return Remarks(dated=int(np.count_nonzero(dated)), dated_off=int(np.count_nonzero(off)))


STATES = (
    "CANCELLED", "COMPLETED", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PENDING", "REQUEUED", "RUNNING", "SUSPENDED",
    "TIMEOUT",
)  # fmt: skip
CODE = {name: np.int8(place) for place, name in enumerate(STATES)}
UNKNOWN = np.int8(-1)
_OF_KIND = {
    "Q": "PENDING", "S": "RUNNING", "R": "REQUEUED", "D": "CANCELLED", "A": "CANCELLED", "z": "SUSPENDED",
}  # fmt: skip
_BOTH = {-4: "NODE_FAIL", -5: "NODE_FAIL", -6: "NODE_FAIL"}
_PBS_ONLY = {-29: "TIMEOUT", -26: "OUT_OF_MEMORY", -27: "OUT_OF_MEMORY", -20: "NODE_FAIL"}
_TORQUE_ONLY = {-11: "TIMEOUT", -10: "OUT_OF_MEMORY"}
_OVERLIMIT = -10


def state_codes(kind: Ints, said: Said, is_torque: Bools) -> npt.NDArray[np.int8]:
    """Index into STATES of each record's state, -1 where an E record has no exit status.

    TORQUE's status for a broken limit is that of time where more walltime was used than asked for.
    """
    status, used, asked = (said[key] for key in ("Exit_status", "resources_used.walltime", "Resource_List.walltime"))
    state = np.array([CODE[_OF_KIND[letter]] if letter in _OF_KIND else UNKNOWN for letter in KINDS])[kind]
    ended = (kind == _E) & ~status.missing
    state[ended] = np.where(status.values[ended] == 0, CODE["COMPLETED"], CODE["FAILED"])
    for known, where in ((_BOTH, ended), (_PBS_ONLY, ended & ~is_torque), (_TORQUE_ONLY, ended & is_torque)):
        for number, name in known.items():
            state[where & (status.values == number)] = CODE[name]
    is_over = ~used.missing & ~asked.missing & (used.values > asked.values)
    state[ended & is_torque & (status.values == _OVERLIMIT) & is_over] = CODE["TIMEOUT"]
    return state
