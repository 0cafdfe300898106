"""Runtime statistics of each group at each count on its axis; in order of counts they are its scalability series.

Quantiles of right-censored runtimes are the product-limit estimate of Kaplan & Meier (1958). Without lower bounds they
are the sample quantiles of Hyndman & Fan (1996), type 7: linear interpolation. With bounds, an ended job has the
position F n/(n - 1), where F is one minus the survival estimate before it and n the number of jobs; without bounds that
is the position of type 7, (i - 1)/(n - 1) for the ith. Bounds longer than every ended runtime extend the curve to the
longest of them, so that a further bound never lowers a quantile. A share beyond the curve is NaN: the quantile is
longer than every runtime that ended.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints, category_codes, floats, grouped_jobs, lower_bounds, tally_of
from pipeline.group.axis import COUNTED, axes_and_counts
from pipeline.kernels import entry_kernel, kernel, place_in
from pipeline.report import Report
from pipeline.settings import AxisChoice
from pipeline.tables import OBSERVATIONS

ROUNDING = 1e-12


@kernel
def _at(share: float, reach: float, ended: Floats, place: Floats, n: int) -> Any:
    if len(ended) == 0 or share > reach + ROUNDING:
        return np.nan
    wanted = share * (n - 1)
    high = place_in(place, wanted, True)
    low = high - 1
    if high == len(ended):
        return ended[low]
    return ended[low] + (wanted - place[low]) / (place[high] - place[low]) * (ended[high] - ended[low])


@entry_kernel
def survival_quantiles(runtime_s: Floats, is_bound: Bools, starts: Ints, counts: Ints, shares: Floats) -> Floats:
    """Quantiles (s) in the shape (shares, segments).

    Each segment of jobs is in order of runtime; of equal runtimes, those that ended stand before bounds.
    """
    found = np.empty((len(shares), len(starts)))
    longest = counts.max() + 1 if len(counts) else 0
    ended, place = np.empty(longest), np.empty(longest)
    for k in range(len(starts)):
        n_ended, curve, behind = 0, 1.0, 0
        for i in range(counts[k]):
            if is_bound[starts[k] + i]:
                continue
            at_risk, behind = counts[k] - i, i + 1
            # Without bounds the count gives the place exactly, and the same bits as the plain quantile.
            place[n_ended] = n_ended if i == n_ended else (1.0 - curve) * counts[k]
            ended[n_ended] = runtime_s[starts[k] + i]
            n_ended += 1
            curve *= (at_risk - 1) / at_risk
        n_places = n_ended
        if 0 < behind < counts[k]:
            place[n_ended], ended[n_ended] = (1.0 - curve) * counts[k], runtime_s[starts[k] + counts[k] - 1]
            n_places += 1
        for q in range(len(shares)):
            found[q, k] = _at(shares[q], 1.0 - curve, ended[:n_places], place[:n_places], counts[k])
    return found


def energy_medians(energy_j: Floats, runtime_s: Floats, is_bound: Bools, starts: Ints) -> dict[str, Floats | Ints]:
    """Per segment of the rows, each beginning at one of `starts`, by column name of OBSERVATIONS.

    Jobs that were stopped (lower bounds) and those without measured energy (NaN, or 0: a meter that is off) do not
    count; NaN where none is left. Energy times runtime is each job's own (Horowitz, Indermaur & Gonzalez 1994).
    """
    counted = np.flatnonzero(np.isfinite(energy_j) & (energy_j > 0) & ~is_bound)
    segment = np.searchsorted(starts, counted, "right") - 1
    n_energy = np.bincount(segment, minlength=len(starts))
    joules = energy_j[counted]
    return {
        "n_energy": n_energy,
        "energy_j_median": _medians(joules, segment, n_energy),
        "energy_delay_js_median": _medians(joules * runtime_s[counted], segment, n_energy),
    }


def _medians(values: Floats, segment: Ints, counts: Ints) -> Floats:
    ordered = np.append(values[np.lexsort((values, segment))], np.nan)
    first = np.cumsum(counts) - counts
    low, high = (np.where(counts > 0, first + middle, -1) for middle in ((counts - 1) // 2, counts // 2))
    medians: Floats = (ordered[low] + ordered[high]) / 2
    return medians


MIN_TAIL_JOBS = 40

# The columns of JOBS that say how large a job was, and from when to when it ran.
SPAN = ("procs", "requested_procs", "submit_s", "start_s", "end_s", "runtime_s")


def observe(jobs: pa.Table, axis: AxisChoice = "auto") -> tuple[pa.Table, Report]:
    """OBSERVATIONS of all grouped jobs, in order of group and procs, which counts what `axis` of the row says.

    Parameters
    ----------
    jobs : pa.Table
        Grouped JOBS, all jobs of each group.
    axis : AxisChoice
        How the axis of a group is chosen (see axis.py).

    Returns
    -------
    table : pa.Table
        OBSERVATIONS; runtimes in s.
    report : Report
        Jobs in observations and without a group.

    Examples
    --------
    >>> table, report = observe(tables["jobs"])
    >>> int(np.sum(table.column("n_jobs").to_numpy())) == report.kept.rows
    True
    """
    grouped = grouped_jobs(jobs, (*SPAN, *COUNTED, "energy_j", "is_lower_bound"))
    codes, ids = category_codes(grouped, "group_id")
    start_s, end_s = _start_and_end_s(grouped)
    runtime_s, is_bound = floats(grouped, "runtime_s"), lower_bounds(grouped)
    axes, counts = axes_and_counts(grouped, codes, len(ids), axis)
    energy_j = floats(grouped, "energy_j")
    whole = tally_of(grouped)
    # The columns would be in memory beside the arrays.
    del grouped
    columns = aggregate(codes, counts, runtime_s, start_s, end_s, is_bound, energy_j)
    of_group = columns.pop("group_code")
    table = OBSERVATIONS.build(
        group_id=[ids[code] for code in of_group], axis=[axes[code] for code in of_group], **columns
    )
    repeated = int((columns["n_jobs"] > 1).sum())
    facts = {
        "observations": table.num_rows,
        "observations_with_repeats": repeated,
        "observations_without_median": table.column("runtime_s_median").null_count,
        "jobs_censored": int(is_bound.sum()),
        "jobs_with_energy": int(columns["n_energy"].sum()),
    }
    return table, Report("observe", "job", whole, whole, facts=facts).check()


def aggregate(
    codes: Ints, procs: Ints, runtime_s: Floats, start_s: Floats, end_s: Floats, is_bound: Bools | None = None,
    energy_j: Floats | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Statistics per (group code, procs): arrays of equal length, by column name of OBSERVATIONS, plus `group_code`.

    Runtimes are sorted within each size first, so that sums do not depend on the order of the jobs. Lower bounds enter
    the quantiles by the Kaplan-Meier estimate and do not enter the spread.
    """
    is_bound = np.zeros(len(runtime_s), bool) if is_bound is None else is_bound
    energy_j = np.full(len(runtime_s), np.nan) if energy_j is None else energy_j
    order = np.lexsort((is_bound, runtime_s, procs, codes))
    codes, procs, runtime_s, is_bound = codes[order], procs[order], runtime_s[order], is_bound[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = (codes[1:] != codes[:-1]) | (procs[1:] != procs[:-1])
    starts = np.flatnonzero(is_first)
    counts = np.diff(starts, append=len(order))
    q10_s, median_s, q90_s = survival_quantiles(runtime_s, is_bound, starts, counts, np.array([0.1, 0.5, 0.9]))
    below, above = _repeat_tails(codes, runtime_s, np.repeat(median_s, counts), np.repeat(counts, counts) > 1, is_bound)
    return {
        "group_code": codes[starts],
        "procs": procs[starts],
        "n_jobs": counts,
        "n_censored": np.add.reduceat(is_bound, starts, dtype=np.int64) if len(starts) else counts,
        "runtime_s_median": median_s,
        "runtime_s_q10": q10_s,
        "runtime_s_q90": q90_s,
        "log_sd": _log_sd(runtime_s, starts, ~is_bound),
        "repeat_log_lo95": below[codes[starts]] if len(starts) else below,
        "repeat_log_hi95": above[codes[starts]] if len(starts) else above,
        **energy_medians(energy_j[order], runtime_s, is_bound, starts),
        "first_start_s": _whole_seconds(np.fmin.reduceat(start_s[order], starts) if len(starts) else start_s),
        "last_end_s": _whole_seconds(np.fmax.reduceat(end_s[order], starts) if len(starts) else end_s),
    }


def first_and_last_s(jobs: pa.Table, codes: Ints, n_codes: int) -> tuple[pa.Array, pa.Array]:
    """Earliest start and latest end per code."""
    start_s, end_s = _start_and_end_s(jobs)
    first, last = np.full(n_codes, np.inf), np.full(n_codes, -np.inf)
    np.fmin.at(first, codes, start_s)
    np.fmax.at(last, codes, end_s)
    return _whole_seconds(first), _whole_seconds(last)


def _start_and_end_s(jobs: pa.Table) -> tuple[Floats, Floats]:
    """Start and end; where the log has no start, submit and submit + runtime, the earliest possible values."""
    start_s, end_s = floats(jobs, "start_s"), floats(jobs, "end_s")
    start_s = np.where(np.isnan(start_s), floats(jobs, "submit_s"), start_s)
    return start_s, np.where(np.isnan(end_s), np.floor(start_s + floats(jobs, "runtime_s")), end_s)


def _repeat_tails(
    codes: Ints, runtime_s: Floats, median_s: Floats, is_repeat: Bools, is_bound: Bools
) -> tuple[Floats, Floats]:
    """Per group code, how far the 2.5% and 97.5% quantiles of repeats lie from their size's median (log s).

    A lower bound counts only where it exceeds the median. NaN where a group has fewer than MIN_TAIL_JOBS repeats, too
    few for a quantile that differs from the extreme value.
    """
    n_codes = int(codes.max(initial=-1)) + 1
    log_distance = np.log(runtime_s / median_s)
    counted = is_repeat & ~np.isnan(log_distance) & ~(is_bound & (log_distance < 0))
    codes, log_distance = codes[counted], log_distance[counted]
    order = np.lexsort((log_distance, codes))
    counts = np.bincount(codes, minlength=n_codes)
    enough = counts >= MIN_TAIL_JOBS
    starts = np.cumsum(counts) - counts
    tails = np.full((2, len(counts)), np.nan)
    ordered, none = log_distance[order], np.zeros(len(order), bool)
    ends = np.array([0.025, 0.975])
    tails[:, enough] = np.abs(survival_quantiles(ordered, none, starts[enough], counts[enough], ends))
    return tails[0], tails[1]


def _log_sd(runtime_s: Floats, starts: Ints, counts_in: Bools) -> Floats:
    """Standard deviation of the log runtimes that count in each segment."""
    if not len(starts):
        return np.empty(0)
    counts = np.add.reduceat(counts_in, starts, dtype=np.int64)
    sizes = np.diff(starts, append=len(runtime_s))
    logs = np.where(counts_in, np.log(runtime_s), 0.0)
    means = np.repeat(np.add.reduceat(logs, starts) / np.maximum(counts, 1), sizes)
    squares = np.add.reduceat(np.where(counts_in, (logs - means) ** 2, 0.0), starts)
    return np.sqrt(squares / np.where(counts > 1, counts - 1, np.nan))


def _whole_seconds(values: Floats) -> pa.Array:
    known = np.isfinite(values)
    return pa.array(np.where(known, values, 0).astype(np.int64), mask=~known)
