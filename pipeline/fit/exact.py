"""Exact least relative squares of every law over a whole batch (exact-fit.md): one series and many take the same path.

The entry points fill one row of results.OUT_COLUMNS and one status code per series.
"""

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Floats, Ints
from pipeline.core.compiled import entry_kernel, kernel
from pipeline.fit.closed_forms import fit_amdahl, fit_constant
from pipeline.fit.downey_high_search import search_high
from pipeline.fit.downey_low_search import search_low
from pipeline.fit.result_rows import BAD_VALUES, OK, TOO_FEW_POINTS, WSSRE, read_high, read_low
from pipeline.fit.sums import are_usable, longest_series, prepare, workspace

Codes = npt.NDArray[np.int8]


@kernel
def refusal(n: Floats, t: Floats, w: Floats, n_parameters: int) -> int:
    """The status that keeps a series from being fitted; OK where nothing does."""
    if not are_usable(n, t, w):
        return BAD_VALUES
    return TOO_FEW_POINTS if len(n) < n_parameters else OK


@kernel
def checked(row: Floats, status: int) -> int:
    """The status, or BAD_VALUES with an empty row where runtimes or weights were too extreme for arithmetic."""
    if np.isfinite(row[WSSRE]) and np.isfinite(row[0]):
        return status
    row[:] = np.nan
    return BAD_VALUES


@entry_kernel
def constant_batch(offsets: Ints, procs: Floats, runtime_s: Floats, weights: Floats, out: Floats, codes: Codes) -> None:
    """Constant runtime, 1 parameter."""
    work = workspace(longest_series(offsets))
    for i in range(len(offsets) - 1):
        part = slice(offsets[i], offsets[i + 1])
        n, t, w = procs[part], runtime_s[part], weights[part]
        codes[i] = refusal(n, t, w, 1)
        if codes[i] == OK:
            codes[i] = checked(out[i], fit_constant(len(n), work, prepare(n, t, w, work), out[i]))


@entry_kernel
def amdahl_batch(offsets: Ints, procs: Floats, runtime_s: Floats, weights: Floats, out: Floats, codes: Codes) -> None:
    """Amdahl's law, 2 parameters."""
    work = workspace(longest_series(offsets))
    for i in range(len(offsets) - 1):
        part = slice(offsets[i], offsets[i + 1])
        n, t, w = procs[part], runtime_s[part], weights[part]
        codes[i] = refusal(n, t, w, 2)
        if codes[i] == OK:
            codes[i] = checked(out[i], fit_amdahl(len(n), work, prepare(n, t, w, work), out[i]))


@entry_kernel
def low_batch(offsets: Ints, procs: Floats, runtime_s: Floats, weights: Floats, out: Floats, codes: Codes) -> None:
    """Downey's law, low variance, 3 parameters."""
    work = workspace(longest_series(offsets))
    for i in range(len(offsets) - 1):
        part = slice(offsets[i], offsets[i + 1])
        n, t, w = procs[part], runtime_s[part], weights[part]
        codes[i] = refusal(n, t, w, 3)
        if codes[i] == OK:
            scale = prepare(n, t, w, work)
            search_low(len(n), work)
            codes[i] = checked(out[i], read_low(len(n), work, scale, out[i]))


@entry_kernel
def high_batch(offsets: Ints, procs: Floats, runtime_s: Floats, weights: Floats, out: Floats, codes: Codes) -> None:
    """Downey's law, high variance, 3 parameters."""
    work = workspace(longest_series(offsets))
    for i in range(len(offsets) - 1):
        part = slice(offsets[i], offsets[i + 1])
        n, t, w = procs[part], runtime_s[part], weights[part]
        codes[i] = refusal(n, t, w, 3)
        if codes[i] == OK:
            scale = prepare(n, t, w, work)
            search_high(len(n), work)
            codes[i] = checked(out[i], read_high(len(n), work, scale, out[i]))
