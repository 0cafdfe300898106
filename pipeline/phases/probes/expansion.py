"""Equations (4.3) to (4.7) of Strube (2011): the runtime of a program from the times of its probes."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def instrumentation_factor(uninstrumented_s: float, instrumented_s: float) -> float:
    """The inverse of the noise (4.3): runtime of the reference without instrumentation over that with it."""
    if not (uninstrumented_s > 0 and instrumented_s > 0):
        raise ValueError(f"runtimes are positive, not {uninstrumented_s:g} s and {instrumented_s:g} s")
    return uninstrumented_s / instrumented_s


def expanded_runtime(
    reference_s: float, shares: Floats, phase_reference_s: Floats, phase_probed_s: Floats, factor: float = 1.0
) -> float:
    """Equation (4.7): the runtime elsewhere, s.

    Parameters
    ----------
    reference_s : float
        Runtime with instrumentation on the reference (ET_ref), s.
    shares : array of shape (phases,)
        Each phase's measured share of that time. Shares of intervals are biased where intervals of one phase take
        different times. Shares that sum to less than 1 are divided by their sum.
    phase_reference_s, phase_probed_s : arrays of shape (phases,)
        Time of the probe of each phase on the reference and elsewhere, s.
    factor : float
        See `instrumentation_factor`; 1 where probes and reference are not instrumented.

    Raises
    ------
    ValueError
        Where a share or a time on the reference is not positive.
    """
    if len(shares) == 0 or not ((shares > 0).all() and (phase_reference_s > 0).all()):
        raise ValueError("every phase needs a positive share and a positive time on the reference")
    unit_values = reference_s * shares / shares.sum() / phase_reference_s
    return float((unit_values * phase_probed_s).sum() * factor)
