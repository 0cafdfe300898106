"""Every estimator by its name, as the as-of pass that a backtest scores. A new one is one file and one line here."""

from collections.abc import Callable

import numpy as np

from pipeline.arrays import Floats
from pipeline.estimate.baselines import (
    everybody,
    largest_of_5,
    largest_of_15,
    last_two,
    last_two_account,
    last_two_chain,
    longer_of_two_chain,
    neighbours,
    recent_10,
    recent_50,
    recent_median,
    request,
    sessions,
)
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import History
from pipeline.estimate.limits import limits
from pipeline.estimate.nightly.table import nightly_table
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.smith import smith
from pipeline.estimate.walltime import walltime
from pipeline.tables import SubmittedRuns

Estimator = Callable[[History, EstimateRules], Floats]
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
    "smith": smith,
    "table": nightly_table,
    "walltime": walltime,
    "limits": limits,
}

AT_MIDNIGHT = (
    "request", "last_two", "last_two_account", "last_two_chain", "longer_of_two_chain", "largest_of_15", "largest_of_5",
    "recent_median", "recent_10", "recent_50", "everybody", "table", "walltime",
)  # fmt: skip
"""Methods that can answer with what was known at an earlier midnight; the others look at the submits since."""


def submitted_runs(past: History, settings: EstimateRules, usual_s: Floats | None = None) -> SubmittedRuns:
    """The jobs of a History, with the rivals of a model: the mean of each submitter's last two jobs, and `walltime`.

    `usual_s` is the median of `walltime` as of each submit, where the caller has it. Without any input there is no
    model, and the rivals are not computed.
    """
    unknown = np.full(len(past), -1, np.int64)
    has_inputs = "inputs" in past.codes and bool((past.codes["inputs"] >= 0).any())
    rival = usual = np.full(len(past), np.nan)
    if has_inputs:
        rival = last_two(past, settings)[:, QUANTILES.index(0.5)]
        usual = walltime(past, settings)[:, QUANTILES.index(0.5)] if usual_s is None else usual_s
    return SubmittedRuns(
        past.submit_s, past.known_s, past.end_s, past.runtime_s, past.is_lower_bound, past.is_learnt, past.requested_s,
        rival, usual, past.procs, past.codes["who"], past.names["who"],
        past.codes.get("what", unknown), past.names.get("what", []),
        past.codes["inputs"] if has_inputs else unknown, past.names["inputs"] if has_inputs else [],
    )  # fmt: skip
