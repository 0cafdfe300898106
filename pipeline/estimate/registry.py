"""Every estimator by its name, as the as-of pass that a backtest scores. A new one is one file and one line here."""

from collections.abc import Callable

import numpy as np

from pipeline.arrays import Floats
from pipeline.estimate import job_classes, submitter_features
from pipeline.estimate import similar_jobs as memories
from pipeline.estimate.baselines import (
    WholeLog,
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
    whole_log,
)
from pipeline.estimate.ensemble import INNER_SHARES
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import History
from pipeline.estimate.keys import grown, no_keys, numbers, with_new
from pipeline.estimate.limits import limits
from pipeline.estimate.nightly.table import nightly_table
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.similar_jobs import similar_jobs_quantiles
from pipeline.estimate.templates.smith import smith_default
from pipeline.estimate.trees import boosted_at, no_forest, unit_s
from pipeline.estimate.walltime import walltime
from pipeline.tables import SubmittedRuns


def from_similar_jobs(history: History, settings: EstimateRules) -> Floats:
    """(jobs, 6) quantiles of remembered jobs weighted by similarity (similar_jobs.py), s, at most the request."""
    return _alike(whole_log(history, settings), settings, np.array(QUANTILES))[:, :-1]


def boosted(history: History, settings: EstimateRules) -> Floats:
    """(jobs, 6) quantiles by boosted trees (trees.py), s, one model a quantile; NaN until enough jobs have ended."""
    log = whole_log(history, settings)
    alike_s = _alike(log, settings, INNER_SHARES)
    seen = _seen(log, alike_s)
    units = unit_s(log.jobs, alike_s[:, 2])
    found, _ = boosted_at(log.jobs, log.jobs, log.events, no_forest(), seen, seen, units, units, QUANTILES, settings)
    return np.maximum.accumulate(found, axis=1)


def _alike(log: WholeLog, settings: EstimateRules, shares: Floats) -> Floats:
    memory = memories.with_keys(memories.no_memory(), log.n_who, log.n_requests)
    return similar_jobs_quantiles(log.jobs, log.jobs, log.events, settings, memory, shares)


def _seen(log: WholeLog, alike_s: Floats) -> Floats:
    """(jobs, columns) what the trees see when there is no other method."""
    codes = np.stack([log.jobs.what, log.jobs.group], axis=1).astype(float)
    logs = np.log(np.maximum(alike_s, 1e-6))
    return np.column_stack([features_of(log), logs, log.jobs.place, codes, job_class_features_of(log)])


def features_of(log: WholeLog) -> Floats:
    """(jobs, columns) of submitter_features.py."""
    held = submitter_features.no_submitters()
    held = held._replace(state=grown(held.state, log.n_who))
    return submitter_features.submitter_features(log.jobs, log.jobs, log.events, held)


def job_class_features_of(log: WholeLog) -> Floats:
    """(jobs, columns) of job_classes.py."""
    digests = job_classes.digests_of(log.jobs)
    keys = with_new(no_keys(), digests)
    job_class, blank = numbers(keys, digests), job_classes.no_job_classes()
    held = blank._replace(
        **{name: grown(getattr(blank, name), len(keys)) for name in ("state", "started", "n_started")},
        shares=grown(blank.shares, log.n_who),
    )
    return job_classes.job_class_features(log.jobs, log.jobs, log.events, job_class, job_class, held)


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
    "smith": smith_default,
    "boosted": boosted,
    "alike": from_similar_jobs,
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
