"""What the commands on scaling answer: how many processors to ask for, runs beside predictions, and the laws fitted."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flows.pages.blocks import Block, Column, Detail, Grid, Heading, Lead, between, columns, number
from flows.pages.charts import Axis as ChartAxis
from flows.pages.charts import Band, Chart, Dots, Key, Line, Mark, Panel, percent_label, rule
from pipeline.arrays import Floats
from pipeline.laws import LAWS as SCALING_LAWS
from pipeline.scaling.advice import CostSettings, axis_of_series, cost_of
from pipeline.schema import MOST_EFFICIENCY, Axis, counted, plural

Row = Mapping[str, Any]
Rows = Sequence[Row]


def _with_interval(name: str) -> Callable[[Row], str]:
    """A parameter of a law, with its interval where one is known."""

    def shown(law: Row) -> str:
        low, high = law.get(f"{name}_lo"), law.get(f"{name}_hi")
        return number(law[name]) + ("" if low is high is None else f" ({between(low, high, '?')})")

    return shown


def _share_of_runs(percent: int) -> Callable[[Row], str]:
    """The interval of this share of runs."""
    low, high = f"runtime_s_lo{percent}", f"runtime_s_hi{percent}"
    return lambda row: "" if row.get(low) is None else between(row[low], row[high])


def _in_the_fit(row: Mapping[str, Any]) -> str:
    if row["n_jobs"] is None:
        return ""
    if row["fit_weight"] == 0:
        expected = f"; the other sizes predict {number(row['expected_s'])} s" if row["expected_s"] else ""
        return f"left out: {row['odd'] or 'odd'}{expected}"
    if row["runtime_s_median"] is None:
        return "no: most runs were cut off"
    return "yes" if row["fit_weight"] in (None, 1.0) else f"at {row['fit_weight']:.2g} of its weight"


PARAMETERS = ("t1_s", "avg_parallelism", "sigma", "serial_fraction", "wssre", "loo_log_rmse")
LAWS = columns(
    "laws",
    is_chosen=lambda law: "chosen" if law["is_chosen"] else "",
    **{name: _with_interval(name) for name in PARAMETERS},
)
PREDICTIONS = columns(
    "predictions",
    in_the_fit=_in_the_fit,
    of_80=_share_of_runs(80),
    of_95=_share_of_runs(95),
)
ACROSS = columns("across", of_80=_share_of_runs(80))
ENERGY = columns("energy", least=lambda row: ", ".join(row["least"]))
WEAK = columns("weak")


def over_axis(axis: Axis, shown: Sequence[Column]) -> tuple[Column, ...]:
    """The columns with the names that counts and hours of an axis have; nodes and price are of processors alone."""
    if axis is Axis.PROCS:
        return tuple(shown)
    named = {"procs": axis.units, "processor-hours": f"{axis.unit}-hours"}
    return tuple(
        replace(one, heading=named.get(one.heading, one.heading))
        for one in shown
        if one.heading not in ("nodes", "cost")
    )


def series_blocks(series: Rows, requested: Sequence[int] = ()) -> Iterator[Block]:
    """Every series: what to ask for, runs beside predictions, doubts, and last the statistics of the laws.

    `requested` are the counts of --predict.
    """
    for one in series:
        yield Heading(_title(one))
        yield from _one_series(one, requested)
        yield ""


def _title(one: Row) -> str:
    observed = one["observations"]
    n_runs, n_out = sum(row["n_jobs"] for row in observed), sum(row["fit_weight"] == 0 for row in observed)
    out = f", {n_out} of them left out of the fit" if n_out else ""
    sizes = f"{len(observed)} {plural('size', len(observed))}"
    return f"{one['series']}: {number(n_runs)} {plural('run', n_runs)} at {sizes}{out}"


def _one_series(one: Row, requested: Sequence[int] = (), *, asks: bool = True) -> Iterator[Block]:
    axis = axis_of_series(one)
    yield from _answer(one, asks=asks)
    yield series_chart(one)
    is_measured = "reliability" in one
    below = None if is_measured else lambda row: row["advice"] or ""
    yield Grid("Measured and predicted", over_axis(axis, PREDICTIONS), _measured_and_predicted(one), below=below)
    if is_measured:
        yield from _advice(one["predictions"] or one.get("curve", ()))
        yield from _doubts(one, requested)
        yield from _screening(one)
    else:
        yield from (row["words"] for row in one["patterns"] if row["words"])
    if across := one.get("across"):
        first = across[0]
        same = f"{first['same_application']:.0%}" if first["same_application"] is not None else "unknown"
        title = f"With the series of {first['base_group_id']}: {first['status']}, one application {same}"
        yield Grid(title, over_axis(axis, ACROSS), across)
    if one.get("energy"):
        yield Grid("Energy of the runs", over_axis(axis, ENERGY), one["energy"])
    if is_measured:
        yield from _scaling(one)
    yield Grid("Laws fitted", LAWS, one["laws"])


def _answer(one: Row, *, asks: bool) -> Iterator[Block]:
    """The recommendations, and before them the one count to ask for: that of the best trade-off."""
    lines = one.get("answer") or ["No runtime is known at any processor count."]
    if asks and one.get("choices"):
        count = counted(one["choices"][0]["procs"], axis_of_series(one))
        yield Lead(f"Ask for {count}.", f" {lines[0]}")
        lines = lines[1:]
    yield from lines


def _measured_and_predicted(one: Row) -> list[Row]:
    """A row for each count that ran or is predicted; gains are against the least count that ran."""
    rows: dict[int, dict[str, Any]] = {row["procs"]: dict(row) for row in one["observations"]}
    for row in with_gains(_every_prediction(one), base_of(one)):
        cost = {} if "nodes" in row else cost_of(row["procs"], row["runtime_s"], CostSettings())
        rows[row["procs"]] = rows.get(row["procs"], {}) | row | cost
    # What was not measured, or is not predicted, is unknown.
    return [defaultdict(lambda: None, rows[count]) for count in sorted(rows)]


def _every_prediction(one: Row) -> Rows:
    """The predictions at the counts that ran and at those asked for."""
    return [*one.get("fitted", ()), *one["predictions"]]


DENSE = 40
"""More predictions than this are a model's curve; fewer are answers at single counts, which no line may join."""
NEVER_RAN = 0.35
"""How strongly the interval of a count that never ran is drawn, against that of one that ran."""


