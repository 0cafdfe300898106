"""Series a second of every law's fit on one core, and ADEPT's search, beside scipy's curve_fit on a subsample of them.

python -m benchmarks.bench_exact_fit [--series 100000] [--json]

Compiling, or loading what was compiled before, is timed apart. Floors: 100,000 series a second for Downey's modes
together, a fit of the slower law with an overhead in the time of one curve_fit, and 0.1 s a prediction for ADEPT's
search, on average; the exit code is 1 where one is missed.
"""

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable

os.environ["NUMBA_NUM_THREADS"] = "1"
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402
from scipy.optimize import OptimizeWarning, curve_fit  # noqa: E402

from pipeline.laws import LAWS  # noqa: E402
from pipeline.scaling.adept import find  # noqa: E402
from pipeline.scaling.fit import fit_law  # noqa: E402
from pipeline.scaling.series import SeriesBatch  # noqa: E402

FLOOR_SERIES_PER_S = 100_000
FLOOR_OVERHEAD_TIMES_CURVE_FIT = 1.0
MODES = ("downey_low", "downey_high")
WITH_OVERHEAD = ("downey_linear", "downey_log")
SEARCHED = (*WITH_OVERHEAD, "smirni", "power")
N_CURVE_FIT = 300
N_ADEPT = 100
CEILING_ADEPT_S = 0.1
REPEATS = 3


def made_series(n_series: int, seed: int) -> SeriesBatch:
    """Series of 3 to 12 sizes on curves of either mode with 5% noise: half in powers of two, half at random sizes."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(3, 13, n_series)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    procs = np.concatenate([_sizes(rng, int(m)) for m in counts])
    series = np.repeat(np.arange(n_series), counts)
    is_low = rng.random(n_series) < 0.5
    shape = {"t1_s": np.full(n_series, 3600.0), "avg_parallelism": np.exp(rng.uniform(0, np.log(1000), n_series))}
    low = _curve("downey_low", shape | {"sigma": rng.uniform(0, 1, n_series)}, series, procs)
    high = _curve("downey_high", shape | {"sigma": 1 + rng.exponential(2, n_series)}, series, procs)
    runtime_s = np.where(is_low[series], low, high) * np.exp(rng.normal(0, 0.05, procs.size))
    return SeriesBatch(offsets, procs, runtime_s, np.ones(procs.size))


def _sizes(rng: np.random.Generator, m: int) -> np.ndarray:
    if rng.random() < 0.5:
        return 2.0 ** np.arange(m)
    return np.sort(rng.choice(np.arange(1.0, 513.0), m, replace=False))


def _curve(law: str, shape: dict[str, np.ndarray], series: np.ndarray, procs: np.ndarray) -> np.ndarray:
    return LAWS[law].runtime_s({name: values[series] for name, values in shape.items()}, procs)


def best_seconds(work: Callable[[], object]) -> float:
    """CPU seconds of the best of a few runs."""
    return min(_seconds(work) for _ in range(REPEATS))


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def curve_fit_both(batch: SeriesBatch) -> np.ndarray:
    """The objective scipy's curve_fit reaches per series and mode from one start, infinite where it gives up."""
    reached = np.full((batch.n_series, 2), np.inf)
    for i in range(batch.n_series):
        part = slice(batch.offsets[i], batch.offsets[i + 1])
        for j, law in enumerate(MODES):
            reached[i, j] = _curve_fit_one(law, batch.procs[part], batch.runtime_s[part])
    return reached


def _curve_fit_one(law: str, n: np.ndarray, t: np.ndarray) -> float:
    def curve(procs: np.ndarray, t1_s: float, A: float, sigma: float) -> np.ndarray:
        return LAWS[law].runtime_s({"t1_s": t1_s, "avg_parallelism": A, "sigma": sigma}, procs)

    sigma_range = (0.0, 1.0) if law == "downey_low" else (1.0, np.inf)
    start = (t[0] * n[0], max(t[0] * n[0] / t[-1], 1.0), 0.5 if law == "downey_low" else 2.0)
    bounds = ((0.0, 1.0, sigma_range[0]), (np.inf, np.inf, sigma_range[1]))
    try:
        found, _ = curve_fit(curve, n, t, start, sigma=t, bounds=bounds)
    except RuntimeError:
        return np.inf
    return float(((1.0 - curve(n, *found) / t) ** 2).sum())


def measured(n_series: int) -> dict[str, float]:
    """Every figure of the benchmark by name."""
    batch, warm, few = made_series(n_series, 1), made_series(10, 2), made_series(N_CURVE_FIT, 1)
    figures = {"n_series": float(n_series)}
    figures["compile_or_load_s"] = _seconds(lambda: [fit_law(law, warm) for law in MODES])
    for law in LAWS:
        some = made_series(N_CURVE_FIT, 1) if law in SEARCHED else batch
        fit_law(law, warm)
        figures[f"{law}_series_per_s"] = some.n_series / best_seconds(lambda law=law, some=some: fit_law(law, some))
    figures["both_series_per_s"] = n_series / best_seconds(lambda: [fit_law(law, batch) for law in MODES])
    figures |= adept_seconds()
    warnings.simplefilter("ignore", OptimizeWarning)
    start = time.process_time()
    reached = curve_fit_both(few)
    figures["curve_fit_series_per_s"] = few.n_series / (time.process_time() - start)
    figures["times_faster_than_curve_fit"] = figures["both_series_per_s"] / figures["curve_fit_series_per_s"]
    slower = min(figures[f"{law}_series_per_s"] for law in WITH_OVERHEAD)
    figures["with_overhead_times_curve_fit"] = slower / (len(MODES) * figures["curve_fit_series_per_s"])
    exact = np.column_stack([fit_law(law, few).wssre for law in MODES])
    figures["curve_fit_more_than_1_pct_above_share"] = float((reached > 1.01 * exact + 1e-9).mean())
    figures["curve_fit_below_exact_share"] = float((reached < exact * (1 - 1e-6) - 1e-12).mean())
    return figures


def adept_seconds() -> dict[str, float]:
    """ADEPT's search for a target at twice the largest size: mean and largest CPU seconds a prediction."""
    batch, each = made_series(N_ADEPT, 3), []
    targets = 2.0 * batch.procs[batch.offsets[1:] - 1]
    find(batch, np.zeros(1, np.int64), targets[:1])
    for i in range(N_ADEPT):
        one = (np.array([i]), targets[i : i + 1])
        each.append(_seconds(lambda one=one: find(batch, *one)))
    return {"adept_mean_s_per_prediction": float(np.mean(each)), "adept_max_s_per_prediction": max(each)}


def main() -> int:
    """Print the figures; 1 where the floor is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measured(options.series)
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:40s} {value:14,.4g}" if value < 100 else f"{name:40s} {value:14,.0f}")
    is_slow = figures["adept_mean_s_per_prediction"] > CEILING_ADEPT_S
    is_slow |= figures["with_overhead_times_curve_fit"] < FLOOR_OVERHEAD_TIMES_CURVE_FIT
    return int(is_slow or figures["both_series_per_s"] < FLOOR_SERIES_PER_S)


if __name__ == "__main__":
    sys.exit(main())
