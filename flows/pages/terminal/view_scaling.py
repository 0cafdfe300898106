"""What the commands on scaling print."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flows.pages.formats import between, fixed, number, plain
from flows.pages.terminal.blocks import Block, Column, Grid, Lead, text
from pipeline.axes import Axis, plural
from pipeline.report import Report
from pipeline.scaling.advice import axis_of_series
from pipeline.scaling.rules import ScreenRules

Row = Mapping[str, Any]
Rows = Sequence[Row]

FASTER = 1.05
"""The least speedup that counts as a gain; a smaller one may be the scatter of the runs."""


def _parameter(heading: str, name: str) -> Column:
    """A parameter of a law, with its interval where one is known."""
    return Column(heading, lambda law: (law[name], law.get(f"{name}_lo"), law.get(f"{name}_hi")), _with_interval)


def _with_interval(ends: tuple[float | None, float | None, float | None]) -> str:
    value, low, high = ends
    return number(value) + ("" if low is high is None else f" ({between(low, high, '?')})")


def _runs(percent: int, unbounded: str) -> Column:
    """The interval of this share of runs."""
    low, high = f"runtime_s_lo{percent}", f"runtime_s_hi{percent}"
    return Column(f"{percent}% of runs", lambda row: between(row[low], row[high], unbounded))


LAWS = (
    text("law"),
    text("status"),
    _parameter("T(1) s", "t1_s"),
    _parameter("A", "avg_parallelism"),
    _parameter("sigma", "sigma"),
    _parameter("serial fraction", "serial_fraction"),
    _parameter("WSSRE", "wssre"),
    _parameter("leave-one-out", "loo_log_rmse"),
    Column("", lambda law: "chosen" if law["is_chosen"] else ""),
)
PREDICTIONS = (
    Column("procs"),
    Column("nodes", lambda row: row.get("nodes")),
    Column("runtime s", "runtime_s"),
    _runs(80, "no bound"),
    _runs(95, "no bound"),
    Column("speedup"),
    Column("efficiency"),
    Column("processor-hours", lambda row: row.get("proc_hours")),
    Column("cost", lambda row: row.get("price")),
    text("reliability"),
)
ACROSS = (
    Column("procs"),
    Column("runtime s", "runtime_s"),
    _runs(80, ""),
    Column("own points alone s", "own_s"),
    Column("constant ratio s", "ratio_s"),
)
ENERGY = (
    Column("procs"),
    Column("energy J", "energy_j"),
    Column("energy-delay J s", "energy_delay_js"),
    Column("least", form=", ".join),
)
WEAK = (
    Column("procs"),
    Column("runtime s", "runtime_s"),
    Column("weak efficiency", "efficiency"),
    Column("scaled speedup", "scaled_speedup"),
)


def over_axis(axis: Axis, columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns with the names that counts and hours of an axis have; nodes and price are of processors alone."""
    if axis is Axis.PROCS:
        return tuple(columns)
    named = {"procs": axis.value, "processor-hours": f"{axis.unit}-hours"}
    return tuple(
        replace(one, heading=named.get(one.heading, one.heading), value=one.value or one.heading)
        for one in columns
        if one.heading not in ("nodes", "cost")
    )


def view_series(series: Rows, *, is_screened: bool, requested: Sequence[int] = ()) -> Iterator[Block]:
    """Every series; `requested` are the processor counts of --predict."""
    for one in series:
        observed, axis = one["observations"], axis_of_series(one)
        n_runs = sum(row["n_jobs"] for row in observed)
        counted = f"{n_runs} {plural('run', n_runs)} at {len(observed)} {plural('size', len(observed))}"
        yield Grid(f"{one['series']}: {counted}", LAWS, one["laws"])
        yield from _screening(one) if is_screened else ()
        yield from _scaling(one)
        yield from _doubts(one, requested)
        if one["predictions"]:
            yield Grid("Predictions", over_axis(axis, PREDICTIONS), one["predictions"])
            yield from _advice(one["predictions"])
        if one.get("across"):
            yield _across(one["across"], axis)
        if one.get("energy"):
            yield Grid("Energy of the runs", over_axis(axis, ENERGY), one["energy"])
        yield from (f"How many {axis.units} to request:", *one["answer"]) if one.get("answer") else ()
        yield ""


