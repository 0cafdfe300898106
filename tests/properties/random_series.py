"""Random scalability series for comparison: Downey curves with noise of many sizes, and runtimes of no law at all."""

import numpy as np

from pipeline.laws import LAWS
from pipeline.scaling.series import SeriesBatch


def random_series(rng):
    """One series of 3 to 12 sizes: procs, runtime_s, weights."""
    m = int(rng.integers(3, 13))
    n = _sizes(rng, m)
    t = _runtimes(rng, n)
    w = np.exp(rng.normal(0, 1, m)) if rng.random() < 0.5 else np.ones(m)
    return n, t * 10.0 ** rng.uniform(-2, 5), w


def _sizes(rng, m):
    kind = rng.integers(4)
    if kind == 0:
        return 2.0 ** np.arange(m) * rng.integers(1, 5)
    if kind == 1:
        return np.sort(rng.choice(np.arange(1.0, 65.0), m, replace=False))
    if kind == 2:
        return np.sort(rng.choice(np.arange(1000.0, 1100.0), m, replace=False))
    return np.sort(np.exp(rng.uniform(0, np.log(5000), m)))


def _runtimes(rng, n):
    if rng.random() < 0.15:
        return np.exp(rng.normal(0, 1.5, n.size))
    mode = "low" if rng.random() < 0.5 else "high"
    sigma = rng.uniform(0, 1) if mode == "low" else 1.0 + rng.exponential(3.0)
    A = np.exp(rng.uniform(0, np.log(3 * n[-1])))
    curve = LAWS[f"downey_{mode}"].runtime_s({"t1_s": 1.0, "avg_parallelism": A, "sigma": sigma}, n)
    return curve * np.exp(rng.normal(0, rng.choice([0.0, 1e-4, 0.02, 0.1, 0.3]), n.size))


def batch_of(series):
    """Many (procs, runtime_s, weights) as one batch."""
    offsets = np.cumsum([0] + [len(n) for n, _, _ in series]).astype(np.int64)
    columns = [np.concatenate(c).astype(np.float64) if series else np.empty(0) for c in zip(*series, strict=True)]
    return SeriesBatch(offsets, *columns)
