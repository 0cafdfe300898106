"""A pattern is taken out of a series before the laws are fitted, and put back into what they predict.

Runtimes of every phase are brought to the level of the last one, those of unfavoured processor counts to that of the
favoured ones: one smooth curve is left, from which the target's phase is predicted (Deshmeh 2013: an instance a phase).
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Floats, floats
from pipeline.report import Report, Tally
from pipeline.scaling.proc_classes import in_class

STEPWISE = "stepwise"

_RUNTIMES = ("runtime_s_median", "runtime_s_q10", "runtime_s_q90", "expected_s")
_PREDICTED = ("runtime_s", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95")


def levels(patterns: pa.Table, group_ids: npt.NDArray[np.object_], procs: Floats) -> Floats:
    """Factor that brings a group's runtime on so many processors to the level of its last phase or favoured counts."""
    factor = np.ones(len(procs))
    is_found = pc.and_(pc.equal(patterns.column("status"), "found"), pc.is_valid(patterns.column("factor")))
    found = patterns.filter(is_found).to_pylist()
    if not found:
        return factor
    order = np.argsort(group_ids, kind="stable")
    names = group_ids[order]
    for row in found:
        first, last = (np.searchsorted(names, row["group_id"], side) for side in ("left", "right"))
        own = order[first:last]
        if row["pattern"] == STEPWISE:
            factor[own] *= np.where(procs[own] < row["from_procs"], row["factor"], 1.0)
        else:
            factor[own] /= np.where(in_class(row["pattern"], procs[own], row["node_procs"]), 1.0, row["factor"])
    return factor


def level(observations: pa.Table, patterns: pa.Table) -> tuple[pa.Table, Report]:
    """OBSERVATIONS with runtimes at the level of each group's last phase or favoured counts: what is fitted.

    Parameters
    ----------
    observations : pa.Table
        OBSERVATIONS.
    patterns : pa.Table
        PATTERNS of these observations.

    Returns
    -------
    table : pa.Table
        OBSERVATIONS with the same rows; runtimes in s.
    report : Report
        Number of sizes.

    Examples
    --------
    >>> table, _ = level(tables["observations"], tables["patterns"])
    >>> table.num_rows == tables["observations"].num_rows
    True
    """
    factor = levels(patterns, _ids(observations), floats(observations, "procs"))
    return _scaled(observations, _RUNTIMES, factor), _report("level", "observation", factor)


def unlevel(predictions: pa.Table, patterns: pa.Table) -> tuple[pa.Table, Report]:
    """PREDICTIONS of levelled series as runtimes of the phase, or the kind of processor count, each row belongs to.

    Parameters
    ----------
    predictions : pa.Table
        PREDICTIONS of levelled series.
    patterns : pa.Table
        PATTERNS of the observations.

    Returns
    -------
    table : pa.Table
        PREDICTIONS with the same rows; runtimes in s.
    report : Report
        Number of predictions.

    Examples
    --------
    >>> table, _ = unlevel(tables["predicted"], tables["patterns"])
    >>> table.equals(tables["unlevelled"])
    True
    """
    ids = _ids(predictions)
    factor = levels(patterns, ids, floats(predictions, "procs"))
    on_one = levels(patterns, ids, np.ones(predictions.num_rows))
    table = _scaled(predictions, _PREDICTED, 1.0 / factor)
    table = _scaled(table, ("speedup", "efficiency"), factor / on_one)
    return table, _report("unlevel", "prediction", factor)


def _ids(table: pa.Table) -> npt.NDArray[np.object_]:
    return np.array(table.column("group_id").to_pylist(), object)


def _scaled(table: pa.Table, names: tuple[str, ...], factor: Floats) -> pa.Table:
    if (factor != 1.0).any():
        for name in names:
            values = floats(table, name) * factor
            place = table.column_names.index(name)
            table = table.set_column(place, table.schema.field(name), pa.array(values, mask=np.isnan(values)))
    return table


def _report(stage: str, unit: str, factor: Floats) -> Report:
    whole = Tally(len(factor))
    return Report(stage, unit, whole, whole, facts={f"{unit}s_levelled": int((factor != 1.0).sum())}).check()
