"""Finds runtime classes inside a group, which may be problem sizes that no column names.

The model is a mixture on log runtime, log t = curve(n) + offset(class) + noise: all classes share one curve over
processor counts. It is fitted by expectation-maximisation; the Bayesian information criterion (Schwarz 1978) selects
the number of classes.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Floats, Ints, category_codes, floats, grouped_jobs, lower_bounds
from pipeline.group.axis import COUNTED, axes_and_counts
from pipeline.kernels import entry_kernel, kernel
from pipeline.report import Report, Tally
from pipeline.settings import AxisChoice
from pipeline.tables import RUNTIME_CLASSES

ROUNDS = 100
# Lower bound of the variance of log runtime: a standard deviation of 1%.
LEAST_VARIANCE = 1e-4

# Iterations end when the relative gain of the log likelihood is smaller.
ENOUGH = 1e-6


@entry_kernel
def maximise(
    size: Ints, log_t: Floats, n_in: Floats, curve: Floats, offsets: Floats, variance: float, share: Floats
) -> float:
    """The log likelihood after expectation-maximisation; `curve` and `offsets` are start values and updated in place.

    A cell is one size and one runtime with n_in jobs. `share` is set to the probability of each class for each cell.
    """
    n_classes, n_jobs = len(offsets), n_in.sum()
    weight, likelihood = np.full(n_classes, 1.0 / n_classes), -np.inf
    for _ in range(ROUNDS):
        before, likelihood = likelihood, expect(size, log_t, n_in, curve, offsets, weight, variance, share)
        if likelihood - before < ENOUGH * abs(likelihood):
            break
        variance = improve(size, log_t, n_in, n_jobs, curve, offsets, weight, share)
    return likelihood


@kernel
def expect(
    size: Ints, log_t: Floats, n_in: Floats, curve: Floats, offsets: Floats, weight: Floats, variance: float,
    share: Floats,
) -> float:  # fmt: skip
    """Set the probability of each class for each cell; returns the log likelihood of all jobs."""
    total, flat = 0.0, 0.5 * np.log(2.0 * np.pi * variance)
    log_weight = np.log(weight)
    for i in range(len(log_t)):
        most = -np.inf
        for c in range(len(offsets)):
            off = log_t[i] - curve[size[i]] - offsets[c]
            share[i, c] = log_weight[c] - 0.5 * off * off / variance
            most = max(most, share[i, c])
        whole = 0.0
        for c in range(len(offsets)):
            share[i, c] = np.exp(share[i, c] - most)
            whole += share[i, c]
        for c in range(len(offsets)):
            share[i, c] /= whole
        total += n_in[i] * (np.log(whole) + most - flat)
    return total


@kernel
def improve(
    size: Ints, log_t: Floats, n_in: Floats, n_jobs: float, curve: Floats, offsets: Floats, weight: Floats,
    share: Floats,
) -> float:  # fmt: skip
    """Update weights, curve and offsets from the probabilities; returns the residual variance."""
    at_size, held, off = np.zeros(len(curve)), np.zeros(len(offsets)), np.zeros(len(offsets))
    new_curve, squares = np.zeros(len(curve)), 0.0
    for i in range(len(log_t)):
        at_size[size[i]] += n_in[i]
        for c in range(len(offsets)):
            held[c] += n_in[i] * share[i, c]
            new_curve[size[i]] += n_in[i] * share[i, c] * (log_t[i] - offsets[c])
    for s in range(len(curve)):
        curve[s] = new_curve[s] / at_size[s]
    for i in range(len(log_t)):
        for c in range(len(offsets)):
            off[c] += n_in[i] * share[i, c] * (log_t[i] - curve[size[i]])
    for c in range(len(offsets)):
        weight[c] = max(held[c] / n_jobs, 1e-12)
        offsets[c] = off[c] / max(held[c], 1e-12)
    for i in range(len(log_t)):
        for c in range(len(offsets)):
            residual = log_t[i] - curve[size[i]] - offsets[c]
            squares += n_in[i] * share[i, c] * residual * residual
    return max(squares / n_jobs, LEAST_VARIANCE)


# Largest number of classes of a group.
MAX_CLASSES = 3

# Least number of jobs of a group that is searched.
MIN_JOBS = 40

# Least share of the group's jobs in a class.
MIN_SHARE = 0.1

# Least ratio of the runtimes of neighbouring classes.
LEAST_FACTOR = 1.5

# Least number of standard errors by which fewer jobs lie between two classes than about either.
VALLEY_ERRORS = 3.0

# Width to which log runtimes are rounded: far fewer cells than jobs, and much narrower than classes.
CELL_LOG = 0.01

# Width of the compared bands as a share of the distance between two classes.
BAND = 1 / 3

# Least gain of the criterion for one more class (Kass and Raftery 1995: very strong evidence).
BIC_MARGIN = 10.0


def runtime_classes(jobs: pa.Table, axis: AxisChoice = "auto") -> tuple[pa.Table, Report]:
    """RUNTIME_CLASSES: one row per class of the groups with at least two classes, the shortest runtime first.

    Groups with a problem size and jobs whose runtime is a lower bound are left out. The Report counts groups.

    Parameters
    ----------
    jobs : pa.Table
        Grouped JOBS, all jobs of each group.
    axis : AxisChoice
        How the axis of a group is chosen (see axis.py).

    Returns
    -------
    table : pa.Table
        RUNTIME_CLASSES; runtimes in s.
    report : Report
        Groups with and without classes.

    Examples
    --------
    >>> table, report = runtime_classes(tables["jobs"])
    >>> table.equals(tables["runtime_classes"])
    True
    """
    grouped = grouped_jobs(jobs, (*COUNTED, "problem_size", "runtime_s", "is_lower_bound"))
    codes, ids = category_codes(grouped, "group_id")
    _, procs = axes_and_counts(grouped, codes, len(ids), axis)
    is_unnamed = pc.is_null(grouped.column("problem_size")).to_numpy()
    usable = is_unnamed & (floats(grouped, "runtime_s") > 0) & ~lower_bounds(grouped)
    own, procs = grouped.filter(pa.array(usable)), procs[usable]
    codes, ids = category_codes(own, "group_id")
    log_t = np.log(floats(own, "runtime_s"))
    order = np.lexsort((log_t, procs, codes))
    rows: list[tuple[str, int, float, float, int]] = []
    for code, part in enumerate(np.split(order, np.searchsorted(codes[order], np.arange(1, len(ids))))):
        if len(part) >= MIN_JOBS:
            offsets, counts = find_classes(procs[part], log_t[part])
            factors = np.exp(offsets - offsets[0])
            share = counts / len(part)
            found = zip(range(1, len(offsets) + 1), factors, share, counts, strict=True)
            rows += [(ids[code], *one) for one in found] if len(offsets) > 1 else []
    names = ("group_id", "runtime_class", "class_factor", "class_share", "n_jobs")
    table = RUNTIME_CLASSES.build(**{name: [row[at] for row in rows] for at, name in enumerate(names)})
    groups = Tally(len(ids))
    facts = {"groups_with_classes": len({row[0] for row in rows})}
    return table, Report("classes", "group", groups, groups, facts=facts).check()


def find_classes(procs: Ints, log_t: Floats) -> tuple[Floats, Ints]:
    """Ascending offsets (log s) of the classes and the number of jobs of each; one class unless more are certain.

    Each class holds at least MIN_SHARE of the jobs and differs from the next by at least LEAST_FACTOR. Fewer jobs
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
    for n_classes in range(2, MAX_CLASSES + 1):
        found = _fit(size, log_t, n_in, n_classes)
        belongs = found.share.argmax(axis=1)
        counts = np.bincount(belongs, n_in, n_classes).astype(np.int64)
        apart = np.diff(found.offsets).min() >= np.log(LEAST_FACTOR)
        is_sure = found.bic < least - BIC_MARGIN and apart and counts.min() >= MIN_SHARE * n_jobs
        if is_sure and _has_valleys(log_t - found.curve[size], n_in, found.offsets, belongs):
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


def _has_valleys(residual: Floats, n_in: Ints, offsets: Floats, belongs: Ints) -> bool:
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
        if fewer - valley <= VALLEY_ERRORS * np.sqrt(fewer + valley):
            return False
    return True
