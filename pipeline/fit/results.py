"""What a fitter gives back: the parameter columns of FITS, one value per series."""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Floats, Ints
from pipeline.core.status import STATUSES, FitStatus
from pipeline.laws.law import COLUMNS

PARAMETERS = ("t1_s", "tinf_s", *COLUMNS)
"""Columns of FITS that laws read."""


@dataclass(frozen=True, slots=True)
class BatchFit:
    """One law fitted to k series: float64[k] per column, NaN where the law has no such parameter or nothing was fitted.

    wssre is sum w (1 - T/t)^2 at the optimum, in the weights of the batch. avg_parallelism_lo and _hi are set only
    where the status is tail_unidentified or head_unidentified (every A between them fits equally well) or runner_up (a
    second curve, with the A of _hi, does): the parameters given are those of the lowest A, the most cautious promise.
    status holds codes: STATUSES[code] of pipeline.core.status is the FitStatus.
    """

    t1_s: Floats
    tinf_s: Floats
    avg_parallelism: Floats
    avg_parallelism_lo: Floats
    avg_parallelism_hi: Floats
    sigma: Floats
    serial_fraction: Floats
    wssre: Floats
    overhead_s: Floats
    exponent: Floats
    status: npt.NDArray[np.int8]

    @property
    def statuses(self) -> list[FitStatus]:
        """The status of every series, in words."""
        return [STATUSES[code] for code in self.status]

    @property
    def parameters(self) -> dict[str, Floats]:
        """The columns a law reads, by name."""
        return {name: getattr(self, name) for name in PARAMETERS}

    def parameters_of(self, series: Ints) -> dict[str, Floats]:
        """The same for each of the series named, repeated as asked."""
        return {name: values[series] for name, values in self.parameters.items()}


OUT_COLUMNS = tuple(field.name for field in fields(BatchFit) if field.name != "status")


def empty_out(n_series: int) -> tuple[Floats, npt.NDArray[np.int8]]:
    """What a kernel fills: float64[k, 10] of NaN, a row per series in OUT_COLUMNS' order, and int8[k] status codes."""
    return np.full((n_series, len(OUT_COLUMNS)), np.nan), np.zeros(n_series, np.int8)


def batch_fit(out: Floats, status: npt.NDArray[np.int8]) -> BatchFit:
    """The filled arrays as a BatchFit."""
    columns = dict(zip(OUT_COLUMNS, np.ascontiguousarray(out.T), strict=True))
    return BatchFit(**columns, status=status)
