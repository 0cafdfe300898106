"""Runtimes far off what jobs like them take: one user's jobs of one size and application, on the log scale.

This is what "drop obvious outliers, else average" (ADEPT 3.5.2) is here: a job is an outlier if it is `factor` times
off its group's median runtime and `sigmas` robust standard deviations on top, and nothing else is dropped. A group too
small or too wide to tell is left alone, and counted; so is one in which long runtimes are no exception. A lower bound
is never an outlier: it ran as long as it was let. A long job is an outlier only if it ended abnormally: most jobs that
ran that long and completed are ordinary work.
"""

import numpy as np

from pipeline.clean.alike import Alike, Narrow
from pipeline.clean.censoring import lower_bounds, reached_limit
from pipeline.clean.view import View
from pipeline.core.arrays import Bools, Floats
from pipeline.core.clean_settings import CleanSettings, RuntimeSettings
from pipeline.core.report import Fact

ABNORMAL_ENDS = ("CANCELLED", "FAILED", "OUT_OF_MEMORY", "RECONFIG_FAIL")
"""States of a hang. The other abnormal ends make the runtime a lower bound (censoring.py)."""


def failed_start(view: View, settings: CleanSettings) -> Bools:
    """True for a job of seconds in a group whose jobs take far longer, where that can be told."""
    below_s = starts_below_s(view.alike, settings.runtime)
    short = view.runtime_s <= settings.runtime.start_s
    short[short] = view.runtime_s[short] < _per_job(below_s, view.alike.group[short])
    return short & ~lower_bounds(view, settings)[0]


def hang(view: View, settings: CleanSettings) -> Bools:
    """True for a job that ran far longer than those of its group and ended abnormally, where that can be told.

    A job whose runtime is a lower bound is none.
    """
    above_s = hangs_above_s(view.alike, settings.runtime)
    long = view.runtime_s > _per_job(above_s, view.alike.group)
    odd = _few_of_their_group(view, long, settings.runtime) & ended_abnormally(view, settings)
    return odd & ~lower_bounds(view, settings)[0]


def ended_abnormally(view: View, settings: CleanSettings) -> Bools:
    """True where the state says that the job failed or was cancelled.

    Where the state is unknown, true where the job reached its request. With neither state nor request it is false.
    """
    not_told = view.states[0] < 0
    return view.state_is(*ABNORMAL_ENDS) | (not_told & reached_limit(view, settings.limit))


def starts_below_s(alike: Alike, limits: RuntimeSettings) -> Floats:
    """Per group, the runtime below which a job is a failed start; NaN where some job of seconds would not be one."""
    below_s = np.exp(alike.log_median - _off_by(alike, limits))
    return np.where(is_large(alike, limits) & is_narrow(alike, limits) & (below_s > limits.start_s), below_s, np.nan)


def hangs_above_s(alike: Alike, limits: RuntimeSettings) -> Floats:
    """Per group, the runtime above which a job hangs; NaN where hangs of `tell_factor` times would not show.

    They show if three jobs in four, taking that many times as long as they do, would be above.
    """
    above_s = np.maximum(np.exp(alike.log_median + _off_by(alike, limits)), limits.hang_s)
    tells = above_s < limits.tell_factor * np.exp(alike.log_q25)
    return np.where(is_large(alike, limits) & is_narrow(alike, limits) & tells, above_s, np.nan)


def is_large(alike: Alike, limits: RuntimeSettings) -> Bools:
    """Per group, whether enough of its jobs ran to their end or limit."""
    return alike.n_typical >= limits.min_jobs


def is_narrow(alike: Alike, limits: RuntimeSettings) -> Bools:
    """Per group, whether its quartiles are near each other."""
    narrow: Bools = alike.log_q75 - alike.log_q25 <= np.log(limits.max_spread)
    return narrow


def facts(view: View, settings: CleanSettings) -> dict[str, Fact]:
    """How many jobs and groups could tell an outlier, and how many could not, and why."""
    alike, limits = view.alike, settings.runtime
    large, narrow = is_large(alike, limits), is_narrow(alike, limits)
    kinds = {
        "that_tell_failed_starts": ~np.isnan(starts_below_s(alike, limits)),
        "that_tell_hangs": ~np.isnan(hangs_above_s(alike, limits)),
        "too_wide": large & ~narrow,
        "too_small": ~large,
    }
    counted: dict[str, Fact] = {}
    for kind, groups in kinds.items():
        counted |= {f"groups_{kind}": int(groups.sum()), f"jobs_in_groups_{kind}": int(alike.n_jobs[groups].sum())}
    return counted


def _off_by(alike: Alike, limits: RuntimeSettings) -> Floats:
    """Per group, how far off its median an outlier lies at least (log s)."""
    sd = np.maximum(alike.log_sd, np.log(limits.least_repeat_factor))
    off: Floats = np.maximum(limits.sigmas * sd, np.log(limits.factor))
    return off


def _per_job(per_group: Floats, group: Narrow) -> Floats:
    """The last place answers for jobs of no group, -1."""
    return np.append(per_group, np.nan)[group]


def _few_of_their_group(view: View, odd: Bools, limits: RuntimeSettings) -> Bools:
    """The odd jobs of groups in which they are few: what many do is a habit, not a fault."""
    alike = view.alike
    n_odd = np.bincount(alike.group[odd & view.is_typical], minlength=len(alike.n_jobs))
    is_habit = n_odd > limits.habit_share * alike.n_typical
    few = odd.copy()
    few[odd] = ~is_habit[alike.group[odd]]
    return few
