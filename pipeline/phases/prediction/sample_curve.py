"""What a prediction can rest on, by the reference run alone: time kept by phases, and error by number of samples."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.phases.prediction.occurrences import Occurrences

Floats = npt.NDArray[np.float64]


def kept_shares(phases: pa.Table) -> Floats:
    """The share of the time that the largest phases hold, for one phase, two, and so on."""
    return np.cumsum(-np.sort(-phases.column("share").to_numpy()))


def standard_errors(phases: pa.Table, points: pa.Table, samples: list[int]) -> list[float]:
    """The standard error of the run's own time from so many occurrences of each relevant phase, as a share of it.

    Source: Cochran 1977, Section 5.4 (stratified sampling with the finite population's correction).
    """
    found = Occurrences.of(points)
    is_relevant = phases.column("is_relevant").to_numpy(zero_copy_only=False)
    wanted = set(phases.column("phase_id").to_numpy()[is_relevant].tolist())
    strata = [found.time_s[mine] for phase, mine in found.by_phase().items() if phase in wanted]
    whole_s = float(found.time_s.sum())
    return [float(np.sqrt(sum(_variance(times_s, n) for times_s in strata)) / whole_s) for n in samples]


def _variance(times_s: Floats, n_wanted: int) -> float:
    count = len(times_s)
    n = min(n_wanted, count)
    return count**2 * (1 - n / count) * float(times_s.var(ddof=1)) / n if n < count else 0.0