def series_chart(one: Row) -> Chart:
    """The chart of a series, as series_as_dicts gives it: of its dense `curve`, or without one of its predictions.

    Left the runtimes that were measured and predicted, and those of the chosen law; right the predicted efficiencies.
    """
    axis, base = axis_of_series(one), base_of(one)
    ran = [row for row in one["observations"] if row["runtime_s_median"]]
    if len(one["observations"]) < 2 or not ran:
        return Chart("", ())
    curve = with_gains(one.get("curve") or _every_prediction(one), base)
    is_dense = len(curve) > DENSE
    marks, legend = _predicted(curve, ran, axis, is_dense=is_dense)
    chosen = next((row for row in one["laws"] if row["is_chosen"]), None)
    if chosen and curve:
        parameters = {name: np.array(value, np.float64) for name, value in chosen.items() if isinstance(value, float)}
        law_s = SCALING_LAWS[chosen["law"]].runtime_s(parameters, _values(curve, "procs"))
        marks.append(Line(_values(curve, "procs"), law_s, "cron", 1, "4 2"))
        legend.append(Key(f"chosen law: {chosen['law']}", "cron", "dashed"))
    runs, keys = _measured(ran, axis)
    units = axis.units
    panels = [
        Panel([*marks, *runs], ChartAxis(units, base=2, is_whole=True), ChartAxis("runtime, s", base=10), share=3),
        *([_efficiencies(curve, units, is_dense=is_dense)] if any(row["efficiency"] for row in curve) else []),
    ]
    right = f" Right: efficiency against {number(base['procs'])}." if base and len(panels) > 1 else ""
    caption = f"{'Left: runtime' if right else 'Runtime'} (s) by {units}, both axes logarithmic.{right}"
    ends = " and ".join(f"{number(row['runtime_s_median'])} s on {number(row['procs'])}" for row in (ran[0], ran[-1]))
    alt = f"Runtime and efficiency by {units}: {len(ran)} observed counts, median runtimes {ends}."
    return Chart(alt, panels, caption, [*keys, *legend], height=230)


