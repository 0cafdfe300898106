"""Series that lie on Amdahl's curve to a thousandth: these are predicted by the law itself, not by the model average.

The shapes of the average are half a power of two apart in the serial share. The scatter of measured runs is larger than
the error of this grid; points made by a formula have no scatter.
"""

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.compiled import entry_kernel
from pipeline.predict.sizes import Sizes

LEAST_SIZES = 4
"""Two parameters leave two degrees of freedom: of runs that scatter by 2%, one series in 400 lies as close."""

EXACT_LOG_SD = 0.001
"""Root mean square off the curve, per degree of freedom, up to which a series counts as exact (log s)."""


def exact_log_s(sizes: Sizes, series: Ints, procs: Floats) -> tuple[Bools, Floats]:
    """Per target: whether its series lies on an Amdahl curve, and log T by that curve; undefined for other series."""
    coefficients = np.zeros((sizes.n_series, 2))
    is_exact = amdahl_fits(sizes.offsets, sizes.procs, sizes.runtime_s, coefficients)
    serial_s, parallel_s = coefficients[series].T
    with np.errstate(divide="ignore", invalid="ignore"):
        return is_exact[series], np.log(serial_s + parallel_s / procs)


@entry_kernel
def amdahl_fits(offsets: Ints, procs: Floats, runtime_s: Floats, coefficients: Floats) -> Bools:
    """Fills serial and parallel seconds, least squares of relative errors; whether each series is exact."""
    is_exact = np.zeros(offsets.size - 1, np.bool_)
    for i in range(is_exact.size):
        a, b = offsets[i], offsets[i + 1]
        if b - a < LEAST_SIZES:
            continue
        u, v = 1.0 / runtime_s[a:b], 1.0 / (procs[a:b] * runtime_s[a:b])
        uu, uv, vv = (u * u).sum(), (u * v).sum(), (v * v).sum()
        determinant = uu * vv - uv * uv
        if determinant <= 1e-12 * uu * vv:
            continue
        serial = (vv * u.sum() - uv * v.sum()) / determinant
        serial = max(0.0, serial)
        parallel = (v.sum() - serial * uv) / vv
        squares = ((serial * u + parallel * v - 1.0) ** 2).sum()
        coefficients[i, 0], coefficients[i, 1] = serial, parallel
        is_exact[i] = parallel > 0.0 and squares <= (b - a - 2) * EXACT_LOG_SD**2
    return is_exact
