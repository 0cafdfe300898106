"""Finds outlying runtimes among similar jobs (same user, size and application), on the log scale.

This implements "drop obvious outliers, else average" (ADEPT 3.5.2). A job is an outlier if its runtime differs from
the median of its group by a factor of at least `factor` and by at least `sigmas` robust standard deviations. Groups
that are too small or too wide are not judged; the report counts them. Groups in which long runtimes are common are not
judged for hangs. A lower bound is never an outlier. A long job is an outlier only if it ended abnormally, because most
jobs that ran that long and completed are ordinary work.
"""

import numpy as np

from pipeline.clean.censoring import lower_bounds, reached_limit
from pipeline.clean.comparison_groups import Narrow, SimilarJobs
from pipeline.clean.job_arrays import JobArrays
from pipeline.core.arrays import Bools, Floats
from pipeline.core.clean_settings import CleanSettings, RuntimeSettings
from pipeline.core.report import Fact

ABNORMAL_ENDS = ("CANCELLED", "FAILED", "OUT_OF_MEMORY", "RECONFIG_FAIL")
"""Final states of a hang. The other abnormal states make the runtime a lower bound (censoring.py)."""


def failed_start(arrays: JobArrays, settings: CleanSettings) -> Bools:
    """True for a job of a few seconds in a group whose jobs take far longer; false in groups that cannot be judged."""
    below_s = starts_below_s(arrays.similar, settings.runtime)
    short = arrays.runtime_s <= settings.runtime.start_s
    short[short] = arrays.runtime_s[short] < _per_job(below_s, arrays.similar.group[short])
    return short & ~lower_bounds(arrays, settings)[0]


def hang(arrays: JobArrays, settings: CleanSettings) -> Bools:
    """True for a job that ran far longer than the others of its group and ended abnormally.

    False in groups that cannot be judged, and for a job whose runtime is a lower bound.
    """
    above_s = hangs_above_s(arrays.similar, settings.runtime)
    long = arrays.runtime_s > _per_job(above_s, arrays.similar.group)
    odd = _few_of_their_group(arrays, long, settings.runtime) & ended_abnormally(arrays, settings)
    return odd & ~lower_bounds(arrays, settings)[0]


def ended_abnormally(arrays: JobArrays, settings: CleanSettings) -> Bools:
    """True where the state says that the job failed or was cancelled.

    Where the state is unknown, true where the job reached its request. With neither state nor request it is false.
    """
    is_unknown = arrays.states[0] < 0
    return arrays.state_is(*ABNORMAL_ENDS) | (is_unknown & reached_limit(arrays, settings.limit))


def starts_below_s(similar: SimilarJobs, limits: RuntimeSettings) -> Floats:
    """Per group, the runtime (s) below which a job is a failed start; NaN where the group cannot be judged."""
    below_s = np.exp(similar.log_median - _off_by(similar, limits))
    is_usable = is_large(similar, limits) & is_narrow(similar, limits)
    return np.where(is_usable & (below_s > limits.start_s), below_s, np.nan)


def hangs_above_s(similar: SimilarJobs, limits: RuntimeSettings) -> Floats:
    """Per group, the runtime (s) above which a job is a hang; NaN where the group cannot be judged.

    A group can be judged if 75% of its jobs would exceed that runtime when they took `tell_factor` times as long.
    """
    above_s = np.maximum(np.exp(similar.log_median + _off_by(similar, limits)), limits.hang_s)
    is_sensitive = above_s < limits.tell_factor * np.exp(similar.log_q25)
    return np.where(is_large(similar, limits) & is_narrow(similar, limits) & is_sensitive, above_s, np.nan)


def is_large(similar: SimilarJobs, limits: RuntimeSettings) -> Bools:
    """Per group, whether it has enough typical jobs."""
    return similar.n_typical >= limits.min_jobs


def is_narrow(similar: SimilarJobs, limits: RuntimeSettings) -> Bools:
    """Per group, whether the ratio of its quartiles is at most `max_spread`."""
    narrow: Bools = similar.log_q75 - similar.log_q25 <= np.log(limits.max_spread)
    return narrow


def facts(arrays: JobArrays, settings: CleanSettings) -> dict[str, Fact]:
    """How many groups and jobs could be judged for outliers, and how many could not, by reason."""
    similar, limits = arrays.similar, settings.runtime
    large, narrow = is_large(similar, limits), is_narrow(similar, limits)
    selections = {
        "that_tell_failed_starts": ~np.isnan(starts_below_s(similar, limits)),
        "that_tell_hangs": ~np.isnan(hangs_above_s(similar, limits)),
        "too_wide": large & ~narrow,
        "too_small": ~large,
    }
    counted: dict[str, Fact] = {}
    for name, groups in selections.items():
        counted |= {f"groups_{name}": int(groups.sum()), f"jobs_in_groups_{name}": int(similar.n_jobs[groups].sum())}
    return counted


def _off_by(similar: SimilarJobs, limits: RuntimeSettings) -> Floats:
    """Per group, the smallest distance of an outlier from the median (log s)."""
    sd = np.maximum(similar.log_sd, np.log(limits.least_repeat_factor))
    off: Floats = np.maximum(limits.sigmas * sd, np.log(limits.factor))
    return off


def _per_job(per_group: Floats, group: Narrow) -> Floats:
    """The value of each job's group; NaN for jobs without a group (code -1)."""
    return np.append(per_group, np.nan)[group]


def _few_of_their_group(arrays: JobArrays, odd: Bools, limits: RuntimeSettings) -> Bools:
    """The odd jobs of groups in which odd jobs are rare; where they are common, they are normal."""
    similar = arrays.similar
    n_odd = np.bincount(similar.group[odd & arrays.is_typical], minlength=len(similar.n_jobs))
    is_habit = n_odd > limits.habit_share * similar.n_typical
    few = odd.copy()
    few[odd] = ~is_habit[similar.group[odd]]
    return few
