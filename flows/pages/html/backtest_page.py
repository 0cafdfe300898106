"""The page of a backtest: tables and plots."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, PercentFormatter

from flows.pages.html.drawing import COLOURS, panel, render_template, styled, to_svg
from flows.pages.terminal.render import fixed, percent
from flows.services.backtesting import ranked, way_of, ways_of
from pipeline.evaluate.backtest import TRAIN_SHARE

Row = Mapping[str, Any]
QUANTILES_PCT = (10, 50, 80, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure of BACKTEST that is drawn by part: its column, its axis, and its nominal value if it has one."""

    column: str
    axis: str
    nominal: float | None = None


ERROR = Drawn("mae_over_mean", "error over mean runtime")
WITHIN_80 = Drawn("coverage_80", "jobs in the interval", 0.80)
UNDER_Q95 = Drawn("coverage_q95", "jobs under the quantile", 0.95)
PARTS = {"month": "month of submit", "size": "requested processors"}
DRAWN = 8
"""Number of methods drawn, each in its own colour; the others are in the tables only."""


def plots(rows: Sequence[Row], methods: Sequence[str]) -> dict[str, str]:
    """SVG by name from one log's rows of BACKTEST; `methods` best first. Empty plots are left out."""
    shown = methods[:DRAWN]
    drawers: dict[str, Callable[[], str | None]] = {
        "month_error": lambda: _by_part(rows, shown, "month", ERROR),
        "size_error": lambda: _by_part(rows, shown, "size", ERROR),
        "month_80": lambda: _by_part(rows, shown, "month", WITHIN_80),
        "month_q95": lambda: _by_part(rows, shown, "month", UNDER_Q95),
        "quantiles": lambda: _quantiles(rows, shown),
    }
    with styled():
        drawn = {name: draw() for name, draw in drawers.items()}
    return {name: svg for name, svg in drawn.items() if svg is not None}


def colour_of(place: int) -> str:
    """The CSS variable of the method at this rank."""
    return "best" if place == 0 else f"m{place}"


def _by_part(rows: Sequence[Row], methods: Sequence[str], part: str, drawn: Drawn) -> str | None:
    own = [row for row in rows if row["part"] == part and row[drawn.column] is not None]
    # Months are sorted by time; sizes already come in rising order.
    values = list(dict.fromkeys(row["part_value"] for row in own))
    values = sorted(values) if part == "month" else values
    if not values:
        return None
    figure, axes = panel(2.5)
    for place, method in reversed(list(enumerate(methods))):
        at = {row["part_value"]: row[drawn.column] for row in own if row["estimator"] == method}
        _line(axes, place, [at.get(value, np.nan) for value in values], f"method-{place}")
    if drawn.nominal is not None:
        axes.axhline(drawn.nominal, color=COLOURS["ink"], linewidth=0.8, linestyle=(0, (5, 3)))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_ylim(top=1.0)
    else:
        axes.set_ylim(bottom=0.0)
    _name_ticks(axes, values)
    axes.set(xlabel=PARTS[part], ylabel=drawn.axis)
    ends = f"{values[0]} to {values[-1]}"
    alt = f"{drawn.axis.capitalize()} by {PARTS[part]}, {ends}, a line for each of {', '.join(methods)}."
    return to_svg(figure, alt, {f"method-{place}": method for place, method in enumerate(methods)})


def _line(axes: Axes, place: int, values: Sequence[float], gid: str) -> None:
    width = 2.0 if place == 0 else 1.0
    colour = COLOURS[colour_of(place)]
    axes.plot(range(len(values)), values, color=colour, linewidth=width, marker="o", markersize=width + 1.2, gid=gid)


def _name_ticks(axes: Axes, names: Sequence[str]) -> None:
    step = max(1, len(names) // 14)
    places = list(range(0, len(names), step))
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_major_formatter(FixedFormatter([names[place] for place in places]))
    axes.set_xlim(-0.5, len(names) - 0.5)


def _quantiles(rows: Sequence[Row], methods: Sequence[str]) -> str | None:
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
    axes.axhline(0, color=COLOURS["ink"], linewidth=0.8)
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
    svgs = plots(rows, methods)
    parts = [dict(row) for row in rows if row["estimator"] == best and row["part"] in ("month", "size")]
    return {
        "name": rows[0]["log"],
        "whole": [dict(row) | {"colour": colour_of(place)} for place, row in enumerate(whole)],
        "best": whole[0],
        "drawn": [{"name": name, "colour": colour_of(place)} for place, name in enumerate(methods[:DRAWN])],
        "plots": {name: Markup(svg) for name, svg in svgs.items()},  # noqa: S704 # nosec B704 # drawn and escaped by backtest_plots
        "worst": [dict(row) for row in rows if row["estimator"] == best and row["part"].startswith("fortnight")],
        "parts": parts[:PARTS_LISTED],
    }
