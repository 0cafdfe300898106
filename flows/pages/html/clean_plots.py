"""The plots of the page on cleaning, as SVG for HTML; the colours are the page's CSS variables.

Importing matplotlib is slow, so this module is imported only to draw.
"""

from collections.abc import Callable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path as Outline
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from flows.pages.html.clean_figures import KEPT, NAMED, OTHER, SUSPECT, Figures, Lane
from flows.pages.html.drawing import COLOURS, WIDTH_IN, panel, short, styled, to_svg
from pipeline.arrays import Floats
from pipeline.errors import printable

DAY_S = 86_400
BY_OUTCOME = {
    KEPT: "kept", SUSPECT: "suspect", NAMED["flurry"]: "flurry", NAMED["probe"]: "probe", NAMED["cron"]: "cron",
    NAMED["site_drop"]: "site", OTHER: "other",
}  # fmt: skip
BY_SCREEN = {"flurry": "flurry", "slow": "flurry", "probe": "probe", "cron": "cron"}


def plots(figures: Figures, timezone: str) -> dict[str, str]:
    """SVG by name: daily, lanes, spread, busy; an empty text where there is nothing to draw."""
    zone = ZoneInfo(timezone)
    drawers: dict[str, Callable[[], str] | None] = {
        "daily": (lambda: _daily(figures, zone)) if figures.daily else None,
        "lanes": (lambda: _lanes(figures, zone)) if figures.lanes else None,
        "spread": (lambda: _spread(figures)) if len(figures.runtimes_s[0]) + len(figures.procs[0]) else None,
        "busy": (lambda: _busy(figures, zone)) if len(figures.edges_s) else None,
    }
    with styled():
        return {name: draw() if draw else "" for name, draw in drawers.items()}


def colour_of(burst: Mapping[str, Any]) -> str:
    """The name of a burst's colour: that of its outcome, or of its screen if its jobs are set aside."""
    by_outcome = {
        "suspect": "suspect", "kept by rule": "kept", "kept in part": "kept", "dropped by rule": "site",
        "dropped in part": "site",
    }  # fmt: skip
    return by_outcome.get(burst["outcome"]) or BY_SCREEN.get(burst["screen"], "other")


def _daily(figures: Figures, zone: ZoneInfo) -> str:
    daily = figures.daily
    assert daily is not None  # nosec B101 # for the type checker
    figure, axes = panel(2.7)
    edges = np.repeat(daily.begins_s / DAY_S, 2)[1:-1]
    floor = np.zeros(len(edges))
    for outcome, counts in daily.counts.items():
        if counts.any():
            top = floor + np.repeat(counts, 2)
            colour = COLOURS[BY_OUTCOME[outcome]]
            hatched = {"hatch": "/////", "facecolor": "none", "edgecolor": colour, "linewidth": 0.4}
            plain = {"facecolor": colour, "edgecolor": "none"}
            axes.fill_between(edges, floor, top, where=top > floor, **(hatched if outcome == SUSPECT else plain))
            floor = top
    _time_axis(axes, figures.span_s, zone)
    _count_axis(axes)
    axes.set_ylabel("jobs submitted")
    parts = ", ".join(f"{outcome} {int(counts.sum()):,}" for outcome, counts in daily.counts.items() if counts.any())
    return to_svg(figure, f"Jobs submitted over time, by what became of them: {parts}.")


def _lanes(figures: Figures, zone: ZoneInfo) -> str:
    n = len(figures.lanes)
    figure, axes = panel(0.5 + 0.27 * n, left=0.2, right=0.932)
    begin_s, end_s = figures.span_s
    titles = {}
    for place, lane in enumerate(figures.lanes):
        gid = f"lane-{place}"
        titles[gid] = str(lane.burst["why"])
        _lane(axes, lane, n - 1 - place, figures.span_s, gid)
    axes.set_ylim(-0.25, n)
    axes.set_yticks([])
    axes.grid(visible=False)
    _time_axis(axes, (begin_s, end_s), zone)
    return to_svg(figure, f"{n} bursts over time, a lane each; the table below has the same bursts.", titles)


def _lane(axes: Axes, lane: Lane, base: int, span_s: tuple[float, float], gid: str) -> None:
    burst = lane.burst
    colour = COLOURS[colour_of(burst)]
    width = max(span_s[1] - span_s[0], 1.0) / len(lane.counts) / DAY_S
    axes.axhline(base, color=COLOURS["line"], linewidth=0.6)
    first, last = burst["first_submit_s"] / DAY_S, burst["last_submit_s"] / DAY_S
    axes.add_patch(
        Rectangle(
            (first, base), max(last - first, width), 0.78, facecolor=colour, edgecolor="none", alpha=0.16, gid=gid
        )
    )
    outline = _steps(lane.counts / max(lane.counts.max(), 1) * 0.78, span_s[0] / DAY_S, width, base)
    axes.add_patch(PathPatch(outline, facecolor=colour, edgecolor=colour, linewidth=0.5, gid=f"{gid}-jobs"))
    beside: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 7.5}
    axes.text(-0.273, base + 0.36, str(burst["burst_id"]), ha="left", color=COLOURS["ink"], **beside)
    axes.text(-0.012, base + 0.36, printable(burst["user"], 14), ha="right", color=COLOURS["muted"], **beside)
    axes.text(1.092, base + 0.36, f"{burst['n_jobs']:,}", ha="right", color=COLOURS["ink"], **beside)


