"""Records of jobs made jobs: one row per attempt to run one, whatever the order the records came in.

A job is a job id and the instant it was created (ctime); a record without one (D, A, and Q in TORQUE) belongs to the
newest job of its id that is older, else to the oldest. A job's S, R and E records, in order of start, are its attempts:
those with one start are one attempt, and an R or E that does not tell its start ends the S before it. An attempt's
values come from its E, else R, else S record; what that one lacks comes from the record before it, as a rule the S. A Q
record counts only for a job that has no attempt.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import (
    CATEGORY,
    Bools,
    Ints,
    arrow,
    dense_codes,
    floats_of,
    integers,
    nulls,
    one_piece,
    row_codes,
    texts,
)
from pipeline.ingest.formats.pbs.fields import CODE, STATES
from pipeline.ingest.formats.pbs.scan import KINDS
from pipeline.ingest.reader import Folded, constant, jobs_table
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.tables import JOB, JOBS

_Q, _S, _R, _E, _D, _A, _Z = range(len(KINDS))
_POSITION = ("source_file", "source_line")
_SHIFT = 34
"""Instants are below 2^33, so that a job is one number: id << 34 | ctime."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """For each row that becomes a job: the records it is made of (-1: none), and its job."""

    best: Ints
    second: Ints
    job: Ints
    is_last: Bools


Spans = tuple[Ints, Ints]
"""By job, the first and the last instant of its records of some kinds; (2^62, -1) where it has none."""


def fold(_jobs: pa.Table, parts: pa.Table, site: SiteSettings, _settings: IngestSettings) -> Folded:
    """One row per attempt of each job of these records, in any order; `lines`: the records that added to one, by type.

    State is RUNNING where the records end with a start, PENDING where the job is only queued, CANCELLED where it was
    deleted before it ended or in its run, REQUEUED where the attempt was rerun, else what the exit status says. Runtime
    is the walltime used where the log has it, else end minus start; suspended_s is the rest of that, where the log
    tells of a suspension. Restarts are left 0.
    """
    parts = parts.combine_chunks().unify_dictionaries()
    kind = integers(parts["kind"])[0]
    record_s = integers(parts["record_s"])[0]
    start, has_no_start = integers(parts["start_s"])
    key = np.where(has_no_start, record_s, start)
    job, n_jobs = _jobs_of(parts, record_s)
    order = _ordered(parts, [job, key, kind, record_s])
    rows = _rows(order, kind, key, has_no_start, job, n_jobs)
    deleted, suspended = (_spans(kind, kinds, record_s, job, n_jobs) for kinds in ((_D, _A), (_Z,)))
    made = np.bincount(kind[rows.best], minlength=len(KINDS))
    left = np.bincount(kind, minlength=len(KINDS)) - made
    lines = {f"event_{letter}": int(n) for letter, n in zip(KINDS, left, strict=True) if n}
    n_rows = len(rows.best)
    own = [name for name in parts.column_names if name in JOBS.schema().names]
    columns = {name: _filled(parts[name], rows) for name in own} | _times(parts, rows, deleted, suspended)
    return Folded(jobs_table(n_rows, site=constant(site.name, n_rows), **columns), lines)


def _jobs_of(parts: pa.Table, record_s: Ints) -> tuple[Ints, int]:
    """Each record's job as a number, and how many numbers there are."""
    ids = dense_codes(parts["job_id"])
    created, has_none = integers(parts["submit_s"])
    known = np.sort(((ids << _SHIFT) + created)[~has_none])
    known = known[np.diff(known, prepend=-1) != 0]
    job = np.searchsorted(known, (ids << _SHIFT) + np.where(has_none, 0, created))
    lost = np.flatnonzero(has_none)
    if len(lost):
        bound = (1 << (_SHIFT - 1)) - 1
        before = np.searchsorted(known, (ids[lost] << _SHIFT) + np.clip(record_s[lost], 0, bound), side="right") - 1
        id_of = np.append(known >> _SHIFT, -1)
        after = before + 1
        job[lost] = np.where(
            id_of[before] == ids[lost], before, np.where(id_of[after] == ids[lost], after, len(known) + ids[lost])
        )
    return job, len(known) + int(ids.max(initial=-1)) + 1


def _ordered(parts: pa.Table, keys: list[Ints]) -> Ints:
    """Row numbers in order of the keys; rows that agree in all of them by their content, then by where they stand.

    Of records that say the same only the last is there: logs overlap, and a record read twice adds nothing to itself.
    """
    order = np.lexsort(keys[::-1])
    same = np.logical_and.reduce([key[order[1:]] == key[order[:-1]] for key in keys])
    if not same.any():
        return order
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    ranks = _ranks(parts.take(arrow(order[tied])))
    said = [*(key[order[tied]] for key in keys), *(rank for name, rank in ranks.items() if name not in _POSITION)]
    place = np.lexsort([*(ranks[name] for name in _POSITION[::-1]), *said[::-1]])
    order[tied] = order[tied][place]
    said_again = np.logical_and.reduce([values[place[1:]] == values[place[:-1]] for values in said])
    return np.delete(order, tied[:-1][said_again])


def _ranks(rows: pa.Table) -> dict[str, Ints]:
    """By column with a value, the rank of each row's value, nulls first; of `job_id` that of the job (JOB)."""
    ranks = {}
    for field in rows.schema:
        if rows[field.name].null_count < len(rows):
            column = rows[field.name].cast(pa.string()) if field.type == CATEGORY else rows[field.name]
            rank = integers(pc.rank(column, tiebreaker="dense").cast(pa.int64()))[0]
            ranks[field.name] = np.where(nulls(column), -1, rank)
    return ranks | {"job_id": row_codes(*(ranks[name] for name in JOB if name in ranks))}


