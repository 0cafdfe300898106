"""The prediction stage: OBSERVATIONS and FITS -> PREDICTIONS."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import Ints, category_codes
from pipeline.core.report import Report, Tally
from pipeline.core.settings import PredictSettings, SiteSettings
from pipeline.core.tables import PREDICTIONS
from pipeline.predict.advice import advice, doubts, reliability
from pipeline.predict.blend import blended
from pipeline.predict.curves import Curves, open_tails
from pipeline.predict.grid import prediction_grid
from pipeline.predict.intervals import intervals, within_log


def predict(
    observations: pa.Table,
    fits: pa.Table,
    settings: PredictSettings,
    site: SiteSettings,
    run_id: str,
    at: Sequence[int] | None = None,
) -> tuple[pa.Table, Report]:
    """PREDICTIONS of every group with a chosen law, in order of group and procs; on the counts `at` where given.

    The machine's size bounds the grid: the site's max_procs where known, else the largest size observed anywhere.
    """
    chosen = Curves.of(fits.filter(fits.column("is_chosen")))
    sizes = _sizes_by_group(observations)
    max_procs = site.max_procs or max((int(grid[-1]) for grid in sizes.values()), default=1)
    rows, procs = prediction_grid(chosen, sizes, settings.reach, max_procs, at)
    curves, bends = chosen.take(rows), open_tails(Curves.of(fits), chosen.group_id).take(rows)
    blend = blended(curves, procs, observations, settings)
    beyond = procs > curves["procs_max"]
    bend_s = np.where(beyond, bends.runtime_s(procs), np.nan)
    ends = intervals(curves, blend.runtime_s, bend_s, blend.log_sd, settings)
    held = doubts(curves, procs, ~np.isnan(bends["t1_s"]), settings) | {"off_law": blend.is_missed}
    speedup = curves.runtime_s(np.ones(len(rows))) / curves.runtime_s(procs)
    speedup = np.where(held["one_size"], np.nan, speedup)
    table = PREDICTIONS.build(
        group_id=curves.group_id,
        procs=procs.astype(np.int64),
        runtime_s=blend.runtime_s,
        **within_log(ends, blend.runtime_s, observations),
        speedup=speedup,
        efficiency=speedup / procs,
        is_extrapolated=beyond | (procs < curves["procs_min"]),
        reliability=reliability(held),
        advice=advice(curves, held, site.max_procs),
        method=np.where(blend.is_observed, curves.law + "+observed", curves.law),
        run_id=[run_id] * len(rows),
    )
    return table, _report(sizes, table)


def _sizes_by_group(observations: pa.Table) -> dict[str, Ints]:
    codes, ids = category_codes(observations, "group_id")
    procs = observations.column("procs").to_numpy()
    order = np.lexsort((procs, codes))
    cuts = np.searchsorted(codes[order], np.arange(1, len(ids)))
    return dict(zip(ids, np.split(procs[order], cuts), strict=True)) if ids else {}


def _report(sizes: dict[str, Ints], table: pa.Table) -> Report:
    answered = len(table.column("group_id").unique())
    extrapolated = int(np.sum(table.column("is_extrapolated").to_numpy()))
    set_aside = {"no_prediction": Tally(len(sizes) - answered)} if answered < len(sizes) else {}
    facts = {"predictions": table.num_rows, "predictions_extrapolated": extrapolated}
    return Report("predict", "group", Tally(len(sizes)), Tally(answered), set_aside, facts).check()
