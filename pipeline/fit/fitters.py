"""A law fitted to a batch of series, by the solver that the law declares."""


from pipeline.fit import exact, oneshape, overhead
from pipeline.fit.generic import fit_generic
from pipeline.fit.results import BatchFit, batch_fit, empty_out
from pipeline.fit.series import SeriesBatch
from pipeline.laws import LAWS
from pipeline.laws.law import Solver

_KERNELS = {
    Solver.CONSTANT: (exact.exact_batch, exact.CONSTANT),
    Solver.AMDAHL: (exact.exact_batch, exact.AMDAHL),
    Solver.DOWNEY_LOW: (exact.exact_batch, exact.DOWNEY_LOW),
    Solver.DOWNEY_HIGH: (exact.exact_batch, exact.DOWNEY_HIGH),
    Solver.AMDAHL_LINEAR: (overhead.amdahl_overhead_batch, overhead.LINEAR),
    Solver.AMDAHL_LOG: (overhead.amdahl_overhead_batch, overhead.LOGARITHMIC),
    Solver.DOWNEY_LINEAR: (overhead.downey_overhead_batch, overhead.LINEAR),
    Solver.DOWNEY_LOG: (overhead.downey_overhead_batch, overhead.LOGARITHMIC),
    Solver.GEOMETRIC: (oneshape.one_shape_batch, oneshape.GEOMETRIC),
    Solver.POWER: (oneshape.one_shape_batch, oneshape.POWER),
}


def fit_law(name: str, batch: SeriesBatch) -> BatchFit:
    """The weighted relative least-squares optimum of every series; NaN and a status where there is none."""
    law = LAWS[name]
    if law.solver is None or law.solver == Solver.GENERIC:
        return fit_generic(law, batch)
    fill, form = _KERNELS[law.solver]
    out, status = empty_out(batch.n_series)
    fill(batch.offsets, batch.procs, batch.runtime_s, batch.weights, out, status, form)
    return batch_fit(out, status)
