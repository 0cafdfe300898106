"""What the commands on scaling print."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from flows.pages.formats import between, fixed, number
from flows.pages.terminal.blocks import Block, Column, Grid, Lead, text
from flows.services.published.advice import omitted_groups_line
from pipeline.report import Report
from pipeline.scaling.advice import plural
from pipeline.scaling.scaling_rules import AnomalyRules

FASTER = 1.05
"""The least speedup that counts as a gain; a smaller one may be the scatter of the runs."""


def _parameter(heading: str, name: str) -> Column:
    """A parameter of a law, with its interval where one is known."""

    def written(law: Mapping[str, Any]) -> str:
        low, high = law.get(f"{name}_lo"), law.get(f"{name}_hi")
        is_known = low is not None or high is not None
        return number(law[name]) + (f" ({between(low, high, '?')})" if is_known else "")

    return Column(heading, written)


def _runs(percent: int, unbounded: str) -> Column:
    """The interval of this share of runs."""

    def written(row: Mapping[str, Any]) -> str:
        return between(row[f"runtime_s_lo{percent}"], row[f"runtime_s_hi{percent}"], unbounded)

    return Column(f"{percent}% of runs", written)


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


def view_series(
    series: Sequence[Mapping[str, Any]], *, is_screened: bool, requested: Sequence[int] = ()
) -> Iterator[Block]:
    """Every series; `requested` are the processor counts of --predict."""
    for one in series:
        observed = one["observations"]
        n_runs = sum(row["n_jobs"] for row in observed)
        counted = f"{n_runs} {plural('run', n_runs)} at {len(observed)} {plural('size', len(observed))}"
        yield Grid(f"{one['series']}: {counted}", LAWS, one["laws"])
        yield from screening_lines(one) if is_screened else ()
        yield from _scaling(one["scalability"], is_faster=_is_faster(one))
        if one["reliability"]:
            yield f"Reliability at {number(observed[-1]['procs'])} processors: {one['reliability']}"
        yield from (*doubt_lines(one), *missing_count_lines(one, requested))
        if one["predictions"]:
            yield Grid("Predictions", PREDICTIONS, one["predictions"])
            yield from advice_lines(one["predictions"])
        if one.get("across"):
            yield _across(one["across"])
        if one.get("energy"):
            yield Grid("Energy of the runs", ENERGY, one["energy"])
        yield from ("How many processors to request:", *one["answer"]) if one.get("answer") else ()
        yield ""


def view_weak(weak: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """Every weak-scaling series: its points, Gustafson's law, and runtimes at the requested counts."""
    for one in weak:
        yield Grid(f"{one['application']}: weak scaling, problem size in proportion", WEAK, one["points"])
        yield weak_scaling_sentences(one)


def weak_scaling_sentences(one: Mapping[str, Any]) -> str:
    """Gustafson's law of a weak-scaling series in sentences."""
    law = f"Gustafson's law: serial fraction {one['serial_fraction']:.3f}, largest error {one['worst_miss']:.0%}."
    predicted = [f"{number(row['procs'])}: {number(row['runtime_s'])} s" for row in one["predictions"]]
    return law + (f" Its predictions, with the problem growing further: {', '.join(predicted)}." if predicted else "")


def _across(rows: Sequence[Mapping[str, Any]]) -> Grid:
    first = rows[0]
    same = f"{first['same_application']:.0%}" if first["same_application"] is not None else "unknown"
    title = f"With the series of {first['base_group_id']}: {first['status']}, one application {same}"
    return Grid(title, ACROSS, rows)


def doubt_lines(one: Mapping[str, Any]) -> list[str]:
    """A line where the observed counts are reliable and none of the requested ones is."""
    rows = one["predictions"]
    is_worse = one["reliability"] == "ok" and rows and all(row["reliability"] != "ok" for row in rows)
    return ["Every requested count is doubtful: its row gives the reasons."] if is_worse else []


def missing_count_lines(one: Mapping[str, Any], requested: Sequence[int]) -> list[str]:
    """A line with the requested counts that a series of one size cannot predict."""
    answered = {row["procs"] for row in one["predictions"]}
    missing = [number(procs) for procs in requested if procs not in answered]
    return [f"Not predicted at {', '.join(missing)}: one size says nothing about another."] if missing else []


def _is_faster(one: Mapping[str, Any]) -> bool:
    """Whether any size ran faster than the smallest, or the prediction gains at a requested count."""
    measured = [row["runtime_s_median"] for row in one["observations"] if row["runtime_s_median"]]
    falls = len(measured) > 1 and measured[0] > FASTER * min(measured)
    return falls or any(row["speedup"] is not None and row["speedup"] > FASTER for row in one["predictions"])


