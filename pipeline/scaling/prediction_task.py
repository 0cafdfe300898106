"""The input of a predictor: measured sizes of many series, and the sizes to predict."""

from collections.abc import Callable
from dataclasses import dataclass

from pipeline.arrays import Floats, Ints


@dataclass(frozen=True, slots=True)
class PredictionTask:
    """k concatenated series, each sorted by distinct procs: series i is the slice offsets[i]:offsets[i + 1].

    Per series: `application`, an integer that series of one application share. Per size: `procs`, `runtime_s` (median
    of the runs), `n_runs`, and `log_sd`, the standard deviation of repeats (log s, NaN for a single run). Per target,
    in any order: `target_series` (0 to k - 1) and `target_procs`.
    """

    offsets: Ints
    application: Ints
    procs: Floats
    runtime_s: Floats
    n_runs: Floats
    log_sd: Floats
    target_series: Ints
    target_procs: Floats


Predictor = Callable[[PredictionTask], Floats]
"""Predicted runtime (s) per target, float64; NaN where the predictor has no answer."""
