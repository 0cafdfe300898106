"""The pages of a backtest and of replays, each one file without network access; every text from a log is escaped."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from markupsafe import Markup
from matplotlib.axes import Axes

from flows.pages.formats import signed_percent
from flows.pages.html import drawing
from flows.pages.html.drawing import N_RANKED, colour_of, curve, to_svg
from flows.pages.terminal.view_replay import cases_with_quartiles
from flows.services.backtesting import ranked, way_of, ways_of
from pipeline.evaluate.backtest import TRAIN_SHARE
from pipeline.schedule.verdict import ReplayResult, average_changes, best_case, case_of, medians, sentences
from pipeline.schedule.what_if import WITH_METHOD

Rows = Sequence[Mapping[str, Any]]
QUANTILES_PCT = (10, 50, 80, 90, 95, 99)
BY_PART: dict[str, tuple[str, str, str, float | None]] = {
    "month_error": ("month", "mae_over_mean", "error over mean runtime", None),
    "size_error": ("size", "mae_over_mean", "error over mean runtime", None),
    "month_80": ("month", "coverage_80", "jobs in the interval", 0.80),
    "month_q95": ("month", "coverage_q95", "jobs under the quantile", 0.95),
}
"""The plots by part of the log: the part, the column of BACKTEST, its axis, and its nominal value if it has one."""
PARTS = {"month": "month of submit", "size": "requested processors"}
PARTS_LISTED = 400


def backtest_page(table: pa.Table) -> str:
    """The page of a table BACKTEST, for the first way of its estimates; the same table gives the same bytes.

    The best N_RANKED methods are drawn; the others are in the tables only.
    """
    rows = table.to_pylist()
    rows = [row for row in rows if way_of(row) == ways_of(rows)[0]]
    names = dict.fromkeys(row["log"] for row in rows)
    logs = [_backtest([row for row in rows if row["log"] == name]) for name in names]
    return drawing.render_template("backtest.html", logs=logs, train_share=TRAIN_SHARE, n_drawn=N_RANKED)


def _backtest(rows: Rows) -> dict[str, Any]:
    whole = ranked([row for row in rows if row["part"] == "all"])
    methods = [row["estimator"] for row in whole]
    own = [row for row in rows if row["estimator"] == methods[0]]
    with drawing.styled():
        plots = {name: _by_part(rows, methods[:N_RANKED], *plot) for name, plot in BY_PART.items()}
        plots["quantiles"] = _quantiles(whole[:N_RANKED])
    return {
        "name": rows[0]["log"],
        "whole": whole,
        "best": whole[0],
        "plots": {name: svg for name, svg in plots.items() if svg is not None},
        "worst": [row for row in own if row["part"].startswith("fortnight")],
        "parts": [row for row in own if row["part"] in PARTS][:PARTS_LISTED],
    }


def _by_part(
    rows: Rows, methods: Sequence[str], part: str, column: str, axis: str, nominal: float | None
) -> Markup | None:
    """A line per method, the best one on top; None where nothing is known."""
    own = [row for row in rows if row["part"] == part and row[column] is not None]
    # Months are sorted by time; sizes already come in rising order.
    values = list(dict.fromkeys(row["part_value"] for row in own))
    values = sorted(values) if part == "month" else values
    if not values:
        return None
    figure, axes = drawing.panel(2.5)
    for place, method in reversed(list(enumerate(methods))):
        at = {row["part_value"]: row[column] for row in own if row["estimator"] == method}
        width, heights = 2.0 if place == 0 else 1.0, [at.get(value, np.nan) for value in values]
        style: dict[str, Any] = {"linewidth": width, "markersize": width + 1.2, "gid": f"method-{place}"}
        curve(axes, range(len(values)), heights, colour=colour_of(place), **style)
    if nominal is not None:
        drawing.rule(axes.axhline, nominal, linestyle=(0, (5, 3)))
        drawing.per_cent(axes.yaxis)
        axes.set_ylim(top=1.0)
    else:
        axes.set_ylim(bottom=0.0)
    _name_ticks(axes, values)
    axes.set(xlabel=PARTS[part], ylabel=axis)
    ends = f"{values[0]} to {values[-1]}"
    alt = f"{axis.capitalize()} by {PARTS[part]}, {ends}, a line for each of {', '.join(methods)}."
    return to_svg(figure, alt, {f"method-{place}": method for place, method in enumerate(methods)})


def _name_ticks(axes: Axes, names: Sequence[str]) -> None:
    step = max(1, len(names) // 14)
    drawing.named_ticks(axes.xaxis, {place: names[place] for place in range(0, len(names), step)})
    axes.set_xlim(-0.5, len(names) - 0.5)


def _quantiles(whole: Rows) -> Markup | None:
    """The share of jobs under each quantile less its nominal share, in percentage points; None where unknown."""
    drawn = [(place, row) for place, row in enumerate(whole) if row["coverage_80"] is not None]
    if not drawn:
        return None
    figure, axes = drawing.panel(2.3)
    width = 0.8 / len(drawn)
    for nth, (place, row) in enumerate(drawn):
        off = [100 * row[f"coverage_q{q}"] - q for q in QUANTILES_PCT]
        at = np.arange(len(QUANTILES_PCT)) + (nth - (len(drawn) - 1) / 2) * width
        axes.bar(at, off, width * 0.9, color=drawing.COLOURS[colour_of(place)])
    drawing.rule(axes.axhline, 0)
    _name_ticks(axes, [f"{q}% quantile" for q in QUANTILES_PCT])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:+.0f}")
    axes.set_ylabel("points off nominal")
    names = ", ".join(row["estimator"] for _, row in drawn)
    return to_svg(figure, f"Share of jobs under each quantile less its nominal share, for {names}.")


USERS_LISTED = 200


def replay_page(found: Sequence[ReplayResult]) -> str:
    """The page of some logs' replays; the same results give the same bytes."""
    logs = [_replay(result) for result in found]
    return drawing.render_template("replay.html", logs=logs, averages=average_changes(found) if len(found) > 1 else [])


