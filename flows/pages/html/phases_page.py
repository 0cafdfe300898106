"""The phases of a run as one page of HTML without network access; every text from a trace is escaped."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator, PercentFormatter

from flows.pages.html.drawing import COLOURS, panel, render_template, styled, to_svg
from flows.pages.terminal.render import number
from pipeline.errors import InputError
from pipeline.phases.occurrences import Occurrences
from pipeline.phases.phase_plan import kept_shares, standard_errors

DRAWN = 8
"""Number of phases with a colour of their own; the others share one."""
MOST_SEGMENTS, MOST_RANKS, N_BINS = 4000, 64, 400
SAMPLES = (2, 3, 5, 10, 20, 30, 50, 100, 200, 500, 1000)


def colour_of(place: int) -> str:
    """The CSS variable of the phase at this place by share."""
    return "best" if place == 0 else f"m{place}" if place < DRAWN else "line"


def plots(phases: pa.Table, points: pa.Table, order: Sequence[int]) -> dict[str, str]:
    """SVG by name; `order` are the phases by share, largest first."""
    found = Occurrences.of(points)
    place = {phase: at for at, phase in enumerate(order)}
    places = np.array([place[phase] for phase in found.phase.tolist()])
    with styled():
        return {
            "whole": _whole(found, places),
            "lanes": _lanes(points, found, places),
            "kept": _kept(phases),
            "errors": _errors(phases, points),
        }


def drawn_occurrences(found: Occurrences) -> int:
    """How many occurrences the lanes show, from the start of the run."""
    n_lanes = min(int(found.rows.shape[1]), MOST_RANKS)
    return min(len(found), max(MOST_SEGMENTS // n_lanes, 1))


def _whole(found: Occurrences, places: npt.NDArray[np.int64]) -> str:
    """One lane for the whole run: in each part of it the phase with most of the time."""
    ends_s = np.cumsum(found.time_s)
    edges_s = np.linspace(0, ends_s[-1], N_BINS + 1)
    begins_s = ends_s - found.time_s
    first, last = np.searchsorted(ends_s, edges_s[:-1], "right"), np.searchsorted(begins_s, edges_s[1:], "left")
    best = []
    for one, (a, b) in enumerate(zip(first, last, strict=True)):
        inside = slice(a, max(b, a + 1))
        spans = np.minimum(ends_s[inside], edges_s[one + 1]) - np.maximum(begins_s[inside], edges_s[one])
        best.append(int(np.bincount(places[inside], np.maximum(spans, 0.0)).argmax()))
    figure, axes = panel(0.9)
    segments = [[(a, 0.0), (b, 0.0)] for a, b in pairwise(edges_s.tolist())]
    _draw(axes, segments, [COLOURS[colour_of(one)] for one in best], 12)
    axes.set_yticks([])
    axes.set_xlim(0, ends_s[-1])
    axes.set_xlabel("time, s")
    return to_svg(figure, f"The phase with most of the time in each part of a run of {ends_s[-1]:,.4g} s.")


def _lanes(points: pa.Table, found: Occurrences, places: npt.NDArray[np.int64]) -> str:
    """A lane per rank, for the first occurrences."""
    n, n_ranks = drawn_occurrences(found), min(found.rows.shape[1], MOST_RANKS)
    begins_s, ends_s = (points.column(name).to_numpy()[found.rows[:n, :n_ranks]] for name in ("t_start_s", "t_end_s"))
    figure, axes = panel(min(0.9 + 0.14 * n_ranks, 8.0))
    segments = [
        [(begins_s[at, rank], float(rank)), (ends_s[at, rank], float(rank))]
        for rank in range(n_ranks)
        for at in range(n)
    ]
    colours = [COLOURS[colour_of(int(places[at]))] for _ in range(n_ranks) for at in range(n)]
    _draw(axes, segments, colours, 6)
    axes.set_ylim(n_ranks - 0.5, -0.5)
    axes.set_xlim(float(begins_s.min()), float(ends_s.max()))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("rank")
    axes.set_xlabel("time, s")
    return to_svg(figure, f"The first {n:,} occurrences of phases over time, a lane for each of {n_ranks:,} ranks.")


def _draw(axes: Axes, segments: list[list[tuple[float, float]]], colours: list[str], width: float) -> None:
    axes.add_collection(LineCollection(segments, colors=colours, linewidths=width, capstyle="butt"))
    axes.grid(visible=False)


def _kept(phases: pa.Table) -> str:
    shares = kept_shares(phases)
    figure, axes = panel(2.2)
    axes.plot(np.arange(1, len(shares) + 1), shares, marker="o", markersize=3, color=COLOURS["best"])
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("share of the time")
    axes.set_xlabel("phases measured, largest first")
    return to_svg(figure, f"Share of the time in the largest phases: {shares[0]:.0%} in the first of {len(shares):,}.")


def _errors(phases: pa.Table, points: pa.Table) -> str:
    errors = standard_errors(phases, points, list(SAMPLES))
    figure, axes = panel(2.2)
    axes.plot(SAMPLES, errors, marker="o", markersize=3, color=COLOURS["best"])
    axes.set_xscale("log")
    axes.set_xticks(SAMPLES, [str(n) for n in SAMPLES])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=1))
    axes.set_ylabel("standard error")
    axes.set_xlabel("occurrences timed per phase")
    ends = f"{errors[0]:.2%} with {SAMPLES[0]} and {errors[-1]:.2%} with {SAMPLES[-1]:,}"
    return to_svg(figure, f"Standard error by the number of occurrences timed per phase: {ends}.")


def phases_page(phases: pa.Table, points: pa.Table, status: str) -> str:
    """The page of PHASES and PHASE_POINTS; the same tables give the same bytes.

    InputError where the reference run was not timed: the page has nothing else to draw.
    """
    rows = sorted(phases.to_pylist(), key=lambda row: (-row["share"], row["phase_id"]))
    found = Occurrences.of(points)
    if not found.is_timed:
        raise InputError("--report", "intervals without times", "measured times of them", "give --times CSV too")
    svgs = plots(phases, points, [row["phase_id"] for row in rows])
    filters: dict[str, Callable[..., Any]] = {"number": number, "percent": lambda value: f"{100 * value:.3g}%"}
    return render_template(
        "phases.html",
        filters,
        trace=rows[0]["trace_id"],
        status="not repetitive, run it whole" if status == "not_repetitive" else "repetitive",
        runtime_s=float(found.time_s.sum()),
        rows=[row | {"colour": colour_of(place)} for place, row in enumerate(rows)],
        n_ranks=found.rows.shape[1],
        n_drawn=drawn_occurrences(found),
        n_occurrences=len(found),
        most_ranks=MOST_RANKS,
        plots={name: Markup(svg) for name, svg in svgs.items()},  # noqa: S704 # nosec B704 # escaped by phases_plots
    )
