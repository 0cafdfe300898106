"""The error of a template on later jobs: medians of earlier jobs against the runtimes of jobs submitted afterwards."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints, floats, job_procs, lower_bounds, row_codes

# Shares of the jobs, by submit. Medians are learnt up to each cut but the last and scored up to the next cut.
CUTS = (0.4, 0.55, 0.7, 0.85, 1.0)

# Upper bound of the weight of one processor count in the average over a group's counts (jobs).
MOST_JOBS = 20.0


@dataclass(frozen=True, slots=True)
class ComparedJobs:
    """The jobs with a known runtime, in order of runtime, as arrays; `row` is their row in JOBS."""

    row: Ints
    submit_s: Floats
    end_s: Floats
    log_t: Floats
    procs: Ints
    cuts_s: tuple[float, ...]


def compared_jobs(jobs: pa.Table) -> ComparedJobs:
    """The jobs with a known submit time and a runtime that is not a lower bound."""
    submit_s, runtime_s = floats(jobs, "submit_s"), floats(jobs, "runtime_s")
    known = ~np.isnan(submit_s) & (runtime_s > 0) & ~lower_bounds(jobs)
    row = np.flatnonzero(known)
    row = row[np.argsort(runtime_s[row], kind="stable")]
    end_s = floats(jobs, "end_s")[row]
    submit_s, runtime_s = submit_s[row], runtime_s[row]
    end_s = np.where(np.isnan(end_s), submit_s + runtime_s, end_s)
    at = np.sort(submit_s)
    cuts_s = tuple(float(at[max(int(share * len(at)) - 1, 0)]) for share in CUTS) if len(at) else ()
    return ComparedJobs(row, submit_s, end_s, np.log(runtime_s), job_procs(jobs)[row].astype(np.int64), cuts_s)


def later_error(compared: ComparedJobs, group: Ints) -> tuple[float, float, int]:
    """Mean absolute log error over all windows, the share of later jobs whose group had run before, and their number.

    `group` is a code per job of `compared`. A cell is a group and a processor count. A later job is predicted by the
    median of its cell, else by the weighted medians of its group's cells, where nearer counts weigh more, else by the
    median of all earlier jobs.
    """
    cell = row_codes(group, compared.procs)
    by_cell = np.argsort(cell, kind="stable")
    errors, n_covered = [np.empty(0)], 0
    for cut_s, until_s in zip(compared.cuts_s, compared.cuts_s[1:], strict=False):
        is_past = compared.end_s <= cut_s
        is_later = (compared.submit_s > cut_s) & (compared.submit_s <= until_s)
        if is_past.any() and is_later.any():
            found = _predicted(compared, group, cell, by_cell[is_past[by_cell]], is_later)
            n_covered += int((~np.isnan(found)).sum())
            found = np.where(np.isnan(found), np.median(compared.log_t[is_past]), found)
            errors.append(np.abs(compared.log_t[is_later] - found))
    # In order of size, so that the sum does not depend on the order of the jobs.
    whole = np.sort(np.concatenate(errors))
    n_later = len(whole)
    return float(whole.mean()) if n_later else np.nan, n_covered / max(n_later, 1), n_later


def _predicted(compared: ComparedJobs, group: Ints, cell: Ints, earlier: Ints, is_later: Bools) -> Floats:
    """Log runtime of each later job; NaN where its group has no earlier job.

    `earlier` holds the rows of earlier jobs, in order of cell, then of runtime.
    """
    starts = np.flatnonzero(np.diff(cell[earlier], prepend=-1))
    counts = np.diff(starts, append=len(earlier))
    log_t = compared.log_t[earlier]
    low, high = log_t[starts + (counts - 1) // 2], log_t[starts + counts // 2]
    median = np.full(int(cell.max()) + 1, np.nan)
    median[cell[earlier[starts]]] = (low + high) / 2
    found: Floats = median[cell[is_later]]
    is_open = np.isnan(found)
    first = earlier[starts]
    target = np.flatnonzero(is_later)[is_open]
    procs = compared.procs
    found[is_open] = _from_other_sizes(
        group[first], procs[first], median[cell[first]], counts, group[target], procs[target], cell[target]
    )
    return found


def _from_other_sizes(
    group: Ints, procs: Ints, median: Floats, counts: Ints, target_group: Ints, target_procs: Ints, target_cell: Ints
) -> Floats:
    """Kernel average of a group's medians over log2 of processors; NaN where the group has none."""
    order = np.lexsort((procs, group))
    group, procs, median, counts = group[order], procs[order], median[order], counts[order]
    _, one, back = np.unique(target_cell, return_index=True, return_inverse=True)
    low, high = (np.searchsorted(group, target_group[one], side) for side in ("left", "right"))
    n = high - low
    query = np.repeat(np.arange(len(one)), n)
    at = np.repeat(low - np.cumsum(n) + n, n) + np.arange(int(n.sum()))
    apart = np.abs(np.log2(procs[at] / target_procs[one][query]))
    weight = np.exp(-apart) * np.minimum(counts[at], MOST_JOBS)
    total = np.bincount(query, weight, len(one))
    summed = np.bincount(query, weight * median[at], len(one))
    averaged: Floats = np.where(total > 0, summed / np.where(total > 0, total, 1.0), np.nan)
    return averaged[back]
