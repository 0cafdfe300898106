"""A law fitted to a batch of series, by the solver that the law declares."""

from typing import Any

from pipeline.fit import exact, one_shape_search, overhead
from pipeline.fit.generic import fit_generic
from pipeline.fit.results import BatchFit, batch_fit, empty_out
from pipeline.fit.series import SeriesBatch
from pipeline.laws import LAWS
from pipeline.laws.law import Solver

_KERNELS: dict[Solver, tuple[Any, ...]] = {
    Solver.CONSTANT: (exact.constant_batch,),
    Solver.AMDAHL: (exact.amdahl_batch,),
    Solver.DOWNEY_LOW: (exact.low_batch,),
    Solver.DOWNEY_HIGH: (exact.high_batch,),
    Solver.AMDAHL_LINEAR: (overhead.amdahl_overhead_batch, overhead.LINEAR),
    Solver.AMDAHL_LOG: (overhead.amdahl_overhead_batch, overhead.LOGARITHMIC),
    Solver.DOWNEY_LINEAR: (overhead.downey_overhead_batch, overhead.LINEAR),
    Solver.DOWNEY_LOG: (overhead.downey_overhead_batch, overhead.LOGARITHMIC),
    Solver.GEOMETRIC: (one_shape_search.one_shape_batch, one_shape_search.GEOMETRIC),
    Solver.POWER: (one_shape_search.one_shape_batch, one_shape_search.POWER),
}


def fit_law(name: str, batch: SeriesBatch) -> BatchFit:
    """The weighted relative least-squares optimum of every series; NaN and a status where there is none."""
    law = LAWS[name]
    if law.solver is None or law.solver == Solver.GENERIC:
        return fit_generic(law, batch)
    fill, *form = _KERNELS[law.solver]
    out, status = empty_out(batch.n_series)
    fill(batch.offsets, batch.procs, batch.runtime_s, batch.weights, out, status, *form)
    return batch_fit(out, status)
