"""What the commands on scaling print."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from flows.pages.terminal.render import console, grid, number, say
from flows.services.published.advice import omitted_groups_line
from pipeline.report import Report
from pipeline.scaling.advice import plural
from pipeline.scaling.scaling_rules import AnomalyRules

FASTER = 1.05
"""The least speedup that counts as a gain; a smaller one may be the scatter of the runs."""

_LAW_COLUMNS = ("t1_s", "avg_parallelism", "sigma", "serial_fraction", "wssre", "loo_log_rmse")
_WEAK_COLUMNS = ("procs", "runtime_s", "efficiency", "scaled_speedup")
_LAW_HEADER = ("law", "status", "T(1) s", "A", "sigma", "serial fraction", "WSSRE", "leave-one-out", "")


def print_series(series: Sequence[Mapping[str, Any]], *, is_screened: bool, requested: Sequence[int] = ()) -> None:
    """Print every series; `requested` are the processor counts of --predict."""
    out = console()
    for one in series:
        out.print(_laws(one))
        for line in screening_lines(one) if is_screened else ():
            out.print(say(line, 500), soft_wrap=True)
        out.print(_scaling(one["scalability"], is_faster=_is_faster(one)))
        if one["reliability"]:
            out.print(
                f"Reliability at {number(one['observations'][-1]['procs'])} processors: {say(one['reliability'])}"
            )
        for line in (*doubt_lines(one), *missing_count_lines(one, requested)):
            out.print(line, soft_wrap=True)
        if one["predictions"]:
            out.print(_predictions(one["predictions"]))
            for line in advice_lines(one["predictions"]):
                out.print(say(line, 500), soft_wrap=True)
        if one.get("across"):
            out.print(_across(one["across"]))
        if one.get("energy"):
            out.print(_energy(one["energy"]))
        for line in ("How many processors to request:", *one["answer"]) if one.get("answer") else ():
            out.print(say(line, 500), soft_wrap=True)
        out.print()


def print_weak(weak: Sequence[Mapping[str, Any]]) -> None:
    """Print every weak-scaling series: its points, Gustafson's law, and runtimes at the requested counts."""
    out, header = console(), ("procs", "runtime s", "weak efficiency", "scaled speedup")
    for one in weak:
        cells = [tuple(number(row[name]) for name in _WEAK_COLUMNS) for row in one["points"]]
        out.print(grid(f"{say(one['application'])}: weak scaling, problem size in proportion", header, cells, texts=0))
        out.print(weak_scaling_sentences(one), soft_wrap=True)


def weak_scaling_sentences(one: Mapping[str, Any]) -> str:
    """Gustafson's law of a weak-scaling series in sentences."""
    law = f"Gustafson's law: serial fraction {one['serial_fraction']:.3f}, largest error {one['worst_miss']:.0%}."
    predicted = [f"{number(row['procs'])}: {number(row['runtime_s'])} s" for row in one["predictions"]]
    return law + (f" Its predictions, with the problem growing further: {', '.join(predicted)}." if predicted else "")


def _energy(rows: Sequence[Mapping[str, Any]]) -> Table:
    cells = [
        (number(row["procs"]), number(row["energy_j"]), number(row["energy_delay_js"]), ", ".join(row["least"]))
        for row in rows
    ]
    return grid("Energy of the runs", ("procs", "energy J", "energy-delay J s", "least"), cells, texts=0)


def _across(rows: Sequence[Mapping[str, Any]]) -> Table:
    first = rows[0]
    same = f"{first['same_application']:.0%}" if first["same_application"] is not None else "unknown"
    title = f"With the series of {say(first['base_group_id'])}: {say(first['status'])}, one application {same}"
    header = ("procs", "runtime s", "80% of runs", "own points alone s", "constant ratio s")
    cells = [
        (
            number(row["procs"]),
            number(row["runtime_s"]),
            f"{number(row['runtime_s_lo80'])} to {number(row['runtime_s_hi80'])}",
            number(row["own_s"]),
            number(row["ratio_s"]),
        )
        for row in rows
    ]
    return grid(title, header, cells, texts=0)


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


def _laws(one: Mapping[str, Any]) -> Table:
    observations = one["observations"]
    jobs = sum(row["n_jobs"] for row in observations)
    rows = [
        (say(law["law"]), say(law["status"]), *(_parameter(law, name) for name in _LAW_COLUMNS), _mark(law))
        for law in one["laws"]
    ]
    counted = f"{jobs} run{'s' * (jobs != 1)} at {len(observations)} size{'s' * (len(observations) != 1)}"
    return grid(f"{say(one['series'])}: {counted}", _LAW_HEADER, rows, texts=2)


def _parameter(law: Mapping[str, Any], name: str) -> str:
    value, low, high = law[name], law.get(f"{name}_lo"), law.get(f"{name}_hi")
    if low is None and high is None:
        return number(value)
    return f"{number(value)} ({number(low)} to {number(high) or '?'})"


