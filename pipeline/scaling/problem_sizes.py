"""Problem sizes of one application: one size's curve predicted from another's.

The thesis's way (Deshmeh 2013, 3.12 to 3.15, by the project's notes): one ratio, at the smallest common count. Beyond
it: the model average, over rescaled curves of the base and over all shapes, as if the two sizes were different
applications. Each curve is weighted by its fit to the target's points. The ratio is published beside it.

Also weak scaling: series of one application whose problem size grows with its processors, by Gustafson's law.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Floats
from pipeline.report import Report, Tally
from pipeline.scaling.average import ENDS, PLACES, Averaged, Shapes, average, shape_grid, weights_of
from pipeline.scaling.series import ObservedSizes, SeriesBatch
from pipeline.schema import MOST_OK_SPAN, Axis
from pipeline.tables import ACROSS, GROUPS, OBSERVATIONS, PREDICTIONS, TEMPLATE_COLUMNS

MIN_BASE_POINTS = 4

LARGER = 2.0
"""A base whose log runtime exceeds the target's by this many standard deviations of a run is a larger problem."""

FACTORS = (-1.25, -0.82, 1.20, 2.39)
"""Ends of the 95%, 80%, 80% and 95% interval, in standard deviations of the joint fit; see bench_across.py."""

LEAST_POWER_LOG = 0.1
"""Serial times that differ by less tell no power of the overhead (log s)."""


@dataclass(frozen=True, slots=True)
class AcrossRules:
    """How the curve of one problem size predicts another problem size of the same application."""

    # Prior probability that two problem sizes belong to one application.
    same_prior: float = 0.9
    # Deviation of a measured runtime from its curve (log s).
    run_log_sd: float = 0.07
    # Below this posterior probability two sizes count as two applications.
    apart: float = 0.2
    # Weight of the target's own prediction in the published one (geometric mean); 1: no borrowing.
    own_share: float = 0.3
    # Least difference of a constant ratio and the joint fit for the status shape_moves (log s).
    ratio_log_error: float = 0.25


def across(base: SeriesBatch, target: SeriesBatch, procs: Floats, rules: AcrossRules) -> dict[str, Any]:
    """The target on these counts, from its own points, one at least, and the base's, MIN_BASE_POINTS at least.

    These are columns of ACROSS: the prediction with its intervals, and how the two problem sizes are related. `ratio_s`
    is the base's runtime times the ratio at their smallest common count. `own_s` is the model average of the target's
    own points. `same_application` is the posterior probability that the two are one application whose shape may change.
    `overhead_power` is the mean of b: overhead grows as this power of the serial time; NaN where that is the same.
    `status`: same_shape, shape_moves (a constant ratio misleads), or larger_base or two_applications, with which the
    target's own prediction is published; it borrows nothing.
    """
    # 1. The target by itself, and the thesis's constant ratio of the two.
    own, ratio = _at(target, procs), ratio_at_common(base, target)
    ratio_s, log_ratio = np.exp(_at(base, procs).log_s) * ratio, np.log(ratio)

    # 2. Over the base's curve, rescaled, and all other shapes: what the target's points make of them.
    shapes = _joint_shapes(base, target, log_ratio, rules)
    weight = weights_of(target, shapes)[shape_grid().prior.size :]
    same = float(weight.sum())
    theta = float(weight[1:] @ np.tile(LOG_THETA, FALLS.size)) / same if same else np.nan
    power = 1.0 + theta / log_ratio if abs(log_ratio) > LEAST_POWER_LOG else np.nan

    # 3. Nothing is borrowed from another application, nor from a problem larger by more than noise: on counts where
    # that still scales its overhead is hidden. But one size alone tells nothing of a curve.
    is_larger_base = log_ratio < -LARGER * rules.run_log_sd and len(target.procs) > 1
    log_s, log_sd, status = own.log_s, own.log_sd, "two_applications" if same < rules.apart else "larger_base"
    if same >= rules.apart and not is_larger_base:
        joint = _at(target, procs, shapes)
        log_s, log_sd = (1.0 - rules.own_share) * joint.log_s + rules.own_share * own.log_s, joint.log_sd
        is_moved = np.median(np.abs(np.log(ratio_s) - log_s)) > rules.ratio_log_error
        status = "shape_moves" if is_moved else "same_shape"
    ends_s = np.exp(log_s + np.array([*FACTORS[:2], 0.0, *FACTORS[2:]])[:, None] * np.hypot(log_sd, rules.run_log_sd))
    return dict(zip(ENDS, ends_s, strict=True)) | {
        "ratio_s": ratio_s, "own_s": np.exp(own.log_s), "same_application": same, "overhead_power": power,
        "status": status,
    }  # fmt: skip


