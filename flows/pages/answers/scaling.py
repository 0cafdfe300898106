"""What the commands on scaling answer: how many processors to ask for, runs beside predictions, and the laws fitted."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flows.pages.answers.series_chart import base_of, series_chart, with_gains
from flows.pages.formats import between, fixed, number, plain
from flows.pages.terminal.blocks import Block, Column, Detail, Facts, Grid, Heading, Lead, text
from pipeline.axes import Axis, counted, plural
from pipeline.report import Report
from pipeline.scaling.advice import CostSettings, axis_of_series, cost_of
from pipeline.scaling.screens import ScreenRules

Row = Mapping[str, Any]
Rows = Sequence[Row]

FASTER = 1.05
"""The least speedup that counts as a gain; a smaller one may be the scatter of the runs."""


def _parameter(heading: str, name: str, told: str = "") -> Column:
    """A parameter of a law, with its interval where one is known."""
    return Column(
        heading, lambda law: (law[name], law.get(f"{name}_lo"), law.get(f"{name}_hi")), _with_interval, told=told
    )


def _with_interval(ends: tuple[float | None, float | None, float | None]) -> str:
    value, low, high = ends
    return number(value) + ("" if low is high is None else f" ({between(low, high, '?')})")


def _runs(percent: int, unbounded: str) -> Column:
    """The interval of this share of runs."""
    low, high = f"runtime_s_lo{percent}", f"runtime_s_hi{percent}"
    told = "the interval that holds this share of new runs, if the future is like the past"
    return Column(
        f"{percent}% of runs",
        lambda row: "" if row.get(low) is None else between(row[low], row[high], unbounded),
        told=told,
    )


def _in_the_fit(row: Mapping[str, Any]) -> str:
    if row["n_jobs"] is None:
        return ""
    if row["fit_weight"] == 0:
        expected = f"; the other sizes predict {number(row['expected_s'])} s" if row["expected_s"] else ""
        return f"left out: {row['odd'] or 'odd'}{expected}"
    if row["runtime_s_median"] is None:
        return "no: most runs were cut off"
    return "yes" if row["fit_weight"] in (None, 1.0) else f"at {row['fit_weight']:.2g} of its weight"


LAWS = (
    text("law", told="the formula fitted"),
    text("status", told="ok, or why the fit is uncertain"),
    _parameter("T(1) s", "t1_s", "runtime on one processor, by the law"),
    _parameter("A", "avg_parallelism", "average parallelism: speedup on unlimited processors, by Downey's laws"),
    _parameter("sigma", "sigma", "0: a sharp bend of the speedup; larger: a gradual one"),
    _parameter("serial fraction", "serial_fraction", "share of the work that only one processor does"),
    _parameter("WSSRE", "wssre", "ADEPT's sum of weighted squared relative errors"),
    _parameter("leave-one-out", "loo_log_rmse",
               "typical error on a size that the fit did not see (log s; 0.1 is about 10%)"),
    Column("", lambda law: "chosen" if law["is_chosen"] else ""),
)  # fmt: skip
PREDICTIONS = (
    Column("procs"),
    Column("runs", "n_jobs"),
    Column("measured s", "runtime_s_median", told="median of the runs; runs stopped at their limit count as longer"),
    Column("10% s", "runtime_s_q10", told="a tenth of the runs took less", is_detail=True),
    Column("90% s", "runtime_s_q90", told="nine tenths of the runs took less", is_detail=True),
    text("in the fit", _in_the_fit, is_detail=True,
         told="whether the laws are fitted to this count, or why not"),
    Column("predicted s", "runtime_s", told="median of new runs"),
    _runs(80, "no bound"),
    _runs(95, "no bound"),
    Column("speedup", told="runtime on the least count that ran over that on this one"),
    Column("efficiency", told="speedup times the least count that ran, over this one"),
    Column("nodes", told="whole nodes charged"),
    Column("processor-hours", "proc_hours", told="processors charged times hours"),
    Column("cost", "price", told="processor-hours times the rate given"),
    text("reliability", told="ok, or why the row is doubtful"),
    text("meaning", "advice", is_detail=True, told="what the reliability means, or what to do about it", limit=500),
)  # fmt: skip
ACROSS = (
    Column("procs"),
    Column("runtime s", "runtime_s"),
    _runs(80, ""),
    Column("own points alone s", "own_s", told="model average of the series' own points"),
    Column("constant ratio s", "ratio_s", told="the base's curve times one factor"),
)
ENERGY = (
    Column("procs"),
    Column("energy J", "energy_j", told="median of the runs whose energy was measured"),
    Column(
        "energy-delay J s",
        "energy_delay_js",
        told="energy times runtime: small for a run that is fast and uses little energy",
    ),
    text("least", form=", ".join),
)
WEAK = (
    Column("procs"),
    Column("runtime s", "runtime_s"),
    Column(
        "weak efficiency",
        "efficiency",
        told="with a problem that grows with the processors: T(smallest)/T(n); 1 is ideal",
    ),
    Column(
        "scaled speedup",
        "scaled_speedup",
        told="times the work per second of the smallest count; Gustafson's law predicts it",
    ),
)


def over_axis(axis: Axis, columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns with the names that counts and hours of an axis have; nodes and price are of processors alone."""
    if axis is Axis.PROCS:
        return tuple(columns)
    named = {"procs": axis.units, "processor-hours": f"{axis.unit}-hours"}
    return tuple(
        replace(one, heading=named.get(one.heading, one.heading), value=one.value or one.heading)
        for one in columns
        if one.heading not in ("nodes", "cost")
    )


