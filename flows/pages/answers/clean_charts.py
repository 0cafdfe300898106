"""The charts of the page on cleaning."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup
from numpy.typing import ArrayLike

from flows.pages.html.drawing import COLOURS, named_ticks, panel, panels, short, to_svg, whole_ticks
from flows.pages.terminal.blocks import Mark
from flows.services.logs.cleaning import Cleaned
from pipeline.arrays import DAY_S, EARLIEST_S, LATEST_S, Bools, Floats, Ints, category_codes, floats, job_procs
from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.occupancy import mean_busy, occupancy_of
from pipeline.errors import printable
from pipeline.schema import Flag

MAX_DAYS_DRAWN = 800
LANES, LANE_BINS, INTERVALS = 40, 400, 400

OUTCOMES = {
    "kept": "kept",
    "kept, in a suspect burst": "suspect",
    "set aside: flurry": "flurry",
    "set aside: probe": "probe",
    "set aside: timer": "cron",
    "set aside: by the site's rule": "site",
    "set aside: not usable, or for another reason": "other",
}
"""What becomes of jobs, with the colour of each."""
_BY_FLAG = {"flurry": 2, "probe": 3, "cron": 4, "site_drop": 5}
"""The place in OUTCOMES of jobs with a flag; other flags have the last one."""
BY_SCREEN = {"flurry": "flurry", "slow": "flurry", "probe": "probe", "cron": "cron"}
BY_RULE = {
    "suspect": "suspect", "kept by rule": "kept", "kept in part": "kept", "dropped by rule": "site",
    "dropped in part": "site",
}  # fmt: skip

Rows = Sequence[Mapping[str, Any]]
Span = tuple[float, float]


def colour_of_burst(burst: Mapping[str, Any]) -> str:
    """The name of a burst's colour: that of its outcome, or of its screen if its jobs are set aside."""
    return BY_RULE.get(burst["outcome"]) or BY_SCREEN.get(burst["screen"], "other")


def submits(cleaned: Cleaned) -> tuple[Floats, Span | None]:
    """(jobs,) submit times (s since 1970), NaN where there is none to draw, and the first and the last; None: none."""
    submit_s = floats(cleaned.jobs, "submit_s")
    is_time = (submit_s >= EARLIEST_S) & (submit_s < LATEST_S) & _is_plausible(cleaned.jobs)
    submit_s = np.where(is_time, submit_s, np.nan)
    known = submit_s[~np.isnan(submit_s)]
    return submit_s, (float(known.min()), float(known.max())) if len(known) else None


def _is_plausible(jobs: pa.Table) -> Bools:
    """Which jobs have no time far outside the log, and are drawn."""
    flags = jobs.column("flag").cast(pa.string())
    is_far: Bools = pc.fill_null(pc.equal(flags, str(Flag.IMPOSSIBLE_TIMES)), False).to_numpy()
    return ~is_far


def days_a_bar(span_s: Span, zone: ZoneInfo) -> tuple[float, int]:
    """The midnight of the site's clock before a span (s since 1970), and the days of each bar from there on."""
    local = datetime.fromtimestamp(int(span_s[0]), zone)
    midnight_s = span_s[0] - (local.hour * 3600 + local.minute * 60 + local.second)
    return midnight_s, int(np.ceil((span_s[1] - midnight_s + 1) / DAY_S / MAX_DAYS_DRAWN))


def outcomes_of(cleaned: Cleaned, bursts: Rows) -> list[Mark]:
    """The outcomes that drawn jobs had, with their numbers."""
    drawn = ~np.isnan(submits(cleaned)[0])
    totals = np.bincount(_outcomes(cleaned.jobs, bursts)[drawn], minlength=len(OUTCOMES)).tolist()
    return [
        Mark(f"{outcome}: {n:,}", colour, "hatched" if colour == "suspect" else "")
        for (outcome, colour), n in zip(OUTCOMES.items(), totals, strict=True)
        if n
    ]


