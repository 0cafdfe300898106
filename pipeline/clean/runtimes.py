"""Runtimes far off what jobs like them take: one user's jobs of one size and application, on the log scale.

This is what "drop obvious outliers, else average" (ADEPT 3.5.2) is here: a job is an outlier if it is `factor` times
off its group's median runtime and `sigmas` robust standard deviations on top, and nothing else is dropped. A group too
small or too wide to tell is left alone, and counted; so is one in which long runtimes are no exception. A lower bound
is never an outlier: it ran as long as it was let. A long job is an outlier only if it ended abnormally: most jobs that
ran that long and completed are ordinary work.
"""

import numpy as np

from pipeline.clean.censoring import lower_bounds, reached_limit
from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.similar_jobs import Narrow, SimilarJobs
from pipeline.core.arrays import Bools, Floats
from pipeline.core.clean_settings import CleanSettings, RuntimeSettings
from pipeline.core.report import Fact

ABNORMAL_ENDS = ("CANCELLED", "FAILED", "OUT_OF_MEMORY", "RECONFIG_FAIL")
"""States of a hang. The other abnormal ends make the runtime a lower bound (censoring.py)."""


def failed_start(arrays: JobArrays, settings: CleanSettings) -> Bools:
    """True for a job of seconds in a group whose jobs take far longer, where that can be told."""
    below_s = starts_below_s(arrays.similar, settings.runtime)
    short = arrays.runtime_s <= settings.runtime.start_s
    short[short] = arrays.runtime_s[short] < _per_job(below_s, arrays.similar.group[short])
    return short & ~lower_bounds(arrays, settings)[0]


def hang(arrays: JobArrays, settings: CleanSettings) -> Bools:
    """True for a job that ran far longer than those of its group and ended abnormally, where that can be told.

    A job whose runtime is a lower bound is none.
    """
    above_s = hangs_above_s(arrays.similar, settings.runtime)
    long = arrays.runtime_s > _per_job(above_s, arrays.similar.group)
    odd = _few_of_their_group(arrays, long, settings.runtime) & ended_abnormally(arrays, settings)
    return odd & ~lower_bounds(arrays, settings)[0]


def ended_abnormally(arrays: JobArrays, settings: CleanSettings) -> Bools:
    """True where the state says that the job failed or was cancelled.

    Where the state is unknown, true where the job reached its request. With neither state nor request it is false.
    """
    not_told = arrays.states[0] < 0
    return arrays.state_is(*ABNORMAL_ENDS) | (not_told & reached_limit(arrays, settings.limit))


def starts_below_s(similar: SimilarJobs, limits: RuntimeSettings) -> Floats:
    """Per group, the runtime below which a job is a failed start; NaN where some job of seconds would not be one."""
    below_s = np.exp(similar.log_median - _off_by(similar, limits))
    is_usable = is_large(similar, limits) & is_narrow(similar, limits)
    return np.where(is_usable & (below_s > limits.start_s), below_s, np.nan)


def hangs_above_s(similar: SimilarJobs, limits: RuntimeSettings) -> Floats:
    """Per group, the runtime above which a job hangs; NaN where hangs of `tell_factor` times would not show.

    They show if three jobs in four, taking that many times as long as they do, would be above.
    """
    above_s = np.maximum(np.exp(similar.log_median + _off_by(similar, limits)), limits.hang_s)
    tells = above_s < limits.tell_factor * np.exp(similar.log_q25)
    return np.where(is_large(similar, limits) & is_narrow(similar, limits) & tells, above_s, np.nan)


def is_large(similar: SimilarJobs, limits: RuntimeSettings) -> Bools:
    """Per group, whether enough of its jobs ran to their end or limit."""
    return similar.n_typical >= limits.min_jobs


def is_narrow(similar: SimilarJobs, limits: RuntimeSettings) -> Bools:
    """Per group, whether its quartiles are near each other."""
    narrow: Bools = similar.log_q75 - similar.log_q25 <= np.log(limits.max_spread)
    return narrow


def facts(arrays: JobArrays, settings: CleanSettings) -> dict[str, Fact]:
    """How many jobs and groups could tell an outlier, and how many could not, and why."""
    similar, limits = arrays.similar, settings.runtime
    large, narrow = is_large(similar, limits), is_narrow(similar, limits)
    kinds = {
        "that_tell_failed_starts": ~np.isnan(starts_below_s(similar, limits)),
        "that_tell_hangs": ~np.isnan(hangs_above_s(similar, limits)),
        "too_wide": large & ~narrow,
        "too_small": ~large,
    }
    counted: dict[str, Fact] = {}
    for kind, groups in kinds.items():
        counted |= {f"groups_{kind}": int(groups.sum()), f"jobs_in_groups_{kind}": int(similar.n_jobs[groups].sum())}
    return counted


def _off_by(similar: SimilarJobs, limits: RuntimeSettings) -> Floats:
    """Per group, how far off its median an outlier lies at least (log s)."""
    sd = np.maximum(similar.log_sd, np.log(limits.least_repeat_factor))
    off: Floats = np.maximum(limits.sigmas * sd, np.log(limits.factor))
    return off


def _per_job(per_group: Floats, group: Narrow) -> Floats:
    """The last place answers for jobs of no group, -1."""
    return np.append(per_group, np.nan)[group]


def _few_of_their_group(arrays: JobArrays, odd: Bools, limits: RuntimeSettings) -> Bools:
    """The odd jobs of groups in which they are few: what many do is a habit, not a fault."""
    similar = arrays.similar
    n_odd = np.bincount(similar.group[odd & arrays.is_typical], minlength=len(similar.n_jobs))
    is_habit = n_odd > limits.habit_share * similar.n_typical
    few = odd.copy()
    few[odd] = ~is_habit[similar.group[odd]]
    return few
