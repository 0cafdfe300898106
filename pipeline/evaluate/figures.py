"""One method's figures: over all scored jobs, by month, by size, and in the fortnights of lowest coverage."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.settings import BacktestSettings
from pipeline.estimate.history import History
from pipeline.estimate.score import QUANTILES, scores

DAY_S = 86_400
FORTNIGHT_S = 14 * DAY_S
WORST = {"fortnight_80": "coverage_80", "fortnight_q95": "coverage_q95"}
"""Parts of BACKTEST that are the fortnight with the lowest value of a figure."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One method's quantiles (jobs, 6) with gaps filled, s; which rows were filled; which jobs are scored."""

    quantiles_s: Floats
    is_fallback: Bools
    chosen: Bools


def rows_of(past: History, found: Scored, settings: BacktestSettings) -> Iterator[dict[str, Any]]:
    """BACKTEST's columns but log and estimator; no row where no job is scored."""
    places = np.flatnonzero(found.chosen)
    if not len(places):
        return
    yield {"part": "all"} | _figures(past, found, places)
    months = past.local_s.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
    for month, own in _split(months, places):
        yield {"part": "month", "part_value": str(np.datetime64(month, "M"))} | _figures(past, found, own)
    for size, own in _split(size_classes(past.procs), places):
        yield {"part": "size", "part_value": size_name(size)} | _figures(past, found, own)
    yield from _worst_fortnights(past, found, places, settings.fortnight_min_jobs)


def size_classes(procs: Floats) -> Ints:
    """0 for 1 processor, 1 for 2, 2 for 3-4, 3 for 5-8: k for more than 2^(k-1) and up to 2^k."""
    return np.ceil(np.log2(np.maximum(procs, 1.0))).astype(np.int64)


def size_name(size: int) -> str:
    """The class as text: 1, 2, 3-4, 5-8."""
    return str(2**size) if size < 2 else f"{2 ** (size - 1) + 1}-{2**size}"


def _split(codes: Ints, places: Ints) -> Iterator[tuple[int, Ints]]:
    """Each code among the places, in order, with the places that have it."""
    order = places[np.argsort(codes[places], kind="stable")]
    for own in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        yield int(codes[own[0]]), own


def _worst_fortnights(past: History, found: Scored, places: Ints, min_jobs: int) -> Iterator[dict[str, Any]]:
    first_s = past.local_s[places].min() // DAY_S * DAY_S
    large = [(n, own) for n, own in _split((past.local_s - first_s) // FORTNIGHT_S, places) if len(own) >= min_jobs]
    rows = [
        {"part_value": str(np.datetime64(int(first_s + n * FORTNIGHT_S), "s").astype("datetime64[D]"))}
        | _figures(past, found, own)
        for n, own in large
    ]
    for part, figure in WORST.items():
        known = [row for row in rows if row.get(figure) is not None]
        if known:
            yield {"part": part} | min(known, key=lambda row: float(row[figure]))


def _figures(past: History, found: Scored, places: Ints) -> dict[str, Any]:
    runtime_s, quantiles_s = past.runtime_s[places], found.quantiles_s[places]
    answered = ~np.isnan(quantiles_s[:, 1])
    counts = {
        "n_jobs": len(places),
        "n_fallback": int(found.is_fallback[places].sum()),
        "n_unanswered": int((~answered).sum()),
    }
    if not answered.any():
        return counts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a quantile no method gave has no mean
        known = _known(scores(runtime_s, quantiles_s, answered))
    if np.isnan(quantiles_s[:, [0, 3]]).any(axis=1).all():
        known.pop("coverage_80", None)
    return counts | known | _room(past.requested_s[places], quantiles_s[:, QUANTILES.index(0.95)])


def _known(figures: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in figures.items() if np.isfinite(value) and not name.startswith("n_")}


def _room(requested_s: Floats, q95_s: Floats) -> dict[str, float]:
    """Ratio of the median 95% quantile to the median request; a backfiller can use the rest."""
    both = (requested_s > 0) & ~np.isnan(q95_s)
    return {"q95_over_request": float(np.median(q95_s[both]) / np.median(requested_s[both]))} if both.any() else {}
