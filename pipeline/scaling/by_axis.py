"""A stage computed for each axis by itself: GPUs say nothing of processors, and the machine's size is in processors."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import category_codes
from pipeline.axes import Axis, axis_of
from pipeline.report import Report, joined_report
from pipeline.schema import TableKind
from pipeline.settings import SiteSettings

Stage = Callable[[Axis, pa.Table, pa.Table], tuple[pa.Table, Report]]
"""From an axis, and the OBSERVATIONS and FITS of its groups, to a table in order of group."""


def on_each_axis(observations: pa.Table, fits: pa.Table, stage: Stage, kind: TableKind) -> tuple[pa.Table, Report]:
    """The table of a stage in order of group, and its report."""
    axes = {axis_of(value): value for value in observations.column("axis").unique().to_pylist()}
    if len(axes) <= 1:
        return stage(next(iter(axes), Axis.PROCS), observations, fits)
    done = [stage(axis, *(_of_axis(table, axis) for table in (observations, fits))) for axis in Axis if axis in axes]
    both = pa.concat_tables([table for table, _ in done]).unify_dictionaries()
    order = np.argsort(category_codes(both, "group_id")[0], kind="stable")
    return kind.check(both.take(pa.array(order))), joined_report([report for _, report in done])


def _of_axis(table: pa.Table, axis: Axis) -> pa.Table:
    known = pc.fill_null(table.column("axis").cast(pa.string()), Axis.PROCS)
    return table.filter(pc.equal(known, axis))


def axes_of_groups(observations: pa.Table, ids: Sequence[str]) -> list[Axis]:
    """The axis of each of these groups of OBSERVATIONS."""
    axes = observations.column("axis").unique().to_pylist()
    if len(axes) <= 1:
        return [axis_of(axes[0]) if axes else Axis.PROCS] * len(ids)
    columns = (observations.column(name).to_pylist() for name in ("group_id", "axis"))
    of_group = dict(zip(*columns, strict=True))
    return [axis_of(of_group[group]) for group in ids]


def of_axis(site: SiteSettings, axis: Axis) -> SiteSettings:
    """The site with the machine's size and nodes where the axis counts processors; else neither is known."""
    return site if axis is Axis.PROCS else site.model_copy(update={"max_procs": None, "procs_per_node": None})
