"""What `walltime backtest` answers: errors of methods and of published predictions, with a page of charts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from flows.pages.formats import fixed, percent, points, signed
from flows.pages.html import drawing
from flows.pages.terminal.blocks import (
    Block,
    Chart,
    Column,
    Detail,
    Figure,
    Figures,
    Grid,
    Heading,
    Mark,
    text,
    wrote,
)
from flows.services.backtesting import BacktestResult, ranked
from pipeline.evaluate.backtest import TRAIN_SHARE

Row = Mapping[str, Any]
Rows = Sequence[Row]

BY = {"month": "month of submit", "size": "requested processors"}
"""The parts of a log, with what their axes say."""

METHODS_SHOWN = 6
"""Methods shown by month or size, as more do not fit a terminal; --out has all."""

METHODS = (
    text("method", "estimator"),
    Column("error s", "mae_s", told="mean absolute error"),
    Column("over mean", "mae_over_mean", fixed, told="mean absolute error over mean runtime"),
    Column("median %", "median_abs_pct", partial(fixed, digits=0), told="median error of a job's runtime"),
    Column("too short", "share_under", percent, told="estimated too short"),
    Column("in 80%", "coverage_80", percent, told="jobs inside the 80% interval"),
    *(Column(f"under q{q}", f"coverage_q{q}", percent, is_detail=q != 95) for q in (50, 90, 95, 99)),
    Column("q95/request", "q95_over_request", fixed, told="medians compared"),
    Column("pinball q95 s", "pinball_q95_s", partial(fixed, digits=0), is_detail=True),
    Column("fell back", lambda row: row["n_fallback"] / row["n_jobs"], percent, told="the method had no answer"),
    Column("jobs/CPU s", "pace", least_width=100),
)
OTHER_WAYS = tuple(
    one
    for one in METHODS
    if one.heading not in ("median %", "too short", "q95/request", "jobs/CPU s") and not one.is_detail
)
COVERAGES = ("in 80%", "under q95")
OF_BEST = tuple(
    replace(one, is_detail=one.heading not in COVERAGES)
    for one in METHODS
    if one.heading in ("error s", "median %", "too short", *COVERAGES)
)
"""What is shown of the best method by month or size, beside the errors of all."""
CHANGES = (
    text("method", "estimator"),
    Column("error s", "mae_s", partial(signed, digits=1)),
    Column("over mean", "mae_over_mean", partial(signed, digits=3)),
    Column("in 80%, points", "coverage_80", points),
    Column("under q95, points", "coverage_q95", points),
)


def _percent(heading: str, name: str) -> Column:
    return Column(heading, name, lambda share: f"{100 * share:.1f}")


LATER = (
    text("days", form="{:g}".format),
    Column("rows"),
    Column("jobs"),
    _percent("in 80%", "in_80"),
    _percent("in 95%", "in_95"),
    Column("width 80%", "width_80"),
    _percent("median %", "median_error"),
    _percent("ok %", "ok_share"),
)


INTRO = (
    "Each log is replayed in order of submit. Every method estimates a job's runtime only from jobs that had ended by "
    f"its submit. The first {TRAIN_SHARE:.1%} of the jobs are used for training; the rest are scored, the same jobs "
    "for every method. Where a method has no answer, the request is used, or else the quantiles of the log so far.",
)
FOOTER = "Papers report a mean absolute error of 29% to 59% of the mean runtime (Smith, Foster and Taylor 1998; 2004)."


def backtest_blocks(
    found: Sequence[BacktestResult],
    by: str | None = None,
    written: Mapping[str, Path] | None = None,
    *,
    checks_leaks: bool = False,
) -> Iterator[Block]:
    """A table per log, the best method first and marked, with charts on a page; by month or size if `by` is given."""
    for result in found:
        yield Detail([Heading(result.log), _figures(result.ranked[0])])
        yield _methods(result)
        yield from _worst(result)
        yield from _beside_live(result)
        yield from _blank(result)
        yield from _charts(result)
        for way in result.ways[1:]:
            yield from ("", Grid(f"{result.log}, {knowledge(way)}", OTHER_WAYS, ranked(result.rows("all", way))))
            yield from _change(result, way)
        if by:
            yield from ("", _parts(result, by))
        yield Detail([_parts(result, part) for part in BY if part != by])
        yield ""
    if checks_leaks:
        yield "No method used what was not yet known."
    yield from wrote(written or {})


def backtest_page(found: Sequence[BacktestResult]) -> str:
    """The page of some logs' backtests, without CPU times: the same logs and settings give the same bytes."""
    from flows.pages.html.page import page_of  # noqa: PLC0415  (a terminal needs no templates)

    blocks = backtest_blocks([replace(result, cpu_s={}) for result in found])
    return page_of("Backtest", "Errors of the estimates", blocks, INTRO, FOOTER)


