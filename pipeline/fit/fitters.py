"""Which function fits which law. A new law's fitter is a line here."""

from collections.abc import Callable

from pipeline.fit.exact import amdahl_batch, constant_batch, high_batch, low_batch
from pipeline.fit.results import BatchFit, batch_fit, empty_out
from pipeline.fit.series import SeriesBatch

Fitter = Callable[[SeriesBatch], BatchFit]


def _fitter(fill: Callable[..., None]) -> Fitter:
    def fit(batch: SeriesBatch) -> BatchFit:
        """The weighted relative least-squares optimum of every series; NaN and a status where there is none."""
        out, status = empty_out(batch.n_series)
        fill(batch.offsets, batch.procs, batch.runtime_s, batch.weights, out, status)
        return batch_fit(out, status)

    return fit


FITTERS: dict[str, Fitter] = {
    "constant": _fitter(constant_batch),
    "amdahl": _fitter(amdahl_batch),
    "downey_low": _fitter(low_batch),
    "downey_high": _fitter(high_batch),
}
