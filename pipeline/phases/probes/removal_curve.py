"""What fewer phases keep of the accuracy (Strube 2011, section 5.3 and figure 6.2)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

N_PHASES = (1, 2, 3, 5, 8)


@dataclass(frozen=True, slots=True)
class RemovalStep:
    """With the `n_phases` heaviest phases: their share of intervals, the runtime (s), and 1 - |relative error|."""

    n_phases: int
    coverage: float
    runtime_s: float
    accuracy: float


def removal_curve(
    weights: Floats, phase_mean_s: Floats, n_intervals: int, run_s: float, n_phases: tuple[int, ...] = N_PHASES
) -> list[RemovalStep]:
    """The runtime from the phases of the most intervals alone, expanded to the run by their share of intervals.

    `weights` are shares of intervals, `phase_mean_s` the mean time of the timed intervals of each phase, and `run_s`
    the measured runtime of the run. Phases chosen by their time would be slow ones, which would bias the expansion by
    intervals. Where `n_phases` has counts above the number of phases, all phases are taken.
    """
    order = np.argsort(-weights, kind="stable")
    steps = []
    for n in sorted({min(n, len(order)) for n in n_phases}):
        kept = order[:n]
        coverage = float(weights[kept].sum())
        runtime_s = float((weights[kept] * phase_mean_s[kept]).sum()) * n_intervals / coverage
        steps.append(RemovalStep(n, coverage, runtime_s, 1 - abs(runtime_s / run_s - 1)))
    return steps
