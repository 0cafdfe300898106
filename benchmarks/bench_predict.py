"""Model-averaged predictions with 80% and 95% intervals a second on one core, beside scipy's curve_fit of one law.

python -m benchmarks.bench_predict [--series 20000] [--json]

Series of 3 to 8 sizes, four targets each: one inside, twice and four times the largest size, and one processor.
curve_fit has Amdahl's law with two parameters and gives no interval for a new run; it runs on a subsample of the same
series. Compiling, or loading what was compiled before, is timed apart. The floor is 10,000 series a second, siblings
or not; the exit code is 1 below it.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable

os.environ["NUMBA_NUM_THREADS"] = "1"
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402
from scipy.optimize import curve_fit  # noqa: E402

from pipeline.core.arrays import Floats, Ints  # noqa: E402
from pipeline.predict.average import average  # noqa: E402
from pipeline.predict.siblings import Kin  # noqa: E402
from pipeline.predict.sizes import Sizes  # noqa: E402

FLOOR_SERIES_PER_S = 10_000
N_CURVE_FIT = 300
N_TARGETS = 4
SIBLINGS = 10
REPEATS = 3


def made_series(n_series: int, seed: int) -> tuple[Sizes, Ints, Floats]:
    """Series on curves with a serial share and an overhead, 5% noise; series and procs of the targets."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(3, 9, n_series)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    series = np.repeat(np.arange(n_series), counts)
    procs = 2.0 ** (np.arange(offsets[-1]) - offsets[series] + rng.integers(0, 4, n_series)[series])
    serial, overhead = 10 ** rng.uniform(-4, -0.5, n_series), 10 ** rng.uniform(-6, -3, n_series)
    scale = 10 ** rng.uniform(1, 5, n_series)
    curve_s = scale[series] * (serial[series] + (1 - serial[series]) / procs + overhead[series] * procs)
    runtime_s = curve_s * np.exp(0.05 * rng.standard_normal(procs.size))
    sizes = Sizes(offsets, procs, runtime_s, np.full(procs.size, 0.05**2), np.full(n_series, 0.07**2))
    largest, smallest = procs[offsets[1:] - 1], procs[offsets[:-1]]
    targets = np.column_stack([np.sqrt(largest * smallest), 2 * largest, 4 * largest, np.ones(n_series)])
    return sizes, np.repeat(np.arange(n_series), N_TARGETS), targets.ravel()


def timed(call: Callable[[], object]) -> float:
    """Least seconds of CPU of a few calls."""
    taken = []
    for _ in range(REPEATS):
        begun = time.process_time()
        call()
        taken.append(time.process_time() - begun)
    return min(taken)


def curve_fits(sizes: Sizes, n_series: int) -> float:
    """Seconds of CPU of scipy's curve_fit of Amdahl's law to log runtimes."""

    def amdahl(procs: Floats, t1_log: float, serial: float) -> Floats:
        curve: Floats = t1_log + np.log(np.maximum(serial + (1 - serial) / procs, 1e-12))
        return curve

    begun = time.process_time()
    for row in range(n_series):
        place = slice(sizes.offsets[row], sizes.offsets[row + 1])
        logs = np.log(sizes.runtime_s[place])
        try:
            curve_fit(amdahl, sizes.procs[place], logs, p0=(logs[0], 0.1), bounds=((-50, 0), (50, 1)))
        except RuntimeError:
            continue
    return time.process_time() - begun


def main() -> int:
    """Print the rates; 1 where the average is below its floor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    sizes, series, procs = made_series(given.series, 7)
    new_variance = np.full(procs.size, 0.05**2)
    begun = time.perf_counter()
    average(sizes.part(0, 1), series[:N_TARGETS], procs[:N_TARGETS], new_variance[:N_TARGETS])
    ready_s = time.perf_counter() - begun
    application = np.arange(given.series) // SIBLINGS
    alone_s = timed(lambda: average(sizes, series, procs, new_variance))
    related_s = timed(lambda: average(sizes, series, procs, new_variance, Kin.of(sizes, application)))
    n_fitted = min(N_CURVE_FIT, given.series)
    found = {
        "ready_s": ready_s,
        "targets_a_series": N_TARGETS,
        "average_series_per_s": given.series / alone_s,
        "average_with_siblings_series_per_s": given.series / related_s,
        "curve_fit_series_per_s": n_fitted / curve_fits(sizes, n_fitted),
        "floor_series_per_s": FLOOR_SERIES_PER_S,
    }
    print(json.dumps(found) if given.json else "\n".join(f"{name:36} {value:12,.1f}" for name, value in found.items()))
    slowest = min(found["average_series_per_s"], found["average_with_siblings_series_per_s"])
    return int(slowest < FLOOR_SERIES_PER_S)


if __name__ == "__main__":
    sys.exit(main())
