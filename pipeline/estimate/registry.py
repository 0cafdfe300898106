"""Every estimator by its name, as the as-of pass that a backtest scores. A new one is one file and one line here."""

from collections.abc import Callable

from pipeline.core.arrays import Floats
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.estimate.baselines.largest_share import largest_of_5, largest_of_15
from pipeline.estimate.baselines.last_two import last_two, last_two_account, last_two_chain, longer_of_two_chain
from pipeline.estimate.baselines.neighbours import neighbours
from pipeline.estimate.baselines.parts_alone import boosted, from_similar_jobs
from pipeline.estimate.baselines.recent import everybody, recent_10, recent_50, recent_median
from pipeline.estimate.baselines.request import request
from pipeline.estimate.baselines.sessions import sessions
from pipeline.estimate.history import History
from pipeline.estimate.limits.recommend import limits
from pipeline.estimate.nightly.published import table
from pipeline.estimate.templates.smith import smith_default
from pipeline.estimate.walltime import walltime

Estimator = Callable[[History, ForecastSettings], Floats]
"""(jobs, 6) runtimes, s, at QUANTILES, as of each job's submit; NaN: no answer. Some know the median alone.

The History defines what is known: `known_s`, `ended`. `walltime` is published as a State, `table` as ESTIMATES.
"""

ESTIMATORS: dict[str, Estimator] = {
    "request": request,
    "last_two": last_two,
    "last_two_account": last_two_account,
    "last_two_chain": last_two_chain,
    "longer_of_two_chain": longer_of_two_chain,
    "largest_of_15": largest_of_15,
    "largest_of_5": largest_of_5,
    "recent_median": recent_median,
    "recent_10": recent_10,
    "recent_50": recent_50,
    "everybody": everybody,
    "sessions": sessions,
    "neighbours": neighbours,
    "smith": smith_default,
    "boosted": boosted,
    "alike": from_similar_jobs,
    "table": table,
    "walltime": walltime,
    "limits": limits,
}

AT_MIDNIGHT = (
    "request", "last_two", "last_two_account", "last_two_chain", "longer_of_two_chain", "largest_of_15", "largest_of_5",
    "recent_median", "recent_10", "recent_50", "everybody", "table", "walltime",
)  # fmt: skip
"""Methods that can answer with what was known at an earlier midnight; the others look at the submits since."""