def _predicted(curve: Rows, ran: Rows, axis: Axis, *, is_dense: bool) -> tuple[list[Mark], list[Key]]:
    """The predictions with their intervals, pale outside of the counts that ran."""
    least, most = ran[0]["procs"], ran[-1]["procs"]
    marks: list[Mark] = []
    for width, opacity in (("95", 0.18), ("80", 0.32)) if is_dense else ():
        ranges = ((0, least, NEVER_RAN), (least, most, 1.0), (most, np.inf, NEVER_RAN))
        for first, last, strength in ranges:
            rows = [row for row in curve if first <= row["procs"] <= last]
            low, high = (_values(rows, f"runtime_s_{end}{width}") for end in ("lo", "hi"))
            marks.append(Band(_values(rows, "procs"), low, high, opacity=opacity * strength))
    for row in () if is_dense else curve:
        strength = 1.0 if any(row["procs"] == one["procs"] for one in ran) else NEVER_RAN
        low, high = (_values([row, row], f"runtime_s_{end}80") for end in ("lo", "hi"))
        marks.append(Band(np.array([0.97, 1.03]) * row["procs"], low, high, opacity=0.5 * strength))
    titles = [
        f"{counted(row['procs'], axis)}: {number(row['runtime_s'])} s predicted, 80% of runs "
        f"{number(row['runtime_s_lo80'])} to {number(row['runtime_s_hi80'])} s"
        for row in curve
    ]
    procs, runtime_s = _values(curve, "procs"), _values(curve, "runtime_s")
    marks += [Line(procs, runtime_s, "kept", 1.6)] if is_dense else []
    marks.append(Dots(procs, runtime_s, "kept", 0 if is_dense else 4, titles))
    shown = "80% and 95%" if is_dense else "80%"
    return marks, [
        Key("predicted", "kept", "stroke" if is_dense else "\N{BLACK CIRCLE}"),
        Key(f"{shown} of new runs, paler at counts that never ran", "kept"),
    ]


def _measured(ran: Rows, axis: Axis) -> tuple[list[Mark], list[Key]]:
    """The medians of the runs, with the middle 80% of repeats; those that are left out of the fit are crosses."""
    marks: list[Mark] = []
    for row in ran:
        is_out, procs = row["fit_weight"] == 0, [row["procs"]]
        colour = "flurry" if is_out else "ink"
        took = f"{number(row['runtime_s_median'])} s, median of {number(row['n_jobs'])} runs"
        if row["runtime_s_q10"] and row["runtime_s_q90"]:
            marks.append(Line(procs * 2, [row["runtime_s_q10"], row["runtime_s_q90"]], colour))
        marks.append(
            Dots(procs, [row["runtime_s_median"]], colour, 2.5, [f"{counted(row['procs'], axis)}: {took}"], is_out)
        )
    legend = [Key("median of the runs, and the middle 80% of repeats", "ink")]
    is_any_out = any(row["fit_weight"] == 0 for row in ran)
    return marks, legend + [Key("left out of the fit", "flurry", "\N{MULTIPLICATION SIGN}")] * is_any_out


def _efficiencies(curve: Rows, units: str, *, is_dense: bool) -> Panel:
    procs, shares = _values(curve, "procs"), _values(curve, "efficiency")
    drawn = Line(procs, shares, "kept", 1.6) if is_dense else Dots(procs, shares, "kept", 4)
    rules = [rule(y=share, dash="2 3", colour="muted") for share in (0.5, 0.8)]
    y_axis = ChartAxis("efficiency", percent_label, (0, MOST_EFFICIENCY + 0.05))
    return Panel([drawn, *rules], ChartAxis(units, base=2, is_whole=True), y_axis, share=2)


def _values(rows: Rows, name: str) -> Floats:
    return np.array([np.nan if row[name] is None else row[name] for row in rows], np.float64)


def base_of(one: Row) -> Row | None:
    """The prediction at the least count that ran, which speed-ups on the page are against; None without one."""
    ran = {row["procs"] for row in one["observations"] if row["runtime_s_median"]}
    known = (row for row in _every_prediction(one) if row["procs"] in ran)
    return min(known, key=lambda row: row["procs"], default=None)


