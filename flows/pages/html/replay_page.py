"""The replays as one page of HTML without network access; every text from a log is escaped."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from flows.pages.html.html_template import render_template
from flows.pages.html.replay_plots import changes_plot
from flows.pages.terminal.render_backtest import percent
from flows.services.replay.replaying import ReplayResult
from flows.services.replay.verdict import average_changes, best_case, medians, sentences, whole

USERS_LISTED = 200


def replay_page(found: Sequence[ReplayResult]) -> str:
    """The page of some logs' replays; the same results give the same bytes."""
    averages = [
        {"name": f"{policy}, {estimates}", **one} for (policy, estimates), one in average_changes(found).items()
    ]
    filters = {"share": percent, "change": lambda value: "" if value is None else f"{value:+.0%}", "hours": _hours}
    logs = [_log(result) for result in found]
    return render_template("replay.html", filters, logs=logs, averages=averages if len(found) > 1 else [])


def _log(result: ReplayResult) -> dict[str, Any]:
    rows = result.table.to_pylist()
    cases = [dict(row) for row in whole(rows)]
    by_statistic = {(row["policy"], row["estimates"], row["statistic"]): row for row in rows if row["part"] == "all"}
    for row in cases:
        row["low"], row["high"] = (
            by_statistic.get((row["policy"], row["estimates"], one), {}).get("slowdown_change")
            for one in ("q25", "q75")
        )
    case = best_case(rows)
    own = [row for row in medians(rows) if (row["policy"], row["estimates"]) == case]
    users = sorted((row for row in own if row["part"] == "user"), key=lambda row: -row["wait_change_s"] * row["n_jobs"])
    return {
        "name": result.log,
        "sentences": sentences(result),
        "cases": cases,
        "case": ", ".join(case) if case else "",
        "sizes": [row for row in own if row["part"] == "size"],
        "users": users[:USERS_LISTED],
        "n_users": len(users),
        "left_out": result.counts,
        "plot": Markup(changes_plot(cases)),  # noqa: S704 # nosec B704 # drawn and escaped by replay_plots
    }


def _hours(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds / 3600:,.2f}"