def _replay(result: ReplayResult) -> dict[str, Any]:
    rows, cases = result.table.to_pylist(), cases_with_quartiles(result)
    case = best_case(rows)
    own = [row for row in medians(rows) if case_of(row) == case]
    users = sorted((row for row in own if row["part"] == "user"), key=lambda row: -row["wait_change_s"] * row["n_jobs"])
    return {
        "name": result.log,
        "sentences": sentences(result),
        "cases": cases,
        "case": case or "",
        "sizes": [row for row in own if row["part"] == "size"],
        "users": users[:USERS_LISTED],
        "n_users": len(users),
        "left_out": result.counts,
        "plot": changes_plot(cases),
    }


def changes_plot(cases: Rows) -> Markup:
    """SVG: per case a line between the quartiles of slowdown_change, and a dot at the median."""
    names = [case_of(row) for row in cases]
    with drawing.styled():
        figure, axes = drawing.panel(0.72 + 0.24 * len(cases), left=0.2)
        for place, row in enumerate(cases):
            colour = "best" if row["estimates"] in WITH_METHOD else "muted"
            if row["q25"] is not None and row["q75"] is not None:
                axes.plot([row["q25"], row["q75"]], [place, place], color=drawing.COLOURS[colour], linewidth=2)
            curve(axes, [row["slowdown_change"]], [place], colour=colour, markersize=5, gid=f"case-{place}")
        drawing.rule(axes.axvline, 0)
        drawing.per_cent(axes.xaxis)
        drawing.named_ticks(axes.yaxis, dict(enumerate(names)))
        axes.invert_yaxis()
        axes.set_xlabel("change of the mean bounded slowdown")
        changes = [signed_percent(row["slowdown_change"]) or "unknown" for row in cases]
        words = {f"case-{at}": f"{name}: {one}" for at, (name, one) in enumerate(zip(names, changes, strict=True))}
        return to_svg(figure, f"Change of the mean bounded slowdown. {'; '.join(words.values())}.", words)
