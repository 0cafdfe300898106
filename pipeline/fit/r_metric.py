"""ADEPT's fluctuation metric (Deshmeh 2013, 3.9), for comparison: it fits nothing, and sees no odd end.

R_i = (t_i/t_(i+1)) / (n_(i+1)/n_i), the efficiency of going from one size to the next. Under any concave speedup it
does not rise much; where R_(i+1) exceeds R_i by more than epsilon, observations i+1 and i+2 are suspect (3.9.1's
reading; the algorithm box there says i and i+1).
"""

import numpy as np

from pipeline.core.arrays import Floats


def r_values(procs: Floats, runtime_s: Floats) -> Floats:
    """R between neighbours, float64[k, m - 1]; 1 is linear speedup."""
    ratio: Floats = (runtime_s[:, :-1] / runtime_s[:, 1:]) / (procs[:, 1:] / procs[:, :-1])
    return ratio


def r_deviation(procs: Floats, runtime_s: Floats, epsilon: float) -> Floats:
    """Jump of R over epsilon at each suspect size, positive where it is the slow one, float64[k, m]; 0 elsewhere.

    Of the two that a jump makes suspect, both are reported: the first as slow, the second as fast.
    """
    deviation = np.zeros(procs.shape)
    if procs.shape[1] < 3:
        return deviation
    jump = np.diff(r_values(procs, runtime_s), axis=1)
    over = np.where(jump > epsilon, jump / epsilon, 0.0)
    slow, fast = np.zeros(procs.shape), np.zeros(procs.shape)
    slow[:, 1:-1], fast[:, 2:] = over, over
    return np.where(slow >= fast, slow, -fast)


def deviation_weights(deviation: Floats, theta: float, cap: float) -> Floats:
    """What a suspect size counts, 1 for the others: 1/(theta D), with theta D no more than the cap.

    D is the jump in epsilons that made the size suspect (the thesis: "D_I", 3.9.2).
    """
    weights: Floats = 1.0 / np.clip(theta * np.abs(deviation), 1.0, cap)
    return weights
