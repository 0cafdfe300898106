"""The replays as one page of HTML without network access; every text from a log is escaped."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from flows.pages.formats import percent
from flows.pages.html.drawing import COLOURS, curve, named_ticks, panel, per_cent, render_template, rule, styled, to_svg
from pipeline.schedule.verdict import ReplayResult, average_changes, best_case, medians, sentences, whole


def changes_plot(cases: Sequence[Mapping[str, Any]]) -> Markup:
    """SVG: per case a line between the quartiles (`low`, `high`) of slowdown_change, and a dot at the median."""
    with styled():
        figure, axes = panel(0.72 + 0.24 * len(cases), left=0.2)
        for place, row in enumerate(cases):
            colour = "best" if row["estimates"] == "walltime" else "muted"
            if row["low"] is not None and row["high"] is not None:
                axes.plot([row["low"], row["high"]], [place, place], color=COLOURS[colour], linewidth=2)
            curve(axes, [row["slowdown_change"]], [place], colour=colour, markersize=5, gid=f"case-{place}")
        rule(axes.axvline, 0)
        per_cent(axes.xaxis)
        named_ticks(axes.yaxis, {place: f"{row['policy']}, {row['estimates']}" for place, row in enumerate(cases)})
        axes.invert_yaxis()
        axes.set_xlabel("change of the mean bounded slowdown")
        words = {f"case-{place}": _words(row) for place, row in enumerate(cases)}
        return to_svg(figure, f"Change of the mean bounded slowdown. {'; '.join(words.values())}.", words)


def _words(row: Mapping[str, Any]) -> str:
    """A case and its change, for a tooltip."""
    change = "unknown" if row["slowdown_change"] is None else f"{row['slowdown_change']:+.1%}"
    return f"{row['policy']}, {row['estimates']}: {change}"


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
        "plot": changes_plot(cases),
    }


def _hours(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds / 3600:,.2f}"
