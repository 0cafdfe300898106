"""How often measured runtimes lie in the 80% and 95% intervals predicted from a series' 3, 4 or 5 smallest sizes.

python -m benchmarks.coverage_scaling FILE.csv... [--json]

Files as of `walltime scaling evaluate`, read as one log. Leave-one-application-out: what says how far a law holds
(noise, drift, stretch) comes from the other applications; a series has only its own application's sizes kept beside it.
Judged are the sizes up to 4 times the largest kept.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from flows.services.series_files import read_all
from pipeline.arrays import Bools, Floats, Ints, category_codes, floats
from pipeline.scaling.average import Sizes, average, kin_of
from pipeline.scaling.calibration import (
    RESTS_ON,
    calibrated,
    held_out,
    log_wide_sd,
    median_variance,
    repeats,
    rests_on,
    run_log_sd,
)
from pipeline.scaling.points import extra_runs, pooled
from pipeline.scaling.rules import PredictRules

SETTINGS = PredictRules()


def part_of(sizes: Sizes, first: int, last: int) -> Sizes:
    """Series first to last - 1."""
    rows = slice(sizes.offsets[first], sizes.offsets[last])
    offsets = sizes.offsets[first : last + 1] - sizes.offsets[first]
    return Sizes(offsets, sizes.procs[rows], sizes.runtime_s[rows], sizes.variance[rows], sizes.drift[first:last])


def covered(files: list[Path]) -> dict[str, dict[str, float]]:
    """Per application, per number of sizes given and of all: sizes judged, per cent of them inside each interval.

    Per application also the shares by the number of sizes given, and what the others chose.
    """
    observations, applications = read_all(files)
    codes, groups = category_codes(observations, "group_id")
    names = sorted(set(applications.values()))
    application = np.array([names.index(applications[group]) for group in groups], np.int64)
    found, hits, counts = {}, [], []
    for code, name in enumerate(names):
        chosen, inside, n_given = _left_out(observations, codes, application == code)
        if len(inside):
            found[name] = _shares(inside) | _by_count(inside, n_given) | chosen
            hits.append(inside)
            counts.append(n_given)
    return found | _pooled(np.vstack(hits), np.concatenate(counts)) if hits else {}


def _pooled(inside: Bools, n_given: Ints) -> dict[str, dict[str, float]]:
    """Shares of all sizes judged, and of those predicted from each number of sizes."""
    by_count = {f"from {count}": _shares(inside[n_given == count]) for count in np.unique(n_given)}
    return by_count | {"all": _shares(inside)}


def _by_count(inside: Bools, n_given: Ints) -> dict[str, float]:
    """Shares by the number of sizes given, as in_80_from_3."""
    parts = {count: _shares(inside[n_given == count]) for count in np.unique(n_given)}
    return {f"{name}_from_{count}": part[name] for count, part in parts.items() for name in ("in_80", "in_95")}


def _left_out(observations: pa.Table, codes: Ints, is_own: Bools) -> tuple[dict[str, float], Bools, Ints]:
    """What the other applications say; per size of the one left out whether it lies in its 80% and 95% intervals.

    Last, from how many sizes it was predicted.
    """
    offsets, columns = _series(observations, codes, ~is_own)
    wide = log_wide_sd(*_repeats(offsets, columns), SETTINGS.run_log_sd)
    sizes = _sizes(offsets, columns, wide)
    calibration = calibrated(sizes, sizes.variance, SETTINGS.drift_log_sd)
    sizes = _sizes(*_series(observations, codes, is_own), wide).drifting(calibration.drift_log_sd)
    held = held_out(sizes, np.arange(sizes.n_series))
    inside = np.empty((held.rows.size, 2), bool)
    for count in np.unique(np.diff(held.kept.offsets)):
        # Siblings are kept to as many sizes: none tells of sizes that are to be predicted.
        own = np.flatnonzero(np.diff(held.kept.offsets) == count)
        part, asked = part_of(held.kept, own[0], own[-1] + 1), np.isin(held.series, own)
        rows, series = held.rows[asked], held.series[asked] - own[0]
        kin = kin_of(part, np.zeros(part.n_series, np.int64))
        log_s = average(part, series, sizes.procs[rows], sizes.variance[rows], kin).log_s
        log_s = calibration.stretched(log_s, rests_on(part, series, sizes.procs[rows]))
        truth = np.log(sizes.runtime_s[rows])[:, None]
        inside[asked] = (log_s[:, [1, 0]] <= truth) & (truth <= log_s[:, [3, 4]])
    told = {"drift": calibration.drift_log_sd}
    for place, (in_80, in_95) in zip(RESTS_ON, calibration.stretch, strict=True):
        told |= {f"x80_{place}": in_80, f"x95_{place}": in_95}
    return told, inside, np.diff(held.kept.offsets)[held.series]


def _series(observations: pa.Table, codes: Ints, is_wanted: Bools) -> tuple[Ints, dict[str, Floats]]:
    """Offsets of the groups wanted, and their sizes by rising processors."""
    columns = {name: floats(observations, name) for name in ("procs", "runtime_s_median", "n_jobs", "log_sd")}
    order = np.lexsort((columns["procs"], codes))
    order = order[is_wanted[codes[order]]]
    counts = np.bincount(codes[order], minlength=is_wanted.size)[is_wanted]
    return np.concatenate([[0], np.cumsum(counts)]), {name: values[order] for name, values in columns.items()}


def _repeats(offsets: Ints, columns: dict[str, Floats]) -> tuple[Floats, Floats]:
    return repeats(offsets, columns["n_jobs"]), pooled(
        offsets, extra_runs(columns["n_jobs"], columns["log_sd"]), columns["log_sd"]
    )


def _sizes(offsets: Ints, columns: dict[str, Floats], wide: float) -> Sizes:
    run_sd = np.repeat(run_log_sd(*_repeats(offsets, columns), wide), np.diff(offsets))
    variance = median_variance(run_sd, columns["n_jobs"], SETTINGS.measured_log_sd)
    drift = np.full(offsets.size - 1, SETTINGS.drift_log_sd**2)
    return Sizes(offsets, columns["procs"], columns["runtime_s_median"], variance, drift)


def _shares(inside: Bools) -> dict[str, float]:
    return {"sizes": len(inside), "in_80": 100 * float(inside[:, 0].mean()), "in_95": 100 * float(inside[:, 1].mean())}


def main() -> None:
    """Print a line per application and one of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = covered(given.files)
    if given.json:
        print(json.dumps(found))
        return
    for name, shares in found.items():
        print(f"{name:12} " + "  ".join(f"{key} {value:.4g}" for key, value in shares.items()))


if __name__ == "__main__":
    main()
