"""Settings of recommended limits; the constants were chosen on the first halves of eight archive logs."""

from typing import NamedTuple

USER_TIMES = 3.0
"""No user's share of jobs beyond their limits shall be more than this many times the share of all jobs."""


class LimitSettings(NamedTuple):
    """How limits are chosen; shares are of jobs, prices are in the mean requested work of a job."""

    share: float = 0.03
    """Largest share of jobs that may run beyond their limit: 1 - the promise."""
    aim: float = 0.9
    """Part of that share, or of the share that MetaCentrum's rule has had, whichever is less, that is aimed at."""
    step: float = 0.2
    """Change of the log price of an exceedance per job that exceeds its limit, at first."""
    step_jobs: float = 10_000.0
    """The step falls with the root of the number of jobs over this number."""
    first_log_price: float = 2.0
    rule_jobs: float = 1000.0
    """Half-life of the share that the rule has had (jobs)."""
    riskiest: float = 0.3
    """No job gets a limit that it exceeds with a larger chance than this."""
    least_chance: float = 0.002
    """A chance below this counts as this: no record is long enough to show less."""
    least_jobs: float = 10.0
    """Ended jobs that a submitter must have; before that a job's limit is its request."""
    user_aim: float = 0.07 / 0.09
    """Part of USER_TIMES x `share` with which a submitter's credit grows, per ended job."""
    first_credit: float = 4.0
    """Most credit (jobs) of a submitter without recent jobs."""
    credit_days: float = 5.0
    """Half-life of a submitter's number of recent jobs, which the most credit grows with (days)."""
    reserved_times: float = 2.0
    """Credit reserved for a job that is not over: this many times its chance to exceed its limit,"""
    least_reserved: float = 0.2
    """and at least this, because jobs submitted together often exceed their limits together."""
    poor_price: float = 4.0
    """Increase of a submitter's log price when all its credit is used."""