def _rows(order: Ints, kind: Ints, key: Ints, has_no_start: Bools, job: Ints, n_jobs: int) -> _Rows:
    """The attempts of all jobs, then one row for each job that has none."""
    is_run = np.isin(kind[order], (_S, _R, _E))
    runs = order[is_run]
    is_other_job = np.diff(job[runs], prepend=-1) != 0
    is_other_start = np.append(True, key[runs][1:] != key[runs][:-1])
    ends_one = np.append(False, (kind[runs][:-1] == _S) & (kind[runs][1:] != _S)) & has_no_start[runs]
    is_first = is_other_job | (is_other_start & ~ends_one)
    is_best = np.append(is_first[1:], True) if len(runs) else is_first
    best = runs[is_best]
    second = np.where(is_first[is_best], -1, runs[np.flatnonzero(is_best) - 1]) if len(runs) else best
    queued = np.full(n_jobs, -1, np.int64)
    waiting = order[kind[order] == _Q]
    queued[job[waiting]] = waiting
    alone = np.full(n_jobs, -1, np.int64)
    others = order[np.isin(kind[order], (_Q, _D, _A))]
    alone[job[others]] = others
    alone[job[best]] = -1
    lone_jobs = np.flatnonzero(alone >= 0)
    lone = np.where(queued[lone_jobs] >= 0, queued[lone_jobs], alone[lone_jobs])
    is_last = np.append(np.diff(job[best]) != 0, np.ones(len(lone) + min(len(best), 1), np.bool_))
    jobs = np.concatenate([job[best], lone_jobs])
    return _Rows(np.append(best, lone), np.append(second, np.full(len(lone), -1, np.int64)), jobs, is_last)


def _spans(kind: Ints, kinds: tuple[int, ...], record_s: Ints, job: Ints, n_jobs: int) -> Spans:
    """When the records of these kinds were written."""
    first, last = np.full(n_jobs, 1 << 62, np.int64), np.full(n_jobs, -1, np.int64)
    rows = np.flatnonzero(np.isin(kind, kinds))
    np.minimum.at(first, job[rows], record_s[rows])
    np.maximum.at(last, job[rows], record_s[rows])
    return first, last


def _times(parts: pa.Table, rows: _Rows, deletions: Spans, suspensions: Spans) -> dict[str, pa.Array]:
    """The columns that more than one record has a say in."""
    kind, record_s = integers(parts["kind"])[0][rows.best], integers(parts["record_s"])[0][rows.best]
    is_run, is_ended = np.isin(kind, (_S, _R, _E)), np.isin(kind, (_R, _E))
    start, no_start = integers(_filled(parts["start_s"], rows))
    start = np.where(no_start, record_s, start)
    no_start = ~is_run | (no_start & (kind != _S))
    end, no_end = integers(_filled(parts["end_s"], rows))
    end = np.where(no_end, record_s, end)
    deleted, is_deleted = deletions[1][rows.job], deletions[1][rows.job] >= 0
    is_cut = (kind == _S) & rows.is_last & is_deleted
    is_gone = ~is_run & is_deleted
    end = np.where(is_cut | is_gone, deleted, end)
    no_end = ~(is_ended | is_gone | (is_cut & (end >= start)))
    runtime = floats_of(_filled(parts["runtime_s"], rows))
    elapsed = np.where(no_start | no_end | ~is_run | (end < start), np.nan, (end - start).astype(np.float64))
    runtime = np.where(is_ended, np.where(np.isnan(runtime), elapsed, runtime), np.where(is_cut, elapsed, np.nan))
    inside = _is_inside(suspensions, rows.job, start, end) & is_ended & ~no_start
    suspended = np.where(inside, np.maximum(elapsed - runtime, 0.0), np.nan)
    submit, no_submit = integers(_filled(parts["submit_s"], rows))
    is_waiting = no_submit & (kind == _Q)
    was_deleted = is_ended & (kind == _E) & _is_inside(deletions, rows.job, start, end) & ~no_start
    return {
        "submit_s": arrow(np.where(is_waiting, record_s, submit), no_submit & ~is_waiting),
        "start_s": arrow(start, no_start),
        "end_s": arrow(end, no_end),
        "runtime_s": arrow(runtime, np.isnan(runtime)),
        "suspended_s": arrow(suspended, np.isnan(suspended)),
        "state": _states(parts, rows, kind, is_cut | is_gone, was_deleted),
    }


def _is_inside(span: Spans, job: Ints, start: Ints, end: Ints) -> Bools:
    """Whether the first or the last of a job's events lies between start and end."""
    inside: Bools = np.logical_or.reduce([(at[job] >= start) & (at[job] <= end) for at in span])
    return inside


def _states(parts: pa.Table, rows: _Rows, kind: Ints, is_cancelled: Bools, was_deleted: Bools) -> pa.Array:
    """A job that is deleted in its run is CANCELLED whatever its exit status, unless that tells of a limit."""
    state = integers(parts["state_code"])[0][rows.best].astype(np.int32)
    state[is_cancelled | (was_deleted & (state != CODE["TIMEOUT"]))] = CODE["CANCELLED"]
    state[(kind == _S) & ~rows.is_last] = CODE["REQUEUED"]
    return pa.DictionaryArray.from_arrays(arrow(np.maximum(state, 0), state < 0), texts(STATES))


def _filled(column: pa.ChunkedArray, rows: _Rows) -> pa.Array:
    """The rows' values: of the best record, and where it has none of the second."""
    array, source = one_piece(column), rows.best
    if 0 < array.null_count < len(array):
        has = np.append(~nulls(array), False)
        source = np.where(~has[source] & has[rows.second], rows.second, source)
    return array.take(arrow(source))
