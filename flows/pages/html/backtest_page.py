"""The page of a backtest: tables and plots."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from markupsafe import Markup
from matplotlib.axes import Axes

from flows.pages.formats import fixed, percent
from flows.pages.html.drawing import COLOURS, curve, named_ticks, panel, per_cent, render_template, rule, styled, to_svg
from flows.services.backtesting import ranked, way_of, ways_of
from pipeline.evaluate.backtest import TRAIN_SHARE

Row = Mapping[str, Any]
QUANTILES_PCT = (10, 50, 80, 90, 95, 99)
BY_PART: dict[str, tuple[str, str, str, float | None]] = {
    "month_error": ("month", "mae_over_mean", "error over mean runtime", None),
    "size_error": ("size", "mae_over_mean", "error over mean runtime", None),
    "month_80": ("month", "coverage_80", "jobs in the interval", 0.80),
    "month_q95": ("month", "coverage_q95", "jobs under the quantile", 0.95),
}
"""The plots by part of the log: the part, the column of BACKTEST, its axis, and its nominal value if it has one."""
PARTS = {"month": "month of submit", "size": "requested processors"}
DRAWN = 8
"""Number of methods drawn, each in its own colour; the others are in the tables only."""


def plots(rows: Sequence[Row], methods: Sequence[str]) -> dict[str, Markup]:
    """SVG by name from one log's rows of BACKTEST; `methods` best first. Empty plots are left out."""
    shown = methods[:DRAWN]
    with styled():
        drawn = {name: _by_part(rows, shown, *plot) for name, plot in BY_PART.items()}
        drawn["quantiles"] = _quantiles(rows, shown)
    return {name: svg for name, svg in drawn.items() if svg is not None}


def colour_of(place: int) -> str:
    """The CSS variable of the method at this rank."""
    return "best" if place == 0 else f"m{place}"


def _by_part(
    rows: Sequence[Row], methods: Sequence[str], part: str, column: str, axis: str, nominal: float | None
) -> Markup | None:
    own = [row for row in rows if row["part"] == part and row[column] is not None]
    # Months are sorted by time; sizes already come in rising order.
    values = list(dict.fromkeys(row["part_value"] for row in own))
    values = sorted(values) if part == "month" else values
    if not values:
        return None
    figure, axes = panel(2.5)
    for place, method in reversed(list(enumerate(methods))):
        at = {row["part_value"]: row[column] for row in own if row["estimator"] == method}
        width, heights = 2.0 if place == 0 else 1.0, [at.get(value, np.nan) for value in values]
        style: dict[str, Any] = {"linewidth": width, "markersize": width + 1.2, "gid": f"method-{place}"}
        curve(axes, range(len(values)), heights, colour=colour_of(place), **style)
    if nominal is not None:
        rule(axes.axhline, nominal, linestyle=(0, (5, 3)))
        per_cent(axes.yaxis)
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
    named_ticks(axes.xaxis, {place: names[place] for place in range(0, len(names), step)})
    axes.set_xlim(-0.5, len(names) - 0.5)


def _quantiles(rows: Sequence[Row], methods: Sequence[str]) -> Markup | None:
    """The share of jobs under each quantile less its nominal share, in percentage points."""
    whole = {row["estimator"]: row for row in rows if row["part"] == "all"}
    drawn = [method for method in methods if whole[method]["coverage_80"] is not None]
    if not drawn:
        return None
    figure, axes = panel(2.3)
    width = 0.8 / len(drawn)
    for nth, method in enumerate(drawn):
        off = [100 * whole[method][f"coverage_q{q}"] - q for q in QUANTILES_PCT]
        places = np.arange(len(QUANTILES_PCT)) + (nth - (len(drawn) - 1) / 2) * width
        axes.bar(places, off, width * 0.9, color=COLOURS[colour_of(methods.index(method))])
    rule(axes.axhline, 0)
    _name_ticks(axes, [f"{q}% quantile" for q in QUANTILES_PCT])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:+.0f}")
    axes.set_ylabel("points off nominal")
    return to_svg(figure, f"Share of jobs under each quantile less its nominal share, for {', '.join(drawn)}.")


PARTS_LISTED = 400


def backtest_page(table: pa.Table) -> str:
    """The page of a table BACKTEST, for the first way of its estimates; the same table gives the same bytes."""
    rows = table.to_pylist()
    rows = [row for row in rows if way_of(row) == ways_of(rows)[0]]
    logs = [_log([row for row in rows if row["log"] == name]) for name in dict.fromkeys(row["log"] for row in rows)]
    filters: dict[str, Callable[..., Any]] = {"brief": partial(fixed, digits=0), "share": percent, "two": fixed}
    return render_template("backtest.html", filters, logs=logs, train_share=TRAIN_SHARE)


def _log(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    whole = ranked([row for row in rows if row["part"] == "all"])
    methods = [row["estimator"] for row in whole]
    best = methods[0]
    parts = [row for row in rows if row["estimator"] == best and row["part"] in ("month", "size")]
    return {
        "name": rows[0]["log"],
        "whole": [dict(row) | {"colour": colour_of(place)} for place, row in enumerate(whole)],
        "best": whole[0],
        "n_drawn": DRAWN,
        "plots": plots(rows, methods),
        "worst": [row for row in rows if row["estimator"] == best and row["part"].startswith("fortnight")],
        "parts": parts[:PARTS_LISTED],
    }
