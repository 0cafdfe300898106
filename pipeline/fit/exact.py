"""Exact least relative squares of every law over a whole batch (exact-fit.md): one series and many take the same path.

The entry point fills one row of results.OUT_COLUMNS and one status code per series.
"""

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Floats, Ints
from pipeline.core.compiled import entry_kernel, kernel
from pipeline.fit.closed_forms import fit_amdahl, fit_constant
from pipeline.fit.downey_high_search import search_high
from pipeline.fit.downey_low_search import search_low
from pipeline.fit.result_rows import BAD_VALUES, OK, TOO_FEW_POINTS, WSSRE, read_high, read_low
from pipeline.fit.sums import Workspace, are_usable, longest_series, prepare, workspace

Codes = npt.NDArray[np.int8]

CONSTANT, AMDAHL, DOWNEY_LOW, DOWNEY_HIGH = range(4)
N_PARAMETERS = (1, 2, 3, 3)


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


@kernel
def _fitted(form: int, m: int, work: Workspace, scale: float, row: Floats) -> int:
    if form == CONSTANT:
        return fit_constant(m, work, scale, row)
    if form == AMDAHL:
        return fit_amdahl(m, work, scale, row)
    if form == DOWNEY_LOW:
        search_low(m, work)
        return read_low(m, work, scale, row)
    search_high(m, work)
    return read_high(m, work, scale, row)


@entry_kernel
def exact_batch(
    offsets: Ints, procs: Floats, runtime_s: Floats, weights: Floats, out: Floats, codes: Codes, form: int
) -> None:
    """The constant, Amdahl's law or one of Downey's modes, by `form`."""
    work = workspace(longest_series(offsets))
    for i in range(len(offsets) - 1):
        part = slice(offsets[i], offsets[i + 1])
        n, t, w = procs[part], runtime_s[part], weights[part]
        codes[i] = refusal(n, t, w, N_PARAMETERS[form])
        if codes[i] == OK:
            codes[i] = checked(out[i], _fitted(form, len(n), work, prepare(n, t, w, work), out[i]))
