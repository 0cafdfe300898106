"""How runtimes grow with the count, by the curves that Walltime fits to a log's own earlier jobs."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from flows.services.moldable.moldable_log import MoldableLog
from flows.services.moldable.true_curves import World
from pipeline.core.arrays import Bools, Floats, Ints, category_codes, floats
from pipeline.core.tables import OBSERVATIONS
from pipeline.fit import find_patterns, fit, level, screen, unlevel
from pipeline.group.observations import aggregate
from pipeline.predict import predict

Quantile = Literal["median", "hi80", "hi95"]
COLUMN: dict[Quantile, str] = {"median": "runtime_s", "hi80": "runtime_s_hi80", "hi95": "runtime_s_hi95"}
"""The column of PREDICTIONS that a choice is made by: the median, or the upper end of an interval."""


@dataclass(frozen=True, slots=True)
class FittedRuntimes:
    """Predicted runtimes by group and count, s; NaN where there is no prediction."""

    runtime_s: dict[Quantile, Floats]
    """(groups, counts)"""
    counts: Ints

    def growth(self, group: Ints, procs: Ints, preferred: Ints, quantile: Quantile) -> Floats:
        """The runtime's quantile at counts over that at the preferred counts; NaN where either is unknown."""
        table = self.runtime_s[quantile]
        at, base = (np.searchsorted(self.counts, n) for n in (procs, preferred))
        ratio: Floats = table[group, at] / table[group, base]
        return np.where((group >= 0) & np.isfinite(ratio), ratio, np.nan)


def fitted_runtimes(log: MoldableLog, world: World, past: Bools, counts: Ints) -> FittedRuntimes:
    """Runtimes at `counts` (ascending), from curves fitted to the jobs `past` through the stages of a run."""
    settings = log.settings
    codes, work = log.group[past], world.work
    start_s = work.submit_s[past].astype(np.float64)
    columns = aggregate(
        codes, work.procs[past], work.run_s[past].astype(np.float64), start_s, start_s + work.run_s[past],
        log.is_bound[past],
    )  # fmt: skip
    observed = OBSERVATIONS.build(group_id=[log.group_ids[code] for code in columns.pop("group_code")], **columns)
    patterns, _ = find_patterns(observed, settings.pattern, settings.anomaly.noise)
    screened, _ = screen(observed, patterns, settings.anomaly)
    levelled, _ = level(screened, patterns)
    fits, _ = fit(levelled, settings.fit)
    at = [int(n) for n in counts]
    predicted, _ = predict(levelled, fits, settings.predict, settings.site, "moldable", at, patterns=patterns)
    table, _ = unlevel(predicted, patterns)
    place = {name: code for code, name in enumerate(log.group_ids)}
    own, ids = category_codes(table, "group_id")
    rows = np.array([place[name] for name in ids], np.int64)[own] if len(ids) else own
    columns_at = np.searchsorted(counts, floats(table, "procs").astype(np.int64))
    found: dict[Quantile, Floats] = {}
    for quantile, name in COLUMN.items():
        values = np.full((len(log.group_ids) + 1, len(counts)), np.nan)
        values[rows, columns_at] = floats(table, name)
        found[quantile] = values
    return FittedRuntimes(found, counts)
