"""Intervals for one new run: how unsure the curve is, and what repeats scatter about it."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.special import stdtrit

from pipeline.core.arrays import Floats, floats
from pipeline.core.settings import PredictSettings
from pipeline.predict.average import Averaged
from pipeline.predict.curves import Curves
from pipeline.predict.sizes import FREEDOM

Words = npt.NDArray[np.object_]

BEYOND_LOG = 10.0
"""An interval is cut at this many times outside the runtimes of the whole log."""

UNBOUNDED = "No upper bound is known: it would lie beyond ten times the longest run."
PRIOR_FREEDOM = 3
"""Degrees of freedom granted before any repeat was seen (the prototype's nu0)."""

_COLUMNS = {"runtime_s_lo95": 0, "runtime_s_lo80": 1, "runtime_s_hi80": 3, "runtime_s_hi95": 4}
_SHARES = {"80": 0.9, "95": 0.975}


def intervals(curves: Curves, curve: Averaged, run_sd: Floats, settings: PredictSettings) -> dict[str, Floats]:
    """Ends (s) of the central 80% and 95% intervals of one new run, by column name of PREDICTIONS.

    The log distance of an end from the median adds, in squares, how far the curve itself may lie that way and how far
    repeats scatter: a Student-t multiple of their log sd, and for 95% no less than the group's own odd runs.
    """
    middle = curve.log_s[:, 2]
    freedom = PRIOR_FREEDOM + np.maximum(curves["n_jobs"] - curves["n_points"], 0.0)
    run_log_sd = np.hypot(run_sd, settings.measured_log_sd)
    # A group of one size has no curve to be unsure of: its median is as sure as its repeats make it.
    is_alone = curves["n_points"] == 1
    ends = {}
    for name, place in _COLUMNS.items():
        share, side = name[-2:], 1 if "_hi" in name else -1
        scatter = stdtrit(freedom, _SHARES[share]) * run_log_sd
        if share == "95":
            scatter = np.fmax(scatter, curves[f"repeat_log_{name[-4:]}"])
        unsure = (curve.log_s[:, place] - middle) * np.where(
            is_alone, stdtrit(freedom, _SHARES[share]) / stdtrit(FREEDOM, _SHARES[share]), 1.0
        )
        ends[name] = np.exp(middle + side * np.hypot(unsure, scatter))
    return ends


def within_log(
    ends: dict[str, Floats], runtime_s: Floats, curves: Curves, procs: Floats, observations: pa.Table
) -> dict[str, Floats]:
    """The ends cut at ten times outside the runtimes of the whole log, but never inside their own prediction.

    Where a group cannot tell its jobs' runtime to within powers of ten, the machine's other jobs still bound it. Below
    its smallest size a group may take longer, as work that one processor does alone, and beyond its largest less.
    Outside the sizes that ran a cut upper end is no bound: NaN there. A lower end is cut only from below, an upper one
    only from above: where the runtime itself exceeds the log's longest, its lower end may do so too.
    """
    if not len(runtime_s) or not observations.num_rows:
        return ends
    seen_s = [floats(observations, f"runtime_s_{name}") for name in ("q10", "median", "q90")]
    # Lower bounds may leave a size without some of them, but never a group that is predicted without a median.
    shortest_s = np.nanmin(seen_s) / BEYOND_LOG * np.minimum(curves["procs_max"] / procs, 1.0)
    longest_s = np.nanmax(seen_s) * BEYOND_LOG * np.maximum(curves["procs_min"] / procs, 1.0)
    is_outside = doublings_beyond(curves, procs) > 0
    return {
        name: np.fmin(np.fmax(values, shortest_s), runtime_s)
        if "_lo" in name
        else np.where(is_outside & (values > longest_s), np.nan, np.fmax(np.fmin(values, longest_s), runtime_s))
        for name, values in ends.items()
    }


def without_bound(ends: dict[str, Floats], reliability: Words, advice: Words) -> tuple[Words, Words]:
    """Reliability with the code `unbounded` where an upper end is open; advice where none was given."""
    is_open = np.isnan(ends["runtime_s_hi95"])
    codes = np.where(reliability == "ok", "unbounded", reliability + "+unbounded")
    given = np.where(advice == None, UNBOUNDED, advice)  # noqa: E711 - by element
    return np.where(is_open, codes, reliability), np.where(is_open, given, advice)


def doublings_beyond(curves: Curves, procs: Floats) -> Floats:
    """How far procs lies outside the sizes observed, in doublings; 0 inside."""
    ratio = np.maximum(procs / curves["procs_max"], curves["procs_min"] / procs)
    far: Floats = np.log2(np.maximum(ratio, 1.0))
    return far