def with_gains(rows: Rows, base: Row | None) -> list[dict[str, Any]]:
    """The rows with speedup and efficiency against `base`, as ratios of the runtimes that the page shows.

    Both are None in all rows where an efficiency would exceed MOST_EFFICIENCY: the predictions then do not agree.
    """
    found = []
    for row in rows:
        gain = base["runtime_s"] / row["runtime_s"] if base and row["runtime_s"] else None
        share = gain * base["procs"] / row["procs"] if base and gain is not None else None
        found.append({**row, "speedup": gain, "efficiency": share})
    if max((row["efficiency"] for row in found if row["efficiency"] is not None), default=0.0) > MOST_EFFICIENCY:
        return [{**row, "speedup": None, "efficiency": None} for row in found]
    return found


UNFOLDED = 5
"""Series of a page that are open; the others are folded."""


def series_page(
    title: str, series: Rows, n_all: int | None = None, weak: Rows = (), doubt: str = "", asked: Row | None = None
) -> str:
    """The page of some series, as series_as_dicts gives them; the same series give the same bytes.

    The optional `curve` of a series holds predictions at enough counts to draw a line; without it the few predictions
    of the series are drawn as points.
    `n_all`: number of series, where the page shows only some. `weak`: weak-scaling series.
    `doubt`: a sentence on the whole run. `asked`: the application's row of the site's page, whose count the page asks
    for; without it each series asks for its own.
    """
    from flows.pages.page import page_of  # noqa: PLC0415  (a terminal needs no templates)

    hidden = max(0, (n_all or 0) - len(series))
    order = "those that gain from processors first, then those with most jobs; "
    more = f", {order}{number(hidden)} more are not shown" if hidden else ""
    intro: list[Block] = [
        f"{len(series)} series{more}. Intervals contain 80% or 95% of new runs, if the future is like the past; those "
        "of counts that never ran are paler.",
        doubt,
    ]
    if asked and asked["name"] is not None and asked["best_procs"] is not None:
        is_sure = asked["best_reliability"] == "ok"
        doubt = "" if is_sure else f" (low confidence: {asked['best_reliability']})"
        intro.append(Lead(f"Ask for {asked['best_count']}", f": {asked['best_why']} in its largest group{doubt}."))
    blocks: list[Block] = []
    for nth, one in enumerate(series):
        shown = _one_series(one, asks=asked is None)
        blocks += [Heading(_title(one)), *shown] if nth < UNFOLDED else [Detail(shown, _title(one))]
    return page_of("Walltime: how it scales", title, [*blocks, *weak_blocks(weak)], intro)


def weak_blocks(weak: Rows) -> Iterator[Block]:
    """Every weak-scaling series: its points, Gustafson's law, and runtimes at the requested counts."""
    for one in weak:
        yield Heading(f"{one['application']}: weak scaling, problem size in proportion")
        yield Grid("", WEAK, one["points"])
        law = f"Gustafson's law: serial fraction {one['serial_fraction']:.3f}, largest error {one['worst_miss']:.0%}."
        predicted = [f"{number(row['procs'])}: {number(row['runtime_s'])} s" for row in one["predictions"]]
        more = f" Its predictions, with the problem growing further: {', '.join(predicted)}." if predicted else ""
        yield law + more


def _doubts(one: Row, requested: Sequence[int]) -> Iterator[str]:
    """The reliability, and which requested counts are doubtful or cannot be predicted from a single size."""
    rows = one["predictions"]
    if one["reliability"]:
        largest = counted(one["observations"][-1]["procs"], axis_of_series(one))
        yield f"Reliability at {largest}: {one['reliability']}"
    if one["reliability"] == "ok" and (far := [number(row["procs"]) for row in rows if row["reliability"] != "ok"]):
        yield f"No reliable prediction at {', '.join(far)}: each row gives its reasons."
    answered = {row["procs"] for row in rows}
    if missing := [number(procs) for procs in requested if procs not in answered]:
        yield f"Not predicted at {', '.join(missing)}: runs on one count do not tell runtimes on others."


def _screening(one: Row) -> Iterator[str]:
    """Sentences on each odd size of a series, and the advice of every pattern."""
    for row in (row for row in one["observations"] if row["odd"]):
        expected = f"predict {number(row['expected_s'])} s" if row["expected_s"] else "differ"
        yield (
            f"Left out of the fits: {number(row['procs'])} {axis_of_series(one).units}, "
            f"{number(row['runtime_s_median'])} s. The other sizes {expected}; --no-screen keeps it."
        )
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
        yield f"No single law that gains from more {units} could be chosen."
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