def ratio_at_common(base: SeriesBatch, target: SeriesBatch) -> float:
    """Target over base at the smallest count both ran on; at the target's smallest where they share none."""
    common = np.intersect1d(base.procs, target.procs)
    if not len(common):
        return float(target.runtime_s[0] / np.exp(_at(base, target.procs[:1]).log_s[0]))
    return float(target.runtime_s[target.procs == common[0]][0] / base.runtime_s[base.procs == common[0]][0])


def _at(sizes: SeriesBatch, procs: Floats, shapes: Shapes | None = None) -> Averaged:
    return average(sizes, np.zeros(procs.size, np.int64), procs, shapes=shapes)


LOG_THETA = np.linspace(-6.0, 3.0, 19)
"""The base's overhead, relative to its serial time, is this much more in the target (log)."""

FALLS = np.array([0.0, 0.2, 0.4])
"""Powers with which it falls beyond the target's largest size: messages shrink as a larger problem is cut up."""

POWER, POWER_SD = 1 / 3, 0.5
"""Prior of b: half-way between 0 (latency) and 2/3 (the surface of a volume), wide enough for either and for 1."""

LEAST_THETA_SD = 0.4
"""Prior standard deviation of log theta even where the serial times agree: sizes differ in steps, too (log)."""

COMMON = 0.2
"""Prior weight of the base's own shape, not rescaled."""

LEAST_PARALLEL = 0.3
"""A curve is at most 1 / 0.3 times as fast as linear speed-up allows."""


def _joint_shapes(base: SeriesBatch, target: SeriesBatch, log_ratio: float, rules: AcrossRules) -> Shapes:
    """The shapes of all laws, then the base's and the base's rescaled; x counts in the target's smallest size."""
    procs = PLACES * target.procs[0]
    x, beyond = procs / base.procs[0], np.maximum(procs / target.procs[-1], 1.0)
    overhead = np.exp(_at(base, procs).log_s - np.log(base.runtime_s[0])) - 1.0 / x
    fall, log_theta = (axis.ravel() for axis in np.meshgrid(FALLS, LOG_THETA, indexing="ij"))
    rescaled = np.exp(log_theta) * overhead[:, None] * beyond[:, None] ** -fall
    curves = np.log(np.maximum(1.0 / x[:, None] + np.column_stack([overhead, rescaled]), LEAST_PARALLEL / x[:, None]))
    spread = np.hypot(POWER_SD * log_ratio, LEAST_THETA_SD)
    prior = np.exp(-0.5 * ((log_theta - (POWER - 1) * log_ratio) / spread) ** 2)
    prior = np.append(COMMON, (1.0 - COMMON) * prior / prior.sum())
    general = shape_grid()
    return Shapes(
        np.ascontiguousarray(np.hstack([general.log_shape, curves])),
        np.append((1.0 - rules.same_prior) * general.prior, rules.same_prior * prior),
    )


