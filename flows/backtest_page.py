"""The backtest as one page of HTML that needs no network; every text from a log is escaped."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from markupsafe import Markup

from flows.backtest_plots import DRAWN, colour_of, plots
from flows.pages import rendered
from pipeline.core.settings import BacktestSettings

PARTS_LISTED = 400


def page_of(table: pa.Table, settings: BacktestSettings) -> str:
    """The page of a BACKTEST table; the same table gives the same bytes."""
    rows = table.to_pylist()
    logs = [_log([row for row in rows if row["log"] == name]) for name in dict.fromkeys(row["log"] for row in rows)]
    filters = {"brief": brief, "share": share, "two": two}
    return rendered("backtest.html", filters, logs=logs, train_share=settings.train_share)


def _log(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    whole = sorted((row for row in rows if row["part"] == "all"), key=_error)
    methods = [row["estimator"] for row in whole]
    best = methods[0]
    svgs = plots(rows, methods)
    parts = [dict(row) for row in rows if row["estimator"] == best and row["part"] in ("month", "size")]
    return {
        "name": rows[0]["log"],
        "whole": [dict(row) | {"colour": colour_of(place)} for place, row in enumerate(whole)],
        "best": whole[0],
        "drawn": [{"name": name, "colour": colour_of(place)} for place, name in enumerate(methods[:DRAWN])],
        "plots": {name: Markup(svg) for name, svg in svgs.items()},  # noqa: S704 - our own drawing, escaped there
        "worst": [dict(row) for row in rows if row["estimator"] == best and row["part"].startswith("fortnight")],
        "parts": parts[:PARTS_LISTED],
    }


def _error(row: Mapping[str, Any]) -> float:
    return float("inf") if row["mae_s"] is None else float(row["mae_s"])


def brief(value: float | None) -> str:
    """A number for a person; nothing for null."""
    return "" if value is None else f"{value:,.0f}"


def two(value: float | None) -> str:
    """Two decimals; nothing for null."""
    return "" if value is None else f"{value:,.2f}"


def share(value: float | None) -> str:
    """A share in per cent; nothing for null."""
    return "" if value is None else f"{value:.1%}"