def screening_lines(one: Mapping[str, Any]) -> list[str]:
    """Lines on each odd size of a series, or on why there is none, and the advice of every pattern."""
    lines = [_odd(row) for row in one["observations"] if row["odd"]]
    return [*(lines or [_why_none_is_odd(one)]), *(row["words"] for row in one["patterns"] if row["words"])]


def _odd(row: Mapping[str, Any]) -> str:
    found = f"Left out of the fits: {number(row['procs'])} processors, {number(row['runtime_s_median'])} s."
    expected = (
        f"The other sizes predict {number(row['expected_s'])} s" if row["expected_s"] else "The other sizes differ"
    )
    return f"{found} {expected}; --no-screen keeps it."


def _why_none_is_odd(one: Mapping[str, Any]) -> str:
    n_sizes, least = len(one["observations"]), AnomalyRules().min_points
    if n_sizes < least:
        return f"Odd sizes: not searched for below {least} sizes."
    is_wide = any(row["status"] == "wide_group" for row in one["patterns"])
    return (
        "Odd sizes: not searched for, as repeated runs differ too much."
        if is_wide
        else f"Odd sizes: none of {n_sizes}."
    )


def advice_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each sentence of advice once, with its processor counts."""
    counts: dict[str, list[str]] = {}
    for row in rows:
        if row["advice"]:
            counts.setdefault(row["advice"], []).append(number(row["procs"]))
    return [f"At {', '.join(procs)}: {sentence}" for sentence, procs in counts.items()]


def _scaling(found: Mapping[str, Any] | None, *, is_faster: bool) -> list[str]:
    if found is None and is_faster:
        return ["No single law that gains from more processors could be chosen. The average of all laws gains."]
    if found is None:
        return [f"No law here gains {FASTER - 1:.0%} or more from more processors."]
    largest, working = found["largest_useful_procs"], found["working_set_procs"]
    useful = f"{number(int(largest))} processors" if largest else "not bounded by the chosen law"
    efficient = (
        f"{number(working)} (speedup {number(found['working_set_speedup'])}, "
        f"efficiency {number(found['working_set_efficiency'])})"
        if working
        else "beyond what was searched"
    )
    named = (("fastest", "time_optimal_procs"), *((f"{e}% efficient up to", f"efficiency_{e}_procs") for e in (80, 50)))
    known = [f"{words} {number(int(found[name]))}" for words, name in named if found[name]]
    return [
        f"Largest useful allocation by the chosen law: {useful}",
        f"Processor working set: {efficient}",
        *([f"By the average of all laws: {', '.join(known)} processors"] if known else []),
        *([found["advice"]] if found["advice"] else []),
    ]


def view_errors(rows: Sequence[Mapping[str, Any]], report: Report) -> Iterator[Block]:
    """Median absolute errors; in brackets those of near targets, where larger sizes are predicted."""
    splits = list(dict.fromkeys(row["split"] for row in rows))
    cells = {(row["predictor"], row["split"]): row for row in rows}
    names = dict.fromkeys(row["predictor"] for row in rows)
    found = [(mean_pct(rows, name), name, *(cells[name, split] for split in splits)) for name in names]
    columns = [
        text("predictor", 1),
        *(Column(split, place, _error) for place, split in enumerate(splits, 2)),
        Column("mean", 0, _pct),
    ]
    counts = f"{report.kept.rows} of {report.seen.rows} series"
    title = f"Median |predicted/measured - 1|, %; (up to 4 times the largest size given); {counts}"
    yield Grid(title, columns, sorted(found, key=lambda one: float("inf") if one[0] is None else one[0]))


def mean_pct(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """The mean of a predictor's medians, including those of near targets; None where one is unknown."""
    own = [row for row in rows if row["predictor"] == name]
    values = [row["median_abs_error_pct"] for row in own]
    values += [row["near_median_abs_error_pct"] for row in own if _has_near(row)]
    return None if any(value is None for value in values) else float(np.mean(values))


def _has_near(row: Mapping[str, Any]) -> bool:
    return bool(row["n_near"]) and row["split"].endswith("smallest")


def _error(row: Mapping[str, Any]) -> str:
    near = f" ({_pct(row['near_median_abs_error_pct'])})" if _has_near(row) else ""
    return _pct(row["median_abs_error_pct"]) + near


def _pct(value: float | None) -> str:
    return fixed(value, 1) or "-"


def view_advice(found: Mapping[str, Any]) -> Iterator[Block]:
    """The recommendation of each group, then notes on the whole run."""
    for group in found["groups"]:
        jobs, sizes = (f"{number(group[f'n_{what}s'])} {plural(what, group[f'n_{what}s'])}" for what in ("job", "size"))
        yield Lead(group["label"], f" ({jobs} at {sizes}; group {group['group_id']})")
        yield from (f"  {line}" for line in group["answer"] or ["No runtime is known on any count."])
    yield from filter(None, (omitted_groups_line(found["groups"], found["n_groups"]), *found["notes"]))
