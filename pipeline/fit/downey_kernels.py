"""Downey's law for one size, as kernels read it; `pipeline.laws.forms.downey` declares it, and a test compares them."""

from pipeline.core.compiled import kernel


@kernel
def downey(n: float, A: float, sigma: float, is_high: bool) -> float:
    """T(n) in units of tau."""
    if is_high:
        plateau = A + A * sigma - sigma
        return sigma + plateau / n if n < plateau else sigma + 1.0
    if n <= A:
        return (A - 0.5 * sigma) / n + 0.5 * sigma
    if n < 2.0 * A - 1.0:
        return sigma * (A - 0.5) / n + 1.0 - 0.5 * sigma
    return 1.0


@kernel
def low_value(n: float, x: float, tau: float, s: float, A: float) -> float:
    """T(n) in low mode, x = 1/n."""
    if n <= A:
        return tau * A * x + s * (1.0 - x)
    if n < 2.0 * A - 1.0:
        return tau + s * ((2.0 * A - 1.0) * x - 1.0)
    return tau