def predict_across(
    groups: pa.Table, observations: pa.Table, rules: AcrossRules, at: Sequence[int] = ()
) -> tuple[pa.Table, Report]:
    """ACROSS: predictions of groups with a known problem size that ran on fewer counts than their base.

    A group's base is the problem size of the same application that ran on most counts, at least four; of equals the one
    with most jobs. The rows are the counts of either group and the counts `at`. Sizes that OBSERVATIONS leaves out of
    the fit are left out here. The Report counts groups with a problem size.

    Parameters
    ----------
    groups : pa.Table
        GROUPS.
    observations : pa.Table
        OBSERVATIONS of these groups.
    rules : AcrossRules
        Settings of the joint fit.
    at : sequence of int
        More processor counts to predict.

    Returns
    -------
    table : pa.Table
        ACROSS; runtimes and interval ends in s.
    report : Report
        Groups with a problem size, with and without a base.

    Examples
    --------
    >>> table, report = predict_across(tables["groups"], tables["levelled"], AcrossRules())
    >>> report.kept.rows + sum(tally.rows for tally in report.set_aside.values()) == report.seen.rows
    True
    """
    read = ObservedSizes.of(observations)
    sizes = read.batch._replace(weights=np.full(read.row.size, rules.run_log_sd**-2))
    series = {group: sizes.take(np.array([k])) for k, group in enumerate(read.ids)}

    # 1. The base of each application, and the groups that it is to tell something of, in order of these.
    named = groups.filter(pc.is_valid(groups.column("problem_size"))).to_pylist()
    alike = [name for name in ("site", "template", *TEMPLATE_COLUMNS, "gpu_type", "axis") if name != "problem_size"]
    applications: dict[tuple[str | None, ...], list[tuple[int, int, str]]] = {}
    for row in named:
        n_counts = len(series[row["group_id"]].procs) if row["group_id"] in series else 0
        size = n_counts, row["n_jobs"], row["group_id"]
        applications.setdefault(tuple(row[name] for name in alike), []).append(size)
    pairs = sorted(
        (target, base)
        for sizes in applications.values()
        for most, _, base in [max(sizes)]
        for n_counts, _, target in sizes
        if most >= MIN_BASE_POINTS and 0 < n_counts < most
    )

    # 2. One prediction a pair, on the counts of both and those asked for.
    found: list[dict[str, Any]] = []
    for target, base in pairs:
        procs = np.unique([*series[base].procs, *series[target].procs, *at])
        predicted = across(series[base], series[target], procs, rules)
        found.append({"group_id": target, "base_group_id": base, "procs": procs, **predicted})
    names = list(found[0]) if found else []
    per_count = {n: np.concatenate([np.broadcast_to(one[n], one["procs"].shape) for one in found]) for n in names}
    table = ACROSS.build(**per_count) if found else ACROSS.empty()
    whole, done = Tally(len(named)), Tally(len(pairs))
    aside = {"no_base": Tally(len(named) - len(pairs))} if len(named) > len(pairs) else {}
    facts = {f"groups_{status}": n for status, n in sorted(Counter(one["status"] for one in found).items())}
    return table, Report("across", "group", whole, done, aside, facts).check()


SERVED = ("same_shape", "shape_moves")
"""States in which the target borrows from the base."""

MOST_SERVED_SIZES = 3
"""A group of more sizes is answered by its own: from four on the joint fit has the better record no longer."""


def with_across(
    predictions: pa.Table,
    across_rows: pa.Table,
    observations: pa.Table,
    axis: Axis,
    run_id: str,
    at: Sequence[int] | None,
) -> pa.Table:
    """PREDICTIONS in which groups of few sizes are answered from another problem size, where that has a better record.

    On counts that a group did not run on, `at` where given, rows of ACROSS replace those of PREDICTIONS (`method`:
    `across`), and are added where there is none. They tell no speed-up, because no curve reaches one processor. All
    groups are those of one axis.
    """
    ran = set(zip(*(observations.column(name).to_pylist() for name in ("group_id", "procs")), strict=True))
    n_counts = Counter(group for group, _ in ran)
    served = {
        (row["group_id"], row["procs"]): row
        for row in across_rows.filter(pc.is_in(across_rows.column("status"), pa.array(SERVED))).to_pylist()
        if 0 < n_counts[row["group_id"]] <= MOST_SERVED_SIZES
        and (row["group_id"], row["procs"]) not in ran
        and (at is None or row["procs"] in at)
    }
    if not served:
        return predictions
    rows = {(row["group_id"], row["procs"]): row for row in predictions.to_pylist()}
    for key, row in served.items():
        is_beyond = key not in rows or rows[key]["is_extrapolated"]
        is_ok = row["runtime_s_hi80"] <= MOST_OK_SPAN * row["runtime_s_lo80"]
        rows[key] = {name: row[name] for name in ("group_id", "procs", *ENDS)} | {
            "axis": axis, "is_extrapolated": is_beyond, "method": "across", "run_id": run_id,
            "reliability": "ok" if is_ok else "wide",
            "advice": None if is_ok else f"Run on {row['procs']} to see: the answer is from {row['base_group_id']}.",
        }  # fmt: skip
    ordered = [rows[key] for key in sorted(rows)]
    return PREDICTIONS.build(**{one.name: [row.get(one.name) for row in ordered] for one in PREDICTIONS.columns})


