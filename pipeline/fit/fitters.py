"""Which function fits which law. A new law's fitter is a line here."""

from collections.abc import Callable

from pipeline.fit.exact import amdahl_batch, constant_batch, high_batch, low_batch
from pipeline.fit.oneshape import GEOMETRIC, POWER, one_shape_batch
from pipeline.fit.overhead import LINEAR, LOGARITHMIC, amdahl_overhead_batch, downey_overhead_batch
from pipeline.fit.results import BatchFit, batch_fit, empty_out
from pipeline.fit.series import SeriesBatch

Fitter = Callable[[SeriesBatch], BatchFit]


def _fitter(fill: Callable[..., None], *kind: int) -> Fitter:
    def fit(batch: SeriesBatch) -> BatchFit:
        """The weighted relative least-squares optimum of every series; NaN and a status where there is none."""
        out, status = empty_out(batch.n_series)
        fill(batch.offsets, batch.procs, batch.runtime_s, batch.weights, out, status, *kind)
        return batch_fit(out, status)

    return fit


FITTERS: dict[str, Fitter] = {
    "constant": _fitter(constant_batch),
    "amdahl": _fitter(amdahl_batch),
    "downey_low": _fitter(low_batch),
    "downey_high": _fitter(high_batch),
    "usl": _fitter(amdahl_overhead_batch, LINEAR),
    "amdahl_log": _fitter(amdahl_overhead_batch, LOGARITHMIC),
    "downey_linear": _fitter(downey_overhead_batch, LINEAR),
    "downey_log": _fitter(downey_overhead_batch, LOGARITHMIC),
    "dowdy": _fitter(amdahl_batch),
    "smirni": _fitter(one_shape_batch, GEOMETRIC),
    "power": _fitter(one_shape_batch, POWER),
}
