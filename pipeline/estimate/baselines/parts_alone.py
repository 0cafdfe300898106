"""Two parts of the estimator as methods of their own, to be compared with it."""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.estimate import job_classes, submitter_features
from pipeline.estimate import similar_jobs as memories
from pipeline.estimate.baselines.whole_log import WholeLog, whole_log
from pipeline.estimate.ensemble import INNER_SHARES
from pipeline.estimate.history import History
from pipeline.estimate.keys import grown, no_keys, numbers, with_new
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.similar_jobs import similar_jobs_quantiles
from pipeline.estimate.trees import boosted_at, no_forest, unit_s


def from_similar_jobs(history: History, settings: ForecastSettings) -> Floats:
    """(jobs, 6) quantiles of remembered jobs weighted by similarity (similar_jobs.py), s, at most the request."""
    return _alike(whole_log(history, settings), settings, np.array(QUANTILES))[:, :-1]


def boosted(history: History, settings: ForecastSettings) -> Floats:
    """(jobs, 6) quantiles by boosted trees (trees.py), s, one model a quantile; NaN until enough jobs have ended."""
    log = whole_log(history, settings)
    alike_s = _alike(log, settings, INNER_SHARES)
    seen = _seen(log, alike_s)
    units = unit_s(log.jobs, alike_s[:, 2])
    found, _ = boosted_at(log.jobs, log.jobs, log.events, no_forest(), seen, seen, units, units, QUANTILES, settings)
    return np.maximum.accumulate(found, axis=1)


def _alike(log: WholeLog, settings: ForecastSettings, shares: Floats) -> Floats:
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