def _steps(heights: Floats, begin: float, width: float, base: float) -> Outline:
    """Adjacent bars as one outline; empty bins add no points."""
    full = np.flatnonzero(heights > 0)
    runs = np.split(full, np.flatnonzero(np.diff(full) > 1) + 1) if len(full) else []
    outlines = []
    for run in runs:
        x = begin + width * np.repeat(np.append(run, run[-1] + 1), 2)
        y = base + np.concatenate([[0.0], np.repeat(heights[run], 2), [0.0]])
        outlines.append(Outline(np.column_stack([x, y])))
    return Outline.make_compound_path(*outlines) if outlines else Outline(np.empty((0, 2)))


def _spread(figures: Figures) -> str:
    figure = Figure(figsize=(WIDTH_IN, 2.6))
    left, right = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.07, right=0.985, top=0.9, bottom=0.2, wspace=0.14)
    _before_and_after(left, figures.runtimes_s, 10 ** (1 / 8))
    _before_and_after(right, figures.procs, 2.0)
    _ticks(left, _DURATIONS)
    _ticks(right, {4.0**k: f"{4**k:,}" for k in range(26)})
    left.set_title("Runtime", loc="left", fontsize=8.5)
    right.set_title("Processors", loc="left", fontsize=8.5)
    left.set(xlabel="runtime", ylabel="jobs")
    right.set_xlabel("processors")
    n_all, n_kept = (f"{len(part):,}" for part in figures.runtimes_s)
    return to_svg(figure, f"Runtimes and sizes of all jobs and of those kept: {n_all} and {n_kept} runtimes.")


_DURATIONS = {
    0.001: "1 ms", 0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 6 * 3600: "6 h",
    DAY_S: "1 d", 7 * DAY_S: "7 d", 60 * DAY_S: "60 d", 730 * DAY_S: "2 years", 36525 * DAY_S: "100 years",
}  # fmt: skip


def _before_and_after(axes: Axes, values: tuple[Floats, Floats], ratio: float) -> None:
    axes.set_xscale("log")
    if not len(values[0]):
        return
    bins = [np.rint(np.log(part) / np.log(ratio)).astype(np.int64) for part in values]
    low, high = int(bins[0].min()), int(bins[0].max())
    edges = ratio ** (np.arange(low, high + 2) - 0.5)
    counted = [np.bincount(part - low, minlength=high - low + 1) for part in bins]
    axes.stairs(counted[1], edges, fill=True, facecolor=COLOURS["kept"])
    axes.stairs(counted[0], edges, edgecolor=COLOURS["ink"], linewidth=0.9)
    axes.set_xlim(edges[0], edges[-1])
    _count_axis(axes)


def _ticks(axes: Axes, named: Mapping[float, str]) -> None:
    low, high = axes.get_xlim()
    shown = [value for value in named if low <= value <= high]
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: named.get(value, "")))
    axes.xaxis.set_minor_locator(NullLocator())


def _busy(figures: Figures, zone: ZoneInfo) -> str:
    figure, axes = panel(2.4)
    edges = np.repeat(figures.edges_s / DAY_S, 2)[1:-1]
    of_all, of_kept = (np.repeat(part, 2) for part in figures.busy)
    axes.fill_between(edges, 0, of_kept, facecolor=COLOURS["kept"], edgecolor="none")
    axes.plot(edges, of_all, color=COLOURS["ink"], linewidth=0.7)
    if figures.machine_size:
        size = np.repeat(figures.machine, 2)
        axes.plot(edges, size, color=COLOURS["flurry"], linewidth=0.9, linestyle=(0, (5, 3)))
        axes.set_ylim(0, max(np.nanmax(size), of_all.max()) * 1.06)
    _time_axis(axes, (figures.edges_s[0], figures.edges_s[-1]), zone)
    _count_axis(axes)
    axes.set_ylabel("busy processors")
    peak = f"{np.nanmax(of_all):,.0f}"
    return to_svg(figure, f"Busy processors over time, of all jobs and of those kept; at most {peak}.")


def _time_axis(axes: Axes, span_s: tuple[float, float], zone: ZoneInfo) -> None:
    axes.set_xlabel(f"time ({zone.key})")
    begin, end = (instant_s / DAY_S for instant_s in span_s)
    # A log with a single time still needs an axis of some length.
    axes.set_xlim(begin, max(end, begin + 1 / 24))
    locator = AutoDateLocator(tz=zone, minticks=4, maxticks=10)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))  # type: ignore[no-untyped-call]


def _count_axis(axes: Axes) -> None:
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(short))
