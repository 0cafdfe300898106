"""Hit rate, false-alarm rate and speed of the screens for odd sizes and patterns, on simulated series of known truth.

python -m benchmarks.bench_screens [--series 5000] [--json]

The family is that of tools/simulation/series.py: nine laws equally often. The log's noise is known from repeats. An odd
size is 20% slow or fast, at a random place of the series; an unfavoured processor count takes the factor given.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["NUMBA_NUM_THREADS"] = "1"
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1]))

from pipeline.scaling.screens import (  # noqa: E402
    CLASSES,
    ScreenRules,
    find_patterns,
    screen,
)
from tools.simulation.series import as_observations, clean_series  # noqa: E402

MIXED = np.array([4.0, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128])
SQUARE = np.array([4.0, 6, 9, 12, 16, 20, 25, 30, 36, 49, 64])


def main() -> None:
    """Print the figures, as lines or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=5000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    one_core_warm_up()
    rows = [odd_sizes(args.series, *one) for one in ((6, 0.02), (8, 0.02), (10, 0.02), (8, 0.05))]
    for name, procs in (("powers_of_two", MIXED), ("squares", SQUARE)):
        rows += [favoured(args.series, name, procs, noise, 1.2) for noise in (0.02, 0.05)]
    rows += [steps(args.series, noise, gain) for noise in (0.02, 0.05) for gain in (1.2, 1.4, 2.0)]
    rows += [phases(args.series, noise, gain) for noise in (0.02, 0.05) for gain in (1.4, 2.0)]
    rows += [declines(args.series, 0.02)]
    for row in rows:
        print(json.dumps(row) if args.json else "  ".join(f"{name} {_shown(value)}" for name, value in row.items()))


def _shown(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def one_core_warm_up() -> None:
    """Compile, or load what was compiled before."""
    odd_sizes(20, 8, 0.02)


def noisy(
    seed: int, n_series: int, procs: np.ndarray, noise: float
) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Runtimes with and without noise, and the generator that made them."""
    rng = np.random.default_rng(seed)
    clean_s, _ = clean_series(rng, n_series, procs)
    return clean_s * np.exp(noise * rng.standard_normal(clean_s.shape)), clean_s, rng


def odd_sizes(n_series: int, n_sizes: int, noise: float) -> dict[str, Any]:
    """Recall and precision of one 20% odd size, false alarms on clean series, series screened a second."""
    procs = 2.0 ** np.arange(n_sizes)
    runtime_s, _, rng = noisy(4, n_series, procs, noise)
    place, sign, rows = rng.integers(0, n_sizes, n_series), rng.choice([-1, 1], n_series), np.arange(n_series)
    spoilt_s = runtime_s.copy()
    spoilt_s[rows, place] *= 1.2**sign
    clean, seconds = _odd(procs, runtime_s, noise)
    spoilt, _ = _odd(procs, spoilt_s, noise)
    right = spoilt[rows, place] == np.where(sign > 0, "slow", "fast")
    is_odd = spoilt != None  # noqa: E711 - elementwise
    return {
        "what": "odd size",
        "sizes": n_sizes,
        "noise": noise,
        "recall": float(right.mean()),
        "precision": float(right.sum() / is_odd.sum()),
        "false_alarms": float((clean != None).any(axis=1).mean()),  # noqa: E711
        "series_per_s": int(n_series / seconds),
    }


def _odd(procs: np.ndarray, runtime_s: np.ndarray, noise: float) -> tuple[np.ndarray, float]:
    settings = ScreenRules()
    observed = as_observations(procs, runtime_s, noise)
    patterns, _ = find_patterns(observed, ScreenRules())
    start = time.process_time()
    table, _ = screen(observed, patterns, settings)
    seconds = time.process_time() - start
    return np.array(table.column("odd").to_pylist()[: runtime_s.size], object).reshape(runtime_s.shape), seconds


def found(observed: pa.Table, pattern: str, n_series: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Which series show the pattern, from where on, and series a second."""
    start = time.process_time()
    table, _ = find_patterns(observed, ScreenRules())
    seconds = time.process_time() - start
    rows = [row for row in table.to_pylist() if row["pattern"] == pattern and row["step"] == 1][:n_series]
    status, first = ([row[name] for row in rows] for name in ("status", "from_procs"))
    return np.array(status) == "found", np.array(first, object), n_series / seconds


def steps(n_series: int, noise: float, gain: float) -> dict[str, Any]:
    """A series of ten sizes that from a random one on runs faster."""
    procs = 2.0 ** np.arange(10)
    runtime_s, _, rng = noisy(5, n_series, procs, noise)
    place = rng.integers(3, 8, n_series)
    stepped_s = runtime_s / np.where(np.arange(10) >= place[:, None], gain, 1.0)
    hit, first, per_s = found(as_observations(procs, stepped_s, noise), "stepwise", n_series)
    wrong, _, _ = found(as_observations(procs, runtime_s, noise), "stepwise", n_series)
    return {
        "what": "step",
        "gain": gain,
        "noise": noise,
        "found": float(hit.mean()),
        "right_place": float((first[hit] == procs[place[hit]]).mean()),
        "false_alarms": float(wrong.mean()),
        "series_per_s": int(per_s),
    }


def phases(n_series: int, noise: float, gain: float) -> dict[str, Any]:
    """Three phases of three sizes each: the share of series in which both steps are found where they are."""
    procs = 2.0 ** np.arange(9)
    runtime_s, _, _ = noisy(5, n_series, procs, noise)
    observed = as_observations(procs, runtime_s / gain ** np.array([0, 0, 0, 1, 1, 1, 2, 2, 2]), noise)
    start = time.process_time()
    table, _ = find_patterns(observed, ScreenRules())
    seconds = time.process_time() - start
    starts: dict[str, list[int]] = {}
    for row in table.to_pylist():
        if row["pattern"] == "stepwise" and row["status"] == "found":
            starts.setdefault(row["group_id"], []).append(row["from_procs"])
    both = sum(one == [8, 64] for one in starts.values()) / n_series
    return {"what": "phases", "gain": gain, "noise": noise, "found": both, "series_per_s": int(n_series / seconds)}


def favoured(n_series: int, name: str, procs: np.ndarray, noise: float, factor: float) -> dict[str, Any]:
    """A series that takes longer at sizes outside a class."""
    runtime_s, _, _ = noisy(6, n_series, procs, noise)
    slower_s = runtime_s * np.where(CLASSES[name](procs), 1.0, factor)
    hit, _, per_s = found(as_observations(procs, slower_s, noise), name, n_series)
    wrong, _, _ = found(as_observations(procs, runtime_s, noise), name, n_series)
    rates = {"found": float(hit.mean()), "false_alarms": float(wrong.mean()), "series_per_s": int(per_s)}
    return {"what": name, "factor": factor, "noise": noise} | rates


def declines(n_series: int, noise: float) -> dict[str, Any]:
    """Series whose truth rises by 10% or more after its least runtime, and those whose truth never rises."""
    procs = 2.0 ** np.arange(10)
    runtime_s, clean_s, _ = noisy(7, n_series, procs, noise)
    hit, _, per_s = found(as_observations(procs, runtime_s, noise), "declining", n_series)
    rise = clean_s[:, -1] / clean_s.min(axis=1)
    found_share, wrong = float(hit[rise > 1.1].mean()), float(hit[rise == 1.0].mean())
    return {
        "what": "declining",
        "noise": noise,
        "found": found_share,
        "false_alarms": wrong,
        "series_per_s": int(per_s),
    }


if __name__ == "__main__":
    main()
