"""Closed forms: the constant law, and Amdahl's as non-negative least squares in {1, 1/n}, every support tried."""

from pipeline.core.arrays import Floats
from pipeline.core.compiled import kernel
from pipeline.fit.downey_high_search import offer_high
from pipeline.fit.result_rows import A_, AT_BOUND, OK, SERIAL, T1, TINF, WSSRE
from pipeline.fit.sums import FLAT_V, FLAT_Z, P1, P2, XX, ZX, F, Workspace, hyperbola


@kernel
def fit_constant(m: int, work: Workspace, scale: float, row: Floats) -> int:
    """T = sum z / sum v; status ok."""
    v0, z0 = work.suffix[0, FLAT_V], work.suffix[0, FLAT_Z]
    offer_high(m, work, z0 * z0 / v0, z0 / v0, 0.0, 1.0)
    row[T1], row[TINF], row[A_], row[WSSRE] = work.best[P1] * scale, work.best[P1] * scale, 1.0, work.best[F]
    return OK


@kernel
def fit_amdahl(m: int, work: Workspace, scale: float, row: Floats) -> int:
    """T = a + b/n with a, b >= 0; at_bound where one of them is zero."""
    v0, z0, zx, xx = work.suffix[0, FLAT_V], work.suffix[0, FLAT_Z], work.prefix[m, ZX], work.prefix[m, XX]
    bend = 2.0 * work.points[m - 1, 0]
    offer_high(m, work, z0 * z0 / v0, z0 / v0, 0.0, bend)
    offer_high(m, work, zx * zx / xx, 0.0, zx / xx, bend)
    P, a, gain, is_determined = hyperbola(work.prefix, m)
    if is_determined and 0.0 <= a <= P:
        offer_high(m, work, gain, a, P - a, bend)
    a, b = work.best[P1] * scale, work.best[P2] * scale
    row[T1], row[TINF], row[A_], row[SERIAL], row[WSSRE] = a + b, a, (a + b) / a, a / (a + b), work.best[F]
    return OK if a > 0.0 and b > 0.0 else AT_BOUND