def _mark(law: Mapping[str, Any]) -> str:
    return "chosen" if law["is_chosen"] else ""


def _scaling(found: Mapping[str, Any] | None, *, is_faster: bool) -> str:
    if found is None and is_faster:
        return "No single law that gains from more processors could be chosen. The average of all laws gains."
    if found is None:
        return f"No law here gains {FASTER - 1:.0%} or more from more processors."
    largest, working = found["largest_useful_procs"], found["working_set_procs"]
    useful = f"{number(int(largest))} processors" if largest else "not bounded by the chosen law"
    efficient = (
        f"{number(working)} (speedup {number(found['working_set_speedup'])}, "
        f"efficiency {number(found['working_set_efficiency'])})"
        if working
        else "beyond what was searched"
    )
    lines = [f"Largest useful allocation by the chosen law: {useful}", f"Processor working set: {efficient}"]
    named = (("fastest", "time_optimal_procs"), *((f"{e}% efficient up to", f"efficiency_{e}_procs") for e in (80, 50)))
    known = [f"{words} {number(int(found[name]))}" for words, name in named if found[name]]
    lines += [f"By the average of all laws: {', '.join(known)} processors"] if known else []
    return "\n".join([*lines, say(found["advice"], 500)] if found["advice"] else lines)


def _ends(low_s: float | None, high_s: float | None) -> str:
    """An interval as text; `no bound` for an unknown upper end."""
    return f"{number(low_s)} to {number(high_s) or 'no bound'}"


def _predictions(rows: Sequence[Mapping[str, Any]]) -> Table:
    header = (
        "procs", "nodes", "runtime s", "80% of runs", "95% of runs", "speedup", "efficiency", "processor-hours", "cost",
        "reliability",
    )  # fmt: skip
    cells = [
        (
            number(row["procs"]),
            number(row.get("nodes")),
            number(row["runtime_s"]),
            _ends(row["runtime_s_lo80"], row["runtime_s_hi80"]),
            _ends(row["runtime_s_lo95"], row["runtime_s_hi95"]),
            number(row["speedup"]),
            number(row["efficiency"]),
            number(row.get("proc_hours")),
            number(row.get("price")),
            say(row["reliability"]),
        )
        for row in rows
    ]
    table = grid("Predictions", header, cells, texts=0)
    table.columns[-1].justify, table.columns[-1].overflow = "left", "fold"
    return table


def print_scaling(rows: Sequence[Mapping[str, Any]], report: Report) -> None:
    """Print median absolute errors; in brackets those of near targets, where larger sizes are predicted."""
    splits = list(dict.fromkeys(row["split"] for row in rows))
    cells = {(row["predictor"], row["split"]): row for row in rows}
    names = sorted(dict.fromkeys(row["predictor"] for row in rows), key=lambda name: _rank(mean_pct(rows, name)))
    body = [
        (say(name), *(_cell(cells[name, split]) for split in splits), _number(mean_pct(rows, name))) for name in names
    ]
    counts = f"{report.kept.rows} of {report.seen.rows} series"
    title = f"Median |predicted/measured - 1|, %; (up to 4 times the largest size given); {counts}"
    console().print(grid(title, ("predictor", *splits, "mean"), body))


def mean_pct(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """The mean of a predictor's medians, including those of near targets; None where one is unknown."""
    own = [row for row in rows if row["predictor"] == name]
    values = [row["median_abs_error_pct"] for row in own]
    values += [row["near_median_abs_error_pct"] for row in own if _has_near(row)]
    return None if any(value is None for value in values) else float(np.mean(values))


def _has_near(row: Mapping[str, Any]) -> bool:
    return bool(row["n_near"]) and row["split"].endswith("smallest")


def _rank(mean: float | None) -> float:
    return float("inf") if mean is None else mean


def _cell(row: Mapping[str, Any]) -> str:
    near = f" ({_number(row['near_median_abs_error_pct'])})" if _has_near(row) else ""
    return _number(row["median_abs_error_pct"]) + near


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def print_advice(found: Mapping[str, Any]) -> None:
    """Print the recommendation of each group, then notes on the whole run."""
    out = console()
    for group in found["groups"]:
        jobs, sizes = (f"{number(group[f'n_{what}s'])} {plural(what, group[f'n_{what}s'])}" for what in ("job", "size"))
        out.print(f"[bold]{say(group['label'], 300)}[/bold] ({jobs} at {sizes}; group {say(group['group_id'])})",
                  soft_wrap=True)  # fmt: skip
        for line in group["answer"] or ["No runtime is known on any count."]:
            out.print(f"  {say(line, 500)}", soft_wrap=True)
    for line in (omitted_groups_line(found["groups"], found["n_groups"]), *found["notes"]):
        if line:
            out.print(say(line, 500), soft_wrap=True)
