"""The series of a table with what the log knows of its own noise: what the screens read."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.arrays import Bools, Floats, Ints, category_codes, floats
from pipeline.fit.weights import ended_jobs, repeat_spread
from pipeline.laws.evidence import Evidence

FREEDOM_WITH_REPEATS, FREEDOM_WITHOUT = 8.0, 3.0
"""What the log's noise is worth, in runs, where repeats show it; and where there is only the default."""


@dataclass(frozen=True, slots=True)
class Points:
    """Sizes with a median, in order of group and procs: `row` is each one's row in the table, `ids` name the series."""

    ids: list[str]
    row: Ints
    series: Evidence

    @classmethod
    def of(cls, observations: pa.Table, least_log_sd: float, default_log_sd: float) -> "Points":
        """The points of an OBSERVATIONS table.

        The noise of one run is that of the series' own repeats, else the median over the log's series with repeats,
        else the default.
        """
        known = np.flatnonzero(floats(observations, "runtime_s_median") > 0)
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
        weights = np.repeat(single, sizes) / (least_log_sd**2 + np.repeat(core**2, sizes) / n_jobs)
        columns = (floats(observed, "procs"), floats(observed, "runtime_s_median"), weights, np.sqrt(single))
        freedom = FREEDOM_WITH_REPEATS if has_repeats else FREEDOM_WITHOUT
        return cls(ids, row, Evidence(offsets, *columns, freedom))

    @property
    def group_ids(self) -> npt.NDArray[np.object_]:
        """The group of each point."""
        return np.repeat(np.array(self.ids, object), self.series.n_points)

    def over(self, factor: Floats) -> "Points":
        """The same with each point's runtime divided by a factor."""
        return dataclasses.replace(
            self, series=dataclasses.replace(self.series, runtime_s=self.series.runtime_s / factor)
        )

    def by_length(self, is_in: Bools) -> Iterator[Ints]:
        """Places of the sizes of the series asked for, int64[k, m], series of equal length together."""
        counts = self.series.n_points
        for count in np.unique(counts[is_in]):
            yield self.series.offsets[:-1][is_in & (counts == count)][:, None] + np.arange(count)
