"""The prediction stage: OBSERVATIONS and FITS -> PREDICTIONS, by the model average over laws."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.arrays import Floats, Ints, category_codes
from pipeline.core.report import Report, Tally
from pipeline.core.settings import PredictSettings, SiteSettings
from pipeline.core.tables import PREDICTIONS
from pipeline.predict.advice import judged
from pipeline.predict.cases import case_of
from pipeline.predict.curves import Curves
from pipeline.predict.intervals import intervals, within_log, without_bound
from pipeline.predict.observed_series import ObservedSeries
from pipeline.predict.prediction_counts import prediction_grid


def predict(
    observations: pa.Table,
    fits: pa.Table,
    settings: PredictSettings,
    site: SiteSettings,
    run_id: str,
    at: Sequence[int] | None = None,
    application: Mapping[str, str] | None = None,
    patterns: pa.Table | None = None,
) -> tuple[pa.Table, Report]:
    """PREDICTIONS of every group with a chosen law, in order of group and procs; on the counts `at` where given.

    Runtimes are posterior medians of the model average (see average.py), not the chosen law's. Groups that
    `application` gives one name inform each other. The machine's size bounds the grid: the site's max_procs where
    known, else the largest size observed anywhere. Runs advised keep to counts that PATTERNS, where given, favours.

    Parameters
    ----------
    observations : pa.Table
        OBSERVATIONS: median runtimes in s by group and processors.
    fits : pa.Table
        FITS of these observations.
    settings : PredictSettings
        Settings of the predictions.
    site : SiteSettings
        The machine's size and processors per node.
    run_id : str
        Id of the run, written to every row.
    at : sequence of int, optional
        Processor counts to predict; by default a grid.
    application : mapping of str to str, optional
        Application of a group_id.
    patterns : pa.Table, optional
        PATTERNS of the observations.

    Returns
    -------
    table : pa.Table
        PREDICTIONS; runtimes and interval ends in s.
    report : Report
        Groups with and without predictions.

    Examples
    --------
    >>> table, _ = predict(tables["levelled"], tables["fits"], settings.predict, settings.site, "r1", at=[64])
    >>> set(table.column("procs").to_pylist())
    {64}
    """
    every = Curves.of(fits)
    chosen = every.take(fits.column("is_chosen").to_numpy())
    sizes = _sizes_by_group(observations)
    max_procs = site.max_procs or max((int(grid[-1]) for grid in sizes.values()), default=1)
    rows, procs = prediction_grid(chosen, sizes, settings.reach, max_procs, at)
    observed = ObservedSeries.of(chosen, observations, application or {}, settings)
    curves, curve = chosen.take(rows), observed.curve(rows, procs)
    runtime_s = np.exp(curve.log_s[:, 2])
    machine = site.max_procs, site.procs_per_node
    case = case_of(every, chosen, observed, rows, procs, observations, settings, *machine, patterns)
    reliability, advice = judged(case)
    ends = intervals(curves, curve, observed.run_sd[rows], settings)
    ends = within_log(ends, runtime_s, curves, procs, observations)
    reliability, advice = without_bound(ends, reliability, advice)
    speedup = _speedup(observed, rows, runtime_s, curves["n_points"] == 1)
    table = PREDICTIONS.build(
        group_id=curves.group_id,
        procs=procs.astype(np.int64),
        runtime_s=runtime_s,
        **ends,
        speedup=speedup,
        efficiency=speedup / procs,
        is_extrapolated=(procs > curves["procs_max"]) | (procs < curves["procs_min"]),
        reliability=reliability,
        advice=advice,
        method=_methods(observed, chosen)[rows],
        run_id=[run_id] * len(rows),
    )
    return table, _report(sizes, table, observed)


def groups_by_application(groups: pa.Table) -> dict[str, str]:
    """Group id to the application its template names, for groups that have one; never across sites.

    Parameters
    ----------
    groups : pa.Table
        GROUPS.

    Returns
    -------
    dict of str to str
        Site and application of each group_id whose application is known.

    Examples
    --------
    >>> set(groups_by_application(tables["groups"])) <= set(tables["groups"].column("group_id").to_pylist())
    True
    """
    columns = [groups.column(name).to_pylist() for name in ("group_id", "site", "application")]
    return {group: f"{site}\n{name}" for group, site, name in zip(*columns, strict=True) if name is not None}


def _speedup(observed: ObservedSeries, rows: Ints, runtime_s: Floats, is_alone: npt.NDArray[np.bool_]) -> Floats:
    """T(1)/T(n) of the average; unknown for a group of one size."""
    wanted = np.flatnonzero(~is_alone)
    groups, places = np.unique(rows[wanted], return_inverse=True)
    on_one_s = np.exp(observed.curve(groups, np.ones(len(groups))).log_s[:, 2])
    speedup = np.full(len(rows), np.nan)
    speedup[wanted] = on_one_s[places] / runtime_s[wanted]
    return speedup


def _methods(observed: ObservedSeries, chosen: Curves) -> npt.NDArray[np.object_]:
    cases = [chosen["n_points"] == 1, observed.kin.n_siblings() > 0]
    return np.select(cases, ["observed", "average+siblings"], "average").astype(object)


def _sizes_by_group(observations: pa.Table) -> dict[str, Ints]:
    codes, ids = category_codes(observations, "group_id")
    procs = observations.column("procs").to_numpy()
    order = np.lexsort((procs, codes))
    cuts = np.searchsorted(codes[order], np.arange(1, len(ids)))
    return dict(zip(ids, np.split(procs[order], cuts), strict=True)) if ids else {}


def _report(sizes: dict[str, Ints], table: pa.Table, observed: ObservedSeries) -> Report:
    answered = len(table.column("group_id").unique())
    extrapolated = int(np.sum(table.column("is_extrapolated").to_numpy()))
    set_aside = {"no_prediction": Tally(len(sizes) - answered)} if answered < len(sizes) else {}
    facts = {
        "predictions": table.num_rows,
        "predictions_extrapolated": extrapolated,
        "drift_log_sd": observed.calibration.drift_log_sd,
        "stretch_80": observed.calibration.stretch[0],
        "stretch_95": observed.calibration.stretch[1],
    }
    return Report("predict", "group", Tally(len(sizes)), Tally(answered), set_aside, facts).check()
