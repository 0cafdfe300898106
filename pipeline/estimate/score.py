"""Accuracy of estimates: the figures of the papers, and the coverage of every quantile."""

from collections.abc import Mapping

import numpy as np

from pipeline.arrays import Bools, Floats, median

QUANTILES = (0.10, 0.50, 0.80, 0.90, 0.95, 0.99)
"""The quantiles that every estimator gives, in this order; the second one is the estimate."""

N_QUANTILES = len(QUANTILES)
CALIBRATED = (*QUANTILES, 0.025)
"""What `walltime` calibrates: QUANTILES, and last the lower end of a 95% interval."""


def scores(runtime_s: Floats, quantiles_s: Floats, chosen: Bools) -> Mapping[str, float]:
    """Figures over the chosen jobs; `quantiles_s` is (jobs, 6), NaN where a method has no answer (never scored as 0).

    mae_s, mae_over_mean (the papers' figure), median_abs_pct, share_under, pinball_s per quantile, coverage_80 (10 to
    90%), coverage_q95 and so on, n_scored, n_unanswered.

    Parameters
    ----------
    runtime_s : Floats
        float64[n], runtimes, s.
    quantiles_s : Floats
        float64[n, 6], estimated quantiles, s, at QUANTILES; NaN: no answer.
    chosen : Bools
        bool[n], the jobs to score.

    Returns
    -------
    mapping of str to float
        Figures by name; names that end in _s are in s, median_abs_pct is in %, the others are shares and counts.

    References
    ----------
    pinball: Koenker & Bassett (1978), Regression quantiles. mae_over_mean: Tsafrir, Etsion & Feitelson (2007).

    Examples
    --------
    >>> runtime_s, quantiles_s = np.array([100.0, 200.0]), np.tile([50.0, 110.0, 150.0, 200.0, 250.0, 300.0], (2, 1))
    >>> figures = scores(runtime_s, quantiles_s, np.ones(2, bool))
    >>> figures["mae_s"], figures["coverage_q90"], figures["share_under"]
    (50.0, 1.0, 0.5)
    """
    runtime_s, quantiles_s = runtime_s[chosen], quantiles_s[chosen]
    answered = ~np.isnan(quantiles_s[:, 1])
    t, q = runtime_s[answered], quantiles_s[answered]
    error_s = q[:, 1] - t
    figures = {
        "n_scored": float(len(t)),
        "n_unanswered": float((~answered).sum()),
        "mae_s": float(np.abs(error_s).mean()),
        "mae_over_mean": float(np.abs(error_s).mean() / t.mean()),
        "median_abs_pct": float(100 * median(np.abs(error_s) / t)),
        "share_under": float((error_s < 0).mean()),
    }
    for k, share in enumerate(QUANTILES):
        known = ~np.isnan(q[:, k])
        off_s = t[known] - q[known, k]
        figures[f"pinball_q{100 * share:.0f}_s"] = _mean(np.maximum(share * off_s, (share - 1) * off_s))
        figures[f"coverage_q{100 * share:.0f}"] = _mean(off_s <= 0)
    return figures | {"coverage_80": float(((t >= q[:, 0]) & (t <= q[:, 3])).mean())}


def _mean(values: Floats | Bools) -> float:
    """NaN where there are none."""
    return float(values.mean()) if len(values) else np.nan


def at_share(quantiles: Floats, share: float) -> Floats:
    """(jobs,) one quantile of every job, interpolated in the logarithm; the last one beyond the grid.

    `quantiles` is (jobs, 6), in any unit of which 1 is little.
    """
    logs = np.log(np.maximum(quantiles, 1.0))
    place = int(np.clip(np.searchsorted(QUANTILES, share) - 1, 0, len(QUANTILES) - 2))
    part = float(np.clip((share - QUANTILES[place]) / (QUANTILES[place + 1] - QUANTILES[place]), 0.0, 1.0))
    return np.exp(logs[:, place] * (1.0 - part) + logs[:, place + 1] * part)


def score_of(runtime_s: Floats, quantiles_s: Floats) -> dict[str, float]:
    """The figures of `scores` over ended jobs, each as it was answered at its submit; none without a job."""
    everyone = np.ones(len(runtime_s), np.bool_)
    return dict(scores(runtime_s, quantiles_s[:, :N_QUANTILES], everyone)) if len(runtime_s) else {}


def points(estimate_s: Floats) -> Floats:
    """(jobs, 6) with the estimate as the median, and no other quantile."""
    quantiles_s = np.full((len(estimate_s), N_QUANTILES), np.nan)
    quantiles_s[:, QUANTILES.index(0.5)] = estimate_s
    return quantiles_s
