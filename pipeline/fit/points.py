"""Series of equal length side by side, with what the log knows of its own noise: what the screens read."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.arrays import Bools, Floats, Ints, category_codes, floats
from pipeline.fit.weights import ended_jobs, repeat_spread
from pipeline.laws.evidence import Noise, Seen

FREEDOM_WITH_REPEATS, FREEDOM_WITHOUT = 8.0, 3.0
"""What the log's noise is worth, in runs, where repeats tell it; and where nothing does but the default."""

CHUNK = 32
"""Series held at once: some 50 MB of shapes."""


@dataclass(frozen=True, slots=True)
class Points:
    """Sizes with a median, in order of group and procs; `row` is each one's row in the table given.

    log_sd is that of one run, per series: from its own repeats, else the median over the log's series with repeats,
    else the default; weights are run-variance over variance of the size's median.
    """

    ids: list[str]
    row: Ints
    offsets: Ints
    procs: Floats
    runtime_s: Floats
    weights: Floats
    log_sd: Floats
    freedom: float

    @classmethod
    def of(cls, observations: pa.Table, least_log_sd: float, default_log_sd: float) -> "Points":
        """The points of an OBSERVATIONS table."""
        known = np.flatnonzero(pc.is_valid(observations.column("runtime_s_median")).to_numpy())
        codes, ids = category_codes(observations.take(pa.array(known)), "group_id")
        order = np.lexsort((floats(observations, "procs")[known], codes))
        row = known[order]
        observed = observations.take(pa.array(row))
        offsets = np.searchsorted(codes[order], np.arange(len(ids) + 1))
        own = repeat_spread(offsets, observed)["core_log_sd"]
        has_repeats = bool(np.isfinite(own).any())
        typical = float(np.nanmedian(own)) if has_repeats else default_log_sd
        core = np.where(np.isnan(own), typical, own)
        single, n_jobs = least_log_sd**2 + core**2, ended_jobs(observed)
        sizes = np.diff(offsets)
        variance = least_log_sd**2 + np.repeat(core**2, sizes) / n_jobs
        weights = np.repeat(single, sizes) / variance
        columns = (floats(observed, "procs"), floats(observed, "runtime_s_median"), weights, np.sqrt(single))
        return cls(ids, row, offsets, *columns, FREEDOM_WITH_REPEATS if has_repeats else FREEDOM_WITHOUT)

    @property
    def n_points(self) -> Ints:
        """Sizes per series."""
        return np.diff(self.offsets)

    def noise(self, series: Ints) -> Noise:
        """Of some series."""
        return Noise(self.log_sd[series], self.freedom)

    def seen(self, places: Ints) -> Seen:
        """Series of equal length, int64[k, m] places into the columns, against the grid of shapes."""
        return Seen.of(self.procs[places], self.runtime_s[places], self.weights[places])

    def batches(self, is_in: Bools, is_kept: Bools | None = None) -> Iterator[tuple[Ints, Ints]]:
        """Chunks of the series asked for, by number of kept sizes: series int64[k], places of their sizes int64[k, m]."""
        kept = np.ones(len(self.procs), bool) if is_kept is None else is_kept
        counts = (
            np.add.reduceat(np.append(kept, False), self.offsets[:-1], dtype=np.int64) if self.ids else self.n_points
        )
        series_of = np.repeat(np.arange(len(self.ids)), self.n_points)
        for count in np.unique(counts[is_in]):
            chosen = np.flatnonzero(is_in & (counts == count))
            places = np.flatnonzero(kept & np.isin(series_of, chosen)).reshape(len(chosen), count)
            for start in range(0, len(chosen), CHUNK):
                yield chosen[start : start + CHUNK], places[start : start + CHUNK]
