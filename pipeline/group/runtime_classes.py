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

CELL_LOG = 0.01
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
    n_jobs = len(log_t)
    _, size = np.unique(procs, return_inverse=True)
    # Jobs a hundredth of an e-fold apart count as one: many times fewer, and the classes are far wider.
    start = log_t.min()
    cells, n_in = np.unique(np.stack([size, np.rint((log_t - start) / CELL_LOG)]), axis=1, return_counts=True)
    size, log_t = cells[0].astype(np.int64), cells[1] * CELL_LOG + start
    chosen, least = (np.zeros(1), np.array([n_jobs])), _fit(size, log_t, n_in, 1)[0]
    for n_classes in range(2, settings.max_classes + 1):
        bic, offsets, share = _fit(size, log_t, n_in, n_classes)
        counts = np.bincount(share.argmax(axis=1), n_in, n_classes).astype(np.int64)
        apart = np.diff(offsets).min() >= np.log(settings.least_factor)
        if bic < least - BIC_MARGIN and apart and counts.min() >= settings.min_share * n_jobs:
            chosen, least = (offsets, counts), bic
    return chosen


def _fit(size: Ints, log_t: Floats, n_in: Ints, n_classes: int) -> tuple[float, Floats, Floats]:
    """Information criterion, offsets rising, and each cell's share in each class; n_in jobs are in each cell."""
    n_sizes, n_jobs = int(size.max()) + 1, int(n_in.sum())
    jobs_at = np.bincount(size, n_in, n_sizes)
    mean = np.bincount(size, n_in * log_t, n_sizes) / jobs_at
    offsets = np.quantile(np.repeat(log_t - mean[size], n_in), (np.arange(n_classes) + 0.5) / n_classes)
    curve, weight = mean, np.full(n_classes, 1 / n_classes)
    variance = max(float(n_in @ (log_t - mean[size]) ** 2) / n_jobs / n_classes**2, LEAST_VARIANCE)
    share = np.full((len(log_t), n_classes), 1 / n_classes)
    likelihood = -np.inf
    for _ in range(ROUNDS):
        distance = log_t[:, None] - curve[size][:, None] - offsets
        logs = np.log(weight) - 0.5 * distance**2 / variance - 0.5 * np.log(2 * np.pi * variance)
        each = logsumexp(logs, axis=1)
        before, likelihood = likelihood, float(n_in @ each)
        share = np.exp(logs - each[:, None])
        held = share * n_in[:, None]
        if likelihood - before < 1e-6 * abs(likelihood):
            break
        weight = np.maximum(held.sum(axis=0) / n_jobs, 1e-12)
        curve = np.bincount(size, (held * (log_t[:, None] - offsets)).sum(axis=1), n_sizes) / jobs_at
        offsets = (held * (log_t - curve[size])[:, None]).sum(axis=0) / np.maximum(held.sum(axis=0), 1e-12)
        residual = log_t[:, None] - curve[size][:, None] - offsets
        variance = max(float((held * residual**2).sum()) / n_jobs, LEAST_VARIANCE)
    order = np.argsort(offsets)
    n_parameters = n_sizes + 2 * n_classes - 1
    return n_parameters * float(np.log(n_jobs)) - 2 * likelihood, offsets[order], share[:, order]
