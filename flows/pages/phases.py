"""What the commands on phases answer: the phases of a run with a page of charts, and runtimes on other machines."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flows.pages.blocks import Block, Detail, Facts, Grid, Heading, between, columns, number, percent_3_digits
from flows.pages.charts import Axis, Bars, Chart, Dots, Line, Mark, Panel, colour_of, percent_label
from pipeline.errors import InputError
from pipeline.phases.occurrences import Occurrences, standard_errors
from pipeline.schema import plural

Row = Mapping[str, Any]

N_PARTS = 400
SAMPLES = (2, 3, 5, 10, 20, 30, 50, 100, 200, 500, 1000)


PHASES = columns(
    "phases",
    events=lambda row: int(row["events"]) if row["events"].is_integer() else row["events"],
    measured=lambda row: "yes" if row["is_relevant"] else "",
)
PLAN = columns("plan", use=lambda row: "warm-up" if row["is_warmup"] else "timed")
TIMES = columns("phase_times", ratio=lambda row: row[2] / row[3] if row[3] else None)
METHODS = {"phases": "a sample of each phase", "even": "an evenly spaced sample of the whole run"}


def view_phases(found: Row) -> Iterator[Block]:
    """The phases with their weights and shares, largest first."""
    colours = [colour_of(index) for index in range(len(found["phases"]))]
    yield Grid(
        f"Phases of {found['trace_id']}: {_repetition(found)}", PHASES, _by_share(found["phases"]), colours=colours
    )
    counted = {"unmatched": "unmatched messages", "open_receives": "receives that no call completes"}
    yield from (f"{number(found[name])} {what}" for name, what in counted.items() if name in found)
    yield f"{percent_3_digits(found['coverage'])} of the time is in phases to measure"
    yield from found["notes"]


def _by_share(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (-row["share"], row["phase_id"]))


def view_plan(found: Row) -> Iterator[Block]:
    """The plan: from which call to which, per rank."""
    yield Grid(f"Plan for {found['trace_id']}: {_repetition(found)}", PLAN, found["plan"])
    yield (
        f"{number(found['timed'])} occurrences timed after {number(found['warmups'])} of warm-up: "
        f"{percent_3_digits(found['set_share'])} of the run"
    )
    if found["standard_error"] is not None:
        yield f"Standard error of the reference run's own time: {percent_3_digits(found['standard_error'])}"
    yield from found["notes"]


def view_times(found: Row) -> Iterator[Block]:
    """How the timed occurrences of each phase compare with the reference."""
    sums: dict[int, tuple[int, float, float]] = {}
    for row in found["times"]:
        if not row["is_warmup"] and not row["is_control"]:
            n, time_s, here_s = sums.get(row["phase_id"], (0, 0.0, 0.0))
            sums[row["phase_id"]] = n + 1, time_s + row["time_s"], here_s + (row["reference_s"] or 0.0)
    cells = [(phase, *one) for phase, one in sorted(sums.items())]
    yield Grid(f"Times on {found['platform']} of {found['trace_id']}", TIMES, cells)
    yield f"Time spent measuring: {number(found['set_s'])} s, with {number(found['warmups'])} warm-ups"
    yield from found["notes"]


def view_prediction(found: Row) -> Iterator[Block]:
    """The runtime beside its status, intervals, cost and controls; what is unknown is left out."""
    shown = {
        "runtime, s": found["runtime_s"],
        "from": METHODS[found["method"]],
        "80% interval, s": _interval(found, "80"),
        "95% interval, s": _interval(found, "95"),
        "time covered by measured phases": percent_3_digits(found["coverage"]),
        "time spent measuring (SET), s": found["set_s"],
        "SET by runtime": percent_3_digits(found["set_share"]),
        "evenly spaced sample, s": found["control_s"],
        "control: one factor, s": found["control_factor_s"],
        "true runtime, s": found["measured_s"],
        "error": percent_3_digits(found["error"]),
    }
    title = f"{found['trace_id']} on {found['platform']}: {_repetition(found)}"
    yield Facts(title, {name: value for name, value in shown.items() if number(value)})
    yield from found.get("notes", ())


def _interval(facts: Row, share: str) -> str:
    low, high = facts[f"runtime_s_lo{share}"], facts[f"runtime_s_hi{share}"]
    return "" if low is None else between(low, high)


def _repetition(facts: Row) -> str:
    return "not repetitive, run it whole" if facts["status"] == "not_repetitive" else "repetitive"


def phases_page(found: Row, phases: pa.Table, points: pa.Table) -> str:
    """The page of what `phases find` found, with PHASES and PHASE_POINTS; the same tables give the same bytes.

    InputError where the reference run was not timed: the page has nothing else to draw.
    """
    from flows.pages.page import page_of  # noqa: PLC0415  (a terminal needs no templates)

    run = Occurrences.of(points)
    if not run.is_timed:
        raise InputError("--report", "intervals without times", "measured times of them", "give --times CSV too")
    n_ranks = run.rows.shape[1]
    intro = (
        f"The run is {_repetition(found)}. It took {number(float(run.time_s.sum()))} s on "
        f"{number(n_ranks)} {plural('rank', n_ranks)}. Phases are parts of the program that the run repeats. Timing "
        "some occurrences of each on another machine predicts the runtime there.",
    )
    index = {row["phase_id"]: at for at, row in enumerate(_by_share(found["phases"]))}
    colours = np.array([colour_of(index[phase]) for phase in run.phase.tolist()])
    blocks = (
        Heading("What the run repeats"),
        *view_phases(found),
        Detail([_whole(run, colours), _kept(phases), _errors(phases, points)]),
    )
    return page_of("Phases", found["trace_id"], blocks, intro, "Source: Wong, Rexachs and Luque 2014 (PAS2P).")


def _whole(found: Occurrences, colours: Any) -> Chart:
    """One lane for the whole run: the phase in the middle of each part of it."""
    ends_s = np.cumsum(found.time_s)
    edges_s = np.linspace(0, ends_s[-1], N_PARTS + 1)
    shown = colours[np.searchsorted(ends_s, (edges_s[1:] + edges_s[:-1]) / 2)]
    marks = []
    for colour in dict.fromkeys(shown.tolist()):
        begins_s, until_s = edges_s[:-1][shown == colour], edges_s[1:][shown == colour]
        marks.append(Bars(begins_s, until_s, np.full(len(begins_s), -0.4), np.full(len(begins_s), 0.4), colour))
    return Chart(
        f"The phase in each part of a run of {number(float(ends_s[-1]))} s.",
        [Panel(marks, Axis("time, s", ends=(0, ends_s[-1])), Axis(names={}), has_grid=False)],
        f"The phase in the middle of each of {N_PARTS} equal parts of the run.",
        title="The whole run",
        height=70,
    )


def _kept(phases: pa.Table) -> Chart:
    shares = np.cumsum(-np.sort(-phases.column("share").to_numpy()))
    return _curve(
        "Time kept by the largest phases",
        "Share of the time in so many phases: what is left of it when the others are removed.",
        f"Share of the time in the largest phases: {shares[0]:.0%} in the first of {len(shares):,}.",
        (np.arange(1, len(shares) + 1), shares),
        Axis("phases measured, largest first", is_whole=True),
        Axis("share of the time", percent_label, (0, 1.02)),
    )


def _errors(phases: pa.Table, points: pa.Table) -> Chart:
    errors = standard_errors(phases, points, list(SAMPLES))
    ends = f"{errors[0]:.2%} with {SAMPLES[0]} and {errors[-1]:.2%} with {SAMPLES[-1]:,}"
    return _curve(
        "Error against number of samples",
        "Standard error of the run's own time from so many occurrences of each measured phase, by their spread in "
        "this run.",
        f"Standard error by the number of occurrences timed per phase: {ends}.",
        (SAMPLES, errors),
        Axis("occurrences timed per phase", base=10, names={n: f"{n:,}" for n in SAMPLES}),
        Axis("standard error", percent_label, (0, None)),
    )


def _curve(title: str, caption: str, alt: str, points: tuple[Any, Any], x_axis: Axis, y_axis: Axis) -> Chart:
    marks: list[Mark] = [Line(*points, "best", 1.5), Dots(*points, "best")]
    return Chart(alt, [Panel(marks, x_axis, y_axis)], caption, title=title)
