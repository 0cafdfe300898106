"""Exact non-negative least squares in up to three functions: every support tried, by orthogonalisation.

Rows are scaled as in sums.py: column k < 3 holds a function over the runtime times the square root of the weight, the
last one the square root of the weight, so that the sum of squares is that of relative errors.
"""

import numpy as np

from pipeline.arrays import Floats
from pipeline.kernels import called_kernel, kernel

MOST = 3
TARGET = 3
COLLINEAR = 1e-11
"""Share of a column's length that must be left beside the columns before it for its coefficient to be determined."""
BETTER = 1e-12
"""A richer support must be better by this share of the squares left, and of all squares times itself."""


@kernel
def least_squares(rows: Floats, m: int, mask: int, q: Floats, r: Floats, x: Floats) -> float:
    """Coefficients x of the columns in mask, 0 for the others; the squares left, infinite where undetermined or < 0."""
    for i in range(m):
        q[i, TARGET] = rows[i, TARGET]
    for k in range(MOST):
        x[k] = 0.0
        if mask >> k & 1 and not _orthogonalised(rows, m, mask, k, q, r):
            return np.inf
    for k in range(MOST - 1, -1, -1):
        if mask >> k & 1:
            value = r[k, TARGET]
            for j in range(k + 1, MOST):
                value -= r[k, j] * x[j] if mask >> j & 1 else 0.0
            x[k] = value / r[k, k]
            if not x[k] >= 0.0:
                return np.inf
    left = 0.0
    for i in range(m):
        left += q[i, TARGET] * q[i, TARGET]
    return left


@kernel
def _orthogonalised(rows: Floats, m: int, mask: int, k: int, q: Floats, r: Floats) -> bool:
    """Column k made orthogonal to those before it, twice, and the target to column k; whether anything is left of k."""
    whole, left, share = 0.0, 0.0, 0.0
    for i in range(m):
        q[i, k] = rows[i, k]
        whole += rows[i, k] * rows[i, k]
    for j in range(k):
        r[j, k] = 0.0
    for _ in range(2):
        for j in range(k):
            if mask >> j & 1:
                share = 0.0
                for i in range(m):
                    share += q[i, j] * q[i, k]
                r[j, k] += share
                for i in range(m):
                    q[i, k] -= share * q[i, j]
    for i in range(m):
        left += q[i, k] * q[i, k]
    if not left > COLLINEAR * COLLINEAR * whole:
        return False
    r[k, k] = np.sqrt(left)
    share = 0.0
    for i in range(m):
        q[i, k] /= r[k, k]
        share += q[i, k] * q[i, TARGET]
    r[k, TARGET] = share
    for i in range(m):
        q[i, TARGET] -= share * q[i, k]
    return True


# Not inlined: it is called from several kernels, and would be compiled into each again.
@called_kernel
def best_support(rows: Floats, m: int, n_functions: int, q: Floats, r: Floats, x: Floats, best: Floats) -> float:
    """The least squares left over all supports, the smallest of those that tie; its coefficients in best."""
    total, least = 0.0, np.inf
    for i in range(m):
        total += rows[i, TARGET] * rows[i, TARGET]
    for size in range(1, n_functions + 1):
        for mask in range(1, 1 << n_functions):
            if (mask & 1) + (mask >> 1 & 1) + (mask >> 2 & 1) != size:
                continue
            left = least_squares(rows, m, mask, q, r, x)
            if left < least * (1.0 - BETTER) - BETTER * BETTER * total:
                least = left
                for k in range(MOST):
                    best[k] = x[k]
    return least
