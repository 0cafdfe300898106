"""What `walltime backtest` prints: errors of methods, of published predictions, and the templates found."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from flows.pages.formats import fixed, percent, points, signed
from flows.pages.terminal.blocks import Block, Column, Grid, text, wrote
from flows.services.backtesting import BacktestResult, ranked

Row = Mapping[str, Any]

METHODS_SHOWN = 6
"""Methods shown by month or size, as more do not fit a terminal; --out has all."""


METHODS = (
    text("method", "estimator"),
    Column("error s", "mae_s"),
    Column("over mean", "mae_over_mean", fixed),
    Column("median %", "median_abs_pct", partial(fixed, digits=0)),
    Column("too short", "share_under", percent),
    Column("in 80%", "coverage_80", percent),
    Column("under q95", "coverage_q95", percent),
    Column("q95/request", "q95_over_request", fixed),
    Column("fell back", lambda row: row["n_fallback"] / row["n_jobs"], percent),
    Column("jobs/CPU s", "pace", least_width=100),
)
OTHER_WAYS = tuple(one for one in METHODS if one.heading not in ("median %", "too short", "q95/request", "jobs/CPU s"))
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


def view_backtest(
    found: Sequence[BacktestResult], by: str | None, written: Mapping[str, Path], *, checks_leaks: bool = False
) -> Iterator[Block]:
    """A table per log, the best method first and marked; also by month or size if `by` is given."""
    for result in found:
        yield _methods(result)
        yield from _worst(result)
        yield from _beside_live(result)
        yield from _blank(result)
        for way in result.ways[1:]:
            yield from ("", Grid(f"{result.log}, {knowledge(way)}", OTHER_WAYS, ranked(result.rows("all", way))))
            yield from _change(result, way)
        if by:
            yield from ("", _parts(result, by))
        yield ""
    if checks_leaks:
        yield "No method used what was not yet known."
    yield from wrote(written)


def _methods(result: BacktestResult) -> Grid:
    n_learnt = result.report.set_aside["learnt_from"].rows
    title = f"{result.log}: {result.report.kept.rows:,} jobs scored, the {n_learnt:,} before them learnt from"
    if result.ways[0]["stale_days"] is not None:
        title += f"; {knowledge(result.ways[0])}"
    n_estimated = result.report.kept.rows + n_learnt
    paces = {name: round(n_estimated / cpu_s) for name, cpu_s in result.cpu_s.items() if cpu_s}
    rows = [{**row, "pace": paces.get(row["estimator"])} for row in result.ranked]
    rows[0]["estimator"] += " *"
    return Grid(title, METHODS, rows, n_bold=1)


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
    title = f"{result.log}, {knowledge(known)}: changes without learning from the jobs that cleaning sets aside"
    yield from ("", Grid(title, CHANGES, rows))


def knowledge(way: Row) -> str:
    """What the estimates of a way knew, in words."""
    days = way["stale_days"]
    age = "" if days is None else f"{days:g} day{'' if days == 1 else 's'}"
    known = f"known at the last midnight at least {age} before" if age else "known at the submit"
    return known + ("" if way["learnt_from"] == "all" else ", not learnt from the jobs that cleaning sets aside")


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
            yield (
                f"* {row['estimator']} has no figure of its error: "
                + (
                    "it answered no job."
                    if row["n_unanswered"] == row["n_jobs"]
                    else "it lets some jobs run without end."
                )
            )


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
        Column("in 80%", of(best, "coverage_80"), percent),
        Column("under q95", of(best, "coverage_q95"), percent),
    ]
    return Grid(f"{result.log} by {by}: error over mean runtime; coverage of {best}", columns, parts.items())


def view_later(found: Sequence[Row]) -> Iterator[Block]:
    """Per log coverage, width and error by days ahead and subset of jobs."""
    for one in found:
        rows = [
            {"days": at["days"], "rows": name, **part} for at in one["rows"] for name, part in at.items()
            if name != "days" and part["jobs"]
        ]  # fmt: skip
        yield Grid(f"{one['log']}: predictions on later jobs", LATER, rows)
