"""Recommends processor counts per group: OBSERVATIONS and FITS -> SCALABILITY."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import Floats
from pipeline.core.report import Report, Tally
from pipeline.core.settings import PredictSettings
from pipeline.core.tables import SCALABILITY
from pipeline.predict.advice import judged
from pipeline.predict.cases import case_of
from pipeline.predict.curves import Curves
from pipeline.predict.observed_series import ObservedSeries
from pipeline.predict.recommended_procs import recommended_procs

_COARSE = np.unique(np.geomspace(1, 2**20, 1200).astype(np.int64)).astype(np.float64)
"""Processor counts of the first, coarse search for the working set, 1.2% apart."""


def scalability(
    observations: pa.Table,
    fits: pa.Table,
    settings: PredictSettings,
    run_id: str,
    max_procs: int | None = None,
    application: Mapping[str, str] | None = None,
    procs_per_node: int | None = None,
    patterns: pa.Table | None = None,
) -> tuple[pa.Table, Report]:
    """SCALABILITY: a row per group whose chosen law gains from processors, in order of group.

    Largest useful allocation: 2A - 1 (low variance) or A + A sigma - sigma (high), null where the law never stops
    gaining. Processor working set: the whole n that maximises S(n)^2/n (Ghosal, Serazzi & Tripathi 1991), null where
    it lies beyond 2^20. Both are the chosen law's; counts by efficiency and time are the model average's
    (recommended_procs.py). Advised runs keep to the counts that PATTERNS favours, if it is given.

    Parameters
    ----------
    observations : pa.Table
        OBSERVATIONS.
    fits : pa.Table
        FITS of these observations.
    settings : PredictSettings
        Settings of the predictions.
    run_id : str
        Id of the run, written to every row.
    max_procs : int, optional
        Processors of the machine.
    application : mapping of str to str, optional
        Application of a group_id.
    procs_per_node : int, optional
        Processors of a node.
    patterns : pa.Table, optional
        PATTERNS of the observations.

    Returns
    -------
    table : pa.Table
        SCALABILITY; processor counts, t1_s in s.
    report : Report
        Groups with and without a law that gains from processors.

    Examples
    --------
    >>> table, _ = scalability(tables["levelled"], tables["fits"], settings.predict, "r1")
    >>> "constant" in table.column("law").to_pylist()
    False
    """
    every = Curves.of(fits)
    chosen = every.take(fits.column("is_chosen").to_numpy())
    rows = np.flatnonzero(chosen.law != "constant")
    scaling = chosen.take(rows)
    observed = ObservedSeries.of(chosen, observations, application or {}, settings)
    largest, working = scaling.largest_useful_procs(), working_set_procs(scaling)
    speedup = scaling.runtime_s(np.ones(len(scaling))) / scaling.runtime_s(np.fmax(working, 1.0))
    speedup = np.where(np.isnan(working), np.nan, speedup)
    beyond = np.fmax(np.where(np.isfinite(largest), largest, 2 * scaling["procs_max"]), 1.0)
    case = case_of(every, chosen, observed, rows, beyond, observations, settings, max_procs, procs_per_node, patterns)
    reliability, advice = judged(case)
    table = SCALABILITY.build(
        group_id=scaling.group_id,
        law=scaling.law,
        t1_s=scaling["t1_s"],
        avg_parallelism=scaling["avg_parallelism"],
        sigma=scaling["sigma"],
        largest_useful_procs=np.where(np.isfinite(largest), largest, np.nan),
        working_set_procs=working,
        working_set_speedup=speedup,
        working_set_efficiency=speedup / working,
        **recommended_procs(observed, rows, scaling, settings.reach, max_procs),
        reliability=reliability,
        advice=advice,
        run_id=[run_id] * len(scaling),
    )
    groups, kept = Tally(len(chosen)), Tally(len(scaling))
    set_aside = {"constant": Tally(groups.rows - kept.rows)} if groups.rows > kept.rows else {}
    return table, Report("scalability", "group", groups, kept, set_aside).check()


def working_set_procs(curves: Curves) -> Floats:
    """The whole processor count that maximises S^2/n per row, the smallest where several do; NaN beyond 2^20.

    S^2/n rises to one maximum and falls after it, so a coarse search brackets it and the bracket is searched whole.
    """
    return np.array([_best_whole_count(curves.take(np.array([row]))) for row in range(len(curves))], np.float64)


def _best_whole_count(curve: Curves) -> float:
    place = int(_merit(curve, _COARSE).argmax())
    if place == len(_COARSE) - 1:
        return np.nan
    fine = np.arange(_COARSE[max(place - 1, 0)], _COARSE[place + 1] + 1)
    return float(fine[_merit(curve, fine).argmax()])


def _merit(curve: Curves, procs: Floats) -> Floats:
    """S^2/n up to a constant factor: 1/(n T(n)^2)."""
    merit: Floats = 1.0 / (procs * curve.take(np.zeros(len(procs), np.int64)).runtime_s(procs) ** 2)
    return merit
