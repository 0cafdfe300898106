"""The page of a run's phases, without network access; every text from a file is escaped."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator

from flows.pages.html import drawing
from flows.pages.html.drawing import curve, to_svg
from pipeline.arrays import Floats, Ints
from pipeline.errors import InputError
from pipeline.phases.occurrences import Occurrences, standard_errors

MOST_SEGMENTS, MOST_RANKS, N_BINS = 4000, 64, 400
SAMPLES = (2, 3, 5, 10, 20, 30, 50, 100, 200, 500, 1000)


def _whole(found: Occurrences, places: Ints) -> Markup:
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
    figure, axes = drawing.panel(0.9)
    _draw(axes, edges_s[:-1], edges_s[1:], np.zeros(N_BINS), best, 12)
    axes.set(yticks=[], xlim=(0, ends_s[-1]), xlabel="time, s")
    return to_svg(figure, f"The phase with most of the time in each part of a run of {ends_s[-1]:,.4g} s.")


def _lanes(points: pa.Table, found: Occurrences, places: Ints, n: int) -> Markup:
    """A lane per rank, for the first n occurrences."""
    n_ranks = min(found.rows.shape[1], MOST_RANKS)
    begins_s, ends_s = (points.column(name).to_numpy()[found.rows[:n, :n_ranks].T] for name in ("t_start_s", "t_end_s"))
    figure, axes = drawing.panel(min(0.9 + 0.14 * n_ranks, 8.0))
    rank = np.repeat(np.arange(float(n_ranks)), n)
    _draw(axes, begins_s.ravel(), ends_s.ravel(), rank, places[:n].tolist() * n_ranks, 6)
    axes.set(ylim=(n_ranks - 0.5, -0.5), xlim=(float(begins_s.min()), float(ends_s.max())), ylabel="rank")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("time, s")
    return to_svg(figure, f"The first {n:,} occurrences of phases over time, a lane for each of {n_ranks:,} ranks.")


def _draw(axes: Axes, begins_s: Floats, ends_s: Floats, lanes: Floats, places: Sequence[int], width: float) -> None:
    """Draw a segment for each occurrence, on its lane and in the colour of its phase."""
    ends = zip(begins_s.tolist(), ends_s.tolist(), lanes.tolist(), strict=True)
    segments = [[(begin_s, lane), (end_s, lane)] for begin_s, end_s, lane in ends]
    colours = [drawing.COLOURS[drawing.colour_of(place)] for place in places]
    axes.add_collection(LineCollection(segments, colors=colours, linewidths=width, capstyle="butt"))
    axes.grid(visible=False)


def _kept(phases: pa.Table) -> Markup:
    shares = np.cumsum(-np.sort(-phases.column("share").to_numpy()))
    figure, axes = drawing.panel(2.2)
    curve(axes, np.arange(1, len(shares) + 1), shares, markersize=3)
    axes.set(ylim=(0, 1.02), ylabel="share of the time", xlabel="phases measured, largest first")
    drawing.per_cent(axes.yaxis, None)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return to_svg(figure, f"Share of the time in the largest phases: {shares[0]:.0%} in the first of {len(shares):,}.")


def _errors(phases: pa.Table, points: pa.Table) -> Markup:
    errors = standard_errors(phases, points, list(SAMPLES))
    figure, axes = drawing.panel(2.2)
    curve(axes, SAMPLES, errors, markersize=3)
    axes.set_xscale("log")
    axes.set_xticks(SAMPLES, [str(n) for n in SAMPLES])
    axes.minorticks_off()
    drawing.per_cent(axes.yaxis, 1)
    axes.set(ylim=(0, None), ylabel="standard error", xlabel="occurrences timed per phase")
    ends = f"{errors[0]:.2%} with {SAMPLES[0]} and {errors[-1]:.2%} with {SAMPLES[-1]:,}"
    return to_svg(figure, f"Standard error by the number of occurrences timed per phase: {ends}.")


def phases_page(phases: pa.Table, points: pa.Table, status: str) -> str:
    """The page of PHASES and PHASE_POINTS; the same tables give the same bytes.

    InputError where the reference run was not timed: the page has nothing else to draw.
    """
    found = Occurrences.of(points)
    if not found.is_timed:
        raise InputError("--report", "intervals without times", "measured times of them", "give --times CSV too")
    rows = sorted(phases.to_pylist(), key=lambda row: (-row["share"], row["phase_id"]))
    place = {row["phase_id"]: at for at, row in enumerate(rows)}
    places = np.array([place[phase] for phase in found.phase.tolist()])
    n_ranks = found.rows.shape[1]
    n_drawn = min(len(found), max(MOST_SEGMENTS // min(n_ranks, MOST_RANKS), 1))
    with drawing.styled():
        plots = {
            "whole": _whole(found, places), "lanes": _lanes(points, found, places, n_drawn),
            "kept": _kept(phases), "errors": _errors(phases, points),
        }  # fmt: skip
    return drawing.render_template(
        "phases.html", trace=rows[0]["trace_id"], status=status, runtime_s=float(found.time_s.sum()), rows=rows,
        n_ranks=n_ranks, n_drawn=n_drawn, n_occurrences=len(found), most_ranks=MOST_RANKS, plots=plots,
    )  # fmt: skip
