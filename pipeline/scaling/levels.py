"""Series without their patterns: runtimes brought to the level of the last phase or the favoured counts, and back."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Floats, floats
from pipeline.report import Report, Tally


def powers_of_two(procs: Floats) -> Bools:
    """Whether each count is a power of two."""
    return np.asarray(np.log2(procs) % 1 == 0)


def squares(procs: Floats) -> Bools:
    """Whether each count is the square of a whole number."""
    return np.asarray(np.rint(np.sqrt(procs)) ** 2 == procs)


CLASSES: dict[str, Callable[[Floats], Bools]] = {"powers_of_two": powers_of_two, "squares": squares}
NODE_MULTIPLES = "node_multiples"


def class_names(node_procs: int | None) -> list[str]:
    """The classes looked for; multiples of a node where its size is known."""
    return [*CLASSES] + ([NODE_MULTIPLES] if node_procs else [])


def in_class(name: str, procs: Floats, node_procs: int | None) -> Bools:
    """Whether each size belongs to a class."""
    return CLASSES[name](procs) if name in CLASSES else np.asarray(procs % (node_procs or 1) == 0)


STEPWISE = "stepwise"

_RUNTIMES = ("runtime_s_median", "runtime_s_q10", "runtime_s_q90", "expected_s")
_PREDICTED = ("runtime_s", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95")


def levels(patterns: pa.Table, ids: npt.NDArray[np.object_], procs: Floats) -> Floats:
    """Factor that brings a group's runtime on so many processors to the level of its last phase or favoured counts."""
    factor = np.ones(len(procs))
    is_found = pc.and_(pc.equal(patterns.column("status"), "found"), pc.is_valid(patterns.column("factor")))
    found = patterns.filter(is_found).to_pylist()
    if not found:
        return factor
    order = np.argsort(ids, kind="stable")
    names = ids[order]
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
    factor = levels(patterns, group_ids(observations), floats(observations, "procs"))
    return _scaled(observations, _RUNTIMES, factor), _levelled(factor)


def unlevel(predictions: pa.Table, patterns: pa.Table) -> pa.Table:
    """PREDICTIONS of levelled series as runtimes of the phase, or the kind of processor count, each row belongs to.

    Parameters
    ----------
    predictions : pa.Table
        PREDICTIONS of levelled series.
    patterns : pa.Table
        PATTERNS of the observations.

    Returns
    -------
    pa.Table
        PREDICTIONS with the same rows; runtimes in s.

    Examples
    --------
    >>> table = unlevel(tables["curves"], tables["patterns"])
    >>> table.num_rows == tables["curves"].num_rows
    True
    """
    ids = group_ids(predictions)
    factor = levels(patterns, ids, floats(predictions, "procs"))
    on_one = levels(patterns, ids, np.ones(predictions.num_rows))
    table = _scaled(predictions, _PREDICTED, 1.0 / factor)
    return _scaled(table, ("speedup", "efficiency"), factor / on_one)


def group_ids(table: pa.Table) -> npt.NDArray[np.object_]:
    return np.array(table.column("group_id").to_pylist(), object)


def _scaled(table: pa.Table, names: tuple[str, ...], factor: Floats) -> pa.Table:
    if (factor != 1.0).any():
        for name in names:
            values = floats(table, name) * factor
            place = table.column_names.index(name)
            table = table.set_column(place, table.schema.field(name), pa.array(values, mask=np.isnan(values)))
    return table


def _levelled(factor: Floats) -> Report:
    whole = Tally(factor.size)
    return Report(
        "level", "observation", whole, whole, facts={"observations_levelled": int((factor != 1.0).sum())}
    ).check()
