"""Advice on processor counts: which to request and what they cost, and SCALABILITY, a row per group that scales.

Measured runtimes decide between measured counts; another count is recommended only where even the upper end of its 80%
interval is better. A smaller count is kept unless the gain exceeds the noise of the runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Floats
from pipeline.laws import MOST_PROCS
from pipeline.report import Report, Tally
from pipeline.scaling.predictions import Curves, FittedSeries, joined, judged, of_laws
from pipeline.scaling.series import (
    REACH,
    counts_between,
    favoured_class,
    median_variance,
    runnable,
    runnable_between,
)
from pipeline.schema import MOST_EFFICIENCY, Axis, axis_of, counted
from pipeline.tables import SCALABILITY

LEAST_GAIN = float(np.log(1.05))
"""A gain of less than 5% justifies no more processors (log)."""

NOISE = 1.2816
"""Standard errors by which the gain between two medians must exceed LEAST_GAIN: nine times in ten it is real then."""

PER_DOUBLING = 4
"""Counts of each doubling that are compared, beside the measured ones."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CostSettings:
    """`procs_per_node`: processors of a node (None: unknown). `rate`: price of a processor-hour (None: unknown)."""

    procs_per_node: int | None = None
    rate: float | None = None

    def over(self, axis: Axis) -> "CostSettings":
        """The settings for counts of an axis: of GPUs and nodes neither is known."""
        return self if axis is Axis.PROCS else CostSettings()


