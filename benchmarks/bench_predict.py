"""Model-averaged predictions with 80% and 95% intervals a second on one core, beside scipy's curve_fit of one law.

python -m benchmarks.bench_predict [--series 4000] [--json]

Series of 3 to 8 sizes, four targets each: one inside, twice and four times the largest size, and one processor.
curve_fit has Amdahl's law with two parameters and gives no interval for a new run; it runs on a subsample of the same
series. Compiling, or loading what was compiled before, is timed apart. Each round times the averages and curve_fit one
after the other, so that what else the machine does slows all of them; the floor is on the median round's ratio with
siblings: averages in the time of one curve_fit. The exit code is 1 below it.
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

from pipeline.arrays import Floats, Ints  # noqa: E402
from pipeline.scaling.average import average, kin_of  # noqa: E402
from pipeline.scaling.series import SeriesBatch  # noqa: E402

FLOOR_TIMES_CURVE_FIT = 45.0
N_CURVE_FIT = 100
N_TARGETS = 4
SIBLINGS = 10
ROUNDS = 5


def made_series(n_series: int, seed: int) -> tuple[SeriesBatch, Ints, Floats]:
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
    sizes = SeriesBatch(offsets, procs, runtime_s, np.full(procs.size, 0.05**-2))
    largest, smallest = procs[offsets[1:] - 1], procs[offsets[:-1]]
    targets = np.column_stack([np.sqrt(largest * smallest), 2 * largest, 4 * largest, np.ones(n_series)])
    return sizes, np.repeat(np.arange(n_series), N_TARGETS), targets.ravel()


def seconds(call: Callable[[], object]) -> float:
    """Seconds of CPU that a call takes."""
    begun = time.process_time()
    call()
    return time.process_time() - begun


def curve_fits(sizes: SeriesBatch, n_series: int) -> None:
    """scipy's curve_fit of Amdahl's law to the log runtimes of the first series."""

    def amdahl(procs: Floats, t1_log: float, serial: float) -> Floats:
        curve: Floats = t1_log + np.log(np.maximum(serial + (1 - serial) / procs, 1e-12))
        return curve

    for row in range(n_series):
        place = slice(sizes.offsets[row], sizes.offsets[row + 1])
        logs = np.log(sizes.runtime_s[place])
        try:
            curve_fit(amdahl, sizes.procs[place], logs, p0=(logs[0], 0.1), bounds=((-50, 0), (50, 1)))
        except RuntimeError:
            continue


def main() -> int:
    """Print the rates; 1 where the average with siblings is below its floor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=4_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    sizes, series, procs = made_series(given.series, 7)
    begun = time.perf_counter()
    average(sizes, series[:N_TARGETS], procs[:N_TARGETS])
    ready_s = time.perf_counter() - begun
    application, n_fitted = np.arange(given.series) // SIBLINGS, min(N_CURVE_FIT, given.series)
    rounds = np.array([
        (
            seconds(lambda: average(sizes, series, procs)) / given.series,
            seconds(lambda: average(sizes, series, procs, kin_of(sizes, application))) / given.series,
            seconds(lambda: curve_fits(sizes, n_fitted)) / n_fitted,
        )
        for _ in range(ROUNDS)
    ])  # fmt: skip
    alone_s, related_s, fitted_s = np.median(rounds, axis=0)
    found = {
        "ready_s": ready_s,
        "targets_a_series": N_TARGETS,
        "average_series_per_s": 1 / alone_s,
        "average_with_siblings_series_per_s": 1 / related_s,
        "curve_fit_series_per_s": 1 / fitted_s,
        "times_curve_fit": float(np.median(rounds[:, 2] / rounds[:, 0])),
        "times_curve_fit_with_siblings": float(np.median(rounds[:, 2] / rounds[:, 1])),
        "floor_times_curve_fit": FLOOR_TIMES_CURVE_FIT,
    }
    print(json.dumps(found) if given.json else "\n".join(f"{name:36} {value:12,.1f}" for name, value in found.items()))
    return int(found["times_curve_fit_with_siblings"] < FLOOR_TIMES_CURVE_FIT)


if __name__ == "__main__":
    sys.exit(main())
