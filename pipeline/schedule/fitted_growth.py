"""How runtimes grow with the count, by the curves that Walltime fits to a log's own earlier jobs."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from pipeline.arrays import Bools, Floats, Ints, category_codes, floats
from pipeline.group.observations import aggregate
from pipeline.scaling.predictions import predict
from pipeline.scaling.scaling_rules import ANOMALY_RULES, PATTERN_RULES, fit_rules, predict_rules
from pipeline.scaling.screens.anomalies import screen
from pipeline.scaling.screens.patterns import find_patterns, level, unlevel
from pipeline.scaling.stage import fit
from pipeline.schedule.true_curves import MoldableLog, World
from pipeline.tables import OBSERVATIONS

Quantile = Literal["median", "hi80", "hi95"]
COLUMN: dict[Quantile, str] = {"median": "runtime_s", "hi80": "runtime_s_hi80", "hi95": "runtime_s_hi95"}
"""The column of PREDICTIONS that a choice is made by: the median, or the upper end of an interval."""


LEVEL: dict[Quantile, float] = {"median": 0.5, "hi80": 0.9, "hi95": 0.975}
"""The quantile that each column is, and so the one over groups."""
LEAST_SIZES, LEAST_GROUPS = 3, 5
"""Groups of at least so many sizes are typical of the log, if there are so many of them."""


@dataclass(frozen=True, slots=True)
class FittedRuntimes:
    """Predicted runtimes by group and count, s; NaN where there is no prediction."""

    runtime_s: dict[Quantile, Floats]
    """(groups, counts)"""
    counts: Ints
    seen: Ints
    """(pairs, 2): the groups and sizes that ran, of groups of at least LEAST_SIZES sizes."""

    def growth(self, group: Ints, procs: Ints, preferred: Ints, quantile: Quantile) -> Floats:
        """The runtime's quantile at counts over that at the preferred counts; of a group without a fitted curve the
        same quantile over the log's groups; NaN where neither is known."""
        own = self._own(group, procs, preferred, quantile)
        return np.where(np.isfinite(own), own, self._typical(procs, preferred, quantile))

    def _own(self, group: Ints, procs: Ints, preferred: Ints, quantile: Quantile) -> Floats:
        table = self.runtime_s[quantile]
        at, base = (np.searchsorted(self.counts, n) for n in (procs, preferred))
        ratio: Floats = table[group, at] / table[group, base]
        return np.where((group >= 0) & np.isfinite(ratio), ratio, np.nan)

    def _typical(self, procs: Ints, preferred: Ints, quantile: Quantile) -> Floats:
        """Over groups, the quantile of the median growth by the same number of doublings."""
        group, size = self.seen[:, 0], self.seen[:, 1]
        doublings = np.rint(np.log2(procs / preferred)).astype(np.int64)
        found = np.full(len(procs), np.nan)
        for k in np.unique(doublings):
            at = np.ceil(size * 2.0**k).astype(np.int64)
            known = np.isin(at, self.counts)
            growth = self._own(group[known], at[known], size[known], "median")
            each = [np.nanmedian(growth[group[known] == one]) for one in np.unique(group[known][np.isfinite(growth)])]
            if len(each) >= LEAST_GROUPS:
                found[doublings == k] = np.quantile(each, LEVEL[quantile])
        return found


def fitted_runtimes(log: MoldableLog, world: World, past: Bools, counts: Ints) -> FittedRuntimes:
    """Runtimes at `counts` (ascending), from curves fitted to the jobs `past` through the stages of a run."""
    settings, work = log.settings, world.work
    # A group of one size has no curve: leaving it out halves the time on logs with many small groups.
    past = past & np.isin(log.group, _groups_of_sizes(log.group[past], work.procs[past], 2))
    codes = log.group[past]
    start_s = work.submit_s[past].astype(np.float64)
    columns = aggregate(
        codes, work.procs[past], work.run_s[past].astype(np.float64), start_s, start_s + work.run_s[past],
        log.is_bound[past],
    )  # fmt: skip
    observed = OBSERVATIONS.build(group_id=[log.group_ids[code] for code in columns.pop("group_code")], **columns)
    patterns, _ = find_patterns(observed, PATTERN_RULES, ANOMALY_RULES.noise)
    screened, _ = screen(observed, patterns, ANOMALY_RULES)
    levelled, _ = level(screened, patterns)
    fits, _ = fit(levelled, fit_rules(settings.scaling))
    at = [int(n) for n in counts]
    rules = predict_rules(settings.horizon_days)
    predicted, _ = predict(levelled, fits, rules, settings.site, "moldable", at, patterns=patterns)
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
    return FittedRuntimes(found, counts, _pairs(codes, work.procs[past]))


def _pairs(group: Ints, procs: Ints) -> Ints:
    """The distinct (group, size) pairs of groups of at least LEAST_SIZES sizes."""
    pairs = np.unique(np.stack([group, procs], axis=1), axis=0)
    return pairs[np.isin(pairs[:, 0], _groups_of_sizes(group, procs, LEAST_SIZES))]


def _groups_of_sizes(group: Ints, procs: Ints, least: int) -> Ints:
    """The groups that ran on at least so many sizes."""
    pairs = np.unique(np.stack([group, procs], axis=1), axis=0)
    return np.flatnonzero(np.bincount(pairs[:, 0], minlength=1) >= least)
