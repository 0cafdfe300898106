"""Intervals for one new run: what repeats scatter, what the law misses, and what an open tail leaves undecided."""

import numpy as np
import pyarrow as pa
from scipy.special import stdtrit

from pipeline.core.arrays import Floats, floats
from pipeline.core.settings import PredictSettings
from pipeline.laws import LAWS
from pipeline.predict.curves import Curves

BEYOND_LOG = 10.0
PRIOR_FREEDOM = 3
"""Degrees of freedom granted before any repeat was seen (the prototype's nu0)."""


def intervals(
    curves: Curves, runtime_s: Floats, bend_s: Floats, centre_log_sd: Floats, settings: PredictSettings
) -> dict[str, Floats]:
    """Ends (s) of the central 80% and 95% intervals of one new run, by column name of PREDICTIONS.

    The log distance of an end adds, in squares, how far repeats scatter that way and a Student-t multiple of the error
    of `runtime_s` itself. Where the tail is unidentified the ends reach out to the curve that bends at once.
    """
    low_s, high_s = np.fmin(runtime_s, bend_s), np.fmax(runtime_s, bend_s)
    half80 = np.hypot(_quantile(curves, 0.9) * core_log_sd(curves, settings), _quantile(curves, 0.9) * centre_log_sd)
    scatter = _quantile(curves, 0.975) * core_log_sd(curves, settings)
    down95 = np.hypot(np.fmax(curves["repeat_log_lo95"], scatter), _quantile(curves, 0.975) * centre_log_sd)
    up95 = np.hypot(np.fmax(curves["repeat_log_hi95"], scatter), _quantile(curves, 0.975) * centre_log_sd)
    return {
        "runtime_s_lo80": low_s * np.exp(-half80),
        "runtime_s_hi80": high_s * np.exp(half80),
        "runtime_s_lo95": low_s * np.exp(-down95),
        "runtime_s_hi95": high_s * np.exp(up95),
    }


def within_log(ends: dict[str, Floats], runtime_s: Floats, observations: pa.Table) -> dict[str, Floats]:
    """The ends cut at ten times outside what the whole log has seen, but never inside their own prediction.

    Where a group cannot tell its jobs' runtime to within powers of ten, the machine's other jobs still bound it.
    """
    if not len(runtime_s) or not observations.num_rows:
        return ends
    seen_s = [floats(observations, f"runtime_s_{name}") for name in ("q10", "median", "q90")]
    # Lower bounds may leave a size without some of them, but never a group that is predicted without a median.
    shortest_s = np.nanmin(seen_s) / BEYOND_LOG
    longest_s = np.nanmax(seen_s) * BEYOND_LOG
    cut = {name: np.clip(values, shortest_s, longest_s) for name, values in ends.items()}
    return {
        name: np.fmin(values, runtime_s) if "_lo" in name else np.fmax(values, runtime_s)
        for name, values in cut.items()
    }


def core_log_sd(curves: Curves, settings: PredictSettings) -> Floats:
    """Log standard deviation of repeats; where a group of one size has none, the default; where others have none, 0.

    Leave-one-out errors hold the scatter of single runs already.
    """
    known = curves["core_log_sd"]
    return np.where(np.isnan(known), np.where(curves["n_points"] == 1, settings.default_log_sd, 0.0), known)


def law_log_sd(curves: Curves, procs: Floats, settings: PredictSettings) -> Floats:
    """Log standard deviation of the law itself at procs: its leave-one-out error, or what stands in for it.

    It grows by one more of itself per doubling beyond the sizes observed.
    """
    one_size = curves["n_points"] == 1
    of_median = core_log_sd(curves, settings) / np.sqrt(curves["n_jobs"])
    unjudged = np.where(one_size, of_median, settings.default_log_sd)
    loo = curves["loo_log_rmse"]
    grown: Floats = np.where(np.isnan(loo), unjudged, loo) * (1 + doublings_beyond(curves, procs))
    return grown


def doublings_beyond(curves: Curves, procs: Floats) -> Floats:
    """How far procs lies outside the sizes observed, in doublings; 0 inside."""
    ratio = np.maximum(procs / curves["procs_max"], curves["procs_min"] / procs)
    far: Floats = np.log2(np.maximum(ratio, 1.0))
    return far


def _quantile(curves: Curves, share: float) -> Floats:
    """Student-t quantile with the degrees of freedom each row's jobs give."""
    n_parameters = np.array([LAWS[law].n_parameters for law in curves.law], np.float64)
    freedom = PRIOR_FREEDOM + np.maximum(curves["n_jobs"] - n_parameters, 0.0)
    quantile: Floats = stdtrit(freedom, share)
    return quantile