def view_weak(weak: Rows) -> Iterator[Block]:
    """Every weak-scaling series: its points, Gustafson's law, and runtimes at the requested counts."""
    for one in weak:
        yield Grid(f"{one['application']}: weak scaling, problem size in proportion", WEAK, one["points"])
        yield weak_scaling_sentences(one)


def weak_scaling_sentences(one: Row) -> str:
    """Gustafson's law of a weak-scaling series in sentences."""
    law = f"Gustafson's law: serial fraction {one['serial_fraction']:.3f}, largest error {one['worst_miss']:.0%}."
    predicted = [f"{number(row['procs'])}: {number(row['runtime_s'])} s" for row in one["predictions"]]
    return law + (f" Its predictions, with the problem growing further: {', '.join(predicted)}." if predicted else "")


def _across(rows: Rows, axis: Axis) -> Grid:
    first = rows[0]
    same = f"{first['same_application']:.0%}" if first["same_application"] is not None else "unknown"
    title = f"With the series of {first['base_group_id']}: {first['status']}, one application {same}"
    return Grid(title, over_axis(axis, ACROSS), rows)


def _doubts(one: Row, requested: Sequence[int]) -> Iterator[str]:
    """The reliability, and which requested counts are doubtful or cannot be predicted from a single size."""
    rows = one["predictions"]
    if one["reliability"]:
        largest = number(one["observations"][-1]["procs"])
        yield f"Reliability at {largest} {axis_of_series(one).units}: {one['reliability']}"
    if one["reliability"] == "ok" and (far := [number(row["procs"]) for row in rows if row["reliability"] != "ok"]):
        yield f"No reliable prediction at {', '.join(far)}: each row gives its reasons."
    answered = {row["procs"] for row in rows}
    if missing := [number(procs) for procs in requested if procs not in answered]:
        yield f"Not predicted at {', '.join(missing)}: one size says nothing about another."


def _screening(one: Row) -> Iterator[str]:
    """Sentences on each odd size of a series, or on why there is none, and the advice of every pattern."""
    n_sizes, least = len(one["observations"]), ScreenRules().min_points
    units = axis_of_series(one).units
    odd = [row for row in one["observations"] if row["odd"]]
    for row in odd:
        expected = f"predict {number(row['expected_s'])} s" if row["expected_s"] else "differ"
        yield (
            f"Left out of the fits: {number(row['procs'])} {units}, {number(row['runtime_s_median'])} s. "
            f"The other sizes {expected}; --no-screen keeps it."
        )
    if n_sizes < least and not odd:
        yield f"Odd sizes: not searched for below {least} sizes."
    elif not odd:
        is_wide = any(row["status"] == "wide_group" for row in one["patterns"])
        why = "not searched for, as repeated runs differ too much" if is_wide else f"none of {n_sizes}"
        yield f"Odd sizes: {why}."
    yield from (row["words"] for row in one["patterns"] if row["words"])


def _advice(rows: Rows) -> list[str]:
    """Each sentence of advice once, with its processor counts."""
    counts: dict[str, list[str]] = {}
    for row in rows:
        if row["advice"]:
            counts.setdefault(row["advice"], []).append(number(row["procs"]))
    return [f"At {', '.join(procs)}: {sentence}" for sentence, procs in counts.items()]


