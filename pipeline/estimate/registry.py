"""Every estimator by its name: a new one is one file and one line here."""

from collections.abc import Callable

from pipeline.core.arrays import Floats
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.estimate.alike import alike
from pipeline.estimate.boosted import boosted
from pipeline.estimate.combine import walltime
from pipeline.estimate.history import History
from pipeline.estimate.last_two import last_two, last_two_chain, longer_of_two_chain
from pipeline.estimate.neighbours import neighbours
from pipeline.estimate.recent import recent_10, recent_50, recent_median
from pipeline.estimate.request import request
from pipeline.estimate.sessions import sessions
from pipeline.estimate.templates import smith_default

Estimator = Callable[[History, ForecastSettings], Floats]
"""(jobs, 5) runtimes, s, at QUANTILES, as of each job's submit; NaN: no answer. Some know the median alone."""

ESTIMATORS: dict[str, Estimator] = {
    "request": request,
    "last_two": last_two,
    "last_two_chain": last_two_chain,
    "longer_of_two_chain": longer_of_two_chain,
    "recent_median": recent_median,
    "recent_10": recent_10,
    "recent_50": recent_50,
    "sessions": sessions,
    "neighbours": neighbours,
    "smith": smith_default,
    "boosted": boosted,
    "alike": alike,
    "walltime": walltime,
}