def cost_of(procs: float, runtime_s: float, settings: CostSettings) -> dict[str, float | None]:
    """The cost of a run; the last node is charged whole.

    Parameters
    ----------
    procs : float
        Processors.
    runtime_s : float
        Runtime, s.
    settings : CostSettings
        Processors per node, and price of a processor-hour.

    Returns
    -------
    dict
        `nodes`, `proc_hours` charged and their `price`; None where the settings do not say.

    Examples
    --------
    >>> cost_of(6, 3600.0, CostSettings(procs_per_node=4, rate=0.5))
    {'nodes': 2, 'proc_hours': 8.0, 'price': 4.0}
    """
    node, rate = settings.procs_per_node, settings.rate
    nodes = int(-(-procs // node)) if node else None
    hours = _charged(procs, settings) * runtime_s / 3600
    return {"nodes": nodes, "proc_hours": hours, "price": None if rate is None else hours * rate}


def _charged(procs: float, settings: CostSettings) -> float:
    """Processors of whole nodes."""
    node = settings.procs_per_node or 1
    return -(-procs // node) * node


ROLES = {"the best trade-off": (1, 2), "the cheapest": (1, 1), "the fastest": (0, 1)}
"""Why a count is chosen, and the powers of charged processors and of runtime whose product is least there."""

UNUSABLE = {"one_size", "wide_group", "off_law", "high_error", "missed", "broken"}
"""Codes of predictions whose interval cannot be relied on."""


def choices(options: Sequence[Row], settings: CostSettings) -> list[dict[str, Any]]:
    """The count of best trade-off, the cheapest and the fastest; a count of several roles is listed once.

    The trade-off is the least cost times runtime, which is the largest speed-up squared over processors (Ghosal,
    Serazzi & Tripathi 1991). Of measured counts the smallest is chosen that no other betters by LEAST_GAIN and the
    noise of both; a count that was not measured is chosen only if the upper end of its 80% interval betters that one,
    for the trade-off times its expected cost.
    Efficiency is relative to the smallest count, and null where one would exceed MOST_EFFICIENCY.

    Parameters
    ----------
    options : sequence of mappings
        A row per count, ascending: `procs`, `runtime_s` with `runtime_s_lo80` and `runtime_s_hi80`, `log_sd` (of a
        measured median, log s; None: not measured), `reliability` and `energy_j`.
    settings : CostSettings
        Processors per node, and price of a processor-hour.

    Returns
    -------
    list of dict
        At most three rows, none twice: `why`, the columns of options, `efficiency` and those of `cost_of`.

    References
    ----------
    Ghosal, Serazzi & Tripathi (1991), The processor working set and its use in scheduling multiprocessor systems.

    Examples
    --------
    >>> ends = {"runtime_s_lo80": 0.0, "runtime_s_hi80": 0.0, "log_sd": 0.02, "reliability": "ok", "energy_j": None}
    >>> rows = [{"procs": n, "runtime_s": t, **ends} for n, t in ((1, 100.0), (2, 55.0), (4, 40.0))]
    >>> [(row["why"], row["procs"]) for row in choices(rows, CostSettings())]
    [('the best trade-off', 2), ('the cheapest', 1), ('the fastest', 4)]
    """
    # 1. What is known of each count.
    is_measured = np.array([row["log_sd"] is not None for row in options], bool)
    measured = np.flatnonzero(is_measured)
    if not len(measured):
        return []
    procs, runtime_s = (np.array([row[name] for row in options], float) for name in ("procs", "runtime_s"))
    at_most_s = np.where(is_measured, runtime_s, [row["runtime_s_hi80"] for row in options]).astype(float)
    charged = np.array([_charged(n, settings) for n in procs])
    log_sd = np.array([row["log_sd"] for row in options if row["log_sd"] is not None])
    noise = NOISE * np.hypot(log_sd[:, None], log_sd)
    # 2. The count of each role.
    whys: dict[int, list[str]] = {}
    for why, (of_cost, of_time) in ROLES.items():
        product = of_cost * np.log(charged) + (of_time - 1) * np.log(runtime_s) + np.log(at_most_s)
        is_better = product[measured, None] - product[measured] > of_time * (LEAST_GAIN + noise)
        best = measured[np.argmin(is_better.any(axis=1))]
        others = np.flatnonzero(~is_measured & (product < product[best] - LEAST_GAIN))
        if len(others):
            best = others[np.argmax(product[others] <= product[others].min() + LEAST_GAIN)]
        whys.setdefault(int(best), []).append(why)
    # 3. A row for each of these counts.
    efficiency = procs[0] * runtime_s[0] / (procs * runtime_s)
    is_known = len(options) > 1 and efficiency.max() <= MOST_EFFICIENCY
    names = ("procs", "runtime_s", "runtime_s_lo80", "runtime_s_hi80", "reliability", "energy_j")
    rows = []
    for at, roles in whys.items():
        why = "the best in time and cost" if len(roles) == len(ROLES) else " and ".join(roles)
        rows.append({
            "why": why if len(options) > 1 else "the only count that ran",
            **{name: options[at][name] for name in names},
            "efficiency": float(efficiency[at]) if is_known else None,
            **cost_of(options[at]["procs"], options[at]["runtime_s"], settings),
        })  # fmt: skip
    return rows


IN_WORDS = {
    "one_size": "one processor count", "wide_group": "repeats differ widely", "tail_unidentified": "scaling goes on",
    "runner_up": "several fits equally good", "few_sizes": "few processor counts", "off_law": "no law fits these runs",
    "high_error": "the predictions miss a count that ran",
    "far": "far from the runs",
    "wide": "wide interval", "few": "few later runs", "missed": "later runs missed",
    "broken": "the predictions miss a count that ran",
}  # fmt: skip
"""The codes of reliability in words."""


def sentence(choice: Row, axis: Axis = Axis.PROCS) -> str:
    """Count, time and cost of one choice, in a sentence that begins with what makes it doubtful."""
    codes = choice["reliability"].split("+")
    doubt = "" if codes == ["ok"] else f" (low confidence: {', '.join(IN_WORDS.get(code, code) for code in codes)})"
    why = choice["why"].replace("the ", "")
    middle, low, high = (figure(choice[f"runtime_s{end}"]) for end in ("", "_lo80", "_hi80"))
    parts = [
        f"{counted(choice['procs'], axis)}" + (f" ({counted(choice['nodes'], Axis.NODES)})" if choice["nodes"] else ""),
        f"{middle} s (80% interval: {low} to {high})",
        f"{figure(choice['proc_hours'])} {axis.unit}-hours",
        *([f"cost {figure(choice['price'])}"] if choice["price"] is not None else []),
        *([f"{figure(choice['energy_j'])} J measured"] if choice["energy_j"] is not None else []),
        *([f"efficiency {choice['efficiency']:.0%}"] if choice["efficiency"] is not None else []),
    ]
    return f"{why[0].upper()}{why[1:]}{doubt}: {', '.join(parts)}."


def figure(value: float | None) -> str:
    """A number with three significant digits, or with separated thousands; `unknown` for None."""
    if value is None:
        return "unknown"
    return f"{value:,.0f}" if value >= 999.5 else f"{value:.3g}"


def axis_of_series(one: Row) -> Axis:
    """What the counts of a series are of, from its observations."""
    return axis_of(next((row["axis"] for row in one["observations"]), None))


def measured_counts(one: Row) -> Floats:
    """The counts of a series that have a median runtime."""
    return np.array([row["procs"] for row in one["observations"] if row["runtime_s_median"]], np.float64)


def compared_counts(one: Row, max_procs: int | None, settings: CostSettings) -> Floats:
    """The measured counts, and those up to twice the largest that code and machine can run."""
    sizes, axis = measured_counts(one), axis_of_series(one)
    if len(sizes) < 2:
        return sizes
    machine = (max_procs if axis is Axis.PROCS else None) or np.inf
    top = max(min(sizes[-1] * REACH, machine), sizes[-1])
    node = settings.over(axis).procs_per_node
    return np.union1d(
        sizes, runnable_between(sizes[0], top, PER_DOUBLING, sizes, node, favoured_class(one["patterns"]))
    )


def answered(one: Row, rows: Sequence[Row], settings: CostSettings) -> dict[str, Any]:
    """A series with recommendations: `axis`, `answer` (sentences), `choices`, `energy`, and predictions with costs.

    `rows` are predictions; those at measured counts, and at others near them that the code can run on, are compared.
    """
    # 1. The counts that are compared, and those chosen.
    axis, energy, sizes = axis_of_series(one), energy_rows(one["observations"]), measured_counts(one)
    settings, counts = settings.over(axis), np.array([row["procs"] for row in rows], np.float64)
    near = counts[(counts >= sizes.min(initial=np.inf)) & (counts <= REACH * sizes.max(initial=0))]
    compared = {*sizes, *runnable(near, sizes, settings.procs_per_node, favoured_class(one["patterns"]))}
    rows = [row for row in rows if row["procs"] in compared]
    options = _options(one["observations"], rows)
    chosen = choices(options, settings)
    # 2. In sentences.
    lines = [sentence(choice, axis) for choice in chosen]
    if chosen and len(options) < 2:
        lines.append("One processor count has no information on others: run on another before you request more.")
    elif chosen:
        least, most = options[0]["procs"], options[-1]["procs"]
        relative = f"; efficiency is relative to {counted(least, axis)}" if chosen[0]["efficiency"] is not None else ""
        lines.append(f"{axis.unit[0].upper()}{axis.unit[1:]} counts {least:,} to {most:,} were compared{relative}.")
    lines += superlinear(options, axis) + _doubts(chosen, options, rows, axis) + energy_sentence(energy, axis)
    priced = [{**row, **cost_of(row["procs"], row["runtime_s"], settings)} for row in one["predictions"]]
    found = {"axis": axis.value, "answer": lines, "choices": chosen, "energy": energy, "predictions": priced}
    return {**one, **found}


def _options(observations: Sequence[Row], rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The counts to choose from: measured ones with their medians, and those that a law can be relied on for.

    A count that ran faster than all others let expect is left out: its runs may have failed early.
    """
    seen = {row["procs"]: row for row in observations if row["runtime_s_median"]}
    spreads = [row["log_sd"] for row in seen.values() if row["log_sd"] is not None]
    typical = float(np.median(spreads)) if spreads else 0.0
    found = []
    for row in rows:
        ran = seen.get(row["procs"])
        is_usable = row["runtime_s_hi80"] is not None and UNUSABLE.isdisjoint(row["reliability"].split("+"))
        if ran is None and is_usable:
            found.append({**row, "log_sd": None, "energy_j": None})
        elif ran is not None and (ran["fit_weight"] != 0 or ran["odd"] == "slow"):
            # The published row of a count that ran is the median of its runs, of which the newest weigh most.
            median_s = row["runtime_s"] if row.get("method") == "runs" else ran["runtime_s_median"]
            low_s, high_s = row["runtime_s_lo80"], row["runtime_s_hi80"]
            spread = typical if ran["log_sd"] is None else ran["log_sd"]
            found.append({
                **row,
                "runtime_s": median_s,
                "runtime_s_lo80": min(low_s, median_s),
                "runtime_s_hi80": None if high_s is None else max(high_s, median_s),
                "log_sd": float(np.sqrt(median_variance(np.array(spread), np.array(ran["n_jobs"]), 0.0))),
                "energy_j": ran["energy_j_median"],
            })  # fmt: skip
    return found


def superlinear(options: Sequence[Row], axis: Axis) -> list[str]:
    """A sentence on the first two measured counts between which the speed-up clearly exceeds that of the counts."""
    for one, other in pairwise(row for row in options if row["log_sd"] is not None):
        times, faster = other["procs"] / one["procs"], one["runtime_s"] / other["runtime_s"]
        if np.log(faster / times) > LEAST_GAIN + NOISE * np.hypot(one["log_sd"], other["log_sd"]):
            return [
                f"Between {one['procs']:,} and {counted(other['procs'], axis)} the speed-up is larger than the number "
                f"of {axis.units}: {figure(faster)} times as fast on {figure(times)} times as many."
            ]
    return []


def _doubts(chosen: Sequence[Row], options: Sequence[Row], rows: Sequence[Row], axis: Axis) -> list[str]:
    """What to do about doubtful recommendations, and where a count beyond the largest that ran may be faster."""
    counts = {choice["procs"] for choice in chosen}
    told = dict[str, list[float]]()
    for row in rows:
        if row["procs"] in counts and row["reliability"] != "ok" and row["advice"]:
            told.setdefault(row["advice"], []).append(row["procs"])
    largest = max((row for row in options if row["log_sd"] is not None), key=lambda row: row["procs"], default=None)
    if largest and largest["procs"] in counts:
        beyond = [row for row in rows if row["procs"] > largest["procs"] and row["runtime_s"] < largest["runtime_s"]]
        told |= {row["advice"]: [] for row in beyond[:1] if row["advice"] and row["advice"] not in told}
    lines = []
    for advice, of in told.items():
        named = ", ".join([*(f"{n:,.0f}" for n in of[:-1]), *(counted(n, axis) for n in of[-1:])])
        lines.append(f"{named}: {advice}" if named else advice)
    return lines


def energy_rows(observations: Sequence[Row]) -> list[dict[str, Any]]:
    """Median energy and energy-delay of the counts whose energy was measured; of equals the smaller count is least."""
    names = {"energy_j": "energy", "energy_delay_js": "energy-delay"}
    found: list[dict[str, Any]] = [
        {"procs": row["procs"], **{name: row[f"{name}_median"] for name in names}, "least": []}
        for row in sorted(observations, key=lambda row: row["procs"])
        if row["energy_j_median"] is not None
    ]
    for name, words in names.items() if found else ():
        min(found, key=lambda row: row[name])["least"].append(words)
    return found


def energy_sentence(rows: Sequence[Row], axis: Axis) -> list[str]:
    """Which measured counts take least; no sentence where one count was measured."""
    if len(rows) < 2:
        return []
    least, delay = (next(row for row in rows if words in row["least"]) for words in ("energy", "energy-delay"))
    return [
        f"Of {len(rows):,} measured counts {counted(least['procs'], axis)} took least energy, "
        f"{figure(least['energy_j'])} J a run, and {delay['procs']:,} least energy times runtime, "
        f"{figure(delay['energy_delay_js'])} J s."
    ]


SEARCHED_PER_DOUBLING = 8
"""Counts of each doubling that SCALABILITY is searched on: at most 9% apart."""

NO_FASTER = 1.01
"""Runtimes up to this many times the least count as equal to it in SCALABILITY."""

SEEN_BEYOND = 2**0.5
"""The fastest count is known where the search reaches this many times beyond it without a gain."""


def scalability(series: Sequence[FittedSeries], run_id: str) -> tuple[pa.Table, Report]:
    """SCALABILITY: a row per group that gains from processors by its chosen law or by the average, in order of group.

    Largest useful allocation: 2A - 1 (low variance) or A + A sigma - sigma (high), null where the law never stops
    gaining. Processor working set: the whole n that maximises S(n)^2/n (Ghosal, Serazzi & Tripathi 1991), null where
    it lies beyond 2^20. Both are the chosen law's, and null where that is constant; counts by efficiency and time are
    the model average's.

    Parameters
    ----------
    series : sequence of FittedSeries
        The series of `fitted_series`, one for each axis.
    run_id : str
        Id of the run, written to every row.

    Returns
    -------
    table : pa.Table
        SCALABILITY; processor counts, t1_s in s.
    report : Report
        Groups that gain from processors, and others.

    Examples
    --------
    >>> from pipeline.scaling.predictions import fitted_series
    >>> from pipeline.scaling.series import PredictRules
    >>> series = fitted_series(tables["levelled"], tables["fits"], PredictRules(), settings.site)
    >>> table, _ = scalability(series, "r1")
    >>> table.num_rows < len(set(tables["fits"].column("group_id").to_pylist()))
    True
    """
    return joined([_scalability(one, run_id) for one in series], SCALABILITY)


def _scalability(series: FittedSeries, run_id: str) -> tuple[pa.Table, Report]:
    # 1. The average of each group from 1 to `reach` times the largest observed count, within the machine.
    chosen, n = series.chosen, len(series.chosen)
    smallest, largest = chosen["procs_min"], chosen["procs_max"]
    tops = np.floor(np.minimum(largest * series.rules.reach, np.maximum(series.site.max_procs or np.inf, largest)))
    counts = [np.union1d(counts_between(1, top, SEARCHED_PER_DOUBLING), [top]) for top in tops]
    ends = np.cumsum([0, *map(len, counts)])
    curve = series.observed.curve(np.repeat(np.arange(n), np.diff(ends)), np.concatenate([[], *counts]))
    # 2. The count of least runtime, and the last of at least 80% and 50% efficiency; NaN where it lies beyond, as where
    # the runtime still falls at the end. Whether the first is surely faster than the smallest observed by LEAST_GAIN.
    found = {name: np.full(n, np.nan) for name in ("time_optimal_procs", "efficiency_80_procs", "efficiency_50_procs")}
    is_faster = np.zeros(n, bool)
    for row, procs in enumerate(counts):
        own = slice(ends[row], ends[row + 1])
        runtime_s, log_sd = np.exp(curve.log_s[own]), curve.log_sd[own]
        fastest = procs[np.argmax(runtime_s <= NO_FASTER * runtime_s.min())]
        if fastest * SEEN_BEYOND <= procs[-1]:
            found["time_optimal_procs"][row] = fastest
            smallest_s = np.interp(np.log(smallest[row]), np.log(procs), runtime_s)
            gain, doubt = np.log(smallest_s / runtime_s.min()), 2 * log_sd[np.argmin(runtime_s)]
            is_faster[row] = len(procs) > 1 and gain > LEAST_GAIN + doubt
        efficiency = runtime_s[0] / (procs * runtime_s)
        for share in (80, 50):
            if (is_less := efficiency < share / 100).any():
                found[f"efficiency_{share}_procs"][row] = procs[np.argmax(is_less) - 1]
    # 3. A row where the chosen law gains, or the average: no law rises again, so that a curve that falls and rises is
    # nearest to a constant, and its average has a fastest count.
    rows = np.flatnonzero((chosen["law"] != "constant") | is_faster)
    scaling = chosen[rows]
    gains = scaling["law"] != "constant"
    useful, working = of_laws(scaling, "largest_useful_procs"), np.where(gains, _working_set_procs(scaling), np.nan)
    useful = np.where(gains & np.isfinite(useful), useful, np.nan)
    speedup = of_laws(scaling, "runtime_s", np.ones(len(rows))) / np.where(
        gains, of_laws(scaling, "runtime_s", working), np.nan
    )
    beyond = np.fmax(np.where(np.isnan(useful), 2 * scaling["procs_max"], useful), 1.0)
    reliability, advice = judged(series, rows, beyond)
    table = SCALABILITY.build(
        **{name: scaling[name] for name in ("group_id", "law", "t1_s", "avg_parallelism", "sigma")},
        **{name: values[rows] for name, values in found.items()},
        axis=[series.axis] * len(rows), largest_useful_procs=useful, working_set_procs=working,
        working_set_speedup=speedup, working_set_efficiency=speedup / working,
        reliability=reliability, advice=advice, run_id=[run_id] * len(rows),
    )  # fmt: skip
    set_aside = {"constant": Tally(n - len(rows))} if n > len(rows) else {}
    return table, Report("scalability", "group", Tally(n), Tally(len(rows)), set_aside).check()


def _working_set_procs(curves: Curves) -> Floats:
    """The whole processor count that maximises S^2/n per row, the smallest where several do; NaN beyond MOST_PROCS.

    S^2/n rises to one maximum and falls after it: the first count that the next one does not better is bisected.
    """
    low, high = np.ones(len(curves)), np.full(len(curves), MOST_PROCS)
    while (low < high).any():
        middle = np.floor((low + high) / 2)
        one, other = (n * of_laws(curves, "runtime_s", n) ** 2 for n in (middle, middle + 1))
        is_rising = one > other
        low, high = np.where(is_rising, np.minimum(middle + 1, high), low), np.where(is_rising, high, middle)
    return np.where(low < MOST_PROCS, low, np.nan)
