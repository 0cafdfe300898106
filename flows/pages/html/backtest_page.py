"""The backtest as one page of HTML without network access; every text from a log is escaped."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from markupsafe import Markup

from flows.pages.html.backtest_plots import DRAWN, colour_of, plots
from flows.pages.html.html_template import render_template
from flows.pages.terminal.render_backtest import fixed, percent
from flows.services.backtest.backtesting import ranked, way_of, ways_of
from pipeline.core.settings import BacktestSettings

PARTS_LISTED = 400


def backtest_page(table: pa.Table, settings: BacktestSettings) -> str:
    """The page of a table BACKTEST, for the first way of its estimates; the same table gives the same bytes."""
    rows = table.to_pylist()
    rows = [row for row in rows if way_of(row) == ways_of(rows)[0]]
    logs = [_log([row for row in rows if row["log"] == name]) for name in dict.fromkeys(row["log"] for row in rows)]
    filters: dict[str, Callable[..., Any]] = {"brief": partial(fixed, digits=0), "share": percent, "two": fixed}
    return render_template("backtest.html", filters, logs=logs, train_share=settings.train_share)


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
