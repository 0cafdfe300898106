"""ADEPT as A. Deshmeh's thesis has it (University of Windsor 2013, chapter 3 and Appendix A), to reproduce and compare.

Per target: weights by distance to it, the envelope of what the observations allow (envelope.py), the pass through the
fixed point and the one around its best instance (adept_search.py). The thesis's runtimes come in units of tau; with the
scale free, which is ours, the envelope is derived for a ladder of scales, and every instance of the second pass takes
the scale that suits it best. Faster and never above: the exact fit (exact.py).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Floats, Ints
from pipeline.laws import LAWS
from pipeline.scaling.scaling_rules import AdeptRules
from pipeline.scaling.solvers.adept_search import AVG, HIGH_MODE, SIGMA, TAU, search_batch
from pipeline.scaling.solvers.downey_rows import A_, A_HI, A_LO, APART, OK, T1, TAIL_UNIDENTIFIED, TINF, WSSRE
from pipeline.scaling.solvers.downey_rows import SIGMA as SIGMA_
from pipeline.scaling.solvers.envelope import BOTH, HIGH, LOW
from pipeline.scaling.solvers.series import BatchFit, SeriesBatch, batch_fit, empty_out

MODES = {"downey_low": LOW, "downey_high": HIGH}


@dataclass(frozen=True, slots=True)
class Instances:
    """Per target the Downey instance found: tau (s), A, sigma, whether of the high mode; NaN where there is none."""

    tau_s: Floats
    avg_parallelism: Floats
    sigma: Floats
    is_high: npt.NDArray[np.bool_]
    status: npt.NDArray[np.int8]

    def parameters(self) -> dict[str, Floats]:
        """Those the laws read."""
        t1_s = self.tau_s * self.avg_parallelism * np.where(self.is_high, 1.0 + self.sigma, 1.0)
        return {"t1_s": t1_s, "avg_parallelism": self.avg_parallelism, "sigma": self.sigma}

    def runtime_s(self, procs: Floats) -> Floats:
        """Runtime at a processor count per target (s)."""
        curves = [LAWS[law].runtime_s(self.parameters(), procs) for law in ("downey_low", "downey_high")]
        return np.where(self.is_high, curves[1], curves[0])


def find(batch: SeriesBatch, series: Ints, targets: Floats, rules: AdeptRules, modes: int = BOTH) -> Instances:
    """The instance for each target, of one mode or the better of both."""
    out, codes = np.full((len(series), 5), np.nan), np.zeros(len(series), np.int8)
    reach = rules.reach if rules.scale == "free" else 0.0
    searched = (rules.q, rules.delta, reach, rules.scale_step, modes)
    search_batch(batch.offsets, batch.procs, batch.runtime_s, batch.weights, series, targets, *searched, out, codes)
    return Instances(out[:, TAU], out[:, AVG], out[:, SIGMA], out[:, HIGH_MODE] == 1.0, codes)


def fit_adept(law: str, batch: SeriesBatch, rules: AdeptRules) -> BatchFit:
    """One mode fitted to every series as for a target at its largest size, where every extrapolation starts.

    As fit_law, but the parameters are those of ADEPT's instance; no_instance where its search ends without
    one. Where every size lies on the slope, the range of A is that of the curves that agree on the sizes observed.
    """
    ends = np.maximum(batch.offsets[1:] - 1, 0)
    last = np.where(batch.n_points > 0, batch.procs[ends], 1.0) if batch.procs.size else np.ones(batch.n_series)
    found = find(batch, np.arange(batch.n_series), last, rules, MODES[law])
    out, _ = empty_out(batch.n_series)
    parameters = found.parameters()
    out[:, T1], out[:, A_], out[:, SIGMA_] = (parameters[name] for name in ("t1_s", "avg_parallelism", "sigma"))
    out[:, TINF] = out[:, T1] / out[:, A_]
    out[:, WSSRE] = _squares(law, parameters, batch)
    lo, hi = _open_tail(found, last)
    is_open = (found.status == OK) & (hi > lo * (1.0 + APART))
    out[is_open, A_LO], out[is_open, A_HI] = lo[is_open], hi[is_open]
    return batch_fit(out, np.where(is_open, np.int8(TAIL_UNIDENTIFIED), found.status))


def _squares(law: str, parameters: dict[str, Floats], batch: SeriesBatch) -> Floats:
    series = np.repeat(np.arange(batch.n_series), batch.n_points)
    curve_s = LAWS[law].runtime_s({name: values[series] for name, values in parameters.items()}, batch.procs.clip(1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = batch.weights * (1.0 - curve_s / batch.runtime_s) ** 2
    return np.where(np.isnan(parameters["t1_s"]), np.nan, np.bincount(series, squares, batch.n_series))


def _open_tail(found: Instances, last: Floats) -> tuple[Floats, Floats]:
    """The least and largest A of curves that agree with each instance up to the last size (exact-fit's L1 and H1)."""
    A, sigma = found.avg_parallelism, found.sigma
    plateau = A + A * sigma - sigma
    with np.errstate(divide="ignore", invalid="ignore"):
        # High mode: T = a + b/n up to N*, here in units of tau
        a, b = sigma, plateau
        high = (a + b) / (a + b / np.maximum(last, b / a)), (a + b) / a
        low = last, A / sigma
    is_open = np.where(found.is_high, plateau >= last, last <= A)
    lo, hi = (np.where(found.is_high, one, other) for one, other in zip(high, low, strict=True))
    return np.where(is_open, lo, np.nan), np.where(is_open, hi, np.nan)
