"""Finds outlying runtimes among similar jobs (same user, size and application), on the log scale.

This implements "drop obvious outliers, else average" (ADEPT 3.5.2). A job is an outlier if its runtime differs from
the median of its group by a factor of at least OUTLIER_FACTOR and by at least OUTLIER_SIGMAS robust standard
deviations. Groups that are too small or too wide are not judged. Groups in which long runtimes
are common are not judged for hangs. A lower bound is never an outlier. A long job is an outlier only if it ended
abnormally, because most jobs that ran that long and completed are ordinary work.

The distribution of a group is that of its typical jobs: those that ran to their end or to their limit, or whose final
state is unknown. Failed and cancelled jobs are compared with it but do not enter it.
docs/decisions/cleaning-and-groups.md says how the thresholds were chosen.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Bools, Floats, Ints
from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.records import lower_bounds, reached_limit

Narrow = npt.NDArray[np.int32]

# A group of fewer typical jobs has no statistics: its quartiles would be too uncertain.
LEAST_JOBS = 5

# Standard deviation over median absolute deviation of a normal distribution.
NORMAL_MAD = 1.4826


@dataclass(frozen=True, slots=True)
class SimilarJobs:
    """Per job its group (-1: none). Per group its jobs, its typical jobs, and quantiles of log runtime.

    `log_sd` is NORMAL_MAD times the median absolute deviation. Statistics are NaN below LEAST_JOBS typical jobs.
    """

    group: Narrow
    n_jobs: Ints
    n_typical: Ints
    log_median: Floats
    log_sd: Floats
    log_q25: Floats
    log_q75: Floats


def similar_jobs(arrays: JobArrays) -> SimilarJobs:
    """The groups of the jobs whose user, size and positive runtime are known; unknown is an application of its own."""

    def described() -> SimilarJobs:
        rows = arrays.by_user[(arrays.runtime_s[arrays.by_user] > 0) & (arrays.procs[arrays.by_user] > 0)]
        group = np.full(len(arrays.runtime_s), -1, np.int32)
        group[rows] = arrays.similar_codes(rows)
        n_jobs = np.bincount(group[rows])
        typical = rows[arrays.is_typical[rows] & (n_jobs >= LEAST_JOBS)[group[rows]]]
        code, logs = group[typical], np.log(arrays.runtime_s[typical])
        n_typical = np.bincount(code, minlength=len(n_jobs))
        median, low, high = quantiles_of_groups(logs, code, n_typical, (0.5, 0.25, 0.75))
        (apart,) = quantiles_of_groups(np.abs(logs - median[code]), code, n_typical, (0.5,))
        return SimilarJobs(group, n_jobs, n_typical, median, apart * NORMAL_MAD, low, high)

    return arrays.once("similar", described)


def quantiles_of_groups(values: Floats, code: Narrow, counts: Ints, shares: tuple[float, ...]) -> Floats:
    """(shares, groups): quantiles, interpolated, of the values of each group; NaN below LEAST_JOBS values."""
    ordered = values[np.lexsort((values, code))]
    first, found = np.cumsum(counts) - counts, np.full((len(shares), len(counts)), np.nan)
    enough = np.flatnonzero(counts >= LEAST_JOBS)
    for nth, share in enumerate(shares):
        place = share * (counts[enough] - 1)
        low = first[enough] + place.astype(np.int64)
        found[nth, enough] = ordered[low] + place % 1.0 * (ordered[low + 1] - ordered[low])
    return found


# Final states of a hang. The other abnormal states make the runtime a lower bound (records.py).
ABNORMAL_ENDS = ("CANCELLED", "FAILED", "OUT_OF_MEMORY", "RECONFIG_FAIL")

# Least number of a group's jobs that ran to their end or limit; smaller groups are not judged.
GROUP_MIN_JOBS = 20

# Largest ratio of the 75% to the 25% quantile of their runtimes; wider groups are not judged.
GROUP_MAX_SPREAD = 4.0

# Least factor between the runtime of an outlier and the median, in either direction.
OUTLIER_FACTOR = 10.0

# Least distance of an outlier from the median in robust standard deviations of log runtime.
OUTLIER_SIGMAS = 4.0

# Lower bound of one standard deviation, as a factor of the runtime.
LEAST_REPEAT_FACTOR = 1.25

# Longest runtime of a failed start (s).
FAILED_START_S = 10.0

# Shortest runtime of a hang (s).
HANG_S = 600.0

# Largest share of a group's jobs that may be outliers; beyond it they are normal for the group.
HABIT_SHARE = 0.1

# A group is judged for hangs only if it would reveal jobs that take this many times as long.
SENSITIVE_FACTOR = 30.0


def failed_start(arrays: JobArrays) -> Bools:
    """True for a job of a few seconds in a group whose jobs take far longer; false in groups that cannot be judged."""
    below_s = starts_below_s(similar_jobs(arrays))
    short = arrays.runtime_s <= FAILED_START_S
    short[short] = arrays.runtime_s[short] < _per_job(below_s, similar_jobs(arrays).group[short])
    return short & ~lower_bounds(arrays)[0]


def hang(arrays: JobArrays) -> Bools:
    """True for a job that ran far longer than the others of its group and ended abnormally.

    False in groups that cannot be judged, and for a job whose runtime is a lower bound.
    """
    above_s = hangs_above_s(similar_jobs(arrays))
    long = arrays.runtime_s > _per_job(above_s, similar_jobs(arrays).group)
    odd = _few_of_their_group(arrays, long) & ended_abnormally(arrays)
    return odd & ~lower_bounds(arrays)[0]


def ended_abnormally(arrays: JobArrays) -> Bools:
    """True where the state says that the job failed or was cancelled.

    Where the state is unknown, true where the job reached its request. With neither state nor request it is false.
    """
    is_unknown = arrays.codes("state")[0] < 0
    return arrays.state_is(*ABNORMAL_ENDS) | (is_unknown & reached_limit(arrays))


def starts_below_s(similar: SimilarJobs) -> Floats:
    """Per group, the runtime (s) below which a job is a failed start; NaN where the group cannot be judged."""
    below_s = np.exp(similar.log_median - _off_by(similar))
    return np.where(is_judged(similar) & (below_s > FAILED_START_S), below_s, np.nan)


def hangs_above_s(similar: SimilarJobs) -> Floats:
    """Per group, the runtime (s) above which a job is a hang; NaN where the group cannot be judged.

    A group can be judged if 75% of its jobs would exceed that runtime when they took SENSITIVE_FACTOR times as long.
    """
    above_s = np.maximum(np.exp(similar.log_median + _off_by(similar)), HANG_S)
    is_sensitive = above_s < SENSITIVE_FACTOR * np.exp(similar.log_q25)
    return np.where(is_judged(similar) & is_sensitive, above_s, np.nan)


def is_judged(similar: SimilarJobs) -> Bools:
    """Per group, whether it has enough typical jobs, and the ratio of its quartiles is at most GROUP_MAX_SPREAD."""
    is_narrow: Bools = similar.log_q75 - similar.log_q25 <= np.log(GROUP_MAX_SPREAD)
    return (similar.n_typical >= GROUP_MIN_JOBS) & is_narrow


def _off_by(similar: SimilarJobs) -> Floats:
    """Per group, the smallest distance of an outlier from the median (log s)."""
    sd = np.maximum(similar.log_sd, np.log(LEAST_REPEAT_FACTOR))
    return np.maximum(OUTLIER_SIGMAS * sd, np.log(OUTLIER_FACTOR))


def _per_job(per_group: Floats, group: Narrow) -> Floats:
    """The value of each job's group; NaN for jobs without a group (code -1)."""
    return np.append(per_group, np.nan)[group]


def _few_of_their_group(arrays: JobArrays, odd: Bools) -> Bools:
    """The odd jobs of groups in which few jobs are odd. Where many are, none counts as odd."""
    similar = similar_jobs(arrays)
    n_odd = np.bincount(similar.group[odd & arrays.is_typical], minlength=len(similar.n_jobs))
    is_habit = n_odd > HABIT_SHARE * similar.n_typical
    few = odd.copy()
    few[odd] = ~is_habit[similar.group[odd]]
    return few
