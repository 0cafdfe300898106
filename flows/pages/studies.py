"""What `walltime backtest` and `replay` answer, as blocks and as a page: errors of methods, and what other estimates
would have gained.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from flows.pages import blocks as show
from flows.pages import charts
from flows.pages.blocks import Block, Column, Detail, Grid, Heading, columns, fixed, percent
from flows.services.studies import BacktestResult, ranked
from pipeline.evaluate.backtest import TRAIN_SHARE
from pipeline.schedule.verdict import ReplayResult, average_changes, by_case, by_merit, case_of, sentences
from pipeline.schedule.what_if import WITH_METHOD

Row = Mapping[str, Any]
Rows = Sequence[Row]

BY = {"month": "month of submit", "size": "requested processors"}
"""The parts of a log, with what their axes say."""

METHODS_SHOWN = 6
"""Methods shown by month or size, as more do not fit a terminal; --out has all."""

METHODS, OTHER_WAYS = (
    columns(table, fell_back=lambda row: row["n_fallback"] / row["n_jobs"]) for table in ("methods", "other_ways")
)
"""Other ways are estimates from older knowledge, or without the jobs that cleaning sets aside."""
IN_80, UNDER_95 = (next(one for one in METHODS if one.heading == name) for name in ("in 80%", "under q95"))

BACKTEST_INTRO = (
    "Each log is replayed in order of submit. Every method estimates a job's runtime only from jobs that had ended by "
    f"its submit. The first {TRAIN_SHARE:.1%} of the jobs are used for training; the rest are scored, the same jobs "
    "for every method. Where a method has no estimate, the request is used, or else the quantiles of the log so far.",
)
SOURCE = "Papers report a mean absolute error of 29% to 59% of the mean runtime (Smith, Foster and Taylor 1998; 2004)."


def backtest_blocks(
    found: Sequence[BacktestResult],
    by: str | None = None,
    written: Mapping[str, Path] | None = None,
    *,
    checks_leaks: bool = False,
) -> Iterator[Block]:
    """A table per log, the best method first and marked, with charts on a page; by month or size if `by` is given."""
    for result in found:
        yield Detail([Heading(result.log)])
        yield _methods(result)
        yield from _remarks(result)
        yield Detail(_charts(result))
        for way in result.ways[1:]:
            yield from ("", Grid(f"{result.log}, {knowledge(way)}", OTHER_WAYS, _with_changes(result, way)))
        if by:
            yield from ("", _parts(result, by))
        yield Detail([_parts(result, part) for part in BY if part != by])
        yield ""
    if checks_leaks:
        yield "No method used data from after a job's submit."
    yield from show.wrote(written or {})


def backtest_page(found: Sequence[BacktestResult]) -> str:
    """The page of some logs' backtests, without CPU times: the same logs and settings give the same bytes."""
    from flows.pages.page import page_of  # noqa: PLC0415  (a terminal needs no templates)

    blocks = backtest_blocks([replace(result, cpu_s={}) for result in found])
    return page_of("Backtest", "Errors of the estimates", blocks, BACKTEST_INTRO, SOURCE)


def _methods(result: BacktestResult) -> Grid:
    n_learnt = result.report.set_aside["learnt_from"].rows
    title = f"{result.log}: {result.report.kept.rows:,} jobs scored, the {n_learnt:,} before them used for training"
    if result.ways[0]["stale_days"] is not None:
        title += f"; {knowledge(result.ways[0])}"
    n_estimated = result.report.kept.rows + n_learnt
    paces = {name: round(n_estimated / cpu_s) for name, cpu_s in result.cpu_s.items() if cpu_s}
    rows = [{**row, "pace": paces.get(row["estimator"])} for row in result.ranked]
    rows[0]["estimator"] += " *"
    return Grid(title, METHODS, rows, n_bold=1, colours=[charts.colour_of(place) for place in range(len(rows))])


def _with_changes(result: BacktestResult, way: Row) -> list[dict[str, Any]]:
    """The rows of a way; one that leaves out flagged jobs also has the change from the way with them, if scored."""
    with_flagged = result.rows("all", {**way, "learnt_from": "all"}) if way["learnt_from"] != "all" else []
    before = {row["estimator"]: row for row in with_flagged}
    rows = [dict(row) for row in ranked(result.rows("all", way))]
    for row in rows:
        for name in ("mae_s", "mae_over_mean", "coverage_80", "coverage_q95"):
            pair = row[name], before.get(row["estimator"], {}).get(name)
            row[f"{name}_change"] = None if None in pair else pair[0] - pair[1]
    return rows


def knowledge(way: Row) -> str:
    """What the estimates of a way knew, in words."""
    days = way["stale_days"]
    age = "" if days is None else f"{days:g} day{'' if days == 1 else 's'}"
    known = f"known at the last midnight at least {age} before" if age else "known at the submit"
    return known + ("" if way["learnt_from"] == "all" else ", trained without the jobs that cleaning sets aside")