def series_blocks(series: Rows, *, is_screened: bool = True, requested: Sequence[int] = ()) -> Iterator[Block]:
    """Every series: what to ask for, runs beside predictions, doubts, and last the statistics of the laws.

    `requested` are the counts of --predict.
    """
    for one in series:
        yield Heading(_title(one))
        yield from _one_series(one, is_screened=is_screened, requested=requested)
        yield ""


def _title(one: Row) -> str:
    observed = one["observations"]
    n_runs, n_out = sum(row["n_jobs"] for row in observed), sum(row["fit_weight"] == 0 for row in observed)
    out = f", {n_out} of them left out of the fit" if n_out else ""
    sizes = f"{len(observed)} {plural('size', len(observed))}"
    return f"{one['series']}: {number(n_runs)} {plural('run', n_runs)} at {sizes}{out}"


def _one_series(
    one: Row, *, is_screened: bool = True, requested: Sequence[int] = (), asks: bool = True
) -> Iterator[Block]:
    axis = axis_of_series(one)
    yield from _answer(one, asks=asks)
    yield series_chart(one)
    yield Grid("Measured and predicted", over_axis(axis, PREDICTIONS), _measured_and_predicted(one))
    is_measured, rows = "reliability" in one, one["predictions"] or one.get("curve", ())
    if is_measured:
        yield from _advice(rows)
        yield from _doubts(one, requested)
        yield from _screening(one) if is_screened else ()
    else:
        # Of a log the table has the advice of each row.
        yield from [row["advice"] for row in rows if row["advice"]][:1]
        yield from (row["words"] for row in one["patterns"] if row["words"])
    if one.get("across"):
        yield _across(one["across"], axis)
    if one.get("energy"):
        yield Grid("Energy of the runs", over_axis(axis, ENERGY), one["energy"])
    if is_measured:
        yield from _scaling(one)
    yield Grid("Laws fitted", LAWS, one["laws"])


def _answer(one: Row, *, asks: bool) -> Iterator[Block]:
    """The recommendations, and before them the one count to ask for: that of the best trade-off."""
    lines = one.get("answer") or ["No runtime is known on any count."]
    if asks and one.get("choices"):
        count = counted(one["choices"][0]["procs"], axis_of_series(one))
        yield Lead(f"Ask for {count}.", f" {lines[0]}")
        lines = lines[1:]
    yield from lines


def _measured_and_predicted(one: Row) -> list[Row]:
    """A row for each count that ran or is predicted; gains are against the least count that ran."""
    rows = with_gains([*one.get("fitted", ()), *one["predictions"]], base_of(one))
    predicted = {row["procs"]: _with_cost(row) for row in rows}
    ran = {row["procs"]: row for row in one["observations"]}
    # What was not measured, or is not predicted, is unknown.
    both = (ran.get(n, {}) | predicted.get(n, {}) for n in sorted({*ran, *predicted}))
    return [defaultdict(lambda: None, row) for row in both]


