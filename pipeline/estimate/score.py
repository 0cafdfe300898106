"""Accuracy of estimates: the figures of the papers, and the coverage of every quantile."""

from collections.abc import Mapping

import numpy as np

from pipeline.core.arrays import Bools, Floats, median

QUANTILES = (0.10, 0.50, 0.80, 0.90, 0.95, 0.99)
"""The quantiles that every estimator gives, in this order; the second one is the estimate."""


def scores(runtime_s: Floats, quantiles_s: Floats, chosen: Bools) -> Mapping[str, float]:
    """Figures over the chosen jobs; `quantiles_s` is (jobs, 6), NaN where a method has no answer (never scored as 0).

    mae_s, mae_over_mean (the papers' figure), median_abs_pct, share_under, pinball_s per quantile, coverage_80 (10 to
    90%), coverage_q95 and so on, n_scored, n_unanswered.
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
