"""Downey's law fitted the slow way, on nothing the exact fit uses: a grid of shapes, zoomed into its best cells."""

import numpy as np
from numba import njit

A_STEPS, SIGMA_STEPS, KEPT, ZOOMS, ZOOM_STEPS = 160, 25, 6, 14, 9


@njit(error_model="numpy")
def shape(n, A, sigma, is_high):
    """T(n)/tau as the papers print it."""
    if is_high:
        return sigma + (A + A * sigma - sigma) / n if n <= A + A * sigma - sigma else sigma + 1.0
    if n <= A:
        return (A - sigma / 2) / n + sigma / 2
    return sigma * (A - 0.5) / n + 1 - sigma / 2 if n <= 2 * A - 1 else 1.0


@njit(error_model="numpy")
def error(n, t, w, A, sigma, is_high):
    """Least weighted squared relative error of one shape over its scale, from residuals."""
    top, bottom = 0.0, 0.0
    for k in range(len(n)):
        c = shape(n[k], A, sigma, is_high) / t[k]
        top += w[k] * c
        bottom += w[k] * c * c
    tau, total = top / bottom, 0.0
    for k in range(len(n)):
        total += w[k] * (1.0 - tau * shape(n[k], A, sigma, is_high) / t[k]) ** 2
    return total


@njit(error_model="numpy")
def _zoomed(n, t, w, is_high, log_a, q, step_a, step_q):
    """The least error near one cell: (log A, q) with sigma = q in low mode, 1/q in high mode."""
    best, half = np.inf, ZOOM_STEPS // 2
    for _ in range(ZOOMS):
        at_a, at_q = log_a, q
        for i in range(-half, half + 1):
            for j in range(-half, half + 1):
                x = max(at_a + step_a * i / half, 0.0)
                y = min(max(at_q + step_q * j / half, 1e-9 if is_high else 0.0), 1.0)
                f = error(n, t, w, np.exp(x), 1.0 / y if is_high else y, is_high)
                if f < best:
                    best, log_a, q = f, x, y
        step_a, step_q = step_a * 0.4, step_q * 0.4
    return best


@njit(error_model="numpy")
def brute_force(n, t, w, is_high):
    """The least error found over A from 1 to well beyond the largest size, and the whole range of sigma."""
    grid = np.empty((A_STEPS, SIGMA_STEPS))
    top = np.log(40.0 * n[-1])
    step_a, step_q = top / (A_STEPS - 1), 1.0 / (SIGMA_STEPS - 1)
    for i in range(A_STEPS):
        for j in range(SIGMA_STEPS):
            q = max(j * step_q, 1e-9) if is_high else j * step_q
            grid[i, j] = error(n, t, w, np.exp(i * step_a), 1.0 / q if is_high else q, is_high)
    best = np.inf
    for _ in range(KEPT):
        at = np.argmin(grid)
        i, j = at // SIGMA_STEPS, at % SIGMA_STEPS
        best = min(best, grid[i, j], _zoomed(n, t, w, is_high, i * step_a, j * step_q, step_a, step_q))
        grid[max(i - 1, 0) : i + 2, max(j - 1, 0) : j + 2] = np.inf
    return best
