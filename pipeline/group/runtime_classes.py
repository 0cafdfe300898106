"""Finds runtime classes inside a group, which may be problem sizes that no column names.

The model is a mixture on log runtime, log t = curve(n) + offset(class) + noise: all classes share one curve over
processor counts. It is fitted by expectation-maximisation; the Bayesian information criterion (Schwarz 1978) selects
the number of classes.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.arrays import Floats, Ints, category_codes, floats, grouped_jobs, lower_bounds
from pipeline.core.report import Report, Tally
from pipeline.core.screen_settings import ClassSettings
from pipeline.core.tables import RUNTIME_CLASSES
from pipeline.group.observations import observed_procs
from pipeline.group.runtime_mixture import LEAST_VARIANCE, maximise

CELL_LOG = 0.01
BAND = 1 / 3
"""Width of the compared bands as a share of the distance between two classes."""

BIC_MARGIN = 10.0
"""Least gain of the criterion for one more class (Kass and Raftery 1995: very strong evidence)."""


def runtime_classes(jobs: pa.Table, settings: ClassSettings) -> tuple[pa.Table, Report]:
    """RUNTIME_CLASSES: one row per class of the groups with at least two classes, the shortest runtime first.

    Groups with a problem size and jobs whose runtime is a lower bound are left out. The Report counts groups.

    Parameters
    ----------
    jobs : pa.Table
        Grouped JOBS.
    settings : ClassSettings
        Thresholds of the mixture.

    Returns
    -------
    table : pa.Table
        RUNTIME_CLASSES; runtimes in s.
    report : Report
        Groups with and without classes.

    Examples
    --------
    >>> table, report = runtime_classes(tables["jobs"], settings.classes)
    >>> table.equals(tables["runtime_classes"])
    True
    """
    grouped = grouped_jobs(jobs, ("problem_size", "procs", "requested_procs", "runtime_s", "is_lower_bound"))
    own = grouped.filter(pc.is_null(grouped.column("problem_size"))).drop_columns("problem_size")
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
    """Ascending offsets (log s) of the classes and the number of jobs of each; one class unless more are certain.

    Each class holds at least `min_share` of the jobs and differs from the next by at least `least_factor`. Fewer jobs
    lie between two classes than about either, which excludes a long tail that two normal distributions describe well.
    """
    n_jobs = len(log_t)
    _, size = np.unique(procs, return_inverse=True)
    # Log runtimes are rounded to 0.01, which leaves far fewer cells; classes are much wider.
    start = log_t.min()
    steps = np.rint((log_t - start) / CELL_LOG).astype(np.int64)
    width = int(steps.max()) + 1
    cells, n_in = np.unique(size * width + steps, return_counts=True)
    size, log_t = cells // width, (cells % width) * CELL_LOG + start
    chosen, least = (np.zeros(1), np.array([n_jobs])), _fit(size, log_t, n_in, 1).bic
    for n_classes in range(2, settings.max_classes + 1):
        found = _fit(size, log_t, n_in, n_classes)
        belongs = found.share.argmax(axis=1)
        counts = np.bincount(belongs, n_in, n_classes).astype(np.int64)
        apart = np.diff(found.offsets).min() >= np.log(settings.least_factor)
        is_sure = found.bic < least - BIC_MARGIN and apart and counts.min() >= settings.min_share * n_jobs
        if is_sure and _has_valleys(log_t - found.curve[size], n_in, found.offsets, belongs, settings):
            chosen, least = (found.offsets, counts), found.bic
    return chosen


@dataclass(frozen=True, slots=True)
class _Fit:
    """Information criterion, offsets rising, the curve by size, and each cell's share in each class."""

    bic: float
    offsets: Floats
    curve: Floats
    share: Floats


def _fit(size: Ints, log_t: Floats, n_in: Ints, n_classes: int) -> _Fit:
    """The mixture of highest likelihood; n_in jobs are in each cell."""
    n_sizes, n_jobs = int(size.max()) + 1, int(n_in.sum())
    curve = np.bincount(size, n_in * log_t, n_sizes) / np.bincount(size, n_in, n_sizes)
    residual = log_t - curve[size]
    offsets = np.quantile(np.repeat(residual, n_in), (np.arange(n_classes) + 0.5) / n_classes)
    variance = max(float(n_in @ residual**2) / n_jobs / n_classes**2, LEAST_VARIANCE)
    share = np.empty((len(log_t), n_classes))
    likelihood = maximise(size, log_t, n_in.astype(np.float64), curve, offsets, variance, share)
    order = np.argsort(offsets)
    n_parameters = n_sizes + 2 * n_classes - 1
    bic = n_parameters * float(np.log(n_jobs)) - 2 * likelihood
    return _Fit(bic, offsets[order], curve, share[:, order])


def _has_valleys(residual: Floats, n_in: Ints, offsets: Floats, belongs: Ints, settings: ClassSettings) -> bool:
    """Whether significantly fewer jobs lie about each border than about the classes on either side."""
    order = np.argsort(residual)
    values, jobs = residual[order], np.concatenate([[0], np.cumsum(n_in[order])])
    for lower in range(len(offsets) - 1):
        first, last = offsets[lower], offsets[lower + 1]
        is_above = belongs[order] > lower
        border = np.clip((values[~is_above].max() + values[is_above].min()) / 2, first, last)
        half = (last - first) * BAND / 2
        low, valley, high = (
            jobs[np.searchsorted(values, middle + half, "right")] - jobs[np.searchsorted(values, middle - half)]
            for middle in (first, border, last)
        )
        fewer = min(low, high)
        if fewer - valley <= settings.valley_errors * np.sqrt(fewer + valley):
            return False
    return True