def draw_daily(cleaned: Cleaned, bursts: Rows, span_s: Span, zone: ZoneInfo) -> Markup:
    """Jobs submitted per so many days, the outcomes one above the other."""
    midnight_s, days = days_a_bar(span_s, zone)
    n_bins = int((span_s[1] - midnight_s) // (days * DAY_S)) + 1
    place = np.floor((submits(cleaned)[0] - midnight_s) / (days * DAY_S))
    drawn = ~np.isnan(place)
    cells = _outcomes(cleaned.jobs, bursts)[drawn] * n_bins + place[drawn].astype(np.int64)
    counts = np.bincount(cells, minlength=len(OUTCOMES) * n_bins).reshape(len(OUTCOMES), n_bins)
    begins = midnight_s / DAY_S + np.arange(n_bins + 1) * float(days)
    figure, axes = panel(2.7)
    floor = np.zeros(n_bins)
    for colour, own in zip(OUTCOMES.values(), counts, strict=True):
        if own.any():
            style: dict[str, Any] = {"facecolor": COLOURS[colour], "edgecolor": "none"}
            if colour == "suspect":
                style = {"hatch": "/////", "facecolor": "none", "edgecolor": COLOURS[colour], "linewidth": 0.4}
            _bars(axes, own, begins, floor, **style)
            floor = floor + own
    _time_axis(axes, span_s, zone)
    _count_axis(axes)
    axes.set_ylabel("jobs submitted")
    parts = ", ".join(mark.text for mark in outcomes_of(cleaned, bursts))
    return to_svg(figure, f"Jobs submitted over time, by what became of them: {parts}.")


def _outcomes(jobs: pa.Table, bursts: Rows) -> Ints:
    """The outcome of each job, as a place in OUTCOMES."""
    suspects = {burst["burst_id"] for burst in bursts if burst["tier"] == "suspect"}
    flag_codes, flag_names = category_codes(jobs, "flag")
    burst_codes, burst_names = category_codes(jobs, "burst_id")
    by_flag = np.array([*(_BY_FLAG.get(flag, len(OUTCOMES) - 1) for flag in flag_names), 0])
    is_suspect = np.array([*(name in suspects for name in burst_names), False])
    outcomes = by_flag[flag_codes]
    outcomes[(outcomes == 0) & is_suspect[burst_codes]] = 1
    return outcomes


def draw_lanes(cleaned: Cleaned, bursts: Rows) -> Markup:
    """A lane for each burst: its submitted jobs in equal parts of the log's span."""
    jobs, (submit_s, span), zone = cleaned.jobs, submits(cleaned), ZoneInfo(cleaned.settings.site.timezone)
    span_s = span or (0.0, 0.0)
    codes, names = category_codes(jobs, "burst_id")
    n, place_of = len(bursts), {burst["burst_id"]: place for place, burst in enumerate(bursts)}
    places = np.array([*(place_of.get(name, -1) for name in names), -1])[codes]
    own = np.flatnonzero((places >= 0) & ~np.isnan(submit_s))
    width_s = max(span_s[1] - span_s[0], 1.0) / LANE_BINS
    bins = np.minimum((submit_s[own] - span_s[0]) // width_s, LANE_BINS - 1).astype(np.int64)
    counts = np.bincount(places[own] * LANE_BINS + bins, minlength=n * LANE_BINS).reshape(-1, LANE_BINS)
    figure, axes = panel(0.5 + 0.27 * n, left=0.2, right=0.932)
    for place, (burst, one) in enumerate(zip(bursts, counts, strict=True)):
        _lane(axes, burst, one, n - 1 - place, span_s, f"lane-{place}")
    axes.set(ylim=(-0.25, n), yticks=[])
    axes.grid(visible=False)
    _time_axis(axes, span_s, zone)
    titles = {f"lane-{place}": str(burst["why"]) for place, burst in enumerate(bursts)}
    return to_svg(figure, f"{n} bursts over time, a lane each; the table below has the same bursts.", titles)


def _lane(axes: Any, burst: Mapping[str, Any], counts: Ints, base: int, span_s: Span, gid: str) -> None:
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    colour = COLOURS[colour_of_burst(burst)]
    width = max(span_s[1] - span_s[0], 1.0) / len(counts) / DAY_S
    axes.axhline(base, color=COLOURS["line"], linewidth=0.6)
    first, last = burst["first_submit_s"] / DAY_S, burst["last_submit_s"] / DAY_S
    style: dict[str, Any] = {"facecolor": colour, "edgecolor": "none", "alpha": 0.16, "gid": gid}
    axes.add_patch(Rectangle((first, base), max(last - first, width), 0.78, **style))
    edges = span_s[0] / DAY_S + width * np.arange(len(counts) + 1)
    style = {"facecolor": colour, "edgecolor": colour, "linewidth": 0.5, "gid": f"{gid}-jobs"}
    _bars(axes, counts / max(counts.max(), 1) * 0.78, edges, np.full(len(counts), float(base)), **style)
    beside: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 7.5}
    axes.text(-0.273, base + 0.36, str(burst["burst_id"]), ha="left", color=COLOURS["ink"], **beside)
    axes.text(-0.012, base + 0.36, printable(burst["user"], 14), ha="right", color=COLOURS["muted"], **beside)
    axes.text(1.092, base + 0.36, f"{burst['n_jobs']:,}", ha="right", color=COLOURS["ink"], **beside)


def _bars(axes: Any, heights: Floats | Ints, edges: ArrayLike, floor: Floats, **style: Any) -> None:
    """Draw adjacent bars as one outline; empty bins add no points."""
    axes.stairs(np.where(heights > 0, floor + heights, np.nan), edges, baseline=floor, fill=True, **style)


_DURATIONS = {
    0.001: "1 ms", 0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 6 * 3600: "6 h",
    DAY_S: "1 d", 7 * DAY_S: "7 d", 60 * DAY_S: "60 d", 730 * DAY_S: "2 years", 36525 * DAY_S: "100 years",
}  # fmt: skip
_SIZES = {4.0**k: f"{4**k:,}" for k in range(26)}


def draw_spread(cleaned: Cleaned) -> Markup | str:
    """Histograms of all jobs and of those kept, by runtime and by processors; empty where neither is known."""
    kept = cleaned.jobs.column("flag").is_null().to_numpy()
    known = floats(cleaned.jobs, "runtime_s"), job_procs(cleaned.jobs)
    runtimes_s, procs = ((values[values > 0], values[(values > 0) & kept]) for values in known)
    if not len(runtimes_s[0]) + len(procs[0]):
        return ""
    figure, both = panels((1, 1), 2.6)
    figure.subplots_adjust(left=0.07, right=0.985, top=0.9, bottom=0.2, wspace=0.14)
    kinds = ((runtimes_s, 10 ** (1 / 8), _DURATIONS, "Runtime"), (procs, 2.0, _SIZES, "Processors"))
    for axes, (values, ratio, named, title) in zip(both, kinds, strict=True):
        axes.set_xscale("log")
        if len(values[0]):
            _before_and_after(axes, values, ratio)
        low, high = axes.get_xlim()
        named_ticks(axes.xaxis, {value: text for value, text in named.items() if low <= value <= high})
        axes.set_title(title, loc="left", fontsize=8.5)
        axes.set_xlabel(title.lower())
    both[0].set_ylabel("jobs")
    n_all, n_kept = (f"{len(part):,}" for part in runtimes_s)
    return to_svg(figure, f"Runtimes and sizes of all jobs and of those kept: {n_all} and {n_kept} runtimes.")


def _before_and_after(axes: Any, values: tuple[Floats, Floats], ratio: float) -> None:
    bins = [np.rint(np.log(part) / np.log(ratio)).astype(np.int64) for part in values]
    low, high = int(bins[0].min()), int(bins[0].max())
    edges = ratio ** (np.arange(low, high + 2) - 0.5)
    counted = [np.bincount(part - low, minlength=high - low + 1) for part in bins]
    axes.stairs(counted[1], edges, fill=True, facecolor=COLOURS["kept"])
    axes.stairs(counted[0], edges, edgecolor=COLOURS["ink"], linewidth=0.9)
    axes.set_xlim(edges[0], edges[-1])
    _count_axis(axes)


BEFORE_AND_AFTER = (Mark("all jobs", "ink", "stroke"), Mark("kept", "kept"))


def machine_mark(size: int | None) -> list[Mark]:
    """The line of a machine whose size is known."""
    return [Mark(f"the machine: {size:,} processors", "flurry", "dashed")] if size else []


def draw_busy(cleaned: Cleaned) -> Markup | str:
    """Mean busy processors in equal intervals, of all jobs and of kept jobs, beside those of the machine if known."""
    kept, zone = cleaned.jobs.column("flag").is_null().to_numpy(), ZoneInfo(cleaned.settings.site.timezone)
    arrays = JobArrays(cleaned.jobs, cleaned.settings.site, settings=cleaned.settings.clean)
    steps = occupancy_of(arrays, _is_plausible(cleaned.jobs))
    if not len(steps.busy):
        return ""
    edges_s = np.linspace(steps.times_s[0], steps.times_s[-1], INTERVALS + 1)
    of_all, of_kept = (mean_busy(one, edges_s) for one in (steps, occupancy_of(arrays, kept)))
    figure, axes = panel(2.4)
    axes.stairs(of_kept, edges_s / DAY_S, fill=True, facecolor=COLOURS["kept"])
    line: dict[str, Any] = {"baseline": None, "edgecolor": COLOURS["ink"], "linewidth": 0.7}
    axes.stairs(of_all, edges_s / DAY_S, **line)
    if size := cleaned.settings.site.max_procs:
        axes.axhline(size, color=COLOURS["flurry"], linewidth=0.9, linestyle=(0, (5, 3)))
        axes.set_ylim(0, max(size, of_all.max()) * 1.06)
    _time_axis(axes, (edges_s[0], edges_s[-1]), zone)
    _count_axis(axes)
    axes.set_ylabel("busy processors")
    peak = f"{np.nanmax(of_all):,.0f}"
    return to_svg(figure, f"Busy processors over time, of all jobs and of those kept; at most {peak}.")


def _time_axis(axes: Any, span_s: Span, zone: ZoneInfo) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # noqa: PLC0415

    axes.set_xlabel(f"time ({zone.key})")
    begin, end = (instant_s / DAY_S for instant_s in span_s)
    # A log with a single time still needs an axis of some length.
    axes.set_xlim(begin, max(end, begin + 1 / 24))
    locator = AutoDateLocator(tz=zone, minticks=4, maxticks=10)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))  # type: ignore[no-untyped-call]


def _count_axis(axes: Any) -> None:
    axes.set_ylim(bottom=0)
    whole_ticks(axes.yaxis, 5)
    axes.yaxis.set_major_formatter(short)