def _remarks(result: BacktestResult) -> Iterator[str]:
    """The best method's worst fortnights, the errors of a table by its age, and the methods without a figure."""
    best = result.ranked[0]["estimator"]
    levels = {"fortnight_80": ("coverage_80", "80% interval"), "fortnight_q95": ("coverage_q95", "95% quantile")}
    for part, (name, level) in levels.items():
        for row in result.rows(part):
            if row["estimator"] == best:
                yield (
                    f"* Worst two weeks of {best}: from {row['part_value']} on, its {level} contained "
                    f"{percent(row[name])} of {row['n_jobs']:,} jobs."
                )
    every = [row for way in result.ways for row in result.rows("all", way) if row["learnt_from"] == "all"]
    live = [row["mae_s"] for row in every if row["estimator"] == "walltime" and row["stale_days"] is None]
    for row in every:
        if live and live[0] and row["estimator"] == "table":
            days = row["stale_days"] or 0.0
            yield (
                f"* Rows of the table that are read {days:g} to {days + 1:g} days after their midnight: error "
                f"{row['mae_s']:,.0f} s, {row['mae_s'] / live[0]:.2f} times that of walltime at the submit."
            )
    for method in result.ranked:
        if method["mae_s"] is None:
            is_silent = method["n_unanswered"] == method["n_jobs"]
            why = "it gave no estimate for any job" if is_silent else "it lets some jobs run without end"
            yield f"* {method['estimator']} has no figure of its error: {why}."


def _parts(result: BacktestResult, by: str) -> Grid:
    """A row per month or size: error over mean runtime of the best methods, and coverage of the best one."""
    methods = [row["estimator"] for row in result.ranked][:METHODS_SHOWN]
    parts: dict[str, dict[str, Row]] = {}
    for row in result.rows(by):
        parts.setdefault(row["part_value"], {})[row["estimator"]] = row

    def of(method: str, name: str) -> Any:
        return lambda part: part[1][method][name]

    best = methods[0]
    shown = [
        show.text(by, 0),
        Column("jobs", of(best, "n_jobs")),
        *(Column(method, of(method, "mae_over_mean"), fixed) for method in methods),
        *(replace(one, value=of(best, str(one.value))) for one in (IN_80, UNDER_95)),
    ]
    return Grid(f"{result.log} by {by}: error over mean runtime; coverage of {best}", shown, parts.items())


def _charts(result: BacktestResult) -> Iterator[charts.Chart]:
    """The best charts.N_RANKED methods; the others are in the tables only."""
    for part, words in BY.items():
        caption = f"Mean absolute error over mean runtime, by {words}."
        yield _by_part(result, part, "mae_over_mean", None, f"Error by {part}", caption)
    caption = "Share of jobs from the 10% to the 90% quantile, by month; dashed: 80%."
    yield _by_part(result, "month", "coverage_80", 0.80, "Coverage of the 80% interval", caption)
    caption = "Share of jobs no longer than the 95% quantile, by month; dashed: 95%."
    yield _by_part(result, "month", "coverage_q95", 0.95, "Coverage of the 95% quantile", caption)


def _by_part(
    result: BacktestResult, part: str, column: str, nominal: float | None, title: str, caption: str
) -> charts.Chart:
    """A line per method, the best one on top, against the nominal share if there is one."""
    known = [row for row in result.rows(part) if row[column] is not None]
    has_line = {row["estimator"] for row in known}
    ranked_first = enumerate(row["estimator"] for row in result.ranked[: charts.N_RANKED])
    methods = {method: place for place, method in ranked_first if method in has_line}
    # Months are sorted by time; sizes already come in rising order.
    values = list(dict.fromkeys(row["part_value"] for row in known))
    values = sorted(values) if part == "month" else values
    if not values:
        return charts.Chart("", ())
    marks: list[charts.Mark] = [charts.rule(y=nominal, dash="5 3")] if nominal else []
    for method, place in reversed(methods.items()):
        at = {row["part_value"]: row[column] for row in known if row["estimator"] == method}
        heights, width = [at.get(value, np.nan) for value in values], 2.0 if place == 0 else 1.0
        marks.append(charts.Line(range(len(values)), heights, charts.colour_of(place), width, title=method))
        marks.append(charts.Dots(range(len(values)), heights, charts.colour_of(place), width + 0.5))
    axis = (
        charts.Axis("share of jobs", charts.percent_label, (None, 1.0))
        if nominal
        else charts.Axis("error over mean runtime", ends=(0, None))
    )
    alt = (
        f"{axis.label.capitalize()} by {BY[part]}, {values[0]} to {values[-1]}, a line for each of "
        f"{', '.join(methods)}."
    )
    legend = [charts.Key(method, charts.colour_of(place)) for method, place in methods.items()]
    return charts.Chart(alt, [charts.Panel(marks, charts.named_steps(values, BY[part]), axis)], caption, legend, title)