def _scaling(one: Row) -> Iterator[str]:
    """How many processors help, by the chosen law and by the average of all laws."""
    found, axis = one["scalability"], axis_of_series(one)
    unit, units = axis.unit, axis.units
    if found is None or found["law"] == "constant":
        yield (
            f"No single law that gains from more {units} could be chosen. The average of all laws gains."
            if found or _is_faster(one)
            else f"No law here gains {FASTER - 1:.0%} or more from more {units}."
        )
    else:
        largest, working = found["largest_useful_procs"], found["working_set_procs"]
        useful = f"{number(int(largest))} {units}" if largest else "not bounded by the chosen law"
        yield f"Largest useful allocation by the chosen law: {useful}"
        speedup, efficiency = (number(found[f"working_set_{name}"]) for name in ("speedup", "efficiency"))
        set_of = f"{number(working)} (speedup {speedup}, efficiency {efficiency})"
        yield f"{unit[0].upper()}{unit[1:]} working set: {set_of if working else 'beyond what was searched'}"
    if found is None:
        return
    named = {"fastest": "time_optimal", "80% efficient up to": "efficiency_80", "50% efficient up to": "efficiency_50"}
    counts = {words: found[f"{name}_procs"] for words, name in named.items()}
    if known := [f"{words} {number(int(procs))}" for words, procs in counts.items() if procs]:
        yield f"By the average of all laws: {', '.join(known)} {units}"
    if found["advice"]:
        yield found["advice"]


def _is_faster(one: Row) -> bool:
    """Whether any size ran faster than the smallest, or the prediction gains at a requested count."""
    measured = [row["runtime_s_median"] for row in one["observations"] if row["runtime_s_median"]]
    falls = len(measured) > 1 and measured[0] > FASTER * min(measured)
    return falls or any(row["speedup"] is not None and row["speedup"] > FASTER for row in one["predictions"])


def view_errors(rows: Rows, report: Report) -> Iterator[Block]:
    """Median absolute errors; in brackets those of near targets, where larger sizes are predicted; last their mean."""
    splits = list(dict.fromkeys(row["split"] for row in rows))
    names = dict.fromkeys(row["predictor"] for row in rows)
    found = [_errors([row for row in rows if row["predictor"] == name]) for name in names]
    columns = (text("predictor"), *(Column(split, split, plain) for split in splits), Column("mean", form=_pct))
    counts = f"{report.kept.rows} of {report.seen.rows} series"
    title = f"Median |predicted/measured - 1|, %; (up to 4 times the largest size given); {counts}"
    yield Grid(title, columns, sorted(found, key=lambda one: float("inf") if one["mean"] is None else one["mean"]))


def _errors(own: Rows) -> dict[str, Any]:
    """A predictor's errors by split, and the mean of them all; None where one is unknown."""
    found: dict[str, Any] = {"predictor": own[0]["predictor"]}
    every = []
    for row in own:
        error, near = row["median_abs_error_pct"], row["near_median_abs_error_pct"]
        has_near = row["n_near"] and row["split"].endswith("smallest")
        found[row["split"]] = _pct(error) + (f" ({_pct(near)})" if has_near else "")
        every += [error, near] if has_near else [error]
    return found | {"mean": None if None in every else float(np.mean(every))}


def _pct(value: float | None) -> str:
    return fixed(value, 1) or "-"


def view_advice(found: Row) -> Iterator[Block]:
    """The recommendation of each group, then notes on the whole run."""
    for group in found["groups"]:
        jobs, sizes = (f"{number(group[f'n_{what}s'])} {plural(what, group[f'n_{what}s'])}" for what in ("job", "size"))
        yield Lead(group["label"], f" ({jobs} at {sizes}; group {group['group_id']})")
        yield from (f"  {line}" for line in group["answer"] or ["No runtime is known on any count."])
    yield from filter(None, (_omitted_line(found["groups"], found["n_groups"]), *found["notes"]))


def _omitted_line(listed: Rows, n_all: int) -> str:
    """A line on the matching groups that are not listed; empty where all are."""
    left = n_all - len(listed)
    return f"{left:,} more groups match; name more of their values, or --group ID." if left > 0 else ""