MIN_POINTS = 3
SAME_SHARE = 0.02
"""Log difference up to which two values of work per processor are equal."""


def weak_scaling(
    problem_size: Floats, procs: Floats, runtime_s: Floats, at: Sequence[int] = ()
) -> dict[str, Any] | None:
    """The longest series whose problem size is proportional to its processors; None where none has three counts.

    Of equally long ones, that of least work per processor. Points with a value that is no positive number
    are left out.

    Parameters
    ----------
    problem_size : Floats
        float64[n], problem sizes in any unit.
    procs : Floats
        float64[n], processors.
    runtime_s : Floats
        float64[n], runtimes, s.
    at : sequence of int
        Processor counts to predict; those below the smallest of the series are left out.

    Returns
    -------
    dict or None
        `points` by rising procs, with the runtime (s), the weak efficiency T(1)/T(x) and the scaled speed-up, both
        relative to the smallest count; Gustafson's `serial_fraction` (0 to 1), and `worst_miss`, the largest relative
        error of his law; `predictions`, the runtimes (s) at the counts asked for. Beyond the largest count the law is
        scaled to the runtime measured there, because growing overhead makes the law too low.

    References
    ----------
    Gustafson (1988), Reevaluating Amdahl's law.

    Examples
    --------
    >>> n = np.array([1.0, 2.0, 4.0])
    >>> series = weak_scaling(1000 * n, n, n / (n - 0.1 * (n - 1)))
    >>> round(series["serial_fraction"], 3)
    0.1
    """
    usable = np.flatnonzero((problem_size > 0) & (runtime_s > 0))
    share = np.log(problem_size[usable] / procs[usable])
    order = np.argsort(share, kind="stable")
    starts = np.flatnonzero(np.diff(share[order]) > SAME_SHARE) + 1
    rows = usable[max(np.split(order, starts), key=lambda rows: len(np.unique(procs[usable[rows]])))]
    counts, first = np.unique(procs[rows], return_index=True)
    if len(counts) < MIN_POINTS:
        return None
    took_s, x = runtime_s[rows][first], counts / counts[0]
    efficiency = took_s[0] / took_s
    serial = float(np.clip((x - x * efficiency) @ (x - 1) / ((x - 1) @ (x - 1)), 0.0, 1.0))
    asked = np.array([n for n in at if n >= counts[0]], np.int64)
    law_s, asked_s = (took_s[0] * n / (n - serial * (n - 1)) for n in (x, asked / counts[0]))
    asked_s = np.where(asked > counts[-1], took_s[-1] / law_s[-1], 1.0) * asked_s
    return {
        "serial_fraction": serial,
        "worst_miss": float(np.abs(law_s / took_s - 1).max()),
        "points": pa.table({
            "procs": counts.astype(int), "runtime_s": took_s, "efficiency": efficiency,
            "scaled_speedup": x * efficiency,
        }).to_pylist(),
        "predictions": pa.table({"procs": asked, "runtime_s": asked_s}).to_pylist(),
    }  # fmt: skip


def weak_series(tables: Mapping[str, pa.Table], at: Sequence[int]) -> list[dict[str, Any]]:
    """Weak scaling per application whose problem_size grows with its processors, and its runtimes at counts `at`."""
    groups = tables[GROUPS.name].to_pylist() if GROUPS.name in tables else []
    named = {row["group_id"]: (row["application"], row["problem_size"]) for row in groups}
    return weak_of(named, tables[OBSERVATIONS.name].to_pylist(), at)


def weak_of(
    named: Mapping[str, tuple[str, str | None]], observed: Sequence[Mapping[str, Any]], at: Sequence[int] = ()
) -> list[dict[str, Any]]:
    """Weak scaling from rows of OBSERVATIONS; `named` holds application and problem size by group_id."""
    points: dict[str, list[tuple[float, ...]]] = {}
    for row in observed:
        # A group may have no application, or a size that is no number.
        with suppress(KeyError, ValueError):
            name, size = named[row["group_id"]]
            point = float(size or "nan"), row["procs"], row["runtime_s_median"]
            points.setdefault(name, []).append(point)
    found = []
    for name, own in sorted(points.items()):
        sizes, procs, runtime_s = np.array(own, np.float64).T
        if (one := weak_scaling(sizes, procs, runtime_s, at)) is not None:
            found.append({"application": name, **one})
    return found
