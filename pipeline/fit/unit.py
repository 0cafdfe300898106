"""Downey's laws with the scale pinned, tau = 1: the reading of Deshmeh 2013, "T(inf) = 1" (exact-fit.md, "Variants").

Only for reproducing the thesis: runtimes must come in units of tau. Logs give seconds, which fitters.FITTERS fit.
"""

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.compiled import entry_kernel, kernel
from pipeline.fit.exact import Codes, checked, low_batch, refusal
from pipeline.fit.high import offer_high
from pipeline.fit.readout import AT_BOUND, OK, WSSRE, reaches, write
from pipeline.fit.results import BatchFit, batch_fit, empty_out
from pipeline.fit.series import SeriesBatch
from pipeline.fit.sums import (
    FLAT_V,
    FLAT_Z,
    P1,
    P2,
    SW,
    XX,
    XY,
    ZX,
    F,
    N,
    Workspace,
    longest_series,
    prepare,
    solve,
    workspace,
)

FAR_PROCS = 1e9
HEAVY = 1e6


def fit_low_unit(batch: SeriesBatch) -> BatchFit:
    """Low mode with T(inf) = 1: a heavy pseudo-observation of runtime 1 far beyond every size pins the scale.

    As fitters.FITTERS; two sizes are enough. wssre is that of the sizes given, to about 1 part in 1e6.
    """
    stops = batch.offsets[1:]
    total = np.bincount(_series_of(batch), batch.weights, batch.n_series)
    pinned = SeriesBatch(
        batch.offsets + np.arange(batch.n_series + 1),
        np.insert(batch.procs, stops, FAR_PROCS),
        np.insert(batch.runtime_s, stops, 1.0),
        np.insert(batch.weights, stops, np.where(total > 0, HEAVY * total, np.nan)),
    )
    out, codes = empty_out(batch.n_series)
    low_batch(pinned.offsets, pinned.procs, pinned.runtime_s, pinned.weights, out, codes)
    return batch_fit(out, codes)


def _series_of(batch: SeriesBatch) -> Ints:
    return np.repeat(np.arange(batch.n_series), batch.n_points)


def fit_high_unit(batch: SeriesBatch) -> BatchFit:
    """High mode with tau = 1, T(inf) = sigma + 1, exactly; as fitters.FITTERS, two sizes are enough."""
    out, codes = empty_out(batch.n_series)
    high_unit_batch(batch.offsets, batch.procs, batch.runtime_s, batch.weights, out, codes)
    return batch_fit(out, codes)


@entry_kernel
def high_unit_batch(
    offsets: Ints, procs: Floats, runtime_s: Floats, weights: Floats, out: Floats, codes: Codes
) -> None:
    """High mode with tau = 1, 2 parameters: fill one row and one status code per series."""
    work = workspace(longest_series(offsets))
    for i in range(len(offsets) - 1):
        part = slice(offsets[i], offsets[i + 1])
        n, t, w = procs[part], runtime_s[part], weights[part]
        codes[i] = refusal(n, t, w, 2)
        if codes[i] == OK:
            scale = prepare(n, t, w, work)
            for j in range(len(n) + 1):
                _offer_pinned(j, len(n), 1.0 / scale, work)
            codes[i] = checked(out[i], _read_pinned(work, scale, out[i]))


@kernel
def _offer_pinned(j: int, m: int, unit: float, work: Workspace) -> None:
    """The bend between sizes j and j + 1: T = a + b/n before, a + unit after, with a >= unit and b = unit N*."""
    prefix, every = work.prefix[j], work.prefix[m, SW]
    start = work.points[j - 1, N] if j > 0 else 1.0
    stop = work.points[j, N] if j < m else np.inf
    g11, g12, g22 = work.suffix[0, FLAT_V], prefix[XX] + prefix[XY], prefix[XX]
    g1, g2 = work.suffix[0, FLAT_Z] - unit * work.suffix[j, FLAT_V], prefix[ZX]
    edge = unit * start
    offer_high(m, work, every, max(unit, (g1 - g12 * edge) / g11), edge, start)
    if j == 0:
        return
    b = (g2 - g12 * unit) / g22
    if start <= b / unit <= stop:
        offer_high(m, work, every, unit, b, b / unit)
    a, b, _, is_determined = solve(g11, g12, g22, g1, g2)
    if is_determined and a >= unit and start <= b / unit <= stop:
        offer_high(m, work, every, a, b, b / unit)


@kernel
def _read_pinned(work: Workspace, scale: float, row: Floats) -> int:
    """Fill a row from (a, b) of the pinned search; at_bound where sigma = 1 or A = 1."""
    sigma, plateau = work.best[P1] * scale, work.best[P2] * scale
    write(row, sigma + plateau, (sigma + plateau) / (sigma + 1.0), sigma)
    row[WSSRE] = work.best[F]
    return AT_BOUND if reaches(1.0, sigma) or reaches(1.0, plateau) else OK