def _figures(best: Row) -> Figures:
    """What the best method reached."""
    figures = {
        "mean absolute error over the mean runtime": fixed(best["mae_over_mean"]),
        "median error of a job's runtime": fixed(best["median_abs_pct"], 0) + "%",
        "of jobs inside the 80% interval": percent(best["coverage_80"]),
        "of jobs no longer than the 95% quantile": percent(best["coverage_q95"]),
        "of the request is the 95% quantile, medians compared": fixed(best["q95_over_request"]),
    }
    return Figures([Figure(value, meaning) for meaning, value in figures.items() if value not in ("", "%")])


def _methods(result: BacktestResult) -> Grid:
    n_learnt = result.report.set_aside["learnt_from"].rows
    title = f"{result.log}: {result.report.kept.rows:,} jobs scored, the {n_learnt:,} before them used for training"
    if result.ways[0]["stale_days"] is not None:
        title += f"; {knowledge(result.ways[0])}"
    n_estimated = result.report.kept.rows + n_learnt
    paces = {name: round(n_estimated / cpu_s) for name, cpu_s in result.cpu_s.items() if cpu_s}
    rows = [{**row, "pace": paces.get(row["estimator"])} for row in result.ranked]
    rows[0]["estimator"] += " *"
    return Grid(title, METHODS, rows, n_bold=1, colours=[drawing.colour_of(place) for place in range(len(rows))])


def _change(result: BacktestResult, way: Row) -> Iterator[Block]:
    """The change from leaving out flagged jobs; nothing where the way includes them or has no counterpart."""
    known = {**way, "learnt_from": "all"}
    before = {row["estimator"]: row for row in result.rows("all", known)}
    if way["learnt_from"] == "all" or not before:
        return
    names, rows = [str(column.value) for column in CHANGES[1:]], []
    for row in ranked(result.rows("all", way)):
        pairs = {name: (row[name], before[row["estimator"]][name]) for name in names}
        changes = {name: None if None in pair else pair[0] - pair[1] for name, pair in pairs.items()}
        rows.append({"estimator": row["estimator"], **changes})
    title = f"{result.log}, {knowledge(known)}: changes without training on the jobs that cleaning sets aside"
    yield from ("", Grid(title, CHANGES, rows))


def knowledge(way: Row) -> str:
    """What the estimates of a way knew, in words."""
    days = way["stale_days"]
    age = "" if days is None else f"{days:g} day{'' if days == 1 else 's'}"
    known = f"known at the last midnight at least {age} before" if age else "known at the submit"
    return known + ("" if way["learnt_from"] == "all" else ", trained without the jobs that cleaning sets aside")


def _worst(result: BacktestResult) -> list[str]:
    best = result.ranked[0]["estimator"]
    held = {"fortnight_80": ("coverage_80", "80% interval"), "fortnight_q95": ("coverage_q95", "95% quantile")}
    return [
        f"* Worst fortnight of {best}: from {row['part_value']} on its {held[part][1]} held "
        f"{percent(row[held[part][0]])} of {row['n_jobs']:,} jobs."
        for part in held
        for row in result.rows(part)
        if row["estimator"] == best
    ]


def _beside_live(result: BacktestResult) -> Iterator[str]:
    """The error of rows of the table at each age beside that of the estimate at the submit, where both are scored."""
    every = [row for way in result.ways for row in result.rows("all", way) if row["learnt_from"] == "all"]
    live = [row["mae_s"] for row in every if row["estimator"] == "walltime" and row["stale_days"] is None]
    for row in every:
        if live and live[0] and row["estimator"] == "table":
            days = row["stale_days"] or 0.0
            yield (
                f"* Rows of the table that are read {days:g} to {days + 1:g} days after their midnight: error "
                f"{row['mae_s']:,.0f} s, {row['mae_s'] / live[0]:.2f} times that of walltime at the submit."
            )


def _blank(result: BacktestResult) -> Iterator[str]:
    for row in result.ranked:
        if row["mae_s"] is None:
            is_silent = row["n_unanswered"] == row["n_jobs"]
            why = "it answered no job" if is_silent else "it lets some jobs run without end"
            yield f"* {row['estimator']} has no figure of its error: {why}."


def _parts(result: BacktestResult, by: str) -> Grid:
    """A row per month or size: error over mean runtime of the best methods, and coverage of the best one."""
    methods = [row["estimator"] for row in result.ranked][:METHODS_SHOWN]
    parts: dict[str, dict[str, Row]] = {}
    for row in result.rows(by):
        parts.setdefault(row["part_value"], {})[row["estimator"]] = row

    def of(method: str, name: str) -> Any:
        return lambda part: part[1][method][name]

    best = methods[0]
    columns = [
        text(by, 0),
        Column("jobs", of(best, "n_jobs")),
        *(Column(method, of(method, "mae_over_mean"), fixed) for method in methods),
        *(
            replace(one, value=of(best, str(one.value)), is_detail=not one.heading.endswith(("80%", "q95")))
            for one in OF_BEST
        ),
    ]
    return Grid(f"{result.log} by {by}: error over mean runtime; coverage of {best}", columns, parts.items())


