"""Energy by group and processor count: medians over the jobs whose energy was measured."""

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints


def energy_medians(energy_j: Floats, runtime_s: Floats, is_bound: Bools, starts: Ints) -> dict[str, Floats | Ints]:
    """Per segment of the rows, each beginning at one of `starts`, by column name of OBSERVATIONS.

    Jobs that were stopped (lower bounds) and those without measured energy (NaN, or 0: a meter that is off) do not
    count; NaN where none is left. Energy times runtime is each job's own (Horowitz, Indermaur & Gonzalez 1994).
    """
    counted = np.flatnonzero(np.isfinite(energy_j) & (energy_j > 0) & ~is_bound)
    segment = np.searchsorted(starts, counted, "right") - 1
    n_energy = np.bincount(segment, minlength=len(starts))
    joules = energy_j[counted]
    return {
        "n_energy": n_energy,
        "energy_j_median": _medians(joules, segment, n_energy),
        "energy_delay_js_median": _medians(joules * runtime_s[counted], segment, n_energy),
    }


def _medians(values: Floats, segment: Ints, counts: Ints) -> Floats:
    ordered = np.append(values[np.lexsort((values, segment))], np.nan)
    first = np.cumsum(counts) - counts
    low, high = (np.where(counts > 0, first + middle, -1) for middle in ((counts - 1) // 2, counts // 2))
    medians: Floats = (ordered[low] + ordered[high]) / 2
    return medians
