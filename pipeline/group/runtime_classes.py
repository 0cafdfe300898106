"""Runtime classes inside a group: what may be problem sizes where nothing names them.

A mixture on log runtime: every class takes the same curve over processor counts times a factor of its own,
log t = curve(n) + offset(class) + noise, fitted by expectation-maximisation; the number of classes by the Bayesian
information criterion (Schwarz 1978).
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import logsumexp

from pipeline.core.arrays import Floats, Ints, category_codes, floats, lower_bounds
from pipeline.core.report import Report, Tally
from pipeline.core.screen_settings import ClassSettings
from pipeline.core.tables import RUNTIME_CLASSES
from pipeline.group.observations import observed_procs

ROUNDS = 100
LEAST_VARIANCE = 1e-4
"""Of log runtime: repeats are never closer than 1%."""

BIC_MARGIN = 10.0
"""One more class has to be worth this much (Kass and Raftery 1995: very strong evidence)."""


def runtime_classes(jobs: pa.Table, settings: ClassSettings) -> tuple[pa.Table, Report]:
    """RUNTIME_CLASSES: groups whose jobs fall into two or more classes of runtime, a row a class, shortest first.

    Groups with a problem size need none; jobs whose runtime is a lower bound tell none. The Report counts groups.
    """
    told = pc.and_(pc.is_valid(jobs.column("group_id")), pc.is_null(jobs.column("problem_size")))
    own = jobs.filter(told)
    usable = (floats(own, "runtime_s") > 0) & ~lower_bounds(own)
    own = own.filter(pa.array(usable))
    codes, ids = category_codes(own, "group_id")
    procs, log_t = observed_procs(own), np.log(floats(own, "runtime_s"))
    order = np.lexsort((log_t, procs, codes))
    rows: list[tuple[str, int, float, float, int]] = []
    for code, part in enumerate(np.split(order, np.searchsorted(codes[order], np.arange(1, len(ids))))):
        if len(part) >= settings.min_jobs:
            offsets, counts = find_classes(procs[part], log_t[part], settings)
            factors = np.exp(offsets - offsets[0])
            share = counts / len(part)
            found = zip(range(1, len(offsets) + 1), factors, share, counts, strict=True)
            rows += [(ids[code], *one) for one in found] if len(offsets) > 1 else []
    names = ("group_id", "runtime_class", "class_factor", "class_share", "n_jobs")
    table = RUNTIME_CLASSES.build(**{name: [row[at] for row in rows] for at, name in enumerate(names)})
    groups = Tally(len(ids))
    facts = {"groups_with_classes": len({row[0] for row in rows})}
    return table, Report("classes", "group", groups, groups, facts=facts).check()


def find_classes(procs: Ints, log_t: Floats, settings: ClassSettings) -> tuple[Floats, Ints]:
    """Offsets (log s) of the classes, rising, and how many jobs each has; one class unless more are sure.

    A class holds `min_share` of the jobs at least, and lies `least_factor` off the next.
    """
    _, size = np.unique(procs, return_inverse=True)
    chosen, least = (np.zeros(1), np.array([len(log_t)])), _fit(size, log_t, 1)[0]
    for n_classes in range(2, settings.max_classes + 1):
        bic, offsets, share = _fit(size, log_t, n_classes)
        counts = np.bincount(share.argmax(axis=1), minlength=n_classes)
        apart = np.diff(offsets).min() >= np.log(settings.least_factor)
        if bic < least - BIC_MARGIN and apart and counts.min() >= settings.min_share * len(log_t):
            chosen, least = (offsets, counts), bic
    return chosen


def _fit(size: Ints, log_t: Floats, n_classes: int) -> tuple[float, Floats, Floats]:
    """Information criterion, offsets rising, and each job's share in each class."""
    n_sizes, n_jobs = int(size.max()) + 1, len(log_t)
    jobs_at = np.bincount(size, minlength=n_sizes)
    mean = np.bincount(size, log_t, n_sizes) / jobs_at
    offsets = np.quantile(log_t - mean[size], (np.arange(n_classes) + 0.5) / n_classes)
    curve, weight = mean, np.full(n_classes, 1 / n_classes)
    variance = max(float(np.var(log_t - mean[size])) / n_classes**2, LEAST_VARIANCE)
    share = np.full((n_jobs, n_classes), 1 / n_classes)
    likelihood = -np.inf
    for _ in range(ROUNDS):
        distance = log_t[:, None] - curve[size][:, None] - offsets
        logs = np.log(weight) - 0.5 * distance**2 / variance - 0.5 * np.log(2 * np.pi * variance)
        each = logsumexp(logs, axis=1)
        before, likelihood = likelihood, float(each.sum())
        share = np.exp(logs - each[:, None])
        if likelihood - before < 1e-6 * abs(likelihood):
            break
        weight = np.maximum(share.mean(axis=0), 1e-12)
        curve = np.bincount(size, (share * (log_t[:, None] - offsets)).sum(axis=1), n_sizes) / jobs_at
        offsets = (share * (log_t - curve[size])[:, None]).sum(axis=0) / np.maximum(share.sum(axis=0), 1e-12)
        residual = log_t[:, None] - curve[size][:, None] - offsets
        variance = max(float((share * residual**2).sum()) / n_jobs, LEAST_VARIANCE)
    order = np.argsort(offsets)
    n_parameters = n_sizes + 2 * n_classes - 1
    return n_parameters * float(np.log(n_jobs)) - 2 * likelihood, offsets[order], share[:, order]
