"""Tells which PBS records are damaged: by themselves, or by a sign that is rare among the records of their file."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints, integers
from pipeline.ingest.formats.pbs.scan import KINDS, REASONS, Scanned
from pipeline.ingest.reader import by_word

_CUT_SHORT, _BAD_NUMBER, _NUL_BYTES, _NO_LINE_END = (
    REASONS.index(name) + 1 for name in ("cut_short", "bad_number", "nul_bytes", "no_line_end")
)
_DURATIONS = ("Resource_List.walltime", "resources_used.walltime", "resources_used.cput")
_CLOCK_BYTES = len("0:00:00")
_S, _E = (KINDS.index(letter) for letter in "SE")


Said = Mapping[str, Any]
"""Each key's values: Typed numbers, or an Arrow array of texts."""


def damage_of(
    scanned: Scanned, said: Said, spans: Mapping[str, Ints], needed: Sequence[str], *, takes_last: bool
) -> Ints:
    """1 + index into REASONS of each record that is not whole, else 0.

    A record without a line end may be cut anywhere, so that no value of it can be relied on. One that has an end is cut
    where it lacks what its type always tells (S: user and start; E: user, end and Exit_status). What only looks odd is
    for `rare_damage` and the file's other records to tell.
    needed: keys whose values must be numbers.
    """
    damage = np.zeros(len(scanned.line), np.int64)
    is_cut = (scanned.kind == _E) & (said["end"].missing | said["Exit_status"].missing)
    for key in NAMED:
        is_cut |= _matches(said[key], IN_NO_NAME) == 1
    is_cut |= (scanned.kind == _S) & said["start"].missing
    low, high = spans["user"]
    is_cut |= np.isin(scanned.kind, (_S, _E)) & (low == high)
    damage[is_cut] = _CUT_SHORT
    damage[np.logical_or.reduce([said[key].invalid for key in needed])] = _BAD_NUMBER
    # A crash leaves zeros where data had not reached the disk.
    if scanned.data.min(initial=1) == 0:
        zeros = np.flatnonzero(scanned.data == 0)
        damage[np.searchsorted(zeros, scanned.start) < np.searchsorted(zeros, scanned.end)] = _NUL_BYTES
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
NAMED = ("user", "group", "queue")
"""Keys of names."""
IN_OTHER_PARTS, IN_NO_NAME = r"[=;\s]|/\d", r"^\s|[\x00-\x1f]|[;\s]\S*=|/\d+\s|;\w;"
"""What stands in other parts of a record (dates, hosts, blanks) and is rare in names; and what no directory has in one:
another key behind a semicolon or a blank, a record's type, or the end of a list of hosts.
"""

N_SIGNS = len(TOLD) + len(NAMED) + 2
_SHARE_ODD = 0.05
"""Of the starts or ends of a file: what is odd about more of them is the way of the server or of the site's names."""

_FEW_ODD = np.repeat([1.0, 3.0, 1.0], [len(TOLD), len(NAMED), 2])
"""So few are rare in a small file, too; a name counts here only where it does not come again."""

_PLAIN_PER_ODD = np.repeat([2.0, 0.5], [N_SIGNS - 2, 2])
_PLAIN_PER_ODD[len(TOLD) + NAMED.index("user")] = -1.0
"""Of one record in two that ends within a time or a list, PBS's manuals tell which is whole. A user has more records
than one, so that an odd one that does not come again is damage, however few records are beside it."""


def rare_damage(scanned: Scanned, said: Said, spans: Mapping[str, Ints], is_whole: Bools, counts: Ints) -> Bools:
    """Which of the whole records have a sign of damage that is rare in their file.

    The signs are: to lack a key of TOLD beside one that is written with it, a name of NAMED with what stands between
    other parts, a last value that ends within a time as in 00:1, a list of chunks without its last bracket. Each of
    them is also the way of some server or site, so that only a rare one is called damage.

    counts: (2, 2, N_SIGNS), by other record and end how many records of the file up to here could have each sign, and
    how many have it; those of this block are added.
    """
    has = np.array([spans[key][1] > 0 for key in TOLD])
    is_told = np.array([has[group == _GROUP].any(axis=0) for group in range(len(TOGETHER))])[_GROUP]
    could, lacks = np.isin(scanned.kind, (_S, _E)) & is_told, ~has
    # Where any record names its user, its group stands behind that.
    could[TOLD.index("group")] |= has[TOLD.index("user")]
    named = np.array([_matches(said[key], IN_OTHER_PARTS) for key in NAMED])
    within = np.logical_or.reduce([_ends_within_a_time(scanned, *spans[key]) for key in _DURATIONS])
    low, high = spans["exec_vnode"]
    # An empty value may stand at the end of the data.
    first, last = (scanned.data[np.minimum(at, len(scanned.data) - 1)] for at in (low, high - 1))
    bracket = (high > low) & (first == ord("(")) & (last != ord(")"))
    could = np.concatenate([could, ~np.isnan(named), np.ones((2, len(scanned.line)), np.bool_)]) & is_whole
    odd = could & np.concatenate([lacks, named == 1, [within, bracket]])
    is_end = scanned.kind == _E
    owns = (~is_end, is_end)
    counts += [[np.count_nonzero(one & own, axis=1) for one in (could, odd)] for own in owns]
    for sign, key in enumerate(NAMED, len(TOLD)):
        # Two records do not run together in the same bytes: a name that comes again is a name.
        names = integers(said[key].indices)[0][odd[sign]]
        odd[sign, odd[sign]] = np.bincount(names)[names] == 1
    # A part of a record with a rare sign was lost, and the rest ran together.
    n_odd = counts[:, 1]
    n_plain = counts[:, 0] - n_odd
    is_rare = (_PLAIN_PER_ODD * n_odd < n_plain) & (n_odd <= np.maximum(_SHARE_ODD * n_plain, _FEW_ODD))
    damaged: Bools = np.logical_or.reduce(
        [(odd & own)[rare].any(axis=0) for own, rare in zip(owns, is_rare, strict=True)]
    )
    return damaged


def _matches(names: pa.DictionaryArray, sign: str) -> Floats:
    found: Callable[[str], float] = lambda name: float(re.search(sign, name) is not None)  # noqa: E731
    return by_word(names, found)


def _ends_within_a_time(scanned: Scanned, low: Ints, high: Ints) -> Bools:
    """Whether a record's last value is this time, and no hours:minutes:seconds, and no plain number of seconds."""
    is_cut = np.zeros(len(low), np.bool_)
    rows = np.flatnonzero((high > low) & (high == scanned.end))
    seconds, minutes = (scanned.data[np.maximum(high[rows] - places, 0)] == ord(":") for places in (3, 6))
    is_clock = seconds & minutes & (high[rows] - low[rows] >= _CLOCK_BYTES)
    for row in rows[~is_clock].tolist():
        is_cut[row] = b":" in scanned.data[low[row] : high[row]].tobytes()
    return is_cut
