"""What the commands on phases answer: phases with a page of charts, the plan, its times, and the prediction."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from markupsafe import Markup

from flows.pages.formats import between, number, significant
from flows.pages.html import drawing
from flows.pages.terminal.blocks import Block, Chart, Column, Facts, Grid
from pipeline.arrays import Floats, Ints
from pipeline.errors import InputError
from pipeline.phases.occurrences import Occurrences, standard_errors

Row = Mapping[str, Any]

MOST_SEGMENTS, MOST_RANKS, N_BINS = 4000, 64, 400
SAMPLES = (2, 3, 5, 10, 20, 30, 50, 100, 200, 500, 1000)
FOOTER = "Source: Wong, Rexachs and Luque 2014 (PAS2P)."


def _percent(value: float | None) -> str:
    return "" if value is None else significant(100 * value, 3) + "%"


def _event(event: int | None) -> str:
    return "start" if event is None else str(event)


PHASES = (
    Column("phase", "phase_id"),
    Column("occurrences", "n_occurrences"),
    Column("ticks"),
    Column("events", lambda row: int(row["events"]) if row["events"].is_integer() else row["events"]),
    Column("time, s", "time_s"),
    Column("share", form=_percent),
    Column("measured", lambda row: "yes" if row["is_relevant"] else ""),
)
PLAN = (
    Column("phase", "phase_id"),
    Column("occurrence"),
    Column("rank"),
    Column("from_event", form=_event),
    Column("to_event", form=_event),
    Column("use", lambda row: "warm-up" if row["is_warmup"] else "timed"),
)
TIMES = (
    Column("phase", 0),
    Column("timed", 1),
    Column("time, s", 2),
    Column("reference, s", 3),
    Column("ratio", lambda row: row[2] / row[3] if row[3] else None),
)


def view_phases(facts: Row, rows: Sequence[Row], notes: Sequence[str]) -> Iterator[Block]:
    """The phases with their weights and shares, largest first."""
    colours = [drawing.colour_of(place) for place in range(len(rows))]
    yield Grid(f"Phases of {facts['trace_id']}: {_status(facts)}", PHASES, _by_share(rows), colours=colours)
    counted = {"unmatched": "unmatched messages", "open_receives": "receives that no call completes"}
    yield from (f"{number(facts[name])} {what}" for name, what in counted.items() if name in facts)
    yield f"{_percent(facts['coverage'])} of the time is in phases to measure"
    kept = {name.rpartition("_")[2]: fact for name, fact in facts.items() if name.startswith("accuracy_with_")}
    if kept:
        accuracies = ", ".join(map(_percent, kept.values()))
        yield f"Accuracy with the {', '.join(kept)} heaviest phases alone: {accuracies}"
    yield from notes


def _by_share(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (-row["share"], row["phase_id"]))


def view_plan(facts: Row, rows: Sequence[Row], notes: Sequence[str]) -> Iterator[Block]:
    """The plan: from which call to which, per rank."""
    yield Grid(f"Plan for {facts['trace_id']}: {_status(facts)}", PLAN, rows)
    yield (
        f"{number(facts['timed'])} occurrences timed after {number(facts['warmups'])} of warm-up: "
        f"{_percent(facts['set_share'])} of the run"
    )
    if facts["standard_error"] is not None:
        yield f"Standard error of the reference run's own time: {_percent(facts['standard_error'])}"
    yield from notes


def view_times(facts: Row, rows: Sequence[Row], notes: Sequence[str]) -> Iterator[Block]:
    """How the timed occurrences of each phase compare with the reference."""
    sums: dict[int, tuple[int, float, float]] = {}
    for row in rows:
        if not row["is_warmup"] and not row["is_control"]:
            n, time_s, here_s = sums.get(row["phase_id"], (0, 0.0, 0.0))
            sums[row["phase_id"]] = n + 1, time_s + row["time_s"], here_s + (row["reference_s"] or 0.0)
    cells = [(phase, *one) for phase, one in sorted(sums.items())]
    yield Grid(f"Times on {facts['platform']} of {facts['trace_id']}", TIMES, cells)
    yield f"Time spent measuring: {number(facts['set_s'])} s, with {number(facts['warmups'])} warm-ups"
    yield from notes


_SAMPLES = {"phases": "a sample of each phase", "even": "an evenly spaced sample of the whole run"}


def view_prediction(facts: Row, notes: Sequence[str] = ()) -> Iterator[Block]:
    """The runtime beside its status, intervals, cost and controls; what is unknown is left out."""
    shown = {
        "runtime, s": facts["runtime_s"],
        "from": _SAMPLES[facts["method"]],
        "80% interval, s": _interval(facts, "80"),
        "95% interval, s": _interval(facts, "95"),
        "time covered by measured phases": _percent(facts["coverage"]),
        "time spent measuring (SET), s": facts["set_s"],
        "SET by runtime": _percent(facts["set_share"]),
        "evenly spaced sample, s": facts["control_s"],
        "control: one factor, s": facts["control_factor_s"],
        "true runtime, s": facts["measured_s"],
        "error": _percent(facts["error"]),
    }
    title = f"{facts['trace_id']} on {facts['platform']}: {_status(facts)}"
    yield Facts(title, {name: value for name, value in shown.items() if number(value)})
    yield from notes


def _interval(facts: Row, share: str) -> str:
    low, high = facts[f"runtime_s_lo{share}"], facts[f"runtime_s_hi{share}"]
    return "" if low is None else between(low, high)


def _status(facts: Row) -> str:
    return "not repetitive, run it whole" if facts["status"] == "not_repetitive" else "repetitive"


def phases_page(facts: Row, rows: Sequence[Row], notes: Sequence[str], phases: pa.Table, points: pa.Table) -> str:
    """The page of what `phases find` found, with PHASES and PHASE_POINTS; the same tables give the same bytes.

    InputError where the reference run was not timed: the page has nothing else to draw.
    """
    from flows.pages.html.page import page_of  # noqa: PLC0415  (a terminal needs no templates)

    found = Occurrences.of(points)
    if not found.is_timed:
        raise InputError("--report", "intervals without times", "measured times of them", "give --times CSV too")
    intro = (
        f"The run is {_status(facts)}. It took {number(float(found.time_s.sum()))} s on "
        f"{number(found.rows.shape[1])} ranks. Phases are parts of the program that the run repeats. Timing some "
        "occurrences of each on another machine predicts the runtime there.",
    )
    blocks = (*view_phases(facts, rows, notes), *_charts(phases, points, found, rows))
    return page_of("Phases", facts["trace_id"], blocks, intro, FOOTER)


def _charts(phases: pa.Table, points: pa.Table, found: Occurrences, rows: Sequence[Row]) -> Iterator[Chart]:
    place = {row["phase_id"]: at for at, row in enumerate(_by_share(rows))}
    places = np.array([place[phase] for phase in found.phase.tolist()])
    n_ranks = found.rows.shape[1]
    n_drawn = min(len(found), max(MOST_SEGMENTS // min(n_ranks, MOST_RANKS), 1))
    caption = "In each part of the run the phase with most of the time, as the mean over ranks."
    yield Chart(partial(_whole, found, places), caption, title="The whole run")
    ranks = f", on the first {MOST_RANKS} ranks" if n_ranks > MOST_RANKS else ""
    caption = (
        "Each rank's progress through the first phases of the run. "
        f"{number(n_drawn)} of {number(len(found))} occurrences are drawn{ranks}."
    )
    yield Chart(partial(_lanes, points, found, places, n_drawn), caption, title="The first occurrences by rank")
    caption = "Share of the time in so many phases: what is left of it when the others are removed."
    yield Chart(partial(_kept, phases), caption, title="Time kept by the largest phases")
    caption = (
        "Standard error of the run's own time from so many occurrences of each measured phase, by their spread in "
        "this run."
    )
    yield Chart(partial(_errors, phases, points), caption, title="Error against number of samples")


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
    return drawing.to_svg(
        figure, f"The phase with most of the time in each part of a run of {number(float(ends_s[-1]))} s."
    )


def _lanes(points: pa.Table, found: Occurrences, places: Ints, n: int) -> Markup:
    """A lane per rank, for the first n occurrences."""
    n_ranks = min(found.rows.shape[1], MOST_RANKS)
    begins_s, ends_s = (points.column(name).to_numpy()[found.rows[:n, :n_ranks].T] for name in ("t_start_s", "t_end_s"))
    figure, axes = drawing.panel(min(0.9 + 0.14 * n_ranks, 8.0))
    rank = np.repeat(np.arange(float(n_ranks)), n)
    _draw(axes, begins_s.ravel(), ends_s.ravel(), rank, places[:n].tolist() * n_ranks, 6)
    axes.set(ylim=(n_ranks - 0.5, -0.5), xlim=(float(begins_s.min()), float(ends_s.max())), ylabel="rank")
    drawing.whole_ticks(axes.yaxis, 9)
    axes.set_xlabel("time, s")
    return drawing.to_svg(
        figure, f"The first {n:,} occurrences of phases over time, a lane for each of {n_ranks:,} ranks."
    )


def _draw(axes: Any, begins_s: Floats, ends_s: Floats, lanes: Floats, places: Sequence[int], width: float) -> None:
    """Draw a segment for each occurrence, on its lane and in the colour of its phase."""
    from matplotlib.collections import LineCollection  # noqa: PLC0415

    ends = zip(begins_s.tolist(), ends_s.tolist(), lanes.tolist(), strict=True)
    segments = [[(begin_s, lane), (end_s, lane)] for begin_s, end_s, lane in ends]
    colours = [drawing.COLOURS[drawing.colour_of(place)] for place in places]
    axes.add_collection(LineCollection(segments, colors=colours, linewidths=width, capstyle="butt"))
    axes.grid(visible=False)


def _kept(phases: pa.Table) -> Markup:
    shares = np.cumsum(-np.sort(-phases.column("share").to_numpy()))
    figure, axes = drawing.panel(2.2)
    drawing.curve(axes, np.arange(1, len(shares) + 1), shares, markersize=3)
    axes.set(ylim=(0, 1.02), ylabel="share of the time", xlabel="phases measured, largest first")
    drawing.per_cent(axes.yaxis, None)
    drawing.whole_ticks(axes.xaxis, 9)
    return drawing.to_svg(
        figure, f"Share of the time in the largest phases: {shares[0]:.0%} in the first of {len(shares):,}."
    )


def _errors(phases: pa.Table, points: pa.Table) -> Markup:
    errors = standard_errors(phases, points, list(SAMPLES))
    figure, axes = drawing.panel(2.2)
    drawing.curve(axes, SAMPLES, errors, markersize=3)
    axes.set_xscale("log")
    axes.set_xticks(SAMPLES, [str(n) for n in SAMPLES])
    axes.minorticks_off()
    drawing.per_cent(axes.yaxis, 1)
    axes.set(ylim=(0, None), ylabel="standard error", xlabel="occurrences timed per phase")
    ends = f"{errors[0]:.2%} with {SAMPLES[0]} and {errors[-1]:.2%} with {SAMPLES[-1]:,}"
    return drawing.to_svg(figure, f"Standard error by the number of occurrences timed per phase: {ends}.")
