"""The published prediction of a job's group: the answer to a kind of runs, and the ratio to a count that never ran."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from flows.services.published.published_folder import read_columns, rows_where
from pipeline.arrays import Bools, Floats, Value, floats, integers, matching_places
from pipeline.axes import Axis
from pipeline.columns import TEMPLATE_COLUMNS
from pipeline.publish import Manifest
from pipeline.tables import GROUPS, PREDICTIONS

PROGRAMS = ("application", "job_name")
ENDS = ("runtime_s_lo80", "runtime_s", "runtime_s_hi80", "runtime_s_hi95")
"""Columns of PREDICTIONS: the quantiles of 10, 50, 90 and 97.5%."""
Q80, Q95, Q99 = 0.66, 0.54, 0.54
"""Quantiles in logs as on a normal distribution: 80% between 50 and 90, 95% between 90 and 97.5; 99% is as far beyond
97.5 as this part of the distance from 90 to it."""
GRACE_S = 300.0
"""How far beyond the request a quantile above the median may lie: so long a scheduler may take to stop a job."""


class Curve(NamedTuple):
    """PREDICTIONS of a group, in order of count."""

    label: str
    is_of_gpus: bool
    names_program: bool
    is_kind: bool
    """Whether the job tells the group's program, or all that groups are told apart by."""
    counts: Floats
    # (counts, 6) quantiles, s; NaN: open.
    quantiles_s: Floats
    has_run: Bools
    advice: list[str | None]

    def ratio(self, count: float, other: float) -> float:
        """The median at a count over that at another one; between counts medians are interpolated in logs."""
        logs = np.interp(np.log([count, other]), np.log(self.counts), np.log(self.quantiles_s[:, 1]))
        return float(np.exp(logs[0] - logs[1]))

    def nearest(self, count: float, *, that_ran: bool = False) -> int | None:
        """The place of the nearest count, of those that ran or of all."""
        places = np.flatnonzero(self.has_run) if that_ran else np.arange(len(self.counts))
        return int(places[np.argmin(np.abs(np.log(self.counts[places] / count)))]) if len(places) else None


def curves_of(manifest: Manifest) -> Callable[[Mapping[str, Value], Value], Curve | None]:
    """A function from a job, as it would stand in JOBS, and the type of its GPUs to the curve of its group.

    Values that the job does not tell may be any: of several groups it is the one with the most jobs.
    """
    held: dict[Any, Curve | None] = {}
    if not {GROUPS.name, PREDICTIONS.name} <= set(manifest.tables):
        return lambda _job, _gpu_type: None
    shown = ("group_id", "label", "axis", "n_jobs", "gpu_type", *TEMPLATE_COLUMNS)
    groups = read_columns(manifest.path(GROUPS.name), GROUPS, shown)
    filled = [name for name in TEMPLATE_COLUMNS if groups.column(name).null_count < groups.num_rows]

    def curve(job: Mapping[str, Value], gpu_type: Value) -> Curve | None:
        wanted = {name: job[name] for name in filled if job.get(name) is not None} | {"gpu_type": gpu_type}
        key = tuple(wanted.items())
        if key not in held:
            places = matching_places(groups, wanted)
            n_jobs = integers(groups.column("n_jobs"))[0][places]
            place = int(places[np.argmax(n_jobs)]) if len(places) else None
            names_program = bool(set(PROGRAMS) & set(wanted))
            is_kind = names_program or (bool(filled) and set(filled) <= set(wanted))
            of_group = None if place is None else groups.slice(place, 1).to_pylist()[0]
            held[key] = of_group and _curve(manifest, of_group, names_program, is_kind)
        return held[key]

    return curve


def _curve(manifest: Manifest, group: Mapping[str, Any], names_program: bool, is_kind: bool) -> Curve | None:
    columns = ("group_id", "procs", *ENDS, "method", "reliability", "advice")
    table = rows_where(manifest.path(PREDICTIONS.name), PREDICTIONS, "group_id", group["group_id"], columns)
    counts = integers(table.column("procs"))[0].astype(np.float64)
    order = np.argsort(counts, kind="stable")
    # A law that comes close to no run gives no ratio.
    told = [one != "broken" for one in table.column("reliability").to_pylist()]
    order = order[(floats(table, "runtime_s") > 0)[order] & np.array(told, np.bool_)[order]]
    if not len(order):
        return None
    lo80_s, q50_s, hi80_s, hi95_s = (floats(table, name)[order] for name in ENDS)
    quantiles_s = np.column_stack([
        lo80_s, q50_s, q50_s * (hi80_s / q50_s) ** Q80, hi80_s, hi80_s * (hi95_s / hi80_s) ** Q95,
        hi95_s * (hi95_s / hi80_s) ** Q99,
    ])  # fmt: skip
    methods, advice = ([table.column(name)[int(place)].as_py() for place in order] for name in ("method", "advice"))
    return Curve(
        group["label"], group["axis"] == Axis.GPUS, names_program, is_kind, counts[order],
        quantiles_s, np.array([one == "runs" for one in methods]), advice,
    )  # fmt: skip


def scaled(quantiles_s: Floats, ratio: float, requested_s: float) -> Floats:
    """(6,) quantiles at a count that never ran, from those at one that ran; the median is at most the request.

    Quantiles above it are at most GRACE_S beyond the request, or as far beyond as at the count that ran.
    """
    limit_s = requested_s if requested_s > 0 else np.inf
    most_s = np.maximum(limit_s + GRACE_S, quantiles_s)
    most_s[:2] = limit_s
    return np.minimum(quantiles_s * ratio, most_s)
