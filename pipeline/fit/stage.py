"""The fitting stage: OBSERVATIONS -> FITS, one row per group and law, failed fits too."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.arrays import Array, Bools, Floats, Ints, category_codes, floats
from pipeline.core.report import Fact, Report, Tally
from pipeline.core.settings import FitSettings
from pipeline.core.status import STATUSES, FitStatus
from pipeline.core.tables import FITS
from pipeline.fit.law_choice import choose, leave_one_out
from pipeline.fit.loss import fit_batch
from pipeline.fit.results import OUT_COLUMNS, BatchFit
from pipeline.fit.series import SeriesBatch
from pipeline.fit.weights import ended_jobs, precision_weights, repeat_spread


def fit(observations: pa.Table, settings: FitSettings) -> tuple[pa.Table, Report]:
    """FITS in order of group and of the laws in settings; the Report counts groups by the status of their chosen law.

    Sizes are weighted by precision (weights.py), times fit_weight where OBSERVATIONS calls one odd (anomalies.py):
    at 0 it is left out, and counted as a fact. The choice is by leave-one-out (law_choice.py). A size without a median
    is no point of its series: most of its jobs are lower bounds. A series without any is too_few_points.

    Parameters
    ----------
    observations : pa.Table
        OBSERVATIONS: median runtimes in s by group and processors.
    settings : FitSettings
        Laws to fit, and settings of the choice.

    Returns
    -------
    table : pa.Table
        FITS: a row per group and law, with one chosen law per group.
    report : Report
        Groups by the status of their chosen law.

    Examples
    --------
    >>> table, _ = fit(tables["levelled"], settings.fit)
    >>> table.equals(tables["fits"])
    True
    """
    codes, ids, observed = _sorted_series(observations.filter(_is_point(observations)))
    offsets = np.flatnonzero(np.diff(codes, prepend=-1, append=len(ids)))
    spread, n_ended = repeat_spread(offsets, observed), ended_jobs(observed)
    weights = precision_weights(offsets, n_ended, spread["core_log_sd"], settings.noise_floor)
    weights = weights * np.nan_to_num(floats(observed, "fit_weight"), nan=1.0)
    batch = SeriesBatch(offsets, floats(observed, "procs"), floats(observed, "runtime_s_median"), weights)
    fits: dict[str, BatchFit] = {name: fit_batch(name, batch, settings.loss, settings.search) for name in settings.laws}
    loo: dict[str, Floats] = {
        name: leave_one_out(name, batch, settings.loss, settings.search) for name in settings.laws
    }
    chosen = choose(fits, loo, batch, n_ended, spread["core_log_sd"], settings)
    table = _table(ids, fits, loo, chosen, _series_facts(batch, observed) | spread)
    without = _without_medians(observations, settings.laws)
    return _in_order(table, without), _report(
        len(ids) + without.num_rows // len(settings.laws), fits, chosen, _sizes_left_out(observations)
    )


def _is_point(observations: pa.Table) -> pa.ChunkedArray:
    is_kept = pc.fill_null(pc.not_equal(observations.column("fit_weight"), 0.0), True)
    return pc.and_(pc.is_valid(observations.column("runtime_s_median")), is_kept)


def _without_medians(observations: pa.Table, laws: Sequence[str]) -> pa.Table:
    """FITS of the groups of which no size has a median: nothing to fit."""
    codes, ids = category_codes(observations, "group_id")
    has_median = np.bincount(codes, np.isfinite(floats(observations, "runtime_s_median")), len(ids)) > 0
    n_jobs = np.bincount(codes, floats(observations, "n_jobs"), len(ids)).astype(np.int64)
    names = np.array(ids, object)[~has_median]
    n_rows = len(names) * len(laws)
    return FITS.build(
        group_id=np.repeat(names, len(laws)),
        law=np.tile(np.array(laws, object), len(names)),
        n_points=np.zeros(n_rows, np.int64),
        n_jobs=np.repeat(n_jobs[~has_median], len(laws)),
        status=[str(FitStatus.TOO_FEW_POINTS)] * n_rows,
        is_chosen=np.zeros(n_rows, bool),
    )


def _in_order(fitted: pa.Table, others: pa.Table) -> pa.Table:
    """Both in order of group; a group's laws stay as they are."""
    if not others.num_rows:
        return fitted
    both = pa.concat_tables([fitted, others])
    return FITS.check(both.take(pa.array(np.argsort(category_codes(both, "group_id")[0], kind="stable"))))


def _sorted_series(observations: pa.Table) -> tuple[Ints, list[str], pa.Table]:
    codes, ids = category_codes(observations, "group_id")
    order = np.lexsort((observations.column("procs").to_numpy(), codes))
    return codes[order], ids, observations.take(pa.array(order))


def _series_facts(batch: SeriesBatch, observed: pa.Table) -> dict[str, Array]:
    first, last = batch.offsets[:-1], batch.offsets[1:] - 1
    jobs = floats(observed, "n_jobs")
    return {
        "n_points": batch.n_points,
        "n_jobs": np.add.reduceat(jobs, first) if len(first) else jobs,
        "procs_min": batch.procs[first],
        "procs_max": batch.procs[last],
    }


def _table(
    ids: list[str],
    fits: Mapping[str, BatchFit],
    loo: Mapping[str, Floats],
    chosen: Mapping[str, Bools],
    facts: Mapping[str, Array],
) -> pa.Table:
    n_laws = len(fits)

    def interleaved(by_law: Iterable[Array]) -> Array:
        return np.column_stack(list(by_law)).ravel()

    columns = {name: interleaved([getattr(one, name) for one in fits.values()]) for name in OUT_COLUMNS}
    words = np.array([str(status) for status in STATUSES], object)
    counts = {name: np.repeat(values, n_laws) for name, values in facts.items()}
    whole = {name: counts[name].astype(np.int64) for name in ("n_points", "n_jobs", "procs_min", "procs_max")}
    return FITS.build(
        **columns,
        **(counts | whole),
        group_id=np.repeat(np.array(ids, object), n_laws),
        law=np.tile(np.array(list(fits), object), len(ids)),
        loo_log_rmse=interleaved([loo[name] for name in fits]),
        status=words[interleaved([one.status for one in fits.values()])],
        is_chosen=interleaved([chosen[name] for name in fits]),
    )


def _sizes_left_out(observations: pa.Table) -> dict[str, Fact]:
    weight = floats(observations, "fit_weight")
    counts = {"sizes_left_out": int((weight == 0).sum()), "sizes_weighed_down": int((weight > 0).sum())}
    return {name: count for name, count in counts.items() if count}


def _report(
    n_groups: int, fits: Mapping[str, BatchFit], chosen: Mapping[str, Bools], left_out: Mapping[str, Fact]
) -> Report:
    facts: dict[str, Fact] = dict(left_out)
    for name, one in fits.items():
        for code, status in enumerate(STATUSES):
            count = int((chosen[name] & (one.status == code)).sum())
            facts |= {f"chosen_{name}_{status}": count} if count else {}
    answered = int(sum(mask.sum() for mask in chosen.values()))
    set_aside = {"no_usable_fit": Tally(n_groups - answered)} if answered < n_groups else {}
    return Report("fit", "group", Tally(n_groups), Tally(answered), set_aside, facts).check()
