"""Scalability series of known truth, by every law.

The family: each of nine laws equally often; A log-uniform from 8 to 1,000 (serial fraction 1/A), sigma uniform 0 to 1
or 1 to 6, an exponent from 0.3 to 1, overhead per processor log-uniform from 1e-5 to 1e-3 of T(1), or ten times that
per doubling.
"""

import numpy as np
import pyarrow as pa

from pipeline.arrays import Floats, Ints
from pipeline.laws import LAWS
from pipeline.tables import OBSERVATIONS

FAMILY = (
    "downey_low", "downey_high", "amdahl", "usl", "amdahl_log", "downey_linear", "downey_log", "power", "constant",
)  # fmt: skip


def clean_series(rng: np.random.Generator, n_series: int, procs: Floats) -> tuple[Floats, Ints]:
    """Runtimes (s) without noise, float64[n_series, sizes], and the law of each series as its place in FAMILY."""
    law = rng.integers(0, len(FAMILY), n_series)
    A = np.exp(rng.uniform(np.log(8), np.log(1000), n_series))
    overhead = 1000 * np.exp(rng.uniform(np.log(1e-5), np.log(1e-3), n_series))
    low, high, exponent = rng.uniform(0, 1, n_series), rng.uniform(1, 6, n_series), rng.uniform(0.3, 1, n_series)
    runtime_s = np.empty((n_series, len(procs)))
    for code, name in enumerate(FAMILY):
        own = law == code
        given = {
            "t1_s": np.full(n_series, 1000.0),
            "avg_parallelism": A,
            "sigma": high if name == "downey_high" else low,
            "serial_fraction": 1 / A,
            "exponent": exponent,
            "overhead_s": overhead * (1 if name in ("usl", "downey_linear") else 10),
        }
        columns = {key: values[own][:, None] for key, values in given.items()}
        runtime_s[own] = LAWS[name].runtime_s(columns, procs[None, :])
    return runtime_s, law


def as_observations(procs: Floats, runtime_s: Floats, repeat_log_sd: float | None = None) -> pa.Table:
    """OBSERVATIONS of single runs, a group a row; with the repeats' log sd given, one more group that shows it."""
    n_series, n_sizes = runtime_s.shape
    names = np.repeat([f"g{row:06d}" for row in range(n_series)], n_sizes)
    sizes, values, n_jobs = np.tile(procs, n_series), runtime_s.ravel(), np.ones(runtime_s.size, np.int64)
    spread = np.full(runtime_s.size, np.nan)
    if repeat_log_sd is not None:
        names, sizes = np.append(names, "repeats"), np.append(sizes, 1.0)
        values, n_jobs, spread = np.append(values, 100.0), np.append(n_jobs, 4), np.append(spread, repeat_log_sd)
    return OBSERVATIONS.build(
        group_id=names.astype(object),
        procs=sizes.astype(np.int64),
        n_jobs=n_jobs,
        n_censored=np.zeros(len(n_jobs), np.int64),
        runtime_s_median=values,
        log_sd=spread,
    )