CASES = columns("cases", case=case_of, guard=lambda row: "yes" if row["is_guarded"] else "no")
AVERAGES = columns("averages", case=case_of)

REPLAY_INTRO = (
    "Each log is scheduled again under each policy with each kind of estimates. Estimates are made as of each submit. "
    "No job is killed for a passed prediction. Bounded slowdown is response over runtime, both at least 10 s. Changes "
    "are from EASY backfilling with requests in the same replay; the bars reach from the lower to the upper quartile "
    "of the replays.",
)


def replay_facts(found: Sequence[ReplayResult], written: Mapping[str, Path]) -> dict[str, Any]:
    """Per log its facts, the sentences and every row; and the changes averaged over the logs with waits."""
    logs = [
        {
            "log": result.subject.log, "capacity": result.subject.work.capacity, "capacity_unit": result.unit,
            "capacity_from": result.capacity_from, "n_jobs": len(result.subject.work),
            "left_out_or_changed": dict(result.subject.work.counts), "has_waits": result.subject.has_waits,
            "log_utilisation": result.subject.log_utilisation, "sentences": sentences(result),
            "rows": result.table,
        }
        for result in found
    ]  # fmt: skip
    return {"logs": logs, "averages": average_changes(found), "written": written}


def replay_blocks(found: Sequence[ReplayResult], written: Mapping[str, Path] | None = None) -> Iterator[Block]:
    """Per log the sentences and a table of the cases, with sizes and users on a page; then the means over the logs."""
    for result in found:
        yield Detail([Heading(result.subject.log)])
        yield from sentences(result)
        yield ""
        cases = _cases_with_quartiles(result)
        yield Detail([_changes(cases)])
        title = f"{result.subject.log}: mean bounded slowdown, its change from EASY with requests, and waits"
        yield Grid(title, CASES, cases)
        yield Detail(_by_size_and_user(result))
    if len(found) > 1:
        left = sum(not result.subject.has_waits for result in found)
        title = "Mean over the logs of the slowdown's change" + (f"; {left} without waits left out" if left else "")
        yield Grid(title, AVERAGES, average_changes(found))
    yield from show.wrote(written or {})


def _cases_with_quartiles(result: ReplayResult) -> list[dict[str, Any]]:
    """The medians of each case, with the quartiles `q25` and `q75` of its change of the slowdown."""
    whole_rows = [parts["all"][None] for parts in by_case(result.table).values()]
    # One replay has no quartiles.
    return [
        {
            **row["median"],
            **{q: row[q]["slowdown_change"] if row["median"]["n_shakes"] else None for q in ("q25", "q75")},
        }
        for row in whole_rows
    ]


def _by_size_and_user(result: ReplayResult) -> Iterator[Block]:
    """Under the best case: sizes in rising order, and users, those who lose most first."""
    replayed = by_case(result.table)
    for best in by_merit(replayed)[:1]:
        for part, name in (("size", "processors"), ("user", "user")):
            rows = [found["median"] for found in replayed[case_of(best)][part].values()]
            if part == "user":
                rows.sort(key=lambda row: -row["wait_change_s"] * row["n_jobs"])
            named = show.text(name, "part_value", none="unknown")
            yield Grid(f"By {part}, {case_of(best)}", (named, *columns("parts")), rows)


def _changes(cases: Sequence[Row]) -> charts.Chart:
    """Per case a line between the quartiles of slowdown_change, and a dot at the median."""
    names = [case_of(row) for row in cases]
    marks: list[charts.Mark] = [charts.rule(x=0)]
    changes = [row["slowdown_change"] for row in cases]
    changed = ["unknown" if change is None else f"{show.signed(change, 1, 100)}%" for change in changes]
    words = [f"{name}: {change}" for name, change in zip(names, changed, strict=True)]
    for place, row in enumerate(cases):
        colour = "best" if row["estimates"] in WITH_METHOD else "muted"
        ends = [np.nan if row[name] is None else row[name] for name in ("q25", "slowdown_change", "q75")]
        marks.append(charts.Line(ends[::2], [place, place], colour, 2))
        marks.append(charts.Dots(ends[1:2], [place], colour, 3, titles=words[place : place + 1]))
    axis = charts.Axis("change of the mean bounded slowdown", charts.percent_label)
    return charts.Chart(
        f"Change of the mean bounded slowdown. {'; '.join(words)}.",
        [charts.Panel(marks, axis, charts.named_rows(names))],
        "Change of the mean bounded slowdown, by policy and estimates.",
        height=50 + 18 * len(cases),
        left=150,
    )


def replay_page(found: Sequence[ReplayResult]) -> str:
    """The page of some logs' replays; the same results give the same bytes."""
    from flows.pages.page import page_of  # noqa: PLC0415  (a terminal needs no templates)

    return page_of("Replay", "What other estimates would have gained", replay_blocks(found), REPLAY_INTRO)