def _with_cost(row: Row) -> Row:
    return row if "nodes" in row else {**row, **cost_of(row["procs"], row["runtime_s"], CostSettings())}


UNFOLDED = 5
"""Series of a page that are open; the others are folded."""

GLOSSARY = {one.heading: one.told for one in (*PREDICTIONS, *ENERGY, *WEAK, *LAWS) if one.told} | {
    "best trade-off, cheapest, fastest": (
        "the counts of least cost times runtime, of least processor-hours, and of least runtime; a larger count must "
        "be better by 5% and by more than the noise of the runs"
    ),
    "reliability": (
        "where a log was read, one word. ok: the 80% interval contained 70 to 90% of at least 20 later runs, and "
        "spans at most 2.5 times (one that spans at most 1.1 times may contain all); wide: it contained them, and "
        "spans more; missed: it contained fewer or more; few: fewer than 20 later runs; far: a count outside those "
        "that ran, predicted by the law; broken: no run, and the law misses a count that ran by more than 10%. "
        "Without a log the doubts about the law: wide (the 80% interval spans more than 1.5 times), one_size (it ran "
        "on one count only), wide_group (its jobs differ too much), tail_unidentified (runtime still falls at the "
        "largest count), runner_up (laws that fit about as well differ), few_sizes (too few counts), off_law "
        "(the law misses what ran here), high_error (the law misses one of the counts of its fit by more than 10%), "
        "far (more than twice outside of fewer than five counts), unbounded (no run bounds the runtime there)"
    ),
}


def series_page(
    title: str, series: Rows, n_all: int | None = None, weak: Rows = (), doubt: str = "", asked: Row | None = None
) -> str:
    """The page of some series, as series_as_dicts gives them; the same series give the same bytes.

    The optional `curve` of a series holds predictions dense enough to draw; without it its predictions are drawn.
    `n_all`: number of series, where the page shows only some. `weak`: weak-scaling series.
    `doubt`: a sentence on the whole run. `asked`: the application's row of the site's page, whose count the page asks
    for; without it each series asks for its own.
    """
    from flows.pages.html.page import page_of  # noqa: PLC0415  (a terminal needs no templates)

    hidden = max(0, (n_all or 0) - len(series))
    order = "those that gain from processors first, then those with most jobs; "
    more = f", {order}{number(hidden)} more are not shown" if hidden else ""
    intro: list[Block] = [
        f"{len(series)} series{more}. Bands contain 80% or 95% of new runs, if the future is like the past; those of "
        "counts that never ran are paler.",
        doubt,
    ]
    if asked and asked["name"] is not None and asked["best_procs"] is not None:
        is_sure = asked["best_reliability"] == "ok"
        guess, doubtful = (
            ("", "") if is_sure else (" as a first guess", f" (low confidence: {asked['best_reliability']})")
        )
        count = f"Ask for {number(asked['best_procs'])}"
        intro.append(Lead(count, f"{guess}: {asked['best_why']} in its largest group{doubtful}."))
    return page_of("Walltime: how it scales", title, _page_blocks(series, weak, asks=asked is None), intro)


def _page_blocks(series: Rows, weak: Rows, *, asks: bool) -> Iterator[Block]:
    for nth, one in enumerate(series):
        if nth < UNFOLDED:
            yield Heading(_title(one))
            yield from _one_series(one, asks=asks)
        else:
            yield Detail(_one_series(one, asks=asks), _title(one))
    yield from weak_blocks(weak)
    yield Detail([Facts("", GLOSSARY)], "Glossary")


def weak_blocks(weak: Rows) -> Iterator[Block]:
    """Every weak-scaling series: its points, Gustafson's law, and runtimes at the requested counts."""
    for one in weak:
        yield Heading(f"{one['application']}: weak scaling, problem size in proportion")
        yield Grid("", WEAK, one["points"])
        yield _weak_scaling_sentences(one)


def _weak_scaling_sentences(one: Row) -> str:
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
        yield f"Not predicted at {', '.join(missing)}: runs on one count do not tell runtimes on others."


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
