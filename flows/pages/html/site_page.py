"""The page of a site: one screen of charts with their numbers, and below it the tables that the numbers come from."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from flows.pages.formats import percent, signed, span
from flows.pages.html.drawing import COLOURS, card, curve, named_ticks, per_cent, rule, short, styled, to_svg
from flows.pages.terminal.blocks import Column, text
from pipeline.errors import printable

Rows = Sequence[Mapping[str, Any]]

PROMISED = 0.8
BARS = 6


def _known(value: Any) -> str:
    return str(value or "unknown")


def minute(made: str | None) -> str:
    """A time to the minute, as in 2026-11-24 15:12."""
    return (made or "")[:16]


def _change_of(name: str, night: Mapping[str, Any]) -> Any:
    return night["changes"][name]


def _changed(value: float | None) -> str:
    return signed(value, 0) if value else ""


def _waits(value: float | None) -> str:
    return "" if value is None else span(value)


APPLICATIONS = (
    text("application", lambda row: row["name"] or "jobs of no known application"),
    Column("processor-hours", "proc_hours"),
    Column("jobs", "n_jobs"),
    Column("kept", "n_kept"),
    Column("groups", "n_groups"),
    Column("reliable", "reliable_share", percent),
    Column("best count", "best_procs"),
    text("advice", lambda row: row["advice"] or "no kept job to learn from", limit=500),
)
USERS = (
    text("user or account", "user", form=_known),
    text("queue", form=_known),
    Column("processor-hours", "proc_hours"),
    Column("jobs", "n_jobs"),
    Column("kept", "n_kept"),
)
QUEUES = (
    text("queue", form=_known),
    Column("processor-hours", "proc_hours"),
    Column("jobs", "n_jobs"),
    Column("median wait", "wait_s", _waits),
    Column("90% waited less than", "wait_s_q90", _waits),
)
WORST = (
    text("job", "job_id"),
    text("ended", "day"),
    text("user or account", lambda row: row["user"] or row["account"], form=_known),
    text("application", form=_known),
    Column("processors", "procs"),
    Column("estimated", "runtime_s_q50", _waits),
    Column("took", "runtime_s", _waits),
    Column("requested", "requested_s", _waits),
    text("why", limit=300),
)
WASTE = (
    text("by", "kind"),
    text("name", lambda row: row["name"] or ("" if row["kind"] == "all" else "unknown")),
    *(
        Column(heading, name)
        for heading, name in {
            "jobs": "n_jobs", "processor-hours": "proc_hours", "unused": "unused_proc_hours", "with CPU time": "n_cpu",
            "GPU-hours": "gpu_hours", "unused GPU-hours": "unused_gpu_hours",
            "GPU-hours of GPU jobs on one processor": "one_proc_gpu_hours",
            "GiB-hours": "gib_hours", "unused GiB-hours": "unused_gib_hours", "reserved": "reserved_hours",
            "kWh": "energy_kwh", "unused kWh at most": "unused_kwh", "kg CO2e": "carbon_kg",
            "unused kg CO2e at most": "unused_carbon_kg",
        }.items()
    ),
    text("ask for instead", "ask", form="; ".join, limit=500),
)  # fmt: skip
CLEANING = (
    text("jobs", "name"),
    text("meaning", limit=500),
    Column("jobs", "jobs"),
    Column("processor-hours", "proc_hours"),
)
WEEKS = (
    text("week from", "week"),
    Column("jobs", "n_jobs"),
    Column("without an estimate", "n_unanswered"),
    Column("in 80%", "coverage_80", percent),
    Column("under q80", "coverage_q80", percent),
    Column("under q95", "coverage_q95", percent),
    Column("mean error over mean runtime", "mae_over_mean"),
)
PROMISE = (
    text("week from", "week"),
    Column("jobs", "n_jobs"),
    Column("in 80%", "coverage_80", percent),
    Column("at least", "lo95", percent),
    Column("at most", "hi95", percent),
)
LIMITS = (
    text("week from", "week"),
    Column("jobs planned shorter", "n_planned"),
    Column("of them in a dry run", "n_dry_run"),
    Column("raised", "n_raised"),
    Column("extensions at least", "n_extensions"),
    Column("processor-hours planned earlier", "earlier_proc_hours"),
    Column("ended before their request", "n_ended"),
)
FIGURES = {"jobs": "jobs", "set_aside": "set aside", "groups": "groups", "predictions": "predictions",
           "reliable": "reliable", "estimates": "estimates"}  # fmt: skip
CHANGES = ("jobs", "set_aside", "groups", "reliable")
NIGHTS = (
    text("made (UTC)", "made", form=minute),
    text("newest job (UTC)", "newest_job", form=minute),
    *(Column(heading, name) for name, heading in FIGURES.items()),
    *(Column(f"change of {FIGURES[name]}", partial(_change_of, name), _changed) for name in CHANGES),
    Column("in 80% later", "in_80_later", percent),
    text("template", lambda row: f"{row['template'] or ''}{' (new)' if row['new_template'] else ''}"),
)
STEPS = (text("step"), Column("seconds"), Column("rows"))
TEMPLATES = (
    text("template"),
    Column("error on later jobs", "error_later"),
    Column("covered", "share_covered"),
    Column("groups", "n_groups"),
    Column("series", "n_scaling_groups"),
    Column("score"),
    text("chosen", lambda row: row["why"] if row["is_chosen"] else "", limit=500),
)
"""Candidates for grouping, best first."""


def plots(facts: Mapping[str, Any]) -> dict[str, Markup | str]:
    """The charts of the first screen by name, as SVG; empty where there is nothing to draw."""
    with styled():
        return {
            "days": _days(facts["days"]),
            "promise": _promise(facts["promise"]),
            "limits": _limits(facts["limits"]["weeks"][::-1]),
            "waste": _waste(facts["waste"]),
            "nights": _nights(facts["nights"][::-1]),
        }


def _days(days: Rows) -> Markup | str:
    """Jobs by day of submit: a day without jobs is a gap in the log, or a quiet machine."""
    if not days:
        return ""
    first = np.datetime64(days[0]["day"])
    places = [int((np.datetime64(row["day"]) - first).astype(int)) for row in days]
    figure, axes = card()
    axes.bar(places, [row["n_jobs"] for row in days], color=COLOURS["kept"], width=0.8)
    axes.yaxis.set_major_formatter(short)
    named_ticks(axes.xaxis, {places[place]: days[place]["day"][5:] for place in (0, len(days) // 2, -1)})
    return to_svg(figure, f"Jobs submitted by day, {days[0]['day']} to {days[-1]['day']}.")


def _promise(weeks: Rows) -> Markup | str:
    """The share of jobs in their 80% interval by week, with its band, against the promise."""
    if not weeks:
        return ""
    figure, axes = card()
    places = list(range(len(weeks)))
    low, high = ([row[end] for row in weeks] for end in ("lo95", "hi95"))
    if len(weeks) > 1:
        axes.fill_between(places, low, high, facecolor=COLOURS["kept"], alpha=0.25)
    curve(axes, places, [row["coverage_80"] for row in weeks], colour="kept", markersize=3)
    rule(axes.axhline, PROMISED, linestyle=(0, (5, 3)))
    per_cent(axes.yaxis)
    axes.set_ylim(min(0.4, *low), 1.0)
    _weeks_below(axes, weeks)
    return to_svg(
        figure, "Share of jobs in the 80% interval by week, with its 95% band; the promise is the dashed line."
    )


def _limits(weeks: Rows) -> Markup | str:
    if not weeks:
        return ""
    figure, axes = card()
    places = list(range(len(weeks)))
    axes.bar(places, [row["n_planned"] for row in weeks], color=COLOURS["kept"], width=0.8)
    axes.bar(places, [row["n_raised"] for row in weeks], color=COLOURS["flurry"], width=0.8)
    axes.yaxis.set_major_formatter(short)
    _weeks_below(axes, weeks)
    return to_svg(figure, "Jobs planned with a shorter limit, by week; red: those whose limit had to be raised.")


def _weeks_below(axes: Axes, weeks: Rows) -> None:
    ends = dict.fromkeys((0, len(weeks) // 2, len(weeks) - 1))
    named_ticks(axes.xaxis, {place: weeks[place]["week"][2:] for place in ends})
    axes.get_xticklabels()[-1].set_horizontalalignment("right")


def _waste(rows: Rows) -> Markup | str:
    """Unused processor-hours of those that waste most; where the log names no application, those of accounts."""
    known = [row for row in rows if row["name"] and row["unused_proc_hours"]]
    kind = next((kind for kind in ("application", "account", "user") if any(r["kind"] == kind for r in known)), "")
    most = sorted((row for row in known if row["kind"] == kind), key=lambda row: -row["unused_proc_hours"])[:BARS]
    if not most:
        return ""
    figure, axes = card(left=0.32)
    axes.barh(range(len(most)), [row["unused_proc_hours"] for row in most], color=COLOURS["suspect"], height=0.7)
    names = [printable(f"{kind} {row['name']}", 18) for row in most]
    named_ticks(axes.yaxis, dict(enumerate(names)))
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.xaxis.set_major_formatter(short)
    return to_svg(figure, f"Unused processor-hours of {', '.join(names)}.")


def _nights(nights: Rows) -> Markup | str:
    known = [night for night in nights if night["reliable"] is not None]
    if len(known) < 2:
        return ""
    figure, axes = card()
    curve(axes, range(len(known)), [night["reliable"] for night in known], colour="kept", markersize=3)
    axes.set_ylim(0, None)
    axes.yaxis.set_major_formatter(short)
    named_ticks(axes.xaxis, {place: minute(known[place]["made"])[5:10] for place in (0, len(known) - 1)})
    return to_svg(figure, "Reliable predictions by night.")