def _charts(result: BacktestResult) -> Iterator[Chart]:
    """The best N_RANKED methods; the others are in the tables only."""
    whole = result.ranked[: drawing.N_RANKED]
    legend = [Mark(row["estimator"], drawing.colour_of(place)) for place, row in enumerate(whole)]
    draw = partial(_by_part, result, [row["estimator"] for row in whole])
    for part, words in BY.items():
        caption = f"Mean absolute error over mean runtime, by {words}."
        yield Chart(partial(draw, part, "mae_over_mean", None), caption, legend, f"Error by {part}")
    covered = {
        "80% interval": ("coverage_80", 0.80, "from the 10% to the 90% quantile"),
        "95% quantile": ("coverage_q95", 0.95, "no longer than the 95% quantile"),
    }
    for name, (column, nominal, words) in covered.items():
        caption = f"Share of jobs {words}, by month; dashed: {nominal:.0%}."
        yield Chart(partial(draw, "month", column, nominal), caption, legend, f"Coverage of the {name}")
    caption = "Share of jobs under each quantile less its nominal share, in percentage points."
    yield Chart(partial(_quantiles, whole), caption, legend, "Coverage of the quantiles")


def _by_part(
    result: BacktestResult, methods: Sequence[str], part: str, column: str, nominal: float | None
) -> Markup | str:
    """A line per method, the best one on top; empty where nothing is known."""
    own = [row for row in result.rows(part) if row[column] is not None]
    # Months are sorted by time; sizes already come in rising order.
    values = list(dict.fromkeys(row["part_value"] for row in own))
    values = sorted(values) if part == "month" else values
    if not values:
        return ""
    figure, axes = drawing.panel(2.5)
    for place, method in reversed(list(enumerate(methods))):
        at = {row["part_value"]: row[column] for row in own if row["estimator"] == method}
        width, heights = 2.0 if place == 0 else 1.0, [at.get(value, np.nan) for value in values]
        style: dict[str, Any] = {"linewidth": width, "markersize": width + 1.2, "gid": f"method-{place}"}
        drawing.curve(axes, range(len(values)), heights, colour=drawing.colour_of(place), **style)
    if nominal is not None:
        drawing.rule(axes.axhline, nominal, linestyle=(0, (5, 3)))
        drawing.per_cent(axes.yaxis)
        axes.set_ylim(top=1.0)
    else:
        axes.set_ylim(bottom=0.0)
    _name_ticks(axes, values)
    axis = "error over mean runtime" if nominal is None else "share of jobs"
    axes.set(xlabel=BY[part], ylabel=axis)
    alt = f"{axis.capitalize()} by {BY[part]}, {values[0]} to {values[-1]}, a line for each of {', '.join(methods)}."
    return drawing.to_svg(figure, alt, {f"method-{place}": method for place, method in enumerate(methods)})


def _name_ticks(axes: Any, names: Sequence[str]) -> None:
    step = max(1, len(names) // 14)
    drawing.named_ticks(axes.xaxis, {place: names[place] for place in range(0, len(names), step)})
    axes.set_xlim(-0.5, len(names) - 0.5)


def _quantiles(whole: Rows) -> Markup | str:
    """The share of jobs under each quantile less its nominal share, in percentage points; empty where unknown."""
    drawn = [(place, row) for place, row in enumerate(whole) if row["coverage_80"] is not None]
    if not drawn:
        return ""
    quantiles_pct = (10, 50, 80, 90, 95, 99)
    figure, axes = drawing.panel(2.3)
    width = 0.8 / len(drawn)
    for nth, (place, row) in enumerate(drawn):
        off = [100 * row[f"coverage_q{q}"] - q for q in quantiles_pct]
        at = np.arange(len(quantiles_pct)) + (nth - (len(drawn) - 1) / 2) * width
        axes.bar(at, off, width * 0.9, color=drawing.COLOURS[drawing.colour_of(place)])
    drawing.rule(axes.axhline, 0)
    _name_ticks(axes, [f"{q}% quantile" for q in quantiles_pct])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:+.0f}")
    axes.set_ylabel("points off nominal")
    names = ", ".join(row["estimator"] for _, row in drawn)
    return drawing.to_svg(figure, f"Share of jobs under each quantile less its nominal share, for {names}.")


def view_later(found: Sequence[Row]) -> Iterator[Block]:
    """Per log coverage, width and error by days ahead and subset of jobs."""
    for one in found:
        rows = [
            {"days": at["days"], "rows": name, **part} for at in one["rows"] for name, part in at.items()
            if name != "days" and part["jobs"]
        ]  # fmt: skip
        yield Grid(f"{one['log']}: predictions on later jobs", LATER, rows)
